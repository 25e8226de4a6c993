//! The rows of a table with indexes: its entities, and the rows that its indexes have written.

use std::sync::Arc;

use table_core::model::{Entity, Key, SYSTEM_PREFIX, TableName, key_order};
use table_core::query::{Continuation, Filter, Page, Query, ReadablePage};
use table_core::store::{KeyOrder, Operation, Result, TableStore, check_progress};

use crate::entry::shared::SharedRows;
use crate::entry::{Entry, Index, Location, Shape};
use crate::journal::as_read;

/// Reads rows of entities and of indexes, and deletes rows of indexes in the version that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedRows<'a> {
    pub(super) store: &'a Arc<dyn TableStore>,
    pub(super) table: &'a TableName,
    /// Rows that hold the entries of several entities.
    pub(super) shared: SharedRows<'a>,
    /// The number of requests that one call sends in parallel.
    pub(super) concurrency: usize,
}

impl IndexedRows<'_> {
    /// The entity with this key. The mark of a move is removed from the properties and kept in the ETag. 1 request.
    pub(crate) async fn entity(&self, key: &Key) -> Result<Option<Entity>> {
        Ok(self.store.get(self.table, key, None).await?.map(as_read))
    }

    /// The row at a key, if it is an entry of the index. 1 request.
    pub(super) async fn entry(&self, index: &Index, key: &Key) -> Result<Option<Entity>> {
        let row = self.store.get(self.table_of(index), key, None).await?;
        let id = self.entry_id(index);
        Ok(row.filter(|row| Entry::index_of(row) == Some(&*id)))
    }

    /// A page of the rows of an index. 1 request.
    pub(super) async fn page(
        &self,
        index: &Index,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        self.readable_page(index, query, from).await?.into_page()
    }

    /// A page of the rows of an index, with a list of the rows that the store cannot decrypt. 1 request.
    pub(super) async fn readable_page(
        &self,
        index: &Index,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let mut found = self
            .store
            .query_readable(self.table_of(index), query, from)
            .await?;
        let (next, rows) = (
            found.page.continuation.as_ref(),
            found.page.items.len() + found.unreadable.len(),
        );
        // Before rows are left out: a page without an entry of the index makes progress, too.
        check_progress(from, next, rows)?;
        // The index id of a copy is not in the entity that has the copies.
        if !matches!(index.shape(), Shape::Copy { .. }) {
            let id = self.entry_id(index);
            found
                .page
                .items
                .retain(|row| Entry::index_of(row) == Some(&*id));
        }
        Ok(found)
    }

    /// A page of the rows of the table: of entities, and of everything else in it. 1 request.
    pub(super) async fn table_page(
        &self,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let page = self.store.query(self.table, query, from).await?;
        check_progress(from, page.continuation.as_ref(), page.items.len())?;
        Ok(page)
    }

    /// The place of a key of an index.
    pub(super) fn location(&self, index: &Index, key: &Key) -> Location {
        Location {
            table: self.table_of(index).clone(),
            key: key.clone(),
        }
    }

    /// The table with the entries of an index.
    pub(super) fn table_of<'i>(&'i self, index: &'i Index) -> &'i TableName {
        index.table(self.table)
    }

    /// The id of an index in its rows.
    pub(super) fn entry_id(&self, index: &Index) -> String {
        index.entry_id(self.table)
    }

    /// Whether the store returns rows in the order of keys.
    pub(super) fn is_sorted(&self) -> bool {
        self.store.profile().order == KeyOrder::Sorted
    }

    /// Deletes a row in the version that was read. `false` if another writer has changed or deleted it. 1 request.
    pub(super) async fn delete_unchanged(&self, at: &Location, row: &Entity) -> Result<bool> {
        // `ScrubInVersion`: a row that was written since belongs to an entity again.
        let condition = row.version()?;
        match self
            .store
            .write(&at.table, Operation::Delete(at.key.clone(), condition))
            .await
        {
            Ok(_) => Ok(true),
            Err(e) if e.is_conflict() => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// A query for the rows that an index of a table has written.
pub(super) fn written_by(index: &Index, table: &TableName) -> Query {
    Query::new().with_filter(match index.shape() {
        Shape::Copy { prefix, .. } => Filter::ge(&format!("{prefix}{}", Entry::OWNER_ROW), ""),
        _ => Filter::eq(Entry::INDEX, &*index.entry_id(table)),
    })
}

/// A filter for the partitions after the system partitions.
pub(super) fn after_system_partitions() -> Filter {
    // The prefix has an end, because it does not consist of the last character.
    let end = key_order::key_prefix_end(SYSTEM_PREFIX).unwrap_or_default();
    Filter::ge(Filter::PARTITION_KEY, end)
}

/// Whether a row is neither an index entry nor a system row.
pub(crate) fn is_entity(row: &Entity) -> bool {
    !row.key().is_system() && Entry::index_of(row).is_none()
}
