//! Queries and index lookups of whole entities, including their large values.

use std::fmt;
use std::future::ready;
use std::ops::RangeBounds;

use futures_util::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::Entity;
use table_core::query::{
    AccessPath, Continuation, Explanation, Filter, Page, Range, ReadablePage, UnreadableEntity,
};
use table_core::store::{Error, Result};
use table_core::typed::{
    FindsOne, FromEntity, IndexEntries, IntoCondition, ManyEntries, PartitionIn, PartitionPrefix,
    RowBounds, TableEntity, TableQuery,
};

use super::read::large_names;
use super::{LargeRow, LargeTable};
use crate::rows::{readable, stream_readable};
use crate::table::Lookup;

/// A query of whole large entities. [`LargeTable::query`] makes it; it can be narrowed, and can run more than once.
///
/// No filter compares a large property, because the row may hold a reference in place of the value. The typed fields have no
/// comparisons, and a [`raw_filter`](Self::raw_filter) on a large property is an error when the query runs.
///
/// # Cost
/// The requests of a [`TableQuery`], and 1 per large value, several at once ([`LargeTable::with_concurrency`]). A
/// [`count`](Self::count) reads no blobs.
///
/// # Consistency
/// If an entity is replaced before its values are read, the query returns the new state if it still matches. An entity that
/// was deleted or does not match any more is omitted; a [`limit`](Self::limit) does not replace it by another.
#[must_use = "a query does nothing until it is run"]
pub struct LargeQuery<T> {
    pub(super) table: LargeTable<T>,
    rows: Result<TableQuery<LargeRow<T>>>,
    limit: Option<usize>,
}

impl<T: TableEntity> LargeTable<T> {
    /// A query of all entities of type `T` with their large values, which the caller can narrow. No request. See
    /// [`LargeQuery`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use object_store::memory::InMemory;
    /// # use table_core::{memory::MemoryStore, prelude::*};
    /// # use table_patterns::large::LargeTable;
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(rename_all = "PascalCase")]
    /// # struct Report {
    /// #     #[partition_key] department: String, #[row_key] number: u32, title: String, #[large(over = 100)] text: String,
    /// # }
    /// # let reports =
    /// #     LargeTable::<Report>::new(Arc::new(MemoryStore::new()), "Reports", Arc::new(InMemory::new()))?;
    /// # reports.create_if_missing().await?;
    /// # let text = "a long story. ".repeat(100);
    /// # reports.insert(&Report { department: "Sales".into(), number: 1, title: "2013".into(), text }).await?;
    /// let sales = reports.query().partition(Report::partition("Sales")?);
    /// let page = sales.filter(Report::TITLE.eq("2013")).limit(20).page(None).await?;
    /// assert_eq!(page.items[0].text.len(), 1_400);
    /// # Ok(())
    /// # }
    /// ```
    pub fn query(&self) -> LargeQuery<T> {
        LargeQuery {
            table: self.clone(),
            rows: Ok(self.rows()),
            limit: None,
        }
    }
}

/// Selects entities.
impl<T: TableEntity> LargeQuery<T> {
    /// Selects entities of this partition.
    pub fn partition(self, partition: impl PartitionIn<T>) -> Self {
        self.and(|rows| rows.partition(partition.partition_key()))
    }

    /// Selects entities in a range of partitions: see [`TableQuery::partition_range`].
    pub fn partition_range<P: PartitionIn<T>>(self, partitions: impl RangeBounds<P>) -> Self {
        let start = partitions
            .start_bound()
            .map(|of| of.partition_key().clone());
        let end = partitions.end_bound().map(|of| of.partition_key().clone());
        self.and(|rows| rows.partition_range((start, end)))
    }

    /// Selects entities in partitions that start with this text.
    pub fn partition_prefix(self, prefix: impl Into<PartitionPrefix<T>>) -> Self {
        self.and(|rows| rows.partition_prefix(prefix.into().cast::<LargeRow<T>>()))
    }

    /// Selects entities with these row keys: see [`TableQuery::rows`].
    pub fn rows(self, rows: impl RowBounds<T>) -> Self {
        self.and(|query| query.rows(Rows(rows.into_range())))
    }

    /// Selects entities that match. The service reads the other rows too, but their blobs are not read.
    pub fn filter(self, condition: impl IntoCondition<T>) -> Self {
        match condition.into_condition().into_filter() {
            Ok(filter) => self.raw_filter(filter),
            Err(error) => self.refused(error),
        }
    }

    /// Selects entities that match a filter on property names. A comparison of a large or encrypted property is an error when
    /// the query runs.
    pub fn raw_filter(self, filter: Filter) -> Self {
        let mut compared = None;
        filter.for_each_property(&mut |name| {
            compared = compared
                .take()
                .or_else(|| large_names::<T>().find(|large| *large == name));
        });
        if let Some(name) = compared {
            let table = self.table.name();
            let error = Error::invalid_argument(format!(
                "the filter compares '{name}' of the table '{table}', whose values may be in blobs: compare another property"
            ));
            return self.refused(error);
        }
        self.and(|rows| rows.raw_filter(filter))
    }

    fn and(self, narrow: impl FnOnce(TableQuery<LargeRow<T>>) -> TableQuery<LargeRow<T>>) -> Self {
        Self {
            rows: self.rows.map(narrow),
            ..self
        }
    }

    /// Keeps the first error.
    fn refused(self, error: Error) -> Self {
        Self {
            rows: self.rows.and(Err(error)),
            ..self
        }
    }
}

/// Sets the number and the order of results.
impl<T: TableEntity> LargeQuery<T> {
    /// Returns at most this many entities: see [`TableQuery::limit`]. A limit bounds each [`page`](Self::page), and
    /// the next page continues after it.
    pub fn limit(self, entities: usize) -> Self {
        Self {
            limit: Some(entities),
            ..self.and(|rows| rows.limit(entities))
        }
    }

    /// Sets the maximal number of rows in a page. The service has a limit too.
    pub fn page_size(self, entities: usize) -> Self {
        self.and(|rows| rows.page_size(entities))
    }

    /// Reads the next page of rows while the present page is consumed: see [`TableQuery::prefetch`].
    pub fn prefetch(self) -> Self {
        self.and(TableQuery::prefetch)
    }

    /// Requires results in the order of keys: see [`TableQuery::require_order`].
    pub fn require_order(self) -> Self {
        self.and(TableQuery::require_order)
    }

    /// Accepts results in any order: see [`TableQuery::in_any_order`].
    pub fn in_any_order(self) -> Self {
        self.and(TableQuery::in_any_order)
    }

    /// Returns results in the order of keys from every store: see [`TableQuery::sorted_on_client`].
    pub fn sorted_on_client(self) -> Self {
        self.and(TableQuery::sorted_on_client)
    }

    /// Runs a cheaper plan with the same result if there is one: see [`TableQuery::use_cheaper_plan`].
    pub fn use_cheaper_plan(self) -> Self {
        self.and(TableQuery::use_cheaper_plan)
    }

    /// Returns entities of another type: a projection of `T` without large fields. No blob is read.
    ///
    /// # Errors
    /// A filter that was refused.
    pub fn project<P: FromEntity>(self) -> Result<TableQuery<LargeRow<T>, P>> {
        self.rows.map(TableQuery::project)
    }

    /// How the store finds the entities. No request.
    ///
    /// # Errors
    /// A key part or a compared value cannot be encoded; a filter was refused.
    pub fn access_path(&self) -> Result<AccessPath> {
        self.narrowed()?.access_path()
    }

    /// How the query will run, and what would be cheaper. No request.
    ///
    /// # Errors
    /// As [`access_path`](Self::access_path).
    pub fn explain(&self) -> Result<Explanation> {
        self.narrowed()?.explain()
    }
}

/// Runs the query.
impl<T: TableEntity> LargeQuery<T> {
    /// The results as a stream, in the order of the rows. The values of several entities are read at once. An error ends the
    /// stream.
    ///
    /// # Errors
    /// As items: errors of the stores; a row that is not a `T`; a missing or damaged blob; a filter that was refused.
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T> {
        let prepared = self
            .narrowed()
            .and_then(|rows| Ok((rows.stream(), rows.to_query()?.filter)));
        let (rows, filter) = match prepared {
            Ok((rows, filter)) => (rows.boxed(), filter),
            Err(error) => (stream::iter([Err(error)]).boxed(), None),
        };
        let (table, concurrency) = (self.table.clone(), self.concurrency());
        let loads = rows.map(move |row| {
            let (table, filter) = (table.clone(), filter.clone());
            async move { table.load_matching(row?, filter.as_ref()).await }
        });
        Box::pin(found(loads.buffered(concurrency)))
    }

    /// Reads all results into memory.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn all(&self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    /// Reads the first result in the order of keys; `None` if there is no result.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); the store does not sort (see [`limit`](Self::limit)).
    pub async fn first(&self) -> Result<Option<T>> {
        let rows = self.narrowed()?;
        let filter = rows.to_query()?.filter;
        // Without a value, the row was deleted or does not match any more, so the next query finds another first row.
        while let Some(row) = rows.first().await? {
            if let Some(found) = self.table.load_matching(row, filter.as_ref()).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Counts the rows of the results. 1 request per page.
    ///
    /// # Errors
    /// Errors of the store; a filter that was refused.
    pub async fn count(&self) -> Result<usize> {
        self.narrowed()?.count().await
    }

    /// Reads one page, from the start or from a continuation token: see [`TableQuery::page`]. 1 request, and 1 per large
    /// value.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); a continuation token of another query; a query that has no pages.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<T>> {
        let rows = self.narrowed()?;
        let filter = rows.to_query()?.filter;
        let page = rows.page(from).await?;
        let loads =
            stream::iter(page.items).map(|row| self.table.load_matching(row, filter.as_ref()));
        let items = found(loads.buffered(self.concurrency()))
            .try_collect()
            .await?;
        Ok(Page {
            items,
            continuation: page.continuation,
        })
    }

    /// Reads one page like [`page`](Self::page), and lists the entities of it that cannot be read, with keys and errors: a row that is not a
    /// `T`, or a missing or damaged blob.
    ///
    /// # Errors
    /// As [`page`](Self::page), without the errors of single entities.
    pub async fn readable_page(&self, from: Option<&Continuation>) -> Result<ReadablePage<T>> {
        let rows = self.narrowed()?;
        let filter = rows.to_query()?.filter;
        let rows = rows.readable_page(from).await?;
        let load = |row| self.table.load_matching(row, filter.as_ref());
        load_readable(rows, load, self.concurrency()).await
    }

    /// Returns a stream of the results that goes on after an entity that cannot be read: such an entity is an `Err` with its key within an
    /// `Ok`. An error of the store ends the stream. The requests of its [pages](Self::page). The unreadable entities of a page come after the
    /// others, and do not count towards a [`limit`](Self::limit).
    ///
    /// # Errors
    /// The errors of [`readable_page`](Self::readable_page), as items.
    pub fn stream_readable(
        &self,
    ) -> impl Stream<Item = Result<Result<T, UnreadableEntity>>> + Send + Unpin + use<T> {
        stream_readable(
            self.clone(),
            self.limit,
            Self::limit,
            |query, from| async move { query.readable_page(from.as_ref()).await },
        )
    }

    /// The text that identifies the query: a cursor is valid only for queries with the same text.
    #[cfg(feature = "paging")]
    pub(crate) fn identity(&self) -> Result<String> {
        let rows = self.narrowed()?;
        let (store, table) = rows.target();
        Ok(crate::rows::query_identity(
            store.profile(),
            table,
            &rows.to_query()?,
        ))
    }

    pub(super) fn narrowed(&self) -> Result<&TableQuery<LargeRow<T>>> {
        self.rows.as_ref().map_err(Clone::clone)
    }

    fn concurrency(&self) -> usize {
        self.table.concurrency(self.limit)
    }
}

impl<T: TableEntity> LargeTable<T> {
    /// The number of entities whose values are read at once: not more than the limit, so that no value is read in vain.
    pub(super) fn concurrency(&self, limit: Option<usize>) -> usize {
        self.options()
            .concurrency
            .min(limit.unwrap_or(usize::MAX))
            .max(1)
    }

    /// The entity of a row; `None` if the entity was deleted or does not match any more.
    pub(super) async fn load_matching(
        &self,
        row: LargeRow<T>,
        filter: Option<&Filter>,
    ) -> Result<Option<T>> {
        let (key, mut now): (_, Entity) = (row.entity.key().clone(), row.entity);
        loop {
            if let Some(found) = self.load_if_unchanged(now).await? {
                return Ok(Some(found));
            }
            match self.row(&key).await? {
                // Another writer has changed the row. The store has compared only the old row with the filter.
                Some(changed) if filter.is_none_or(|filter| filter.matches(&changed)) => {
                    now = changed;
                }
                _ => return Ok(None),
            }
        }
    }
}

/// The entities that exist, without the rows whose entities are gone.
fn found<T: Send>(
    loaded: impl Stream<Item = Result<Option<T>>> + Send,
) -> impl Stream<Item = Result<T>> + Send {
    loaded.try_filter_map(|found| ready(Ok(found)))
}

/// Loads the entities of a page of rows, and lists those that cannot be read.
async fn load_readable<T: Send, F>(
    rows: ReadablePage<LargeRow<T>>,
    load: impl Fn(LargeRow<T>) -> F + Send + Sync,
    concurrency: usize,
) -> Result<ReadablePage<T>>
where
    F: Future<Output = Result<Option<T>>> + Send,
{
    let ReadablePage { page, unreadable } = rows;
    let loads = stream::iter(page.items).map(|row| {
        let key = row.entity.key().clone();
        load(row).map(|loaded| match loaded {
            // A transient error concerns more than the entity, so it is an error of the page.
            Err(error) if error.is_transient() => Err(error),
            loaded => Ok(loaded.transpose().map(|loaded| (key, loaded))),
        })
    });
    let loaded: Vec<_> = found(loads.buffered(concurrency)).try_collect().await?;
    let mut loaded = readable(loaded, page.continuation);
    loaded.unreadable.extend(unreadable);
    Ok(loaded)
}

/// Row keys of `T`, for a query of its rows.
struct Rows(Result<Range>);

impl<T> RowBounds<LargeRow<T>> for Rows {
    fn into_range(self) -> Result<Range> {
        self.0
    }
}

impl<T> Clone for LargeQuery<T> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            rows: self.rows.clone(),
            limit: self.limit,
        }
    }
}

impl<T> fmt::Debug for LargeQuery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeQuery")
            .field("rows", &self.rows)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// A lookup of whole large entities by an index. [`LargeTable::by`] makes it.
///
/// # Cost
/// The requests of a [`Lookup`] that reads every entity, and 1 per large value.
///
/// # Consistency
/// Index entries have no large values, so every entity is read, and is returned only if it still has its index entry: no
/// result is stale. An entity that is replaced before its values are read is read again.
#[must_use = "a lookup does nothing until it is run"]
pub struct LargeLookup<T, K = ManyEntries> {
    table: LargeTable<T>,
    rows: Lookup<T, LargeRow<T>, K>,
    limit: Option<usize>,
}

impl<T: TableEntity, K> LargeLookup<T, K> {
    pub(super) const fn new(table: LargeTable<T>, rows: Lookup<T, LargeRow<T>, K>) -> Self {
        Self {
            table,
            rows,
            limit: None,
        }
    }

    /// The text that identifies the lookup: a cursor is valid only for lookups with the same text.
    #[cfg(feature = "paging")]
    pub(crate) fn identity(&self) -> Result<String> {
        self.rows.identity()
    }

    /// Returns at most this many entities: see [`Lookup::limit`].
    pub fn limit(self, entities: usize) -> Self {
        Self {
            rows: self.rows.limit(entities),
            limit: Some(entities),
            ..self
        }
    }

    /// Sets the maximal number of entries in a page: see [`Lookup::page_size`].
    pub fn page_size(self, entries: usize) -> Self {
        Self {
            rows: self.rows.page_size(entries),
            ..self
        }
    }

    /// Sorts the entities in the order of their entries if the store does not: see [`Lookup::sorted_on_client`].
    pub fn sorted_on_client(self) -> Self {
        Self {
            rows: self.rows.sorted_on_client(),
            ..self
        }
    }

    /// A lookup of the rows without the values in blobs; [`LargeTable::load`] reads the values.
    pub fn rows(self) -> Lookup<T, LargeRow<T>, K> {
        self.rows
    }

    /// Returns entities of another type: a projection of `T` without large fields. If the entries contain all its properties,
    /// no entity is read.
    pub fn project<P: FromEntity>(self) -> Lookup<T, P, K> {
        self.rows.project()
    }

    /// Reads all results into memory.
    ///
    /// # Errors
    /// As for [`Lookup::page`]; errors of the blob store; a missing or damaged blob.
    pub async fn all(&self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    /// The results as a stream. The values of several entities are read at once
    /// ([`LargeOptions::concurrency`](super::LargeOptions)). The stream owns what it needs: it borrows neither the lookup nor
    /// the table.
    ///
    /// # Errors
    /// As for [`all`](Self::all), as an item.
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + use<T, K> {
        let (lookup, concurrency) = (self.clone(), self.table.concurrency(self.limit));
        let loads = self.rows.stream().map(move |row| {
            let lookup = lookup.clone();
            async move { lookup.load(row?).await }
        });
        found(loads.buffered(concurrency))
    }

    /// Reads one page, from the start or from a continuation token: see [`Lookup::page`].
    ///
    /// # Errors
    /// As for [`all`](Self::all).
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<T>> {
        let page = self.rows.page(from).await?;
        let loads = stream::iter(page.items).map(|row| self.load(row));
        let items = found(loads.buffered(self.table.concurrency(None)))
            .try_collect()
            .await?;
        Ok(Page {
            items,
            continuation: page.continuation,
        })
    }

    /// Reads one page like [`page`](Self::page), and lists the entities of it that cannot be read, with keys and errors: a row
    /// that is not a `T`, or a missing or damaged blob.
    ///
    /// # Errors
    /// As for [`page`](Self::page), without the errors of single entities.
    pub async fn readable_page(&self, from: Option<&Continuation>) -> Result<ReadablePage<T>> {
        let rows = self.rows.readable_page(from).await?;
        load_readable(rows, |row| self.load(row), self.table.concurrency(None)).await
    }

    /// Returns a stream of the results that goes on after an entity that cannot be read: such an entity is an `Err` with its key within an
    /// `Ok`. An error of the store ends the stream. The requests of its [pages](Self::page). The unreadable entities of a page come after the
    /// others, and do not count towards a [`limit`](Self::limit).
    ///
    /// # Errors
    /// The errors of [`readable_page`](Self::readable_page), as items.
    pub fn stream_readable(
        &self,
    ) -> impl Stream<Item = Result<Result<T, UnreadableEntity>>> + Send + Unpin + use<T, K> {
        stream_readable(
            self.clone(),
            self.limit,
            Self::limit,
            |query, from| async move { query.readable_page(from.as_ref()).await },
        )
    }

    /// Reads the first result in the order of the entries; `None` if there is no result.
    ///
    /// # Errors
    /// As for [`all`](Self::all), and [`Lookup::first`].
    pub async fn first(&self) -> Result<Option<T>> {
        // Without a value, the entity was deleted or has lost its entry, so the next lookup finds another first entry.
        while let Some(row) = self.rows.first().await? {
            if let Some(found) = self.load(row).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Counts the results by their entries: see [`Lookup::count`].
    ///
    /// # Errors
    /// As for [`Lookup::page`].
    pub async fn count(&self) -> Result<usize> {
        self.rows.count().await
    }

    /// The entity of a row; `None` if the entity was deleted or has lost its index entry.
    pub(super) async fn load(&self, row: LargeRow<T>) -> Result<Option<T>> {
        let entries = self.rows.entries()?;
        let key = row.entity.key().clone();
        let mut now = row.entity;
        loop {
            if let Some(found) = self.table.load_if_unchanged(now).await? {
                return Ok(Some(found));
            }
            let Some(changed) = self.table.visible_row(&key).await? else {
                return Ok(None);
            };
            if !self.is_among(&entries, &changed).await? {
                return Ok(None);
            }
            now = changed;
        }
    }

    async fn is_among(&self, entries: &IndexEntries<T>, row: &Entity) -> Result<bool> {
        let (index, partition) = (entries.index(), entries.partition().as_str());
        self.rows
            .entities()
            .await?
            .lookups()
            .has_entry_among(index, row, partition, entries.rows())
    }
}

impl<T: TableEntity, K> LargeLookup<T, K> {
    /// Reads the entity; `None` if no entity has the entry. 2 requests, and 1 per large value. Only for the whole key of a unique index.
    ///
    /// # Errors
    /// As for [`all`](Self::all).
    pub async fn get(&self) -> Result<Option<T>>
    where
        K: FindsOne<T>,
    {
        let Some(row) = self.rows.get().await? else {
            return Ok(None);
        };
        self.load(row).await
    }
}

impl<T, K> Clone for LargeLookup<T, K> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            rows: self.rows.clone(),
            limit: self.limit,
        }
    }
}

impl<T, K> fmt::Debug for LargeLookup<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeLookup")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
