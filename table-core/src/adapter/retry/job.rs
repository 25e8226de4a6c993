use crate::model::{IfMatch, TableName};
use crate::store::{GroupTransaction, Operation, OperationKind, Result, TableStore, Written};

/// A request that changes something, kept so that it can be sent again.
#[derive(Clone, Debug)]
pub(super) enum Job {
    CreateTable,
    DeleteTable,
    Write(Operation),
    Transact(GroupTransaction),
}

/// What repeating a request does that may have been applied, or may still be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// A condition on an ETag is in it. ETags are never used again and a group happens wholly or
    /// not at all, so one attempt at most takes effect, whatever else is in the group.
    AtMostOnce,
    /// An insert takes effect twice if its entity is deleted in between.
    Insert,
    /// The last writer wins, as the caller asked: the effect of the repetition is the same, later.
    LastWins,
}

impl Job {
    pub(super) const fn kind(&self) -> OperationKind {
        match self {
            Self::CreateTable => OperationKind::CreateTable,
            Self::DeleteTable => OperationKind::DeleteTable,
            Self::Write(operation) => operation.kind(),
            Self::Transact(_) => OperationKind::Transact,
        }
    }

    pub(super) fn operations(&self) -> &[Operation] {
        match self {
            Self::CreateTable | Self::DeleteTable => &[],
            Self::Write(operation) => std::slice::from_ref(operation),
            Self::Transact(group) => group.operations(),
        }
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operation] {
        match self {
            Self::CreateTable | Self::DeleteTable => &mut [],
            Self::Write(operation) => std::slice::from_mut(operation),
            Self::Transact(group) => group.operations_mut(),
        }
    }

    pub(super) fn repeat(&self) -> Repeat {
        let any = |test: fn(&Operation) -> bool| self.operations().iter().any(test);
        if any(|operation| matches!(operation.if_match(), Some(IfMatch::Exactly(_)))) {
            Repeat::AtMostOnce
        } else if any(|operation| matches!(operation, Operation::Insert(_))) {
            Repeat::Insert
        } else {
            Repeat::LastWins
        }
    }

    /// Sends a copy; an answer for each operation.
    pub(super) async fn send(&self, store: &impl TableStore, table: &TableName) -> Result<Vec<Written>> {
        match self {
            Self::CreateTable => store.create_table(table).await.map(|()| Vec::new()),
            Self::DeleteTable => store.delete_table(table).await.map(|()| Vec::new()),
            Self::Write(operation) => store.write(table, operation.clone()).await.map(|w| vec![w]),
            Self::Transact(group) => store.transact(table, group.clone()).await,
        }
    }
}
