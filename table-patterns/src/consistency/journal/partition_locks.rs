//! Locks of partitions, for the writers of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use table_core::model::PartitionKey;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

type Lock = tokio::sync::Mutex<()>;
/// The lock of a partition; dropping it unlocks the partition.
pub(super) type PartitionLock = OwnedMutexGuard<()>;

/// Locks of partitions with shared rows. Without a lock, all but one of the concurrent writers of a process would
/// fail at the ETag of the row. Writers in other processes still meet there.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionLocks(Arc<Mutex<HashMap<PartitionKey, Weak<Lock>>>>);

impl PartitionLocks {
    /// Waits for the lock, in the order of calls, for at most `longest`. The lock only saves requests; a holder whose
    /// future is not polled must not stop the other writers.
    pub(super) async fn lock(&self, partition: &PartitionKey, longest: Duration) -> Option<PartitionLock> {
        timeout(longest, self.of(partition).lock_owned()).await.ok()
    }

    fn of(&self, partition: &PartitionKey) -> Arc<Lock> {
        let mut partition_locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = partition_locks.get(partition).and_then(Weak::upgrade) {
            return lock;
        }
        // A lock without a holder goes when another one is made, so that the map does not grow with the
        // number of partitions that were ever written.
        partition_locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Lock::default());
        partition_locks.insert(partition.clone(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_dropped_guard_unlocks_and_the_lock_is_removed() {
        let (partition_locks, sales) = (PartitionLocks::default(), PartitionKey::new("Sales").unwrap());
        let first = partition_locks.lock(&sales, LONG).await;
        let others = PartitionKey::new("Others").unwrap();
        drop(partition_locks.lock(&others, LONG).await);
        assert!(partition_locks.of(&sales).try_lock().is_err());
        assert!(partition_locks.lock(&sales, LONG).await.is_none(), "the wait ends after a second");
        drop(first);
        assert!(partition_locks.of(&sales).try_lock().is_ok());
        drop(partition_locks.lock(&others, LONG).await);
        assert_eq!(partition_locks.0.lock().unwrap().len(), 1);
    }
}
