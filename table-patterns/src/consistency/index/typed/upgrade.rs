//! Schema versions.

use table_core::model::Entity;
use table_core::store::Result;
use table_core::typed::IndexedEntity;

use super::table::IndexedTable;
use crate::rows::upgrade::{is_older, upgrade_each, upgrade_one, upgraded};

impl<T: IndexedEntity> IndexedTable<T> {
    /// Rewrites every entity of the type that is stored in an older version of its schema, with its entries; how many there
    /// were. Properties that no version knows stay. Where the conversion gives an entity another entry than what is stored does, that
    /// is written; the other, if there is one, dangles until a [scrub](crate::index::IndexedEntities::scrub). Otherwise as [`Table::upgrade_all`](table_core::typed::Table::upgrade_all).
    ///
    /// One request for each page of the type's rows, and those of a write for each older entity, as many at once as
    /// [`IndexOptions::concurrency`](super::super::IndexOptions) says; two more for each that another writes meanwhile.
    ///
    /// # Errors
    /// The store's; a conversion fails or changes a key; a unique value that it gives is taken.
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
