use std::path::PathBuf;
use std::time::Duration;

use table_core::Result;

use crate::EmbeddedStore;
use crate::file::{Free, Opener};

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is on disk.
    #[default]
    Immediate,
    /// When it is in memory. It reaches the disk within 100 ms, or 16 MiB of writes, or when the store is
    /// closed. A crash may lose the last acknowledged writes: if one is lost, so are all after it, and
    /// never a part of a group. So may a failed write, after which the store reopens its file within the same process:
    /// reads that saw the lost writes no longer do, and the error tells how many writes may be lost. Creating and deleting tables
    /// stays immediate.
    Relaxed,
}

/// Where point reads run. Scans always run on blocking threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// In the task that asks: no hand-over between threads, which costs about ten times the read. A cold
    /// read waits for a few pages of the file.
    #[default]
    Inline,
    /// On blocking threads, for files much larger than memory on slow disks.
    Blocking,
}

/// The bounds within which concurrent writes share one commit.
///
/// The writer takes what is queued. If that is less than it took last time, it lingers for
/// stragglers; a lone writer never waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCommit {
    /// Writes and group transactions in one commit, at most.
    pub max_transactions: usize,
    /// Bytes of entities in one commit, about.
    pub max_bytes: usize,
    /// How long to linger, a second at most.
    pub linger: Duration,
}

impl Default for GroupCommit {
    /// 1,024 transactions, 8 MiB, 150 µs.
    fn default() -> Self {
        Self { max_transactions: 1024, max_bytes: 8 << 20, linger: Duration::from_micros(150) }
    }
}

/// How to open an [`EmbeddedStore`]; made by [`EmbeddedStore::builder`].
#[derive(Clone, Debug)]
#[must_use = "call `open`"]
pub struct EmbeddedBuilder {
    pub(crate) directory: PathBuf,
    pub(crate) config: Config,
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) durability: Durability,
    pub(crate) group_commit: GroupCommit,
    pub(crate) reads: Reads,
    pub(crate) max_scans: usize,
    pub(crate) access: Access,
    pub(crate) file: FileConfig,
}

/// What may be done to the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing; others may read at the same time.
    Read,
    /// Everything but making a store where there is none.
    Write,
    Create,
}

/// How to open the file.
#[derive(Clone, Debug)]
pub(crate) struct FileConfig {
    pub(crate) cache_bytes: usize,
    pub(crate) verify_up_to: u64,
    pub(crate) scan_up_to: u64,
    pub(crate) opener: Opener,
    pub(crate) free: Free,
}

impl EmbeddedBuilder {
    pub(crate) fn new(directory: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let file = FileConfig {
            cache_bytes: 256 << 20,
            verify_up_to: 64 << 20,
            scan_up_to: 512 << 20,
            opener: Opener::default(),
            free: Free::default(),
        };
        let config = Config {
            durability: Durability::default(),
            group_commit: GroupCommit::default(),
            reads: Reads::default(),
            max_scans: 2 * cores,
            access: Access::Create,
            file,
        };
        Self { directory, config }
    }

    /// When a write is acknowledged; when it is on disk by default.
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.config.durability = durability;
        self
    }

    /// Refuses a directory without a store, where [`open`](Self::open) would make one. An empty directory may be one
    /// whose volume is not mounted.
    pub const fn must_exist(mut self) -> Self {
        self.config.access = Access::Write;
        self
    }

    /// Opens the store for reading alone: no byte of its directory changes, also where a crash left a file to be recovered, which
    /// happens in memory then. Any number of handles may read at the same time, but none while another one may write. Writes, changes of tables and
    /// [`compact`](EmbeddedStore::compact) are refused; [`backup`](EmbeddedStore::backup) works.
    pub const fn read_only(mut self) -> Self {
        self.config.access = Access::Read;
        self
    }

    /// Bytes of memory for pages of the file; 256 MiB by default. The process may use up to twice as much: the engine counts the
    /// pages it keeps, and the allocator's overhead, pages that are in use and those of a running commit come on top.
    pub const fn cache_bytes(mut self, bytes: usize) -> Self {
        self.config.file.cache_bytes = bytes;
        self
    }

    /// Checks the checksums of all pages when a file of at most this many bytes is opened; 64 MiB by
    /// default. It takes about a second per gigabyte. In larger files, damage is found when the damaged page is
    /// read from the file, which is then an error, or by [`verify`](EmbeddedStore::verify).
    pub const fn verify_up_to(mut self, bytes: u64) -> Self {
        self.config.file.verify_up_to = bytes;
        self
    }

    /// Bounds recovery after a crash: it looks at every page of a file of at most this many bytes that was being written; 512 MiB by
    /// default. In a larger file every commit notes which pages are in use, which takes a second sync and 64 KiB of writing per
    /// gigabyte, and recovery takes milliseconds. [`u64::MAX`] never does: recovery then takes as long as reading
    /// the file.
    pub const fn scan_up_to(mut self, bytes: u64) -> Self {
        self.config.file.scan_up_to = bytes;
        self
    }

    /// The bounds of a commit that concurrent writes share.
    pub const fn group_commit(mut self, bounds: GroupCommit) -> Self {
        self.config.group_commit = bounds;
        self
    }

    /// Where point reads run; in the task that asks by default.
    pub const fn reads(mut self, reads: Reads) -> Self {
        self.config.reads = reads;
        self
    }

    /// Pages of queries read at once, at least 1; twice the number of cores by default. More wait.
    pub const fn max_scans(mut self, scans: usize) -> Self {
        self.config.max_scans = if scans == 0 { 1 } else { scans };
        self
    }

    /// Opens the store, and creates it if the directory has none. Call it within a Tokio runtime.
    ///
    /// After a crash the file is recovered first: within milliseconds if the store had been idle for a
    /// moment or the file is larger than [`scan_up_to`](Self::scan_up_to), otherwise in a scan of the file, which takes about a second per
    /// gigabyte if the system has it in its cache, and as long as the disk takes to read it otherwise. A damaged page that recovery
    /// meets is an error.
    ///
    /// # Errors
    /// The store is open already; its file is damaged, foreign or of another format, and was left untouched; or the
    /// disk failed.
    pub async fn open(self) -> Result<EmbeddedStore> {
        EmbeddedStore::start(self).await
    }
}
