use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageBackend};

use super::Contents;
use super::contents::check_format;
use super::page::{Header, MAGIC, PAGE};
use super::session::{LockMode, Session};
use super::unsynced::Unsynced;
use crate::disk::{Access, owner_only};
use crate::error::{Failure, LostWrites};
use crate::guard::guarded;
use crate::options::FileConfig;

const FILE: &str = "tables.redb";
/// A new file has this name until it is complete; then it is renamed.
const UNFINISHED: &str = "tables.redb.new";
const LOCK: &str = "lock";
/// How long opening waits for a store that was dropped without `close` and still holds its lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The directory of a store, locked as long as this value lives.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    access: Access,
    /// The unsynced ranges of the file. Holds the locked file `lock`, if there is one; a read-only medium may have none, but
    /// then no process can write.
    unsynced: Arc<Unsynced>,
}

/// An opened and verified file. Changes that opening made are still in memory: see [`Session::release`].
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) contents: Contents,
    pub(crate) session: Session,
    /// Whether recovery scanned all pages. Another recovery would have to scan them again.
    pub(crate) scanned: bool,
}

impl Directory {
    /// Locks a directory. Creates it if it is missing and `access` allows it.
    pub(crate) fn lock(path: &Path, access: Access) -> Result<Self, Failure> {
        if path.as_os_str().is_empty() {
            return Err(Failure::NoPath);
        }
        if metadata_of(path)?.is_some_and(|found| !found.is_dir()) {
            return Err(Failure::NotDirectory(path.to_owned()));
        }
        let file = file_metadata(&path.join(FILE))?;
        if access == Access::Create {
            create_directory(path)?;
        } else if file.is_none() {
            return Err(Failure::Missing(path.to_owned()));
        }
        let lock = open_lock(&path.join(LOCK), access)?;
        if let Some(lock) = &lock {
            wait_for_lock(lock, path, access)?;
        }
        Ok(Self {
            path: path.to_owned(),
            access,
            unsynced: Arc::new(Unsynced::new(lock)),
        })
    }

    /// Returns the path of the file.
    pub(crate) fn file(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// Opens the file. Creates it if it is missing.
    pub(crate) fn open(&self, config: &FileConfig, locks: LockMode) -> Result<Opened, Failure> {
        let path = self.file();
        if file_metadata(&path)?.is_none() {
            if self.access != Access::Create {
                return Err(Failure::Missing(self.path.clone()));
            }
            self.create(config, |database| Contents::empty().write(database))?;
        }
        // The order keeps a foreign file as it is: the first bytes are read before anything may write. `ensure_cache_is_on_disk`
        // writes only what the system's cache has already. The engine then works in memory, and `Session::release` writes
        // after all checks.
        check_magic(&path)?;
        let file = (config.opener.0)(&path, self.access).map_err(Failure::io("opening", &path))?;
        self.ensure_cache_is_on_disk(&*file)?;
        let locks = if self.access == Access::Read {
            LockMode::Skip
        } else {
            locks
        };
        let session = Session::new(file, Arc::clone(&self.unsynced), locks);
        let session = session.map_err(Failure::io("reading", &path))?;
        let opened = guarded(|| open_in_memory(&path, session, config));
        opened.unwrap_or_else(|| Err(damaged(&path, "its contents contradict each other")))
    }

    /// Ensures that the system's cache, from which the file is read, has the data on the disk: after a failed sync they may differ.
    fn ensure_cache_is_on_disk(&self, file: &dyn StorageBackend) -> Result<(), Failure> {
        let path = self.file();
        if self.access == Access::Read {
            return if self.unsynced.is_marked() {
                Err(Failure::Unsynced(path))
            } else {
                Ok(())
            };
        }
        // First of all: before this, what the file seems to contain may not be on the disk. Recovery would build on pages that a
        // later power loss takes away.
        self.unsynced
            .write_again(file)
            .map_err(Failure::io("writing the unsynced pages again of", &path))?;
        let mut header = vec![0; PAGE as usize];
        let read = file.len().and_then(|len| {
            header.truncate(len.min(PAGE) as usize);
            file.read(0, &mut header)
        });
        read.map_err(Failure::io("reading", &path))?;
        // The process that wrote the file did not close it, so it may have left unsynced writes anywhere in the file. If a sync of
        // this process fails, all of the file must be written again.
        if Header::parse(&header).is_none_or(|header| header.unclean) {
            self.unsynced.set_unclean();
        }
        Ok(())
    }

    /// Creates a complete file or none.
    pub(crate) fn create(
        &self,
        config: &FileConfig,
        fill: impl FnOnce(&Database) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let unfinished = self.path.join(UNFINISHED);
        // This also covers a link without a target, which creating the file would follow.
        if unfinished.symlink_metadata().is_ok() {
            fs::remove_file(&unfinished).map_err(Failure::io("removing", &unfinished))?;
        }
        if let Err(failure) = without_panic(|| create_file(&unfinished, config, fill)) {
            // The next attempt removes the file too; until then it only uses space.
            let _ = fs::remove_file(&unfinished);
            return Err(failure);
        }
        // The file is complete and synced before it gets its name, and the directory is synced after that: a crash at any point
        // leaves a complete store or none.
        fs::rename(&unfinished, self.file()).map_err(Failure::io("renaming", &unfinished))?;
        sync_directory(&self.path)
    }
}

/// Writes a new file and fills it.
fn create_file(
    path: &Path,
    config: &FileConfig,
    fill: impl FnOnce(&Database) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let file = (config.opener.0)(path, Access::Create).map_err(Failure::io("creating", path))?;
    let file = Session::new(file, Arc::new(Unsynced::new(None)), LockMode::Take);
    let file = file.map_err(Failure::io("creating", path))?;
    file.release().map_err(Failure::io("creating", path))?;
    // No reader has this file, so an error may reach the engine: it ends the creation.
    file.set_reports_errors(true);
    let mut builder = Builder::new();
    builder.set_cache_size(config.cache_bytes);
    let database = builder.create_with_backend(file).map_err(Failure::write)?;
    let filled = without_panic(|| fill(&database));
    // Separate, because dropping a database during unwinding would abort the process.
    drop(database);
    filled
}

/// Runs all of the work and converts a panic into a failure.
fn without_panic(work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    guarded(work).unwrap_or(Err(Failure::Panicked(LostWrites::default())))
}

/// Returns the metadata of a path, following links; `None` if nothing exists there. A link without a target
/// is an error: the target may come back, so it must not be replaced by a new store.
fn metadata_of(path: &Path) -> Result<Option<Metadata>, Failure> {
    let missing = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if !missing(&error) => Err(Failure::io("reading the metadata of", path)(error)),
        Err(_) if path.symlink_metadata().is_ok() => Err(Failure::Dangling(path.to_owned())),
        Err(_) => Ok(None),
    }
}

/// Like [`metadata_of`], for a file of the store. Opening another kind of file, such as a pipe, could block
/// forever.
fn file_metadata(path: &Path) -> Result<Option<Metadata>, Failure> {
    let found = metadata_of(path)?;
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return Err(Failure::NotFile(path.to_owned()));
    }
    Ok(found)
}

fn open_lock(path: &Path, access: Access) -> Result<Option<File>, Failure> {
    file_metadata(path)?;
    let mut options = OpenOptions::new();
    let lock = if access == Access::Read {
        // A reader creates a missing lock file too. Without a lock a writer could start while the reader reads. On a read-only medium
        // there can be no writer.
        let existing = options.read(true).open(path);
        existing.or_else(|_| {
            owner_only(
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false),
            )
            .open(path)
        })
    } else {
        owner_only(options.read(true).write(true).create(true).truncate(false)).open(path)
    };
    match lock {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if access == Access::Read && error.kind() == ErrorKind::ReadOnlyFilesystem => {
            Ok(None)
        }
        Err(error) => Err(Failure::io("opening", path)(error)),
    }
}

/// Creates a directory and its missing parents durably, accessible to their owner only.
fn create_directory(path: &Path) -> Result<(), Failure> {
    let made: Vec<_> = path.ancestors().take_while(|made| !made.exists()).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(path)
        .map_err(Failure::io("creating the directory", path))?;
    // The entry of a new directory is in its parent: without a sync of each parent, a power loss could take the whole store.
    for made in made.iter().rev() {
        let parent = made
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        sync_directory(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

fn wait_for_lock(lock: &File, path: &Path, access: Access) -> Result<(), Failure> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        let locked = if access == Access::Read {
            lock.try_lock_shared()
        } else {
            lock.try_lock()
        };
        match locked {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(source)) => return Err(Failure::io("locking", path)(source)),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                return Err(Failure::InUse(path.to_owned()));
            }
            Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(10)),
        }
    }
}

fn check_magic(path: &Path) -> Result<(), Failure> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(Failure::io("opening", path))?;
    file.take(MAGIC.len() as u64)
        .read_to_end(&mut start)
        .map_err(Failure::io("reading", path))?;
    match start.as_slice() {
        [] => Err(damaged(path, "it is empty")),
        start if start == MAGIC => Ok(()),
        start if MAGIC.starts_with(start) => Err(damaged(path, "it ends within its magic number")),
        _ => Err(Failure::Foreign(path.to_owned())),
    }
}

/// Opens the file with changes kept in memory, recovers it, and checks format, contents and pages. Nothing is written to the disk.
fn open_in_memory(path: &Path, session: Session, config: &FileConfig) -> Result<Opened, Failure> {
    let verify = session.len().map_err(Failure::io("reading", path))? <= config.verify_up_to;
    let mut builder = Builder::new();
    builder.set_cache_size(config.cache_bytes);
    let scanned = Arc::new(AtomicBool::new(false));
    let (scanning, scans) = (session.clone(), Arc::clone(&scanned));
    builder.set_repair_callback(move |repair| {
        scanning.engine_scans();
        scans.store(true, Ordering::Relaxed);
        tracing::info!(progress = repair.progress(), "recovering after a crash");
    });
    let database = builder.create_with_backend(session.clone());
    let mut database = database.map_err(|error| unusable(path, error))?;
    // The engine itself compares every page now, so the session need not record them for `check_pages`.
    if verify {
        session.engine_scans();
    }
    if verify
        && !database
            .check_integrity()
            .map_err(|error| unusable(path, error))?
    {
        return Err(damaged(path, "its checksums do not match"));
    }
    let contents = read_contents(path, &database).map_err(|failure| unreadable(path, failure))?;
    // Last: it also checks the pages that opening has read so far, which are in the engine's cache and are not read again.
    if !session
        .check_pages()
        .map_err(Failure::io("reading", path))?
    {
        return Err(damaged(path, "a page does not match its checksum"));
    }
    Ok(Opened {
        database,
        contents,
        session,
        scanned: scanned.load(Ordering::Relaxed),
    })
}

fn read_contents(path: &Path, database: &Database) -> Result<Contents, Failure> {
    let transaction = database.begin_read().map_err(Failure::read)?;
    check_format(path, &transaction)?;
    Contents::read(&transaction)
}

fn unusable(path: &Path, error: DatabaseError) -> Failure {
    match error {
        DatabaseError::DatabaseAlreadyOpen => Failure::InUse(path.to_owned()),
        DatabaseError::UpgradeRequired(_) => Failure::Foreign(path.to_owned()),
        DatabaseError::Storage(error) => unreadable(path, Failure::read(error)),
        other => damaged(path, &other.to_string()),
    }
}

/// Maps a file that ends too early or contradicts itself to "damaged"; other failures come from the disk.
fn unreadable(path: &Path, failure: Failure) -> Failure {
    use std::io::ErrorKind::{InvalidData, UnexpectedEof};
    match failure {
        Failure::Read(redb::Error::Corrupted(reason)) => damaged(path, &reason),
        Failure::Read(redb::Error::Io(e)) if matches!(e.kind(), InvalidData | UnexpectedEof) => {
            damaged(path, &e.to_string())
        }
        Failure::Read(redb::Error::TableDoesNotExist(name)) => {
            damaged(path, &format!("the part '{name}' is missing"))
        }
        other => other,
    }
}

fn damaged(path: &Path, reason: &str) -> Failure {
    Failure::Damaged {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Makes a rename durable, where the operating system can sync directories.
fn sync_directory(path: &Path) -> Result<(), Failure> {
    if cfg!(unix) {
        let directory = File::open(path).map_err(Failure::io("opening", path))?;
        directory.sync_all().map_err(Failure::io("syncing", path))?;
    }
    Ok(())
}
