//! Data keys that could not be unwrapped.

use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::expiring_map::ExpiringMap;
use super::{CacheBounds, Wrapping};
use crate::error::{Unreadable, is_service_error};
use crate::framing::push_lp;

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
        Self {
            failures: Mutex::new(ExpiringMap::new(MAX_FAILURES, bounds.failure_age)),
        }
    }

    pub(crate) fn get(&self, wrapping: &Wrapping) -> Option<Unreadable> {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&digest(wrapping))
            .cloned()
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
    for part in [
        wrapping.algorithm.as_bytes(),
        wrapping.key_id.as_bytes(),
        &wrapping.wrapped,
    ] {
        push_lp(&mut bytes, part);
    }
    Sha256::digest(&bytes).into()
}
