use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use redb::ReadableTableMetadata as _;
use table_core::engine;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{AccessPath, Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{
    Error, ErrorKind, GroupTransaction, Operation, Result, ServiceProfile, StoreContext,
    TableStore, Written,
};
use tokio::task::coop::consume_budget;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::disk::Access;
use crate::error::Failure;
use crate::file::Directory;
use crate::guard::guarded;
use crate::options::{EmbeddedBuilder, FileConfig, PROFILE, Reads};
use crate::read::{Ahead, ReadAhead};
use crate::readers::{Answered, Readers};
use crate::shared::{Shared, Snapshot};
use crate::verify::{Verification, Walk};
use crate::writer::{Queue, Request, Writer, Writes};

/// How long [`close`](EmbeddedStore::close) waits for what follows the answers of writes.
const FOLLOW_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// A durable [`TableStore`](table_core::store::TableStore) in a directory on this machine.
///
/// Cloning is cheap; clones are the same store. Any number of tasks may use it concurrently, on a Tokio
/// runtime of any flavour. Call [`close`](Self::close) before the program ends, so that the next start is
/// fast. A dropped store closes itself in the background.
#[derive(Clone)]
pub struct EmbeddedStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) path: PathBuf,
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Queue,
    profile: ServiceProfile,
    reads: Reads,
    access: Access,
    readers: Readers,
    read_ahead: ReadAhead,
    /// Options for opening the file of a copy.
    pub(crate) file: FileConfig,
    /// Backup and compaction exclude each other, because compaction waits for all readers. The running one
    /// holds the lock, also after its future was dropped.
    pub(crate) maintenance: Arc<tokio::sync::Mutex<()>>,
}

impl EmbeddedBuilder {
    /// Opens the store, and creates it if the directory has none. Must be called within a Tokio runtime.
    ///
    /// After a crash, opening first recovers the file. This takes milliseconds if the store had been idle for
    /// 100 ms or the file is larger than [`scan_up_to`](Self::scan_up_to). Otherwise it scans the file, which
    /// takes about a second per gigabyte if the file is in the operating system's cache, and the disk's read
    /// time if not. A damaged page met by recovery is an error.
    ///
    /// # Errors
    /// Fails if the store is already open; if its file is damaged, foreign or of another format (the file is
    /// then unchanged); or if the disk failed.
    pub async fn open(self) -> Result<EmbeddedStore> {
        let Self {
            directory: path,
            config,
        } = self;
        let (queue, requests) = Queue::new();
        let (reads, access) = (config.reads, config.access);
        let profile = config.profile.clone();
        let (readers, file) = (Readers::new(config.max_scans), config.file.clone());
        let directory = path.clone();
        let open = move || Writer::open(Directory::lock(&directory, access)?, config, requests);
        let writer = blocking(move || Ok(open()?)).await?;
        let shared = writer.shared();
        writer
            .spawn()
            .map_err(Failure::io("starting a thread for", &path))?;
        let (read_ahead, maintenance) = (ReadAhead::default(), Arc::default());
        let inner = Inner {
            path,
            shared,
            queue,
            profile,
            reads,
            access,
            readers,
            read_ahead,
            file,
            maintenance,
        };
        Ok(EmbeddedStore {
            inner: Arc::new(inner),
        })
    }
}

impl EmbeddedStore {
    /// Opens the store in a directory with default options, and creates it if it does not exist.
    ///
    /// # Errors
    /// See [`EmbeddedBuilder::open`].
    pub async fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        Self::builder(directory).open().await
    }

    /// Returns a builder with options.
    pub fn builder(directory: impl Into<PathBuf>) -> EmbeddedBuilder {
        EmbeddedBuilder::new(directory.into())
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Finishes queued operations, writes all data in memory and releases the directory. Later operations
    /// fail, except for `close`, which does nothing.
    ///
    /// Work that follows the answers of earlier writes of this process (the journal rows of indexed writes) is finished first; `close`
    /// waits for it for 10 seconds at most.
    ///
    /// # Errors
    /// Fails if the disk failed. With [`Durability::Relaxed`](crate::Durability), the last writes may then be
    /// lost.
    pub async fn close(&self) -> Result<()> {
        if let Some(writers) = self.context().local_writers()
            && !writers.has_no_follow_ups()
        {
            // The bound matters only if the runtime of the work does not run: what is not done is left to recovery.
            drop(timeout(FOLLOW_UP_TIMEOUT, writers.until_follow_ups_end()).await);
        }
        self.inner.queue.close().await
    }

    /// Removes the rows of dropped tables and returns free space to the file system.
    ///
    /// Reads and writes wait during the compaction: seconds per gigabyte. Run it after large deletes. It
    /// waits for a running backup, and continues if its future is dropped. It moves pages within the file,
    /// and needs disk space for the file's holes plus a 64th of its length, at least 16 MiB; on a
    /// copy-on-write file system, for everything that is moved.
    ///
    /// # Errors
    /// Fails before any change if the disk space is insufficient ([`StorageFull`](ErrorKind::StorageFull),
    /// with both figures; on Linux only). Fails if the disk failed or the file is damaged: the store then
    /// reopens the file and serves the readable rows.
    pub async fn compact(&self) -> Result<()> {
        self.require_writable()?;
        let guard = Arc::clone(&self.inner.maintenance).lock_owned().await;
        self.inner.queue.compact(guard).await
    }

    /// Returns the number of rows of all tables, system rows included. Rows of a dropped table count until they are removed. Reads no row.
    ///
    /// # Errors
    /// Fails if the store is closed, or if its file is damaged.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// use table_core::prelude::*;
    /// use table_embedded::EmbeddedStore;
    ///
    /// let (store, table) = (EmbeddedStore::open(directory.path()).await?, TableName::new("Employees")?);
    /// store.create_table(&table).await?;
    /// store.write(&table, Operation::Insert(Entity::new("Sales", "1")?)).await?;
    /// assert_eq!(store.rows().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rows(&self) -> Result<u64> {
        let snapshot = self.snapshot().await?;
        read(|| Ok(snapshot.rows.len().map_err(Failure::read)?))
    }

    async fn write_one(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let mut written = self
            .request(Request::Write(table.clone(), Writes::One(operation)))
            .await?;
        written.pop().ok_or_else(|| Failure::NoAnswer.ambiguous())
    }

    async fn snapshot(&self) -> Result<Arc<Snapshot>> {
        Ok(self.inner.shared.snapshot().await?)
    }

    /// Starts to read a page from a snapshot.
    fn start_page(
        &self,
        snapshot: Arc<Snapshot>,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Answered<Page<Entity>>> {
        let (table, query, from) = (table.clone(), query.clone(), from.cloned());
        let page = move || snapshot.query(&PROFILE, &table, &query, from.as_ref());
        self.inner.readers.start(move || read(page))
    }

    /// Reads the next page of a query ahead, which the caller has continued before. A failure concerns the page only if the
    /// caller asks for it.
    fn read_ahead(&self, table: &TableName, query: &Query, from: &Continuation) {
        let Some(snapshot) = self.inner.shared.current() else {
            return;
        };
        self.inner.read_ahead.start(|| {
            let commit = snapshot.commit;
            let page = self.start_page(snapshot, table, query, Some(from)).ok()?;
            let (table, query, from) = (table.clone(), query.clone(), from.clone());
            Some(Ahead {
                table,
                query,
                from,
                commit,
                since: Instant::now(),
                page,
            })
        });
    }

    async fn request(&self, request: Request) -> Result<Vec<Written>> {
        self.require_writable()?;
        self.inner.queue.submit(request).await
    }

    fn require_writable(&self) -> Result<()> {
        if self.inner.access == Access::Read {
            return Err(Error::unsupported(
                "a store that was opened read-only",
                "changes",
            ));
        }
        Ok(())
    }

    /// Reads every page of the file, from the disk if the operating system allows it, and compares it with
    /// the checksum in the page that refers to it. Also checks the checksum of every row and the order of
    /// keys.
    ///
    /// Reads and writes continue. At most `bytes_per_second` bytes are read per second, so the duration is
    /// the file's length divided by that. Every 32 MiB or quarter of a second, `verify` takes a new snapshot
    /// of the store with a small commit; rows that changed in between are read as they are then. Dropping the
    /// future ends it.
    ///
    /// A report without damages says that every row in these snapshots can be read. It says nothing about
    /// free pages or about later disk failures.
    ///
    /// # Errors
    /// Fails if the store is closed or cannot be written at the moment, or if the disk cannot be read. Damage
    /// is reported, not returned as an error, unless it affects pages that each commit needs.
    pub async fn verify(&self, bytes_per_second: u64) -> Result<Verification> {
        let mut walk = Walk::new(bytes_per_second);
        while !walk.has_ended() {
            let pinned = self.inner.queue.pin(!walk.has_begun()).await?;
            walk = blocking(move || walk.advance(&pinned)).await?;
        }
        Ok(walk.into_report())
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("path", &self.inner.path)
            .finish_non_exhaustive()
    }
}

/// Reads from the file. Damage in the file is an error, not a panic.
fn read<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    guarded(work).unwrap_or_else(|| Err(Failure::DamagedPage.into()))
}

/// Runs blocking work on a new thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => {
            Err(Error::new(ErrorKind::Storage("the operation panicked".to_owned())).with_source(e))
        }
    }
}

#[async_trait]
impl TableStore for EmbeddedStore {
    fn profile(&self) -> &ServiceProfile {
        &self.inner.profile
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        let new = self.context().new_table(table);
        self.request(Request::CreateTable(table.clone()))
            .await
            .map(|_| new.created())
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.request(Request::DeleteTable(table.clone()))
            .await
            .map(drop)
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        consume_budget().await;
        let start = from.map(|c| c.tables_position(prefix)).transpose()?;
        let snapshot = self.snapshot().await?;
        let names = snapshot
            .catalog
            .names_from(start.map_or("", |p| p.first.as_str()));
        Ok(engine::list_page(&PROFILE, prefix, names))
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        // Inline reads hardly ever wait, so without a budget a task of many reads would block other tasks and
        // timers.
        consume_budget().await;
        let snapshot = self.snapshot().await?;
        if self.inner.reads == Reads::Inline {
            return read(|| snapshot.get(table, key, select));
        }
        let (table, key, select) = (table.clone(), key.clone(), select.cloned());
        blocking(move || read(|| snapshot.get(&table, &key, select.as_ref()))).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        consume_budget().await;
        engine::check_query(&PROFILE, query)?;
        if self.inner.reads == Reads::Inline && query.access_path() == AccessPath::Point {
            let snapshot = self.snapshot().await?;
            let page = read(|| snapshot.query(&PROFILE, table, query, from))?;
            return Ok(page.into());
        }
        let snapshot = self.snapshot().await?;
        let Some(from) = from else {
            let page = self
                .start_page(snapshot, table, query, None)?
                .wait()
                .await?;
            return Ok(page.into());
        };
        let ahead = match self
            .inner
            .read_ahead
            .take(table, query, from, snapshot.commit)
        {
            Some(ahead) => ahead.wait().await.ok(),
            None => None,
        };
        let page = match ahead {
            Some(page) => page,
            None => {
                self.start_page(snapshot, table, query, Some(from))?
                    .wait()
                    .await?
            }
        };
        if let Some(next) = &page.continuation {
            self.read_ahead(table, query, next);
        }
        Ok(page.into())
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        engine::check_operation(&PROFILE, &operation)?;
        self.write_one(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        engine::check_group(&self.inner.profile, &group)?;
        self.request(Request::Write(
            table.clone(),
            Writes::Group(group.into_operations()),
        ))
        .await
    }

    /// The directory is locked: while this process may write, no other process can.
    fn context(&self) -> &StoreContext {
        self.inner.queue.context()
    }
}
