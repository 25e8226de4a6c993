//! Where patterns take the time from. Clocks are never compared between machines.

use std::fmt::Debug;
use std::time::Duration;

use table_core::model::Ticks;
use tokio::time::Instant;

/// A source of the current time.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Ticks;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Ticks {
        Ticks::now()
    }
}

/// A clock that follows `tokio`'s time from a starting point: virtual where that is paused.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Ticks,
    started: Instant,
}

impl TokioClock {
    /// A clock that shows `origin` now.
    pub fn starting_at(origin: Ticks) -> Self {
        Self { origin, started: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Ticks {
        after(self.origin, self.started.elapsed())
    }
}

/// The time `delay` after `start`, at most [`Ticks::MAX`].
pub fn after(start: Ticks, delay: Duration) -> Ticks {
    let ticks = i64::try_from(delay.as_nanos() / 100).unwrap_or(i64::MAX);
    Ticks::new(start.get().saturating_add(ticks)).unwrap_or(Ticks::MAX)
}
