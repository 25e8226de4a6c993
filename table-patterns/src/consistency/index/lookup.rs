use futures_util::{Stream, TryStreamExt as _, stream};
use table_core::model::{Entity, Key};
use table_core::query::{Continuation, Page, Range};
use table_core::store::{Error, Result};

use super::definition::Index;
use super::indexed::IndexedEntities;
use super::query::IndexQuery;
use super::shape::Shape;

/// How far a lookup trusts an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// What the entry holds is the answer, if it holds the wanted properties: one request, and perhaps
    /// a state that has just changed. References are followed.
    #[default]
    Entry,
    /// The entity is read and must still have the entry: one request more, never stale.
    Entity,
}

impl IndexedEntities {
    /// The entity whose entry has this key. One request for an index that holds the properties, two for
    /// references or with [`Trust::Entity`].
    ///
    /// # Errors
    /// The index is unknown or not readable.
    pub async fn find(&self, index: &str, key: &Key, trust: Trust) -> Result<Option<Entity>> {
        let index = self.readable(index).await?;
        of_entities(&index)?;
        if index.shape().is_list() {
            let reason = format!("the index '{}' has a list for each key: use `list`", index.name());
            return Err(Error::invalid_request(reason));
        }
        match self.entry_row(&index, key).await? {
            Some(entry) => self.resolve(&index, entry, trust).await,
            None => Ok(None),
        }
    }

    /// A page of the entities whose entries are in a partition of the index and match a filter on
    /// RowKey, in the order of the entries; of a store that does not sort, in its own, unless
    /// [`sorted_on_client`](IndexQuery::sorted_on_client). One request, and one per reference, as many at once as
    /// [`IndexOptions::concurrency`](super::IndexOptions) says.
    ///
    /// Stale references are left out, so that a page may be short. A page of lists has all entities of each.
    ///
    /// # Errors
    /// The index is unknown or not readable; the storage's.
    pub async fn page(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
    ) -> Result<Page<Entity>> {
        self.page_within(index, query, from, trust, usize::MAX).await
    }

    /// The same, with references of lists followed until there are so many entities.
    pub(super) async fn page_within(
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

    /// All entities of [`page`](Self::page), a page at a time: the next is read when those before it are
    /// taken.
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
    /// Whether an entity has an entry of an index among those of a partition and a range.
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

/// Refuses an index that does not lead to entities.
fn of_entities(index: &Index) -> Result<()> {
    let reason = match index.shape() {
        Shape::Summary { .. } => "counts entities: use `summary`",
        Shape::Copy { .. } => "copies into an entity: read that",
        Shape::Row | Shape::List { .. } | Shape::Blob => return Ok(()),
    };
    Err(Error::invalid_request(format!("the index '{}' {reason}", index.name())))
}
