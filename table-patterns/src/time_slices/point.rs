//! Reading one entity.

use std::sync::Arc;

use table_core::model::{Key, TableName, Ticks};
use table_core::store::Result;
use table_core::typed::{FromEntity, KeyOf, Table};

use super::tables::is_gone;
use super::{Reuse, TimeSlices};

impl<T: FromEntity> TimeSlices<T> {
    /// The entity of a moment with this key. One request where it is in the slice's first table; else one more to list
    /// the slice's tables and one for each other. With [`Reuse::Generation`] they are listed first, and the latest is asked
    /// first.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, at: Ticks, key: impl KeyOf<T>) -> Result<Option<T>> {
        let (name, key) = (self.shared.slicing.name(at), key.into_key());
        let first = match self.shared.reuse {
            Reuse::Wait(_) => Some(self.shared.table(&name, 0)?),
            Reuse::Generation => None,
        };
        if let Some(first) = &first
            && let Some(found) = self.look(first, &key).await?
        {
            return Ok(Some(found));
        }
        for slice in
            self.of_name(&name).await?.iter().rev().filter(|slice| Some(&slice.table) != first.as_ref())
        {
            if let Some(found) = self.look(&slice.table, &key).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// An entity of a table that may be gone.
    async fn look(&self, table: &TableName, key: &Key) -> Result<Option<T>> {
        let table = Table::<T>::new(Arc::clone(&self.shared.store), table.clone())?;
        match table.get(key).await {
            Err(error) if is_gone(&error) => Ok(None),
            found => found,
        }
    }
}
