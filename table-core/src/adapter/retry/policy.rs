use std::time::Duration;

use fastrand::Rng;

/// When and how often a [`Retrying`](super::Retrying) store repeats a request.
///
/// ```
/// use std::time::Duration;
/// use table_core::adapter::{AbsentInsert, RetryPolicy};
/// let policy = RetryPolicy::default()
///     .with_max_attempts(8)
///     .with_delays(Duration::from_millis(100), Duration::from_secs(2))
///     .with_jitter(1.0) // many clients, which fail together
///     .with_attempt_timeout(Some(Duration::from_secs(5)))
///     .with_deadline(Some(Duration::from_secs(30)))
///     .with_absent_insert(AbsentInsert::Report) // rows that another program consumes
///     .with_write_ids();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    pub(super) max_attempts: u32,
    pub(super) base_delay: Duration,
    pub(super) max_delay: Duration,
    pub(super) max_retry_after: Duration,
    pub(super) jitter: f64,
    pub(super) deadline: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) write_ids: bool,
    pub(super) absent_insert: AbsentInsert,
    pub(super) seed: Option<u64>,
}

/// The action after the answer to an insert was lost, if the entity does not exist.
///
/// Usually the insert was never executed. But it may have been applied, and the entity deleted by another
/// writer since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentInsert {
    /// Insert again. An entity that another writer has consumed and deleted in between is then created again.
    #[default]
    Repeat,
    /// Report the insert as ambiguous. Use this for entities whose deletion has a meaning.
    Report,
}

/// Defaults: 5 attempts of at most 35 s each (the service itself gives up after 30 s), 2 minutes in total;
/// delays from 200 ms to 10 s, of which jitter takes up to half; a Retry-After of at most 2 minutes; no write ids.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_secs(10),
            max_retry_after: Duration::from_secs(120),
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
    /// Sets the maximum number of attempts; 1 never repeats. Reads that resolve an ambiguous write are
    /// additional; see [`with_write_ids`](Self::with_write_ids). While a table is being deleted
    /// ([`TableBeingDeleted`](crate::store::ErrorKind::TableBeingDeleted)), which takes the service 40 seconds or more, attempts are
    /// bounded by the [deadline](Self::with_deadline) alone, if there is one.
    #[must_use]
    pub const fn with_max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets the first delay, which doubles each time, and the longest delay. A longer Retry-After of the
    /// service is respected, up to [`with_max_retry_after`](Self::with_max_retry_after).
    #[must_use]
    pub const fn with_delays(mut self, base: Duration, longest: Duration) -> Self {
        self.base_delay = base;
        self.max_delay = longest;
        self
    }

    /// Sets the longest Retry-After of the service that a retry waits for. If the service asks for a longer delay, the operation fails
    /// immediately, and the error has the Retry-After. Without this maximum, a wrong header could stop a program for years.
    #[must_use]
    pub const fn with_max_retry_after(mut self, longest: Duration) -> Self {
        self.max_retry_after = longest;
        self
    }

    /// Sets the random part of each delay, from 0 to 1, so that clients that failed together do not retry
    /// together.
    #[must_use]
    pub const fn with_jitter(mut self, part: f64) -> Self {
        // NaN stays NaN in `clamp`, and no duration can be multiplied by it.
        self.jitter = if part.is_nan() {
            0.0
        } else {
            part.clamp(0.0, 1.0)
        };
        self
    }

    /// Sets the maximum time of an operation with all its attempts and delays. A running attempt is cut off
    /// at that time. A delay that would exceed it is not begun: the operation fails immediately.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the maximum time of one attempt. A write that is cut off is ambiguous.
    #[must_use]
    pub const fn with_attempt_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Stores a new Guid in [`WRITE_ID_PROPERTY`](super::WRITE_ID_PROPERTY) of every written entity, and
    /// reads it back if an answer was lost.
    ///
    /// Costs one property; no request without failures; and 1 read per entity of an ambiguous request. Enable
    /// it for every writer of a table: a merge by a writer without it keeps our id, so the ETag reported for
    /// our write would be that of the other write.
    #[must_use]
    pub const fn with_write_ids(mut self) -> Self {
        self.write_ids = true;
        self
    }

    /// Sets what to do with an ambiguous insert whose entity does not exist; see [`AbsentInsert`].
    #[must_use]
    pub const fn with_absent_insert(mut self, choice: AbsentInsert) -> Self {
        self.absent_insert = choice;
        self
    }

    /// Sets the seed of the jitter, to make it repeatable.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns the source of the jitter.
    pub(in crate::adapter) fn rng(&self) -> Rng {
        self.seed.map_or_else(Rng::new, Rng::with_seed)
    }

    /// Returns the delay before attempt `made + 1`, for a random number from 0 to 1.
    pub(super) fn delay(&self, made: u32, random: f64) -> Duration {
        let doubled = 2u32.saturating_pow(made.saturating_sub(1));
        let full = self.base_delay.saturating_mul(doubled).min(self.max_delay);
        // Jitter only shortens a delay, so no delay is longer than `max_delay`.
        full.mul_f64(1.0 - self.jitter * random)
    }
}
