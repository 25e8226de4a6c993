use std::fmt::Debug;

use table_core::model::{Key, TableName};
use uuid::Uuid;

use crate::blobs::ByteStream;

/// Which value a blob holds: what encryption should bind it to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobContext {
    /// The table.
    pub table: TableName,
    /// The entity.
    pub key: Key,
    /// The property.
    pub property: String,
    /// The write that made it: never used twice.
    pub id: Uuid,
}

/// What large values go through on their way to and from the blob store: the place for encryption or
/// compression.
///
/// The row keeps size and hash of what is *stored*, so that a codec that encrypts gives nothing away by
/// them but the length.
pub trait BlobCodec: Debug + Send + Sync + 'static {
    /// The name, kept in every reference: a blob is only read by the codec that wrote it. ASCII letters,
    /// digits and `-`.
    fn name(&self) -> &'static str;

    /// Whether what is stored reveals nothing of the content: values marked *encrypt* need that.
    fn encrypts(&self) -> bool;

    /// Content to what is stored. Pieces may be of any size.
    fn encode(&self, context: &BlobContext, content: ByteStream) -> ByteStream;

    /// What is stored back to the content, with an error where it is not what [`encode`](Self::encode)
    /// made for this context.
    fn decode(&self, context: &BlobContext, stored: ByteStream) -> ByteStream;

    /// The id of the key that blobs are written under; `None` for a codec without keys.
    fn active_key(&self) -> Option<String> {
        None
    }

    /// The key that a blob is under, by the bytes it starts with; `None` if they do not tell, or are too few.
    fn key_of(&self, _start: &[u8]) -> Option<BlobKey> {
        None
    }
}

/// The key that a blob is under, as it claims itself: nothing of it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobKey {
    /// The key's id.
    pub id: String,
    /// Whether blobs that are written now are under this key.
    pub active: bool,
}

/// Values stored as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainBlobs;

impl BlobCodec for PlainBlobs {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn encrypts(&self) -> bool {
        false
    }

    fn encode(&self, _: &BlobContext, content: ByteStream) -> ByteStream {
        content
    }

    fn decode(&self, _: &BlobContext, stored: ByteStream) -> ByteStream {
        stored
    }
}
