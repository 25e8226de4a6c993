use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::around::{Answer, Around, Call, impl_around};
use crate::model::TableName;
use crate::store::{Error, ErrorKind, OperationKind, Result, TableStore};

/// The lowest rate to which throttled answers lower a limit, in requests per second.
const FLOOR: f64 = 1.0;
/// The part of the limit by which the rate rises in each second without a throttled answer.
const RISE_PER_SECOND: f64 = 0.05;
/// The pause between two reductions. The requests that were in flight together are throttled together.
const REDUCTION_PAUSE: Duration = Duration::from_secs(1);

/// A limit of requests per second, shared by all stores that have a clone of it.
///
/// The rate adapts: a throttled answer (status 503 or 429) halves it, at most once a second, down to 1 request per
/// second. Each second without a throttled answer raises it by a twentieth of the limit.
///
/// ```
/// use table_core::adapter::{RateLimit, StoreBuilder};
/// use table_core::memory::MemoryStore;
/// let limit = RateLimit::per_second(500);
/// let store = StoreBuilder::new(MemoryStore::new()).rate(limit.clone()).build();
/// assert_eq!(limit.current(), 500.0);
/// ```
#[derive(Clone, Debug)]
pub struct RateLimit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Held by the request that is next; the others wait for it, in the order of their calls.
    head: tokio::sync::Mutex<()>,
    rate: Mutex<Rate>,
}

#[derive(Debug)]
struct Rate {
    /// The limit, in requests per second.
    limit: f64,
    /// The rate now, in requests per second.
    rate: f64,
    /// The earliest time of the next request; `None` before the first.
    next: Option<Instant>,
    /// The time of the last change of `rate`.
    changed: Option<Instant>,
    reduced: Option<Instant>,
}

impl RateLimit {
    /// Limits the requests per second; 0 counts as 1.
    pub fn per_second(requests: u32) -> Self {
        let limit = f64::from(requests.max(1));
        let rate = Rate {
            limit,
            rate: limit,
            next: None,
            changed: None,
            reduced: None,
        };
        Self(Arc::new(Shared {
            head: tokio::sync::Mutex::new(()),
            rate: Mutex::new(rate),
        }))
    }

    /// Returns the rate now, in requests per second: the limit, or less after throttled answers.
    pub fn current(&self) -> f64 {
        self.locked().rate
    }

    /// Waits until a request is due.
    ///
    /// A turn is taken when it is due and not before. If each call reserved its turn in advance, calls that give
    /// up waiting would leave their turns unused, and turns that were reserved at a reduced rate would stay far
    /// apart: the store would send nothing while the service is idle.
    async fn wait(&self) {
        let _head = self.0.head.lock().await;
        loop {
            let due = self.locked().take_due_turn(Instant::now());
            let Err(due) = due else { return };
            sleep_until(due).await;
        }
    }

    /// Adapts to the answer of a request.
    fn observe(&self, error: &Error) {
        if matches!(error.root().kind(), ErrorKind::Throttled { .. }) {
            self.locked().reduce(Instant::now());
        }
    }

    /// Takes a turn for a request that does not wait: the requests after it wait longer.
    pub(super) fn take_turn(&self) {
        self.locked().take_turn(Instant::now());
    }

    /// A panic with the lock held leaves the data consistent.
    fn locked(&self) -> MutexGuard<'_, Rate> {
        self.0.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rate {
    /// Takes the next turn if it is due.
    ///
    /// # Errors
    /// Returns when it will be due.
    fn take_due_turn(&mut self, now: Instant) -> std::result::Result<(), Instant> {
        if let Some(due) = self.next.filter(|next| *next > now) {
            return Err(due);
        }
        self.take_turn(now);
        Ok(())
    }

    /// Takes the next turn, and moves the turn after it.
    fn take_turn(&mut self, now: Instant) {
        // The rise is computed when the rate is used, so that no task has to run in between.
        if let Some(changed) = self.changed.filter(|_| self.rate < self.limit) {
            let rise = self.limit * RISE_PER_SECOND * now.duration_since(changed).as_secs_f64();
            self.rate = (self.rate + rise).min(self.limit);
            self.changed = Some(now);
        }
        let due = self.next.map_or(now, |next| next.max(now));
        self.next = Some(due + Duration::from_secs_f64(1.0 / self.rate));
    }

    fn reduce(&mut self, now: Instant) {
        if self
            .reduced
            .is_none_or(|reduced| now.duration_since(reduced) >= REDUCTION_PAUSE)
        {
            self.rate = (self.rate / 2.0).max(FLOOR);
            (self.reduced, self.changed) = (Some(now), Some(now));
        }
    }
}

/// A store that sends a limited number of requests per second; see [`RateLimit`].
///
/// Operations wait for their turn in the order of the calls. Put it above retries, as
/// [`StoreBuilder`](super::StoreBuilder) does: waiting then does not use up the time of an attempt, which would make a
/// write ambiguous that was never sent. The builder also places an observer below the retries, which lowers the rate.
/// Each retry, and each read that resolves an ambiguous write, takes a further turn. Costs no request.
#[derive(Debug)]
pub struct RateLimited<S> {
    store: S,
    limit: RateLimit,
    waits: bool,
    observes: bool,
}

impl<S: TableStore> RateLimited<S> {
    /// Limits the requests per second to `store`, which does not retry.
    pub fn new(store: S, limit: RateLimit) -> Self {
        Self {
            store,
            limit,
            waits: true,
            observes: true,
        }
    }

    /// Only waits: for the place above retries.
    pub(super) fn waiting(store: S, limit: RateLimit) -> Self {
        Self {
            store,
            limit,
            waits: true,
            observes: false,
        }
    }

    /// Only adapts the rate to answers: for the place below retries.
    pub(super) fn observing(store: S, limit: RateLimit) -> Self {
        Self {
            store,
            limit,
            waits: false,
            observes: true,
        }
    }
}

impl<S: TableStore> Around for RateLimited<S> {
    async fn around<T: Answer + Send>(
        &self,
        _call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.waits {
            self.limit.wait().await;
        }
        let answer = request.await;
        if let (true, Err(error)) = (self.observes, &answer) {
            self.limit.observe(error);
        }
        answer
    }
}

impl_around!(RateLimited);
