//! The rows that the indexes of a table have written.

use std::sync::Arc;

use table_core::model::{Entity, FEED_COUNTER, Key, TableName};
use table_core::query::{Continuation, Filter, Page, Query, ReadablePage};
use table_core::store::{KeyOrder, Operation, Result, TableStore, check_progress};

use crate::entity_rows::EntityRows;
use crate::entry::shared::SharedRows;
use crate::entry::{Entry, Index, Location, Shape};

/// Reads rows of indexes, and deletes them in the version that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedRows<'a> {
    pub(super) store: &'a Arc<dyn TableStore>,
    pub(super) table: &'a TableName,
    /// Rows that hold the entries of several entities.
    pub(super) shared: SharedRows<'a>,
    /// The number of requests that one call sends in parallel.
    pub(crate) concurrency: usize,
}

impl<'a> IndexedRows<'a> {
    /// The rows of the entities.
    pub(crate) fn entities(&self) -> EntityRows<'a> {
        EntityRows::new(&**self.store, self.table)
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
        let query = query.clone().with_unreadable();
        let mut found = self.store.query(self.table_of(index), &query, from).await?;
        let (next, rows) = (
            found.page.continuation.as_ref(),
            found.page.items.len() + found.unreadable.len(),
        );
        // Before rows are left out: a page without an entry of the index makes progress, too.
        check_progress(from, next, rows)?;
        // The index id of a copy is not in the entity that has the copies, and the feeds of a table share their rows.
        if !matches!(index.shape(), Shape::Copy { .. } | Shape::Feed) {
            let id = self.entry_id(index);
            found
                .page
                .items
                .retain(|row| Entry::index_of(row) == Some(&*id));
        }
        Ok(found)
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
        // The changes, their counters, and the cursors of consumers.
        Shape::Feed => Filter::eq(Filter::PARTITION_KEY, FEED_COUNTER)
            .or(Filter::eq(Filter::ROW_KEY, FEED_COUNTER))
            .or(Filter::starts_with(
                Filter::ROW_KEY,
                &format!("{FEED_COUNTER}~"),
            )),
        _ => Filter::eq(Entry::INDEX, &*index.entry_id(table)),
    })
}
