use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::around::{Answer, Around, Call, impl_around};
use crate::model::TableName;
use crate::store::{OperationKind, Result, TableStore};

/// How long a request that could continue but is not polled keeps its permit from waiting requests.
const IDLE_LIMIT: Duration = Duration::from_millis(100);

/// A store that executes a limited number of operations at once. Further operations wait in order.
///
/// Put it above retries. Then an operation keeps its permit while it backs off, so the load on a busy service
/// decreases. And waiting for a permit does not use up the time of an attempt, which would make a write
/// ambiguous that was never sent. Costs no request.
///
/// The caller polls its own request. A request that is no longer polled would keep its permit forever, for
/// example a page that a stream reads ahead while its consumer waits for a permit to write. Therefore a
/// request that could have continued for a tenth of a second loses its permit when another request waits.
///
/// ```
/// use table_core::adapter::Limited;
/// use table_core::memory::MemoryStore;
/// let store = Limited::new(MemoryStore::new(), 32);
/// ```
#[derive(Debug)]
pub struct Limited<S> {
    store: S,
    permits: Arc<Semaphore>,
    /// The permits of all requests, from which idle permits are taken.
    in_flight: Mutex<Vec<Weak<RequestPermit>>>,
}

impl<S: TableStore> Limited<S> {
    /// Limits the operations in flight on `store`; 0 counts as 1.
    pub fn new(store: S, in_flight: usize) -> Self {
        let permits = Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS));
        Self {
            store,
            permits: Arc::new(permits),
            in_flight: Mutex::default(),
        }
    }
}

impl<S> Limited<S> {
    /// Waits for a permit, and registers the request that uses it.
    async fn admit(&self) -> Admitted {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => self.queue().await,
        };
        let request = Arc::new(RequestPermit {
            permit: Mutex::new(permit),
            ..RequestPermit::default()
        });
        let mut in_flight = locked(&self.in_flight);
        // Removes finished requests only when the list would grow.
        if in_flight.len() == in_flight.capacity() {
            in_flight.retain(|request| request.strong_count() > 0);
        }
        in_flight.push(Arc::downgrade(&request));
        Admitted(request)
    }

    /// Waits for a permit, in the order of the calls. The semaphore is never closed.
    async fn queue(&self) -> Option<OwnedSemaphorePermit> {
        let mut permit = pin!(Arc::clone(&self.permits).acquire_owned());
        loop {
            // No event says that a request is not polled any more, so the waiting requests look for idle ones from
            // time to time. They keep their place in the order.
            match timeout(IDLE_LIMIT, &mut permit).await {
                Ok(permit) => return permit.ok(),
                Err(_) => self.take_idle_permits(),
            }
        }
    }

    /// Takes the permits of requests that could have continued for some time but were not polled.
    fn take_idle_permits(&self) {
        let idle =
            |request: &Weak<RequestPermit>| request.upgrade().filter(|request| request.is_idle());
        let idle: Vec<_> = locked(&self.in_flight).iter().filter_map(idle).collect();
        // An idle request goes on without a permit when it is polled again. For that time the limit is exceeded; the
        // alternative is a deadlock.
        idle.iter().for_each(|request| request.release());
    }
}

impl<S: TableStore> Around for Limited<S> {
    async fn around<T: Answer + Send>(
        &self,
        _call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let admitted = self.admit().await;
        let waker = Waker::from(Arc::clone(&admitted.0));
        let mut request = pin!(request);
        poll_fn(|cx| admitted.0.poll(cx, |cx| request.as_mut().poll(cx), &waker)).await
    }
}

/// Keeps a permit as long as the request exists. Wakers of the request may live longer.
struct Admitted(Arc<RequestPermit>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The permit of a request. It is the request's waker too, so that it knows since when the request could continue.
#[derive(Debug, Default)]
struct RequestPermit {
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// The time since which the request could continue; `None` while it waits.
    ready: Mutex<Option<Instant>>,
    task: AtomicWaker,
}

impl RequestPermit {
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        request: impl FnOnce(&mut Context<'_>) -> Poll<T>,
        waker: &Waker,
    ) -> Poll<T> {
        // Before the poll: the request may be woken on another thread while it is polled, and the wake-up must find
        // this task. The order of the next two statements keeps the time of such a wake-up.
        self.task.register(cx.waker());
        *locked(&self.ready) = None;
        request(&mut Context::from_waker(waker))
    }

    fn release(&self) {
        drop(locked(&self.permit).take());
    }

    fn is_idle(&self) -> bool {
        locked(&self.ready).is_some_and(|since| since.elapsed() >= IDLE_LIMIT)
    }
}

impl Wake for RequestPermit {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        locked(&self.ready).get_or_insert_with(Instant::now);
        self.task.wake();
    }
}

/// A panic with the lock held leaves the data consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl_around!(Limited);
