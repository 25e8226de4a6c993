use std::time::Duration;

use table_core::store::{Error, Result};
use tokio::time::Instant;

/// The durations that the protocol rests on. Clocks measure them; no two are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    request: Duration,
}

impl Timing {
    /// A lease, and the longest life of a request: the client's time-out plus the time after which
    /// the server gives up what it received.
    ///
    /// # Errors
    /// The lease is not at least four times as long as a request.
    pub fn new(lease: Duration, request: Duration) -> Result<Self> {
        if lease < request * 4 {
            let reason = format!("a lease of {lease:?} must be at least four requests of {request:?}");
            return Err(Error::invalid_request(reason));
        }
        Ok(Self { lease, request })
    }

    /// For how long a writer or worker may apply a journal row.
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// The longest life of a request.
    pub const fn request(&self) -> Duration {
        self.request
    }
}

impl Default for Timing {
    /// Leases of 5 minutes, requests of 60 seconds: 30 for the client, and the 30 that the table
    /// service gives an operation
    /// (<https://learn.microsoft.com/rest/api/storageservices/setting-timeouts-for-table-service-operations>).
    fn default() -> Self {
        Self { lease: Duration::from_secs(300), request: Duration::from_secs(60) }
    }
}

/// The right to apply one journal row, or to build an index, until it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    last_send: Instant,
}

impl Lease {
    /// A lease that starts now.
    pub(crate) fn start(timing: Timing) -> Self {
        Self { last_send: Instant::now() + (timing.lease - timing.request) }
    }

    /// Whether a request sent now ends within the lease, however long it lives.
    pub(crate) fn may_send(&self) -> bool {
        Instant::now() <= self.last_send
    }
}
