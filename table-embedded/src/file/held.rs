use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

use super::directory::private;
use crate::options::Access;

type Open = dyn Fn(&Path, Access) -> io::Result<Box<dyn StorageBackend>> + Send + Sync;

/// How to get at a file's bytes: the file system, unless a test injects faults.
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

/// A file whose changes are held back in memory until they are [released](Self::release): what turns out to
/// be foreign or damaged is then still as it was.
///
/// Recovery after a crash changes a few pages only, so little is held.
#[derive(Clone, Debug)]
pub(super) struct HeldFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: Box<dyn StorageBackend>,
    /// Whether the engine's locks are taken on the file. Who reads alone has the lock of the directory.
    locks: bool,
    holding: AtomicBool,
    changes: Mutex<Vec<Change>>,
}

enum Change {
    Length(u64),
    Write(u64, Vec<u8>),
    Sync,
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(len) => write!(f, "Length({len})"),
            Self::Write(at, bytes) => write!(f, "Write({at}, {} bytes)", bytes.len()),
            Self::Sync => f.write_str("Sync"),
        }
    }
}

impl HeldFile {
    pub(super) fn new(file: Box<dyn StorageBackend>, access: Access) -> Self {
        let locks = access != Access::Read;
        Self(Arc::new(Inner { file, locks, holding: AtomicBool::new(true), changes: Mutex::default() }))
    }

    /// Makes the changes, in their order with their syncs; later ones pass through.
    pub(super) fn release(&self) -> io::Result<()> {
        let mut changes = self.0.changes();
        for change in changes.drain(..) {
            match change {
                Change::Length(len) => self.0.file.set_len(len)?,
                Change::Write(at, bytes) => self.0.file.write(at, &bytes)?,
                Change::Sync => self.0.file.sync_data()?,
            }
        }
        self.0.holding.store(false, Ordering::Release);
        Ok(())
    }
}

impl Inner {
    fn changes(&self) -> MutexGuard<'_, Vec<Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a change back; `false` if changes pass through.
    fn hold(&self, change: impl FnOnce() -> Change) -> bool {
        let holding = self.holding.load(Ordering::Acquire);
        if holding {
            self.changes().push(change());
        }
        holding
    }

    fn held_len(&self) -> io::Result<u64> {
        let lengths = self.changes().iter().rev().find_map(|change| match change {
            Change::Length(len) => Some(*len),
            _ => None,
        });
        lengths.map_or_else(|| self.file.len(), Ok)
    }

    /// Reads the file as it will be.
    fn read_held(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset.saturating_add(out.len() as u64) > self.held_len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let real = self.file.len()?.saturating_sub(offset);
        let real = usize::try_from(real).unwrap_or(usize::MAX).min(out.len());
        self.file.read(offset, &mut out[..real])?;
        out[real..].fill(0);
        self.changes().iter().for_each(|change| change.show(offset, out));
        Ok(())
    }
}

impl Change {
    /// Applies the change to bytes that were read at `offset`.
    fn show(&self, offset: u64, out: &mut [u8]) {
        let end = offset + out.len() as u64;
        match self {
            Self::Sync => {}
            Self::Length(len) if *len < end => out[len.saturating_sub(offset) as usize..].fill(0),
            Self::Length(_) => {}
            Self::Write(at, bytes) => {
                let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
                if from < to {
                    let source = &bytes[(from - at) as usize..(to - at) as usize];
                    out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
                }
            }
        }
    }
}

impl StorageBackend for HeldFile {
    fn len(&self) -> io::Result<u64> {
        if self.0.holding.load(Ordering::Acquire) { self.0.held_len() } else { self.0.file.len() }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.0.holding.load(Ordering::Acquire) {
            return self.0.read_held(offset, out);
        }
        self.0.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.0.hold(|| Change::Length(len)) { Ok(()) } else { self.0.file.set_len(len) }
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.0.hold(|| Change::Sync) { Ok(()) } else { self.0.file.sync_data() }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.0.hold(|| Change::Write(offset, data.to_vec())) {
            Ok(())
        } else {
            self.0.file.write(offset, data)
        }
    }

    fn close(&self) -> io::Result<()> {
        self.0.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if self.0.locks { self.0.file.try_lock_range(start, end) } else { Ok(true) }
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if self.0.locks { self.0.file.try_lock_shared_range(start, end) } else { Ok(true) }
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.0.locks { self.0.file.lock_range(start, end) } else { Ok(()) }
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.0.locks { self.0.file.lock_shared_range(start, end) } else { Ok(()) }
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.0.locks { self.0.file.unlock_range(start, end) } else { Ok(()) }
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if self.0.locks { self.0.file.query_lock_range(start, end) } else { Ok(false) }
    }
}
