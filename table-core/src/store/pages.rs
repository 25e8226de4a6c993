use std::future::ready;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use futures_core::Stream;
use futures_core::future::BoxFuture;

use super::{Error, Result, TableStore};
use crate::model::{Entity, TableName};
use crate::query::{Continuation, Page, Query};

/// While a page is consumed, the next is driven once in this many items.
const PREFETCH_EVERY: usize = 16;

/// What is left to read of a query.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    query: Query,
    from: Option<Continuation>,
    left: Option<usize>,
    page_size: Option<usize>,
}

impl Rest {
    /// A query from its start; its `top` bounds the whole.
    pub(crate) fn of(mut query: Query) -> Self {
        let left = query.top.take();
        Self { query, from: None, left, page_size: None }
    }

    /// Asks for at most this many entities in a page.
    pub(crate) fn with_page_size(mut self, page_size: Option<usize>) -> Self {
        self.page_size = page_size;
        self
    }

    async fn fetch(mut self, store: impl Deref<Target: TableStore>, table: TableName) -> Fetched {
        self.query.top = self.left.into_iter().chain(self.page_size).min();
        let page = store.query(&table, &self.query, self.from.as_ref()).await?;
        let rest = self.after(&page);
        Ok((page, rest))
    }

    /// `None` at the end and when the limit is reached.
    fn after(mut self, page: &Page<Entity>) -> Option<Self> {
        self.from = Some(page.continuation.clone()?);
        self.left = match self.left {
            None => None,
            Some(left) => Some(left.checked_sub(page.items.len()).filter(|left| *left > 0)?),
        };
        Some(self)
    }
}

type Fetched = Result<(Page<Entity>, Option<Rest>)>;

/// The pages of a query, one request each, asked for one after another. An error ends them.
pub(crate) struct Pages<'a, H> {
    store: H,
    table: TableName,
    rest: Option<Rest>,
    pending: Option<BoxFuture<'a, Fetched>>,
    ahead: Option<Result<Page<Entity>>>,
}

impl<'a, H> Pages<'a, H>
where
    H: Deref<Target: TableStore> + Clone + Send + Sync + Unpin + 'a,
{
    pub(crate) fn new(store: H, table: TableName, rest: Rest) -> Self {
        // Nothing is asked for where nothing is wanted: a service refuses a `top` of zero.
        let rest = Some(rest).filter(|rest| rest.left != Some(0));
        Self { store, table, rest, pending: None, ahead: None }
    }

    /// The error only.
    pub(crate) fn failed(store: H, table: TableName, error: Error) -> Self {
        Self::once(store, table, Box::pin(ready(Err(error))))
    }

    /// One page only, however it is come by.
    pub(crate) fn once(store: H, table: TableName, page: BoxFuture<'a, Result<Page<Entity>>>) -> Self {
        let pending: BoxFuture<'a, Fetched> = Box::pin(async { Ok((page.await?, None)) });
        Self { store, table, rest: None, pending: Some(pending), ahead: None }
    }

    /// The same query's entities, one after another.
    pub(crate) fn entities(self, prefetch: bool) -> Entities<'a, H> {
        Entities { pages: self, items: Vec::new().into_iter(), prefetch }
    }

    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Page<Entity>>>> {
        let Some(request) = self.pending.take().or_else(|| self.next_request()) else {
            return Poll::Ready(None);
        };
        match self.pending.insert(request).as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(fetched) => {
                self.pending = None;
                Poll::Ready(Some(fetched.map(|(page, rest)| {
                    self.rest = rest;
                    page
                })))
            }
        }
    }

    fn next_request(&mut self) -> Option<BoxFuture<'a, Fetched>> {
        let rest = self.rest.take()?;
        Some(Box::pin(rest.fetch(self.store.clone(), self.table.clone())))
    }

    /// Gets on with the next page, which [`poll_next`](Stream::poll_next) will return.
    fn prefetch(&mut self, cx: &mut Context<'_>) {
        if self.ahead.is_none()
            && let Poll::Ready(page) = self.poll_request(cx)
        {
            self.ahead = page;
        }
    }
}

impl<'a, H> Stream for Pages<'a, H>
where
    H: Deref<Target: TableStore> + Clone + Send + Sync + Unpin + 'a,
{
    type Item = Result<Page<Entity>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.ahead.take() {
            Some(page) => Poll::Ready(Some(page)),
            None => self.poll_request(cx),
        }
    }
}

/// The entities of [`Pages`], without a box per item.
pub(crate) struct Entities<'a, H> {
    pages: Pages<'a, H>,
    items: vec::IntoIter<Entity>,
    prefetch: bool,
}

impl<'a, H> Stream for Entities<'a, H>
where
    H: Deref<Target: TableStore> + Clone + Send + Sync + Unpin + 'a,
{
    type Item = Result<Entity>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(item) = this.items.next() {
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
