//! The join cache: cached entities, and reads that several callers share.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use moka::sync::Cache;
use table_core::model::Key;
use table_core::store::{Error, Result};
use table_core::typed::{FromEntity, KeyOf, TableEntity, TableQuery};

use crate::Table;
use tokio::sync::OnceCell;

/// The number of reads in flight for one join.
const CONCURRENCY: usize = 16;

/// How many entities a [`JoinCache`] keeps, and for how long.
///
/// ```
/// use std::time::Duration;
/// use table_patterns::relationship::JoinOptions;
/// let options = JoinOptions::default().with_time_to_live(Duration::from_secs(60)).remember_missing();
/// assert_eq!(options.entities, 10_000);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JoinOptions {
    /// The maximal number of entities. The cache removes the least used entities first.
    pub entities: u64,
    /// The age at which a value is read again.
    pub time_to_live: Duration,
    /// Whether the cache keeps that a key has no entity.
    pub remember_missing: bool,
}

impl JoinOptions {
    /// Sets the maximal number of entities.
    ///
    /// ```
    /// # use table_patterns::relationship::JoinOptions;
    /// let many = JoinOptions::default().with_entities(100_000);
    /// ```
    #[must_use]
    pub const fn with_entities(mut self, entities: u64) -> Self {
        self.entities = entities;
        self
    }

    /// Sets the age at which a value is read again; [`Duration::MAX`] for never.
    #[must_use]
    pub const fn with_time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = time_to_live;
        self
    }

    /// Keeps also that a key has no entity.
    #[must_use]
    pub const fn remember_missing(mut self) -> Self {
        self.remember_missing = true;
        self
    }
}

impl Default for JoinOptions {
    /// 10,000 entities for 5 minutes; a key without an entity is read each time.
    fn default() -> Self {
        Self {
            entities: 10_000,
            time_to_live: Duration::from_secs(300),
            remember_missing: false,
        }
    }
}

/// A cache of the other side of a join, for small tables that change rarely.
///
/// Clones are cheap and share the cached entities. Several callers that ask for one key at the same time cause 1
/// request.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_patterns::prelude::*;
/// use table_patterns::relationship::{JoinCache, JoinOptions};
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// #[entity(partition_key = "airline", row_key = "{code}")]
/// struct Airline {
///     code: String,
///     name: String,
/// }
///
/// let airlines = Database::new(MemoryStore::new()).table::<Airline>("Airlines")?;
/// airlines.declare().await?;
/// airlines.insert(&Airline { code: "UA".into(), name: "United".into() }).await?;
///
/// let cache = JoinCache::new(airlines, JoinOptions::default());
/// let flights = [("UA", 1545), ("UA", 1714), ("XX", 1)];
/// let joined = cache.join(flights, |flight| Airline::key(flight.0)).await?; // 1 request per distinct code
/// assert_eq!(joined[1].1.as_ref().map(|airline| &*airline.name), Some("United"));
/// assert_eq!(joined[2].1, None);
/// # Ok(())
/// # }
/// ```
pub struct JoinCache<T> {
    pub(super) table: Table<T>,
    pub(super) cached: Arc<CachedReads<T>>,
}

impl<T> Clone for JoinCache<T> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            cached: Arc::clone(&self.cached),
        }
    }
}

impl<T> fmt::Debug for JoinCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinCache")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl<T: FromEntity + Sync> JoinCache<T> {
    /// Makes an empty cache. No request.
    pub fn new(table: Table<T>, options: JoinOptions) -> Self {
        Self {
            table,
            cached: Arc::new(CachedReads::new(options)),
        }
    }

    /// The entity with this key; `None` if it does not exist. No request if the entity is cached; otherwise 1 request for
    /// all callers that ask for the key before the answer.
    ///
    /// # Errors
    /// Errors of the store, for all callers that waited for the read. The next call reads again.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<Arc<T>>> {
        let key = key.into_key();
        self.cached.get(&key, self.read(&key)).await
    }

    async fn read(&self, key: &Key) -> Result<Found<T>> {
        Ok(self.table.get(key).await?.map(Arc::new))
    }

    /// Joins each item with the entity of its key. 1 request per distinct key that is not cached, several at once.
    ///
    /// # Errors
    /// Errors of the store; a key that cannot be encoded.
    pub async fn join<A, K: KeyOf<T>>(
        &self,
        items: impl IntoIterator<Item = A>,
        key: impl Fn(&A) -> Result<K>,
    ) -> Result<Vec<(A, Option<Arc<T>>)>> {
        let mut keyed = Vec::new();
        for item in items {
            let key = key(&item)?.into_key();
            keyed.push((item, key));
        }
        // Within one join each key is read once, even if the cache does not keep missing entities.
        let distinct: HashSet<Key> = keyed.iter().map(|(_, key)| key.clone()).collect();
        let read = |key: Key| async move { Ok::<_, Error>((key.clone(), self.get(key).await?)) };
        let found: HashMap<Key, Option<Arc<T>>> = stream::iter(distinct)
            .map(read)
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        let joined = keyed
            .into_iter()
            .map(|(item, key)| (item, found.get(&key).cloned().flatten()));
        Ok(joined.collect())
    }

    /// Removes an entity from the cache, after this program changed it. Later calls see the change, even if a read for
    /// other callers is in flight.
    pub fn forget(&self, key: impl KeyOf<T>) {
        self.cached.forget(&key.into_key());
    }

    /// Removes all entities from the cache, as [`forget`](Self::forget) does.
    pub fn clear(&self) {
        self.cached.clear();
    }
}

impl<T: TableEntity> JoinCache<T> {
    /// Reads the results of a query into the cache, such as a small table at the start. 1 request per page.
    ///
    /// Returns the number of entities added. An entity that another caller reads or forgets during the load is not
    /// changed and not counted, because the cache may have a newer version.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn load(&self, query: &TableQuery<T>) -> Result<usize> {
        let (mut loaded, load) = (0, self.cached.start_load());
        let mut entities = query.stream();
        while let Some(entity) = entities.try_next().await? {
            let key = entity.entity_key()?.into_key();
            loaded += usize::from(load.insert(key, entity));
        }
        Ok(loaded)
    }
}

/// The longest time to live that `moka` accepts: 1,000 years.
const MAX_TIME_TO_LIVE: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// An entity; `None` if the key has no entity.
type Found<T> = Option<Arc<T>>;

/// One read in progress, shared by all callers that wait for it.
type SharedRead<T> = Arc<OnceCell<Result<Found<T>>>>;

/// The cached values, and the reads in progress.
///
/// Invariant: `values` changes only while `in_flight` is locked, together with the read or the key in it. Therefore a read
/// that began before its key was forgotten is never cached, and never answers a caller that asked after that.
pub(super) struct CachedReads<T> {
    values: Cache<Key, Found<T>>,
    remember_missing: bool,
    in_flight: Mutex<InFlight<T>>,
}

struct InFlight<T> {
    reads: HashMap<Key, SharedRead<T>>,
    /// The number of loads.
    loads: usize,
    /// The keys that were read or forgotten since the oldest load began. A load may have an older version of them.
    changed: HashSet<Key>,
    /// Whether the cache was cleared since the oldest load began.
    cleared: bool,
}

impl<T: Send + Sync + 'static> CachedReads<T> {
    fn new(options: JoinOptions) -> Self {
        let time_to_live = options.time_to_live.min(MAX_TIME_TO_LIVE);
        let values = Cache::builder()
            .max_capacity(options.entities)
            .time_to_live(time_to_live)
            .build();
        let in_flight = InFlight {
            reads: HashMap::new(),
            loads: 0,
            changed: HashSet::new(),
            cleared: false,
        };
        Self {
            values,
            remember_missing: options.remember_missing,
            in_flight: Mutex::new(in_flight),
        }
    }

    /// The cached value of a key; otherwise the result of a read of another caller, or of `read`.
    async fn get(
        &self,
        key: &Key,
        read: impl Future<Output = Result<Found<T>>>,
    ) -> Result<Found<T>> {
        if let Some(found) = self.values.get(key) {
            return Ok(found);
        }
        let shared_read = {
            let mut in_flight = self.in_flight();
            // The value is looked up again under the lock, because a read may have ended after the first look-up.
            if let Some(found) = self.values.get(key) {
                return Ok(found);
            }
            Arc::clone(in_flight.reads.entry(key.clone()).or_default())
        };
        let waiting = Waiting {
            cached: self,
            key,
            shared_read,
        };
        waiting.shared_read.get_or_init(|| read).await.clone()
    }

    /// Removes a value. A read in flight answers only the callers that wait for it already, and is not cached.
    fn forget(&self, key: &Key) {
        let mut in_flight = self.in_flight();
        in_flight.reads.remove(key);
        in_flight.mark_changed(key);
        self.values.invalidate(key);
    }

    fn clear(&self) {
        let mut in_flight = self.in_flight();
        in_flight.reads.clear();
        in_flight.cleared = in_flight.loads > 0;
        self.values.invalidate_all();
    }

    /// Starts a load, which runs until the value is dropped.
    fn start_load(&self) -> Load<'_, T> {
        self.in_flight().loads += 1;
        Load(self)
    }

    /// The number of values, after `moka` has removed those over its capacity.
    #[cfg(test)]
    pub(super) fn len(&self) -> u64 {
        self.values.run_pending_tasks();
        self.values.entry_count()
    }

    // A poisoned lock is safe to use: every statement leaves a consistent state.
    fn in_flight(&self) -> MutexGuard<'_, InFlight<T>> {
        self.in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> InFlight<T> {
    fn mark_changed(&mut self, key: &Key) {
        if self.loads > 0 {
            self.changed.insert(key.clone());
        }
    }
}

/// A caller that waits for a read.
///
/// The first caller that drops the value after the read has finished caches the result. If all callers are cancelled
/// before that, the last one removes the read.
struct Waiting<'a, T: Send + Sync + 'static> {
    cached: &'a CachedReads<T>,
    key: &'a Key,
    shared_read: SharedRead<T>,
}

impl<T: Send + Sync + 'static> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        let mut in_flight = self.cached.in_flight();
        let shared_read = std::mem::take(&mut self.shared_read);
        let is_current = in_flight
            .reads
            .get(self.key)
            .is_some_and(|current| Arc::ptr_eq(current, &shared_read));
        // Two references: this one and the one in `reads`. More belong to other callers, which finish the read.
        if !is_current || (!shared_read.initialized() && Arc::strong_count(&shared_read) > 2) {
            return;
        }
        in_flight.reads.remove(self.key);
        if let Some(Ok(found)) = shared_read.get()
            && (found.is_some() || self.cached.remember_missing)
        {
            in_flight.mark_changed(self.key);
            self.cached.values.insert(self.key.clone(), found.clone());
        }
    }
}

/// A query whose results are cached, except for keys that changed during the load.
struct Load<'a, T: Send + Sync + 'static>(&'a CachedReads<T>);

impl<T: Send + Sync + 'static> Load<'_, T> {
    /// Caches an entity, unless its key changed during the load. Whether the entity was cached.
    fn insert(&self, key: Key, entity: T) -> bool {
        let in_flight = self.0.in_flight();
        // The load may have read the entity before it was changed, and forgotten or read again.
        let is_newest = !in_flight.cleared && !in_flight.changed.contains(&key);
        if is_newest {
            self.0.values.insert(key, Some(Arc::new(entity)));
        }
        is_newest
    }
}

impl<T: Send + Sync + 'static> Drop for Load<'_, T> {
    fn drop(&mut self) {
        let mut in_flight = self.0.in_flight();
        in_flight.loads -= 1;
        if in_flight.loads == 0 {
            (in_flight.changed, in_flight.cleared) = (HashSet::new(), false);
        }
    }
}

impl<T> fmt::Debug for CachedReads<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedReads").finish_non_exhaustive()
    }
}
