//! The options of bulk operations.

use std::time::Duration;

use table_core::adapter::RetryPolicy;

/// Concurrency, memory bounds and retries of bulk work.
///
/// ```
/// use std::time::Duration;
/// use table_patterns::bulk::BulkOptions;
/// let options = BulkOptions::default().with_concurrency(64).with_retry(None);
/// let options = options.with_max_waiting(50_000, 64 << 20).with_max_wait(Duration::from_secs(1));
/// assert_eq!(options.concurrency, 64);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BulkOptions {
    /// The number of requests in flight.
    pub concurrency: usize,
    /// The number of operations that may wait for others of their partition.
    pub max_waiting_operations: usize,
    /// The size of all waiting operations, in bytes.
    pub max_waiting_bytes: usize,
    /// The time after which a group is sent although it is not full, if the input has nothing to read;
    /// [`Duration::MAX`] for no bound.
    pub max_wait: Duration,
    /// How requests are repeated, by the rules of [`Retrying`](table_core::adapter::Retrying); `None` if the store
    /// retries already.
    pub retry: Option<RetryPolicy>,
    /// Whether the first failed operation ends the reading of the input.
    pub stops_at_failure: bool,
    /// Whether entities that an index covers are written too, without a look at the manifest. For copies that bring
    /// the index entries along.
    pub writes_indexed: bool,
}

impl Default for BulkOptions {
    /// 16 requests in flight; 10,000 operations or 32 MiB wait for 5 seconds; default retries; no stop at a failure.
    fn default() -> Self {
        Self {
            concurrency: 16,
            max_waiting_operations: 10_000,
            max_waiting_bytes: 32 * 1024 * 1024,
            max_wait: Duration::from_secs(5),
            retry: Some(RetryPolicy::default()),
            stops_at_failure: false,
            writes_indexed: false,
        }
    }
}

impl BulkOptions {
    /// Sets the number of requests in flight, at least 1.
    #[must_use]
    pub fn with_concurrency(mut self, requests: usize) -> Self {
        self.concurrency = requests.max(1);
        self
    }

    /// Sets how many operations, and how many bytes of operations, may wait for their group to fill.
    ///
    /// Larger bounds make fuller groups if the input mixes many partitions.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use table_patterns::bulk::BulkOptions;
    /// // An endless input of 5,000 partitions: wait for up to 200,000 operations, and no operation longer than 2 seconds.
    /// let options = BulkOptions::default()
    ///     .with_max_waiting(200_000, 256 << 20)
    ///     .with_max_wait(Duration::from_secs(2));
    /// ```
    #[must_use]
    pub fn with_max_waiting(mut self, operations: usize, bytes: usize) -> Self {
        (self.max_waiting_operations, self.max_waiting_bytes) = (operations.max(1), bytes.max(1));
        self
    }

    /// Sets how long an operation waits for others while the input has nothing to read.
    ///
    /// Choose a shorter time if the input depends on outcomes, a longer time if requests cost more than delay.
    #[must_use]
    pub const fn with_max_wait(mut self, time: Duration) -> Self {
        self.max_wait = time;
        self
    }

    /// Sets the retry policy; `None` leaves retries to the store.
    #[must_use]
    pub fn with_retry(mut self, policy: Option<RetryPolicy>) -> Self {
        self.retry = policy;
        self
    }

    /// Stops reading the input after the first failure. Operations read before are still sent and reported.
    #[must_use]
    pub const fn stop_at_failure(mut self) -> Self {
        self.stops_at_failure = true;
        self
    }

    /// Writes entities that an index covers without maintaining their index entries, and reads no manifest.
    ///
    /// For copies that bring the index entries along, and for repairs that a scrub follows.
    #[must_use]
    pub const fn write_indexed(mut self) -> Self {
        self.writes_indexed = true;
        self
    }
}
