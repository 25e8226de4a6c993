//! Queries over the tables of a family.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{Entity, TableName, Ticks};
use table_core::query::{
    Continuation, Page, Position, Query, ReadablePage, Select, UnreadableEntity,
};
use table_core::store::{BulkSummary, Error, Result, TableStore as _};
use table_core::typed::set::{Decision, changed};
use table_core::typed::{FromEntity, TableEntity, TableQuery};

use super::family::is_table_dropped;
use super::{Slice, TimeSlices};
use crate::rows::stream_readable;

/// Marks the continuation tokens of a family: no other query projects to this name, so no other query accepts the token.
const SLICES: &str = "~~slices";

type Narrow<T> = Arc<dyn Fn(TableQuery<T>) -> TableQuery<T> + Send + Sync>;
type Entities<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;
/// Sorts the entities of a slice by time.
type Sort<T> = Arc<dyn Fn(&mut [T]) + Send + Sync>;

/// A query over the slices of a family. [`TimeSlices::query`] makes it.
///
/// The slices come in the order of time. Within a slice the entities come in the order of keys, unless
/// [`sorted_by_time`](Self::sorted_by_time). The first pages of several slices are read at once
/// ([`TimeSlices::with_concurrency`]), unless there is a [`limit`](Self::limit).
///
/// # Cost
/// 1 request to list the tables, and 1 per page of each slice in the period; with a limit, only of the slices until the
/// limit is reached.
#[must_use = "a query does nothing until it is run"]
pub struct SliceQuery<T> {
    pub(super) slices: TimeSlices<T>,
    from: Ticks,
    before: Option<Ticks>,
    newest_first: bool,
    by_time: bool,
    pub(super) limit: Option<usize>,
    narrow: Narrow<T>,
}

impl<T> Clone for SliceQuery<T> {
    fn clone(&self) -> Self {
        Self {
            slices: self.slices.clone(),
            narrow: Arc::clone(&self.narrow),
            ..*self
        }
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
        Self {
            slices,
            from,
            before: None,
            newest_first: false,
            by_time: false,
            limit: None,
            narrow,
        }
    }

    /// Selects only entities of this time and later.
    pub const fn from(mut self, from: Ticks) -> Self {
        self.from = from;
        self
    }

    /// Selects only entities before this time.
    pub const fn before(mut self, before: Ticks) -> Self {
        self.before = Some(before);
        self
    }

    /// Returns the newest slice first instead of the oldest.
    pub const fn newest_first(mut self) -> Self {
        self.newest_first = true;
        self
    }

    /// Sorts the entities of each slice by time, so that all results are in the order of time. Whole slices are in memory:
    /// as many as are read at once, and one more.
    pub const fn sorted_by_time(mut self) -> Self {
        self.by_time = true;
        self
    }

    /// Returns at most this many entities. Slices are then read one after another until the limit is reached. For many
    /// entities of many slices, use a [`stream`](Self::stream) without a limit: it reads several slices at once.
    ///
    /// If the store does not sort, a limit is an error, unless the entities are
    /// [`sorted_by_time`](Self::sorted_by_time), or [`narrow`](Self::narrow) sets `sorted_on_client` or `in_any_order`.
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Narrows the query of each slice, by a partition, rows or a filter. A `limit` in it bounds the rows read of each
    /// table, before entities outside the period are removed.
    pub fn narrow(
        mut self,
        narrow: impl Fn(TableQuery<T>) -> TableQuery<T> + Send + Sync + 'static,
    ) -> Self {
        self.narrow = Arc::new(narrow);
        self
    }

    /// Reads all results into memory.
    ///
    /// # Errors
    /// Errors of the store; a row that is not a `T`.
    pub async fn all(&self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    /// Counts the results. Only keys are read, of several slices at once; entities are read in slices that are partly
    /// outside the period, and if there is a limit.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub async fn count(&self) -> Result<usize> {
        if self.limit.is_some() {
            return self
                .stream()
                .try_fold(0, |count, _| ready(Ok(count + 1)))
                .await;
        }
        let (concurrency, wanted) = (self.slices.concurrency(), self.in_period());
        let mut counts = Vec::new();
        for slice in self
            .slices
            .slices()
            .await?
            .iter()
            .filter(|slice| self.overlaps(slice))
        {
            counts.push(count(
                self.query_of(slice)?,
                self.covers(slice),
                wanted.clone(),
            ));
        }
        stream::iter(counts)
            .buffer_unordered(concurrency)
            .try_fold(0, |sum, n| ready(Ok(sum + n)))
            .await
    }

    /// Reads the first result; `None` if there is no result.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub async fn first(&self) -> Result<Option<T>> {
        let limit = self.limit.map_or(1, |limit| limit.min(1));
        self.clone().limit(limit).stream().try_next().await
    }

    /// Reads one page, from the start or from a continuation token. A page has entities of one slice, so it may be short.
    ///
    /// A [`limit`](Self::limit) bounds the page, and the next page continues after it. The token needs the same query,
    /// except for the limit. 1 request to list the tables, 1 for the page, and 1 per slice without results.
    ///
    /// # Errors
    /// As [`all`](Self::all); a continuation token of another query; a query that is
    /// [sorted by time](Self::sorted_by_time).
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<T>> {
        Ok(self.one_page(from, false).await?.page)
    }

    /// Reads one page like [`page`](Self::page), and lists the rows of it that cannot be read, with keys and errors.
    ///
    /// # Errors
    /// As [`page`](Self::page), without the errors of rows.
    pub async fn readable_page(&self, from: Option<&Continuation>) -> Result<ReadablePage<T>> {
        self.one_page(from, true).await
    }

    /// Returns a stream of the results that goes on after an entity that cannot be read: such an entity is an `Err` with its key within an
    /// `Ok`. An error of the store ends the stream. The requests of its [pages](Self::page). Each lists the tables again. The unreadable
    /// entities of a page come after the others, and do not count towards a [`limit`](Self::limit).
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

    /// Reads the page at a continuation: the rows of one slice; slices without a result are skipped. `is_readable`: the page lists rows that
    /// cannot be read, instead of an error. 1 request to list the tables, and 1 per slice read.
    async fn one_page(
        &self,
        from: Option<&Continuation>,
        is_readable: bool,
    ) -> Result<ReadablePage<T>> {
        if self.by_time {
            return Err(Error::misuse(
                "a query that is sorted by time comes in one piece and has no pages: use `stream`",
            ));
        }
        let (family, query) = self.fingerprinted()?;
        let profile = self.slices.store().profile();
        let start = match from {
            Some(from) => Some(self.page_start(from.position(profile, &family, &query)?)?),
            None => None,
        };
        let mut slices = self
            .slices_from(start.as_ref())
            .await?
            .into_iter()
            .peekable();
        // The place in the slice is of no use if the slice was dropped: another slice is then the first.
        let mut inner = start
            .filter(|(slice, _)| {
                slices
                    .peek()
                    .is_some_and(|first| first.table == slice.table)
            })
            .and_then(|(_, inner)| inner);
        let wanted = self.in_period();
        while let Some(slice) = slices.next() {
            let (rows, from) = (self.page_query(&slice)?, inner.take());
            let read = if is_readable {
                rows.readable_page(from.as_ref()).await
            } else {
                rows.page(from.as_ref()).await.map(ReadablePage::from)
            };
            let ReadablePage { page, unreadable } = match read {
                Err(error) if is_table_dropped(&error) => no_rows(),
                read => read?,
            };
            let items: Vec<T> = page
                .items
                .into_iter()
                .filter(|entity| wanted(entity))
                .collect();
            // The token names the slice and the place in it, or the next slice from its start.
            let next = match (page.continuation, slices.peek()) {
                (Some(inner), _) => Some((slice.table, Some(inner))),
                (None, next) => next.map(|next| (next.table.clone(), None)),
            };
            match &next {
                // A slice that ends without a result: the next one is read, in place of an empty page.
                Some((_, None)) if items.is_empty() && unreadable.is_empty() => {}
                _ => {
                    let continuation = next.map(|(table, inner)| {
                        let (first, second) =
                            (table.to_string(), inner.map(|inner| inner.to_string()));
                        Continuation::new(profile, &family, &query, Position { first, second })
                    });
                    return Ok(ReadablePage {
                        page: Page {
                            items,
                            continuation,
                        },
                        unreadable,
                    });
                }
            }
        }
        Ok(no_rows())
    }

    /// The table and query that identify the query in a continuation token.
    #[cfg(feature = "paging")]
    pub(crate) fn identity(&self) -> Result<String> {
        let (family, query) = self.fingerprinted()?;
        Ok(crate::rows::query_identity(
            self.slices.store().profile(),
            &family,
            &query,
        ))
    }

    fn fingerprinted(&self) -> Result<(TableName, Query)> {
        let family = self.slices.table_name(Ticks::MIN)?;
        let query = (self.narrow)(self.slices.table_of(family.clone())?.query()).to_query()?;
        // The period decides which slice follows, so a token is refused in a query of another period.
        let period = format!("{:?} {:?} {}", self.from, self.before, self.newest_first);
        Ok((family, query.with_select(Select::new([SLICES, &period]))))
    }

    /// The slice where a page begins, and the continuation token in the slice.
    fn page_start(&self, position: &Position) -> Result<(Slice, Option<Continuation>)> {
        let slice = self
            .slices
            .shared
            .slice(&TableName::new(&*position.first)?)?;
        Ok((
            slice,
            position.second.as_deref().map(str::parse).transpose()?,
        ))
    }

    /// The slices of the period in their order, from the slice of `page_start` on.
    pub(super) async fn slices_from(
        &self,
        page_start: Option<&(Slice, Option<Continuation>)>,
    ) -> Result<Vec<Slice>> {
        let newest_first = self.newest_first;
        let order = move |a: &Slice, b: &Slice| {
            let times = if newest_first {
                b.from.cmp(&a.from)
            } else {
                a.from.cmp(&b.from)
            };
            times.then(a.generation.cmp(&b.generation))
        };
        let mut slices = self.slices.slices().await?;
        slices.retain(|slice| self.overlaps(slice));
        // By order and not by name: the slice of the token may have been dropped, and the next one follows.
        slices.retain(|slice| page_start.is_none_or(|(first, _)| order(slice, first).is_ge()));
        slices.sort_by(order);
        Ok(slices)
    }

    /// The query of a page of a slice, which has at most as many rows as the limit.
    fn page_query(&self, slice: &Slice) -> Result<TableQuery<T>> {
        let query = (self.narrow)(self.slices.table_of(slice.table.clone())?.query());
        Ok(match self.limit {
            Some(limit) => query.limit_to(limit),
            None => query,
        })
    }

    /// The results as a stream.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T> {
        let limit = self.limit.unwrap_or(usize::MAX);
        let concurrency = if self.limit.is_some() {
            1
        } else {
            self.slices.concurrency()
        };
        let (sort, in_period) = (self.sort(), self.in_period());
        let wanted = move |entity: &T| ready(in_period(entity));
        let opened = stream::once(self.clone().queries()).map_ok(move |queries| {
            let sort = sort.clone();
            let open = move |slice| open(slice, sort.clone());
            stream::iter(queries)
                .map(open)
                .buffered(concurrency)
                .try_flatten()
        });
        Box::pin(opened.try_flatten().try_filter(wanted).take(limit))
    }

    /// A function that returns whether an entity is in the period.
    fn in_period(&self) -> impl Fn(&T) -> bool + Clone + Send + Sync + use<T> {
        let (time, from, before) = (Arc::clone(self.slices.time()), self.from, self.before);
        move |entity: &T| {
            let at = time(entity);
            at >= from && before.is_none_or(|before| at < before)
        }
    }

    /// Whether the whole slice is in the period.
    fn covers(&self, slice: &Slice) -> bool {
        slice.from >= self.from && self.before.is_none_or(|before| slice.before <= before)
    }

    /// The queries of the tables in the period, in the order of the results. The tables of one slice are one item, because their entities are
    /// sorted by time together.
    async fn queries(self) -> Result<Vec<Vec<TableQuery<T>>>> {
        let mut slices: Vec<(String, Vec<TableQuery<T>>)> = Vec::new();
        for slice in self
            .slices
            .slices()
            .await?
            .iter()
            .filter(|slice| self.overlaps(slice))
        {
            let query = self.query_of(slice)?;
            match slices.last_mut() {
                Some((name, queries)) if *name == slice.name => queries.push(query),
                _ => slices.push((slice.name.clone(), vec![query])),
            }
        }
        if self.newest_first {
            slices.reverse();
        }
        Ok(slices.into_iter().map(|(_, queries)| queries).collect())
    }

    /// A function that sorts the entities of a slice; `None` if they stay in the order of keys.
    fn sort(&self) -> Option<Sort<T>> {
        let (time, newest_first) = (Arc::clone(self.slices.time()), self.newest_first);
        let sort = move |entities: &mut [T]| {
            entities.sort_by_key(|entity| time(entity));
            if newest_first {
                entities.reverse();
            }
        };
        self.by_time.then(|| Arc::new(sort) as Sort<T>)
    }

    fn overlaps(&self, slice: &Slice) -> bool {
        slice.before > self.from && self.before.is_none_or(|before| slice.from < before)
    }

    /// The query of a slice. The limit applies to it only if the whole slice is in the period and in the order of keys: otherwise the first rows
    /// may not be among the results.
    pub(super) fn query_of(&self, slice: &Slice) -> Result<TableQuery<T>> {
        let query = self.slices.table_of(slice.table.clone())?.query();
        let query = if self.limit.is_some() && !self.by_time {
            query.require_order()
        } else {
            query
        };
        let query = (self.narrow)(query);
        Ok(match self.limit {
            Some(limit) if self.covers(slice) && !self.by_time => query.limit_to(limit),
            _ => query,
        })
    }
}

const fn no_rows<T>() -> ReadablePage<T> {
    ReadablePage {
        page: Page {
            items: Vec::new(),
            continuation: None,
        },
        unreadable: Vec::new(),
    }
}

/// Counts the entities of a slice: all of them, or those in the period.
async fn count<T: FromEntity>(
    query: TableQuery<T>,
    whole: bool,
    wanted: impl Fn(&T) -> bool,
) -> Result<usize> {
    let counted = if whole {
        query.count().await
    } else {
        query
            .stream()
            .try_fold(0, |count, entity| {
                ready(Ok(count + usize::from(wanted(&entity))))
            })
            .await
    };
    match counted {
        Err(error) if is_table_dropped(&error) => Ok(0),
        counted => counted,
    }
}

/// Reads the first page of a slice, and the other pages when they are needed. With `sort`, reads the whole slice and sorts it.
async fn open<T: FromEntity>(
    queries: Vec<TableQuery<T>>,
    sort: Option<Sort<T>>,
) -> Result<Entities<T>> {
    // A slice that was dropped since the tables were listed has no entities.
    let pages = queries.into_iter().map(|query| {
        query
            .pages()
            .take_while(|page| ready(!page.as_ref().is_err_and(is_table_dropped)))
    });
    let mut pages = Box::pin(stream::iter(pages).flatten());
    let Some(sort) = sort else {
        // The first page is read here and not by the stream, so that `buffered` reads the first pages of several slices at once.
        let first = pages.try_next().await?.unwrap_or_default();
        let rest = pages
            .map_ok(|page| stream::iter(page.into_iter().map(Ok)))
            .try_flatten();
        return Ok(Box::pin(
            stream::iter(first.into_iter().map(Ok)).chain(rest),
        ));
    };
    let mut entities: Vec<T> = pages.try_concat().await?;
    sort(&mut entities);
    Ok(Box::pin(stream::iter(entities.into_iter().map(Ok))))
}

/// Set operations: see [`TableQuery::delete`](table_core::typed::TableQuery::delete). The slices are written one after
/// another, in the order of the query.
impl<T: TableEntity> SliceQuery<T> {
    /// Deletes the entities. 1 request to list the tables; in each slice 1 per page and 1 per group of up to 100 entities of
    /// a partition. To delete whole slices, drop them: 1 request per slice
    /// ([`TimeSlices::drop_before`](super::TimeSlices::drop_before)).
    ///
    /// # Errors
    /// As [`all`](Self::all); the query has a limit; entities of the type may not be written. Errors of single entities are
    /// in the summary.
    pub async fn delete(&self) -> Result<BulkSummary> {
        self.write_set(|is_in_period, old| {
            Ok(match is_in_period(&T::from_entity(old.clone())?) {
                true => Decision::delete(old),
                false => Decision::Ignore,
            })
        })
        .await
    }

    /// Calls `change` with each entity and replaces the entity, unless `change` leaves it as it was. Requests as for
    /// [`delete`](Self::delete).
    ///
    /// # Errors
    /// As [`delete`](Self::delete). In the summary: an error of `change`, a change of a key, or a change of the time to that of
    /// another slice; such an entity is not written.
    pub async fn update(
        &self,
        change: impl Fn(&mut T) -> Result<()> + Send + Sync,
    ) -> Result<BulkSummary> {
        self.write_set(|is_in_period, old| {
            let value = T::from_entity(old.clone())?;
            if !is_in_period(&value) {
                return Ok(Decision::Ignore);
            }
            let at = (self.slices.time())(&value);
            let new = changed(&old, |value: &mut T| {
                change(value)?;
                self.slices.check_slice(at, value)
            })?;
            Ok(Decision::replace(old, new))
        })
        .await
    }

    async fn write_set(
        &self,
        decide: impl Fn(&dyn Fn(&T) -> bool, Entity) -> Result<Decision> + Send + Sync,
    ) -> Result<BulkSummary> {
        if self.limit.is_some() {
            return Err(Error::misuse(
                "a set operation over slices writes every entity of the period: select a period in place of a limit",
            ));
        }
        let wanted = self.in_period();
        let mut summary = BulkSummary::default();
        for slice in self.slices_from(None).await? {
            let query = self.query_of(&slice)?.in_any_order();
            let concurrency = self.slices.concurrency();
            match query
                .with_concurrency(concurrency)
                .write_set(|old| decide(&wanted, old))
                .await
            {
                // The slice was dropped since the tables were listed: it has no entities.
                Err(error) if is_table_dropped(&error) => {}
                done => summary = summary.and(done?),
            }
        }
        Ok(summary)
    }
}
