use std::fmt;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
#[cfg(feature = "blobs")]
use object_store::ObjectStore;
#[cfg(feature = "blobs")]
use object_store::path::Path;
use table_core::manifest::{Manifest, Overflow, Shape};
use table_core::model::TableName;
use table_core::query::Query;
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};

use super::windows::is_of_one_store;
use super::{BulkOptions, Comparison, CopyJob};
#[cfg(not(feature = "blobs"))]
use crate::blobs::BlobStores;
#[cfg(feature = "blobs")]
use crate::large::BlobStores;

/// The number of tables that are copied at once.
const TABLES: usize = 4;
/// The number of rows that are read to see whether a target table is empty: checkpoints of other jobs, and one row.
const ROWS: usize = 16;

/// Prepares the copy of all tables of a store to another store, with their manifests, index entries, and optionally blobs. No
/// request.
///
/// Every table is copied as by a [`CopyJob`], 4 tables at once. A copy needs tables that no program writes.
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
pub fn copy_store(from: Arc<dyn TableStore>, to: Arc<dyn TableStore>) -> StoreCopy {
    StoreCopy {
        from,
        to,
        tables: None,
        name: None,
        options: BulkOptions::default(),
        blobs: None,
        rows_only: false,
        without_index_blobs: false,
        into_existing: false,
        progress: None,
    }
}

type Report = Arc<dyn Fn(&TableName, u64) + Send + Sync>;

/// A copy of all tables of a store. [`copy_store`] prepares it.
///
/// # Refusals
/// Before anything is written, the copy looks at every table, and refuses if
/// - source and target are the same store;
/// - a target table has rows that no earlier run of this job has written, because they would be mixed with the copy
///   ([`into_existing`](Self::into_existing) accepts it);
/// - a manifest has an index with lists in blobs, which the copy does not include
///   ([`without_index_blobs`](Self::without_index_blobs) accepts it).
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
    name: Option<String>,
    options: BulkOptions,
    blobs: Option<BlobStores>,
    rows_only: bool,
    without_index_blobs: bool,
    into_existing: bool,
    progress: Option<Report>,
}

/// The result of the copy of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreCopyReport {
    /// The tables and the number of rows of each, including earlier runs of the job.
    pub tables: Vec<(TableName, u64)>,
    /// The number of rows of all tables.
    pub rows: u64,
    /// The number of rows that earlier runs had copied.
    pub resumed: u64,
}

/// A table of a copied store that differs from its source.
#[derive(Clone, Debug, PartialEq)]
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
    pub fn with_blobs(mut self, from: Arc<dyn ObjectStore>, to: Arc<dyn ObjectStore>, root: Path) -> Self {
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

    /// Calls `report` after each window with the table and the number of its rows copied so far.
    pub fn on_progress(mut self, report: impl Fn(&TableName, u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(report));
        self
    }

    /// Copies the tables. 1 request per page of the list of tables; 2 per table to look at manifest and target, 2 more with a
    /// name; the requests of a [`CopyJob::run`] per table.
    ///
    /// # Errors
    /// What [`StoreCopy`] refuses, with the table; nothing is written then. The errors of a [`CopyJob::run`].
    pub async fn run(&self) -> Result<StoreCopyReport> {
        let tables = self.source_tables().await?;
        let begun =
            stream::iter(tables.clone()).map(|table| async move { self.job(&table).is_begun().await });
        // One checkpoint is enough: the tables of an interrupted copy have rows, and must not be refused.
        let has_begun = begun.buffered(TABLES).try_collect::<Vec<bool>>().await?.contains(&true);
        // Every table is checked before one is written.
        let checks =
            stream::iter(tables.clone()).map(|table| async move { self.check(&table, has_begun).await });
        checks.buffered(TABLES).try_collect::<Vec<()>>().await?;
        let copies = stream::iter(tables.clone()).map(|table| async move {
            let done = self.job(&table).run().await?;
            Ok::<_, Error>((table, done))
        });
        let copied: Vec<_> = copies.buffered(TABLES).try_collect().await?;
        let mut report = StoreCopyReport::default();
        for (table, done) in copied {
            report.rows += done.rows;
            report.resumed += done.resumed;
            report.tables.push((table, done.rows));
        }
        // After all tables: an interrupted copy finds the checkpoints of finished tables and does not copy
        // these again.
        let finished =
            stream::iter(tables).map(|table| async move { self.job(&table).clear_checkpoint().await });
        finished.buffered(TABLES).try_collect::<Vec<()>>().await?;
        Ok(report)
    }

    /// Compares every table of the source with its copy: see [`CopyJob::verify`]. Returns the tables that differ.
    ///
    /// # Errors
    /// As [`CopyJob::verify`].
    pub async fn verify(&self) -> Result<Vec<StoreDifference>> {
        let tables = self.source_tables().await?;
        let compared = stream::iter(tables).map(|table| async move {
            match self.job(&table).verify().await {
                Ok(found) if found.equal => Ok(None),
                Ok(found) => Ok(Some(StoreDifference { table, comparison: Some(found) })),
                Err(error) if error.is_table_not_found() => {
                    Ok(Some(StoreDifference { table, comparison: None }))
                }
                Err(error) => Err(error),
            }
        });
        let compared: Vec<_> = compared.buffered(TABLES).try_collect().await?;
        Ok(compared.into_iter().flatten().collect())
    }

    async fn source_tables(&self) -> Result<Vec<TableName>> {
        if Arc::ptr_eq(&self.from, &self.to) {
            return Err(Error::invalid_request(
                "source and target of the copy are the same store: give another store, or copy single tables by `CopyJob`",
            ));
        }
        match &self.tables {
            Some(tables) => Ok(tables.clone()),
            None => self.from.all_tables(None).await,
        }
    }

    /// Refuses a table. If an earlier run has begun, it has made sure that the target had no rows.
    async fn check(&self, table: &TableName, has_begun: bool) -> Result<()> {
        let manifest = Manifest::load(&*self.from, table).await?;
        let in_blobs =
            |shape: &Shape| matches!(shape, Shape::Blob | Shape::List { overflow: Overflow::Blob, .. });
        // A shape of a later version is unknown, and may keep lists in blobs.
        let index = manifest.indexes.iter().find(|index| index.shape.as_ref().is_none_or(in_blobs));
        if let Some(index) = index.filter(|_| !self.without_index_blobs) {
            return Err(Error::invalid_request(format!(
                "the index '{}' of the table '{table}' has, or may have, lists in blobs, which the copy does not include: copy \
                 `without_index_blobs`, then remove and build the index in the target",
                index.name
            )));
        }
        if self.into_existing || has_begun {
            return Ok(());
        }
        let page = match self.to.query(table, &Query::new().with_top(ROWS), None).await {
            Err(error) if error.is_table_not_found() => return Ok(()),
            page => page?,
        };
        match page.items.iter().find(|row| !is_of_one_store(row.key())) {
            None => Ok(()),
            Some(row) => Err(Error::invalid_request(format!(
                "the table '{table}' of the target has rows, for example {}, and this copy has no checkpoint in it: \
                 `verify` it if an earlier run has finished; otherwise copy to an empty store, or `into_existing` tables",
                row.key()
            ))),
        }
    }

    fn job(&self, table: &TableName) -> CopyJob {
        let side = |store: &Arc<dyn TableStore>| (Arc::clone(store), table.clone());
        let mut job = CopyJob::new(side(&self.from), side(&self.to)).with_options(self.options.clone());
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
        if let Some(report) = self.progress.clone() {
            let table = table.clone();
            job = job.on_progress(move |rows| report(&table, rows));
        }
        job
    }
}

impl fmt::Debug for StoreCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreCopy").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}
