//! Moves of entities with their blobs to another key or table.

use table_core::store::Result;
use table_core::typed::{KeyOf, TableEntity};

use super::LargeTable;

impl<T: TableEntity> LargeTable<T> {
    /// Moves an entity with its large values to a key of this or another table, and replaces an entity with that key. A
    /// concurrent change of another writer is moved too.
    ///
    /// The move copies the values into blobs of the target, writes the target row, deletes the source row, and removes the
    /// source blobs, in this order. Within a partition of one table, one group transaction writes both rows.
    ///
    /// An entity with index entries in other partitions moves to another partition by one write of the
    /// [`journal`](crate::journal#moves). It keeps its unique values during the whole move. If the process dies, workers,
    /// sweeps or other writers of the entity finish the move or give it up; a [collection](Self::collect) removes remaining
    /// blobs. After any other move that dies, both entities exist: repeat the move. A move that fails after it has written the
    /// target removes its copy, with the copy's blobs: see [`IndexedEntities::move_to`](crate::index::IndexedEntities::move_to). Another table
    /// has its own indexes with their own unique values. Requests: see the [module](super).
    ///
    /// # Errors
    /// Entity not found; a unique value is taken at the target; errors of the stores; a missing or damaged blob; a conflict after the last
    /// attempt; the entity at the target has a later schema version; source and target are the same.
    pub async fn move_to(
        &self,
        key: impl KeyOf<T>,
        target: &Self,
        to: impl KeyOf<T>,
    ) -> Result<()> {
        let (key, to) = (key.into_key(), to.into_key());
        self.writer().move_to(&key, target.writer(), &to).await
    }
}
