//! What upkeep did, and what is due.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use table_core::model::TableName;
use table_core::store::{Duplicate, Error};

use crate::index::{IndexState, ScrubReport};
use crate::journal::SweepReport;
use crate::large::Collected;

/// What an [`Upkeep`](super::Upkeep) has done since it began, and what is due.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UpkeepReport {
    /// The tables that it looks after.
    pub tables: BTreeMap<TableName, TableUpkeep>,
    /// The tables of [eventual](crate::eventual) transactions.
    pub transactions: BTreeMap<TableName, TransactionsUpkeep>,
    /// Tickets of writes that it has finished.
    pub tickets: usize,
    /// Tickets that are poisoned, up to 32, as the queue had them when it was last looked at: see
    /// [`Recovery::poison`](crate::journal::Recovery::poison).
    pub poisoned_tickets: usize,
    /// What was wrong with the queue when it was asked last.
    pub queue_error: Option<Error>,
}

/// What was done for a table of entities.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TableUpkeep {
    /// Whether a program has opened the table with indexes. Of any other nothing is to be kept.
    pub has_manifest: bool,
    /// Rounds that have ended.
    pub rounds: u64,
    /// Sweeps of writes that have ended.
    pub sweeps: u64,
    /// What the sweeps found, all together; [`left`](SweepReport::left) is the last one's.
    pub swept: SweepReport,
    /// The indexes of the manifest, by their ids.
    pub indexes: BTreeMap<String, IndexUpkeep>,
    /// The blobs of large values; `None` where the manifest names no type with such values.
    pub large: Option<LargeUpkeep>,
    /// What failed in the last round beside the indexes: the table could not be opened or swept, or its manifest not read.
    pub error: Option<Error>,
}

/// What was done for an index.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexUpkeep {
    /// The state in which it was last seen.
    pub state: IndexState,
    /// Builds that another process had begun, and that it has finished.
    pub built: usize,
    /// Removals that another process had begun, and that it has finished.
    pub dropped: usize,
    /// Scrubs that have ended.
    pub scrubs: usize,
    /// What they found, all together, those that did not end too.
    pub scrubbed: ScrubReport,
    /// Blobs of lists that it has removed, since nothing named them.
    pub blobs: usize,
    /// What somebody has to see to; also an index without it is due that is not readable.
    pub due: Option<Due>,
}

/// What was done for the blobs of large values of a table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LargeUpkeep {
    /// The types that have large values, as the manifest names them.
    pub types: BTreeSet<String>,
    /// Collections that have ended.
    pub collections: usize,
    /// What the collections found, all together, those that did not end too.
    pub collected: Collected,
    /// What an operator has to see to.
    pub due: Option<Due>,
}

/// What was done for a table of transactions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TransactionsUpkeep {
    /// Sweeps that have ended.
    pub sweeps: u64,
    /// Heads of finished transactions that were removed.
    pub removed: usize,
    /// Transactions whose last step was done here.
    pub applied: usize,
    /// Transactions that are poisoned, up to 32, as the queue had them when it was last looked at: see
    /// [`Coordinator::poison`](crate::eventual::Coordinator::poison).
    pub poisoned: usize,
    /// What failed when the table was swept last.
    pub error: Option<Error>,
    /// What was wrong with the queue of the transactions when it was asked last.
    pub queue_error: Option<Error>,
}

/// A part of a table that upkeep looks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part<'a> {
    /// An index, by its id.
    Index(&'a str, IndexState),
    /// The blobs of large values.
    Large,
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(id, state) => write!(f, "the index {id}, which is {state}"),
            Self::Large => f.write_str("the blobs of large values"),
        }
    }
}

/// Why upkeep does not do all that an index, or the blobs of a table, need.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Due {
    /// Its keys are made by the code of a program.
    Opaque,
    /// Its definition is of a newer format than this library reads.
    Newer {
        /// The format.
        format: i32,
    },
    /// The store of this process encrypts by a rule what the index would show.
    Encrypted,
    /// Its lists are in blobs, and this process has no store of blobs.
    NoBlobs,
    /// Large values of entities are in blobs, and this process has no store of these blobs.
    NoLargeBlobs,
    /// Another process builds it, or has done so less than a lease ago.
    BuiltElsewhere,
    /// Entities share values of the unique index: it is not readable until they are changed.
    Duplicates(Vec<Duplicate>),
    /// Entities whose entry's key another entity has, as the last scrub found them.
    Taken(usize),
    /// Entries are missing, as the last scrub found them, of entities that have an index as well which cannot be maintained here.
    NotRepaired(usize),
    /// It failed, and is tried again.
    Failed(Error),
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opaque => {
                f.write_str("its keys are made by Rust code: build and scrub it by a program that has it")
            }
            Self::Newer { format } => {
                write!(
                    f,
                    "its definition is of the format {format}: run upkeep by a newer version of this library"
                )
            }
            Self::Encrypted => f.write_str(
                "it would show what this process's store encrypts: drop it, or run upkeep without that rule",
            ),
            Self::NoBlobs => f.write_str("its lists are in blobs: give `IndexOptions::blobs` their store"),
            Self::NoLargeBlobs => f.write_str("large values are in blobs: give `Upkeep::blobs` their store"),
            Self::BuiltElsewhere => f.write_str("another process builds it: let it"),
            Self::Duplicates(duplicates) => write!(
                f,
                "entities share {} of its values: change or delete one of each, and the next round builds it",
                duplicates.len()
            ),
            Self::Taken(entities) => write!(
                f,
                "{entities} entities have the key of another one's entry: change them, or the templates of the index"
            ),
            Self::NotRepaired(entities) => write!(
                f,
                "{entities} entities are without entries, and have another index that cannot be maintained here: scrub it by a program that has both"
            ),
            Self::Failed(error) => write!(f, "it failed and is tried again: {error}"),
        }
    }
}

impl IndexUpkeep {
    fn is_due(&self) -> bool {
        self.state != IndexState::Absent && (self.due.is_some() || self.state != IndexState::Readable)
    }

    pub(super) fn new(state: IndexState) -> Self {
        let (built, dropped, scrubs, blobs) = (0, 0, 0, 0);
        Self { state, built, dropped, scrubs, scrubbed: ScrubReport::default(), blobs, due: None }
    }

    pub(super) fn add(&mut self, found: &ScrubReport) {
        self.scrubbed.entries += found.entries;
        self.scrubbed.dangling += found.dangling;
        self.scrubbed.entities += found.entities;
        self.scrubbed.missing += found.missing;
        self.scrubbed.taken += found.taken;
    }
}

impl TableUpkeep {
    pub(super) fn add(&mut self, swept: SweepReport) {
        self.sweeps += 1;
        self.swept.applied += swept.applied;
        self.swept.left = swept.left;
        self.swept.aborts_removed += swept.aborts_removed;
        self.swept.released += swept.released;
        self.swept.moves_given_up += swept.moves_given_up;
    }
}

impl UpkeepReport {
    /// What an operator has to see to: indexes that are not readable, and indexes and blobs with a reason.
    pub fn due(&self) -> impl Iterator<Item = (&TableName, Part<'_>, Option<&Due>)> {
        let indexes = self.tables.iter().flat_map(|(table, kept)| {
            let indexes = kept.indexes.iter().filter(|(_, index)| index.is_due());
            indexes.map(move |(id, index)| (table, Part::Index(id, index.state), index.due.as_ref()))
        });
        let large = self.tables.iter().filter_map(|(table, kept)| {
            let due = kept.large.as_ref()?.due.as_ref()?;
            Some((table, Part::Large, Some(due)))
        });
        indexes.chain(large)
    }

    /// The errors of tables, transactions and the queue. Those of indexes and blobs are [due](Self::due).
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        let tables = self.tables.values().filter_map(|table| table.error.as_ref());
        let transactions = self.transactions.values();
        let transactions = transactions.flat_map(|kept| kept.error.iter().chain(&kept.queue_error));
        tables.chain(transactions).chain(&self.queue_error)
    }
}
