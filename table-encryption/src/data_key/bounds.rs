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

/// How many unwrapped data keys are kept, and for how long.
///
/// A key that is kept can be used although the key-encryption key was revoked meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBounds {
    /// Keys, of about 300 bytes each; none are kept at 0.
    pub max_keys: u64,
    /// The time after which a key is unwrapped again.
    pub max_age: Duration,
}

impl Default for CacheBounds {
    /// 4,096 keys for an hour.
    fn default() -> Self {
        Self { max_keys: 4096, max_age: Duration::from_secs(3600) }
    }
}
