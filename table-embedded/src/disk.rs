//! What the store needs of the file system: files, free space, and the errors of a full disk.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::{Arc, Once};
use std::thread::panicking;
use std::{fmt, io};

use redb::StorageBackend;
use redb::backends::FileBackend;

/// Free bytes that a compaction needs beyond the holes of the file.
const MARGIN: u64 = 16 << 20;

/// Returns the free bytes of a path's disk: from the file system, or from a test.
#[derive(Clone, Copy)]
pub(crate) struct Free(pub(crate) fn(&Path) -> io::Result<u64>);

impl Default for Free {
    fn default() -> Self {
        Self(free)
    }
}

impl fmt::Debug for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Free")
    }
}

#[cfg(target_os = "linux")]
fn free(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(target_os = "linux"))]
fn free(_: &Path) -> io::Result<u64> {
    Ok(u64::MAX)
}

/// Returns the bytes of disk space that compacting a file may use. Compaction moves pages towards the start
/// of the file, where it may have holes, and writes a few pages before it frees others.
pub(crate) fn needed_to_compact(path: &Path) -> io::Result<u64> {
    let file = std::fs::File::open(path)?;
    Ok(holes(&file)? + MARGIN.max(file.metadata()?.len() / 64))
}

/// Returns the bytes of holes that have data after them.
#[cfg(target_os = "linux")]
fn holes(file: &std::fs::File) -> io::Result<u64> {
    use rustix::fs::{SeekFrom, seek};
    let (mut at, mut holes) = (0, 0);
    loop {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => return Ok(holes),
            Err(error) => return Err(error.into()),
        };
        holes += data - at;
        at = seek(file, SeekFrom::Hole(data))?;
    }
}

#[cfg(not(target_os = "linux"))]
fn holes(_: &std::fs::File) -> io::Result<u64> {
    Ok(0)
}

/// Whether the disk is full.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// The permitted use of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading only. Other handles may read at the same time.
    Read,
    /// Reading and writing an existing store.
    Write,
    Create,
}

type Open = dyn Fn(&Path, Access) -> io::Result<Box<dyn StorageBackend>> + Send + Sync;

/// Opens the bytes of a file: through the file system, or through a disk with injected faults in tests.
#[derive(Clone)]
pub(crate) struct Opener(pub(crate) Arc<Open>);

impl Default for Opener {
    fn default() -> Self {
        Self(Arc::new(|path, access| {
            let writes = access != Access::Read;
            let mut options = OpenOptions::new();
            options.read(true).write(writes).create(writes).truncate(false);
            let file = private(&mut options).open(path)?;
            Ok(Box::new(FileBackend::new(file).map_err(io::Error::other)?))
        }))
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

/// Makes files accessible to their owner only, where the operating system supports it.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

thread_local! {
    /// Nesting depth of [`guarded`] calls on this thread.
    static GUARDED: Cell<u32> = const { Cell::new(0) };
}

/// The payload with which a read unwinds if a page is damaged or the disk cannot read it.
#[derive(Debug)]
pub(crate) struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page cannot be read")
    }
}

/// Why work ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwound {
    /// A page that the work needed cannot be read. The engine's state is unchanged.
    Unreadable,
    Panicked,
}

/// Runs work on the engine, which panics if a file contradicts itself; then returns `None`. The panic is
/// logged, not printed; the caller converts it to an error.
///
/// Values that the work borrowed may be partly changed: drop or recreate them.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    caught(work).ok()
}

/// Like [`guarded`], and returns the cause.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Unwound> {
    log_guarded_panics();
    GUARDED.set(GUARDED.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(GUARDED.get() - 1);
    done.map_err(|payload| if payload.is::<Unreadable>() { Unwound::Unreadable } else { Unwound::Panicked })
}

/// Installs a panic hook, once, in front of the program's hook. It keeps panics of guarded work from the
/// program's hook, which would print them, and passes on all others. A hook that the program installs later
/// replaces it.
fn log_guarded_panics() {
    static INSTALLED: Once = Once::new();
    if INSTALLED.is_completed() || panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let programs = take_hook();
        set_hook(Box::new(move |panic| {
            if GUARDED.get() == 0 {
                programs(panic);
            } else {
                tracing::error!(%panic, "the storage engine panicked");
            }
        }));
    });
}
