//! The state that the writes of a journal and its clones share in one process: locks of partitions, and background tasks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use table_core::model::PartitionKey;
use table_core::store::LocalWriters;
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio::time::timeout;

type Lock = tokio::sync::Mutex<()>;
/// The lock of a partition; dropping it unlocks the partition.
pub(super) type PartitionLock = OwnedMutexGuard<()>;

/// Locks of partitions with shared rows. Without a lock, all but one of the concurrent writers of a process would
/// fail at the ETag of the row. Writers in other processes still meet there.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionLocks(Arc<Mutex<HashMap<PartitionKey, Weak<Lock>>>>);

impl PartitionLocks {
    /// Waits for the lock, in the order of calls; `None` after `longest`. The caller then writes without the lock: the lock only saves
    /// requests, and a holder whose future is not polled must not stop the other writers.
    pub(super) async fn lock(
        &self,
        partition: &PartitionKey,
        longest: Duration,
    ) -> Option<PartitionLock> {
        timeout(longest, self.lock_of(partition).lock_owned())
            .await
            .ok()
    }

    fn lock_of(&self, partition: &PartitionKey) -> Arc<Lock> {
        let mut partition_locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = partition_locks.get(partition).and_then(Weak::upgrade) {
            return lock;
        }
        // Removes the locks that nobody holds, so that the map does not grow with the number of partitions that were ever written.
        partition_locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Lock::default());
        partition_locks.insert(partition.clone(), Arc::downgrade(&lock));
        lock
    }
}

/// The largest number of background tasks of a journal and its clones.
const MAX_BACKGROUND_TASKS: u32 = 64;

/// The tasks that clear or hand over writes after their answers ([`Clearing::AfterAnswer`](super::Clearing)).
#[derive(Clone, Debug)]
pub(super) struct BackgroundTasks {
    slots: Arc<Semaphore>,
}

impl Default for BackgroundTasks {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_BACKGROUND_TASKS as usize)),
        }
    }
}

impl BackgroundTasks {
    /// Runs `work` in the background. Runs it in the caller if there is no runtime or all slots are taken. The work is registered with
    /// `writers`, so that a local store does not close before the work ends.
    pub(super) async fn run(
        &self,
        writers: Option<Arc<LocalWriters>>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        match (
            Handle::try_current(),
            Arc::clone(&self.slots).try_acquire_owned(),
        ) {
            (Ok(runtime), Ok(slot)) => {
                // Before the spawn: a close of the store between the two would not wait for the work.
                let registered = writers.map(|writers| writers.follow_up());
                drop(runtime.spawn(async move {
                    work.await;
                    drop((slot, registered));
                }));
            }
            _ => work.await,
        }
    }

    /// Waits until no task is running. The wait takes all slots, so callers run work that begins meanwhile themselves.
    pub(super) async fn wait(&self) {
        drop(self.slots.acquire_many(MAX_BACKGROUND_TASKS).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_dropped_guard_unlocks_and_the_lock_is_removed() {
        let (partition_locks, sales) = (
            PartitionLocks::default(),
            PartitionKey::new("Sales").unwrap(),
        );
        let first = partition_locks.lock(&sales, LONG).await;
        let others = PartitionKey::new("Others").unwrap();
        drop(partition_locks.lock(&others, LONG).await);
        assert!(partition_locks.lock_of(&sales).try_lock().is_err());
        assert!(
            partition_locks.lock(&sales, LONG).await.is_none(),
            "the wait ends after a second"
        );
        drop(first);
        assert!(partition_locks.lock_of(&sales).try_lock().is_ok());
        drop(partition_locks.lock(&others, LONG).await);
        assert_eq!(partition_locks.0.lock().unwrap().len(), 1);
    }
}
