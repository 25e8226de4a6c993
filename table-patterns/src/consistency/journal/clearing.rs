//! What follows the answer of a write: its journal row and its ticket are cleared, or the write is handed over.

use std::sync::Arc;

use table_core::store::LocalWriters;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// When the journal row and the ticket of a write are cleared, or a write that is [left to workers](super::Acknowledge::Committed) is
/// handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clearing {
    /// Before the answer: 1 round trip more, and with a queue 2 more. For programs that look at the rows of a table right after a write,
    /// or that end without a [`flush`](super::Journal::flush).
    BeforeAnswer,
    /// After the answer, in background tasks of the runtime, at most 64 at a time for a handle and its clones. While that many are
    /// under way, writes clear before they answer. [`flush`](super::Journal::flush) waits for the tasks.
    ///
    /// Flush before the program ends. The `close` of an embedded store waits for the tasks too, for 10 seconds at most. What a program does
    /// not clear, because it crashed or ended without either, it leaves to recovery: the entries are applied already, and a worker or a
    /// sweep applies them once more, which changes nothing, and deletes the rows. Until then the rows stay in the table; no read of
    /// entities returns them.
    #[default]
    AfterAnswer,
}

/// The greatest number of background tasks.
const MOST: u32 = 64;

/// The background tasks of a handle and its clones.
#[derive(Clone, Debug)]
pub(super) struct BackgroundTasks {
    slots: Arc<Semaphore>,
}

impl Default for BackgroundTasks {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(MOST as usize)) }
    }
}

impl BackgroundTasks {
    /// Runs work in the background; at once, if too much work is under way. The register of a local store knows of the work, so that the
    /// store does not close before its end.
    pub(super) async fn run(
        &self,
        writers: Option<Arc<LocalWriters>>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        // Without a runtime, and while all slots are taken, the caller does the work itself.
        match (Handle::try_current(), Arc::clone(&self.slots).try_acquire_owned()) {
            (Ok(runtime), Ok(slot)) => {
                // Registered before the task is spawned: a close of the store in between would not wait for
                // it.
                let registered = writers.map(|writers| writers.follow_up());
                drop(runtime.spawn(async move {
                    work.await;
                    drop((slot, registered));
                }));
            }
            _ => work.await,
        }
    }

    /// Waits until no work is under way. Work that is begun in the meantime is done at once.
    pub(super) async fn wait(&self) {
        drop(self.slots.acquire_many(MOST).await);
    }
}
