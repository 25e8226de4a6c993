//! From entries to entities: lookups in indexes whose rows hold one entry each. Lookups in lists and merged lookups use its parts.

use std::ops::Deref;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::IndexState;
use table_core::model::{Entity, Key, Properties};
use table_core::query::{Continuation, Query, Range, ReadablePage, UnreadableEntity};
use table_core::store::{CycleDetector, Error, Result};

use super::query::{IndexQuery, Trust};
use crate::entry::row_properties::{holders, is_pending};
use crate::entry::{Entry, Index, Payload, Permission, Shape, is_entry_property};
use crate::index::rows::IndexedRows;
use crate::index::states::set::IndexSet;
use crate::rows::readable;

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

/// Looks entities up by the rows of indexes that hold one entry each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookups<'a> {
    pub(crate) rows: IndexedRows<'a>,
    pub(crate) set: &'a IndexSet,
}

impl Lookups<'_> {
    /// See [`IndexedEntities::find`](crate::index::IndexedEntities::find).
    pub(crate) async fn find(
        &self,
        index: &str,
        key: &Key,
        trust: Trust,
    ) -> Result<Option<Entity>> {
        let index = self.readable(index).await?;
        check_leads_to_entities(&index)?;
        if index.shape().is_list() {
            let reason = format!(
                "the index '{}' keeps a list for each key: call `list`",
                index.name()
            );
            return Err(Error::misuse(reason));
        }
        match self.rows.entry(&index, key).await? {
            Some(entry) => self.resolve(&index, entry, trust).await,
            None => Ok(None),
        }
    }

    /// A page of the entities of an index whose rows hold one entry each, with a list of the entities and entries that cannot be read.
    pub(super) async fn page_of_entries(
        &self,
        index: &Index,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
        limit: usize,
    ) -> Result<ReadablePage> {
        let ReadablePage { page, unreadable } = self.read_rows(index, query, from).await?;
        let (mut items, mut rows) = (Vec::new(), page.items.into_iter());
        while items.len() < limit {
            let next: Vec<_> = rows.by_ref().take(limit - items.len()).collect();
            if next.is_empty() {
                break;
            }
            items.extend(self.resolve_all(index, next, trust).await?);
        }
        Ok(with_unreadable(
            readable(items, page.continuation),
            unreadable,
        ))
    }

    /// A page of payloads, with a list of the unreadable ones. 1 request, and 1 for each reservation in the page.
    pub(crate) async fn page_of_payloads(
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
        let payloads = payloads
            .buffered(self.rows.concurrency)
            .try_filter_map(|payload| async move { Ok(payload) });
        let items: Vec<_> = payloads.try_collect().await?;
        Ok(with_unreadable(
            readable(items, page.continuation),
            unreadable,
        ))
    }

    /// The payload of the entry with this key. 1 request.
    pub(crate) async fn find_payload(&self, index: &str, key: &Key) -> Result<Option<Entity>> {
        let index = self.readable(index).await?;
        match self.rows.entry(&index, key).await? {
            Some(entry) => self.payload_or_entity(&index, entry).await,
            None => Ok(None),
        }
    }

    /// The index with this id or name, if its state is readable.
    pub(crate) async fn readable(&self, name: &str) -> Result<Readable> {
        // The permission comes before the state: a drop that begins after the state is read waits for the lookup.
        let permission = self.set.permission().await?;
        let index = self.set.find(name)?;
        match self.set.state(index.id()) {
            IndexState::Readable => Ok(Readable { index, _permission: permission }),
            state => Err(self.set.check_in_force(&index).err().unwrap_or_else(|| Error::index_not_ready(format!(
                "the index '{name}' of the table '{}' is {state}, not readable: call `build` and wait until the build has ended",
                self.rows.table
            )))),
        }
    }

    /// The entity of an entry: the entry's payload, or the entity if the lookup verifies, the entry is a reference, or the entry is a
    /// reservation. `None` if the entity no longer has the entry.
    pub(super) async fn resolve(
        &self,
        index: &Index,
        entry: Entity,
        trust: Trust,
    ) -> Result<Option<Entity>> {
        // A reservation is in the index before its write commits, and may never commit: only the entity shows whether it did.
        let reads_entity =
            *index.payload() == Payload::Reference || trust == Trust::Entity || is_pending(&entry);
        if !reads_entity {
            return self.payload(index, entry);
        }
        let at = self.rows.location(index, entry.key());
        // During a move, the entry of a unique value names both the source and the moved entity (docs/protocol.md, *Moves*).
        for holder in holders(&entry)? {
            if let Some(entity) = self.rows.entities().get(&holder).await?
                && index.matches_origin(self.rows.table, &entity, &at)?
            {
                return Ok(Some(entity));
            }
        }
        Ok(None)
    }

    /// The entities of entries, with their keys; an entity that cannot be read as its error.
    async fn resolve_all(
        &self,
        index: &Index,
        rows: Vec<Entity>,
        trust: Trust,
    ) -> Result<Vec<Resolved>> {
        let resolved = stream::iter(rows).map(|entry| async {
            let key = owner_or_key(&entry);
            of_one_entity(key, self.resolve(index, entry, trust).await)
        });
        let resolved = resolved.buffered(self.rows.concurrency);
        resolved
            .try_filter_map(|found| async move { Ok(found) })
            .try_collect()
            .await
    }

    /// The payload of an entry. For a reservation, whose write may never commit: the entity, if it has the entry.
    async fn payload_or_entity(&self, index: &Index, entry: Entity) -> Result<Option<Entity>> {
        if is_pending(&entry) {
            return self.resolve(index, entry, Trust::Entity).await;
        }
        self.payload(index, entry)
    }

    /// The entity as its entry shows it; `None` if an entity with this content does not have the entry.
    fn payload(&self, index: &Index, entry: Entity) -> Result<Option<Entity>> {
        let at = self.rows.location(index, entry.key());
        let shown = payload(index, entry)?;
        Ok(index
            .may_show(self.rows.table, &shown, &at)?
            .then_some(shown))
    }

    /// A page of entries, with a list of the unreadable ones; all of them for a query that sorts on the client, in a store that does not sort.
    pub(super) async fn read_rows(
        &self,
        index: &Index,
        query: &IndexQuery,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let sorts = query.sorts() && !self.rows.is_sorted();
        let rows = query.to_query(index, self.rows.table);
        // Sorting needs every row, so the page size does not apply, and the answer is one page.
        let rows = if sorts {
            Query { top: None, ..rows }
        } else {
            rows
        };
        let (mut found, mut cycles) = (
            self.rows.readable_page(index, &rows, from).await?,
            CycleDetector::default(),
        );
        while let Some(next) = found.page.continuation.take_if(|_| sorts) {
            let more = self.rows.readable_page(index, &rows, Some(&next)).await?;
            cycles.add(&next, more.page.items.len() + more.unreadable.len())?;
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
    pub(crate) fn check_order(&self, sorts: bool) -> Result<()> {
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
pub(super) type Resolved = (Key, Result<Entity>);

/// An error of one entity belongs to the entity, every other error to the page.
pub(super) fn of_one_entity(
    key: Key,
    resolved: Result<Option<Entity>>,
) -> Result<Option<Resolved>> {
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
pub(super) fn with_unreadable(
    mut found: ReadablePage,
    entries: Vec<UnreadableEntity>,
) -> ReadablePage {
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
pub(super) fn check_leads_to_entities(index: &Index) -> Result<()> {
    let reason = match index.shape() {
        Shape::Summary { .. } => "counts entities: call `summary`",
        Shape::Copy { .. } => "copies into an entity: read that entity",
        Shape::Feed => "is a change feed: read its changes by `Table::changes`",
        Shape::Row | Shape::List { .. } | Shape::Blob => return Ok(()),
    };
    Err(Error::misuse(format!(
        "the index '{}' {reason}",
        index.name()
    )))
}
