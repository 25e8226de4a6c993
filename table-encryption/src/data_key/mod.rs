//! Data keys: made under the active key-encryption key, shared by many writes, cached for reads.

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

/// What is before a data key when it is wrapped: a legacy reader takes no key of this length, and a reader of
/// this format none without it.
const LABEL: &[u8; 8] = b"tblenc2\0";

/// 32 bytes from which the keys of writes are derived. Shared, not copied: a copy would stay when the original is overwritten.
#[derive(PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(crate) const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// What is wrapped.
    fn labelled(&self) -> KeyBytes {
        [LABEL.as_slice(), &self.0].concat().into()
    }

    /// Back from what was unwrapped.
    fn from_labelled(bytes: &KeyBytes) -> Option<Self> {
        bytes.expose().strip_prefix(LABEL.as_slice())?.try_into().ok().map(Self)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A wrapped data key, and which key wrapped it how: public.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wrapping {
    pub(crate) algorithm: Box<str>,
    pub(crate) key_id: Box<str>,
    pub(crate) wrapped: Box<[u8]>,
}

/// A data key to write with.
#[derive(Clone, Debug)]
pub(crate) struct DataKey {
    pub(crate) secret: Arc<Secret>,
    pub(crate) wrapping: Wrapping,
}
