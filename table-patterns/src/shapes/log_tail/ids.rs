use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use table_core::model::Ticks;
use uuid::Uuid;

use super::EntryId;
use super::entry::COUNT_DIGITS;
use crate::clock::{Clock, SystemClock};

/// Counts down from here, so that later appends sort first.
const COUNT: u64 = 0xFFFF_FFFF_FFFF;

/// Names the entries that one handle and its clones append.
#[derive(Debug)]
pub(super) struct Ids {
    clock: Arc<dyn Clock>,
    writer: Uuid,
    latest: AtomicI64,
    appended: AtomicU64,
}

impl Ids {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let writer = Uuid::new_v4();
        Self { clock, writer, latest: AtomicI64::new(0), appended: AtomicU64::new(0) }
    }

    /// The time, never before that of an earlier call.
    pub(super) fn now(&self) -> Ticks {
        let now = self.clock.now();
        let latest = self.latest.fetch_max(now.get(), Ordering::Relaxed);
        Ticks::new(latest).map_or(now, |latest| latest.max(now))
    }

    pub(super) fn next(&self, at: Ticks) -> EntryId {
        let count = COUNT.saturating_sub(self.appended.fetch_add(1, Ordering::Relaxed));
        EntryId::unique(at, &format!("{count:0COUNT_DIGITS$x}_{}", self.writer.simple()))
    }
}

impl Default for Ids {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}
