//! What follows the answer of a write: its journal row and its ticket are cleared, or the write is handed over.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// When the journal row and the ticket of a write are cleared, or a write that is [left to workers](super::Acknowledge::Committed) is
/// handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clearing {
    /// Before the answer: 1 round trip more, and with a queue 2 more.
    #[default]
    BeforeAnswer,
    /// After the answer, in background tasks of the runtime, at most 64 at a time for a handle and its clones. While that many are
    /// under way, writes clear before they answer. [`flush`](super::Journal::flush) waits for the tasks.
    ///
    /// Flush before the program ends, and before the store is closed. What a program does not clear, because it crashed or did not
    /// flush, a worker or a sweep clears: it applies the entries once more, which changes nothing.
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
    /// Runs work in the background; at once, if too much work is under way.
    pub(super) async fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        match (Handle::try_current(), Arc::clone(&self.slots).try_acquire_owned()) {
            (Ok(runtime), Ok(slot)) => drop(runtime.spawn(async move {
                work.await;
                drop(slot);
            })),
            _ => work.await,
        }
    }

    /// Waits until no work is under way. Work that is begun in the meantime is done at once.
    pub(super) async fn wait(&self) {
        drop(self.slots.acquire_many(MOST).await);
    }
}
