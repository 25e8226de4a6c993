//! Queries of the wide entities of a partition.

use std::fmt;
use std::future::ready;
use std::marker::PhantomData;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{Entity, PartitionKey};
use table_core::query::{
    Continuation, Page, Position, Query, ReadablePage, Select, UnreadableEntity,
};
use table_core::store::{Error, KeyOrder, Result, TableStore as _};
use table_core::typed::{FromEntity, PartitionIn};

use super::reader::{Reader, Scanned};
use super::rows::{StoredWide, query_all};
use super::{Wide, WideEntities};
use crate::rows::{readable, stream_readable};

/// The number of entities in a page without a limit.
const PAGE: usize = 100;
/// Marks the continuation tokens of this query: no other query projects to this name, so no other query accepts the token.
const ENTITIES: &str = "~~wide";

/// A query of the wide entities of a partition, in the order of RowKeys (of hashes for long RowKeys).
/// [`WideTable::query`](super::WideTable::query) makes it; it needs a [`partition`](Self::partition), and can run more than
/// once.
///
/// There are no filters, because the service would apply them to chunks and not to entities.
///
/// # Cost
/// 1 request per page of the store, read as entities are consumed; 1 more per entity that another writer changes during
/// the query. A store that does not sort is refused.
#[must_use = "a query does nothing until it is run"]
pub struct WideQuery<T> {
    pub(super) entities: WideEntities,
    of: Option<PartitionKey>,
    pub(super) limit: Option<usize>,
    shows_hidden: bool,
    as_type: PhantomData<fn() -> T>,
}

impl WideEntities {
    /// A query of the entities of a partition. No request. See [`WideQuery`].
    pub fn query(&self) -> WideQuery<Entity> {
        WideQuery::new(self.clone())
    }
}

impl<T: FromEntity> WideQuery<T> {
    pub(super) const fn new(entities: WideEntities) -> Self {
        Self {
            entities,
            of: None,
            limit: None,
            shows_hidden: false,
            as_type: PhantomData,
        }
    }

    /// Returns hidden entities too: those that have expired or are deleted and kept.
    pub const fn with_hidden(mut self) -> Self {
        self.shows_hidden = true;
        self
    }

    /// The entities that the query returns, after the entity with this prefix.
    pub(super) fn found(
        &self,
        of: &PartitionKey,
        after: Option<&str>,
    ) -> impl Stream<Item = Result<Scanned>> + Send + use<T> {
        let hides = self.hiding_test();
        let found = self.entities.reader.scan(of.as_str(), after);
        found.try_filter(move |scanned| {
            let is_hidden = |stored: &StoredWide| hides.as_ref().is_some_and(|hides| hides(stored));
            ready(!scanned.read.as_ref().is_ok_and(is_hidden))
        })
    }

    /// The test for hidden entities; `None` if the query returns all.
    pub(super) fn hiding_test(
        &self,
    ) -> Option<impl Fn(&StoredWide) -> bool + Send + Sync + use<T>> {
        let (expiries, now) = (T::requirements().expiries(), self.entities.now());
        let leaves_out = !self.shows_hidden && !expiries.is_empty();
        leaves_out.then_some(move |stored: &StoredWide| expiries.hides(&stored.to_entity(), now))
    }

    /// Selects the partition. A query needs one.
    pub fn partition(mut self, of: impl PartitionIn<T>) -> Self {
        self.of = Some(of.partition_key().clone());
        self
    }

    /// Returns at most this many entities. A limit is the size of a [`page`](Self::page).
    pub const fn limit(mut self, entities: usize) -> Self {
        self.limit = Some(entities);
        self
    }

    /// The results as a stream. An error ends the stream.
    ///
    /// # Errors
    /// As items: errors of the store; an entity that is not a `T`, or that other writers changed during every attempt; a
    /// store that does not sort; no partition.
    pub fn stream(&self) -> impl Stream<Item = Result<Wide<T>>> + Send + Unpin + use<T> {
        let found = match self.checked() {
            Ok(of) => self.found(of, None).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        };
        found
            .map(|scanned| decode(scanned?.into_stored()?))
            .take(self.limit.unwrap_or(usize::MAX))
    }

    /// Reads all results into memory.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn all(&self) -> Result<Vec<Wide<T>>> {
        self.stream().try_collect().await
    }

    /// Reads the first result; `None` if there is no result.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn first(&self) -> Result<Option<Wide<T>>> {
        self.stream().try_next().await
    }

    /// Counts the results by reading them.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn count(&self) -> Result<usize> {
        self.stream()
            .try_fold(0, |count, _| std::future::ready(Ok(count + 1)))
            .await
    }

    /// Reads one page, from the start or from a continuation token: as many entities as the [`limit`](Self::limit), or 100.
    /// The token needs the same partition.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); a continuation token of another query.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<Wide<T>>> {
        let (found, continuation) = self.page_of_entities(from).await?;
        let items = found
            .into_iter()
            .map(|scanned| decode(scanned.into_stored()?))
            .collect::<Result<_>>()?;
        Ok(Page {
            items,
            continuation,
        })
    }

    /// Reads one page like [`page`](Self::page), and lists the entities of it that cannot be read, with keys and errors: those that
    /// are not a `T`, whose rows are damaged, or that the store cannot decrypt.
    ///
    /// # Errors
    /// As [`page`](Self::page), without the errors of single entities.
    pub async fn readable_page(
        &self,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage<Wide<T>>> {
        let (found, continuation) = self.page_of_entities(from).await?;
        let read = found.into_iter().map(|scanned| match scanned.read {
            Ok(stored) => (stored.key.clone(), decode(stored)),
            Err(UnreadableEntity { key, error }) => (key, Err(error)),
        });
        Ok(readable(read, continuation))
    }

    /// Returns a stream of the results that goes on after an entity that cannot be read: such an entity is an `Err` with its key within an
    /// `Ok`. An error of the store ends the stream. The requests of its [pages](Self::page). The unreadable entities of a page come after the
    /// others, and do not count towards a [`limit`](Self::limit).
    ///
    /// # Errors
    /// The errors of [`readable_page`](Self::readable_page), as items.
    pub fn stream_readable(
        &self,
    ) -> impl Stream<Item = Result<Result<Wide<T>, UnreadableEntity>>> + Send + Unpin + use<T> {
        stream_readable(
            self.clone(),
            self.limit,
            Self::limit,
            |query, from| async move { query.readable_page(from.as_ref()).await },
        )
    }

    /// Reads entities after a continuation token, up to the limit of the query, and the token of the next page.
    async fn page_of_entities(
        &self,
        from: Option<&Continuation>,
    ) -> Result<(Vec<Scanned>, Option<Continuation>)> {
        let of = self.checked()?;
        let Reader { store, table, .. } = &self.entities.reader;
        let query = fingerprinted(of);
        let after = from
            .map(|from| from.position(store.profile(), table, &query))
            .transpose()?;
        let limit = self.limit.unwrap_or(PAGE);
        let entities = self.found(of, after.map(|after| &*after.first));
        // One entity more than the limit shows whether there are more.
        let mut page: Vec<Scanned> = entities.take(limit.saturating_add(1)).try_collect().await?;
        let has_more = page.len() > limit;
        page.truncate(limit);
        let continuation = page.last().filter(|_| has_more).map(|last| {
            let position = Position {
                first: last.prefix.clone(),
                second: None,
            };
            Continuation::new(store.profile(), table, &query, position)
        });
        Ok((page, continuation))
    }

    /// The text that identifies the query: a cursor is valid only for queries with the same text.
    #[cfg(feature = "paging")]
    pub(crate) fn identity(&self) -> Result<String> {
        let of = self.checked()?;
        let Reader { store, table, .. } = &self.entities.reader;
        Ok(crate::rows::query_identity(
            store.profile(),
            table,
            &fingerprinted(of),
        ))
    }

    /// The partition of a query that can run.
    pub(super) fn checked(&self) -> Result<&PartitionKey> {
        let profile = self.entities.reader.store.profile();
        if profile.order == KeyOrder::Unsorted {
            let what = "a query of wide entities needs the rows in order: read the entities by key";
            return Err(Error::unsupported(profile.name, what));
        }
        let without = "a query of wide entities needs a partition: give the partition (`WideQuery::partition`)";
        self.of.as_ref().ok_or_else(|| Error::misuse(without))
    }
}

/// The query that identifies a query of this partition in a continuation token.
fn fingerprinted(of: &PartitionKey) -> Query {
    query_all(Some(of.as_str()), None).with_select(Select::new([ENTITIES]))
}

fn decode<T: FromEntity>(stored: StoredWide) -> Result<Wide<T>> {
    Wide::from(stored).map(T::from_entity)
}

impl<T> Clone for WideQuery<T> {
    fn clone(&self) -> Self {
        Self {
            entities: self.entities.clone(),
            of: self.of.clone(),
            ..*self
        }
    }
}

impl<T> fmt::Debug for WideQuery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WideQuery")
            .field("entities", &self.entities)
            .field("partition", &self.of)
            .field("limit", &self.limit)
            .finish()
    }
}
