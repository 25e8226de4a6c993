//! What patterns with content in blobs share: names, content as streams, errors.

#[cfg(feature = "blobs")]
mod content;
#[cfg(feature = "blobs")]
mod context;
mod reference;
#[cfg(feature = "blobs")]
mod stores;

#[cfg(feature = "blobs")]
use object_store::Error as BlobError;
#[cfg(not(feature = "blobs"))]
use table_core::model::{Entity, TableName};
#[cfg(not(feature = "blobs"))]
use table_core::store::Result;
#[cfg(feature = "blobs")]
use table_core::store::{Error, ErrorKind};

#[cfg(feature = "blobs")]
pub use content::ByteStream;
#[cfg(feature = "blobs")]
pub(crate) use content::{collected, delete, is_clock, open, put, start, store_time, verified};
#[cfg(feature = "blobs")]
pub use context::BlobContext;
#[cfg(feature = "blobs")]
pub(crate) use context::directory;
pub(crate) use reference::{
    BlobDigest, MaybeReference, Reference, check_no_blob, first_name_in_blobs, names_in_blobs,
    parse_reference, references, references_of, with_placeholders,
};
#[cfg(feature = "blobs")]
pub(crate) use stores::{BlobStores, has_blob};

/// Converts a blob store's error. Its outcome is *not applied*: it describes the row, and blobs are written before their row.
#[cfg(feature = "blobs")]
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

/// Stands for the blob stores of a copy in a build without the feature `blobs`: no value of this type exists.
#[cfg(not(feature = "blobs"))]
#[derive(Clone, Debug)]
pub(crate) enum BlobStores {}

#[cfg(not(feature = "blobs"))]
impl BlobStores {
    pub(crate) async fn copy_all(&self, _table: &TableName, _rows: &[Entity]) -> Result<()> {
        match *self {}
    }

    pub(crate) async fn are_there(&self, _table: &TableName, _row: &Entity) -> Result<bool> {
        match *self {}
    }
}
