//! Lookups: from a query of an index to its entries, and from entries to their entities.
//!
//! | module | part |
//! |---|---|
//! | `lists` | lookups in lists and summaries; pages of lists, which may end within a list |
//! | `merged` | several partitions in parallel, in one order |

mod lists;
mod merged;

use std::ops::Deref;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::IndexState;
use table_core::model::{Entity, Key, Properties};
use table_core::query::{
    Continuation, Filter, KeyBounds, Page, Query, Range, ReadablePage, UnreadableEntity,
};
use table_core::store::{Error, Result};

use super::rows::IndexedRows;
use super::states::set::IndexSet;
use crate::entry::{Entry, Index, Payload, Permission, Shape, is_entry_property};
use crate::journal::{holders, is_pending};
use crate::rows::readable;

pub(super) use self::lists::Lists;
pub(super) use self::merged::MergedLookup;

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

/// Whether a lookup returns the content of an entry, or verifies it with the entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Returns the entry's content if it has the wanted properties: 1 request. A remote entry can be stale. References are
    /// followed.
    #[default]
    Entry,
    /// Reads the entity, which must still have the entry: 1 request more, never stale.
    Entity,
}

/// A readable index. A drop of the index in this process waits until the lookup has ended.
pub(super) struct Readable {
    index: Arc<Index>,
    _permission: Permission,
}

impl Deref for Readable {
    type Target = Index;

    fn deref(&self) -> &Index {
        &self.index
    }
}

/// Looks entities up by the rows of indexes that hold one entry each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookups<'a> {
    pub(super) rows: IndexedRows<'a>,
    pub(super) set: &'a IndexSet,
}

impl<'a> Lookups<'a> {
    /// See [`IndexedEntities::find`](super::IndexedEntities::find).
    pub(super) async fn find(&self, index: &str, key: &Key, trust: Trust) -> Result<Option<Entity>> {
        let index = self.readable(index).await?;
        check_leads_to_entities(&index)?;
        if index.shape().is_list() {
            let reason = format!("the index '{}' keeps a list for each key: call `list`", index.name());
            return Err(Error::invalid_request(reason));
        }
        match self.rows.entry(&index, key).await? {
            Some(entry) => self.resolve(&index, entry, trust).await,
            None => Ok(None),
        }
    }

    /// As [`IndexedEntities::page`](super::IndexedEntities::page); stops following references at `limit` entities.
    pub(super) async fn page(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
        limit: usize,
    ) -> Result<Page<Entity>> {
        self.readable_page(index, query, from, trust, limit).await?.into_page()
    }

    /// As [`page`](Self::page), with a list of the entities and entries that cannot be read.
    pub(super) async fn readable_page(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
        limit: usize,
    ) -> Result<ReadablePage> {
        let index = self.readable(index).await?;
        check_leads_to_entities(&index)?;
        if index.shape().is_list() {
            return Lists { lookups: *self }.page_of_lists(&index, query, from, limit).await;
        }
        let ReadablePage { page, unreadable } = self.read_rows(&index, query, from).await?;
        let (mut items, mut rows) = (Vec::new(), page.items.into_iter());
        while items.len() < limit {
            let next: Vec<_> = rows.by_ref().take(limit - items.len()).collect();
            if next.is_empty() {
                break;
            }
            items.extend(self.resolve_all(&index, next, trust).await?);
        }
        Ok(with_unreadable(readable(items, page.continuation), unreadable))
    }

    /// See [`IndexedEntities::stream`](super::IndexedEntities::stream).
    pub(super) fn stream(
        self,
        index: &'a str,
        query: &IndexQuery,
        trust: Trust,
    ) -> impl Stream<Item = Result<Entity>> + Send + use<'a> {
        let start = Some((query.clone(), None));
        let pages = stream::try_unfold(start, move |at| async move {
            let Some((query, from)) = at else { return Ok::<_, Error>(None) };
            let page = self.page(index, &query, from.as_ref(), trust, usize::MAX).await?;
            let next = page.continuation.map(|from| (query, Some(from)));
            Ok(Some((stream::iter(page.items.into_iter().map(Ok)), next)))
        });
        pages.try_flatten()
    }

    /// A page of payloads, with a list of the unreadable ones. 1 request, and 1 for each reservation in the page.
    pub(super) async fn page_of_payloads(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let index = self.readable(index).await?;
        let ReadablePage { page, unreadable } = self.read_rows(&index, query, from).await?;
        let payloads = stream::iter(page.items).map(|entry| async {
            let key = owner_or_key(&entry);
            of_one_entity(key, self.payload_or_entity(&index, entry).await)
        });
        let payloads =
            payloads.buffered(self.rows.concurrency).try_filter_map(|payload| async move { Ok(payload) });
        let items: Vec<_> = payloads.try_collect().await?;
        Ok(with_unreadable(readable(items, page.continuation), unreadable))
    }

    /// The payload of the entry with this key. 1 request.
    pub(super) async fn find_payload(&self, index: &str, key: &Key) -> Result<Option<Entity>> {
        let index = self.readable(index).await?;
        match self.rows.entry(&index, key).await? {
            Some(entry) => self.payload_or_entity(&index, entry).await,
            None => Ok(None),
        }
    }

    /// The index with this id or name, if its state is readable.
    pub(super) async fn readable(&self, name: &str) -> Result<Readable> {
        // The permission comes before the state: a drop that begins after the state is read waits for the lookup.
        let permission = self.set.permission().await?;
        let index = self.set.find(name)?;
        match self.set.state(index.id()) {
            IndexState::Readable => Ok(Readable { index, _permission: permission }),
            state => Err(Error::invalid_request(format!(
                "the index '{name}' of the table '{}' is {state}, not readable: call `build` and wait until the build has ended",
                self.rows.table
            ))),
        }
    }

    /// The entity of an entry: the entry's payload, or the entity if the lookup verifies, the entry is a reference, or the entry is a
    /// reservation. `None` if the entity no longer has the entry.
    pub(super) async fn resolve(&self, index: &Index, entry: Entity, trust: Trust) -> Result<Option<Entity>> {
        // A reservation is in the index before its write commits, and may never commit: only the entity shows whether it did.
        let reads_entity =
            *index.payload() == Payload::Reference || trust == Trust::Entity || is_pending(&entry);
        if !reads_entity {
            return payload(index, entry).map(Some);
        }
        let at = self.rows.location(index, entry.key());
        // During a move, the entry of a unique value names both the source and the moved entity (docs/protocol.md, *Moves*).
        for holder in holders(&entry)? {
            if let Some(entity) = self.rows.entity(&holder).await?
                && index.leads_to(self.rows.table, &entity, &at)?
            {
                return Ok(Some(entity));
            }
        }
        Ok(None)
    }

    /// The entities of entries, with their keys; an entity that cannot be read as its error.
    async fn resolve_all(&self, index: &Index, rows: Vec<Entity>, trust: Trust) -> Result<Vec<Resolved>> {
        let resolved = stream::iter(rows).map(|entry| async {
            let key = owner_or_key(&entry);
            of_one_entity(key, self.resolve(index, entry, trust).await)
        });
        let resolved = resolved.buffered(self.rows.concurrency);
        resolved.try_filter_map(|found| async move { Ok(found) }).try_collect().await
    }

    /// The payload of an entry. For a reservation, whose write may never commit: the entity, if it has the entry.
    async fn payload_or_entity(&self, index: &Index, entry: Entity) -> Result<Option<Entity>> {
        if is_pending(&entry) {
            return self.resolve(index, entry, Trust::Entity).await;
        }
        payload(index, entry).map(Some)
    }

    /// A page of entries, with a list of the unreadable ones; all of them for a query that sorts on the client, in a store that does not sort.
    pub(super) async fn read_rows(
        &self,
        index: &Index,
        query: &IndexQuery,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let sorts = query.sorts() && !self.rows.is_sorted();
        let rows = query.to_query(index);
        // Sorting needs every row, so the page size does not apply, and the answer is one page.
        let rows = if sorts { Query { top: None, ..rows } } else { rows };
        let mut found = self.rows.readable_page(index, &rows, from).await?;
        while let Some(next) = found.page.continuation.take_if(|_| sorts) {
            let more = self.rows.readable_page(index, &rows, Some(&next)).await?;
            found.page.items.extend(more.page.items);
            found.unreadable.extend(more.unreadable);
            found.page.continuation = more.page.continuation;
        }
        if sorts {
            found.page.items.sort_by(|a, b| a.key().cmp(b.key()));
        }
        Ok(found)
    }

    /// Refuses a query whose result depends on the order of entries, in a store that does not sort.
    pub(super) fn check_order(&self, sorts: bool) -> Result<()> {
        if sorts || self.rows.is_sorted() {
            return Ok(());
        }
        let what = "entries in the order of their keys; call `sorted_on_client`, which reads and sorts all matching entries";
        Err(Error::unsupported(self.rows.store.profile().name, what))
    }

    /// Whether an entity has an entry of an index in a partition and a range.
    pub(crate) fn has_entry_among(
        &self,
        index: &str,
        entity: &Entity,
        partition: &str,
        rows: &Range,
    ) -> Result<bool> {
        let entries = self.set.find(index)?.entries(self.rows.table, entity)?;
        let mut keys = entries.iter().map(|entry| &entry.location.key);
        Ok(keys.any(|key| key.partition() == partition && rows.contains(key.row())))
    }
}

/// An entity, or why it cannot be read.
type Resolved = (Key, Result<Entity>);

/// An error of one entity belongs to the entity, every other error to the page.
fn of_one_entity(key: Key, resolved: Result<Option<Entity>>) -> Result<Option<Resolved>> {
    match resolved {
        Err(error) if !error.is_of_one_entity() => Err(error),
        done => Ok(done.transpose().map(|done| (key, done))),
    }
}

/// The key of the entity that an entry leads to; the key of the entry if the entry does not name the entity.
fn owner_or_key(entry: &Entity) -> Key {
    Entry::owner_of(entry).unwrap_or_else(|_| entry.key().clone())
}

/// Adds entries that cannot be read.
fn with_unreadable(mut found: ReadablePage, entries: Vec<UnreadableEntity>) -> ReadablePage {
    found.unreadable.extend(entries);
    found
}

/// The entity as its entry shows it, without an ETag: the entry is a copy.
fn payload(index: &Index, entry: Entity) -> Result<Entity> {
    let owner = Entry::owner_of(&entry)?;
    let (_, mut properties): (Key, Properties) = entry.into_parts();
    properties.retain(|p| !is_entry_property(p.name()));
    if let Some((property, value)) = index.discriminator() {
        properties.set(property, value);
    }
    Ok(Entity::from_parts(owner, properties))
}

/// Refuses an index whose entries do not lead to entities.
fn check_leads_to_entities(index: &Index) -> Result<()> {
    let reason = match index.shape() {
        Shape::Summary { .. } => "counts entities: call `summary`",
        Shape::Copy { .. } => "copies into an entity: read that entity",
        Shape::Row | Shape::List { .. } | Shape::Blob => return Ok(()),
    };
    Err(Error::invalid_request(format!("the index '{}' {reason}", index.name())))
}
