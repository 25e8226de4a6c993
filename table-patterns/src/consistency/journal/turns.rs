//! Turns of the writers of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use table_core::model::PartitionKey;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

type Lock = tokio::sync::Mutex<()>;
/// A turn, until it is dropped.
pub(super) type Turn = OwnedMutexGuard<()>;

/// Writers of a partition's shared rows take turns: where they meet at the ETag of a row, all but one have
/// read and sent in vain. Writers in other processes still meet there.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<PartitionKey, Weak<Lock>>>>);

impl Turns {
    /// Waits for the turn, in the order of asking, and so long at most: it only saves requests, and one whose
    /// future nobody polls would hold up all the others.
    pub(super) async fn take(&self, partition: &PartitionKey, longest: Duration) -> Option<Turn> {
        timeout(longest, self.of(partition).lock_owned()).await.ok()
    }

    fn of(&self, partition: &PartitionKey) -> Arc<Lock> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(partition).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Lock::default());
        turns.insert(partition.clone(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_turn_ends_with_its_guard_and_is_then_forgotten() {
        let (turns, sales) = (Turns::default(), PartitionKey::new("Sales").unwrap());
        let first = turns.take(&sales, LONG).await;
        let others = PartitionKey::new("Others").unwrap();
        drop(turns.take(&others, LONG).await);
        assert!(turns.of(&sales).try_lock().is_err());
        assert!(turns.take(&sales, LONG).await.is_none(), "it is not waited for without end");
        drop(first);
        assert!(turns.of(&sales).try_lock().is_ok());
        drop(turns.take(&others, LONG).await);
        assert_eq!(turns.0.lock().unwrap().len(), 1);
    }
}
