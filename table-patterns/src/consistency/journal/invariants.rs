//! The invariants of the protocols, by name. `docs/protocol.md` explains them.
//!
//! Production code enforces every invariant: [`Invariants::enforces`] is a constant there, and the compiler removes the other branch. Tests
//! leave one invariant out and show which violation follows (`docs/proof.md`).

use super::Journal;

/// An invariant that a test can leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invariant {
    /// The ticket is sent before any reservation and before the commit.
    TicketFirst,
    /// The entity is read again after its entries are written; if it has changed, they are written again.
    Recheck,
    /// The journal row is deleted after the entries are written.
    ApplyBeforeClear,
    /// The journal row is deleted before the ticket.
    RowBeforeTicket,
    /// A worker that finds no journal row inserts an abort row.
    AbortAbsent,
    /// A journal row has one applier at a time.
    OneApplier,
    /// A journal row is watched for the lease that it names.
    LeaseOfTheRow,
    /// A remote entry is changed or removed only if it belongs to the entity.
    OwnEntries,
    /// While an index is built, a local entry is changed or removed only if it belongs to the entity.
    LookBeside,
    /// An affected key is written as the current definition of its index says.
    ByDefinition,
    /// An applier's request is dropped before its lease ends.
    CutOff,
    /// A unique row is read before its entity.
    RowThenEntity,
    /// A pending unique row belongs to its write.
    PendingToItsWrite,
    /// Only an applier settles or removes the pending row of another write, after that write was given up.
    AbortBeforeSettling,
    /// A round of writes uses one version of each entity, also after an interruption.
    OneVersion,
    /// A unique key is reserved within the lease of the ticket.
    ReserveInLease,
    /// A group that depends on an unchanged row has a condition on that row.
    ConditionOnUnchanged,
    /// A list, summary or copy is written under the ETag that was read.
    SharedInVersion,
    /// After an ambiguous outcome a blob stays whose row may name it.
    DoubtKeepsBlobs,
    /// The old blob of a list is deleted after the list names the new one.
    RowBeforeBlob,
    /// A group that names a new blob is dropped before the lease ends.
    BlobInLease,
    /// A reservation is taken over only after its write was given up.
    AbortBeforeTakeOver,
    /// A reservation by another write of the same entity is replaced only after that write was given up.
    AbortBeforeAdopting,
    /// The source of a move is marked before its values are paired.
    MarkSource,
    /// A value that an entity keeps during a move is paired before the commit.
    PairValue,
    /// A writer of a marked entity first gives the move up or finishes it.
    GiveUpMoves,
    /// A lost commit is looked for only within the lease, before another process may have finished the write.
    FindOutInLease,
    /// The abort row that decides about a lost commit is dropped before the lease ends.
    FindOutCutOff,
    /// A commit with reservations or with a ticket is dropped before the lease ends.
    CommitInLease,
    /// An abort row stays until the writer that it has stopped can no longer commit.
    AbortRowsStay,
    /// Entities with unknown versions are read before their entries are written.
    KnownVersions,
    /// After an ambiguous outcome the journal row stays.
    DoubtKeepsEvidence,
    /// No process writes by expired index states.
    FreshStates,
    /// A change of an index state waits until no writer uses the state before the last one.
    WaitForWriters,
    /// A process whose registration may have expired registers again before it reads index states.
    RegisterFirst,
    /// A change of an index state waits for all registered processes.
    WaitForRegistered,
    /// A registration expires only after it was watched unchanged for as long as its process may use it.
    WatchWhole,
    /// The build of a type's first index waits until no program can write plain rows of the type.
    WaitForPlainWriters,
    /// An index has one builder at a time: a builder that was silent for a lease writes nothing more.
    OneBuilder,
    /// A build reads a window of entities again after it has written their entries.
    ReadWindowAgain,
    /// A build waits for writes that had no entry to remove, before it removes dangling entries.
    SettleDrafts,
    /// A build ends with the removal of dangling entries.
    DanglingLast,
    /// A scrub deletes an entry in the version that it has compared.
    ScrubInVersion,
    /// A scrub adds missing entries by the journal.
    AddByJournal,
    /// A drop deletes entries in the versions that it has read.
    DropInVersion,
    /// A piece of a stored plan is dropped before its submitter's lease ends.
    PieceCutOff,
}

/// The enforced invariants: all of them, unless a test leaves one out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Invariants {
    #[cfg(test)]
    pub(crate) omitted: Option<Invariant>,
}

impl Invariants {
    /// Whether an invariant is enforced: always, outside of tests.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests leave an invariant out")]
    pub(crate) const fn enforces(self, _invariant: Invariant) -> bool {
        true
    }

    #[cfg(test)]
    pub(crate) fn enforces(self, invariant: Invariant) -> bool {
        self.omitted != Some(invariant)
    }
}

impl Journal {
    /// Whether an invariant is enforced: always, outside of tests.
    pub(crate) fn enforces(&self, invariant: Invariant) -> bool {
        self.invariants.enforces(invariant)
    }

    /// A journal that leaves an invariant out.
    #[cfg(test)]
    pub(crate) const fn without_invariant(mut self, invariant: Invariant) -> Self {
        self.invariants = Invariants { omitted: Some(invariant) };
        self
    }
}
