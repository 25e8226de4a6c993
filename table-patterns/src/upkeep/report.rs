//! The report of an upkeep: finished work, errors, and work that is due.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use table_core::model::{Key, TableName};
use table_core::store::{Duplicate, Error, ErrorKind};

use crate::index::{IndexState, ScrubReport};
use crate::journal::SweepReport;
#[cfg(feature = "blobs")]
use crate::large::Collected;

/// The work that an [`Upkeep`](super::Upkeep) has done since its start, and the work that is due.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct UpkeepReport {
    /// The tables with entities.
    pub tables: BTreeMap<TableName, TableUpkeep>,
    /// The tables of [eventual](crate::eventual) transactions.
    pub transactions: BTreeMap<TableName, TransactionsUpkeep>,
    /// The number of tickets whose writes were finished.
    pub tickets: usize,
    /// Tickets that are poisoned, up to 32, as the queue had them when it was last looked at: see
    /// [`Recovery::poison`](crate::journal::Recovery::poison).
    pub poisoned_tickets: usize,
    /// The error of the last request to the queue.
    pub queue_error: Option<Error>,
}

/// The work for a table of entities.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct TableUpkeep {
    /// Whether a program has opened the table with indexes. In other tables upkeep only removes due entities and collects blobs.
    pub has_manifest: bool,
    /// Finished rounds.
    pub rounds: u64,
    /// Finished sweeps of the journal.
    pub sweeps: u64,
    /// The sum of all sweeps; [`left`](SweepReport::left) and the failures are those of the last sweep.
    pub swept: SweepReport,
    /// The rows of unfinished writes that the last sweep could not finish, up to 100, with the reasons.
    pub unfinished: Vec<(Key, Due)>,
    /// The indexes of the manifest, by their ids.
    pub indexes: BTreeMap<String, IndexUpkeep>,
    /// The blobs of large values; `None` where the manifest names no type with such values.
    pub large: Option<LargeUpkeep>,
    /// The removal of expired entities; `None` where the manifest names no type that expires.
    pub expiry: Option<ExpiryUpkeep>,
    /// The error of the last round, without errors of indexes: the table could not be opened or swept, or its manifest could not be read.
    pub error: Option<Error>,
}

/// The work for an index.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct IndexUpkeep {
    /// The last known state.
    pub state: IndexState,
    /// Finished builds that another process had started.
    pub built: usize,
    /// Finished drops that another process had started.
    pub dropped: usize,
    /// Finished scrubs.
    pub scrubs: usize,
    /// The sum of all scrubs, including unfinished ones.
    pub scrubbed: ScrubReport,
    /// Removed blobs that no list named.
    pub blobs: usize,
    /// The reason why an operator must act. An index that is not readable is due even without a reason.
    pub due: Option<Due>,
}

/// The work for the blobs of large values of a table.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct LargeUpkeep {
    /// The types that have large values, as the manifest names them.
    pub types: BTreeSet<String>,
    /// Finished collections.
    pub collections: usize,
    /// The sum of all collections, including unfinished ones.
    #[cfg(feature = "blobs")]
    pub collected: Collected,
    /// The reason why an operator must act.
    pub due: Option<Due>,
}

/// The removal of entities that have expired, or were deleted and kept long enough.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct ExpiryUpkeep {
    /// The types that expire, as the manifest names them.
    pub types: BTreeSet<String>,
    /// Finished sweeps.
    pub sweeps: usize,
    /// The number of removed entities.
    pub removed: u64,
    /// The number of entities that could not be removed, of all sweeps: the next sweep tries again.
    pub failed: u64,
    /// The reason why an operator must act.
    pub due: Option<Due>,
}

/// The work for a table of transactions.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct TransactionsUpkeep {
    /// Finished sweeps.
    pub sweeps: u64,
    /// Removed records of finished transactions.
    pub removed: usize,
    /// Transactions whose last step this process has done.
    pub applied: usize,
    /// Transactions that are poisoned, up to 32, as the queue had them when it was last looked at: see
    /// [`Coordinator::poison`](crate::eventual::Coordinator::poison).
    pub poisoned: usize,
    /// The error of the last sweep.
    pub error: Option<Error>,
    /// The error of the last request to the queue of the transactions.
    pub queue_error: Option<Error>,
}

/// A part of a table that needs upkeep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part<'a> {
    /// An index, by its id.
    Index(&'a str, IndexState),
    /// The blobs of large values.
    Large,
    /// The removal of expired entities.
    Expiry,
    /// The row of a write that is not finished.
    Write(&'a Key),
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(id, state) => write!(f, "the index {id}, which is {state}"),
            Self::Large => f.write_str("the blobs of large values"),
            Self::Expiry => f.write_str("the removal of expired entities"),
            Self::Write(key) => write!(f, "the unfinished write of the row {key}"),
        }
    }
}

/// The reason why upkeep cannot maintain an index or the blobs of a table, or remove its due entities.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Due {
    /// Rust code of a program makes the keys of the index.
    Opaque,
    /// The definition has a newer format than this library reads.
    Newer {
        /// The format.
        format: i32,
    },
    /// The store of this process encrypts a property that the index would store in plaintext.
    Encrypted,
    /// The lists of the index are in blobs, and this process has no blob store.
    NoBlobs,
    /// Large values are in blobs, and this process does not have their blob store.
    NoLargeBlobs,
    /// Large values are encrypted, and the store of this process has no keys: a row may name a blob that this process cannot read.
    NoKeys,
    /// Another process builds the index, or did so less than a lease ago.
    BuiltElsewhere,
    /// Entities have the same value of the unique index. The index becomes readable after they are changed.
    Duplicates(Vec<Duplicate>),
    /// The number of entities whose entry key another entity has, from the last scrub.
    Taken(usize),
    /// The number of entities with missing entries, from the last scrub, that also have an index that this process cannot maintain.
    NotRepaired(usize),
    /// The row is damaged: no round can use it.
    Damaged(Error),
    /// Expiries, as `Type=Property`, that the manifest has and [`Upkeep::trust_expiry`](super::Upkeep::trust_expiry) does not name.
    UntrustedExpiry(Vec<String>),
    /// The work failed; the next round tries again.
    Failed(Error),
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opaque => {
                f.write_str("Rust code makes its keys: build and scrub the index by the program that declares it")
            }
            Self::Newer { format } => {
                write!(
                    f,
                    "its definition has the format {format}: run upkeep by a newer version of this library"
                )
            }
            Self::Encrypted => f.write_str(
                "the index would store in plaintext what the store of this process encrypts: drop the index, or run upkeep without that rule",
            ),
            Self::NoBlobs => f.write_str("its lists are in blobs: give `IndexOptions::blobs` their store (feature `blobs` of table-patterns)"),
            Self::NoLargeBlobs => f.write_str("large values are in blobs: give `Upkeep::blobs` their store (feature `blobs` of table-patterns)"),
            Self::NoKeys => f.write_str("large values are encrypted, and their blobs cannot be found without keys: run upkeep with the store that encrypts them"),
            Self::BuiltElsewhere => f.write_str("another process builds the index: wait for it"),
            Self::Duplicates(duplicates) => write!(
                f,
                "two entities have the same value, for {} values: change or delete one entity of each pair, and the next round builds the index; \
                 or drop the index, because until then entities get no new value in it",
                duplicates.len()
            ),
            Self::Taken(entities) => write!(
                f,
                "the entries of {entities} entities have the key of another entity's entry: change these entities, or the key templates of the index"
            ),
            Self::NotRepaired(entities) => write!(
                f,
                "{entities} entities are without entries, and have another index that cannot be maintained here: scrub it by a program that has both"
            ),
            Self::Damaged(error) => write!(
                f,
                "{error}; no program of this library writes such a row: find out who did, delete the row, and scrub the indexes of the table"
            ),
            Self::UntrustedExpiry(named) => write!(
                f,
                "no expired entity is removed by {}: whoever may add rows to the table can have added this to its manifest; if it is right, say so \
                 by `tables upkeep --trust-expiry TYPE=PROPERTY` or `Upkeep::trust_expiry`",
                named.join(", ")
            ),
            Self::Failed(error) => write!(f, "the work failed, and the next round tries again: {error}"),
        }
    }
}

impl IndexUpkeep {
    fn is_due(&self) -> bool {
        // An index that was removed needs nothing, whatever was due before.
        self.state != IndexState::Absent
            && (self.due.is_some() || self.state != IndexState::Readable)
    }

    pub(super) fn new(state: IndexState) -> Self {
        let (built, dropped, scrubs, blobs) = (0, 0, 0, 0);
        Self {
            state,
            built,
            dropped,
            scrubs,
            scrubbed: ScrubReport::default(),
            blobs,
            due: None,
        }
    }

    pub(super) fn add(&mut self, found: &ScrubReport) {
        self.scrubbed.entries += found.entries;
        self.scrubbed.dangling += found.dangling;
        self.scrubbed.entities += found.entities;
        self.scrubbed.missing += found.missing;
        self.scrubbed.taken_keys += found.taken_keys;
    }
}

impl TableUpkeep {
    pub(super) fn add(&mut self, swept: SweepReport) {
        self.sweeps += 1;
        self.swept.applied += swept.applied;
        // Not a sum: a write that was left is counted by each sweep until it is finished.
        self.swept.left = swept.left;
        self.swept.failed = swept.failed;
        let due = |error: &Error| match error.root().kind() {
            ErrorKind::Decode(_) => Due::Damaged(error.clone()),
            _ => Due::Failed(error.clone()),
        };
        self.unfinished = swept
            .failures
            .iter()
            .map(|(key, error)| (key.clone(), due(error)))
            .collect();
        self.swept.failures = swept.failures;
        self.swept.aborts_removed += swept.aborts_removed;
        self.swept.released += swept.released;
        self.swept.moves_given_up += swept.moves_given_up;
        self.swept.collisions += swept.collisions;
        self.swept.collided.extend(swept.collided);
        self.swept.collided.truncate(SweepReport::LISTED);
    }
}

impl UpkeepReport {
    /// The work for an operator: indexes that are not readable, and indexes, blobs, removals and unfinished writes with a reason.
    /// An index without a reason (`None`) is one that upkeep still builds.
    pub fn due(&self) -> impl Iterator<Item = (&TableName, Part<'_>, Option<&Due>)> {
        let indexes = self.tables.iter().flat_map(|(table, kept)| {
            let indexes = kept.indexes.iter().filter(|(_, index)| index.is_due());
            indexes
                .map(move |(id, index)| (table, Part::Index(id, index.state), index.due.as_ref()))
        });
        let large = self.tables.iter().filter_map(|(table, kept)| {
            let due = kept.large.as_ref()?.due.as_ref()?;
            Some((table, Part::Large, Some(due)))
        });
        let expiry = self.tables.iter().filter_map(|(table, kept)| {
            let due = kept.expiry.as_ref()?.due.as_ref()?;
            Some((table, Part::Expiry, Some(due)))
        });
        let writes = self.tables.iter().flat_map(|(table, kept)| {
            kept.unfinished
                .iter()
                .map(move |(key, due)| (table, Part::Write(key), Some(due)))
        });
        indexes.chain(large).chain(expiry).chain(writes)
    }

    /// The errors of tables, transactions and the queue. Errors of indexes and blobs are [due](Self::due).
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        let tables = self
            .tables
            .values()
            .filter_map(|table| table.error.as_ref());
        let transactions = self.transactions.values();
        let transactions = transactions.flat_map(|kept| kept.error.iter().chain(&kept.queue_error));
        tables.chain(transactions).chain(&self.queue_error)
    }
}
