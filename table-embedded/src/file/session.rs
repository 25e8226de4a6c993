use std::collections::HashSet;
use std::fmt;
use std::io;
use std::ops::Bound;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use super::overlay::Overlay;
use super::page::{self, Header, PAGE, PageRef};
use super::sums::{Expected, Sums};
use super::unsynced::Unsynced;

/// The file as the engine has it open.
///
/// - While it is opened, changes are held in memory: what turns out to be foreign or damaged is then still as it was. They
///   are written by [`release`](Self::release).
/// - After a write or sync that failed, changes are held again, for good, and the engine is not told: it would refuse to read, too. So
///   what is open goes on being read, as it was before the failed commit, until the file has been opened anew. Whoever commits asks for the
///   [`failure`](Self::failure).
/// - The header is written last before a sync. Before it, nothing of a commit is in effect.
/// - Every page that is read is compared with its checksum, which the page has that refers to it. What differs never reaches the
///   engine: reading it unwinds with [`Unreadable`], also where the disk fails.
#[derive(Clone, Debug)]
pub(crate) struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: Box<dyn StorageBackend>,
    locks: Locks,
    unsynced: Arc<Unsynced>,
    /// Whether changes other than of the header reach the file.
    passing: AtomicBool,
    checking: AtomicBool,
    held: Mutex<Held>,
    sums: Mutex<Sums>,
    opening: Mutex<Opening>,
}

#[derive(Debug)]
struct Held {
    changes: Overlay,
    /// The length of the file as the engine sees it.
    len: u64,
    failure: Option<WriteFailure>,
    /// Whether the file may have the header of a commit that is not known to be on the disk.
    header_is_out: bool,
    /// Whether the engine is told of failures.
    strict: bool,
}

/// Why nothing can be written any more.
#[derive(Clone, Debug)]
pub(crate) struct WriteFailure {
    pub(crate) error: Arc<io::Error>,
    /// Whether the commit that failed may be in effect.
    pub(crate) may_be_applied: bool,
}

/// Whether there is no room for what was to be written.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// What reading unwinds with where a page is damaged or the disk cannot read it.
#[derive(Debug)]
pub(crate) struct Unreadable;

/// What the engine read before pages were checked: it keeps these pages in its cache.
#[derive(Debug, Default)]
struct Opening {
    read: HashSet<u64>,
    /// Whether the engine checks the checksums of all pages itself: then branches alone are noted, which refer to others.
    scans: bool,
}

/// What becomes of the locks that the engine takes on the file.
#[derive(Debug)]
enum Locks {
    Take,
    /// Whoever reads alone has the lock of the directory.
    Skip,
    /// They are taken later: the session before still has them.
    Later(Mutex<Vec<(Bound<u64>, Bound<u64>)>>),
}

/// Whose locks a session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    Take,
    Skip,
    Later,
}

impl Session {
    /// The file with its changes held.
    pub(super) fn new(
        file: Box<dyn StorageBackend>,
        unsynced: Arc<Unsynced>,
        locks: LockMode,
    ) -> io::Result<Self> {
        let len = file.len()?;
        let locks = match locks {
            LockMode::Take => Locks::Take,
            LockMode::Skip => Locks::Skip,
            LockMode::Later => Locks::Later(Mutex::default()),
        };
        let held =
            Held { changes: Overlay::default(), len, failure: None, header_is_out: false, strict: false };
        Ok(Self(Arc::new(Inner {
            file,
            locks,
            unsynced,
            passing: AtomicBool::new(false),
            checking: AtomicBool::new(false),
            held: Mutex::new(held),
            sums: Mutex::default(),
            opening: Mutex::default(),
        })))
    }

    /// Writes the changes that are held; later ones pass through.
    pub(crate) fn release(&self) -> io::Result<()> {
        let inner = &self.0;
        let mut held = inner.held();
        let released = inner.write_held(&mut held);
        match &released {
            Ok(()) => inner.passing.store(true, Ordering::Release),
            Err(error) => inner.fail(&mut held, error),
        }
        released
    }

    /// Takes the locks that were left for later.
    pub(crate) fn take_locks(&self) -> io::Result<()> {
        let Locks::Later(ranges) = &self.0.locks else { return Ok(()) };
        for (start, end) in lock(ranges).iter() {
            match self.0.file.try_lock_range(*start, *end) {
                Ok(true) | Err(BackendError::Unsupported) => {}
                Ok(false) => return Err(io::ErrorKind::ResourceBusy.into()),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(())
    }

    /// Notes that the engine compares all pages with their checksums.
    pub(super) fn engine_scans(&self) {
        lock(&self.0.opening).scans = true;
    }

    /// Has pages checked from now on. What the engine has in its cache already is checked first; whether it is sound.
    pub(super) fn check_pages(&self) -> io::Result<bool> {
        let read = std::mem::take(&mut *lock(&self.0.opening)).read;
        let mut header = vec![0; PAGE as usize];
        self.0.read_held(0, &mut header)?;
        let Some(header) = Header::parse(&header) else { return Ok(false) };
        lock(&self.0.sums).header = Some(header);
        let mut pages: Vec<PageRef> = header.roots.into_iter().flatten().collect();
        while let Some(page) = pages.pop() {
            lock(&self.0.sums).learn(&page);
            // Also what the engine has written meanwhile. Leaves of definitions lead to other pages, as branches do: they are few.
            let met = read.contains(&page.at) || self.0.held().changes.touches(page.at, page.len());
            if !met && !page.kind.has_definitions() {
                continue;
            }
            let mut bytes = vec![0; page.len()];
            self.0.read_held(page.at, &mut bytes)?;
            if page::sum(&bytes, page.kind) != Some(page.sum) {
                return Ok(false);
            }
            let Some(references) = header.references(&bytes, page.kind) else { return Ok(false) };
            pages.extend(references);
        }
        self.0.checking.store(true, Ordering::Release);
        Ok(true)
    }

    /// Reads the file as it is, or as it will be: no page is checked.
    pub(crate) fn read_unchecked(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        if at >= PAGE && self.0.passing.load(Ordering::Acquire) {
            return self.0.file.read(at, out);
        }
        self.0.read_held(at, out)
    }

    /// Why nothing can be written any more, if so.
    pub(crate) fn failure(&self) -> Option<WriteFailure> {
        self.0.held().failure.clone()
    }

    /// Holds all changes from now on: the engine's state is not to be relied upon.
    pub(crate) fn give_up(&self) {
        let mut held = self.0.held();
        self.0.fail(&mut held, &io::Error::other("the engine failed"));
    }

    /// Whether the engine is told of failures, and refuses all that comes later, instead of being read from as it was.
    pub(crate) fn set_strict(&self, strict: bool) {
        self.0.held().strict = strict;
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }

    /// Makes the changes that are held, the header last.
    fn write_held(&self, held: &mut Held) -> io::Result<()> {
        let changed = self.file.len()? != held.len;
        if changed {
            self.file.set_len(held.len)?;
        }
        if !changed && held.changes.is_empty() {
            return Ok(());
        }
        let (header, pages): (Vec<_>, Vec<_>) = held.changes.iter().partition(|(at, _)| *at < PAGE);
        for part in [pages, header] {
            for (at, bytes) in &part {
                self.unsynced.add(*at, bytes.len());
                self.file.write(*at, bytes)?;
                if *at >= PAGE {
                    lock(&self.sums).written(*at, bytes);
                }
            }
            self.file.sync_data().inspect_err(|_| self.unsynced.mark())?;
        }
        self.unsynced.clear();
        held.changes.clear();
        Ok(())
    }

    fn fail(&self, held: &mut Held, error: &io::Error) {
        self.passing.store(false, Ordering::Release);
        if held.failure.is_none() {
            let may_be_applied = held.header_is_out;
            let error = Arc::new(io::Error::new(error.kind(), error.to_string()));
            tracing::error!(%error, may_be_applied, "the file cannot be written any more");
            held.failure = Some(WriteFailure { error, may_be_applied });
        }
    }

    /// Makes a change, or holds it.
    fn change(
        &self,
        held: &mut Held,
        make: impl FnOnce(&Self, &mut Held) -> io::Result<()>,
        hold: impl FnOnce(&mut Held),
    ) -> io::Result<()> {
        if self.passing.load(Ordering::Acquire) {
            match make(self, held) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    self.fail(held, &error);
                    if held.strict {
                        return Err(error);
                    }
                }
            }
        }
        hold(held);
        Ok(())
    }

    fn sync(&self, held: &mut Held) -> io::Result<()> {
        for (at, bytes) in held.changes.iter() {
            held.header_is_out = true;
            self.unsynced.add(at, bytes.len());
            self.file.write(at, bytes)?;
        }
        self.file.sync_data().inspect_err(|_| self.unsynced.mark())?;
        self.unsynced.clear();
        held.changes.clear();
        held.header_is_out = false;
        Ok(())
    }

    /// Reads the file as it will be.
    fn read_held(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let held = self.held();
        if at.saturating_add(out.len() as u64) > held.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let real = self.file.len()?.saturating_sub(at);
        let real = usize::try_from(real).unwrap_or(usize::MAX).min(out.len());
        self.file.read(at, &mut out[..real])?;
        out[real..].fill(0);
        held.changes.show(at, out);
        Ok(())
    }

    fn note_opening(&self, at: u64, bytes: &[u8]) {
        let mut opening = lock(&self.opening);
        if !opening.scans || page::is_branch(bytes) {
            opening.read.insert(at);
        }
    }

    /// Reads a page that is compared with its checksum. What differs is read again: the second answer counts.
    fn read_checked(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let passing = self.passing.load(Ordering::Acquire);
        let read = |out: &mut [u8]| if passing { self.file.read(at, out) } else { self.read_held(at, out) };
        let expected = lock(&self.sums).expected(at, out.len());
        let mut sound = read(out).is_ok() && expected.is_met(out);
        if !sound {
            read(out)?;
            sound = expected.is_met(out) || (!passing && self.held().changes.touches(at, out.len()));
        }
        if !sound {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a page does not match its checksum"));
        }
        if let Expected::Page(kind, _) = expected
            && let mut sums = lock(&self.sums)
            && let Some(header) = sums.header
            && let Some(references) = header.references(out, kind)
        {
            references.iter().for_each(|page| sums.learn(page));
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page cannot be read")
    }
}

impl StorageBackend for Session {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.held().len)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = &self.0;
        if at < PAGE || !inner.checking.load(Ordering::Acquire) {
            inner.read_held(at, out)?;
            if at >= PAGE {
                inner.note_opening(at, out);
            }
            return Ok(());
        }
        if let Err(error) = inner.read_checked(at, out) {
            tracing::error!(at, bytes = out.len(), %error, "a page of the file cannot be read");
            // An error would make the engine refuse everything from now on.
            resume_unwind(Box::new(Unreadable));
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut held = self.0.held();
        let make = |inner: &Inner, held: &mut Held| {
            inner.file.set_len(len)?;
            held.len = len;
            Ok(())
        };
        self.0.change(&mut held, make, |held| {
            held.len = len;
            held.changes.truncate(len);
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.change(&mut self.0.held(), Inner::sync, |_| {})
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut held = self.0.held();
        if at < PAGE {
            held.changes.write(at, bytes);
            return Ok(());
        }
        let make = |inner: &Inner, _: &mut Held| {
            inner.unsynced.add(at, bytes.len());
            inner.file.write(at, bytes)?;
            lock(&inner.sums).written(at, bytes);
            Ok(())
        };
        self.0.change(&mut held, make, |held| {
            held.changes.write(at, bytes);
            lock(&self.0.sums).written(at, bytes);
        })
    }

    fn close(&self) -> io::Result<()> {
        self.0.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        match &self.0.locks {
            Locks::Take => self.0.file.try_lock_range(start, end),
            Locks::Skip => Ok(true),
            Locks::Later(ranges) => {
                lock(ranges).push((start, end));
                Ok(true)
            }
        }
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        match &self.0.locks {
            Locks::Take => self.0.file.unlock_range(start, end),
            Locks::Skip => Ok(()),
            Locks::Later(ranges) => {
                lock(ranges).retain(|range| *range != (start, end));
                Ok(())
            }
        }
    }
}
