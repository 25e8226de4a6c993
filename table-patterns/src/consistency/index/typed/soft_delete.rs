//! Soft deletion of entities with indexes.

use table_core::store::{Result, TableStore as _};
use table_core::typed::{IndexedEntity, KeyOf, SoftDelete};

use super::table::IndexedTable;
use crate::index::Stored;

/// Soft deletion: see [`Table::soft_delete`](table_core::typed::Table::soft_delete). Index entries and unique values stay, so that no other entity takes
/// a value that a restore needs.
impl<T: IndexedEntity + SoftDelete> IndexedTable<T> {
    /// Sets the time of deletion: reads and lookups leave the entity out, and a sweep removes it for good, with its entries, when it was kept for
    /// the days of `#[deleted_at]`. Returns the entity as stored. Requests as for [`update`](Self::update).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn soft_delete(&self, key: impl KeyOf<T>) -> Result<Stored<T>> {
        let now = self.entities.store().now();
        self.update(key, |entity| {
            entity.set_deleted_at(Some(now));
            Ok(())
        })
        .await
    }

    /// Removes the time of deletion. Returns the entity as stored. Requests as for [`update`](Self::update).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn restore(&self, key: impl KeyOf<T>) -> Result<Stored<T>> {
        let all = self.clone().with_hidden();
        all.update(key, |entity| {
            entity.set_deleted_at(None);
            Ok(())
        })
        .await
    }
}
