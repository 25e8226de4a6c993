//! The writer thread. It takes the queued requests, decides them in order, commits once, and then sends all
//! answers.

mod batch;
mod broken;
mod commit;
mod queue;
mod reclaim;
mod run;
#[cfg(test)]
mod tests;
mod upkeep;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::Database;

use self::batch::Ledger;
use self::broken::Broken;
use self::commit::Versions;
use self::queue::Requests;
use self::reclaim::Reclaiming;
use crate::changes::Changes;
use crate::disk::Access;
use crate::error::Failure;
use crate::file::{Contents, Directory, LockMode, Opened, Session};
use crate::guard::guarded;
use crate::options::Config;
use crate::shared::Shared;

pub(crate) use self::queue::{Queue, Request, Work};

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
    broken: Broken,
    /// Until this time each request has its own commit, because a page that one of them needs is unreadable.
    apart_until: Option<Instant>,
    ledger: Ledger,
    versions: Versions,
    reclaiming: Reclaiming,
    last_batch: usize,
    last_commit: Instant,
    unflushed: Option<Unflushed>,
    /// Whether the file is prepared for fast recovery.
    settled: bool,
}

/// Acknowledged writes that are not on disk.
#[derive(Clone, Copy, Debug)]
struct Unflushed {
    since: Instant,
    /// Number of single writes and groups.
    writes: usize,
    bytes: usize,
}

/// After this time without writes, the file is prepared for fast recovery.
const IDLE: Duration = Duration::from_millis(100);
/// In relaxed mode, writes reach the disk after this time …
const FLUSH_AFTER: Duration = Duration::from_millis(100);
/// … or after this many bytes.
const FLUSH_BYTES: usize = 16 << 20;
/// Maximum wait for more writes, regardless of the options.
const MAX_LINGER: Duration = Duration::from_secs(1);
/// Pause after the first failed attempt to reclaim.
const RETRY: Duration = Duration::from_secs(1);
/// How long requests have separate commits after one of them met an unreadable page.
const APART: Duration = Duration::from_secs(60);

impl Writer {
    pub(crate) fn open(directory: Directory, config: Config, requests: Requests) -> Result<Self, Failure> {
        let Opened { database, contents, session, scanned } = directory.open(&config.file, LockMode::Take)?;
        if config.access != Access::Read {
            // Separate, because dropping a database during unwinding would abort the process.
            let released = guarded(|| session.release()).unwrap_or_else(|| Err(io::ErrorKind::Other.into()));
            released.map_err(Failure::io("recovering", directory.file()))?;
        }
        let database = Arc::new(database);
        let versions = Versions::after(contents.version_mark);
        let settled = !scanned || config.access == Access::Read;
        let ledger = Ledger::of(contents, config.access);
        let shared = Arc::new(Shared::new(Arc::clone(&database), Arc::clone(&ledger.catalog)));
        Ok(Self {
            directory,
            config,
            requests,
            shared,
            changes: Arc::default(),
            database: Some(database),
            session,
            broken: Broken::default(),
            apart_until: None,
            ledger,
            versions,
            reclaiming: Reclaiming::default(),
            last_batch: 0,
            last_commit: Instant::now(),
            unflushed: None,
            settled,
        })
    }

    /// Gives the readers and the writer a newly opened file.
    fn serve_from(&mut self, database: Database, contents: Contents) {
        let database = Arc::new(database);
        self.ledger = Ledger::of(contents, self.config.access);
        self.shared.resume(Arc::clone(&database), Arc::clone(&self.ledger.catalog));
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
