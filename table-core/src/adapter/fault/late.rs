use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::TableName;
use crate::store::{GroupTransaction, LocalPermit, Operation, TableStore};

/// A write that was held up on its way.
#[derive(Debug)]
pub(super) enum LateWrite {
    One(TableName, Operation),
    Group(TableName, GroupTransaction),
}

/// A write, with the number of the request it precedes, and what says that it is under way.
type Due = (u64, LateWrite, Option<LocalPermit>);

/// Writes that are still on their way.
#[derive(Debug, Default)]
pub(super) struct LateWrites(Mutex<Vec<Due>>);

impl LateWrites {
    pub(super) fn push(&self, due: u64, write: LateWrite, permit: Option<LocalPermit>) {
        self.lock().push((due, write, permit));
    }

    /// Lets the writes that are due by `request` arrive; nobody waits for their answers.
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
