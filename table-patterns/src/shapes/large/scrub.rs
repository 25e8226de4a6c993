use futures_util::TryStreamExt;
use object_store::GetOptions;
use table_core::model::{Entity, Key};
use table_core::store::Result;
use table_core::typed::TableEntity;

use super::row::references;
use super::{BlobContext, LargeTable};
use crate::blobs::blob_error;

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LargeScrub {
    /// Rows looked at.
    pub rows: u64,
    /// Values in blobs.
    pub references: u64,
    /// Values whose blob is not there, or has another size.
    pub missing: Vec<MissingBlob>,
}

/// A value whose blob is not there, or has another size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingBlob {
    /// The entity.
    pub key: Key,
    /// The property.
    pub property: &'static str,
    /// The name the blob should have.
    pub name: String,
}

impl<T: TableEntity> LargeTable<T> {
    /// Looks whether every large value of the entities of type `T` has its blob, by name and size: scrub a table of
    /// several types once for each. One request a page of rows, one for each large value. What is written meanwhile may
    /// be reported: look again.
    ///
    /// # Errors
    /// The stores'.
    pub async fn scrub(&self) -> Result<LargeScrub> {
        let mut found = LargeScrub::default();
        let mut rows = self.rows().stream();
        while let Some(row) = rows.try_next().await? {
            found.rows += 1;
            self.scrub_row(&row.entity, &mut found).await?;
        }
        Ok(found)
    }

    async fn scrub_row(&self, row: &Entity, found: &mut LargeScrub) -> Result<()> {
        for (property, reference) in references::<T>(row)? {
            found.references += 1;
            let context = BlobContext::new(self.name(), row.key(), property.name, reference.id);
            let path = context.path(&self.options().root)?;
            let head = GetOptions { head: true, ..GetOptions::default() };
            let whole = match self.blobs().get_opts(&path, head).await {
                Ok(there) => there.meta.size == reference.stored.size,
                Err(object_store::Error::NotFound { .. }) => false,
                Err(error) => return Err(blob_error(error)),
            };
            if !whole {
                let (key, property, name) = (row.key().clone(), property.name, path.to_string());
                found.missing.push(MissingBlob { key, property, name });
            }
        }
        Ok(())
    }
}
