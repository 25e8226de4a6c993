//! Queries of a partition.

use std::fmt;
use std::marker::PhantomData;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::PartitionKey;
use table_core::query::{Continuation, Page, Position, Query, Select};
use table_core::store::{Error, KeyOrder, Result, TableStore as _};
use table_core::typed::{FromEntity, PartitionIn};

use super::Wide;
use super::read::Reader;
use super::rows::{Stored, prefix, query_all};

/// The entities of a page unless a limit says otherwise.
const PAGE: usize = 100;
/// Tells a continuation of entities from one of the store for their rows: no query projects to it.
const ENTITIES: &str = "~~wide";

/// A query on the wide entities of a partition, in the order of their RowKeys (by hash, where those are too long): made by
/// [`WideTable::query`](super::WideTable::query), given a [`partition`](Self::partition), then run. It can be run more than once.
///
/// Filters see chunks, not entities: there are none.
///
/// # Cost
/// One request a page of the store, which reads on while entities are taken; again for an entity that another writer changes
/// meanwhile. A store without order is refused.
#[must_use = "a query does nothing until it is run"]
pub struct WideQuery<T> {
    reader: Reader,
    of: Option<PartitionKey>,
    limit: Option<usize>,
    as_type: PhantomData<fn() -> T>,
}

impl<T: FromEntity> WideQuery<T> {
    pub(super) const fn new(reader: Reader) -> Self {
        Self { reader, of: None, limit: None, as_type: PhantomData }
    }

    /// Only entities of this partition. A query needs one.
    pub fn partition(mut self, of: impl PartitionIn<T>) -> Self {
        self.of = Some(of.partition_key().clone());
        self
    }

    /// Returns at most this many. It bounds a [`page`](Self::page), which goes on.
    pub const fn limit(mut self, entities: usize) -> Self {
        self.limit = Some(entities);
        self
    }

    /// The results one after another. An error ends it.
    ///
    /// # Errors
    /// As items: the store's; an entity is not a `T`, or was being changed at every attempt to read it; the store does not sort;
    /// no partition was given.
    pub fn stream(&self) -> impl Stream<Item = Result<Wide<T>>> + Send + Unpin + use<T> {
        let found = match self.checked() {
            Ok(of) => self.reader.scan(Some(of.as_str()), None).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        };
        found.map(|stored| decode(stored?)).take(self.limit.unwrap_or(usize::MAX))
    }

    /// All results, in memory.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn all(&self) -> Result<Vec<Wide<T>>> {
        self.stream().try_collect().await
    }

    /// The first result.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn first(&self) -> Result<Option<Wide<T>>> {
        self.stream().try_next().await
    }

    /// How many results there are; they are read.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn count(&self) -> Result<usize> {
        self.stream().try_fold(0, |count, _| std::future::ready(Ok(count + 1))).await
    }

    /// One page, from the start or from where another ended: as many entities as the [`limit`](Self::limit) says, 100 without.
    /// The continuation needs the same partition.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); the continuation is another query's.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<Wide<T>>> {
        let of = self.checked()?;
        let Reader { store, table, .. } = &self.reader;
        let query: Query = query_all(Some(of.as_str()), None).with_select(Select::new([ENTITIES]));
        let after = from.map(|from| from.position(store.profile(), table, &query)).transpose()?;
        let limit = self.limit.unwrap_or(PAGE);
        let found = self.reader.scan(Some(of.as_str()), after.map(|after| &*after.first));
        // One more tells whether there are more.
        let mut found: Vec<Stored> = found.take(limit.saturating_add(1)).try_collect().await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let continuation = found.last().filter(|_| more).map(|last| {
            let first = prefix(&last.key, store.profile());
            Continuation::new(store.profile(), table, &query, Position { first, second: None })
        });
        Ok(Page { items: found.into_iter().map(decode).collect::<Result<_>>()?, continuation })
    }

    fn checked(&self) -> Result<&PartitionKey> {
        let profile = self.reader.store.profile();
        if profile.order == KeyOrder::Unsorted {
            let what = "a query of wide entities, whose rows come together only in order: read them by key";
            return Err(Error::unsupported(profile.name, what));
        }
        let without = "a query of wide entities needs a partition: name it by `partition`";
        self.of.as_ref().ok_or_else(|| Error::invalid_request(without))
    }
}

fn decode<T: FromEntity>(stored: Stored) -> Result<Wide<T>> {
    Wide::from(stored).map(T::from_entity)
}

impl<T> Clone for WideQuery<T> {
    fn clone(&self) -> Self {
        Self { reader: self.reader.clone(), of: self.of.clone(), limit: self.limit, as_type: PhantomData }
    }
}

impl<T> fmt::Debug for WideQuery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WideQuery")
            .field("reader", &self.reader)
            .field("partition", &self.of)
            .field("limit", &self.limit)
            .finish()
    }
}
