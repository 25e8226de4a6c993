use object_store::Error as BlobError;
use table_core::store::{Error, ErrorKind};

/// What a blob store's error means here. Its outcome is that of the row, which was not touched yet.
pub(crate) fn blob_error(error: BlobError) -> Error {
    let text = format!("blob store: {error}");
    let kind = match &error {
        BlobError::Unauthenticated { .. } => ErrorKind::Unauthorized(text),
        BlobError::PermissionDenied { .. } => ErrorKind::Forbidden(text),
        // The store has answered, and will answer the same again: a missing bucket, what it cannot do.
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
