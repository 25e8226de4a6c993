//! Copies all tables of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
#[cfg(feature = "blobs")]
use object_store::ObjectStore;
#[cfg(feature = "blobs")]
use object_store::path::Path;
use table_core::manifest::{Consent, Manifest, Shape};
use table_core::model::{Key, TableName};
use table_core::query::Query;
use table_core::store::{CycleDetector, Error, KeyOrder, Result, TableStore, TableStoreExt as _};

use super::compare::Side;
use super::copy::has_large;
use super::trust::{check_trusted, definitions_beyond};
use super::windows::is_of_one_store;
use super::{BulkOptions, Comparison, CopyJob, compare_tables};
use crate::blobs::BlobStores;

/// The number of tables that are copied at once by default.
const TABLES: usize = 4;
/// The number of rows that are read to see whether a target table is empty: checkpoints of other jobs, and one row.
const ROWS: usize = 16;

/// Prepares the copy of all tables of a store to another store, with their manifests, index entries, and optionally blobs. No
/// request.
///
/// Every table is copied as by a [`CopyJob`], 4 tables at once ([`with_tables_at_once`](StoreCopy::with_tables_at_once)). A copy needs
/// tables that no program writes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::bulk::copy_store;
///
/// let (from, to) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
/// for (table, key) in [("Orders", "1"), ("Customers", "ann")] {
///     let table = TableName::new(table)?;
///     from.create_table(&table).await?;
///     from.write(&table, Operation::Insert(Entity::new("p", key)?)).await?;
/// }
/// let copy = copy_store(from, to).resumable("to the new account");
/// let report = copy.run().await?;
/// assert_eq!((report.tables.len(), report.rows), (2, 2));
/// assert!(copy.verify().await?.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn copy_store(from: impl TableStore, to: impl TableStore) -> StoreCopy {
    StoreCopy {
        from: from.into_shared(),
        to: to.into_shared(),
        tables: None,
        renames: BTreeMap::new(),
        tables_at_once: TABLES,
        name: None,
        options: BulkOptions::default(),
        blobs: None,
        rows_only: false,
        without_index_blobs: false,
        into_existing: false,
        trusts_definitions: false,
        progress: None,
        compared: None,
    }
}

type Report = Arc<dyn Fn(&TableName, u64) + Send + Sync>;

/// A copy of all tables of a store. [`copy_store`] prepares it.
///
/// # Refusals
/// Before anything is written, the copy looks at every table, and refuses if
/// - source and target are the same store, and a table keeps its name;
/// - a target table has rows that no earlier run of this job has written, because they would be mixed with the copy
///   ([`into_existing`](Self::into_existing) accepts it); a table with the same rows counts as copied;
/// - the index entries of a table are in another table that is not copied;
/// - a manifest has an index with lists in blobs, which the copy does not include
///   ([`without_index_blobs`](Self::without_index_blobs) accepts it);
/// - a manifest has an index definition whose entries go into another table, or a type whose entities expire: programs and upkeep obey them
///   in the target, and a client that could write into the tables of the source can have added them
///   ([`trust_definitions`](Self::trust_definitions) accepts them);
/// - ciphertext that the source does not decrypt is bound to another table name, as [`CopyJob`] describes;
/// - a table gets another name, and its rows depend on the name: index entries in another table, or values in blobs.
///
/// The refusals of a [`CopyJob`], for unfinished writes, large values and encrypted properties, are made window by window.
///
/// # Interruption
/// With a [name](Self::resumable), a run that was interrupted continues: finished tables are not copied again.
#[must_use = "a copy does nothing until `run`"]
pub struct StoreCopy {
    from: Arc<dyn TableStore>,
    to: Arc<dyn TableStore>,
    tables: Option<Vec<TableName>>,
    renames: BTreeMap<TableName, TableName>,
    tables_at_once: usize,
    name: Option<String>,
    options: BulkOptions,
    blobs: Option<BlobStores>,
    rows_only: bool,
    without_index_blobs: bool,
    into_existing: bool,
    trusts_definitions: bool,
    progress: Option<Report>,
    compared: Option<Arc<dyn Fn(u64) + Send + Sync>>,
}

/// The result of the copy of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct StoreCopyReport {
    /// The tables, in the order in which they were named or listed.
    pub tables: Vec<CopiedTable>,
    /// The number of rows of all tables.
    pub rows: u64,
    /// The number of rows that earlier runs had copied.
    pub resumed: u64,
}

/// A table of a copied store.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct CopiedTable {
    /// The table in the source.
    pub table: TableName,
    /// The table in the target.
    pub to: TableName,
    /// The number of rows, including earlier runs of the job.
    pub rows: u64,
    /// The number of rows that earlier runs had copied.
    pub resumed: u64,
    /// Whether the target had the same rows before the run, which then copied nothing.
    pub was_equal: bool,
}

/// A [`StoreCopy`] that has looked at every table and refuses none.
#[derive(Debug)]
#[must_use = "a prepared copy does nothing until `run`"]
pub struct PreparedCopy<'a> {
    copy: &'a StoreCopy,
    tables: Vec<PreparedTable>,
}

/// A table to copy.
#[derive(Clone, Debug)]
struct PreparedTable {
    table: TableName,
    has_large: bool,
    /// The number of rows of a target that has the same rows already.
    equal_rows: Option<u64>,
    /// What the definitions of the table do beyond its rows; nothing for a table that is not copied.
    definitions: Vec<String>,
}

/// A table of a copied store that differs from its source.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct StoreDifference {
    /// The table.
    pub table: TableName,
    /// The comparison with the source; `None` if the target does not have the table.
    pub comparison: Option<Comparison>,
}

impl StoreCopy {
    /// Copies only these tables. The tables of index entries, of unique values and of queues are tables too.
    pub fn tables(mut self, tables: impl IntoIterator<Item = TableName>) -> Self {
        self.tables = Some(tables.into_iter().collect());
        self
    }

    /// Copies a table to a table of another name. The name is one that is copied.
    pub fn renamed(mut self, table: TableName, to: TableName) -> Self {
        self.renames.insert(table, to);
        self
    }

    /// Sets how many tables are copied at once, at least 1; the default is 4. Each has its own requests in flight and its own windows in
    /// memory.
    pub fn with_tables_at_once(mut self, tables: usize) -> Self {
        self.tables_at_once = tables.max(1);
        self
    }

    /// Keeps a checkpoint row in each target table while the copy runs: see [`CopyJob::resumable`].
    pub fn resumable(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the options of the writers: see [`CopyJob::with_options`].
    pub fn with_options(mut self, options: BulkOptions) -> Self {
        self.options = options;
        self
    }

    /// Copies the blobs of large entities: see [`CopyJob::with_blobs`].
    #[cfg(feature = "blobs")]
    pub fn with_blobs(
        mut self,
        from: Arc<dyn ObjectStore>,
        to: Arc<dyn ObjectStore>,
        root: Path,
    ) -> Self {
        self.blobs = Some(BlobStores { from, to, root });
        self
    }

    /// Copies and verifies rows without the blobs of large entities.
    pub const fn rows_only(mut self) -> Self {
        self.rows_only = true;
        self
    }

    /// Copies tables although an index has lists in blobs, which are not copied. Remove and build such an index in the target.
    pub const fn without_index_blobs(mut self) -> Self {
        self.without_index_blobs = true;
        self
    }

    /// Copies into target tables that have rows. Rows that exist are replaced; rows that exist only there stay.
    pub const fn into_existing(mut self) -> Self {
        self.into_existing = true;
        self
    }

    /// Copies index definitions whose entries go into other tables, and types whose entities expire. Set it for a source into whose
    /// tables no other client could write, or after a look at the definitions that a run without it names.
    pub const fn trust_definitions(mut self) -> Self {
        self.trusts_definitions = true;
        self
    }

    /// Calls `report` with a table and the number of its rows copied so far: first with the rows of earlier runs, then after each window.
    pub fn on_progress(mut self, report: impl Fn(&TableName, u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(report));
        self
    }

    /// Calls `report` with a number of further rows of the source that a [`verify`](PreparedCopy::verify) has compared, every 1,000 rows.
    pub fn on_compared(mut self, report: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.compared = Some(Arc::new(report));
        self
    }

    /// Copies the tables. The requests of [`prepare`](Self::prepare) and of [`PreparedCopy::run`].
    ///
    /// # Errors
    /// What [`StoreCopy`] refuses, with the table; nothing is written then. The errors of a [`CopyJob::run`].
    pub async fn run(&self) -> Result<StoreCopyReport> {
        self.prepare().await?.run().await
    }

    /// Looks at every table, and writes nothing. 1 request per page of the list of tables; 2 per table for manifest and target, 1 more with
    /// a name, 1 more for a target with rows. 1 per page of source and target for each target that may have the same rows already, and 1 per
    /// page of each source with ciphertext that would be bound to another name.
    ///
    /// # Errors
    /// What [`StoreCopy`] refuses, with the table; errors of the stores.
    pub async fn prepare(&self) -> Result<PreparedCopy<'_>> {
        let names = self.source_tables().await?;
        self.check_targets(&names)?;
        let all = &names;
        let tables = stream::iter(names.clone())
            .map(|table| async move { self.prepare_table(&table, all).await });
        let tables: Vec<_> = tables.buffered(self.tables_at_once).try_collect().await?;
        if !self.trusts_definitions {
            let definitions: Vec<_> = tables
                .iter()
                .flat_map(|table| table.definitions.iter().cloned())
                .collect();
            check_trusted("source", "copied", &definitions)?;
        }
        Ok(PreparedCopy { copy: self, tables })
    }

    /// Compares every table of the source with its copy: see [`CopyJob::verify`]. 1 request per table more, for its manifest. Returns the
    /// tables that differ.
    ///
    /// # Errors
    /// As [`CopyJob::verify`].
    pub async fn verify(&self) -> Result<Vec<StoreDifference>> {
        let mut tables = Vec::new();
        for table in self.source_tables().await? {
            let has_large = has_large(&Manifest::load(&*self.from, &table).await?);
            tables.push((table, has_large));
        }
        self.verify_tables(tables).await
    }

    /// Compares tables, each with whether its manifest names large values.
    async fn verify_tables(&self, tables: Vec<(TableName, bool)>) -> Result<Vec<StoreDifference>> {
        let compared = stream::iter(tables).map(|(table, has_large)| async move {
            let comparison = match self.job(&table, has_large).verify().await {
                Ok(found) if found.equal => return Ok(None),
                Ok(found) => Some(found),
                Err(error) if error.is_table_not_found() => None,
                Err(error) => return Err(error),
            };
            Ok(Some(StoreDifference { table, comparison }))
        });
        let compared: Vec<_> = compared.buffered(self.tables_at_once).try_collect().await?;
        Ok(compared.into_iter().flatten().collect())
    }

    async fn source_tables(&self) -> Result<Vec<TableName>> {
        match &self.tables {
            Some(tables) => Ok(tables.clone()),
            None => self.from.all_tables(None).await,
        }
    }

    /// The table to which a table is copied.
    fn target<'a>(&'a self, table: &'a TableName) -> &'a TableName {
        self.renames.get(table).unwrap_or(table)
    }

    /// Refuses names: of two tables that would be mixed, and of a table that is not copied.
    fn check_targets(&self, names: &[TableName]) -> Result<()> {
        if let Some(absent) = self.renames.keys().find(|table| !names.contains(table)) {
            return Err(Error::invalid_argument(format!(
                "the table '{absent}' is renamed, and is not copied"
            )));
        }
        let identity = |table| self.to.profile().table_identity(table);
        let sources: BTreeSet<_> = names.iter().map(identity).collect();
        let is_same_store = Arc::ptr_eq(&self.from, &self.to);
        let mut targets = BTreeSet::new();
        for to in names.iter().map(|table| self.target(table)) {
            if is_same_store && sources.contains(&identity(to)) {
                return Err(Error::invalid_argument(format!(
                    "source and target of the copy are the same store, and the copy would read and write '{to}': give another store, or \
                     another name (`renamed`)"
                )));
            }
            if !targets.insert(identity(to)) {
                return Err(Error::invalid_argument(format!(
                    "two tables would be copied to '{to}'"
                )));
            }
        }
        Ok(())
    }

    /// Refuses a table, or finds out what there is to copy.
    async fn prepare_table(&self, table: &TableName, names: &[TableName]) -> Result<PreparedTable> {
        let manifest = Manifest::load(&*self.from, table).await?;
        self.check_manifest(table, names, &manifest)?;
        let has_large = has_large(&manifest);
        let job = self.job(table, has_large);
        job.check_ciphertext().await?;
        let equal_rows = if self.into_existing || job.is_begun().await? {
            None
        } else {
            self.equal_rows(table).await?
        };
        let definitions = if equal_rows.is_none() {
            definitions_beyond(table, &manifest)
        } else {
            Vec::new()
        };
        Ok(PreparedTable {
            table: table.clone(),
            has_large,
            equal_rows,
            definitions,
        })
    }

    /// Refuses a table that the copy would leave incomplete, by what its manifest says.
    fn check_manifest(
        &self,
        table: &TableName,
        names: &[TableName],
        manifest: &Manifest,
    ) -> Result<()> {
        // A shape of a later version is unknown, and may keep lists in blobs.
        let needs_blobs = |shape: Option<&Shape>| shape.is_none_or(Shape::needs_blobs);
        let index = manifest
            .indexes
            .iter()
            .find(|index| needs_blobs(index.shape.as_ref()));
        if let Some(index) = index.filter(|_| !self.without_index_blobs) {
            return Err(Error::wrong_state(format!(
                "the index '{}' of the table '{table}' has, or may have, lists in blobs, which the copy does not include: copy \
                 `without_index_blobs`, then remove and build the index in the target",
                index.name
            )));
        }
        let mut entries = manifest
            .indexes
            .iter()
            .filter_map(|index| index.table.as_ref());
        if let Some(other) = entries.clone().find(|other| !names.contains(other)) {
            return Err(Error::invalid_argument(format!(
                "the index entries of '{table}' are in the table '{other}', which is not copied: copy it too"
            )));
        }
        if self.target(table).to_lowercase() == table.to_lowercase() {
            return Ok(());
        }
        // A new name would break what the rows say about the old one: entries and the row of their owner, and the paths of blobs.
        let has_consents = manifest
            .others
            .iter()
            .any(|row| Consent::read(row).is_some());
        let reason = if entries.next().is_some() || has_consents {
            "index entries in another table refer to the name"
        } else if has_large(manifest) {
            "the names of its blobs contain the name"
        } else {
            return Ok(());
        };
        Err(Error::wrong_state(format!(
            "the table '{table}' cannot be copied to another name: {reason}"
        )))
    }

    /// Returns the number of rows of a target with the same rows; `None` for a target without rows. Refuses a target with other rows.
    async fn equal_rows(&self, table: &TableName) -> Result<Option<u64>> {
        let to = self.target(table);
        let Some(there) = first_key(&*self.to, to).await? else {
            return Ok(None);
        };
        let is_sorted = [&self.from, &self.to]
            .iter()
            .all(|store| store.profile().order == KeyOrder::Sorted);
        // A cheap look before the comparison of all rows.
        if !is_sorted || first_key(&*self.from, table).await?.as_ref() == Some(&there) {
            let found = compare_tables(side(&self.from, table), side(&self.to, to)).await?;
            if found.equal {
                return Ok(Some(found.first));
            }
        }
        Err(Error::wrong_state(format!(
            "the table '{to}' of the target has rows, for example {there}, and no interrupted run of this copy has written them: delete the \
             table, copy to another name (`renamed`), or accept with `into_existing` that copied rows replace rows of the same key"
        )))
    }

    /// The copy of one table.
    fn job(&self, table: &TableName, has_large: bool) -> CopyJob {
        let mut job = CopyJob::new(side(&self.from, table), side(&self.to, self.target(table)))
            .with_options(self.options.clone())
            .with_large(has_large)
            // They were looked at by `prepare`.
            .trust_definitions();
        #[cfg(feature = "blobs")]
        if let Some(BlobStores { from, to, root }) = &self.blobs {
            job = job.with_blobs(Arc::clone(from), Arc::clone(to), root.clone());
        }
        if self.rows_only {
            job = job.rows_only();
        }
        if let Some(name) = &self.name {
            job = job.resumable(name).keep_checkpoint();
        }
        if let Some(report) = self.compared.clone() {
            job = job.on_compared(move |rows| report(rows));
        }
        if let Some(report) = self.progress.clone() {
            let table = table.clone();
            job = job.on_progress(move |rows| report(&table, rows));
        }
        job
    }
}

impl PreparedCopy<'_> {
    /// Copies the tables. For each table the requests of a [`CopyJob::run`] without its check of ciphertext, and with a name 1 more; none for a
    /// table whose target has the same rows.
    ///
    /// # Errors
    /// The errors of a [`CopyJob::run`]; rows written before stay, and a named copy continues after them.
    pub async fn run(&self) -> Result<StoreCopyReport> {
        let copies = stream::iter(self.tables.clone()).map(|prepared| async move {
            let PreparedTable {
                table,
                has_large,
                equal_rows,
                ..
            } = prepared;
            let to = self.copy.target(&table).clone();
            if let Some(rows) = equal_rows {
                return Ok(CopiedTable {
                    table,
                    to,
                    rows,
                    resumed: 0,
                    was_equal: true,
                });
            }
            let done = self
                .copy
                .job(&table, has_large)
                .ciphertext_checked()
                .run()
                .await?;
            Ok::<_, Error>(CopiedTable {
                table,
                to,
                rows: done.rows,
                resumed: done.resumed,
                was_equal: false,
            })
        });
        let tables: Vec<_> = copies
            .buffered(self.copy.tables_at_once)
            .try_collect()
            .await?;
        // Checkpoints stay until every table is copied: the next run of an interrupted copy leaves finished tables as they are.
        let finished = stream::iter(self.copied())
            .map(|(table, _)| async move { self.copy.job(&table, false).clear_checkpoint().await });
        finished
            .buffered(self.copy.tables_at_once)
            .try_collect::<Vec<()>>()
            .await?;
        let (rows, resumed) = (
            tables.iter().map(|table| table.rows).sum(),
            tables.iter().map(|table| table.resumed).sum(),
        );
        Ok(StoreCopyReport {
            tables,
            rows,
            resumed,
        })
    }

    /// Compares the tables that [`run`](Self::run) copies with their sources: see [`CopyJob::verify`]. Returns the tables that differ.
    ///
    /// # Errors
    /// As [`CopyJob::verify`].
    pub async fn verify(&self) -> Result<Vec<StoreDifference>> {
        self.copy.verify_tables(self.copied()).await
    }

    /// The tables whose targets did not have the same rows, and whether they have large values.
    fn copied(&self) -> Vec<(TableName, bool)> {
        let copied = self
            .tables
            .iter()
            .filter(|table| table.equal_rows.is_none());
        copied
            .map(|table| (table.table.clone(), table.has_large))
            .collect()
    }
}

/// The key of the first row of the data of a table; `None` if there is none, or no table. 1 request, or more if the service returns pages
/// without such rows.
async fn first_key(store: &dyn TableStore, table: &TableName) -> Result<Option<Key>> {
    let query = Query::new().with_top(ROWS);
    let (mut from, mut cycles) = (None, CycleDetector::default());
    loop {
        let page = match store.query(table, &query, from.as_ref()).await {
            Err(error) if error.is_table_not_found() => return Ok(None),
            page => page?.into_page()?,
        };
        let mut keys = page.items.iter().map(|row| row.key());
        if let Some(key) = keys.find(|key| !is_of_one_store(key)) {
            return Ok(Some(key.clone()));
        }
        // A page may be empty, or have rows of the manifest alone, although the table has other rows.
        let Some(next) = page.continuation else {
            return Ok(None);
        };
        cycles.add(&next, page.items.len())?;
        from = Some(next);
    }
}

/// The source or the target of the copy of one table.
fn side(store: &Arc<dyn TableStore>, table: &TableName) -> Side {
    (Arc::clone(store), table.clone())
}

impl fmt::Debug for StoreCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreCopy")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}
