use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageBackend};

use super::Contents;
use super::contents::check_format;
use super::held::HeldFile;
use crate::error::{Failure, Lost};
use crate::guard::guarded;
use crate::options::FileConfig;

const FILE: &str = "tables.redb";
/// A file is made under this name, and renamed when it is whole.
const UNFINISHED: &str = "tables.redb.new";
const LOCK: &str = "lock";
/// The first bytes of every redb file.
const MAGIC: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";
/// How long a store that was dropped without `close` may take to let go of its directory.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The directory of a store, locked for this handle as long as it lives.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Locks a directory, made if it is missing.
    pub(crate) fn lock(path: &Path) -> Result<Self, Failure> {
        if path.is_file() {
            return Err(Failure::NotDirectory(path.to_owned()));
        }
        create_directory(path)?;
        let lock_path = path.join(LOCK);
        let open = OpenOptions::new().write(true).create(true).truncate(false).open(&lock_path);
        let lock = open.map_err(Failure::io("opening", lock_path))?;
        wait_for(&lock, path)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The file.
    pub(crate) fn file(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// Opens the file, made if it is missing.
    pub(crate) fn open(&self, config: &FileConfig) -> Result<(Database, Contents), Failure> {
        let path = self.file();
        if !path.exists() {
            self.create(config, |database| Contents::empty().write(database))?;
        }
        check_magic(&path)?;
        let file = (config.opener.0)(&path).map_err(Failure::io("opening", &path))?;
        let file = HeldFile::new(file);
        let opened = guarded(|| open_held(&path, file.clone(), config));
        let opened = opened.unwrap_or_else(|| Err(damaged(&path, "it has impossible contents")))?;
        // By itself: to let go of a database while something panics would end the process.
        let released = guarded(|| file.release()).unwrap_or_else(|| Err(ErrorKind::Other.into()));
        released.map_err(Failure::io("recovering", &path))?;
        Ok(opened)
    }

    /// Makes a whole file, or none.
    pub(crate) fn create(
        &self,
        config: &FileConfig,
        fill: impl FnOnce(&Database) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let unfinished = self.path.join(UNFINISHED);
        if unfinished.exists() {
            fs::remove_file(&unfinished).map_err(Failure::io("removing", &unfinished))?;
        }
        if let Err(failure) = all(|| make(&unfinished, config, fill)) {
            // It is removed at the next attempt too; until then it would only take space.
            let _ = fs::remove_file(&unfinished);
            return Err(failure);
        }
        fs::rename(&unfinished, self.file()).map_err(Failure::io("renaming", &unfinished))?;
        sync_directory(&self.path)
    }
}

fn make(
    path: &Path,
    config: &FileConfig,
    fill: impl FnOnce(&Database) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let file = HeldFile::new((config.opener.0)(path).map_err(Failure::io("creating", path))?);
    file.release().map_err(Failure::io("creating", path))?;
    let mut builder = Builder::new();
    builder.set_cache_size(config.cache_bytes);
    let database = builder.create_with_backend(file).map_err(Failure::write)?;
    let filled = all(|| fill(&database));
    // By itself: to let go of a database while something panics would end the process.
    drop(database);
    filled
}

/// All of the work: a panic is a failure.
fn all(work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    guarded(work).unwrap_or(Err(Failure::Panicked(Lost::default())))
}

/// Makes a directory and those above it that are missing, so that they outlast a loss of power.
fn create_directory(path: &Path) -> Result<(), Failure> {
    let made: Vec<_> = path.ancestors().take_while(|made| !made.exists()).collect();
    fs::create_dir_all(path).map_err(Failure::io("creating the directory", path))?;
    for made in made.iter().rev() {
        let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_directory(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

fn wait_for(lock: &File, path: &Path) -> Result<(), Failure> {
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match lock.try_lock() {
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
    file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(Failure::io("reading", path))?;
    match start.as_slice() {
        [] => Err(damaged(path, "it is empty")),
        start if start == MAGIC => Ok(()),
        start if MAGIC.starts_with(start) => Err(damaged(path, "it ends within its first bytes")),
        _ => Err(Failure::Foreign(path.to_owned())),
    }
}

fn open_held(path: &Path, file: HeldFile, config: &FileConfig) -> Result<(Database, Contents), Failure> {
    let verify = file.len().map_err(Failure::io("reading", path))? <= config.verify_up_to;
    let mut builder = Builder::new();
    builder.set_cache_size(config.cache_bytes);
    builder.set_repair_callback(|session| {
        tracing::info!(progress = session.progress(), "recovering after a crash");
    });
    let mut database = builder.create_with_backend(file).map_err(|error| unusable(path, error))?;
    if verify && !database.check_integrity().map_err(|error| unusable(path, error))? {
        return Err(damaged(path, "its checksums do not match"));
    }
    let contents = read_contents(path, &database).map_err(|failure| unreadable(path, failure))?;
    Ok((database, contents))
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

/// A file that ends too early, or contradicts itself, is damaged; other failures are the disk's.
fn unreadable(path: &Path, failure: Failure) -> Failure {
    use std::io::ErrorKind::{InvalidData, UnexpectedEof};
    match failure {
        Failure::Read(redb::Error::Corrupted(what)) => damaged(path, &what),
        Failure::Read(redb::Error::Io(e)) if matches!(e.kind(), InvalidData | UnexpectedEof) => {
            damaged(path, &e.to_string())
        }
        Failure::Read(redb::Error::TableDoesNotExist(name)) => {
            damaged(path, &format!("the part '{name}' is missing"))
        }
        other => other,
    }
}

fn damaged(path: &Path, what: &str) -> Failure {
    Failure::Damaged { path: path.to_owned(), what: what.to_owned() }
}

/// Makes a rename last, where directories can be synced.
fn sync_directory(path: &Path) -> Result<(), Failure> {
    if cfg!(unix) {
        let directory = File::open(path).map_err(Failure::io("opening", path))?;
        directory.sync_all().map_err(Failure::io("syncing", path))?;
    }
    Ok(())
}
