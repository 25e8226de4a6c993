use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, Key, Properties};
use table_core::query::{Continuation, Filter, KeyBounds, Page, Query, Range};
use table_core::store::{Error, KeyOrder, Result};

use super::definition::{Index, Payload, Placement};
use super::entry::{Entry, Location, Maintainer as _, is_entrys};
use super::indexed::IndexedEntities;
use super::shape::Shape;
use super::state::IndexState;
use crate::journal::is_pending;

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
        of_entities(index)?;
        if index.shape().is_list() {
            let reason = format!("the index '{}' has a list for each key: use `list`", index.name());
            return Err(Error::invalid_request(reason));
        }
        let at = self.location(index, key);
        let Some(entry) = self.store().get(&at.table, &at.key, None).await? else { return Ok(None) };
        self.resolve(index, entry, trust).await
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
        of_entities(index)?;
        let page = self.read_rows(index, query, from).await?;
        if index.shape().is_list() {
            let items = self.follow_lists(index, page.items, limit).await?;
            return Ok(Page { items, continuation: page.continuation });
        }
        let (mut items, mut rows) = (Vec::new(), page.items.into_iter());
        while items.len() < limit {
            let next: Vec<_> = rows.by_ref().take(limit - items.len()).collect();
            if next.is_empty() {
                break;
            }
            items.extend(self.resolve_all(index, next, trust).await?);
        }
        Ok(Page { items, continuation: page.continuation })
    }

    async fn resolve_all(&self, index: &Index, rows: Vec<Entity>, trust: Trust) -> Result<Vec<Entity>> {
        let resolved = stream::iter(rows).map(|entry| self.resolve(index, entry, trust));
        let resolved = resolved.buffered(self.at_once());
        resolved.try_filter_map(|found| async move { Ok(found) }).try_collect().await
    }

    /// A page of entries; all of them where the store does not sort and the client is to.
    pub(super) async fn read_rows(
        &self,
        index: &Index,
        query: &IndexQuery,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let sorts = query.sorts && !self.is_sorted();
        let rows = query.to_query(index);
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

    /// Whether the store answers in the order of keys.
    pub(super) fn is_sorted(&self) -> bool {
        self.store().profile().order == KeyOrder::Sorted
    }

    /// Refuses what is only an answer in the order of entries, where there is none.
    pub(super) fn check_order(&self, sorts: bool) -> Result<()> {
        if sorts || self.is_sorted() {
            return Ok(());
        }
        let what = "entries in the order of their keys; `sorted_on_client` reads and sorts them all";
        Err(Error::unsupported(self.store().profile().name, what))
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

    /// The entities of lists, list by list, until there are so many.
    async fn follow_lists(&self, index: &Index, rows: Vec<Entity>, limit: usize) -> Result<Vec<Entity>> {
        let mut all = Vec::new();
        for row in rows.into_iter().filter(|row| !row.key().is_system()) {
            if all.len() >= limit {
                break;
            }
            let at = self.location(index, row.key());
            let keys = self.keys_of(index, &at, &row).await?;
            all.extend(self.follow(index, &at, keys, limit - all.len()).await?);
        }
        Ok(all)
    }

    pub(super) async fn readable(&self, name: &str) -> Result<&Index> {
        let index = self.set.find(name)?;
        self.set.prepare(&**self.store()).await?;
        match self.state(name) {
            IndexState::Readable => Ok(index),
            state => Err(Error::invalid_request(format!(
                "the index '{name}' of the table '{}' is {state}, not readable: build it first",
                self.table()
            ))),
        }
    }

    pub(super) fn location(&self, index: &Index, key: &Key) -> Location {
        Location { table: self.index_table(index), key: key.clone() }
    }

    pub(super) fn index_table(&self, index: &Index) -> table_core::model::TableName {
        match index.placement() {
            Placement::OtherTable(table) => table.clone(),
            _ => self.table().clone(),
        }
    }

    /// A page of the rows of an index. One request.
    pub(super) async fn query_rows(
        &self,
        index: &Index,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let mut page = self.store().query(&self.index_table(index), query, from).await?;
        if !matches!(index.shape(), Shape::Copy { .. }) {
            page.items.retain(|row| Entry::index_of(row) == Some(index.name()));
        }
        Ok(page)
    }

    pub(super) async fn resolve(&self, index: &Index, entry: Entity, trust: Trust) -> Result<Option<Entity>> {
        let follows = *index.payload() == Payload::Reference || trust == Trust::Entity || is_pending(&entry);
        if !follows {
            return payload(index, entry).map(Some);
        }
        let at = self.location(index, entry.key());
        let Some(entity) = self.get(&Entry::owner_of(&entry)?).await? else { return Ok(None) };
        let holds = index.entry(self.table(), &entity)?.is_some_and(|e| e.location == at);
        Ok(holds.then_some(entity))
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

/// Which entries of an index to read.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexQuery {
    partition: String,
    rows: Option<Filter>,
    top: Option<usize>,
    sorts: bool,
}

impl IndexQuery {
    /// The entries in a partition.
    pub fn partition(partition: impl Into<String>) -> Self {
        Self { partition: partition.into(), rows: None, top: None, sorts: false }
    }

    /// The same entries in another partition.
    #[must_use]
    pub fn in_partition(self, partition: impl Into<String>) -> Self {
        Self { partition: partition.into(), ..self }
    }

    /// Those whose row keys start so.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.rows = Filter::and_maybe(self.rows.take(), Some(Filter::starts_with(Filter::ROW_KEY, prefix)));
        self
    }

    /// Those whose row keys are from `from` on, and before `to`.
    #[must_use]
    pub fn range(mut self, from: &str, to: &str) -> Self {
        let range = Filter::ge(Filter::ROW_KEY, from).and(Filter::lt(Filter::ROW_KEY, to));
        self.rows = Filter::and_maybe(self.rows.take(), Some(range));
        self
    }

    /// Those whose row keys are in this range.
    #[must_use]
    pub fn rows(mut self, rows: &Range) -> Self {
        let rows = KeyBounds { partition: Range::ALL, row: rows.clone() }.to_filter();
        self.rows = Filter::and_maybe(self.rows.take(), rows);
        self
    }

    /// At most this many in a page.
    #[must_use]
    pub const fn top(mut self, top: usize) -> Self {
        self.top = Some(top);
        self
    }

    /// Entries in the order of their keys from every store. Of one that does not sort, *everything* that matches is
    /// read and held in memory, and is one page. From any other it changes nothing.
    #[must_use]
    pub const fn sorted_on_client(mut self) -> Self {
        self.sorts = true;
        self
    }

    pub(super) const fn sorts(&self) -> bool {
        self.sorts
    }

    pub(super) fn to_query(&self, index: &Index) -> Query {
        let partition = Filter::eq(Filter::PARTITION_KEY, self.partition.as_str());
        let of_index = Filter::eq(Entry::INDEX, index.name());
        let filter = Filter::and_maybe(Some(partition), self.rows.clone()).map(|f| f.and(of_index));
        Query { filter, select: None, top: self.top }
    }
}

/// The entity as its entry shows it: without an ETag, since it is a copy.
pub(super) fn payload(index: &Index, entry: Entity) -> Result<Entity> {
    let owner = Entry::owner_of(&entry)?;
    let (_, mut properties): (Key, Properties) = entry.into_parts();
    properties.retain(|p| !is_entrys(p.name()));
    if let Some((property, value)) = index.discriminator() {
        properties.set(property, value.as_str());
    }
    Ok(Entity::from_parts(owner, properties))
}

/// Whether a row is neither an index entry nor a system row.
pub(super) fn is_entity(row: &Entity) -> bool {
    !row.key().is_system() && Entry::index_of(row).is_none()
}
