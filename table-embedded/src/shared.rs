use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase};
use tokio::sync::Notify;

use crate::catalog::Catalog;
use crate::error::Failure;
use crate::format::ROWS;
use crate::guard::guarded;

/// The state that the writer publishes to readers.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The last number of an opening or of a commit.
    numbers: AtomicU64,
    state: RwLock<State>,
    resumed: Notify,
}

#[derive(Debug)]
enum State {
    Open(View),
    /// The writer needs exclusive access to the file for a moment; readers wait.
    Paused,
    /// Reopening failed for this reason.
    Failed(String),
    Closed,
}

/// The state after the last commit.
#[derive(Debug)]
struct View {
    generation: Generation,
    /// The number of the commit. No other commit of this process has it, also after the file was opened again.
    commit: u64,
    database: Arc<Database>,
    catalog: Arc<Catalog>,
    /// The first reader after a commit creates it; others share it until the next commit. A read then needs
    /// neither a new transaction nor a lookup of the table of rows.
    snapshot: Option<Arc<Snapshot>>,
}

/// The rows and tables at one commit. It prevents reuse of the file's pages, so hold it only briefly.
pub(crate) struct Snapshot {
    /// The number of the commit.
    pub(crate) commit: u64,
    pub(crate) catalog: Arc<Catalog>,
    // Before the database, because fields drop in order and these must drop first.
    pub(crate) rows: ReadOnlyTable<&'static [u8], &'static [u8]>,
    pub(crate) transaction: ReadTransaction,
    _database: Arc<Database>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("tables", &self.catalog.len())
            .finish_non_exhaustive()
    }
}

/// One opening of the file. A later opening may lack commits that an earlier one had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl Shared {
    pub(crate) fn new(database: Arc<Database>, catalog: Arc<Catalog>) -> Self {
        let view = View {
            generation: Generation(0),
            commit: 0,
            database,
            catalog,
            snapshot: None,
        };
        Self {
            numbers: AtomicU64::new(0),
            state: RwLock::new(State::Open(view)),
            resumed: Notify::new(),
        }
    }

    /// Returns the state after the last commit. Waits while the writer pauses readers.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        loop {
            // Before the look at the state, so that a resume between the look and the wait is not missed.
            let resumed = self.resumed.notified();
            if let Some(snapshot) = self.try_snapshot()? {
                return Ok(snapshot);
            }
            resumed.await;
        }
    }

    /// Returns the state after the last commit; `None` if readers have to wait or would get an error.
    pub(crate) fn current(&self) -> Option<Arc<Snapshot>> {
        self.try_snapshot().ok().flatten()
    }

    /// Returns the current opening.
    pub(crate) fn generation(&self) -> Result<Generation, Failure> {
        match &*self.read() {
            State::Open(view) => Ok(view.generation),
            other => other.unavailable().and(Err(Failure::Interrupted)),
        }
    }

    /// Returns the state after the last commit without waiting.
    ///
    /// # Errors
    /// Fails if the file was reopened, or if readers have to wait.
    pub(crate) fn snapshot_of(&self, generation: Generation) -> Result<Arc<Snapshot>, Failure> {
        if self.generation()? != generation {
            return Err(Failure::Interrupted);
        }
        self.try_snapshot()?.ok_or(Failure::Interrupted)
    }

    /// Whether readers have to wait or get an error.
    pub(crate) fn is_interrupted(&self) -> bool {
        !matches!(*self.read(), State::Open(_))
    }

    /// Creates the snapshot that readers get until the next commit is [published](Self::publish), if there is none. Two reasons: a
    /// failed commit is never published, although the engine considers it done; and after a commit that
    /// changes the catalog, rows can only be read with the new catalog.
    pub(crate) fn keep_snapshot(&self) -> Result<(), Failure> {
        self.try_snapshot().map(drop)
    }

    /// Publishes a commit.
    pub(crate) fn publish(&self, catalog: &Arc<Catalog>) {
        if let State::Open(view) = &mut *self.write() {
            view.catalog = Arc::clone(catalog);
            view.commit = self.number();
            view.snapshot = None;
        }
    }

    /// Blocks new readers. Current readers finish.
    pub(crate) fn pause(&self) {
        *self.write() = State::Paused;
    }

    /// Admits readers.
    pub(crate) fn resume(&self, database: Arc<Database>, catalog: Arc<Catalog>) {
        let (generation, commit) = (Generation(self.number()), self.number());
        self.change(State::Open(View {
            generation,
            commit,
            database,
            catalog,
            snapshot: None,
        }));
    }

    /// Returns a number that was not returned before.
    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns an error to readers, until [`resume`](Self::resume).
    pub(crate) fn fail(&self, failure: &Failure) {
        self.change(State::Failed(failure.to_string()));
    }

    /// Returns "the store is closed" to readers.
    pub(crate) fn close(&self) {
        self.change(State::Closed);
    }

    fn change(&self, state: State) {
        *self.write() = state;
        self.resumed.notify_waiters();
    }

    /// Returns `None` while readers are paused.
    fn try_snapshot(&self) -> Result<Option<Arc<Snapshot>>, Failure> {
        if let State::Open(View {
            snapshot: Some(snapshot),
            ..
        }) = &*self.read()
        {
            return Ok(Some(Arc::clone(snapshot)));
        }
        // The write lock, because the first reader after a commit creates the snapshot. Another reader may have been faster, so
        // `View::snapshot` looks again.
        // Catalog and transaction belong to the same commit: commits that change the catalog call `keep_snapshot`
        // first.
        match &mut *self.write() {
            State::Open(view) => view.snapshot().map(Some),
            other => other.unavailable().map(|()| None),
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn unavailable(&self) -> Result<(), Failure> {
        match self {
            Self::Failed(reason) => Err(Failure::Reopen(reason.clone())),
            Self::Closed => Err(Failure::Closed),
            Self::Open(_) | Self::Paused => Ok(()),
        }
    }
}

impl View {
    fn snapshot(&mut self) -> Result<Arc<Snapshot>, Failure> {
        if let Some(snapshot) = &self.snapshot {
            return Ok(Arc::clone(snapshot));
        }
        let transaction = begin_read(&self.database)?;
        let rows = guarded(|| transaction.open_table(ROWS))
            .ok_or(Failure::DamagedPage)?
            .map_err(Failure::read)?;
        let (catalog, database) = (Arc::clone(&self.catalog), Arc::clone(&self.database));
        let snapshot = Arc::new(Snapshot {
            commit: self.commit,
            catalog,
            rows,
            transaction,
            _database: database,
        });
        self.snapshot = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }
}

fn begin_read(database: &Database) -> Result<ReadTransaction, Failure> {
    guarded(|| database.begin_read())
        .ok_or(Failure::DamagedPage)?
        .map_err(Failure::read)
}

#[cfg(test)]
mod tests {
    use redb::ReadableTableMetadata as _;
    use redb::backends::InMemoryBackend;

    use super::*;

    fn insert(database: &Database, key: &[u8]) {
        let transaction = database.begin_write().unwrap();
        transaction
            .open_table(ROWS)
            .unwrap()
            .insert(key, key)
            .unwrap();
        transaction.commit().unwrap();
    }

    #[tokio::test]
    async fn before_a_commit_is_published_readers_see_the_previous_state() {
        let database = Database::builder()
            .create_with_backend(InMemoryBackend::new())
            .unwrap();
        let database = Arc::new(database);
        insert(&database, b"first");
        let (before, after) = (Arc::new(Catalog::default()), Arc::new(Catalog::default()));
        let shared = Shared::new(Arc::clone(&database), Arc::clone(&before));
        shared.keep_snapshot().unwrap();
        insert(&database, b"second");

        let seen = shared.snapshot().await.unwrap();
        assert_eq!(seen.rows.len().unwrap(), 1);
        assert!(Arc::ptr_eq(&seen.catalog, &before));
        shared.publish(&after);
        let seen = shared.snapshot().await.unwrap();
        assert_eq!(seen.rows.len().unwrap(), 2);
        assert!(Arc::ptr_eq(&seen.catalog, &after));
    }
}
