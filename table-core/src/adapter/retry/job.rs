use crate::model::{IfMatch, TableName};
use crate::store::{GroupTransaction, Operation, OperationKind, Result, TableStore, Written};

/// A write that is kept so that it can be sent again.
#[derive(Clone, Debug)]
pub(super) enum Job {
    CreateTable,
    DeleteTable,
    Write(Operation),
    Transact(GroupTransaction),
}

/// The effect of repeating a request that may have been applied, or may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// The request contains a condition on an ETag. ETags are never reused, and a group is atomic, so at most
    /// one attempt takes effect, whatever else the group contains.
    AtMostOnce,
    /// An insert takes effect twice if its entity is deleted in between.
    Insert,
    /// The last writer wins, as the caller requested: the repetition has the same effect later.
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
        // The first rule that fits decides: one ETag makes a whole group safe, whatever inserts it has.
        let any = |test: fn(&Operation) -> bool| self.operations().iter().any(test);
        if any(|operation| matches!(operation.if_match(), Some(IfMatch::Exactly(_)))) {
            Repeat::AtMostOnce
        } else if any(|operation| matches!(operation, Operation::Insert(_))) {
            Repeat::Insert
        } else {
            Repeat::LastWins
        }
    }

    /// Sends a copy. Returns a result per operation.
    pub(super) async fn send(&self, store: &impl TableStore, table: &TableName) -> Result<Vec<Written>> {
        match self {
            Self::CreateTable => store.create_table(table).await.map(|()| Vec::new()),
            Self::DeleteTable => store.delete_table(table).await.map(|()| Vec::new()),
            Self::Write(operation) => store.write(table, operation.clone()).await.map(|w| vec![w]),
            Self::Transact(group) => store.transact(table, group.clone()).await,
        }
    }
}
