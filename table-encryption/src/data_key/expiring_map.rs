//! A map with entries that expire.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// A map whose entries expire a fixed time after their insertion, with a maximum size. A full map drops its
/// oldest entry.
///
/// A general cache (moka, for example) removes expired entries at the next use and frees them even later.
/// Here [`remove_expired`](Self::remove_expired) drops them immediately, so that secrets are overwritten when
/// they expire.
pub(super) struct ExpiringMap<K, V> {
    max_entries: usize,
    max_age: Duration,
    entries: HashMap<Arc<K>, Entry<V>>,
    /// Keys in the order of insertion, which is the order of expiry. A key that was inserted twice occurs
    /// twice; the occurrence with the entry's number counts.
    order: VecDeque<(u64, Arc<K>)>,
    inserted: u64,
}

struct Entry<V> {
    number: u64,
    /// `None` if the time is beyond the range of an `Instant`: the entry never expires.
    expires: Option<Instant>,
    value: V,
}

impl<K: Eq + Hash, V> ExpiringMap<K, V> {
    pub(super) fn new(max_entries: u64, max_age: Duration) -> Self {
        let max_entries = usize::try_from(max_entries).unwrap_or(usize::MAX);
        let (entries, order) = (HashMap::new(), VecDeque::new());
        Self {
            max_entries,
            max_age,
            entries,
            order,
            inserted: 0,
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let entry = self.entries.get(key)?;
        (!is_expired(entry.expires, Instant::now())).then_some(&entry.value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.max_entries == 0 || self.max_age.is_zero() {
            return;
        }
        let now = Instant::now();
        self.remove_expired(now);
        let key = Arc::new(key);
        self.inserted += 1;
        let entry = Entry {
            number: self.inserted,
            expires: now.checked_add(self.max_age),
            value,
        };
        self.entries.insert(Arc::clone(&key), entry);
        self.order.push_back((self.inserted, key));
        while self.entries.len() > self.max_entries {
            self.remove_oldest();
        }
    }

    /// Drops expired entries. Returns when the next entry expires.
    pub(super) fn remove_expired(&mut self, now: Instant) -> Option<Instant> {
        // All entries live equally long, so they expire in the order of insertion, and the first that is alive ends the search.
        while let Some((number, key)) = self.order.front() {
            match self
                .entries
                .get(key)
                .filter(|entry| entry.number == *number)
            {
                Some(entry) if !is_expired(entry.expires, now) => return entry.expires,
                _ => self.remove_oldest(),
            }
        }
        None
    }

    fn remove_oldest(&mut self) {
        let Some((number, key)) = self.order.pop_front() else {
            return;
        };
        if self
            .entries
            .get(&key)
            .is_some_and(|entry| entry.number == number)
        {
            self.entries.remove(&key);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

pub(super) fn is_expired(expires: Option<Instant>, now: Instant) -> bool {
    expires.is_some_and(|expires| expires <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(max_entries: u64) -> ExpiringMap<u32, &'static str> {
        let mut map = ExpiringMap::new(max_entries, Duration::from_secs(10));
        [(1, "one"), (2, "two"), (3, "three")]
            .into_iter()
            .for_each(|(key, value)| map.insert(key, value));
        map
    }

    #[tokio::test(start_paused = true)]
    async fn entries_expire_in_order() {
        let mut map = filled(10);
        tokio::time::advance(Duration::from_secs(5)).await;
        map.insert(1, "one again");
        assert_eq!(
            map.remove_expired(Instant::now()),
            Some(Instant::now() + Duration::from_secs(5))
        );
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(map.get(&1), Some(&"one again"));
        assert_eq!(map.get(&2), None);
        assert_eq!(map.len(), 3);
        assert_eq!(
            map.remove_expired(Instant::now()),
            Some(Instant::now() + Duration::from_secs(5))
        );
        assert_eq!(map.get(&1), Some(&"one again"));
        assert_eq!(map.len(), 1);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(map.remove_expired(Instant::now()), None);
        assert_eq!(map.len(), 0);
        assert!(map.order.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_map_drops_the_oldest() {
        let map = filled(2);
        assert_eq!(
            [1, 2, 3].map(|key| map.get(&key).is_some()),
            [false, true, true]
        );
        let mut none = filled(0);
        assert_eq!(none.len(), 0);
        assert_eq!(none.remove_expired(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_age_beyond_the_clocks_range_never_expires() {
        let mut map = ExpiringMap::new(1, Duration::MAX);
        map.insert(1, ());
        assert_eq!(map.remove_expired(Instant::now()), None);
        assert_eq!(map.len(), 1);
    }
}
