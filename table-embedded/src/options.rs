use std::path::PathBuf;
use std::time::Duration;

use table_core::store::ServiceProfile;

use crate::disk::{Access, FreeSpace, Opener};

/// What this store allows by default; see [`EmbeddedBuilder::served`].
pub(crate) const PROFILE: ServiceProfile = ServiceProfile::LOCAL;

/// When the store acknowledges a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the write is on disk.
    #[default]
    Immediate,
    /// When the write is in memory. It reaches the disk within 100 ms, after 16 MiB of writes, or when the
    /// store is closed. A crash may lose the last acknowledged writes: if one write is lost, all later writes
    /// are lost too, and a group is never lost in part. A failed write, after which the store reopens its
    /// file in the same process, may lose writes in the same way: reads then no longer see them, and the
    /// error reports how many may be lost. Creating and deleting tables is always immediate.
    Relaxed,
}

/// Where point reads run. Scans always run on blocking threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// In the calling task. Handing the read to another thread would cost about ten times the read. An
    /// uncached read waits for a few pages of the file.
    #[default]
    Inline,
    /// On blocking threads. Use this for files much larger than memory on slow disks.
    Blocking,
}

/// Limits for concurrent writes that share one commit.
///
/// The writer executes queued writes one after another and commits them when the queue is empty or a limit is reached. If there are
/// fewer than last time, it first waits for more, `linger` in all. A single writer never waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCommit {
    /// Maximum number of writes and group transactions in one commit.
    pub max_transactions: usize,
    /// Approximate maximum bytes of entities in one commit.
    pub max_bytes: usize,
    /// How long a commit waits for more writes; at most one second.
    pub linger: Duration,
}

impl Default for GroupCommit {
    /// 1,024 transactions, 8 MiB, 150 µs.
    fn default() -> Self {
        Self {
            max_transactions: 1024,
            max_bytes: 8 << 20,
            linger: Duration::from_micros(150),
        }
    }
}

/// Options for opening an [`EmbeddedStore`](crate::EmbeddedStore); see [`EmbeddedStore::builder`](crate::EmbeddedStore::builder).
#[derive(Clone, Debug)]
#[must_use = "call `open`"]
pub struct EmbeddedBuilder {
    pub(crate) directory: PathBuf,
    pub(crate) config: Config,
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) profile: ServiceProfile,
    pub(crate) durability: Durability,
    pub(crate) group_commit: GroupCommit,
    pub(crate) reads: Reads,
    pub(crate) max_scans: usize,
    pub(crate) access: Access,
    pub(crate) file: FileConfig,
}

/// Options for opening the file.
#[derive(Clone, Debug)]
pub(crate) struct FileConfig {
    pub(crate) cache_bytes: usize,
    pub(crate) verify_up_to: u64,
    pub(crate) scan_up_to: u64,
    pub(crate) opener: Opener,
    pub(crate) free_space: FreeSpace,
}

impl EmbeddedBuilder {
    pub(crate) fn new(directory: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let file = FileConfig {
            cache_bytes: 256 << 20,
            verify_up_to: 64 << 20,
            scan_up_to: 512 << 20,
            opener: Opener::default(),
            free_space: FreeSpace::default(),
        };
        let config = Config {
            profile: PROFILE,
            durability: Durability::default(),
            group_commit: GroupCommit::default(),
            reads: Reads::default(),
            max_scans: 2 * cores,
            access: Access::Create,
            file,
        };
        Self { directory, config }
    }

    /// Sets when a write is acknowledged. Default: when it is on disk.
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.config.durability = durability;
        self
    }

    /// Allows group transactions of 10,000 operations and 64 MiB ([`ServiceProfile::SERVED`]), for a server that maintains indexes
    /// for its clients. Default: 100 operations and 4 MiB, as in the service.
    pub const fn served(mut self) -> Self {
        self.config.profile = ServiceProfile::SERVED;
        self
    }

    /// Fails if the directory has no store, instead of creating one. Use this if an empty directory may mean
    /// that a volume is not mounted.
    pub const fn must_exist(mut self) -> Self {
        self.config.access = Access::Write;
        self
    }

    /// Opens the store for reading only. The file does not change; if a crash left a file that needs recovery,
    /// recovery happens in memory. A file `lock` is created if it is missing, unless the medium is read-only. Any number of handles may read at the same time, but not while
    /// another handle may write. Writes, changes of tables and [`compact`](crate::EmbeddedStore::compact) are
    /// refused; [`backup`](crate::EmbeddedStore::backup) works.
    pub const fn read_only(mut self) -> Self {
        self.config.access = Access::Read;
        self
    }

    /// Sets the memory for pages of the file, in bytes; default 256 MiB. The process may use up to twice as
    /// much: allocator overhead, pages in use and the pages of a running commit are not included.
    pub const fn cache_bytes(mut self, bytes: usize) -> Self {
        self.config.file.cache_bytes = bytes;
        self
    }

    /// Verifies the checksums of all pages when opening a file of at most this many bytes; default 64 MiB.
    /// This takes about a second per gigabyte. In larger files, damage is found when the damaged page is
    /// read, which is then an error, or by [`verify`](crate::EmbeddedStore::verify).
    pub const fn verify_up_to(mut self, bytes: u64) -> Self {
        self.config.file.verify_up_to = bytes;
        self
    }

    /// Sets the file size up to which recovery after a crash scans all pages, in bytes; default 512 MiB. In a
    /// larger file, every commit records the pages in use, which costs a second sync and 64 KiB of writes per
    /// gigabyte, and recovery takes milliseconds. With [`u64::MAX`], commits never record the pages, and
    /// recovery takes as long as reading the file.
    pub const fn scan_up_to(mut self, bytes: u64) -> Self {
        self.config.file.scan_up_to = bytes;
        self
    }

    /// Sets the limits of commits that concurrent writes share.
    pub const fn group_commit(mut self, bounds: GroupCommit) -> Self {
        self.config.group_commit = bounds;
        self
    }

    /// Sets where point reads run. Default: in the calling task.
    pub const fn reads(mut self, reads: Reads) -> Self {
        self.config.reads = reads;
        self
    }

    /// Sets how many pages of queries are read concurrently, at least 1. Further reads wait. Default: twice
    /// the number of cores.
    pub const fn max_scans(mut self, scans: usize) -> Self {
        self.config.max_scans = if scans == 0 { 1 } else { scans };
        self
    }
}
