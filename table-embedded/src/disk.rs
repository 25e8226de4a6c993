//! What the store needs of the file system: files, free space, and the errors of a full disk.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::StorageBackend;
use redb::backends::FileBackend;

/// Free bytes that a compaction needs beyond the holes of the file.
const MARGIN_BYTES: u64 = 16 << 20;

/// Returns the free bytes of a path's disk: from the file system, or from a test.
#[derive(Clone, Copy)]
pub(crate) struct FreeSpace(pub(crate) fn(&Path) -> io::Result<u64>);

impl Default for FreeSpace {
    fn default() -> Self {
        Self(free_space)
    }
}

impl fmt::Debug for FreeSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FreeSpace")
    }
}

#[cfg(target_os = "linux")]
fn free_space(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(target_os = "linux"))]
fn free_space(_: &Path) -> io::Result<u64> {
    Ok(u64::MAX)
}

/// Returns the bytes of disk space that compacting a file may use. Compaction moves pages towards the start
/// of the file, where it may have holes, and writes a few pages before it frees others.
pub(crate) fn bytes_to_compact(path: &Path) -> io::Result<u64> {
    let file = std::fs::File::open(path)?;
    Ok(holes(&file)? + MARGIN_BYTES.max(file.metadata()?.len() / 64))
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
    /// As `Write`; creates a missing store.
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
            options
                .read(true)
                .write(writes)
                .create(writes)
                .truncate(false);
            let file = owner_only(&mut options).open(path)?;
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
pub(crate) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}
