//! What patterns with content in blobs share: names, content as streams, errors.

mod content;
mod name;
mod reference;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use object_store::Error as BlobError;
use table_core::store::{Error, ErrorKind, Result};

pub(crate) use content::{Stored, delete, is_clock, open, put, start, store_time, verified};
pub(crate) use name::{segment, unescape};
pub(crate) use reference::{
    MaybeReference, Reference, filled, in_a_blob, names_in_blobs, parse_reference, references,
};

/// The content of a blob as a stream of pieces, so that it need not fit into memory.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// Converts a blob store's error. The outcome describes the row, which no request has written yet: not applied.
pub(crate) fn blob_error(error: BlobError) -> Error {
    let text = format!("blob store: {error}");
    let kind = match &error {
        BlobError::Unauthenticated { .. } => ErrorKind::Unauthorized(text),
        BlobError::PermissionDenied { .. } => ErrorKind::Forbidden(text),
        // The same request would get the same answer: a missing bucket, an unsupported operation.
        BlobError::NotFound { .. }
        | BlobError::InvalidPath { .. }
        | BlobError::NotSupported { .. }
        | BlobError::NotImplemented { .. }
        | BlobError::AlreadyExists { .. }
        | BlobError::Precondition { .. }
        | BlobError::NotModified { .. }
        | BlobError::UnknownConfigurationKey { .. } => ErrorKind::Storage(text),
        _ => ErrorKind::Transport(text),
    };
    Error::new(kind).with_source(error)
}
