//! The clocks of patterns. No pattern compares the clocks of two machines.

use std::fmt::Debug;
use std::time::Duration;

use table_core::model::Ticks;
use tokio::time::Instant;

/// A source of the current time.
///
/// ```
/// use std::time::Duration;
/// use table_core::model::Ticks;
/// use table_patterns::clock::{Clock, SystemClock, after};
/// let now = SystemClock.now();
/// assert_eq!(after(now, Duration::from_secs(1)).get() - now.get(), 10_000_000); // ticks of 100 ns
/// assert_eq!(after(now, Duration::MAX), Ticks::MAX);
/// ```
pub trait Clock: Debug + Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Ticks;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Ticks {
        Ticks::now()
    }
}

/// A clock that follows Tokio's time from a starting point. In tests with paused time, the clock is virtual.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Ticks,
    started: Instant,
}

impl TokioClock {
    /// Makes a clock whose current time is `origin`.
    pub fn starting_at(origin: Ticks) -> Self {
        Self {
            origin,
            started: Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Ticks {
        after(self.origin, self.started.elapsed())
    }
}

/// Milliseconds, rounded up: no process waits for less than the duration.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// The time `delay` after `start`, at most [`Ticks::MAX`].
pub fn after(start: Ticks, delay: Duration) -> Ticks {
    let ticks = i64::try_from(delay.as_nanos() / 100).unwrap_or(i64::MAX);
    Ticks::new(start.get().saturating_add(ticks)).unwrap_or(Ticks::MAX)
}
