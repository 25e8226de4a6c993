use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use table_core::adapter::WithClock;
use table_core::model::Ticks;
use table_core::store::TableStore;

/// A clock that a test sets. All its clones show one time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    /// The ticks of a second.
    pub const SECOND: i64 = 10_000_000;
    /// The ticks of a day.
    pub const DAY: i64 = 24 * 60 * 60 * Self::SECOND;

    /// Creates a clock that shows the start of 2013-01-01.
    pub fn start() -> Self {
        Self(Arc::new(AtomicI64::new(634_925_952_000_000_000)))
    }

    /// The time that the clock shows.
    pub fn now(&self) -> Ticks {
        self.after(0)
    }

    /// The time after this number of ticks.
    pub fn after(&self, ticks: i64) -> Ticks {
        Ticks::new(self.0.load(Ordering::Relaxed) + ticks).expect("a time")
    }

    /// Moves the clock forward.
    pub fn advance(&self, ticks: i64) {
        self.0.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Returns the store by this clock.
    pub fn over(&self, store: &Arc<dyn TableStore>) -> Arc<dyn TableStore> {
        let clock = self.clone();
        Arc::new(WithClock::new(Arc::clone(store), move || clock.now()))
    }
}
