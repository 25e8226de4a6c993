use std::time::Duration;

/// When a new data key is made.
///
/// More writes for a key mean fewer keys to unwrap when the table is read, and more that one leaked key opens. The
/// cipher needs neither bound: see `docs/encryption-format.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataKeyBounds {
    /// Entities written under one key; at least 1.
    pub max_writes: u64,
    /// How long one key is written with.
    pub max_age: Duration,
}

impl Default for DataKeyBounds {
    /// 1,048,576 writes and 24 hours.
    fn default() -> Self {
        Self { max_writes: 1 << 20, max_age: Duration::from_secs(24 * 3600) }
    }
}

/// How many unwrapped data keys are kept, for how long, and after which time the key service is asked again for a data key that
/// it could not unwrap.
///
/// A key that is kept can be used although the key-encryption key was revoked meanwhile. An expired key is overwritten
/// and freed at once, also while the store is idle: by a task on the Tokio runtime (with its time driver) in which the key was
/// first used. Where that runtime is not driven, the next use of the store frees the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBounds {
    /// Keys, of about 300 bytes each; none are kept at 0. A full cache drops the oldest.
    pub max_keys: u64,
    /// The time after which a key is unwrapped again.
    pub max_age: Duration,
    /// The time after which the key service is asked again for a data key that it refused to unwrap; each time at zero. A passing
    /// fault (busy, unreachable) is not remembered. Up to 65,536 refusals are, of about 200 bytes each.
    pub failure_age: Duration,
}

impl Default for CacheBounds {
    /// 4,096 keys for an hour; refusals for 30 seconds.
    fn default() -> Self {
        Self { max_keys: 4096, max_age: Duration::from_secs(3600), failure_age: Duration::from_secs(30) }
    }
}
