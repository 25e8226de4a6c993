use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase};
use tokio::sync::Notify;

use crate::catalog::Catalog;
use crate::error::Failure;
use crate::format::ROWS;
use crate::guard::guarded;

/// What readers see, as the writer publishes it.
#[derive(Debug)]
pub(crate) struct Shared {
    generations: AtomicU64,
    state: RwLock<State>,
    resumed: Notify,
}

#[derive(Debug)]
enum State {
    Open(View),
    /// The writer needs the file for itself for a moment; readers wait.
    Paused,
    /// Reopening failed for this reason.
    Failed(String),
    Closed,
}

/// The state after the last commit.
#[derive(Debug)]
struct View {
    generation: Generation,
    database: Arc<Database>,
    catalog: Arc<Catalog>,
    /// Made by the first reader after a commit, shared until the next: a read then neither begins a
    /// transaction nor looks for the table of rows.
    snapshot: Option<Arc<Snapshot>>,
}

/// The rows and tables at one moment. It keeps pages of the file from being reused: hold it briefly.
pub(crate) struct Snapshot {
    pub(crate) catalog: Arc<Catalog>,
    // Before the database: they must go first.
    pub(crate) rows: ReadOnlyTable<&'static [u8], &'static [u8]>,
    pub(crate) transaction: ReadTransaction,
    _database: Arc<Database>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("tables", &self.catalog.len()).finish_non_exhaustive()
    }
}

/// One opening of the file. Of two that differ, the later one may not have all that the earlier one had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl Shared {
    pub(crate) fn new(database: Arc<Database>, catalog: Arc<Catalog>) -> Self {
        let view = View { generation: Generation(0), database, catalog, snapshot: None };
        Self { generations: AtomicU64::new(0), state: RwLock::new(State::Open(view)), resumed: Notify::new() }
    }

    /// The state after the last commit, once the writer lets readers in.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        loop {
            let resumed = self.resumed.notified();
            if let Some(snapshot) = self.try_snapshot()? {
                return Ok(snapshot);
            }
            resumed.await;
        }
    }

    /// What is open now.
    pub(crate) fn generation(&self) -> Result<Generation, Failure> {
        match &*self.read() {
            State::Open(view) => Ok(view.generation),
            other => other.unavailable().and(Err(Failure::Interrupted)),
        }
    }

    /// The state after the last commit, without waiting.
    ///
    /// # Errors
    /// The file has been opened anew, or readers have to wait.
    pub(crate) fn snapshot_of(&self, generation: Generation) -> Result<Arc<Snapshot>, Failure> {
        if self.generation()? != generation {
            return Err(Failure::Interrupted);
        }
        self.try_snapshot()?.ok_or(Failure::Interrupted)
    }

    /// Whether readers have to wait, or cannot go on.
    pub(crate) fn is_interrupted(&self) -> bool {
        !matches!(*self.read(), State::Open(_))
    }

    /// Gives readers the state as it is now until the next commit is [published](Self::publish): a commit that fails is
    /// never published, though the engine takes it for done, and what one that changes the catalog makes of the rows, only the
    /// new catalog can tell.
    pub(crate) fn hold(&self) -> Result<(), Failure> {
        self.try_snapshot().map(drop)
    }

    /// Publishes a commit.
    pub(crate) fn publish(&self, catalog: &Arc<Catalog>) {
        if let State::Open(view) = &mut *self.write() {
            view.catalog = Arc::clone(catalog);
            view.snapshot = None;
        }
    }

    /// Keeps readers out from now on; those inside finish.
    pub(crate) fn pause(&self) {
        *self.write() = State::Paused;
    }

    /// Lets readers in.
    pub(crate) fn resume(&self, database: Arc<Database>, catalog: Arc<Catalog>) {
        let generation = Generation(self.generations.fetch_add(1, Ordering::Relaxed) + 1);
        self.change(State::Open(View { generation, database, catalog, snapshot: None }));
    }

    /// Answers readers with an error, until [`resume`](Self::resume).
    pub(crate) fn fail(&self, failure: &Failure) {
        self.change(State::Failed(failure.to_string()));
    }

    /// Answers readers that the store is closed.
    pub(crate) fn close(&self) {
        self.change(State::Closed);
    }

    fn change(&self, state: State) {
        *self.write() = state;
        self.resumed.notify_waiters();
    }

    /// `None` while paused.
    fn try_snapshot(&self) -> Result<Option<Arc<Snapshot>>, Failure> {
        if let State::Open(View { snapshot: Some(snapshot), .. }) = &*self.read() {
            return Ok(Some(Arc::clone(snapshot)));
        }
        // The catalog and the transaction are of one moment: commits that change the catalog `hold` it first.
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
        let rows =
            guarded(|| transaction.open_table(ROWS)).ok_or(Failure::DamagedPage)?.map_err(Failure::read)?;
        let (catalog, database) = (Arc::clone(&self.catalog), Arc::clone(&self.database));
        let snapshot = Arc::new(Snapshot { catalog, rows, transaction, _database: database });
        self.snapshot = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }
}

fn begin_read(database: &Database) -> Result<ReadTransaction, Failure> {
    guarded(|| database.begin_read()).ok_or(Failure::DamagedPage)?.map_err(Failure::read)
}

#[cfg(test)]
mod tests {
    use redb::ReadableTableMetadata as _;
    use redb::backends::InMemoryBackend;

    use super::*;

    fn insert(database: &Database, key: &[u8]) {
        let transaction = database.begin_write().unwrap();
        transaction.open_table(ROWS).unwrap().insert(key, key).unwrap();
        transaction.commit().unwrap();
    }

    #[tokio::test]
    async fn between_a_commit_and_its_publication_readers_see_the_state_before() {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let database = Arc::new(database);
        insert(&database, b"first");
        let (before, after) = (Arc::new(Catalog::default()), Arc::new(Catalog::default()));
        let shared = Shared::new(Arc::clone(&database), Arc::clone(&before));
        shared.hold().unwrap();
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
