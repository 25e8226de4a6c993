//! The one thread that writes: it takes what is queued, decides it in order, commits once, then
//! answers all.

mod batch;
mod commit;
mod failed;
mod packer;
mod queue;
mod reclaim;
mod run;
#[cfg(test)]
mod tests;
mod upkeep;
mod versions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::Database;

use self::batch::Ledger;
use self::queue::Requests;
use self::reclaim::Reclaiming;
use self::versions::Versions;
use crate::error::Failure;
use crate::file::Directory;
use crate::options::{Access, Config};
use crate::shared::Shared;

pub(crate) use self::queue::{Queue, Request, Work};

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Writer {
    directory: Directory,
    config: Config,
    requests: Requests,
    shared: Arc<Shared>,
    /// `None` after a failure, until the file could be reopened.
    database: Option<Arc<Database>>,
    ledger: Ledger,
    versions: Versions,
    reclaiming: Reclaiming,
    last_batch: usize,
    last_commit: Instant,
    unflushed: Option<Unflushed>,
    /// Whether the file is quick to recover.
    settled: bool,
}

/// Acknowledged writes that are not on disk.
#[derive(Clone, Copy, Debug)]
struct Unflushed {
    since: Instant,
    /// Single writes and groups.
    writes: usize,
    bytes: usize,
}

/// After this long without writes, the file is made quick to recover.
const IDLE: Duration = Duration::from_millis(100);
/// In relaxed mode, what was written reaches the disk after this long…
const FLUSH_AFTER: Duration = Duration::from_millis(100);
/// …or this many bytes.
const FLUSH_BYTES: usize = 16 << 20;
/// However long the options say.
const MOST_LINGERING: Duration = Duration::from_secs(1);
/// Between attempts to reopen after a failure.
const RETRY: Duration = Duration::from_secs(1);

impl Writer {
    pub(crate) fn open(directory: Directory, config: Config, requests: Requests) -> Result<Self, Failure> {
        let (database, contents) = directory.open(&config.file)?;
        let database = Arc::new(database);
        let versions = Versions::after(contents.version_mark);
        let mut ledger = Ledger::from(contents);
        if config.access == Access::Read {
            // Nothing is reclaimed.
            ledger.dropped.clear();
        }
        let shared = Arc::new(Shared::new(Arc::clone(&database), Arc::clone(&ledger.catalog)));
        Ok(Self {
            directory,
            config,
            requests,
            shared,
            database: Some(database),
            ledger,
            versions,
            reclaiming: Reclaiming::default(),
            last_batch: 0,
            last_commit: Instant::now(),
            unflushed: None,
            settled: true,
        })
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn spawn(self) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name("table-embedded".to_owned());
        thread.spawn(|| self.run()).map(drop)
    }
}
