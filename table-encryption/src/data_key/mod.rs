//! Data keys: created under the active key-encryption key, shared by many writes, cached for reads.

mod bounds;
mod expiring;
mod keeper;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use bounds::{CacheBounds, DataKeyBounds};
pub(crate) use expiring::FailedUnwraps;
pub(crate) use keeper::{DataKeys, unreadable};
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
        // Without the check, a content key of the legacy format under the same key-encryption key could be used as a data key, and its
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
