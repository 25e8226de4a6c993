//! The content of blobs (writing, reading and checking it), and text in the names of blobs.

use std::fmt::Write as _;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    GetOptions, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
};
use sha2::{Digest, Sha256};
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::{BlobDigest, blob_error};

/// The size of an upload part, in bytes. Stores require at least 5 MiB, and equal sizes of all parts but the last.
const PART_BYTES: usize = 8 * 1024 * 1024;

/// The content of a blob as a stream of pieces, so that it need not fit into memory.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// Cuts content into parts, and computes its size and hash.
struct Parts {
    content: ByteStream,
    buffer: Vec<u8>,
    hash: Sha256,
    size: u64,
}

impl Parts {
    /// The next part. Only the last part is shorter than [`PART_BYTES`]; it may be empty.
    async fn next(&mut self) -> Result<Vec<u8>> {
        while self.buffer.len() < PART_BYTES {
            let Some(piece) = self.content.try_next().await? else {
                return Ok(std::mem::take(&mut self.buffer));
            };
            self.hash.update(&piece);
            self.size += piece.len() as u64;
            self.buffer.extend_from_slice(&piece);
        }
        let rest = self.buffer.split_off(PART_BYTES);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    fn finish(self) -> BlobDigest {
        BlobDigest {
            size: self.size,
            hash: self.hash.finalize().into(),
        }
    }
}

/// Writes a blob. 1 request for up to 8 MiB; above that 1 per part of 8 MiB and 2 more. At most two parts and a piece of
/// the stream are in memory.
pub(crate) async fn put(
    store: &dyn ObjectStore,
    path: &Path,
    content: ByteStream,
) -> Result<BlobDigest> {
    let mut parts = Parts {
        content,
        buffer: Vec::new(),
        hash: Sha256::new(),
        size: 0,
    };
    let first = parts.next().await?;
    if first.len() < PART_BYTES {
        store
            .put_opts(path, first.into(), PutOptions::default())
            .await
            .map_err(blob_error)?;
        return Ok(parts.finish());
    }
    let options = PutMultipartOptions::default();
    let mut upload = store
        .put_multipart_opts(path, options)
        .await
        .map_err(blob_error)?;
    match send(&mut *upload, first, &mut parts).await {
        Ok(()) => Ok(parts.finish()),
        Err(error) => {
            if let Err(e) = upload.abort().await {
                tracing::debug!(
                    "the upload of {path} could not be aborted; the blob store removes its parts: {e}"
                );
            }
            Err(error)
        }
    }
}

/// Sends the parts of an upload from `first` on, and completes the upload.
async fn send(upload: &mut dyn MultipartUpload, first: Vec<u8>, parts: &mut Parts) -> Result<()> {
    let mut part = first;
    loop {
        let is_last = part.len() < PART_BYTES;
        if !part.is_empty() {
            upload
                .put_part(PutPayload::from(part))
                .await
                .map_err(blob_error)?;
        }
        if is_last {
            return upload.complete().await.map(drop).map_err(blob_error);
        }
        part = parts.next().await?;
    }
}

/// Deletes a blob if it exists. 1 request.
pub(crate) async fn delete(store: &dyn ObjectStore, path: &Path) -> Result<()> {
    let paths = stream::iter([Ok(path.clone())]).boxed();
    match store.delete_stream(paths).try_collect::<Vec<_>>().await {
        Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(blob_error(error)),
    }
}

/// Whether [`store_time`] created this blob.
pub(crate) fn is_clock(directory: &Path, blob: &Path) -> bool {
    let name = blob
        .as_ref()
        .strip_prefix(directory.as_ref())
        .and_then(|rest| rest.strip_prefix("/clock/"));
    name.is_some_and(|name| Uuid::try_parse(name).is_ok())
}

/// The current time by the blob store's clock. 3 requests: creates a blob, reads its time, deletes it.
///
/// The ages of blobs are computed from this time, because the local clock may differ from the store's.
pub(crate) async fn store_time(store: &dyn ObjectStore, directory: &Path) -> Result<DateTime<Utc>> {
    let path = Path::parse(format!("{directory}/clock/{}", Uuid::new_v4()))
        .map_err(|e| blob_error(e.into()))?;
    store
        .put_opts(&path, PutPayload::default(), PutOptions::default())
        .await
        .map_err(blob_error)?;
    let head = GetOptions {
        head: true,
        ..GetOptions::default()
    };
    let found = store.get_opts(&path, head).await.map_err(blob_error);
    // Deletes the blob also if its time could not be read.
    delete(store, &path).await?;
    Ok(found?.meta.last_modified)
}

/// The content of a blob; `None` if the blob does not exist. 1 request.
pub(crate) async fn open(store: &dyn ObjectStore, path: &Path) -> Result<Option<ByteStream>> {
    match store.get_opts(path, GetOptions::default()).await {
        Ok(found) => Ok(Some(
            found
                .into_stream()
                .map(|piece| piece.map_err(blob_error))
                .boxed(),
        )),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(blob_error(error)),
    }
}

/// Reads content into memory.
pub(crate) async fn collected(content: ByteStream) -> Result<Vec<u8>> {
    let add = |mut all: Vec<u8>, piece: Bytes| async move {
        all.extend_from_slice(&piece);
        Ok(all)
    };
    content.try_fold(Vec::new(), add).await
}

/// A stream with the size and hash of the pieces that were read.
struct Check {
    content: ByteStream,
    hash: Sha256,
    size: u64,
    expected: BlobDigest,
    name: String,
}

/// The same content, with an error as its last item if its size or hash differs from the stored content's.
///
/// The hash is known only at the end: a caller must not use the pieces before the stream has ended without an error.
pub(crate) fn verified(content: ByteStream, expected: BlobDigest, name: String) -> ByteStream {
    let check = Check {
        content,
        hash: Sha256::new(),
        size: 0,
        expected,
        name,
    };
    stream::unfold(Some(check), |check| async { check?.next().await }).boxed()
}

impl Check {
    async fn next(mut self) -> Option<(Result<Bytes>, Option<Self>)> {
        match self.content.next().await {
            Some(Ok(piece)) => {
                self.hash.update(&piece);
                self.size += piece.len() as u64;
                // Fails before the end of the stream: a blob that is longer than expected may be of any length.
                if self.size > self.expected.size {
                    self.fail()
                } else {
                    Some((Ok(piece), Some(self)))
                }
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
        let error = Error::corrupt(format!(
            "the content of the blob {name} is not the {size} bytes that were stored"
        ));
        Some((Err(error), None))
    }
}

/// The first bytes of a blob, at most `bytes`; `None` if the blob does not exist. 1 request.
pub(crate) async fn start(
    store: &dyn ObjectStore,
    path: &Path,
    bytes: u64,
) -> Result<Option<Bytes>> {
    let options = GetOptions {
        range: Some((0..bytes).into()),
        ..GetOptions::default()
    };
    match store.get_opts(path, options).await {
        Ok(found) => found.bytes().await.map(Some).map_err(blob_error),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(blob_error(error)),
    }
}

/// The maximal length of a segment of a blob's name, in bytes. File systems allow 255.
const MAX_SEGMENT_BYTES: usize = 200;

/// Escapes text for a blob's name, for all blob stores: lower-case ASCII letters, digits, `_` and `-` stay, every other
/// byte becomes `=XX`.
///
/// Upper-case letters are escaped because some file systems ignore case.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => out.push(char::from(byte)),
            // Writing to a `String` cannot fail.
            _ => drop(write!(out, "={byte:02x}")),
        }
    }
    out
}

/// Reverses [`escape`]; `None` for text that [`escape`] does not produce.
pub(crate) fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'=' {
            out.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(out).ok()
}

/// A segment of a blob's name: `letter`, which says what the text is, then the escaped text. The error names the text by `text_name`.
///
/// # Errors
/// The segment is longer than some blob stores allow.
pub(crate) fn segment(letter: &str, text_name: &str, text: &str) -> Result<String> {
    let segment = format!("{letter}{}", escape(text));
    if segment.len() > MAX_SEGMENT_BYTES {
        let limited = format!("bytes of the {text_name}, escaped for a blob's name");
        return Err(Error::limit(limited, MAX_SEGMENT_BYTES, segment.len()));
    }
    Ok(segment)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq};

    use super::{escape, unescape};

    proptest::proptest! {
        #[test]
        fn escaped_text_round_trips(text in any::<String>()) {
            let escaped = escape(&text);
            let segment = format!("x{escaped}");
            prop_assert!(object_store::path::Path::parse(segment).is_ok());
            prop_assert_eq!(escaped.to_ascii_lowercase(), escaped.clone());
            prop_assert_eq!(unescape(&escaped), Some(text));
        }
    }
}
