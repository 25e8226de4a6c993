use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, Key};
use table_core::query::{Continuation, Page, Range};
use table_core::store::{Error, Result};

use super::entries::{IndexQuery, payload};
use crate::entry::{Index, Shape};
use crate::index::handle::IndexedEntities;
use crate::journal::is_pending;

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

impl IndexedEntities {
    /// The entity whose entry has this key. 1 request for an index with the properties; 2 for references or
    /// with [`Trust::Entity`].
    ///
    /// # Errors
    /// The index is unknown or not readable.
    pub async fn find(&self, index: &str, key: &Key, trust: Trust) -> Result<Option<Entity>> {
        let index = self.readable(index).await?;
        of_entities(&index)?;
        if index.shape().is_list() {
            let reason = format!("the index '{}' keeps a list for each key: call `list`", index.name());
            return Err(Error::invalid_request(reason));
        }
        match self.entry_row(&index, key).await? {
            Some(entry) => self.resolve(&index, entry, trust).await,
            None => Ok(None),
        }
    }

    /// A page of the entities whose entries are in a partition of the index and match a filter on the RowKey,
    /// in the order of the entries. A store that does not sort returns its own order, unless the query has
    /// [`sorted_on_client`](IndexQuery::sorted_on_client). 1 request, and 1 for each reference, with
    /// [`IndexOptions::concurrency`](crate::index::IndexOptions) requests in parallel: 2 round trips for up to that many
    /// references.
    ///
    /// References are followed by point queries. One query for several RowKeys of a partition, joined by `or`, would be one request,
    /// but the service scans the partition for it
    /// ([source](https://learn.microsoft.com/azure/storage/tables/table-storage-design-for-query)).
    ///
    /// Stale references are omitted, so a page may be short. A page of lists has all entities of each list.
    ///
    /// # Errors
    /// The index is unknown or not readable; an error of the store.
    pub async fn page(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
    ) -> Result<Page<Entity>> {
        self.page_within(index, query, from, trust, usize::MAX).await
    }

    /// As [`page`](Self::page); stops following references of lists at `limit` entities.
    pub(crate) async fn page_within(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
        limit: usize,
    ) -> Result<Page<Entity>> {
        let index = self.readable(index).await?;
        of_entities(&index)?;
        if index.shape().is_list() {
            return self.page_of_lists(&index, query, from, limit).await;
        }
        let page = self.read_rows(&index, query, from).await?;
        let (mut items, mut rows) = (Vec::new(), page.items.into_iter());
        while items.len() < limit {
            let next: Vec<_> = rows.by_ref().take(limit - items.len()).collect();
            if next.is_empty() {
                break;
            }
            items.extend(self.resolve_all(&index, next, trust).await?);
        }
        Ok(Page { items, continuation: page.continuation })
    }

    /// All entities of [`page`](Self::page), one page at a time: the next page is read when all entities of the
    /// page before are consumed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::TableStore;
    /// use futures_util::{StreamExt, TryStreamExt};
    /// use table_patterns::index::{Index, IndexOptions, IndexQuery, IndexedEntities, Placement, Trust};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let table = TableName::new("People")?;
    /// # store.create_table(&table).await?;
    /// let by_city = Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}")?;
    /// let people = IndexedEntities::open(store, table, vec![by_city], IndexOptions::local()).await?;
    /// for id in ["1", "2", "3"] {
    ///     people.insert(Entity::new("p", id)?.with("City", "oslo")).await?;
    /// }
    /// let in_oslo = IndexQuery::partition("p").prefix("city_oslo_");
    /// let two: Vec<_> = people.stream("city", &in_oslo, Trust::Entry).take(2).try_collect().await?;
    /// assert_eq!(two.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`page`](Self::page), as an item.
    pub fn stream<'a>(
        &'a self,
        index: &'a str,
        query: &IndexQuery,
        trust: Trust,
    ) -> impl Stream<Item = Result<Entity>> + Send + use<'a> {
        let start = Some((query.clone(), None));
        let pages = stream::try_unfold(start, move |at| async move {
            let Some((query, from)) = at else { return Ok::<_, Error>(None) };
            let page = self.page(index, &query, from.as_ref(), trust).await?;
            let next = page.continuation.map(|from| (query, Some(from)));
            Ok(Some((stream::iter(page.items.into_iter().map(Ok)), next)))
        });
        pages.try_flatten()
    }

    /// All entities of [`page`](Self::page), collected.
    ///
    /// # Errors
    /// As for [`page`](Self::page).
    pub async fn all(&self, index: &str, query: &IndexQuery, trust: Trust) -> Result<Vec<Entity>> {
        self.stream(index, query, trust).try_collect().await
    }
}

impl IndexedEntities {
    /// Whether an entity has an entry of an index in a partition and a range.
    pub(crate) fn has_entry_among(
        &self,
        index: &str,
        entity: &Entity,
        partition: &str,
        rows: &Range,
    ) -> Result<bool> {
        let entries = self.set.find(index)?.entries(self.table(), entity)?;
        let mut keys = entries.iter().map(|entry| &entry.location.key);
        Ok(keys.any(|key| key.partition() == partition && rows.contains(key.row())))
    }
}

/// Refuses an index whose entries do not lead to entities.
fn of_entities(index: &Index) -> Result<()> {
    let reason = match index.shape() {
        Shape::Summary { .. } => "counts entities: call `summary`",
        Shape::Copy { .. } => "copies into an entity: read that entity",
        Shape::Row | Shape::List { .. } | Shape::Blob => return Ok(()),
    };
    Err(Error::invalid_request(format!("the index '{}' {reason}", index.name())))
}

impl IndexedEntities {
    /// A page of payloads. 1 request, and 1 for each reservation in the page.
    pub(crate) async fn page_of_payloads(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let index = self.readable(index).await?;
        let page = self.read_rows(&index, query, from).await?;
        let held = stream::iter(page.items).map(|entry| self.held(&index, entry)).buffered(self.at_once());
        let items = held.try_filter_map(|held| async move { Ok(held) }).try_collect().await?;
        Ok(Page { items, continuation: page.continuation })
    }

    /// The payload of the entry with this key. 1 request.
    pub(crate) async fn find_payload(&self, index: &str, key: &Key) -> Result<Option<Entity>> {
        let index = self.readable(index).await?;
        match self.entry_row(&index, key).await? {
            Some(entry) => self.held(&index, entry).await,
            None => Ok(None),
        }
    }

    /// The payload of an entry. A reservation proves nothing yet: its entity is read.
    async fn held(&self, index: &Index, entry: Entity) -> Result<Option<Entity>> {
        if is_pending(&entry) {
            return self.resolve(index, entry, Trust::Entity).await;
        }
        payload(index, entry).map(Some)
    }
}
