//! The blob stores of a table and of its copy.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use table_core::model::{Entity, TableName};
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::content::{open, put, verified};
use super::{BlobContext, blob_error, references};

/// Whether a blob of this size exists. 1 request.
pub(crate) async fn has_blob(blobs: &Arc<dyn ObjectStore>, path: &Path, size: u64) -> Result<bool> {
    match blobs.head(path).await {
        Ok(found) => Ok(found.size == size),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(blob_error(error)),
    }
}

/// The blob stores of a table and of its copy.
#[derive(Clone, Debug)]
pub(crate) struct BlobStores {
    pub(crate) from: Arc<dyn ObjectStore>,
    pub(crate) to: Arc<dyn ObjectStore>,
    /// The directory of all tables: the `root` of the options of large values.
    pub(crate) root: Path,
}

impl BlobStores {
    /// Copies the blobs of rows that the copy lacks, of 8 rows at the same time.
    pub(crate) async fn copy_all(&self, table: &TableName, rows: &[Entity]) -> Result<()> {
        stream::iter(rows)
            .map(Ok)
            .try_for_each_concurrent(8, |row| self.copy(table, row))
            .await
    }

    /// Copies the blobs of a row that the copy lacks, under the same names.
    async fn copy(&self, table: &TableName, row: &Entity) -> Result<()> {
        for (property, reference) in references(row) {
            let path = self.path(table, row, property.name(), reference.id)?;
            // A blob is never changed, so one with this name and size is the copy of an earlier run.
            if has_blob(&self.to, &path, reference.stored.size).await? {
                continue;
            }
            let Some(content) = open(&*self.from, &path).await? else {
                return Err(Error::corrupt(format!(
                    "the blob {path} of {} is missing",
                    row.key()
                )));
            };
            // Compared with the hash in the row: a damaged blob must not get into the copy.
            let content = verified(content, reference.stored, path.to_string());
            put(&*self.to, &path, content.boxed()).await?;
        }
        Ok(())
    }

    /// Whether the copy has every blob of a row, with the size in the row's reference.
    pub(crate) async fn are_there(&self, table: &TableName, row: &Entity) -> Result<bool> {
        for (property, reference) in references(row) {
            let path = self.path(table, row, property.name(), reference.id)?;
            if !has_blob(&self.to, &path, reference.stored.size).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn path(&self, table: &TableName, row: &Entity, property: &str, id: Uuid) -> Result<Path> {
        BlobContext::new(table, row.key(), property, id).path(&self.root)
    }
}
