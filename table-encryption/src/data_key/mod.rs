//! Data keys: created under the active key encryption key, shared by many writes, cached for reads.

mod keeper;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::KeyBytes;
use crate::error::{Unreadable, is_service_error};
use crate::framing::push_lp;

pub(crate) use keeper::{DataKeys, unreadable};

/// Precedes a data key when it is wrapped. Because of the label, legacy readers refuse the key (its length is
/// wrong for them), and readers of this format refuse keys without it.
const LABEL: &[u8; 8] = b"tblenc2\0";

/// The 32 bytes from which the keys of writes are derived. Shared and never copied, so that overwriting it
/// leaves no copy.
#[derive(PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(crate) const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the bytes to wrap.
    fn labelled(&self) -> KeyBytes {
        [LABEL.as_slice(), &self.0].concat().into()
    }

    /// Parses unwrapped bytes.
    fn from_labelled(bytes: &KeyBytes) -> Option<Self> {
        // Without the check, a content key of the legacy format under the same key encryption key could be used as a data key, and its
        // entities have no integrity.
        bytes.expose().strip_prefix(LABEL.as_slice())?.try_into().ok().map(Self)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A wrapped data key, the id of the key that wrapped it, and the algorithm. Not secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wrapping {
    pub(crate) algorithm: Box<str>,
    pub(crate) key_id: Box<str>,
    pub(crate) wrapped: Box<[u8]>,
}

/// A data key for writes.
#[derive(Clone, Debug)]
pub(crate) struct DataKey {
    pub(crate) secret: Arc<Secret>,
    pub(crate) wrapping: Wrapping,
}

/// When a new data key is created.
///
/// More writes per key mean fewer keys to unwrap when the table is read, and more data exposed by one leaked
/// key. The cipher requires neither bound: see `docs/encryption-format.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataKeyBounds {
    /// Maximum number of entities written with one key; at least 1.
    pub max_writes: u64,
    /// Maximum time for which one key is used for writes.
    pub max_age: Duration,
}

impl Default for DataKeyBounds {
    /// 1,048,576 writes and 24 hours.
    fn default() -> Self {
        Self { max_writes: 1 << 20, max_age: Duration::from_secs(24 * 3600) }
    }
}

/// Bounds of the cache of unwrapped data keys, and of the record of data keys that could not be unwrapped.
///
/// A cached key stays usable if its key encryption key is revoked. An expired key is overwritten and freed
/// immediately, also while the store is idle, by a task on the Tokio runtime (with its time driver) in which
/// the key was first used. If that runtime does not run, the next use of the store frees the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBounds {
    /// Maximum number of cached keys, about 300 bytes each; 0 disables the cache. A full cache drops the
    /// oldest key.
    pub max_keys: u64,
    /// Time after which a key must be unwrapped again.
    pub max_age: Duration,
    /// Time during which the key service is not asked again for a data key that it refused to unwrap; zero
    /// asks each time. Transient errors (busy, unreachable) are not recorded. At most 65,536 refusals are
    /// recorded, about 200 bytes each.
    pub failure_age: Duration,
}

impl Default for CacheBounds {
    /// 4,096 keys for an hour; refusals for 30 seconds.
    fn default() -> Self {
        Self { max_keys: 4096, max_age: Duration::from_secs(3600), failure_age: Duration::from_secs(30) }
    }
}

// Maps with entries that expire.

/// A map whose entries expire a fixed time after their insertion, with a maximum size. A full map drops its
/// oldest entry.
///
/// A general cache (moka, for example) removes expired entries at the next use and frees them even later.
/// Here [`remove_expired`](Self::remove_expired) drops them immediately, so that secrets are overwritten when
/// they expire.
struct ExpiringMap<K, V> {
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
    fn new(max_entries: u64, max_age: Duration) -> Self {
        let max_entries = usize::try_from(max_entries).unwrap_or(usize::MAX);
        let (entries, order) = (HashMap::new(), VecDeque::new());
        Self { max_entries, max_age, entries, order, inserted: 0 }
    }

    fn get(&self, key: &K) -> Option<&V> {
        let entry = self.entries.get(key)?;
        (!is_expired(entry.expires, Instant::now())).then_some(&entry.value)
    }

    fn insert(&mut self, key: K, value: V) {
        if self.max_entries == 0 || self.max_age.is_zero() {
            return;
        }
        let now = Instant::now();
        self.remove_expired(now);
        let key = Arc::new(key);
        self.inserted += 1;
        let entry = Entry { number: self.inserted, expires: now.checked_add(self.max_age), value };
        self.entries.insert(Arc::clone(&key), entry);
        self.order.push_back((self.inserted, key));
        while self.entries.len() > self.max_entries {
            self.remove_oldest();
        }
    }

    /// Drops expired entries. Returns when the next entry expires.
    fn remove_expired(&mut self, now: Instant) -> Option<Instant> {
        // All entries live equally long, so they expire in the order of insertion, and the first that is alive ends the search.
        while let Some((number, key)) = self.order.front() {
            match self.entries.get(key).filter(|entry| entry.number == *number) {
                Some(entry) if !is_expired(entry.expires, now) => return entry.expires,
                _ => self.remove_oldest(),
            }
        }
        None
    }

    fn remove_oldest(&mut self) {
        let Some((number, key)) = self.order.pop_front() else { return };
        if self.entries.get(&key).is_some_and(|entry| entry.number == number) {
            self.entries.remove(&key);
        }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }
}

fn is_expired(expires: Option<Instant>, now: Instant) -> bool {
    expires.is_some_and(|expires| expires <= now)
}

/// Maximum number of recorded refusals.
const MAX_FAILURES: u64 = 65_536;

/// Data keys that could not be unwrapped. For some time, the key service is not asked for them again. A
/// writer of a table can store any number of wrapped keys that no key encryption key opens.
pub(crate) struct FailedUnwraps {
    /// By the hash of the wrapping, because the wrapping itself may have 128 KiB: its key id and its wrapped key have up to 64 KiB each.
    failures: Mutex<ExpiringMap<[u8; 32], Unreadable>>,
}

impl FailedUnwraps {
    pub(crate) fn new(bounds: CacheBounds) -> Self {
        Self { failures: Mutex::new(ExpiringMap::new(MAX_FAILURES, bounds.failure_age)) }
    }

    pub(crate) fn get(&self, wrapping: &Wrapping) -> Option<Unreadable> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(&digest(wrapping)).cloned()
    }

    /// Records a failure, unless it is transient.
    pub(crate) fn record(&self, wrapping: &Wrapping, failure: &Unreadable) {
        if matches!(failure, Unreadable::Unavailable(error) if is_service_error(error)) {
            return;
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.insert(digest(wrapping), failure.clone());
    }
}

fn digest(wrapping: &Wrapping) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(wrapping.wrapped.len() + 64);
    // With lengths, so that two different wrappings never have one hash: a forged one could block a real one.
    for part in [wrapping.algorithm.as_bytes(), wrapping.key_id.as_bytes(), &wrapping.wrapped] {
        push_lp(&mut bytes, part);
    }
    Sha256::digest(&bytes).into()
}
