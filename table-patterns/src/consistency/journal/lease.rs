use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use table_core::store::{Error, ErrorKind, Outcome, Result};
use tokio::time::{Instant, timeout_at};

/// The durations that the protocol rests on. Clocks measure them; no two are compared.
///
/// The life of a request has two parts. The *client's* is kept here: what is sent is dropped when it is
/// over, whatever the store and the adapters in front of it (retries, limits) are doing with it. The
/// *server's* begins then at the latest: after it the service has done, or given up, what it received.
///
/// Processes may differ in these durations: each journal row names the lease of its applier, and the
/// manifest of an indexed table the longest durations that any process has opened it with. Only those of
/// [eventual](crate::eventual) transactions are the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    client: Duration,
    server: Duration,
}

impl Timing {
    /// A lease, and the two parts of the longest life of a request.
    ///
    /// # Errors
    /// The lease is not at least four times as long as a request.
    pub fn new(lease: Duration, client: Duration, server: Duration) -> Result<Self> {
        let request = client.saturating_add(server);
        if lease < request.saturating_mul(4) {
            let reason = format!("a lease of {lease:?} must be at least four requests of {request:?}");
            return Err(Error::invalid_request(reason));
        }
        Ok(Self { lease, client, server })
    }

    /// For how long a writer or worker may apply a journal row.
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// After which time a request is dropped here.
    pub const fn client(&self) -> Duration {
        self.client
    }

    /// For how long a request that was dropped here can still take effect.
    pub const fn server(&self) -> Duration {
        self.server
    }

    /// The longest life of a request.
    pub const fn request(&self) -> Duration {
        self.client.saturating_add(self.server)
    }

    /// The error of a request that was dropped: it may still take effect.
    pub(crate) fn cut_off(&self) -> Error {
        Error::from(ErrorKind::Timeout { after: self.client }).with_outcome(Outcome::Ambiguous)
    }
}

impl Default for Timing {
    /// Leases of 5 minutes, requests of 60 seconds: 30 for the client, and the 30 that the table
    /// service gives an operation
    /// (<https://learn.microsoft.com/rest/api/storageservices/setting-timeouts-for-table-service-operations>).
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease: seconds(300), client: seconds(30), server: seconds(30) }
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
        let cut_off = Instant::now() + (timing.lease - timing.server);
        Self { last_send: cut_off - timing.client, cut_off, sending: timing.lease - timing.request() }
    }

    /// Whether a request sent now ends within the lease, however long it lives.
    pub(crate) fn may_send(&self) -> bool {
        Instant::now() <= self.last_send
    }

    /// When half of the time in which requests may be sent is over: the moment to renew it.
    pub(crate) fn half(&self) -> Instant {
        self.last_send - self.sending / 2
    }

    /// Whether it is to be renewed.
    pub(crate) fn is_half_over(&self) -> bool {
        Instant::now() >= self.half()
    }

    /// Until when requests may be sent.
    pub(crate) const fn last_send(&self) -> Instant {
        self.last_send
    }

    /// From when on nothing may leave that was sent in time.
    pub(crate) const fn cut_off(&self) -> Instant {
        self.cut_off
    }
}

/// Does work until a moment. Then it is dropped and never polled again, even where the process slept beyond
/// the moment: nothing that it would send leaves later. `None` if it was not done.
pub(crate) async fn before<T>(moment: Instant, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let guarded = poll_fn(|context| {
        if Instant::now() > moment {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    });
    timeout_at(moment, guarded).await.ok().flatten()
}
