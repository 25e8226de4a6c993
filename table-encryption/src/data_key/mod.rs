//! Data keys: created under the active key encryption key, shared by many writes, cached for reads.

mod data_keys;
mod expiring_map;
mod failed_unwraps;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use data_keys::{DataKeys, unreadable};
pub(crate) use failed_unwraps::FailedUnwraps;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::KeyBytes;

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
        bytes
            .expose()
            .strip_prefix(LABEL.as_slice())?
            .try_into()
            .ok()
            .map(Self)
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
        Self {
            max_writes: 1 << 20,
            max_age: Duration::from_secs(24 * 3600),
        }
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
        Self {
            max_keys: 4096,
            max_age: Duration::from_secs(3600),
            failure_age: Duration::from_secs(30),
        }
    }
}
