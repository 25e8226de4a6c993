use std::time::Duration;

use table_core::adapter::RetryPolicy;

/// How much bulk work does at once, and how it retries.
///
/// ```
/// use table_patterns::bulk::BulkOptions;
/// let options = BulkOptions::default().with_parallelism(64).with_retry(None);
/// assert_eq!(options.parallelism, 64);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BulkOptions {
    /// Requests in flight.
    pub parallelism: usize,
    /// Operations that wait for others of their partition.
    pub waiting_operations: usize,
    /// Bytes of the operations that wait.
    pub waiting_bytes: usize,
    /// How long an operation waits, where the input is slower than that; [`Duration::MAX`] for as long as it takes.
    pub waiting_for: Duration,
    /// How requests are repeated, by the rules of [`Retrying`](table_core::adapter::Retrying); `None`
    /// where the store below retries already.
    pub retry: Option<RetryPolicy>,
    /// Whether nothing more is read after the first operation that failed.
    pub stops_at_failure: bool,
    /// Whether what indexes are of is written all the same, and no manifest read, as a copy that brings the
    /// entries along does.
    pub writes_indexed: bool,
}

impl Default for BulkOptions {
    /// 16 requests in flight, 10,000 operations or 32 MiB waiting for 5 seconds, the default retries, everything
    /// tried.
    fn default() -> Self {
        Self {
            parallelism: 16,
            waiting_operations: 10_000,
            waiting_bytes: 32 * 1024 * 1024,
            waiting_for: Duration::from_secs(5),
            retry: Some(RetryPolicy::default()),
            stops_at_failure: false,
            writes_indexed: false,
        }
    }
}

impl BulkOptions {
    /// Other requests in flight; at least 1.
    #[must_use]
    pub fn with_parallelism(mut self, requests: usize) -> Self {
        self.parallelism = requests.max(1);
        self
    }

    /// Other bounds on what waits for its group to fill. More of it makes fuller groups where many
    /// partitions come mixed.
    #[must_use]
    pub fn with_waiting(mut self, operations: usize, bytes: usize) -> Self {
        (self.waiting_operations, self.waiting_bytes) = (operations.max(1), bytes.max(1));
        self
    }

    /// Another bound on the time that an operation waits for others while the input has nothing to read: shorter
    /// where the input depends on outcomes, longer where requests are dearer than time.
    #[must_use]
    pub const fn with_waiting_for(mut self, time: Duration) -> Self {
        self.waiting_for = time;
        self
    }

    /// Another retry policy; `None` to leave it to the store below.
    #[must_use]
    pub fn with_retry(mut self, policy: Option<RetryPolicy>) -> Self {
        self.retry = policy;
        self
    }

    /// Reads no more of the input after the first failure. What was read is still written or refused,
    /// and reported.
    #[must_use]
    pub const fn stop_at_failure(mut self) -> Self {
        self.stops_at_failure = true;
        self
    }

    /// Writes what indexes are of without maintaining them, and reads no manifest: for copies that bring the entries
    /// along, and for repairs that a scrub follows.
    #[must_use]
    pub const fn write_indexed(mut self) -> Self {
        self.writes_indexed = true;
        self
    }
}
