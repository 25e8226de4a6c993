use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};
use sha2::{Digest, Sha256};
use table_core::store::{Error, Result};

use super::{ByteStream, Stored, blob_error};

/// The content of a blob; `None` if there is none. One request.
pub(crate) async fn open(store: &dyn ObjectStore, path: &Path) -> Result<Option<ByteStream>> {
    match store.get_opts(path, GetOptions::default()).await {
        Ok(found) => Ok(Some(found.into_stream().map(|piece| piece.map_err(blob_error)).boxed())),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(blob_error(error)),
    }
}

/// What is left to check of a stream.
struct Check {
    content: ByteStream,
    hash: Sha256,
    size: u64,
    expected: Stored,
    name: String,
}

/// The same content, with an error at the end, or where it becomes too long, if it is not what was stored.
pub(crate) fn verified(content: ByteStream, expected: Stored, name: String) -> ByteStream {
    let check = Check { content, hash: Sha256::new(), size: 0, expected, name };
    stream::unfold(Some(check), |check| async { check?.next().await }).boxed()
}

impl Check {
    async fn next(mut self) -> Option<(Result<Bytes>, Option<Self>)> {
        match self.content.next().await {
            Some(Ok(piece)) => {
                self.hash.update(&piece);
                self.size += piece.len() as u64;
                if self.size > self.expected.size { self.fail() } else { Some((Ok(piece), Some(self))) }
            }
            Some(Err(error)) => Some((Err(error), None)),
            None if self.size == self.expected.size && self.is_intact() => None,
            None => self.fail(),
        }
    }

    fn is_intact(&self) -> bool {
        let hash: [u8; 32] = self.hash.clone().finalize().into();
        hash == self.expected.hash
    }

    fn fail(self) -> Option<(Result<Bytes>, Option<Self>)> {
        let (size, name) = (self.expected.size, self.name);
        let error = Error::corrupt(format!("the blob {name} is not the {size} bytes that were stored"));
        Some((Err(error), None))
    }
}

/// The first bytes of a blob, at most so many; `None` if there is no blob. One request.
pub(crate) async fn start(store: &dyn ObjectStore, path: &Path, bytes: u64) -> Result<Option<Bytes>> {
    let options = GetOptions { range: Some((0..bytes).into()), ..GetOptions::default() };
    match store.get_opts(path, options).await {
        Ok(found) => found.bytes().await.map(Some).map_err(blob_error),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(blob_error(error)),
    }
}
