//! Schema versions.

use table_core::model::Entity;
use table_core::store::{Operation, Result};
use table_core::typed::{FromEntity as _, TableEntity};

use super::write::exact;
use super::{SpreadRow, SpreadTable};
use crate::rows::upgrade::{is_older, upgrade_each, upgrade_one, upgraded};

/// Rows that are rewritten at once.
const CONCURRENCY: usize = 16;

impl<T: TableEntity> SpreadTable<T> {
    /// Rewrites every entity of the type that is stored in an older version of its schema, where it is; how many there were.
    /// Properties that no version knows stay. Otherwise as [`Table::upgrade_all`](table_core::typed::Table::upgrade_all).
    ///
    /// One request for each page of the type's rows, of all buckets, and one for each older entity, 16 at once; two more for each
    /// that another writes, or a migration moves, meanwhile.
    ///
    /// # Errors
    /// The store's; a conversion fails or changes a key.
    pub async fn upgrade_all(&self) -> Result<u64> {
        let rows = self.table.query().project::<Entity>().stream();
        upgrade_each(rows, CONCURRENCY, |row| self.upgrade(row)).await
    }

    /// Whether the entity was rewritten.
    async fn upgrade(&self, row: Entity) -> Result<bool> {
        let row = SpreadRow::<T>::from_entity(row)?;
        if !is_older::<T>(&row.entity)? {
            return Ok(false);
        }
        let (key, old) = (row.entity.key().clone(), row.entity.clone());
        let first = async {
            if row.is_moving() {
                return Err(self.moving(old.key()));
            }
            let (place, version) = (self.place_of(&row)?, exact(&row)?);
            let new = upgraded(&old, &row.decode()?)?;
            self.write(Operation::Replace(new.with_key(place), version)).await
        };
        upgrade_one(first, self.update(key, |_| Ok(()))).await
    }
}
