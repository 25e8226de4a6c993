//! The writer thread. It begins a transaction with the first queued request, decides the requests in order as it takes
//! them, commits once, and then sends all answers.

mod batch;
mod commit;
mod intake;
mod packer;
mod queue;
mod reclaim;
mod reopen;
mod run;
#[cfg(test)]
mod tests;
mod upkeep;
mod versions;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::Database;

use self::batch::Ledger;
use self::queue::Requests;
use self::reclaim::Reclaiming;
use self::reopen::Reopening;
use self::versions::Versions;
use crate::changes::Changes;
use crate::disk::Access;
use crate::error::Failure;
use crate::file::{Contents, Directory, LockMode, Opened, Session};
use crate::guard::guarded;
use crate::options::Config;
use crate::shared::Shared;

pub(crate) use self::queue::{Queue, Request, Writes};

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Writer {
    directory: Directory,
    config: Config,
    requests: Requests,
    shared: Arc<Shared>,
    changes: Arc<Changes>,
    /// `None` after a failed compaction, until the file is reopened.
    database: Option<Arc<Database>>,
    session: Session,
    reopening: Reopening,
    /// Until this time each request has its own commit, because a request met an unreadable page.
    separate_until: Option<Instant>,
    ledger: Ledger,
    versions: Versions,
    reclaiming: Reclaiming,
    last_batch: usize,
    last_commit: Instant,
    unflushed: Option<Unflushed>,
    /// Whether the last commit on the disk recorded the pages in use, so that recovery need not scan the file.
    recovery_prepared: bool,
}

/// Acknowledged writes that are not on disk.
#[derive(Clone, Copy, Debug)]
struct Unflushed {
    since: Instant,
    /// Number of single writes and groups.
    writes: usize,
    bytes: usize,
}

/// After this time without writes, the writer [prepares recovery](Writer::prepare_recovery).
const IDLE: Duration = Duration::from_millis(100);
/// In relaxed mode, writes reach the disk after this time …
const FLUSH_AFTER: Duration = Duration::from_millis(100);
/// … or after this many bytes.
const FLUSH_BYTES: usize = 16 << 20;
/// Maximum wait for more writes, regardless of the options.
const MAX_LINGER: Duration = Duration::from_secs(1);
/// How long each request has its own commit after one of them met an unreadable page.
const SEPARATE_COMMITS: Duration = Duration::from_secs(60);

impl Writer {
    /// Opens the file of a directory. Must be called where blocking is allowed.
    pub(crate) fn open(
        directory: Directory,
        config: Config,
        requests: Requests,
    ) -> Result<Self, Failure> {
        let Opened {
            database,
            contents,
            session,
            scanned,
        } = directory.open(&config.file, LockMode::Take)?;
        if config.access != Access::Read {
            // The file is known to be sound now, so it may get what opening changed: until here that was in memory.
            // Separate, because dropping a database during unwinding would abort the process.
            let released =
                guarded(|| session.release()).unwrap_or_else(|| Err(io::ErrorKind::Other.into()));
            released.map_err(Failure::io("recovering", directory.file()))?;
        }
        let database = Arc::new(database);
        let versions = Versions::after(contents.version_mark);
        // Without a scan, the file was closed or its last commit recorded the pages in use: the next recovery reads that record too. After
        // a scan nothing is recorded. A read-only store records nothing.
        let recovery_prepared = !scanned || config.access == Access::Read;
        let ledger = Ledger::of(contents, config.access);
        let shared = Arc::new(Shared::new(
            Arc::clone(&database),
            Arc::clone(&ledger.catalog),
        ));
        Ok(Self {
            directory,
            config,
            requests,
            shared,
            changes: Arc::default(),
            database: Some(database),
            session,
            reopening: Reopening::default(),
            separate_until: None,
            ledger,
            versions,
            reclaiming: Reclaiming::default(),
            last_batch: 0,
            last_commit: Instant::now(),
            unflushed: None,
            recovery_prepared,
        })
    }

    /// Gives the readers and the writer a newly opened file.
    fn serve_from(&mut self, database: Database, contents: Contents) {
        let database = Arc::new(database);
        self.ledger = Ledger::of(contents, self.config.access);
        self.shared
            .resume(Arc::clone(&database), Arc::clone(&self.ledger.catalog));
        self.database = Some(database);
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn spawn(self) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name("table-embedded".to_owned());
        thread.spawn(|| self.run()).map(drop)
    }
}
