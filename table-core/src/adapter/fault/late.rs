use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::TableName;
use crate::store::{GroupTransaction, LocalPermit, Operation, TableStore};

/// A delayed write.
#[derive(Debug)]
pub(super) enum LateWrite {
    One(TableName, Operation),
    Group(TableName, GroupTransaction),
}

/// A write, the number of the request that it precedes, and the permit that marks it as in progress.
type Due = (u64, LateWrite, Option<LocalPermit>);

/// Writes that have not taken effect yet.
#[derive(Debug, Default)]
pub(super) struct LateWrites(Mutex<Vec<Due>>);

impl LateWrites {
    pub(super) fn push(&self, due: u64, write: LateWrite, permit: Option<LocalPermit>) {
        self.lock().push((due, write, permit));
    }

    /// Executes the writes that are due before `request`. Their results are dropped.
    pub(super) async fn arrive(&self, request: u64, store: &impl TableStore) {
        let due: Vec<_> = self.lock().extract_if(.., |(due, ..)| *due <= request).collect();
        for (_, write, _permit) in due {
            let _unseen = match write {
                LateWrite::One(table, operation) => store.write(&table, operation).await.map(drop),
                LateWrite::Group(table, group) => store.transact(&table, group).await.map(drop),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Due>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
