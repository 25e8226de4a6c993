use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_util::TryStreamExt;

use super::TableQuery;
use super::query::Order;
use super::steps::{Reads, Steps};
use crate::model::{Entity, INDEX_NAME};
use crate::query::{Continuation, Filter, Page, Query, Select};
use crate::store::{Entities, Error, KeyOrder, Pages, Result, TableStore};
use crate::typed::FromEntity;

/// A query's pages, which own what they need.
type SharedPages = Pages<'static, Arc<dyn TableStore>, Steps>;

/// Running it.
impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// The results one after another, page by page as the stream is polled. One request a page.
    ///
    /// An error ends the stream. Dropping it leaves nothing behind.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::ETag;
    /// # use table_core::typed::{Table, TableEntity};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(rename_all = "PascalCase")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     name: String,
    /// #     age: Option<i32>,
    /// #     #[etag] etag: Option<ETag>,
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// # let ken = Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None };
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
        let entities = self.entity_pages(self.to_query()).entities(self.options.prefetch);
        Decoded { entities, of: PhantomData }
    }

    /// The results as they come: a page may be short, even empty, before the last. One request each.
    pub fn pages(&self) -> impl Stream<Item = Result<Vec<R>>> + Send + Unpin + use<T, R> {
        let decode = |page: Page<Entity>| page.items.into_iter().map(R::from_entity).collect();
        self.entity_pages(self.to_query()).and_then(move |page| std::future::ready(decode(page)))
    }

    /// All results, in memory. One request a page; the next page is read while one is decoded.
    ///
    /// # Errors
    /// The store's, a missing table among them; a row is not an `R`.
    pub async fn all(&self) -> Result<Vec<R>> {
        Collect { pages: self.entity_pages(self.to_query()), all: Vec::new() }.await
    }

    /// The first result by key, if there is one. One request, unless the service has to read on for a match.
    ///
    /// # Errors
    /// As [`all`](Self::all); the store does not sort (see [`limit`](Self::limit)).
    pub async fn first(&self) -> Result<Option<R>> {
        let limit = Some(self.options.limit.unwrap_or(1).min(1));
        let mut query = self.clone();
        (query.options.limit, query.options.prefetch) = (limit, false);
        query.stream().try_next().await
    }

    /// How many results there are. One request a page: the service does not count, it sends the keys.
    ///
    /// # Errors
    /// The store's, a missing table among them.
    pub async fn count(&self) -> Result<usize> {
        let to_tell_entries = self.hidden().index_entries.then_some(INDEX_NAME);
        let keys_only = Select::new([Filter::PARTITION_KEY].into_iter().chain(to_tell_entries));
        let query = self.to_query().map(|query| query.with_select(keys_only));
        let mut counted = self.clone();
        if counted.options.order == Order::Given {
            counted = counted.in_any_order();
        }
        counted.entity_pages(query).try_fold(0, async |count, page| Ok(count + page.items.len())).await
    }

    /// One page, from the start or from where an earlier one ended. One request.
    ///
    /// The continuation can be printed, handed to a client, and taken back; it needs the same query,
    /// but for [`page_size`](Self::page_size), which bounds the page, as [`limit`](Self::limit) does.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::ETag;
    /// # use table_core::typed::{Table, TableEntity};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(rename_all = "PascalCase")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     name: String,
    /// #     age: Option<i32>,
    /// #     #[etag] etag: Option<ETag>,
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// # let ken = Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None };
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
    /// # Backwards
    /// A continuation leads on, never back. Who offers a previous page keeps the cursors of the pages shown, which
    /// stay good; or reads in the other order, by a table (or index) keyed by [`Reverse`](crate::model::Reverse).
    ///
    /// # Errors
    /// As [`all`](Self::all); the continuation is another query's; an answer that comes in one piece
    /// was asked for: a sorted or a planned one.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<R>> {
        let mut query = self.to_query()?;
        self.check(&query)?;
        if self.sorts() || self.options.cheaper_plan {
            return Err(Error::invalid_request(
                "a page of a query that is sorted on the client or run by a plan: use `stream`",
            ));
        }
        if self.options.limit == Some(0) {
            return Ok(Page { items: Vec::new(), continuation: None });
        }
        query.top = self.options.limit.into_iter().chain(self.options.page_size).min();
        let table = &self.table;
        let mut page = table.store().query(table.name(), &query, from).await?;
        self.hidden().leave_out(&mut page);
        page.try_map(R::from_entity)
    }

    fn entity_pages(&self, query: Result<Query>) -> SharedPages {
        let (store, table) = (Arc::clone(self.table.store()), self.table.name().clone());
        match query.and_then(|query| self.check(&query).map(|()| self.steps(query))) {
            Ok(steps) => Pages::new(store, table, steps),
            Err(error) => Pages::failed(store, table, error),
        }
    }

    /// `None` if there is nothing to ask for.
    fn steps(&self, mut query: Query) -> Option<Steps> {
        let limit = self.options.limit;
        if self.sorts() {
            return self.reads(query).filter(|_| limit != Some(0)).map(|reads| Steps::Sorted(reads, limit));
        }
        query.top = limit;
        self.reads(query).map(Steps::AsRead)
    }

    fn reads(&self, query: Query) -> Option<Reads> {
        let (page_size, hidden) = (self.options.page_size, self.hidden());
        match query.cheaper_plan().filter(|_| self.options.cheaper_plan) {
            Some(plan) => Reads::of_plan(plan, query, page_size, self.table.shared().concurrency, hidden),
            None => Reads::of_query(query, page_size, hidden),
        }
    }

    fn sorts(&self) -> bool {
        self.options.order == Order::OnClient && self.table.store().profile().order == KeyOrder::Unsorted
    }
}

/// Entities as `R`, decoded when they are asked for.
struct Decoded<R> {
    entities: Entities<'static, Arc<dyn TableStore>, Steps>,
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

/// Everything, decoded page by page while the next is read.
struct Collect<R> {
    pages: SharedPages,
    all: Vec<R>,
}

/// No value is pinned in it.
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
