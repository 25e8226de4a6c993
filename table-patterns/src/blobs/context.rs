//! The values that blobs contain, and the paths of their blobs.

use object_store::path::Path;
use table_core::model::{Key, TableName};
use table_core::store::Result;
use uuid::Uuid;

use super::blob_error;
use super::content::{segment, unescape};

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

/// The directory of a table.
pub(crate) fn directory(root: &Path, table: &TableName) -> Result<Path> {
    let root = if root.as_ref().is_empty() {
        String::new()
    } else {
        format!("{root}/")
    };
    // In lower case, because most services ignore the case of table names: two spellings must not be two
    // directories.
    Path::parse(format!("{root}{}", table.to_lowercase())).map_err(|e| blob_error(e.into()))
}

impl BlobContext {
    /// The context of a value in a blob with this id.
    pub(crate) fn new(table: &TableName, key: &Key, property: &str, id: Uuid) -> Self {
        Self {
            table: table.clone(),
            key: key.clone(),
            property: property.to_owned(),
            id,
        }
    }

    /// The path of the blob.
    pub(crate) fn path(&self, root: &Path) -> Result<Path> {
        let partition = segment("p", "PartitionKey", self.key.partition())?;
        let row = segment("r", "RowKey", self.key.row())?;
        let property = segment("", "property's name", &self.property)?;
        let path = format!(
            "{}/{partition}/{row}/{property}/{}",
            directory(root, &self.table)?,
            self.id
        );
        Path::parse(path).map_err(|e| blob_error(e.into()))
    }

    /// Parses a [`path`](Self::path); `None` for other blobs.
    pub(crate) fn parse(root: &Path, table: &TableName, path: &Path) -> Option<Self> {
        let directory = directory(root, table).ok()?;
        let rest = path
            .as_ref()
            .strip_prefix(directory.as_ref())?
            .strip_prefix('/')?;
        let mut segments = rest.split('/');
        let partition = unescape(segments.next()?.strip_prefix('p')?)?;
        let row = unescape(segments.next()?.strip_prefix('r')?)?;
        let property = unescape(segments.next()?)?;
        let id = segments.next()?.parse().ok()?;
        let key = Key::new(partition, row).ok()?;
        segments
            .next()
            .is_none()
            .then(|| Self::new(table, &key, &property, id))
    }
}
