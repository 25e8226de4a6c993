use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::TableName;
use crate::store::{GroupTransaction, Operation, TableStore};

/// A write that was held up on its way.
#[derive(Debug)]
pub(super) enum LateWrite {
    One(TableName, Operation),
    Group(TableName, GroupTransaction),
}

/// Writes that are still on their way, with the number of the request they precede.
#[derive(Debug, Default)]
pub(super) struct LateWrites(Mutex<Vec<(u64, LateWrite)>>);

impl LateWrites {
    pub(super) fn push(&self, due: u64, write: LateWrite) {
        self.lock().push((due, write));
    }

    /// Lets the writes that are due by `request` arrive; nobody waits for their answers.
    pub(super) async fn arrive(&self, request: u64, store: &impl TableStore) {
        let due: Vec<_> = self.lock().extract_if(.., |(due, _)| *due <= request).collect();
        for (_, write) in due {
            let _unseen = match write {
                LateWrite::One(table, operation) => store.write(&table, operation).await.map(drop),
                LateWrite::Group(table, group) => store.transact(&table, group).await.map(drop),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, LateWrite)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
