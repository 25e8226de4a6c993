//! Codecs of blobs, and the paths of blobs.

use std::fmt::Debug;

use object_store::path::Path;
use table_core::model::{Key, TableName};
use table_core::store::Result;
use uuid::Uuid;

use crate::blobs::{ByteStream, blob_error, segment, unescape};

/// Identifies the value that a blob contains. A codec that encrypts should authenticate it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobContext {
    /// The table.
    pub table: TableName,
    /// The entity.
    pub key: Key,
    /// The property.
    pub property: String,
    /// The id of the write that stored the blob; never used twice.
    pub id: Uuid,
}

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

/// The directory of a table.
pub(super) fn directory(root: &Path, table: &TableName) -> Result<Path> {
    let root = if root.as_ref().is_empty() { String::new() } else { format!("{root}/") };
    // In lower case, because most services ignore the case of table names: two spellings must not be two
    // directories.
    Path::parse(format!("{root}{}", table.to_lowercase())).map_err(|e| blob_error(e.into()))
}

impl BlobContext {
    /// The context of a value in a blob with this id.
    pub(super) fn new(table: &TableName, key: &Key, property: &str, id: Uuid) -> Self {
        Self { table: table.clone(), key: key.clone(), property: property.to_owned(), id }
    }

    /// The path of the blob.
    pub(super) fn path(&self, root: &Path) -> Result<Path> {
        let partition = segment("p", "PartitionKey", self.key.partition())?;
        let row = segment("r", "RowKey", self.key.row())?;
        let property = segment("", "property's name", &self.property)?;
        let path = format!("{}/{partition}/{row}/{property}/{}", directory(root, &self.table)?, self.id);
        Path::parse(path).map_err(|e| blob_error(e.into()))
    }

    /// Parses a [`path`](Self::path); `None` for other blobs.
    pub(super) fn parse(root: &Path, table: &TableName, path: &Path) -> Option<Self> {
        let directory = directory(root, table).ok()?;
        let rest = path.as_ref().strip_prefix(directory.as_ref())?.strip_prefix('/')?;
        let mut segments = rest.split('/');
        let partition = unescape(segments.next()?.strip_prefix('p')?)?;
        let row = unescape(segments.next()?.strip_prefix('r')?)?;
        let property = unescape(segments.next()?)?;
        let id = segments.next()?.parse().ok()?;
        let key = Key::new(partition, row).ok()?;
        segments.next().is_none().then(|| Self::new(table, &key, &property, id))
    }
}
