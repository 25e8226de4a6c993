//! Names of blobs, and back.

use object_store::path::Path;
use table_core::model::{Key, TableName};
use table_core::store::Result;
use uuid::Uuid;

use super::BlobContext;
use crate::blobs::{blob_error, segment, unescape};

/// The directory of a table.
pub(super) fn directory(root: &Path, table: &TableName) -> Result<Path> {
    let root = if root.as_ref().is_empty() { String::new() } else { format!("{root}/") };
    Path::parse(format!("{root}{}", table.to_lowercase())).map_err(|e| blob_error(e.into()))
}

impl BlobContext {
    pub(super) fn new(table: &TableName, key: &Key, property: &str, id: Uuid) -> Self {
        Self { table: table.clone(), key: key.clone(), property: property.to_owned(), id }
    }

    /// The blob's name.
    pub(super) fn path(&self, root: &Path) -> Result<Path> {
        let partition = segment("p", "PartitionKey", self.key.partition())?;
        let row = segment("r", "RowKey", self.key.row())?;
        let property = segment("", "property's name", &self.property)?;
        let path = format!("{}/{partition}/{row}/{property}/{}", directory(root, &self.table)?, self.id);
        Path::parse(path).map_err(|e| blob_error(e.into()))
    }

    /// Back from [`path`](Self::path); `None` for other blobs.
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
