//! Set operations: the write path of entities with large values.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key};
use table_core::store::{Error, Result, TableStore as _, Written};
use table_core::typed::set::{RowChange, SetWriter};

use super::EntityWriter;
use crate::entity_rows::as_read;
use crate::index::change;
use crate::journal::Entries;

/// Writes rows with their blobs and index entries.
impl SetWriter for EntityWriter {
    fn check<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<()>> {
        match self.indexes() {
            Some(indexes) => indexes.check(key),
            None => async move { self.permit(key).await.map(drop) }.boxed(),
        }
    }

    fn as_read(&self, row: Entity) -> Entity {
        as_read(row)
    }

    fn operations(&self, change: &RowChange) -> usize {
        self.indexes()
            .map_or(1, |indexes| indexes.operations(change))
    }

    fn most_operations(&self) -> usize {
        let store = || self.store().profile().group_operations;
        self.indexes()
            .map_or_else(store, SetWriter::most_operations)
    }

    fn write<'a>(
        &'a self,
        changes: &'a [RowChange],
    ) -> BoxFuture<'a, Result<(Vec<Written>, bool)>> {
        async move {
            let (committed, _) = self
                .write_group(changes.iter().map(change).collect())
                .await?;
            Ok((committed.written, committed.entries == Entries::Pending))
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>> {
        self.values().row(key).boxed()
    }

    fn failed(&self, error: &Error) -> Option<usize> {
        // In a group with entries, the operation that failed may be an entry.
        error.failed_index().filter(|_| self.indexes().is_none())
    }
}
