use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::vec;

use futures_core::Stream;
use futures_util::future::Either;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::TableQuery;
use super::query::Order;
use crate::model::{Entity, Key, TableName};
use crate::query::{AccessPath, Continuation, Filter, Page, Plan, Query, Select};
use crate::store::{
    Cursor, Entities, Error, KeyOrder, NextPage, Pages, QueryCursor, Result, RowFilter,
    StoreHandle, TableStore,
};
use crate::typed::FromEntity;

/// The pages of a query. They do not borrow the query.
type SharedPages = Pages<'static, Arc<dyn TableStore>, TypedCursor>;

/// Execution.
impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// Returns a stream of the results. It reads page after page as it is polled; 1 request per page. The stream ends
    /// after an error.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (employees, ken) = (employees().await?, ken());
    /// # employees.insert(&ken).await?;
    /// use futures_util::TryStreamExt;
    /// let mut sales = employees.query().partition(Employee::partition("Sales")?).stream();
    /// while let Some(employee) = sales.try_next().await? {
    ///     assert_eq!(employee.name, "Ken");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self) -> impl Stream<Item = Result<R>> + Send + Unpin + use<T, R> {
        let loads = self.loads();
        let pages = match &loads {
            Ok(_) => self.entity_pages(self.to_query()),
            Err(error) => self.entity_pages(Err(error.clone())),
        };
        let entities = pages.entities(self.options.prefetch);
        match loads {
            Ok(Some(loads)) => Either::Left(loads.stream(entities).boxed()),
            _ => Either::Right(Decoded {
                entities,
                of: PhantomData,
            }),
        }
    }

    /// Returns a stream of pages. A page may be short or empty although further pages follow. 1 request per page.
    pub fn pages(&self) -> impl Stream<Item = Result<Vec<R>>> + Send + Unpin + use<T, R> {
        let decode = |page: Page<Entity>| page.items.into_iter().map(R::from_entity).collect();
        let loads = self.loads();
        let pages = match &loads {
            Ok(_) => self.entity_pages(self.to_query()),
            Err(error) => self.entity_pages(Err(error.clone())),
        };
        match loads {
            Ok(Some(loads)) => {
                let load = move |page| {
                    let loads = loads.clone();
                    async move { Ok(loads.page(page).await?.items) }
                };
                Either::Left(pages.and_then(load).boxed())
            }
            _ => Either::Right(pages.and_then(move |page| std::future::ready(decode(page)))),
        }
    }

    /// Returns all results, in memory. 1 request per page. The next page is read while a page is decoded.
    ///
    /// # Errors
    /// Fails if a row does not fit `R`. Returns the errors of the store, for example for a missing table.
    pub async fn all(&self) -> Result<Vec<R>> {
        if self.table.shared().loader_of::<R>().is_some() {
            return self.stream().try_collect().await;
        }
        Collect {
            pages: self.entity_pages(self.to_query()),
            all: Vec::new(),
        }
        .await
    }

    /// Returns the first result by key; `None` if there is none. 1 request, or more if the service returns pages without a
    /// match first.
    ///
    /// # Errors
    /// Fails if the store does not sort (see [`limit`](Self::limit)); also returns the errors of [`all`](Self::all).
    pub async fn first(&self) -> Result<Option<R>> {
        let limit = Some(self.options.limit.unwrap_or(1).min(1));
        let mut query = self.clone();
        (query.options.limit, query.options.prefetch) = (limit, false);
        if let Some(loads) = self.loads()? {
            let rows = query.project::<Entity>();
            // Without a value, the row was deleted or is not found any more, so the next query finds another first row.
            while let Some(row) = rows.stream().try_next().await? {
                if let Some(found) = loads.value(row).await? {
                    return Ok(Some(found));
                }
            }
            return Ok(None);
        }
        query.stream().try_next().await
    }

    /// Returns the number of results. 1 request per page: the service cannot count, so the client reads the keys.
    ///
    /// # Errors
    /// Returns the errors of the store, for example for a missing table.
    pub async fn count(&self) -> Result<usize> {
        let row_filter = self.row_filter();
        let keys_only = Select::new(
            [Filter::PARTITION_KEY]
                .into_iter()
                .chain(row_filter.needed()),
        );
        let query = self.to_query().map(|query| query.with_select(keys_only));
        let mut counted = self.clone();
        // A count does not depend on the order, so a limit is no reason to refuse it.
        if counted.options.order == Order::Store {
            counted = counted.in_any_order();
        }
        counted
            .entity_pages(query)
            .try_fold(0, async |count, page| Ok(count + page.items.len()))
            .await
    }

    /// Returns one page, from the start or from the continuation of an earlier page. 1 request.
    ///
    /// A continuation can be converted to text, given to a client, and parsed again. It is valid only for the same
    /// conditions and projection; [`page_size`](Self::page_size) and [`limit`](Self::limit) may differ.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (employees, ken) = (employees().await?, ken());
    /// # employees.insert(&ken).await?;
    /// # employees.insert(&Employee { id: 224, ..ken }).await?;
    /// let query = employees.query().partition(Employee::partition("Sales")?).page_size(1);
    /// let first = query.page(None).await?;
    /// let cursor = first.continuation.map(|c| c.to_string()).unwrap_or_default();
    ///
    /// let next = query.page(Some(&cursor.parse()?)).await?;
    /// assert_eq!((next.items[0].id, next.continuation), (224, None));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Previous pages
    /// A continuation leads forward only. To offer a previous page, keep the continuations of the pages shown, which
    /// stay valid. Or read in the opposite order from a table or index with a key part of type
    /// [`Reverse`](crate::model::Reverse).
    ///
    /// # Errors
    /// Fails if the continuation belongs to another query, or if the query is sorted on the client or uses a cheaper
    /// plan; also returns the errors of [`all`](Self::all).
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<R>> {
        let Some(query) = self.page_query()? else {
            return Ok(Page {
                items: Vec::new(),
                continuation: None,
            });
        };
        let table = &self.table;
        let mut page = table
            .store()
            .query(table.name(), &query, from)
            .await?
            .into_page()?;
        self.row_filter().filter_page(&mut page);
        match self.loads()? {
            Some(loads) => loads.page(page).await,
            None => page.try_map(R::from_entity),
        }
    }

    /// Returns the query of a single page; `None` if no request is necessary.
    pub(super) fn page_query(&self) -> Result<Option<Query>> {
        let mut query = self.to_query()?;
        self.check(&query)?;
        if self.sorts() || self.options.cheaper_plan {
            return Err(Error::misuse(
                "a query that is sorted on the client or uses a cheaper plan has no single pages: use `stream`",
            ));
        }
        query.top = self
            .options
            .limit
            .into_iter()
            .chain(self.options.page_size)
            .min();
        Ok(Some(query).filter(|_| self.options.limit != Some(0)))
    }

    fn entity_pages(&self, query: Result<Query>) -> SharedPages {
        let (store, table) = (Arc::clone(self.table.store()), self.table.name().clone());
        match query.and_then(|query| self.check(&query).map(|()| self.cursor(query))) {
            Ok(cursor) => Pages::new(store, table, cursor),
            Err(error) => Pages::failed(store, table, error),
        }
    }

    /// Returns the cursor at the start of the results; `None` if no request is necessary.
    fn cursor(&self, mut query: Query) -> Option<TypedCursor> {
        let limit = self.options.limit;
        if self.sorts() {
            // All results are read: the first ones by key may come last. So the limit applies after the sort.
            let cursor = self.read_cursor(query).filter(|_| limit != Some(0));
            return cursor.map(|cursor| TypedCursor::SortedOnClient(cursor, limit));
        }
        query.top = limit;
        self.read_cursor(query).map(TypedCursor::StoreOrder)
    }

    fn read_cursor(&self, query: Query) -> Option<ReadCursor> {
        let (page_size, row_filter) = (self.options.page_size, self.row_filter());
        match query.cheaper_plan().filter(|_| self.options.cheaper_plan) {
            Some(plan) => ReadCursor::of_plan(
                plan,
                query,
                page_size,
                self.table.shared().concurrency,
                row_filter,
            ),
            None => ReadCursor::of_query(query, page_size, row_filter),
        }
    }

    /// Whether the client sorts the results.
    fn sorts(&self) -> bool {
        self.options.order == Order::SortedOnClient
            && self.table.store().profile().order == KeyOrder::Unsorted
    }
}

/// A stream that decodes each entity when it is polled.
struct Decoded<R> {
    entities: Entities<'static, Arc<dyn TableStore>, TypedCursor>,
    of: PhantomData<fn() -> R>,
}

impl<R: FromEntity> Stream for Decoded<R> {
    type Item = Result<R>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let entity = Pin::new(&mut self.entities).poll_next(cx);
        entity.map(|entity| entity.map(|entity| entity.and_then(R::from_entity)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entities.size_hint()
    }
}

/// A future of all results. It decodes a page while the next page is read.
struct Collect<R> {
    pages: SharedPages,
    all: Vec<R>,
}

/// No field is pinned.
impl<R> Unpin for Collect<R> {}

impl<R: FromEntity> Future for Collect<R> {
    type Output = Result<Vec<R>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        while let Some(page) = ready!(Pin::new(&mut this.pages).poll_next(cx)) {
            let page = page?;
            this.pages.prefetch(cx);
            this.all.reserve(page.items.len());
            for entity in page.items {
                this.all.push(R::from_entity(entity)?);
            }
        }
        Poll::Ready(Ok(std::mem::take(&mut this.all)))
    }
}

/// The position in the results of a typed query.
pub(super) enum TypedCursor {
    /// Returns results in the order of the store.
    StoreOrder(ReadCursor),
    /// Reads all results, sorts them and returns the first ones.
    SortedOnClient(ReadCursor, Limit),
}

/// The requests of a query that are still to be sent.
pub(super) enum ReadCursor {
    /// Queries, one after another.
    Ranges(Box<RangeCursor>),
    /// Point reads, several at once.
    Points(PointCursor),
}

/// The number of entities that are still wanted; `None` for all.
type Limit = Option<usize>;

pub(super) struct RangeCursor {
    current: QueryCursor,
    next: vec::IntoIter<Query>,
    page_size: Option<usize>,
    limit: Limit,
    row_filter: RowFilter,
}

pub(super) struct PointCursor {
    points: vec::IntoIter<Point>,
    select: Option<Select>,
    concurrency: usize,
    limit: Limit,
    row_filter: RowFilter,
}

/// A read of at most one entity.
enum Point {
    Key(Key),
    /// A query with both keys and further conditions.
    Query(Query),
}

impl ReadCursor {
    /// Returns the cursor at the start of a query. The query's `top` limits all results. `None` if `top` is zero.
    pub(super) fn of_query(
        query: Query,
        page_size: Option<usize>,
        row_filter: RowFilter,
    ) -> Option<Self> {
        let limit = query.top;
        RangeCursor::start(vec![query].into_iter(), page_size, limit, row_filter)
            .map(|ranges| Self::Ranges(Box::new(ranges)))
    }

    /// Returns the cursor at the start of a plan for a query.
    pub(super) fn of_plan(
        plan: Plan,
        query: Query,
        page_size: Option<usize>,
        concurrency: usize,
        row_filter: RowFilter,
    ) -> Option<Self> {
        let Query {
            select, top: limit, ..
        } = query;
        let points: Vec<Point> = match plan {
            Plan::Points(keys) => keys.into_iter().map(Point::Key).collect(),
            Plan::Ranges(queries)
                if queries.iter().all(|q| q.access_path() == AccessPath::Point) =>
            {
                queries.into_iter().map(Point::Query).collect()
            }
            Plan::Ranges(queries) => {
                return RangeCursor::start(queries.into_iter(), page_size, limit, row_filter)
                    .map(|ranges| Self::Ranges(Box::new(ranges)));
            }
        };
        let is_empty = points.is_empty() || limit == Some(0);
        let points = PointCursor {
            points: points.into_iter(),
            select,
            concurrency,
            limit,
            row_filter,
        };
        (!is_empty).then_some(Self::Points(points))
    }
}

impl Cursor for TypedCursor {
    async fn next_page<H: StoreHandle>(self, store: H, table: TableName) -> NextPage<Self> {
        match self {
            Self::StoreOrder(cursor) => {
                let (page, cursor) = cursor.next_page(store, table).await?;
                Ok((page, cursor.map(Self::StoreOrder)))
            }
            Self::SortedOnClient(cursor, limit) => {
                let mut items = read_all(Some(cursor), &store, &table).await?;
                items.sort_by(|a, b| a.key().cmp(b.key()));
                items.truncate(limit.unwrap_or(usize::MAX));
                Ok((
                    Page {
                        items,
                        continuation: None,
                    },
                    None,
                ))
            }
        }
    }
}

impl Cursor for ReadCursor {
    async fn next_page<H: StoreHandle>(self, store: H, table: TableName) -> NextPage<Self> {
        match self {
            Self::Ranges(cursor) => {
                let (page, cursor) = cursor.next_page(store, table).await?;
                Ok((page, cursor.map(|ranges| Self::Ranges(Box::new(ranges)))))
            }
            Self::Points(cursor) => {
                let (page, cursor) = cursor.next_page(store, table).await?;
                Ok((page, cursor.map(Self::Points)))
            }
        }
    }
}

impl RangeCursor {
    fn start(
        mut next: vec::IntoIter<Query>,
        page_size: Option<usize>,
        limit: Limit,
        row_filter: RowFilter,
    ) -> Option<Self> {
        let query = Query {
            top: limit,
            ..next.next()?
        };
        let current = QueryCursor::new(query, page_size)?.with_row_filter(row_filter.clone());
        Some(Self {
            current,
            next,
            page_size,
            limit,
            row_filter,
        })
    }
}

impl Cursor for RangeCursor {
    async fn next_page<H: StoreHandle>(self, store: H, table: TableName) -> NextPage<Self> {
        let (page, cursor) = self.current.next_page(store, table).await?;
        let limit = reduced(self.limit, page.items.len());
        let next = match cursor {
            Some(current) => Some(Self {
                current,
                limit,
                ..self
            }),
            None => Self::start(self.next, self.page_size, limit, self.row_filter),
        };
        Ok((page, next))
    }
}

impl Cursor for PointCursor {
    /// Reads at most as many entities at once as are wanted.
    async fn next_page<H: StoreHandle>(mut self, store: H, table: TableName) -> NextPage<Self> {
        let points: Vec<Point> = self
            .points
            .by_ref()
            .take(self.limit.unwrap_or(usize::MAX))
            .collect();
        let (store, table, select) = (&store, &table, self.select.as_ref());
        let reads = stream::iter(points).map(|point| point.read(store, table, select));
        let found: Vec<_> = reads.buffered(self.concurrency).try_collect().await?;
        let items: Vec<Entity> = found
            .into_iter()
            .flatten()
            .filter_map(|row| self.row_filter.filter(row))
            .collect();
        self.limit = reduced(self.limit, items.len());
        let is_done = self.points.as_slice().is_empty() || self.limit == Some(0);
        Ok((
            Page {
                items,
                continuation: None,
            },
            (!is_done).then_some(self),
        ))
    }
}

impl Point {
    async fn read<H: StoreHandle>(
        self,
        store: &H,
        table: &TableName,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        match self {
            Self::Key(key) => store.get(table, &key, select).await,
            Self::Query(query) => {
                let cursor = QueryCursor::new(query.with_top(1), None);
                Ok(read_all(cursor, store, table).await?.pop())
            }
        }
    }
}

/// Reads all pages of a cursor.
async fn read_all<C: Cursor, H: StoreHandle>(
    mut next: Option<C>,
    store: &H,
    table: &TableName,
) -> Result<Vec<Entity>> {
    let mut entities = Vec::new();
    while let Some(cursor) = next {
        let page;
        (page, next) = cursor.next_page(store.clone(), table.clone()).await?;
        entities.extend(page.items);
    }
    Ok(entities)
}

fn reduced(limit: Limit, read: usize) -> Limit {
    limit.map(|limit| limit.saturating_sub(read))
}
