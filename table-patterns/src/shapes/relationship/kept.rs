//! What a join cache holds, and the reads whose answers it waits for.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::sync::Cache;
use table_core::model::Key;
use table_core::store::Result;
use tokio::sync::OnceCell;

use super::JoinOptions;

/// The longest time to live that `moka` takes: 1,000 years.
const LONGEST: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// An entity, or that there is none.
pub(super) type Found<T> = Option<Arc<T>>;

/// One read, for all who wait for it.
type Flight<T> = Arc<OnceCell<Result<Found<T>>>>;

/// Values, and what is being read.
///
/// Values come and go while `under_way` is locked. So a read that began before its key was forgotten is never kept, and
/// never answers who asks afterwards.
pub(super) struct Kept<T> {
    values: Cache<Key, Found<T>>,
    remember_missing: bool,
    under_way: Mutex<UnderWay<T>>,
}

struct UnderWay<T> {
    reads: HashMap<Key, Flight<T>>,
    loads: usize,
    /// What was read or forgotten since the oldest of the loads began: what they found of it may be older.
    touched: HashSet<Key>,
    cleared: bool,
}

impl<T: Send + Sync + 'static> Kept<T> {
    pub(super) fn new(options: JoinOptions) -> Self {
        let time_to_live = options.time_to_live.min(LONGEST);
        let values = Cache::builder().max_capacity(options.entities).time_to_live(time_to_live).build();
        let under_way = UnderWay { reads: HashMap::new(), loads: 0, touched: HashSet::new(), cleared: false };
        Self { values, remember_missing: options.remember_missing, under_way: Mutex::new(under_way) }
    }

    /// What is known of a key; otherwise what `read` finds, or what one who asked before is about to find.
    pub(super) async fn get(
        &self,
        key: &Key,
        read: impl Future<Output = Result<Found<T>>>,
    ) -> Result<Found<T>> {
        if let Some(found) = self.values.get(key) {
            return Ok(found);
        }
        let flight = {
            let mut under_way = self.under_way();
            if let Some(found) = self.values.get(key) {
                return Ok(found);
            }
            Arc::clone(under_way.reads.entry(key.clone()).or_default())
        };
        let waiting = Waiting { kept: self, key, flight };
        waiting.flight.get_or_init(|| read).await.clone()
    }

    pub(super) fn forget(&self, key: &Key) {
        let mut under_way = self.under_way();
        under_way.reads.remove(key);
        under_way.touch(key);
        self.values.invalidate(key);
    }

    pub(super) fn clear(&self) {
        let mut under_way = self.under_way();
        under_way.reads.clear();
        under_way.cleared = under_way.loads > 0;
        self.values.invalidate_all();
    }

    pub(super) fn load(&self) -> Load<'_, T> {
        self.under_way().loads += 1;
        Load(self)
    }

    /// How many there are, after what is too many has gone.
    #[cfg(test)]
    pub(super) fn settled(&self) -> u64 {
        self.values.run_pending_tasks();
        self.values.entry_count()
    }

    // Every statement leaves it whole: a panic elsewhere leaves nothing to repair.
    fn under_way(&self) -> MutexGuard<'_, UnderWay<T>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> UnderWay<T> {
    fn touch(&mut self, key: &Key) {
        if self.loads > 0 {
            self.touched.insert(key.clone());
        }
    }
}

/// One who waits for a read. The first who leaves keeps what was read; the last, if he gives up before, forgets it.
struct Waiting<'a, T: Send + Sync + 'static> {
    kept: &'a Kept<T>,
    key: &'a Key,
    flight: Flight<T>,
}

impl<T: Send + Sync + 'static> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        let mut under_way = self.kept.under_way();
        let flight = std::mem::take(&mut self.flight);
        let is_current = under_way.reads.get(self.key).is_some_and(|current| Arc::ptr_eq(current, &flight));
        if !is_current || (!flight.initialized() && Arc::strong_count(&flight) > 2) {
            return;
        }
        under_way.reads.remove(self.key);
        if let Some(Ok(found)) = flight.get()
            && (found.is_some() || self.kept.remember_missing)
        {
            under_way.touch(self.key);
            self.kept.values.insert(self.key.clone(), found.clone());
        }
    }
}

/// A query whose results are kept, but where something newer may be known.
pub(super) struct Load<'a, T: Send + Sync + 'static>(&'a Kept<T>);

impl<T: Send + Sync + 'static> Load<'_, T> {
    /// Keeps an entity; whether nothing newer may be known.
    pub(super) fn keep(&self, key: Key, entity: T) -> bool {
        let under_way = self.0.under_way();
        let newest = !under_way.cleared && !under_way.touched.contains(&key);
        if newest {
            self.0.values.insert(key, Some(Arc::new(entity)));
        }
        newest
    }
}

impl<T: Send + Sync + 'static> Drop for Load<'_, T> {
    fn drop(&mut self) {
        let mut under_way = self.0.under_way();
        under_way.loads -= 1;
        if under_way.loads == 0 {
            (under_way.touched, under_way.cleared) = (HashSet::new(), false);
        }
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}
