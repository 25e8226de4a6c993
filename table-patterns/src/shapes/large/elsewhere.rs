//! The blobs of rows that are copied as they are.

use std::sync::Arc;

use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use table_core::model::{Entity, TableName};
use table_core::store::{Error, Result};

use super::BlobContext;
use super::rewrite_row::references;
use crate::blobs::{self, blob_error};

/// Where the blobs of a table are, and where those of its copy.
#[derive(Clone, Debug)]
pub(crate) struct BlobStores {
    pub(crate) from: Arc<dyn ObjectStore>,
    pub(crate) to: Arc<dyn ObjectStore>,
    /// The directory of all tables, as [`LargeOptions`](super::LargeOptions) has it.
    pub(crate) root: Path,
}

impl BlobStores {
    /// Copies the blobs of a row that are not there yet, under the same names.
    pub(crate) async fn copy(&self, table: &TableName, row: &Entity) -> Result<()> {
        for (property, reference) in references(row) {
            let path = self.path(table, row, property.name(), reference.id)?;
            if self.is_there(&path, reference.stored.size).await? {
                continue;
            }
            let Some(content) = blobs::open(&*self.from, &path).await? else {
                return Err(Error::corrupt(format!("the blob {path} of {} is missing", row.key())));
            };
            let content = blobs::verified(content, reference.stored, path.to_string());
            blobs::put(&*self.to, &path, content.boxed()).await?;
        }
        Ok(())
    }

    /// Whether every blob of a row is in the copy, as many bytes as the row says.
    pub(crate) async fn are_there(&self, table: &TableName, row: &Entity) -> Result<bool> {
        for (property, reference) in references(row) {
            let path = self.path(table, row, property.name(), reference.id)?;
            if !self.is_there(&path, reference.stored.size).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn is_there(&self, path: &Path, size: u64) -> Result<bool> {
        match self.to.head(path).await {
            Ok(found) => Ok(found.size == size),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(blob_error(error)),
        }
    }

    fn path(&self, table: &TableName, row: &Entity, property: &str, id: uuid::Uuid) -> Result<Path> {
        BlobContext::new(table, row.key(), property, id).path(&self.root)
    }
}
