//! The rules of the protocol that look as if they could be left out. Tests leave each out and show what
//! goes wrong; elsewhere all of them hold.

use super::Journal;

/// A rule that a test can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The ticket is queued before anything is reserved or committed.
    TicketFirst,
    /// The entity is read again, and its entries are written again if it changed.
    Recheck,
    /// The evidence is cleared after the entries are written.
    ApplyBeforeClear,
    /// The journal row goes before the ticket.
    RowBeforeTicket,
    /// A write without a journal row is given up by an abort row.
    AbortAbsent,
    /// A journal row has one applier at a time.
    OneApplier,
    /// A journal row is watched for the lease that it names.
    LeaseOfTheRow,
    /// An entry elsewhere is changed or removed only where it is the entity's own.
    OwnEntries,
    /// While an index is built, an entry beside the entity is changed or removed only where it is the entity's own.
    LookBeside,
    /// A touched key is brought into step by what its index is now.
    ByDefinition,
    /// What an applier has sent is dropped before its lease ends.
    CutOff,
    /// A unique row is read before its entity.
    RowThenEntity,
    /// A pending row is left to its own write.
    PendingToItsWrite,
    /// A pending row of another write is settled or removed only by an applier, and after that write was given up.
    AbortBeforeSettling,
    /// A round of writes rests on one version of each entity, also where it was interrupted.
    OneVersion,
    /// What a ticket names is reserved while the ticket is certainly there.
    ReserveInLease,
    /// A group that changes nothing in a row holds only if the row is as it was read.
    ConditionOnUnchanged,
    /// A list, summary or copy is written in the version that was read.
    SharedInVersion,
    /// A blob stays whose row may still come to name it.
    DoubtKeepsBlobs,
    /// The blob that a list named is deleted after the list names another.
    RowBeforeBlob,
    /// A group that names a new blob is dropped before the lease ends.
    BlobInLease,
    /// A reservation is taken over only after its write was given up.
    AbortBeforeTakeOver,
    /// A reservation of another write of the same entity is adopted only after that was given up.
    AbortBeforeAdopting,
    /// The source of a move is marked before its values are kept for it.
    MarkSource,
    /// A value that an entity keeps while it is moved is paired before the move commits.
    PairValue,
    /// A writer of a marked entity gives the move up, or finishes it, first.
    GiveUpMoves,
    /// A write that timed out is looked for only while nobody else may have finished it.
    FindOutInLease,
    /// The abort row by which it is looked for is dropped before the lease ends.
    FindOutCutOff,
    /// A commit that rests on reservations, or on a ticket, is dropped before the lease ends.
    CommitInLease,
    /// An abort row stays until no writer can commit any more that it stopped.
    AbortRowsStay,
    /// Entities whose versions are not known are read before their entries are written.
    KnownVersions,
    /// An answer in doubt keeps the evidence.
    DoubtKeepsEvidence,
    /// Nothing is written by states of indexes that are older than their cache may be.
    FreshStates,
    /// A change of an index's state waits until no writer goes by the one before.
    WaitForWriters,
    /// A process reads states only while its registration is recent, and writes that first where it is not.
    RegisterFirst,
    /// A change of an index's state waits for the processes that are registered.
    WaitForRegistered,
    /// A registration counts as gone only after it was seen unchanged for as long as its process may act by it.
    WatchWhole,
    /// There is one builder at a time: who was silent for a lease adds nothing more.
    OneBuilder,
    /// A builder reads a window again, for what changed before its entries were written.
    ReadWindowAgain,
    /// A builder waits for writers that had no entry to remove before it removes what dangles.
    SettleDrafts,
    /// A builder ends by removing what dangles.
    DanglingLast,
    /// A scrubber deletes an entry in the version that it judged.
    ScrubInVersion,
    /// A scrubber adds what is missing by the journal.
    AddByJournal,
    /// Who drops an index deletes its entries in the versions that were read.
    DropInVersion,
    /// A piece of a stored plan is dropped before the lease of its submitter ends.
    PieceCutOff,
}

/// Which rules hold: all, unless a test breaks one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    #[cfg(test)]
    pub(crate) broken: Option<Rule>,
}

impl Rules {
    /// Whether a rule holds.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests ask")]
    pub(crate) const fn keep(self, _rule: Rule) -> bool {
        true
    }

    #[cfg(test)]
    pub(crate) fn keep(self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }
}

impl Journal {
    /// Whether a rule holds.
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.rules.keep(rule)
    }

    /// A journal that breaks a rule.
    #[cfg(test)]
    pub(crate) const fn breaking(mut self, rule: Rule) -> Self {
        self.rules = Rules { broken: Some(rule) };
        self
    }
}
