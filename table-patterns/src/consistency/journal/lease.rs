//! Durations of the protocol, leases, and work that ends with a lease.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use table_core::store::{Error, ErrorKind, Outcome, Result};
use tokio::time::{Instant, timeout_at};

/// The longest lease of a process, and the longest time for which it caches the states of indexes. Rows say for how long other processes
/// wait, and any client of a table can write rows: so a row with a longer time is damage, and nobody waits for it.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(3600);

/// The durations of the protocol. Each process measures them with its own clock.
///
/// The life of a request has two parts. At the end of the *client's* part this process drops the request, whatever the store and its
/// adapters (retries, limits) do with it. At the end of the *server's* part the service has finished or dropped the request.
///
/// Processes may use different durations: each journal row names the lease of its applier, and the manifest of an indexed table has
/// the longest durations of all processes that have opened it. Only the durations of [eventual](crate::eventual) transactions must
/// be equal in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    client: Duration,
    server: Duration,
}

impl Timing {
    /// A timing with a lease and the client's and the server's part of the longest life of a request.
    ///
    /// # Errors
    /// The lease is shorter than four times the life of a request, or longer than one hour.
    pub fn new(lease: Duration, client: Duration, server: Duration) -> Result<Self> {
        let request = client.saturating_add(server);
        if lease < request.saturating_mul(4) {
            let reason = format!(
                "the lease of {lease:?} is shorter than four times the longest life of a request, {request:?}: raise the lease"
            );
            return Err(Error::invalid_argument(reason));
        }
        if lease > LONGEST_LEASE {
            return Err(Error::invalid_argument(format!(
                "the lease of {lease:?} is longer than {LONGEST_LEASE:?}, and no process waits longer for another: lower the lease"
            )));
        }
        Ok(Self {
            lease,
            client,
            server,
        })
    }

    /// The time for which a writer or a worker may apply a journal row.
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// The time after which this process drops a request.
    pub const fn client(&self) -> Duration {
        self.client
    }

    /// The time for which a dropped request can still take effect.
    pub const fn server(&self) -> Duration {
        self.server
    }

    /// The longest life of a request.
    pub const fn request(&self) -> Duration {
        self.client.saturating_add(self.server)
    }

    /// Runs a request, or requests, until a moment. Work that is not done by then is dropped, and its outcome is ambiguous.
    pub(crate) async fn until<T>(
        &self,
        moment: Instant,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        before(moment, work)
            .await
            .unwrap_or_else(|| Err(self.cut_off_error()))
    }

    /// The error of a dropped request, whose outcome is ambiguous.
    pub(crate) fn cut_off_error(&self) -> Error {
        Error::from(ErrorKind::Timeout { after: self.client }).with_outcome(Outcome::Ambiguous)
    }
}

impl Default for Timing {
    /// Leases of 5 minutes, requests of 60 seconds: 30 for the client, and the 30 that the table
    /// service gives an operation
    /// (<https://learn.microsoft.com/rest/api/storageservices/setting-timeouts-for-table-service-operations>).
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            lease: seconds(300),
            client: seconds(30),
            server: seconds(30),
        }
    }
}

/// The right to apply one journal row, or to build an index, until it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    last_send: Instant,
    cut_off: Instant,
    /// For how long requests may be sent, from the start on.
    sending: Duration,
}

impl Lease {
    /// A lease that starts now.
    pub(crate) fn start(timing: Timing) -> Self {
        // A request that is dropped at `cut_off` may take effect for the server's part of its life: not after
        // the lease. One that is sent by `last_send` ends, or is dropped, by `cut_off`.
        let cut_off = Instant::now() + (timing.lease - timing.server);
        Self {
            last_send: cut_off - timing.client,
            cut_off,
            sending: timing.lease - timing.request(),
        }
    }

    /// Whether a request that is sent now ends within the lease, even after its longest life.
    pub(crate) fn may_send(&self) -> bool {
        Instant::now() <= self.last_send
    }

    /// The middle of the time in which requests may be sent: the time to renew the lease.
    pub(crate) fn half(&self) -> Instant {
        self.last_send - self.sending / 2
    }

    /// Whether the lease should be renewed.
    pub(crate) fn is_half_over(&self) -> bool {
        Instant::now() >= self.half()
    }

    /// The end of the time in which requests may be sent.
    pub(crate) const fn last_send(&self) -> Instant {
        self.last_send
    }

    /// The time at which a request that was sent in time is dropped.
    pub(crate) const fn cut_off(&self) -> Instant {
        self.cut_off
    }
}

/// Runs work until a moment, then drops it. Returns `None` if the work was not finished.
///
/// The work is never polled after the moment, even if the process was paused beyond it: a late poll could send a request after the
/// lease.
pub(crate) async fn before<T>(moment: Instant, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let guarded = poll_fn(|context| {
        if Instant::now() > moment {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    });
    // Both are needed: Tokio's timeout polls its future before it looks at the time, and the check in
    // `guarded` alone would not wake the task at the moment.
    timeout_at(moment, guarded).await.ok().flatten()
}
