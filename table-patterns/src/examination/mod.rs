//! Examination of a table: damage and coming problems, found in one pass.
//!
//! # Problem
//! A table grows old unseen: one partition takes all writes, entities come near the limit of 1 MiB, two programs write one property as
//! different types, a crashed program leaves a write unfinished. Each is cheap to mend when it is known.
//!
//! # Work
//! An [`Examination`] reads every row of a table once, in pages, and keeps counts only: its memory does not grow with the table. It
//! then compares some index entries with their entities. It writes nothing. [`Problem`] lists what it finds; [`TableExamination`] also
//! has the sizes of partitions and entities and the times of writes.
//!
//! The time of a row is its Timestamp: the time of the *last* write of the row. Rows that were written again or deleted since are not
//! counted at their earlier times. So the counts of writes are lower bounds. After a restore or a copy they show the restore.
//!
//! # Encrypted properties
//! Over a store that decrypts, rows that cannot be decrypted are [`Problem::Unreadable`]. Over a store without keys, the examination
//! learns the encrypted names from the manifest, and from the headers of rows by [`Examination::with_encrypted_names`].
//!
//! # Cost in requests
//! | work | requests |
//! |---|---|
//! | the manifest | 1 |
//! | rows | 1 per page |
//! | [`CompareEntries::Sampled`] | 1 to open, and 2 or 3 for each entry and each entity of the sample |
//! | [`CompareEntries::All`] | 1 to open, and the requests of [`scrub`](crate::index::IndexedEntities::scrub) |
//! | [`Examination::blobs`] | 1 per blob |
//!
//! # Failure windows
//! None: nothing is written. Programs may write during the examination. A write that was not finished when its row was read is reported
//! only if it is older than [`Examination::unfinished_after`].

mod partitions;
mod properties;
mod report;
#[cfg(test)]
mod tests;
mod times;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;
use table_core::engine::entity_size;
use table_core::manifest::{IndexDefinition, IndexState, Manifest, StoredIndex, Uniqueness};
use table_core::model::{Entity, Key, SYSTEM_PREFIX, TableName, Ticks, ValueRef};
use table_core::query::Query;
use table_core::store::{CycleDetector, ErrorKind, Result, TableStore, TableStoreExt as _, limits};

use self::partitions::Partitions;
use self::properties::Properties;
use self::report::Findings;
use self::times::Times;
use crate::blobs::BlobStores;
use crate::index::{Entry, IndexOptions, IndexedEntities, ScrubMode, ScrubReport, refused_rows};
use crate::journal::{has_mark, is_journal_row, is_pending};

pub use self::report::{
    Finding, PartitionSize, PartitionSizes, Problem, Severity, SizeCount, TableExamination,
    TypeRows,
};
pub use self::times::WriteTimes;

/// An entity is near a limit if it has at least this share of it, in percent.
const NEAR: usize = 80;

/// Returns the names of the encrypted properties of a stored entity.
type EncryptedNames = Arc<dyn Fn(&Entity) -> Vec<String> + Send + Sync>;
type Listener = Arc<dyn Fn(u64) + Send + Sync>;

/// Which index entries an [`Examination`] compares with their entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareEntries {
    /// None.
    None,
    /// This many entries and this many entities of each index, chosen at random.
    Sampled(usize),
    /// Every entry and every entity, as a [scrub](crate::index::IndexedEntities::scrub) does.
    All,
}

/// Reads a table once and finds damage and coming problems. See the [module](self).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
/// use table_patterns::examination::{Examination, Problem};
///
/// let (store, people) = (MemoryStore::new(), TableName::new("People")?);
/// store.create_table(&people).await?;
/// for (row, age) in [("1", EdmValue::Int32(41)), ("2", EdmValue::String("41".into()))] {
///     store.write(&people, Operation::Insert(Entity::new("Sales", row)?.with("Age", age))).await?;
/// }
/// let found = Examination::new(store, people).run().await?;
/// assert_eq!((found.rows, found.partitions.count), (2, 1));
/// assert_eq!(found.findings[0].problem, Problem::MixedTypes);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Examination {
    store: Arc<dyn TableStore>,
    table: TableName,
    entries: CompareEntries,
    options: IndexOptions,
    unfinished_after: Duration,
    encrypted_names: Option<EncryptedNames>,
    blobs: Option<(Arc<dyn ObjectStore>, Path)>,
    listener: Option<Listener>,
}

impl fmt::Debug for Examination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Examination")
            .field("table", &self.table)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Examination {
    /// Examines a table, with 100 sampled entries and entities of each index. Sends no request.
    pub fn new(store: impl TableStore, table: TableName) -> Self {
        Self {
            store: store.into_shared(),
            table,
            entries: CompareEntries::Sampled(100),
            options: IndexOptions::default(),
            unfinished_after: Duration::from_secs(600),
            encrypted_names: None,
            blobs: None,
            listener: None,
        }
    }

    /// Sets which index entries are compared with their entities.
    #[must_use]
    pub fn with_entries(self, entries: CompareEntries) -> Self {
        Self { entries, ..self }
    }

    /// Sets the options with which the indexes are opened: the blobs of long lists, and the concurrency.
    #[must_use]
    pub fn with_options(self, options: IndexOptions) -> Self {
        Self { options, ..self }
    }

    /// Sets the age from which on an unfinished write is a problem: 10 minutes unless set. A younger write may be in progress.
    #[must_use]
    pub fn unfinished_after(self, age: Duration) -> Self {
        Self {
            unfinished_after: age,
            ..self
        }
    }

    /// Sets what names the encrypted properties of a row that was not decrypted, such as
    /// `table_encryption::encrypted_names`.
    #[must_use]
    pub fn with_encrypted_names(
        self,
        names: impl Fn(&Entity) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            encrypted_names: Some(Arc::new(names)),
            ..self
        }
    }

    /// Also looks for the blobs of [large](crate::large) values. `root` is the directory in
    /// [`LargeOptions`](crate::large::LargeOptions).
    #[must_use]
    pub fn blobs(self, store: Arc<dyn ObjectStore>, root: Path) -> Self {
        Self {
            blobs: Some((store, root)),
            ..self
        }
    }

    /// Sets a listener that is called after each page with the number of rows so far.
    #[must_use]
    pub fn on_progress(self, listener: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self {
            listener: Some(Arc::new(listener)),
            ..self
        }
    }

    /// Reads the table. See the [module](self) for the requests.
    ///
    /// # Errors
    /// The table does not exist, or the store cannot be read. A page that is damaged on disk is a finding: the report is then of the
    /// rows before it ([`TableExamination::is_complete`]).
    pub async fn run(&self) -> Result<TableExamination> {
        let manifest = self.store.manifest(&self.table).await?;
        let mut pass = Pass::new(self, &manifest);
        let (mut from, mut cycles) = (None, CycleDetector::default());
        loop {
            let page = match self
                .store
                .query(&self.table, &Query::new().with_unreadable(), from.as_ref())
                .await
            {
                Err(error)
                    if matches!(
                        error.root().kind(),
                        ErrorKind::Storage(_) | ErrorKind::Decode(_)
                    ) =>
                {
                    // The pages after it are out of reach: the damaged one has their continuation token.
                    pass.report.is_complete = false;
                    pass.findings.add(
                        Problem::Unreadable,
                        &format!("a page of the store: {error}"),
                        None,
                    );
                    break;
                }
                page => page?,
            };
            for found in page.unreadable {
                pass.report.rows += 1;
                pass.findings.add(
                    Problem::Unreadable,
                    "rows that cannot be decrypted",
                    Some(&found.key),
                );
            }
            for row in &page.page.items {
                pass.add_row(row);
                self.check_blobs(row, &mut pass.findings).await?;
            }
            if let Some(listener) = &self.listener {
                listener(pass.report.rows);
            }
            if let Some(next) = &page.page.continuation {
                cycles.add(next, page.page.items.len())?;
            }
            from = page.page.continuation;
            if from.is_none() {
                break;
            }
        }
        let (mut report, mut findings, sample) = pass.finish();
        self.add_definitions(&manifest, &mut report, &mut findings);
        self.compare_entries(&manifest.indexes, sample, &mut report, &mut findings)
            .await?;
        report.findings = findings.into_sorted();
        Ok(report)
    }

    /// Finds the blobs of a row that are missing.
    async fn check_blobs(&self, row: &Entity, findings: &mut Findings) -> Result<()> {
        let Some((blobs, root)) = &self.blobs else {
            return Ok(());
        };
        // `are_there` looks into `to` only.
        let stores = BlobStores {
            from: Arc::clone(blobs),
            to: Arc::clone(blobs),
            root: root.clone(),
        };
        if !stores.are_there(&self.table, row).await? {
            findings.add(
                Problem::MissingBlob,
                "rows whose large values are missing",
                Some(row.key()),
            );
        }
        Ok(())
    }

    /// Adds what the manifest says that needs a look: definitions that leave their table or partition, and rows that count for nothing.
    fn add_definitions(
        &self,
        manifest: &Manifest,
        report: &mut TableExamination,
        findings: &mut Findings,
    ) {
        let leaving = manifest
            .indexes
            .iter()
            .filter(|index| index.leaves_partition());
        report.leaving = leaving
            .map(|index| (index.id(), index.table.clone()))
            .collect();
        for index in &manifest.not_in_force {
            let other = index.table.as_ref().map_or("", TableName::as_str);
            findings.add(
                Problem::NotInForce,
                &format!("the index {}, with entries in {other}", index.id()),
                None,
            );
        }
        for row in refused_rows(manifest) {
            findings.add(Problem::RefusedRow, &row.reason, Some(&row.key));
        }
    }

    /// Compares entries with entities, index by index. An index that cannot be compared does not stop the others.
    async fn compare_entries(
        &self,
        indexes: &[StoredIndex],
        sample: Sample,
        report: &mut TableExamination,
        findings: &mut Findings,
    ) -> Result<()> {
        let is_unfinished =
            |index: &&StoredIndex| index.state != IndexState::Readable || index.is_dropping();
        for index in indexes.iter().filter(is_unfinished) {
            let doing = if index.is_dropping() {
                "being removed"
            } else {
                "under construction"
            };
            let subject = format!(
                "the index {}, which is {doing}: {}",
                index.id(),
                index.state
            );
            findings.add(Problem::UnfinishedIndex, &subject, None);
        }
        let compared: Vec<_> = indexes
            .iter()
            .filter(|index| !is_unfinished(index) || may_have_duplicates(index))
            .collect();
        if compared.is_empty() || self.entries == CompareEntries::None {
            return Ok(());
        }
        let opened = IndexedEntities::open_to_read(
            Arc::clone(&self.store),
            self.table.clone(),
            Vec::new(),
            self.options.clone(),
        );
        let opened = opened.await?;
        for index in compared {
            let id = index.id();
            let found = match self.entries {
                CompareEntries::All => opened.scrub(&id, ScrubMode::Report).await,
                _ => {
                    opened
                        .check_sample(&id, sample.entries(&id), sample.entities())
                        .await
                }
            };
            match found {
                // Entities without entries are no damage before the index is built: the build has not come to them yet.
                Ok(found) if is_unfinished(&index) => {
                    let taken = found.taken_keys as u64;
                    if taken > 0 {
                        let subject = format!("the index {id}, which cannot be built");
                        findings.add_many(Problem::TakenEntries, &subject, taken);
                    }
                }
                Ok(found) => {
                    report.compared.insert(id.clone(), found.clone());
                    add_scrub(&id, &found, findings);
                }
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => findings.add(
                    Problem::NotCompared,
                    &format!("the index {id}: {error}"),
                    None,
                ),
            }
        }
        Ok(())
    }
}

/// Whether a build has perhaps failed because entities have the same value of the unique index.
fn may_have_duplicates(index: &StoredIndex) -> bool {
    let is_unique = |definition: &IndexDefinition| definition.uniqueness != Uniqueness::No;
    index.state == IndexState::Building
        && !index.is_dropping()
        && index.definition.as_ref().is_some_and(is_unique)
}

/// Adds the findings of a comparison of entries with entities.
fn add_scrub(id: &str, found: &ScrubReport, findings: &mut Findings) {
    let counts = [
        (Problem::DanglingEntries, found.dangling),
        (Problem::MissingEntries, found.missing),
        (Problem::TakenEntries, found.taken_keys),
    ];
    for (problem, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        findings.add_many(problem, &format!("the index {id}"), count as u64);
    }
}

/// One pass over the rows.
struct Pass<'a> {
    examination: &'a Examination,
    manifest: &'a Manifest,
    report: TableExamination,
    findings: Findings,
    partitions: Partitions,
    properties: Properties<'a>,
    times: Times,
    sample: Sample,
    /// A row of an unfinished write is a problem if it was written before this time.
    unfinished_before: Ticks,
}

impl<'a> Pass<'a> {
    fn new(examination: &'a Examination, manifest: &'a Manifest) -> Self {
        let now = Ticks::now();
        let size = if let CompareEntries::Sampled(size) = examination.entries {
            size
        } else {
            0
        };
        let age = i64::try_from(examination.unfinished_after.as_nanos() / 100).unwrap_or(i64::MAX);
        Self {
            examination,
            manifest,
            report: TableExamination::default(),
            findings: Findings::default(),
            partitions: Partitions::new(examination.store.profile(), now),
            properties: Properties::new(manifest),
            times: Times::default(),
            sample: Sample::new(size),
            unfinished_before: Ticks::new(now.get().saturating_sub(age)).unwrap_or(now),
        }
    }

    /// Counts a row, and looks for problems in it.
    fn add_row(&mut self, row: &Entity) {
        let bytes = entity_size(row.key(), row.properties()) as u64;
        self.report.rows += 1;
        self.report.bytes += bytes;
        self.report.add_size(bytes);
        if !row.key().partition().starts_with(SYSTEM_PREFIX) {
            self.partitions.add(row, bytes);
        }
        if let Some(time) = row.timestamp() {
            self.times.add(time);
        }
        self.check_unfinished(row);
        if let Some(name) = row.properties().repeated_name() {
            self.findings.add(
                Problem::RepeatedProperty,
                &format!("rows with '{name}' twice"),
                Some(row.key()),
            );
        }
        let names = || {
            self.examination
                .encrypted_names
                .as_ref()
                .map(|names| names(row))
                .unwrap_or_default()
        };
        if row.key().is_system() && !crate::wide::is_wide_row(row) {
            self.report.system_rows += 1;
            return;
        }
        if row.key().is_system() {
            // Of the rows of a wide entity, the head row counts as the entity.
            self.properties.add_wide_row(row, &names());
            match crate::wide::is_head_row(row) {
                true => self.report.entities += 1,
                false => self.report.system_rows += 1,
            }
        } else if row.is_index_entry() {
            self.report.index_entries += 1;
            self.sample.add_entry(row);
        } else {
            self.report.entities += 1;
            self.sample.add_entity(row);
            self.properties.add(row, &names());
        }
        self.check_limits(row, bytes);
    }

    /// Finds rows of unfinished writes, and messages that were set aside.
    fn check_unfinished(&mut self, row: &Entity) {
        if crate::queue::is_poison(row) {
            self.findings.add(
                Problem::Poisoned,
                "messages of a queue in the table",
                Some(row.key()),
            );
        } else if crate::eventual::is_poisoned(row) {
            self.findings
                .add(Problem::Poisoned, "eventual transactions", Some(row.key()));
        }
        let damage = crate::journal::damage(row)
            .or_else(|| crate::changes::damage(row))
            .or_else(|| crate::eventual::damage(row));
        if let Some(error) = damage {
            // One finding for each kind of row: the key is in the examples.
            let subject = match error.root().kind() {
                ErrorKind::Decode(decode) => format!("a {}, {}", decode.entity, decode.property),
                _ => "rows of the library".to_owned(),
            };
            self.findings
                .add(Problem::DamagedRow, &subject, Some(row.key()));
            return;
        }
        if !(is_journal_row(row) || is_pending(row) || has_mark(row)) {
            return;
        }
        self.report.unfinished += 1;
        if row
            .timestamp()
            .is_none_or(|time| time <= self.unfinished_before)
        {
            self.findings.add(
                Problem::UnfinishedWrite,
                "rows of writes that were not finished",
                Some(row.key()),
            );
        }
    }

    /// Finds entities and values near a limit of the service.
    fn check_limits(&mut self, row: &Entity, bytes: u64) {
        let profile = self.examination.store.profile();
        let is_near = |value: usize, limit: usize| value * 100 >= limit * NEAR;
        if is_near(
            usize::try_from(bytes).unwrap_or(usize::MAX),
            profile.entity_bytes,
        ) {
            let subject = format!(
                "entities of {NEAR} % of {} KiB or more",
                profile.entity_bytes / 1024
            );
            self.findings
                .add(Problem::NearLimit, &subject, Some(row.key()));
        }
        if is_near(row.properties().len(), profile.custom_properties) {
            let subject = format!(
                "entities with {NEAR} % of {} properties or more",
                profile.custom_properties
            );
            self.findings
                .add(Problem::NearLimit, &subject, Some(row.key()));
        }
        for property in row.properties().iter() {
            // The service counts text in UTF-16 units:
            // <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#property-types>.
            let (units, limit) = match property.value() {
                ValueRef::String(text) => (text.encode_utf16().count(), limits::STRING_UNITS),
                ValueRef::Binary(bytes) => (bytes.len(), limits::BINARY_BYTES),
                _ => continue,
            };
            if is_near(units, limit) {
                let subject = format!(
                    "values of {} of {NEAR} % of 64 KiB or more",
                    property.name()
                );
                self.findings
                    .add(Problem::NearLimit, &subject, Some(row.key()));
            }
        }
    }

    fn finish(mut self) -> (TableExamination, Findings, Sample) {
        self.report.partitions = self.partitions.finish(&mut self.findings);
        self.report.types = self.properties.finish(self.manifest, &mut self.findings);
        self.report.writes = self.times.finish();
        (self.report, self.findings, self.sample)
    }
}

/// Keys that were chosen at random, each row with the same probability.
#[derive(Debug)]
struct Sample {
    size: usize,
    entities: Reservoir,
    /// By the id of the index.
    entries: BTreeMap<String, Reservoir>,
}

/// A random sample of the rows that were seen.
#[derive(Debug, Default)]
struct Reservoir {
    seen: u64,
    keys: Vec<Key>,
}

impl Sample {
    fn new(size: usize) -> Self {
        Self {
            size,
            entities: Reservoir::default(),
            entries: BTreeMap::new(),
        }
    }

    fn add_entity(&mut self, row: &Entity) {
        self.entities.add(row, self.size);
    }

    fn add_entry(&mut self, row: &Entity) {
        if let Some(id) = Entry::index_of(row).filter(|_| self.size > 0) {
            self.entries
                .entry(id.to_owned())
                .or_default()
                .add(row, self.size);
        }
    }

    fn entities(&self) -> &[Key] {
        &self.entities.keys
    }

    fn entries(&self, id: &str) -> &[Key] {
        self.entries
            .get(id)
            .map_or(&[], |reservoir| &reservoir.keys)
    }
}

impl Reservoir {
    /// Algorithm R (<https://doi.org/10.1145/3147.3165>): row n takes a random place among n. If the place is in the sample, the row replaces
    /// the key there. So each row is in the sample with the probability `size / n`, in one pass and without knowing the number of rows.
    fn add(&mut self, row: &Entity, size: usize) {
        self.seen += 1;
        if self.keys.len() < size {
            self.keys.push(row.key().clone());
        } else if let Some(slot) = usize::try_from(fastrand::u64(..self.seen))
            .ok()
            .and_then(|place| self.keys.get_mut(place))
        {
            *slot = row.key().clone();
        }
    }
}
