//! Queries of whole entities, large values included.

use std::fmt;
use std::future::ready;
use std::ops::RangeBounds;

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::Entity;
use table_core::query::{AccessPath, Continuation, Explanation, Filter, Page, Range};
use table_core::store::{Error, Result};
use table_core::typed::{Condition, FromEntity, PartitionIn, RowBounds, TableEntity, TableQuery};

use super::row::large_names;
use super::{LargeRow, LargeTable};

/// A query on a table of large entities that returns them whole: made by [`LargeTable::query`], narrowed down, then run. It can be
/// run more than once.
///
/// No filter compares a large property: the service would compare a reference where the value is in a blob. The typed fields
/// have no comparisons, and a [`raw_filter`](Self::raw_filter) on one is refused when the query is run.
///
/// # Cost
/// That of a [`TableQuery`], and one request for each large value, as many at once as [`LargeTable::with_concurrency`] says. A
/// [`count`](Self::count) reads no blob.
///
/// # Consistency
/// An entity that is replaced before its values are read comes in its new state, if it still matches; one that is removed by then,
/// or does not match any more, is left out, and a [`limit`](Self::limit) does not make up for it.
#[must_use = "a query does nothing until it is run"]
pub struct LargeQuery<T> {
    table: LargeTable<T>,
    rows: Result<TableQuery<LargeRow<T>>>,
    limit: Option<usize>,
}

impl<T: TableEntity> LargeTable<T> {
    /// Everything in the table that is a `T`, with its large values, until it is narrowed down. See [`LargeQuery`].
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
        LargeQuery { table: self.clone(), rows: Ok(self.rows()), limit: None }
    }
}

/// Which entities.
impl<T: TableEntity> LargeQuery<T> {
    /// Only those in this partition.
    pub fn partition(self, partition: impl PartitionIn<T>) -> Self {
        self.and(|rows| rows.partition(partition.partition_key()))
    }

    /// Only those in a range of partitions: see [`TableQuery::partition_range`].
    pub fn partition_range<P: PartitionIn<T>>(self, partitions: impl RangeBounds<P>) -> Self {
        let start = partitions.start_bound().map(|of| of.partition_key().clone());
        let end = partitions.end_bound().map(|of| of.partition_key().clone());
        self.and(|rows| rows.partition_range((start, end)))
    }

    /// Only those in partitions that start with this text.
    pub fn partition_prefix(self, prefix: &str) -> Self {
        self.and(|rows| rows.partition_prefix(prefix))
    }

    /// Only those with these row keys: see [`TableQuery::rows`].
    pub fn rows(self, rows: impl RowBounds<T>) -> Self {
        self.and(|query| query.rows(Rows(rows.into_range())))
    }

    /// Only those that match. The service reads the others too, but none of their blobs is read.
    pub fn filter(self, condition: Condition<T>) -> Self {
        match condition.into_filter() {
            Ok(filter) => self.raw_filter(filter),
            Err(error) => self.refused(error),
        }
    }

    /// Only those that match a filter on names. One that compares a large property, or one that is encrypted, is refused when the
    /// query is run.
    pub fn raw_filter(self, filter: Filter) -> Self {
        let mut compared = None;
        filter.for_each_property(&mut |name| {
            compared = compared.take().or_else(|| large_names::<T>().find(|large| *large == name));
        });
        if let Some(name) = compared {
            let table = self.table.name();
            let error = Error::invalid_request(format!(
                "the filter compares '{name}' of the table '{table}', whose values may be in blobs: keep what is to be compared \
                 in a property of its own"
            ));
            return self.refused(error);
        }
        self.and(|rows| rows.raw_filter(filter))
    }

    fn and(self, narrow: impl FnOnce(TableQuery<LargeRow<T>>) -> TableQuery<LargeRow<T>>) -> Self {
        Self { rows: self.rows.map(narrow), ..self }
    }

    /// Keeps the first error.
    fn refused(self, error: Error) -> Self {
        Self { rows: self.rows.and(Err(error)), ..self }
    }
}

/// What is returned, how much, and in which order.
impl<T: TableEntity> LargeQuery<T> {
    /// Returns at most this many: see [`TableQuery::limit`]. It bounds a [`page`](Self::page), which goes on.
    pub fn limit(self, entities: usize) -> Self {
        Self { limit: Some(entities), ..self.and(|rows| rows.limit(entities)) }
    }

    /// Asks for at most this many in a page. A service has a bound of its own.
    pub fn page_size(self, entities: usize) -> Self {
        self.and(|rows| rows.page_size(entities))
    }

    /// Asks for the next page of rows while the present one is consumed: see [`TableQuery::prefetch`].
    pub fn prefetch(self) -> Self {
        self.and(TableQuery::prefetch)
    }

    /// Relies on results in the order of keys: see [`TableQuery::require_order`].
    pub fn require_order(self) -> Self {
        self.and(TableQuery::require_order)
    }

    /// Takes results in whatever order the store gives them: see [`TableQuery::in_any_order`].
    pub fn in_any_order(self) -> Self {
        self.and(TableQuery::in_any_order)
    }

    /// Returns results in the order of keys from every store: see [`TableQuery::sorted_on_client`].
    pub fn sorted_on_client(self) -> Self {
        self.and(TableQuery::sorted_on_client)
    }

    /// Runs a cheaper plan with the same answer where there is one: see [`TableQuery::use_cheaper_plan`].
    pub fn use_cheaper_plan(self) -> Self {
        self.and(TableQuery::use_cheaper_plan)
    }

    /// Returns another type: a projection of `T`, which has no large field. No blob is read.
    ///
    /// # Errors
    /// What the query was narrowed down by was refused.
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

/// Running it.
impl<T: TableEntity> LargeQuery<T> {
    /// The results one after another, in the order of the rows, with the large values of several at once. An error ends it.
    ///
    /// # Errors
    /// As items: the stores'; a row is not a `T`; a blob is missing or damaged; a filter was refused.
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T> {
        let prepared = self.narrowed().and_then(|rows| Ok((rows.stream(), rows.to_query()?.filter)));
        let (rows, filter) = match prepared {
            Ok((rows, filter)) => (rows.boxed(), filter),
            Err(error) => (stream::iter([Err(error)]).boxed(), None),
        };
        let (table, most) = (self.table.clone(), self.at_once());
        let loads = rows.map(move |row| {
            let (table, filter) = (table.clone(), filter.clone());
            async move { table.load_matching(row?, filter.as_ref()).await }
        });
        Box::pin(loads.buffered(most).try_filter_map(|found| ready(Ok(found))))
    }

    /// All results, in memory.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn all(&self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    /// The first result by key, if there is one.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); the store does not sort (see [`limit`](Self::limit)).
    pub async fn first(&self) -> Result<Option<T>> {
        let rows = self.narrowed()?;
        let filter = rows.to_query()?.filter;
        // What is left out does not match any more: the next time another is first.
        while let Some(row) = rows.first().await? {
            if let Some(found) = self.table.load_matching(row, filter.as_ref()).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// How many results there are, by their rows. One request a page.
    ///
    /// # Errors
    /// The store's; a filter was refused.
    pub async fn count(&self) -> Result<usize> {
        self.narrowed()?.count().await
    }

    /// One page, from the start or from where another ended: see [`TableQuery::page`]. One request, and one for each large value.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); the continuation is another query's; an answer that comes in one piece was asked for.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<T>> {
        let rows = self.narrowed()?;
        let filter = rows.to_query()?.filter;
        let page = rows.page(from).await?;
        let loads = stream::iter(page.items).map(|row| self.table.load_matching(row, filter.as_ref()));
        let loaded = loads.buffered(self.at_once()).try_filter_map(|found| ready(Ok(found)));
        Ok(Page { items: loaded.try_collect().await?, continuation: page.continuation })
    }

    fn narrowed(&self) -> Result<&TableQuery<LargeRow<T>>> {
        self.rows.as_ref().map_err(Clone::clone)
    }

    /// Entities whose values are read at once: none is read for nothing.
    fn at_once(&self) -> usize {
        self.table.options().concurrency.max(1).min(self.limit.unwrap_or(usize::MAX).max(1))
    }
}

impl<T: TableEntity> LargeTable<T> {
    /// The entity of a row; `None` if it is gone, or does not match any more, since the row was read.
    pub(super) async fn load_matching(&self, row: LargeRow<T>, filter: Option<&Filter>) -> Result<Option<T>> {
        let (key, mut now): (_, Entity) = (row.entity.key().clone(), row.entity);
        loop {
            if let Some(found) = self.hydrate_or_again(now).await? {
                return Ok(Some(found));
            }
            match self.row(&key).await? {
                Some(changed) if filter.is_none_or(|filter| filter.matches(&changed)) => now = changed,
                _ => return Ok(None),
            }
        }
    }
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
        Self { table: self.table.clone(), rows: self.rows.clone(), limit: self.limit }
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
