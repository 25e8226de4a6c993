use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::around::{Around, impl_around};
use super::call::{Answer, Call};
use crate::model::TableName;
use crate::store::{OperationKind, Result, TableStore};

/// How long a request that could go on, and is not polled, keeps its place from those that wait.
const PATIENCE: Duration = Duration::from_millis(100);

/// A store that works on a bounded number of operations at once; the others wait for their turn,
/// first come, first served.
///
/// Put it above retries: an operation that backs off keeps its place, so that the load goes down
/// while a service is busy, and waiting for a place does not use up the time of an attempt, which
/// would make a write ambiguous that was never sent. Costs no request.
///
/// A request is driven by whoever asked for it. One that is left alone, as the page that a stream reads ahead while
/// its consumer waits for a place to write, would keep its place for ever: after a tenth of a second in which it could
/// have gone on, it is counted no longer when another waits.
///
/// ```
/// use table_core::adapter::Limited;
/// use table_core::memory::MemoryStore;
/// let store = Limited::new(MemoryStore::new(), 32);
/// ```
#[derive(Debug)]
pub struct Limited<S> {
    store: S,
    places: Arc<Semaphore>,
    held: Mutex<Vec<Weak<Place>>>,
}

impl<S: TableStore> Limited<S> {
    /// Bounds the operations in flight on `store`; 0 counts as 1.
    pub fn new(store: S, in_flight: usize) -> Self {
        let places = Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS));
        Self { store, places: Arc::new(places), held: Mutex::default() }
    }
}

impl<S> Limited<S> {
    /// Waits for a place.
    async fn admit(&self) -> Admitted {
        let permit = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => self.queue().await,
        };
        let place = Arc::new(Place { permit: Mutex::new(permit), ..Place::default() });
        let mut held = locked(&self.held);
        if held.len() == held.capacity() {
            held.retain(|place| place.strong_count() > 0);
        }
        held.push(Arc::downgrade(&place));
        Admitted(place)
    }

    /// Waits in turn. The semaphore is never closed.
    async fn queue(&self) -> Option<OwnedSemaphorePermit> {
        let mut turn = pin!(Arc::clone(&self.places).acquire_owned());
        loop {
            match timeout(PATIENCE, &mut turn).await {
                Ok(permit) => return permit.ok(),
                Err(_) => self.take_back(),
            }
        }
    }

    /// Gives the places of those to others that could have gone on for a while, and did not.
    fn take_back(&self) {
        let alone = |place: &Weak<Place>| place.upgrade().filter(|place| place.is_left_alone());
        let alone: Vec<_> = locked(&self.held).iter().filter_map(alone).collect();
        alone.iter().for_each(|place| place.give_back());
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

/// Holds a place as long as the request is there. Wakers of the request may live longer.
struct Admitted(Arc<Place>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// The place of a request.
#[derive(Debug, Default)]
struct Place {
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// Since when the request could go on; none while it waits for something.
    ready: Mutex<Option<Instant>>,
    task: AtomicWaker,
}

impl Place {
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        request: impl FnOnce(&mut Context<'_>) -> Poll<T>,
        waker: &Waker,
    ) -> Poll<T> {
        self.task.register(cx.waker());
        *locked(&self.ready) = None;
        request(&mut Context::from_waker(waker))
    }

    fn give_back(&self) {
        drop(locked(&self.permit).take());
    }

    fn is_left_alone(&self) -> bool {
        locked(&self.ready).is_some_and(|since| since.elapsed() >= PATIENCE)
    }
}

impl Wake for Place {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        locked(&self.ready).get_or_insert_with(Instant::now);
        self.task.wake();
    }
}

/// Whoever panicked with the lock left nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl_around!(Limited);
