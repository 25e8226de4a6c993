use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{TableName, Ticks};
use table_core::query::{Continuation, Page, Position, Query, Select};
use table_core::store::{Error, Result, TableStore as _};
use table_core::typed::{FromEntity, TableQuery};

use super::family::TimeOf;
use super::tables::is_gone;
use super::{Slice, TimeSlices};

/// Tells a continuation of a family from one of the store: no query projects to it.
const SLICES: &str = "~~slices";

type Narrow<T> = Arc<dyn Fn(TableQuery<T>) -> TableQuery<T> + Send + Sync>;
type Entities<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;

/// A query across the slices of a family: made by [`TimeSlices::query`].
///
/// Slices come in the order of time, within a slice entities by key, unless
/// [`sorted_by_time`](Self::sorted_by_time). The first pages of several slices are read at once
/// ([`TimeSlices::with_concurrency`]), unless there is a [`limit`](Self::limit).
///
/// # Cost
/// One request to list the tables, and one a page of each slice in the period; with a limit, of each slice until it
/// is reached.
#[must_use = "a query does nothing until it is run"]
pub struct SliceQuery<T> {
    slices: TimeSlices<T>,
    from: Ticks,
    before: Option<Ticks>,
    newest_first: bool,
    by_time: bool,
    limit: Option<usize>,
    narrow: Narrow<T>,
}

impl<T> Clone for SliceQuery<T> {
    fn clone(&self) -> Self {
        Self { slices: self.slices.clone(), narrow: Arc::clone(&self.narrow), ..*self }
    }
}

impl<T> fmt::Debug for SliceQuery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SliceQuery")
            .field("slices", &self.slices)
            .field("from", &self.from)
            .field("before", &self.before)
            .finish_non_exhaustive()
    }
}

impl<T: FromEntity> SliceQuery<T> {
    pub(super) fn new(slices: TimeSlices<T>) -> Self {
        let (from, narrow): (_, Narrow<T>) = (Ticks::MIN, Arc::new(|query| query));
        Self { slices, from, before: None, newest_first: false, by_time: false, limit: None, narrow }
    }

    /// Only entities from this moment on.
    pub const fn from(mut self, from: Ticks) -> Self {
        self.from = from;
        self
    }

    /// Only entities before this moment.
    pub const fn before(mut self, before: Ticks) -> Self {
        self.before = Some(before);
        self
    }

    /// The newest slice first, instead of the oldest.
    pub const fn newest_first(mut self) -> Self {
        self.newest_first = true;
        self
    }

    /// Sorts the entities of each slice by their time, so that all come in its order. Keeps whole slices in memory: one,
    /// and as many as are read at once.
    pub const fn sorted_by_time(mut self) -> Self {
        self.by_time = true;
        self
    }

    /// At most so many entities. Slices are then read one after another, and none that is not needed: for many
    /// entities of many slices, take them from a [`stream`](Self::stream) without a limit.
    ///
    /// On a store that does not sort it is an error, unless the entities are [`sorted_by_time`](Self::sorted_by_time), or
    /// [`narrow`](Self::narrow) asks for `sorted_on_client` or `in_any_order`.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Narrows the query of each slice: a partition, rows, a filter. A `limit` in it bounds what is read of each table,
    /// and comes before the ends of the period are cut.
    pub fn narrow(mut self, narrow: impl Fn(TableQuery<T>) -> TableQuery<T> + Send + Sync + 'static) -> Self {
        self.narrow = Arc::new(narrow);
        self
    }

    /// All results, in memory.
    ///
    /// # Errors
    /// The store's; a row is not a `T`.
    pub async fn all(&self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    /// How many results there are. Slices are counted by their keys, several at once; those at the ends of a period, and
    /// all where there is a limit, are read.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub async fn count(&self) -> Result<usize> {
        if self.limit.is_some() {
            return self.stream().try_fold(0, |count, _| ready(Ok(count + 1))).await;
        }
        let (time, concurrency) = (Arc::clone(self.slices.time()), self.slices.concurrency());
        let wanted = self.wanted(time);
        let mut counts = Vec::new();
        for slice in self.slices.slices().await?.iter().filter(|slice| self.overlaps(slice)) {
            counts.push(count(self.query_of(slice)?, self.covers(slice), wanted.clone()));
        }
        stream::iter(counts).buffer_unordered(concurrency).try_fold(0, |sum, n| ready(Ok(sum + n))).await
    }

    /// The first result.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub async fn first(&self) -> Result<Option<T>> {
        let limit = self.limit.map_or(1, |limit| limit.min(1));
        self.clone().limit(limit).stream().try_next().await
    }

    /// One page, from the start or from where another ended: entities of one slice, so that a page may be short. A
    /// [`limit`](Self::limit) bounds it, and the continuation goes on behind it. It needs the same query, but for the limit.
    /// Requests: one to list the tables, and one; one more for each slice that has none of the entities.
    ///
    /// # Errors
    /// As [`all`](Self::all); the continuation is another query's; entities [sorted by time](Self::sorted_by_time) come in one
    /// piece.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<T>> {
        if self.by_time {
            return Err(Error::invalid_request(
                "entities that are sorted by time come in one piece: read them by `stream`",
            ));
        }
        let (family, query) = self.fingerprinted()?;
        let profile = self.slices.store().profile();
        let place = match from {
            Some(from) => Some(self.place(from.position(profile, &family, &query)?)?),
            None => None,
        };
        let (mut slices, mut inner) = (self.slices_after(place.as_ref()).await?.into_iter().peekable(), None);
        if let Some((begun, continuation)) = place
            && slices.peek().is_some_and(|slice| slice.table == begun.table)
        {
            inner = continuation;
        }
        let wanted = self.wanted(Arc::clone(self.slices.time()));
        while let Some(slice) = slices.next() {
            let page = match self.page_of(&slice)?.page(inner.take().as_ref()).await {
                Err(error) if is_gone(&error) => Page { items: Vec::new(), continuation: None },
                page => page?,
            };
            let items: Vec<T> = page.items.into_iter().filter(|entity| wanted(entity)).collect();
            let next = match (page.continuation, slices.peek()) {
                (Some(inner), _) => Some((slice.table, Some(inner))),
                (None, next) => next.map(|next| (next.table.clone(), None)),
            };
            match &next {
                Some((_, None)) if items.is_empty() => {}
                _ => {
                    let continuation = next.map(|(table, inner)| {
                        let (first, second) = (table.to_string(), inner.map(|inner| inner.to_string()));
                        Continuation::new(profile, &family, &query, Position { first, second })
                    });
                    return Ok(Page { items, continuation });
                }
            }
        }
        Ok(Page { items: Vec::new(), continuation: None })
    }

    /// What a continuation belongs to.
    fn fingerprinted(&self) -> Result<(TableName, Query)> {
        let family = self.slices.table_name(Ticks::MIN)?;
        let query = (self.narrow)(self.slices.table_of(family.clone())?.query()).to_query()?;
        let period = format!("{:?} {:?} {}", self.from, self.before, self.newest_first);
        Ok((family, query.with_select(Select::new([SLICES, &period]))))
    }

    /// The slice where a page begins, and where in it.
    fn place(&self, position: &Position) -> Result<(Slice, Option<Continuation>)> {
        let slice = self.slices.shared.slice(&TableName::new(&*position.first)?)?;
        Ok((slice, position.second.as_deref().map(str::parse).transpose()?))
    }

    /// The slices of the period in their order, from a place on.
    async fn slices_after(&self, place: Option<&(Slice, Option<Continuation>)>) -> Result<Vec<Slice>> {
        let newest_first = self.newest_first;
        let order = move |a: &Slice, b: &Slice| {
            let times = if newest_first { b.from.cmp(&a.from) } else { a.from.cmp(&b.from) };
            times.then(a.generation.cmp(&b.generation))
        };
        let mut slices = self.slices.slices().await?;
        slices.retain(|slice| self.overlaps(slice));
        slices.retain(|slice| place.is_none_or(|(begun, _)| order(slice, begun).is_ge()));
        slices.sort_by(order);
        Ok(slices)
    }

    fn page_of(&self, slice: &Slice) -> Result<TableQuery<T>> {
        let query = (self.narrow)(self.slices.table_of(slice.table.clone())?.query());
        Ok(match self.limit {
            Some(limit) => query.limit_to(limit),
            None => query,
        })
    }

    /// The results one after another. Dropping the stream leaves nothing behind.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T> {
        let limit = self.limit.unwrap_or(usize::MAX);
        let time = Arc::clone(self.slices.time());
        let concurrency = if self.limit.is_some() { 1 } else { self.slices.concurrency() };
        let wanted = self.wanted(time);
        let wanted = move |entity: &T| ready(wanted(entity));
        let opened = stream::once(self.clone().queries()).map_ok(move |(queries, opener)| {
            let open = move |slice| open(slice, opener.clone());
            stream::iter(queries).map(open).buffered(concurrency).try_flatten()
        });
        Box::pin(opened.try_flatten().try_filter(wanted).take(limit))
    }

    /// Whether an entity is in the period.
    fn wanted(&self, time: TimeOf<T>) -> impl Fn(&T) -> bool + Clone + Send + use<T> {
        let (from, before) = (self.from, self.before);
        move |entity: &T| {
            let at = time(entity);
            at >= from && before.is_none_or(|before| at < before)
        }
    }

    /// Whether the whole slice is in the period.
    fn covers(&self, slice: &Slice) -> bool {
        slice.from >= self.from && self.before.is_none_or(|before| slice.before <= before)
    }

    /// The queries of the slices in the period, those of one slice together, in order.
    async fn queries(self) -> Result<(Vec<Vec<TableQuery<T>>>, Opener<T>)> {
        let mut named: Vec<(String, Vec<TableQuery<T>>)> = Vec::new();
        for slice in self.slices.slices().await?.iter().filter(|slice| self.overlaps(slice)) {
            let query = self.query_of(slice)?;
            match named.last_mut() {
                Some((name, queries)) if *name == slice.name => queries.push(query),
                _ => named.push((slice.name.clone(), vec![query])),
            }
        }
        if self.newest_first {
            named.reverse();
        }
        let time = self.by_time.then(|| Arc::clone(self.slices.time()));
        let queries = named.into_iter().map(|(_, queries)| queries).collect();
        Ok((queries, Opener { time, newest_first: self.newest_first }))
    }

    fn overlaps(&self, slice: &Slice) -> bool {
        slice.before > self.from && self.before.is_none_or(|before| slice.from < before)
    }

    /// A limit can be handed on where every entity of the slice is wanted, in the order of keys.
    fn query_of(&self, slice: &Slice) -> Result<TableQuery<T>> {
        let query = self.slices.table_of(slice.table.clone())?.query();
        let query = if self.limit.is_some() && !self.by_time { query.require_order() } else { query };
        let query = (self.narrow)(query);
        Ok(match self.limit {
            Some(limit) if self.covers(slice) && !self.by_time => query.limit_to(limit),
            _ => query,
        })
    }
}

/// How many entities of a slice are wanted: all of them, or by their time.
async fn count<T: FromEntity>(
    query: TableQuery<T>,
    whole: bool,
    wanted: impl Fn(&T) -> bool,
) -> Result<usize> {
    let counted = if whole {
        query.count().await
    } else {
        query.stream().try_fold(0, |count, entity| ready(Ok(count + usize::from(wanted(&entity))))).await
    };
    match counted {
        Err(error) if is_gone(&error) => Ok(0),
        counted => counted,
    }
}

/// How the entities of a slice are given.
struct Opener<T> {
    time: Option<TimeOf<T>>,
    newest_first: bool,
}

impl<T> Clone for Opener<T> {
    fn clone(&self) -> Self {
        Self { time: self.time.clone(), newest_first: self.newest_first }
    }
}

/// Reads the first page of a slice; the rest follows as it is asked for. Sorted, all of it.
async fn open<T: FromEntity>(queries: Vec<TableQuery<T>>, opener: Opener<T>) -> Result<Entities<T>> {
    let pages = queries.into_iter().map(|query| query.pages().take_while(|page| ready(!is_dropped(page))));
    let mut pages = Box::pin(stream::iter(pages).flatten());
    let Some(time) = opener.time else {
        let first = pages.try_next().await?.unwrap_or_default();
        let rest = pages.map_ok(|page| stream::iter(page.into_iter().map(Ok))).try_flatten();
        return Ok(Box::pin(stream::iter(first.into_iter().map(Ok)).chain(rest)));
    };
    let mut entities: Vec<T> = pages.try_concat().await?;
    entities.sort_by_key(|entity| time(entity));
    if opener.newest_first {
        entities.reverse();
    }
    Ok(Box::pin(stream::iter(entities.into_iter().map(Ok))))
}

/// A slice that was dropped since it was listed has nothing.
fn is_dropped<T>(page: &Result<Vec<T>>) -> bool {
    page.as_ref().is_err_and(is_gone)
}
