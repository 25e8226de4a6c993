use tokio::sync::Semaphore;

use super::around::{Around, impl_around};
use super::call::{Answer, Call};
use crate::model::TableName;
use crate::store::{OperationKind, Result, TableStore};

/// A store that works on a bounded number of operations at once; the others wait for their turn,
/// first come, first served.
///
/// Put it above retries: an operation that backs off keeps its place, so that the load goes down
/// while a service is busy, and waiting for a place does not use up the time of an attempt, which
/// would make a write ambiguous that was never sent. Costs no request.
///
/// ```
/// use table_core::adapter::Limited;
/// use table_core::memory::MemoryStore;
/// let store = Limited::new(MemoryStore::new(), 32);
/// ```
#[derive(Debug)]
pub struct Limited<S> {
    store: S,
    places: Semaphore,
}

impl<S: TableStore> Limited<S> {
    /// Bounds the operations in flight on `store`; 0 counts as 1.
    pub fn new(store: S, in_flight: usize) -> Self {
        Self { store, places: Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS)) }
    }
}

impl<S: TableStore> Around for Limited<S> {
    async fn around<T: Answer + Send>(
        &self,
        _call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        // The semaphore is never closed: acquiring does not fail.
        let _place = self.places.acquire().await;
        request.await
    }
}

impl_around!(Limited);
