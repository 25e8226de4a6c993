use std::time::Duration;

use fastrand::Rng;

/// When and how often a [`Retrying`](super::Retrying) store tries again.
///
/// ```
/// use std::time::Duration;
/// use table_core::adapter::RetryPolicy;
/// let policy = RetryPolicy::default()
///     .with_max_attempts(8)
///     .with_deadline(Some(Duration::from_secs(30)))
///     .with_write_ids();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    pub(super) max_attempts: u32,
    pub(super) base_delay: Duration,
    pub(super) max_delay: Duration,
    pub(super) jitter: f64,
    pub(super) deadline: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) write_ids: bool,
    pub(super) absent_insert: AbsentInsert,
    pub(super) seed: Option<u64>,
}

/// What becomes of an insert whose answer was lost, when its entity is not there.
///
/// Usually it never arrived. But it may have been applied, and its entity deleted by someone since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentInsert {
    /// Insert again: an entity that someone consumed and deleted in between comes back.
    #[default]
    Repeat,
    /// Report the insert as ambiguous: for entities whose disappearance means something.
    Report,
}

/// 5 attempts of at most 35 s each (the service itself gives up after 30 s), 2 minutes in all;
/// delays from 200 ms to 10 s, of which jitter takes up to half; no write ids.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_secs(10),
            jitter: 0.5,
            deadline: Some(Duration::from_secs(120)),
            attempt_timeout: Some(Duration::from_secs(35)),
            write_ids: false,
            absent_insert: AbsentInsert::Repeat,
            seed: None,
        }
    }
}

impl RetryPolicy {
    /// How often a request is sent at most: 1 never repeats. The reads that resolve an ambiguous
    /// write come on top; see [`with_write_ids`](Self::with_write_ids).
    #[must_use]
    pub const fn with_max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// The first delay, doubled each time up to the longest. A service's Retry-After is waited out
    /// even where it is longer.
    #[must_use]
    pub const fn with_delays(mut self, base: Duration, longest: Duration) -> Self {
        self.base_delay = base;
        self.max_delay = longest;
        self
    }

    /// The part of each delay, from 0 to 1, that is left to chance, so that clients that failed
    /// together do not come back together.
    #[must_use]
    pub const fn with_jitter(mut self, part: f64) -> Self {
        self.jitter = part.clamp(0.0, 1.0);
        self
    }

    /// The time for an operation with all its attempts and delays. An attempt is cut off there, and
    /// a delay that would reach it is not begun: the operation fails at once.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The time for one attempt. A write cut off by it is ambiguous.
    #[must_use]
    pub const fn with_attempt_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Stores a fresh Guid in [`WRITE_ID_PROPERTY`](super::WRITE_ID_PROPERTY) of every entity
    /// written, and reads it back where an answer was lost.
    ///
    /// Costs one property, no request where all goes well, and one read for each entity written by
    /// an ambiguous request. Turn it on for every writer of a table: a merge by a writer without it
    /// keeps our id, so that the version reported for our write would be of theirs.
    #[must_use]
    pub const fn with_write_ids(mut self) -> Self {
        self.write_ids = true;
        self
    }

    /// What becomes of an ambiguous insert whose entity is not there; see [`AbsentInsert`].
    #[must_use]
    pub const fn with_absent_insert(mut self, choice: AbsentInsert) -> Self {
        self.absent_insert = choice;
        self
    }

    /// Makes the jitter repeatable.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The source of the jitter.
    pub(in crate::adapter) fn rng(&self) -> Rng {
        self.seed.map_or_else(Rng::new, Rng::with_seed)
    }

    /// The delay before attempt `made + 1`, for a random number from 0 to 1.
    pub(super) fn delay(&self, made: u32, random: f64) -> Duration {
        let doubled = 2u32.saturating_pow(made.saturating_sub(1));
        let full = self.base_delay.saturating_mul(doubled).min(self.max_delay);
        full.mul_f64(1.0 - self.jitter * random)
    }
}
