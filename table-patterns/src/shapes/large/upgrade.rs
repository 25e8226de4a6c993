//! Schema versions.

use table_core::model::Entity;
use table_core::store::Result;
use table_core::typed::TableEntity;

use super::LargeTable;
use crate::rows::upgrade::{is_older, upgrade_each, upgrade_one, upgraded};

impl<T: TableEntity> LargeTable<T> {
    /// Rewrites every entity of the type that is stored in an older version of its schema, with its large values and its
    /// entries; how many there were. Properties that no version knows stay, with their blobs. Otherwise as
    /// [`Table::upgrade_all`](table_core::typed::Table::upgrade_all).
    ///
    /// One request for each page of the type's rows, and those of a write for each older entity, as many at once as
    /// [`LargeOptions::concurrency`](super::LargeOptions) says; a read, a write and a delete for each of its large values; two
    /// requests more for each that another writes meanwhile.
    ///
    /// # Errors
    /// The stores'; a conversion fails or changes a key; a blob is missing or damaged.
    pub async fn upgrade_all(&self) -> Result<u64> {
        let rows = self.rows().project::<Entity>().stream();
        upgrade_each(rows, self.options().concurrency, |row| self.upgrade(row)).await
    }

    /// Whether the entity was rewritten.
    async fn upgrade(&self, row: Entity) -> Result<bool> {
        if !is_older::<T>(&row)? {
            return Ok(false);
        }
        let key = row.key().clone();
        let first = async {
            // A blob is gone because the row has changed.
            let Some(value) = self.hydrate_or_again(row.clone()).await? else {
                return Err(self.changed(&row));
            };
            let new = upgraded(&row, &value)?;
            self.writer().upgrade(row.clone(), new).await
        };
        upgrade_one(first, self.update(key, |_| Ok(()))).await
    }
}
