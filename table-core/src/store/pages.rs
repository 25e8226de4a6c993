use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use futures_core::Stream;
use futures_core::future::BoxFuture;

use super::{CycleDetector, Error, Result, RowFilter, TableStore};
use crate::model::{Entity, TableName};
use crate::query::{Continuation, Page, Query};

/// While a page is consumed, the request for the next page is polled once per this number of items.
const PREFETCH_EVERY: usize = 16;

/// A position in a sequence of pages. Each step reads one page.
pub(crate) trait Cursor: Sized + Send + Unpin {
    /// Reads the next page. Returns no further cursor at the end or if a limit is reached.
    fn next_page<H: StoreHandle>(
        self,
        store: H,
        table: TableName,
    ) -> impl Future<Output = NextPage<Self>> + Send;
}

/// A page, and the cursor for the page after it.
pub(crate) type NextPage<C> = Result<(Page<Entity>, Option<C>)>;

/// A reference to a store, borrowed or shared.
pub(crate) trait StoreHandle:
    Deref<Target: TableStore> + Clone + Send + Sync + Unpin
{
}

impl<H: Deref<Target: TableStore> + Clone + Send + Sync + Unpin> StoreHandle for H {}

/// The position in the pages of one query.
#[derive(Clone, Debug)]
pub(crate) struct QueryCursor {
    query: Query,
    from: Option<Continuation>,
    /// How many entities the caller still wants.
    wanted: Option<usize>,
    page_size: Option<usize>,
    row_filter: RowFilter,
    /// The number of rows that the filter has removed so far.
    removed: usize,
    cycles: CycleDetector,
}

impl QueryCursor {
    /// Returns the cursor at the start of a query. The query's `top` limits all pages together. `None` if `top` is zero.
    pub(crate) fn new(mut query: Query, page_size: Option<usize>) -> Option<Self> {
        let wanted = query.top.take();
        let row_filter = RowFilter::default();
        let cycles = CycleDetector::default();
        let cursor = Self {
            query,
            from: None,
            wanted,
            page_size,
            row_filter,
            removed: 0,
            cycles,
        };
        (wanted != Some(0)).then_some(cursor)
    }

    /// Removes rows from the pages.
    pub(crate) fn with_row_filter(mut self, row_filter: RowFilter) -> Self {
        self.row_filter = row_filter;
        self
    }

    /// Returns the cursor after a page; `None` at the end or if the caller wants no more entities.
    ///
    /// # Errors
    /// Fails if the continuations form a cycle.
    fn after(mut self, page: &Page<Entity>) -> Result<Option<Self>> {
        let Some(next) = &page.continuation else {
            return Ok(None);
        };
        if let Some(wanted) = &mut self.wanted {
            *wanted = wanted.saturating_sub(page.items.len());
            if *wanted == 0 {
                return Ok(None);
            }
        }
        self.cycles.add(next, page.items.len())?;
        self.from = Some(next.clone());
        Ok(Some(self))
    }
}

impl Cursor for QueryCursor {
    async fn next_page<H: StoreHandle>(mut self, store: H, table: TableName) -> NextPage<Self> {
        // If earlier pages had rows that the filter removed, ask for as many more rows. Otherwise a query for 1 entity behind
        // 1,000 removed rows would read 1 row per request: 1,000 requests.
        let top = self
            .wanted
            .map(|wanted| wanted.saturating_add(self.removed));
        self.query.top = top.into_iter().chain(self.page_size).min();
        let mut page = store
            .query(&table, &self.query, self.from.as_ref())
            .await?
            .into_page()?;
        self.removed += self.row_filter.filter_page(&mut page);
        page.items.truncate(self.wanted.unwrap_or(usize::MAX));
        let cursor = self.after(&page)?;
        Ok((page, cursor))
    }
}

/// A stream of pages. It reads one page at a time and ends after an error.
pub(crate) struct Pages<'a, H, C> {
    store: H,
    table: TableName,
    /// The cursor of the next page, while no request is in flight.
    cursor: Option<C>,
    /// The request in flight.
    pending: Option<BoxFuture<'a, NextPage<C>>>,
    /// A page that [`prefetch`](Self::prefetch) has read.
    prefetched: Option<Result<Page<Entity>>>,
}

impl<'a, H: StoreHandle + 'a, C: Cursor + 'a> Pages<'a, H, C> {
    pub(crate) fn new(store: H, table: TableName, cursor: Option<C>) -> Self {
        Self {
            store,
            table,
            cursor,
            pending: None,
            prefetched: None,
        }
    }

    /// Creates a stream with one error.
    pub(crate) fn failed(store: H, table: TableName, error: Error) -> Self {
        Self {
            prefetched: Some(Err(error)),
            ..Self::new(store, table, None)
        }
    }

    /// Converts the stream of pages to a stream of entities.
    pub(crate) fn entities(self, prefetch: bool) -> Entities<'a, H, C> {
        Entities {
            pages: self,
            items: Vec::new().into_iter(),
            prefetch,
        }
    }

    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Page<Entity>>>> {
        let Some(request) = self.pending.take().or_else(|| self.next_request()) else {
            return Poll::Ready(None);
        };
        let (page, cursor) = match self.pending.insert(request).as_mut().poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok((page, cursor))) => (Ok(page), cursor),
            Poll::Ready(Err(error)) => (Err(error), None),
        };
        (self.pending, self.cursor) = (None, cursor);
        Poll::Ready(Some(page))
    }

    fn next_request(&mut self) -> Option<BoxFuture<'a, NextPage<C>>> {
        let cursor = self.cursor.take()?;
        Some(Box::pin(
            cursor.next_page(self.store.clone(), self.table.clone()),
        ))
    }

    /// Polls the request for the next page, which [`poll_next`](Stream::poll_next) will return.
    pub(crate) fn prefetch(&mut self, cx: &mut Context<'_>) {
        if self.prefetched.is_none()
            && let Poll::Ready(page) = self.poll_page(cx)
        {
            self.prefetched = page;
        }
    }
}

impl<'a, H: StoreHandle + 'a, C: Cursor + 'a> Stream for Pages<'a, H, C> {
    type Item = Result<Page<Entity>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.prefetched.take() {
            Some(page) => Poll::Ready(Some(page)),
            None => self.poll_page(cx),
        }
    }
}

/// A stream of the entities of [`Pages`], without a box per entity.
pub(crate) struct Entities<'a, H, C> {
    pages: Pages<'a, H, C>,
    items: vec::IntoIter<Entity>,
    prefetch: bool,
}

impl<'a, H: StoreHandle + 'a, C: Cursor + 'a> Stream for Entities<'a, H, C> {
    type Item = Result<Entity>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(item) = this.items.next() {
                // A request makes progress only while it is polled. This code runs only when the consumer asks for an
                // item, so it polls the request then.
                if this.prefetch && this.items.len().is_multiple_of(PREFETCH_EVERY) {
                    this.pages.prefetch(cx);
                }
                return Poll::Ready(Some(Ok(item)));
            }
            match ready!(Pin::new(&mut this.pages).poll_next(cx)) {
                Some(Ok(page)) => this.items = page.items.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
            if this.prefetch {
                this.pages.prefetch(cx);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.items.len(), None)
    }
}
