use chrono::{DateTime, Utc};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions, PutPayload};
use sha2::{Digest, Sha256};
use table_core::store::Result;
use uuid::Uuid;

use super::{ByteStream, blob_error};

/// Bytes of a part of an upload: stores want at least 5 MiB, and equal ones.
const PART: usize = 8 * 1024 * 1024;

/// What a blob holds, for checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) size: u64,
    pub(crate) hash: [u8; 32],
}

/// Content on its way out, a part at a time.
struct Parts {
    content: ByteStream,
    buffer: Vec<u8>,
    hash: Sha256,
    size: u64,
}

impl Parts {
    /// The next part; the last, perhaps empty, is shorter than [`PART`].
    async fn next(&mut self) -> Result<Vec<u8>> {
        while self.buffer.len() < PART {
            let Some(piece) = self.content.try_next().await? else {
                return Ok(std::mem::take(&mut self.buffer));
            };
            self.hash.update(&piece);
            self.size += piece.len() as u64;
            self.buffer.extend_from_slice(&piece);
        }
        let rest = self.buffer.split_off(PART);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    fn finish(self) -> Stored {
        Stored { size: self.size, hash: self.hash.finalize().into() }
    }
}

/// Writes a blob. One request up to 8 MiB; above, one for each part of 8 MiB and two more. Two parts
/// and a piece are in memory.
pub(crate) async fn put(store: &dyn ObjectStore, path: &Path, content: ByteStream) -> Result<Stored> {
    let mut parts = Parts { content, buffer: Vec::new(), hash: Sha256::new(), size: 0 };
    let first = parts.next().await?;
    if first.len() < PART {
        store.put_opts(path, first.into(), PutOptions::default()).await.map_err(blob_error)?;
        return Ok(parts.finish());
    }
    let options = PutMultipartOptions::default();
    let mut upload = store.put_multipart_opts(path, options).await.map_err(blob_error)?;
    match send(&mut *upload, first, &mut parts).await {
        Ok(()) => Ok(parts.finish()),
        Err(error) => {
            if let Err(e) = upload.abort().await {
                tracing::debug!("parts of {path} are left to the blob store's own clean-up: {e}");
            }
            Err(error)
        }
    }
}

async fn send(upload: &mut dyn MultipartUpload, first: Vec<u8>, parts: &mut Parts) -> Result<()> {
    let mut part = first;
    loop {
        let last = part.len() < PART;
        if !part.is_empty() {
            upload.put_part(PutPayload::from(part)).await.map_err(blob_error)?;
        }
        if last {
            return upload.complete().await.map(drop).map_err(blob_error);
        }
        part = parts.next().await?;
    }
}

/// Removes a blob, if it is there. One request.
pub(crate) async fn delete(store: &dyn ObjectStore, path: &Path) -> Result<()> {
    let one = stream::iter([Ok(path.clone())]).boxed();
    match store.delete_stream(one).try_collect::<Vec<_>>().await {
        Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(blob_error(error)),
    }
}

/// Whether [`store_time`] made this blob.
pub(crate) fn is_clock(directory: &Path, blob: &Path) -> bool {
    let name = blob.as_ref().strip_prefix(directory.as_ref()).and_then(|rest| rest.strip_prefix("/clock/"));
    name.is_some_and(|name| Uuid::try_parse(name).is_ok())
}

/// The time by the clock that gives blobs their times: no clocks are compared. Three requests.
pub(crate) async fn store_time(store: &dyn ObjectStore, directory: &Path) -> Result<DateTime<Utc>> {
    let path =
        Path::parse(format!("{directory}/clock/{}", Uuid::new_v4())).map_err(|e| blob_error(e.into()))?;
    store.put_opts(&path, PutPayload::default(), PutOptions::default()).await.map_err(blob_error)?;
    let head = GetOptions { head: true, ..GetOptions::default() };
    let found = store.get_opts(&path, head).await.map_err(blob_error);
    delete(store, &path).await?;
    Ok(found?.meta.last_modified)
}
