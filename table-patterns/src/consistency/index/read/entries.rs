//! From entries to their entities.

use std::ops::Deref;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::IndexState;
use table_core::model::{Entity, Key, Properties};
use table_core::query::{Continuation, Filter, KeyBounds, Page, Query, Range};
use table_core::store::{Error, KeyOrder, Result};

use super::lookup::Trust;
use crate::entry::{Entry, Index, Payload, Permission, Shape, is_entry_property};
use crate::index::handle::IndexedEntities;
use crate::journal::{holders, is_pending};

/// A readable index. A drop of the index in this process waits until the lookup has ended.
pub(crate) struct Readable {
    index: Arc<Index>,
    _permission: Permission,
}

impl Deref for Readable {
    type Target = Index;

    fn deref(&self) -> &Index {
        &self.index
    }
}

impl IndexedEntities {
    /// The index with this id or name, if its state is readable.
    pub(crate) async fn readable(&self, name: &str) -> Result<Readable> {
        let permission = self.set.permission(&**self.store()).await?;
        let index = self.set.find(name)?;
        match self.state(index.id()) {
            IndexState::Readable => Ok(Readable { index, _permission: permission }),
            state => Err(Error::invalid_request(format!(
                "the index '{name}' of the table '{}' is {state}, not readable: call `build` and wait until the build has ended",
                self.table()
            ))),
        }
    }

    /// The row at a key, if it is an entry of the index. 1 request.
    pub(crate) async fn entry_row(&self, index: &Index, key: &Key) -> Result<Option<Entity>> {
        let at = self.location(index, key);
        let row = self.store().get(&at.table, &at.key, None).await?;
        Ok(row.filter(|row| Entry::index_of(row) == Some(index.id())))
    }

    /// A page of the rows of an index. 1 request.
    pub(crate) async fn query_rows(
        &self,
        index: &Index,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let mut page = self.store().query(&self.index_table(index), query, from).await?;
        if !matches!(index.shape(), Shape::Copy { .. }) {
            page.items.retain(|row| Entry::index_of(row) == Some(index.id()));
        }
        Ok(page)
    }

    /// The entity of an entry: the entry's payload, or the entity if the lookup verifies, the entry is a reference, or the entry is a
    /// reservation. `None` if the entity no longer has the entry.
    pub(crate) async fn resolve(&self, index: &Index, entry: Entity, trust: Trust) -> Result<Option<Entity>> {
        let follows = *index.payload() == Payload::Reference || trust == Trust::Entity || is_pending(&entry);
        if !follows {
            return payload(index, entry).map(Some);
        }
        let at = self.location(index, entry.key());
        // During a move, the entry of a unique value names both the source and the moved entity (docs: journal, moves).
        for holder in holders(&entry)? {
            if let Some(entity) = self.read(&holder).await?
                && index.has_entry_at(self.table(), &entity, &at)?
            {
                return Ok(Some(entity));
            }
        }
        Ok(None)
    }

    /// A page of entries; all of them for a query that sorts on the client, in a store that does not sort.
    pub(crate) async fn read_rows(
        &self,
        index: &Index,
        query: &IndexQuery,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let sorts = query.sorts() && !self.is_sorted();
        let rows = query.to_query(index);
        // Sorting needs every row, so the page size does not apply, and the answer is one page.
        let rows = if sorts { Query { top: None, ..rows } } else { rows };
        let mut page = self.query_rows(index, &rows, from).await?;
        while let Some(next) = page.continuation.take_if(|_| sorts) {
            let more = self.query_rows(index, &rows, Some(&next)).await?;
            page.items.extend(more.items);
            page.continuation = more.continuation;
        }
        if sorts {
            page.items.sort_by(|a, b| a.key().cmp(b.key()));
        }
        Ok(page)
    }

    /// Whether the store returns rows in the order of keys.
    pub(crate) fn is_sorted(&self) -> bool {
        self.store().profile().order == KeyOrder::Sorted
    }

    /// Refuses a query whose result depends on the order of entries, in a store that does not sort.
    pub(crate) fn check_order(&self, sorts: bool) -> Result<()> {
        if sorts || self.is_sorted() {
            return Ok(());
        }
        let what = "entries in the order of their keys; call `sorted_on_client`, which reads and sorts all matching entries";
        Err(Error::unsupported(self.store().profile().name, what))
    }

    pub(crate) async fn resolve_all(
        &self,
        index: &Index,
        rows: Vec<Entity>,
        trust: Trust,
    ) -> Result<Vec<Entity>> {
        let resolved = stream::iter(rows).map(|entry| self.resolve(index, entry, trust));
        let resolved = resolved.buffered(self.at_once());
        resolved.try_filter_map(|found| async move { Ok(found) }).try_collect().await
    }
}

/// The entity as its entry shows it, without an ETag: the entry is a copy.
pub(crate) fn payload(index: &Index, entry: Entity) -> Result<Entity> {
    let owner = Entry::owner_of(&entry)?;
    let (_, mut properties): (Key, Properties) = entry.into_parts();
    properties.retain(|p| !is_entry_property(p.name()));
    if let Some((property, value)) = index.discriminator() {
        properties.set(property, value);
    }
    Ok(Entity::from_parts(owner, properties))
}

/// Whether a row is neither an index entry nor a system row.
pub(crate) fn is_entity(row: &Entity) -> bool {
    !row.key().is_system() && Entry::index_of(row).is_none()
}

/// A query of an index: a partition and a range of its entries.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexQuery {
    partition: String,
    rows: Option<Filter>,
    top: Option<usize>,
    sorts: bool,
}

impl IndexQuery {
    /// All entries of a partition.
    pub fn partition(partition: impl Into<String>) -> Self {
        Self { partition: partition.into(), rows: None, top: None, sorts: false }
    }

    /// The same query in another partition.
    #[must_use]
    pub fn in_partition(self, partition: impl Into<String>) -> Self {
        Self { partition: partition.into(), ..self }
    }

    /// Restricts to row keys with a prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.rows = Filter::and_maybe(self.rows.take(), Some(Filter::starts_with(Filter::ROW_KEY, prefix)));
        self
    }

    /// Restricts to row keys from `from`, inclusive, to `to`, exclusive.
    #[must_use]
    pub fn range(mut self, from: &str, to: &str) -> Self {
        let range = Filter::ge(Filter::ROW_KEY, from).and(Filter::lt(Filter::ROW_KEY, to));
        self.rows = Filter::and_maybe(self.rows.take(), Some(range));
        self
    }

    /// Restricts to row keys in a range.
    #[must_use]
    pub fn rows(mut self, rows: &Range) -> Self {
        let rows = KeyBounds { partition: Range::ALL, row: rows.clone() }.to_filter();
        self.rows = Filter::and_maybe(self.rows.take(), rows);
        self
    }

    /// Returns at most `top` entries in a page.
    #[must_use]
    pub const fn top(mut self, top: usize) -> Self {
        self.top = Some(top);
        self
    }

    /// Returns entries in the order of their keys from every store. From a store that does not sort, *all*
    /// matching entries are read, held in memory and returned as one page. No effect on a store that sorts.
    #[must_use]
    pub const fn sorted_on_client(mut self) -> Self {
        self.sorts = true;
        self
    }

    pub(crate) const fn sorts(&self) -> bool {
        self.sorts
    }

    pub(crate) fn to_query(&self, index: &Index) -> Query {
        let partition = Filter::eq(Filter::PARTITION_KEY, self.partition.as_str());
        let of_index = Filter::eq(Entry::INDEX, index.id());
        let filter = Filter::and_maybe(Some(partition), self.rows.clone()).map(|f| f.and(of_index));
        Query { filter, select: None, top: self.top }
    }
}
