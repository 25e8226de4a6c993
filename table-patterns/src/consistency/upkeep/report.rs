//! What upkeep did, and what is due.

use std::collections::BTreeMap;
use std::fmt;

use table_core::model::TableName;
use table_core::store::{Duplicate, Error};

use crate::index::{IndexState, ScrubReport};
use crate::journal::SweepReport;

/// What an [`Upkeep`](super::Upkeep) has done since it began, and what is due.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UpkeepReport {
    /// The tables that it looks after.
    pub tables: BTreeMap<TableName, TableUpkeep>,
    /// The tables of [eventual](crate::eventual) transactions.
    pub transactions: BTreeMap<TableName, HeadsUpkeep>,
    /// Tickets of writes that it has finished.
    pub tickets: usize,
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

/// What was done for a table of transactions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HeadsUpkeep {
    /// Sweeps that have ended.
    pub sweeps: u64,
    /// Heads of finished transactions that were removed.
    pub removed: usize,
    /// What failed when it was swept last.
    pub error: Option<Error>,
}

/// Why upkeep does not do all that an index needs.
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
    /// The indexes that somebody has to see to: those that are not readable, and those with a reason.
    pub fn due(&self) -> impl Iterator<Item = (&TableName, &str, &IndexUpkeep)> {
        let all = self.tables.iter().flat_map(|(table, kept)| {
            kept.indexes.iter().map(move |(id, index)| (table, id.as_str(), index))
        });
        all.filter(|(_, _, index)| {
            let is_there = index.state != IndexState::Absent;
            is_there && (index.due.is_some() || index.state != IndexState::Readable)
        })
    }

    /// The errors of tables, transactions and the queue. Those of indexes are [due](Self::due).
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        let tables = self.tables.values().filter_map(|table| table.error.as_ref());
        let heads = self.transactions.values().filter_map(|heads| heads.error.as_ref());
        tables.chain(heads).chain(&self.queue_error)
    }
}
