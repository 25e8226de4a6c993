//! Upgrades of stored entities to the current schema version.

use table_core::model::Entity;
use table_core::store::Result;
use table_core::typed::IndexedEntity;

use super::table::IndexedTable;
use crate::rows::upgrade::{is_older, upgrade_each, upgrade_one, upgraded};

impl<T: IndexedEntity> IndexedTable<T> {
    /// Rewrites every entity of the type that is stored in an older schema version, with its entries; returns
    /// their number. Properties that no version knows stay. If the conversion gives an entity another entry
    /// than the stored properties do, the new entry is written. The other entry, if it exists, dangles until a
    /// [scrub](crate::index::IndexedEntities::scrub). In all other respects as
    /// [`Table::upgrade_all`](table_core::typed::Table::upgrade_all).
    ///
    /// 1 request for each page of the type's rows, and the requests of a write for each older entity, with
    /// [`IndexOptions::concurrency`](super::super::IndexOptions) in parallel; 2 more for each conflict with
    /// another writer.
    ///
    /// # Errors
    /// An error of the store; a conversion fails or changes a key; a unique value of the converted entity is
    /// taken.
    pub async fn upgrade_all(&self) -> Result<u64> {
        let rows = self.table().query().project::<Entity>().stream();
        upgrade_each(rows, self.entities.at_once(), |row| self.upgrade(row)).await
    }

    /// Whether the entity was rewritten.
    async fn upgrade(&self, row: Entity) -> Result<bool> {
        if !is_older::<T>(&row)? {
            return Ok(false);
        }
        let (key, new) = (row.key().clone(), upgraded(&row, &T::from_entity(row.clone())?)?);
        let changes = [self.entities.upgrade(row, new)];
        upgrade_one(self.entities.write(&changes), self.update(key, |_| Ok(()))).await
    }
}
