use std::time::Duration;

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
/// A cached key stays usable if its key-encryption key is revoked. An expired key is overwritten and freed
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
