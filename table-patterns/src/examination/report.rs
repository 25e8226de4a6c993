//! The report of an examination.

use std::collections::BTreeMap;
use std::fmt;

use table_core::model::{Key, TableName};

use super::WriteTimes;
use crate::index::ScrubReport;

/// The maximal number of keys that a finding names.
const MAX_EXAMPLES: usize = 10;
/// The maximal number of findings.
const MAX_FINDINGS: usize = 1000;

/// What an [`Examination`](super::Examination) has found in a table.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct TableExamination {
    /// Whether every row was read; otherwise the report is of the rows before a damaged page.
    pub is_complete: bool,
    /// Rows that were read.
    pub rows: u64,
    /// Rows that are entities of programs.
    pub entities: u64,
    /// Rows that are index entries.
    pub index_entries: u64,
    /// System rows: manifest, journals, queues.
    pub system_rows: u64,
    /// Rows of writes that are not finished, also of young ones.
    pub unfinished: u64,
    /// The sizes of the rows by the service's formula, in bytes.
    pub bytes: u64,
    /// The number of rows by size, smallest first.
    pub sizes: Vec<SizeCount>,
    /// The partitions.
    pub partitions: PartitionSizes,
    /// The entity types by name; the empty name is of entities that do not show their type.
    pub types: BTreeMap<String, TypeRows>,
    /// The times of the last writes of rows.
    pub writes: WriteTimes,
    /// The indexes that were compared, by their ids.
    pub compared: BTreeMap<String, ScrubReport>,
    /// The indexes whose entries leave the partition of their entity, by their ids: the other table, or `None` for other partitions
    /// of the table. A write of an entity with a right to one partition or table writes such rows too.
    pub leaving: BTreeMap<String, Option<TableName>>,
    /// The problems, damage first.
    pub findings: Vec<Finding>,
}

/// The number of rows with a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SizeCount {
    /// The rows have fewer bytes than this power of two, and at least half of it.
    pub below: u64,
    /// The number of rows.
    pub rows: u64,
}

/// The sizes of the partitions of a table, without the partitions of system rows.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct PartitionSizes {
    /// The number of partitions.
    pub count: u64,
    /// Whether every row was counted. A service without order ([`KeyOrder::Unsorted`](table_core::store::KeyOrder::Unsorted)) mixes
    /// partitions; only the first 100,000 are counted there.
    pub is_complete: bool,
    /// The 20 partitions with the most rows, largest first.
    pub largest: Vec<PartitionSize>,
    /// The 20 partitions with the greatest product of `written_last_day` and `busiest_second` (at least 1), greatest first.
    pub busiest: Vec<PartitionSize>,
    /// The number of partitions by rows: below 2, 4, 8, ….
    pub by_rows: Vec<(u64, u64)>,
    /// Rows that were last written in the day before the examination.
    pub written_last_day: u64,
}

/// The size of a partition.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct PartitionSize {
    /// The PartitionKey.
    pub partition: String,
    /// Rows.
    pub rows: u64,
    /// The sizes of the rows by the service's formula, in bytes.
    pub bytes: u64,
    /// Rows that were last written in the day before the examination.
    pub written_last_day: u64,
    /// The most rows that were last written in one second of that day; zero where the service does not sort.
    pub busiest_second: u64,
}

/// The entities of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TypeRows {
    /// The number of entities.
    pub rows: u64,
    /// The number of entities by schema version.
    pub versions: BTreeMap<i32, u64>,
}

/// A problem of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// Rows that the store cannot read or decrypt.
    Unreadable,
    /// Rows that have a property name twice. Stores refuse to write them, so an earlier release has written them.
    RepeatedProperty,
    /// Rows of the library's own that no program of the library can have written.
    DamagedRow,
    /// Plaintext of a property that the manifest or other rows have encrypted.
    Plaintext,
    /// Blobs of large values that are missing.
    MissingBlob,
    /// Index entries without their entity.
    DanglingEntries,
    /// Entities without their index entry.
    MissingEntries,
    /// Entities whose entry's key belongs to another entity.
    TakenEntries,
    /// Rows of writes that were not finished.
    UnfinishedWrite,
    /// Messages and transactions that were set aside after too many failures.
    Poisoned,
    /// Rows of the manifest that are damaged, or disagree with what they define.
    RefusedRow,
    /// An index definition whose entries would be in another table, which has not consented.
    NotInForce,
    /// An index that is not readable.
    UnfinishedIndex,
    /// An index whose entries could not be compared.
    NotCompared,
    /// A partition that takes more writes than a partition of the service can.
    HotPartition,
    /// Entities and values near a limit of the service.
    NearLimit,
    /// A property with values of several types in entities of one type.
    MixedTypes,
    /// Entities of an earlier schema version than the latest.
    OldVersion,
}

/// How bad a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Data is wrong, missing or exposed.
    Damage,
    /// The data is right, and may become a problem.
    Advice,
}

impl Problem {
    /// Returns how bad the problem is.
    pub const fn severity(self) -> Severity {
        match self {
            Self::Unreadable
            | Self::RepeatedProperty
            | Self::DamagedRow
            | Self::Plaintext
            | Self::MissingBlob
            | Self::DanglingEntries
            | Self::MissingEntries
            | Self::TakenEntries
            | Self::UnfinishedWrite
            | Self::Poisoned
            | Self::RefusedRow => Severity::Damage,
            Self::NotInForce
            | Self::UnfinishedIndex
            | Self::NotCompared
            | Self::HotPartition
            | Self::NearLimit
            | Self::MixedTypes
            | Self::OldVersion => Severity::Advice,
        }
    }

    /// Returns what to do.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Unreadable => {
                "restore the rows from a backup, or give the keys that encrypted them"
            }
            Self::RepeatedProperty => {
                "write the entities again with one value of the property: readers take the first, and no store accepts both"
            }
            Self::DamagedRow => {
                "find out who wrote the rows, delete them, and scrub the indexes of the table"
            }
            Self::Plaintext => {
                "encrypt the values by a migration, and look for the program that wrote them"
            }
            Self::MissingBlob => "restore the blobs from a backup",
            Self::DanglingEntries | Self::MissingEntries => "repair the index by a scrub",
            Self::TakenEntries => {
                "change these entities, or the key templates of the index; or drop the index"
            }
            Self::UnfinishedWrite => "run upkeep, which finishes them",
            Self::Poisoned => "mend what made them fail, then send them again or delete them",
            Self::RefusedRow => {
                "find who wrote the row, then remove it: `tables index STORE TABLE drop` takes its RowKey"
            }
            Self::NotInForce => {
                "find who wrote the definition, then drop it, or give the consent by `tables index STORE TABLE trust` and build it"
            }
            Self::UnfinishedIndex => {
                "continue its build or its removal by upkeep; until a unique index is built, entities get no new value in it: drop it if its build finds duplicates"
            }
            Self::NotCompared => "scrub the index by a program that can",
            Self::HotPartition => "spread the entities over several PartitionKeys",
            Self::NearLimit => {
                "store large values in blobs, or as wide entities, before a write is refused"
            }
            Self::MixedTypes => {
                "find the program that writes the other type: filters compare one type only"
            }
            Self::OldVersion => {
                "upgrade the entities, so that programs need not read the old shape"
            }
        }
    }
}

/// What the problem is, in a few words.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "unreadable rows",
            Self::RepeatedProperty => "a property twice",
            Self::DamagedRow => "damaged system rows",
            Self::Plaintext => "plaintext of an encrypted property",
            Self::MissingBlob => "missing blobs",
            Self::DanglingEntries => "dangling entries",
            Self::MissingEntries => "missing entries",
            Self::TakenEntries => "taken keys",
            Self::UnfinishedWrite => "unfinished writes",
            Self::Poisoned => "poison messages",
            Self::RefusedRow => "rows of the manifest that say nothing",
            Self::NotInForce => "a definition without the consent of the other table",
            Self::UnfinishedIndex => "an index that is not readable",
            Self::NotCompared => "an index that was not compared",
            Self::HotPartition => "a hot partition",
            Self::NearLimit => "near a limit",
            Self::MixedTypes => "mixed types",
            Self::OldVersion => "an earlier schema version",
        })
    }
}

/// A problem, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The problem.
    pub problem: Problem,
    /// What has the problem, such as a property or an index.
    pub subject: String,
    /// The number of rows, entries or messages; at least 1.
    pub count: u64,
    /// The first of these rows, up to 10.
    pub examples: Vec<Key>,
}

/// Findings by problem and subject. A table with made-up property names does not fill the memory.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<(Problem, String), (u64, Vec<Key>)>);

impl Findings {
    /// Adds a row to a finding.
    pub(super) fn add(&mut self, problem: Problem, subject: &str, example: Option<&Key>) {
        self.add_with(problem, subject, 1, example);
    }

    /// Adds several rows to a finding.
    pub(super) fn add_many(&mut self, problem: Problem, subject: &str, count: u64) {
        self.add_with(problem, subject, count, None);
    }

    pub(super) fn add_with<'k>(
        &mut self,
        problem: Problem,
        subject: &str,
        count: u64,
        examples: impl IntoIterator<Item = &'k Key>,
    ) {
        // Subjects come from the data, for example the names of properties. So that the memory is bounded, further subjects of a problem
        // are one finding.
        let is_full = self.0.len() >= MAX_FINDINGS;
        let mut key = (problem, subject.to_owned());
        if is_full && !self.0.contains_key(&key) {
            key.1 = "others".to_owned();
        }
        let (sum, named) = self.0.entry(key).or_default();
        *sum += count;
        let room = MAX_EXAMPLES.saturating_sub(named.len());
        named.extend(examples.into_iter().take(room).cloned());
    }

    pub(super) fn into_sorted(self) -> Vec<Finding> {
        let findings = self.0.into_iter();
        let mut findings: Vec<_> = findings
            .map(|((problem, subject), (count, examples))| Finding {
                problem,
                subject,
                count,
                examples,
            })
            .collect();
        findings.sort_by_key(|found| (found.problem.severity(), found.problem));
        findings
    }
}

impl Default for TableExamination {
    fn default() -> Self {
        Self {
            is_complete: true,
            rows: 0,
            entities: 0,
            index_entries: 0,
            system_rows: 0,
            unfinished: 0,
            bytes: 0,
            sizes: Vec::new(),
            partitions: PartitionSizes::default(),
            types: BTreeMap::new(),
            writes: WriteTimes::default(),
            compared: BTreeMap::new(),
            leaving: BTreeMap::new(),
            findings: Vec::new(),
        }
    }
}

impl TableExamination {
    /// Whether a finding is [damage](Severity::Damage).
    pub fn is_damaged(&self) -> bool {
        self.findings
            .iter()
            .any(|found| found.problem.severity() == Severity::Damage)
    }

    pub(super) fn add_size(&mut self, bytes: u64) {
        let power = bytes.checked_ilog2().unwrap_or_default() as usize;
        while self.sizes.len() <= power {
            self.sizes.push(SizeCount {
                below: 2 << self.sizes.len(),
                rows: 0,
            });
        }
        self.sizes[power].rows += 1;
    }
}
