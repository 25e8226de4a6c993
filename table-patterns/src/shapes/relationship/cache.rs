use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::model::Key;
use table_core::store::{Error, Result};
use table_core::typed::{FromEntity, KeyOf, Table, TableEntity, TableQuery};

use super::kept::{Found, Kept};

/// Reads in flight for one join.
const CONCURRENCY: usize = 16;

/// How much a [`JoinCache`] keeps, and how long.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JoinOptions {
    /// Entities at most; the least used go first.
    pub entities: u64,
    /// The age at which a value is read again.
    pub time_to_live: Duration,
    /// Whether it is remembered that there is no entity with a key.
    pub remember_missing: bool,
}

impl JoinOptions {
    /// Another bound on the entities.
    #[must_use]
    pub const fn with_entities(mut self, entities: u64) -> Self {
        self.entities = entities;
        self
    }

    /// Another age at which a value is read again; [`Duration::MAX`] for never.
    #[must_use]
    pub const fn with_time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = time_to_live;
        self
    }

    /// Remembers too that there is no entity with a key.
    #[must_use]
    pub const fn remember_missing(mut self) -> Self {
        self.remember_missing = true;
        self
    }
}

impl Default for JoinOptions {
    /// 10,000 entities for five minutes; what is missing is asked for each time.
    fn default() -> Self {
        Self { entities: 10_000, time_to_live: Duration::from_secs(300), remember_missing: false }
    }
}

/// The other side of a join, kept in the client: for what is small and changes little.
///
/// Cheap to clone; clones share what they know. Many who ask for one key at once cause one request.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
/// use table_patterns::relationship::{JoinCache, JoinOptions};
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// #[entity(partition_key = "airline", row_key = "{code}")]
/// struct Airline {
///     code: String,
///     name: String,
/// }
///
/// let airlines = Table::<Airline>::new(MemoryStore::new(), "Airlines")?;
/// airlines.create_if_missing().await?;
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
    pub(super) kept: Arc<Kept<T>>,
}

impl<T> Clone for JoinCache<T> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), kept: Arc::clone(&self.kept) }
    }
}

impl<T> fmt::Debug for JoinCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinCache").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<T: FromEntity + Sync> JoinCache<T> {
    /// Knows nothing yet. No request.
    pub fn new(table: Table<T>, options: JoinOptions) -> Self {
        Self { table, kept: Arc::new(Kept::new(options)) }
    }

    /// The entity with this key, if it is there. No request while it is known; otherwise one, for all who ask meanwhile.
    ///
    /// # Errors
    /// The store's, to all who waited for it; the next one asks again.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<Arc<T>>> {
        let key = key.into_key();
        self.kept.get(&key, self.read(&key)).await
    }

    async fn read(&self, key: &Key) -> Result<Found<T>> {
        Ok(self.table.get(key).await?.map(Arc::new))
    }

    /// Each item with the entity that its key names. One request for each distinct key that is not known, several at once.
    ///
    /// # Errors
    /// The store's; a key cannot be encoded.
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
        // Of one join, a key is read once even if what is missing is not remembered.
        let distinct: HashMap<Key, ()> = keyed.iter().map(|(_, key)| (key.clone(), ())).collect();
        let read = |key: Key| async move { Ok::<_, Error>((key.clone(), self.get(key).await?)) };
        let found: HashMap<Key, Option<Arc<T>>> =
            stream::iter(distinct.into_keys()).map(read).buffer_unordered(CONCURRENCY).try_collect().await?;
        let joined = keyed.into_iter().map(|(item, key)| (item, found.get(&key).cloned().flatten()));
        Ok(joined.collect())
    }

    /// Forgets an entity, after it was changed here: who asks afterwards sees the change, even if it is being read
    /// just now for others.
    pub fn forget(&self, key: impl KeyOf<T>) {
        self.kept.forget(&key.into_key());
    }

    /// Forgets everything, as [`forget`](Self::forget) does.
    pub fn clear(&self) {
        self.kept.clear();
    }
}

impl<T: TableEntity> JoinCache<T> {
    /// Reads what a query finds into the cache: a small table, at the start. One request a page. How many; what
    /// others read or forgot meanwhile is left as it is and not counted.
    ///
    /// # Errors
    /// The store's.
    pub async fn load(&self, query: &TableQuery<T>) -> Result<usize> {
        let (mut loaded, load) = (0, self.kept.load());
        let mut entities = query.stream();
        while let Some(entity) = entities.try_next().await? {
            let key = entity.entity_key()?.into_key();
            loaded += usize::from(load.keep(key, entity));
        }
        Ok(loaded)
    }
}
