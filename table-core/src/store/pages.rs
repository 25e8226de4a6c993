use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use futures_core::Stream;
use futures_core::future::BoxFuture;

use super::{Error, Progress, Result, TableStore};
use crate::model::{Entity, INDEX_NAME, TableName};
use crate::query::{Continuation, Page, Query, Select};

/// While a page is consumed, the next is driven once in this many items.
const PREFETCH_EVERY: usize = 16;

/// What is left to read, a step at a time: one step, one page.
pub(crate) trait Step: Sized + Send + Unpin {
    /// Reads the next page; nothing is left at the end, and when a limit is reached.
    fn step<H: Handle>(self, store: H, table: TableName) -> impl Future<Output = Stepped<Self>> + Send;
}

/// A page, and what is left after it.
pub(crate) type Stepped<S> = Result<(Page<Entity>, Option<S>)>;

/// A store that a step can keep: borrowed or shared.
pub(crate) trait Handle: Deref<Target: TableStore> + Clone + Send + Sync + Unpin {}

impl<H: Deref<Target: TableStore> + Clone + Send + Sync + Unpin> Handle for H {}

/// What is left to read of a query.
#[derive(Clone, Debug)]
pub(crate) struct QueryCursor {
    query: Query,
    from: Option<Continuation>,
    left: Option<usize>,
    page_size: Option<usize>,
    hidden: Hidden,
    /// How many rows were left out so far.
    left_out: usize,
    progress: Progress,
}

impl QueryCursor {
    /// A query from its start; its `top` bounds the whole. `None` if nothing is asked for.
    pub(crate) fn of(mut query: Query, page_size: Option<usize>) -> Option<Self> {
        let left = query.top.take();
        let progress = Progress::default();
        let hidden = Hidden::default();
        let rest = Self { query, from: None, left, page_size, hidden, left_out: 0, progress };
        (left != Some(0)).then_some(rest)
    }

    /// The same without certain rows.
    pub(crate) const fn without(mut self, hidden: Hidden) -> Self {
        self.hidden = hidden;
        self
    }

    /// `None` at the end and when the limit is reached.
    ///
    /// # Errors
    /// The pages lead in a circle.
    fn after(mut self, page: &Page<Entity>) -> Result<Option<Self>> {
        let Some(next) = &page.continuation else { return Ok(None) };
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(page.items.len());
            if *left == 0 {
                return Ok(None);
            }
        }
        self.progress.note(next, page.items.len())?;
        self.from = Some(next.clone());
        Ok(Some(self))
    }
}

impl Step for QueryCursor {
    async fn step<H: Handle>(mut self, store: H, table: TableName) -> Stepped<Self> {
        // Where rows are left out, more are asked for than are wanted: else a few wanted ones behind many others would cost a
        // request for each of those.
        let wanted = self.left.map(|left| left.saturating_add(self.left_out));
        self.query.top = wanted.into_iter().chain(self.page_size).min();
        let mut page = store.query(&table, &self.query, self.from.as_ref()).await?;
        self.left_out += self.hidden.leave_out(&mut page);
        page.items.truncate(self.left.unwrap_or(usize::MAX));
        let rest = self.after(&page)?;
        Ok((page, rest))
    }
}

/// The rows that a read leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// Those that only patterns see; see [`Key::is_system`](crate::model::Key::is_system).
    pub(crate) system_rows: bool,
    /// See [`Entity::is_index_entry`].
    pub(crate) index_entries: bool,
    /// Whether [`INDEX_NAME`] is read for that alone: nobody asked for it.
    pub(crate) adds_index_name: bool,
}

impl Hidden {
    /// Leaves them out of a page; how many there were.
    pub(crate) fn leave_out(self, page: &mut Page<Entity>) -> usize {
        let before = page.items.len();
        // Looking is quicker than keeping, and most pages have none.
        if page.items.iter().any(|entity| self.hides(entity)) {
            page.items.retain(|entity| !self.hides(entity));
        }
        page.items.iter_mut().for_each(|entity| self.clean(entity));
        before - page.items.len()
    }

    /// The entity, unless it is to be left out.
    pub(crate) fn show(self, mut entity: Entity) -> Option<Entity> {
        let hidden = self.hides(&entity);
        self.clean(&mut entity);
        (!hidden).then_some(entity)
    }

    /// What is read for it.
    pub(crate) fn select(self, asked: &Select) -> Select {
        if self.adds_index_name { asked.union([INDEX_NAME]) } else { asked.clone() }
    }

    fn hides(self, entity: &Entity) -> bool {
        (self.system_rows && entity.key().is_system()) || (self.index_entries && entity.is_index_entry())
    }

    fn clean(self, entity: &mut Entity) {
        if self.adds_index_name {
            entity.properties_mut().remove(INDEX_NAME);
        }
    }
}

/// Pages asked for one after another, in steps. An error ends them.
pub(crate) struct Pages<'a, H, S> {
    store: H,
    table: TableName,
    rest: Option<S>,
    pending: Option<BoxFuture<'a, Stepped<S>>>,
    ahead: Option<Result<Page<Entity>>>,
}

impl<'a, H: Handle + 'a, S: Step + 'a> Pages<'a, H, S> {
    pub(crate) fn new(store: H, table: TableName, steps: Option<S>) -> Self {
        Self { store, table, rest: steps, pending: None, ahead: None }
    }

    /// The error only.
    pub(crate) fn failed(store: H, table: TableName, error: Error) -> Self {
        Self { ahead: Some(Err(error)), ..Self::new(store, table, None) }
    }

    /// The entities, one after another.
    pub(crate) fn entities(self, prefetch: bool) -> Entities<'a, H, S> {
        Entities { pages: self, items: Vec::new().into_iter(), prefetch }
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Page<Entity>>>> {
        let Some(step) = self.pending.take().or_else(|| self.next_step()) else {
            return Poll::Ready(None);
        };
        let (page, rest) = match self.pending.insert(step).as_mut().poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok((page, rest))) => (Ok(page), rest),
            Poll::Ready(Err(error)) => (Err(error), None),
        };
        (self.pending, self.rest) = (None, rest);
        Poll::Ready(Some(page))
    }

    fn next_step(&mut self) -> Option<BoxFuture<'a, Stepped<S>>> {
        let rest = self.rest.take()?;
        Some(Box::pin(rest.step(self.store.clone(), self.table.clone())))
    }

    /// Gets on with the next page, which [`poll_next`](Stream::poll_next) will return.
    pub(crate) fn prefetch(&mut self, cx: &mut Context<'_>) {
        if self.ahead.is_none()
            && let Poll::Ready(page) = self.poll_step(cx)
        {
            self.ahead = page;
        }
    }
}

impl<'a, H: Handle + 'a, S: Step + 'a> Stream for Pages<'a, H, S> {
    type Item = Result<Page<Entity>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.ahead.take() {
            Some(page) => Poll::Ready(Some(page)),
            None => self.poll_step(cx),
        }
    }
}

/// The entities of [`Pages`], without a box per item.
pub(crate) struct Entities<'a, H, S> {
    pages: Pages<'a, H, S>,
    items: vec::IntoIter<Entity>,
    prefetch: bool,
}

impl<'a, H: Handle + 'a, S: Step + 'a> Stream for Entities<'a, H, S> {
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
