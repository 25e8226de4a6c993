//! Codecs of blobs.

use std::fmt::Debug;

use crate::blobs::{BlobContext, ByteStream};

/// Encodes the content of blobs, for example by encryption or compression.
///
/// The row contains the size and the hash of the *encoded* content. With a codec that encrypts, they reveal only the length
/// of the content.
pub trait BlobCodec: Debug + Send + Sync + 'static {
    /// The codec's name: ASCII letters, digits and `-`. Every reference contains the name; only the codec that wrote a blob
    /// reads it.
    fn name(&self) -> &'static str;

    /// Whether the encoded content reveals nothing of the content. Values that must be encrypted need such a codec.
    fn encrypts(&self) -> bool;

    /// Encodes content. The pieces of the streams may have any size.
    fn encode(&self, context: &BlobContext, content: ByteStream) -> ByteStream;

    /// Decodes content, with an error if [`encode`](Self::encode) did not make it for this context.
    fn decode(&self, context: &BlobContext, stored: ByteStream) -> ByteStream;

    /// The id of the key that encrypts new blobs; `None` for a codec without keys.
    fn active_key(&self) -> Option<String> {
        None
    }

    /// The key of a blob, read from the first bytes of the blob; `None` if the bytes name no key, or are too few.
    fn key_of(&self, _start: &[u8]) -> Option<BlobKey> {
        None
    }
}

/// The key that a blob names. It is not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobKey {
    /// The key's id.
    pub id: String,
    /// Whether new blobs are encrypted under this key.
    pub active: bool,
}

/// A codec that stores content unchanged.
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
