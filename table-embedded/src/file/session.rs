use std::collections::HashSet;
use std::io;
use std::ops::Bound;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use super::checksums::{Expected, PageChecksums};
use super::overlay::Overlay;
use super::page::{self, Header, PAGE, PageRef};
use super::unsynced::Unsynced;
use crate::guard::Unreadable;

/// The file as the engine has it open.
///
/// - While the file is being opened, changes stay in memory, so a file that turns out to be foreign or
///   damaged is unchanged. [`release`](Self::release) writes them.
/// - After a failed write or sync, changes stay in memory permanently and the engine gets no error, because
///   it would then refuse reads too. So readers continue with the state before the failed commit until the
///   file has been reopened. The committer must check [`failure`](Self::failure).
/// - The header is written last before a sync. Without it, no part of a commit takes effect.
/// - Every page that is read is compared with the checksum in the page that refers to it. A page that does
///   not match never reaches the engine: the read unwinds with [`Unreadable`], also if the disk fails.
#[derive(Clone, Debug)]
pub(crate) struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: Box<dyn StorageBackend>,
    locks: LockMode,
    /// The ranges to lock later.
    deferred_locks: Mutex<Vec<(Bound<u64>, Bound<u64>)>>,
    unsynced: Arc<Unsynced>,
    /// Whether changes outside the header are written to the file at once.
    writes_through: AtomicBool,
    checking: AtomicBool,
    view: Mutex<EngineView>,
    sums: Mutex<PageChecksums>,
    opening: Mutex<Opening>,
}

/// The file as the engine sees it: what the engine has written, of which a part may not be in the file yet.
#[derive(Debug)]
struct EngineView {
    /// What is not written to the file yet.
    changes: Overlay,
    /// The length of the file as the engine sees it.
    len: u64,
    failure: Option<WriteFailure>,
    /// Whether the file may have the header of a commit that is not known to be on the disk.
    header_may_be_written: bool,
    /// Whether the engine gets errors of failed writes.
    reports_errors: bool,
}

/// Why the file accepts no more writes.
#[derive(Clone, Debug)]
pub(crate) struct WriteFailure {
    pub(crate) error: Arc<io::Error>,
    /// Whether the failed commit may take effect.
    pub(crate) may_be_applied: bool,
}

/// The pages that the engine read before page checks began. They are in the engine's cache.
#[derive(Debug, Default)]
struct Opening {
    read: HashSet<u64>,
    /// Whether the engine verifies the checksums of all pages itself. Then only branches are recorded,
    /// because they refer to other pages.
    scans: bool,
}

/// When a session takes the locks of the file that the engine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// At once.
    Take,
    /// Never: the handles of a read-only store share the lock of the directory.
    Skip,
    /// By [`Session::take_locks`], because the previous session still holds them.
    Later,
}

impl Session {
    /// Opens the file with all changes kept in memory.
    pub(super) fn new(
        file: Box<dyn StorageBackend>,
        unsynced: Arc<Unsynced>,
        locks: LockMode,
    ) -> io::Result<Self> {
        let len = file.len()?;
        let view = EngineView {
            changes: Overlay::default(),
            len,
            failure: None,
            header_may_be_written: false,
            reports_errors: false,
        };
        Ok(Self(Arc::new(Inner {
            file,
            locks,
            deferred_locks: Mutex::default(),
            unsynced,
            writes_through: AtomicBool::new(false),
            checking: AtomicBool::new(false),
            view: Mutex::new(view),
            sums: Mutex::default(),
            opening: Mutex::default(),
        })))
    }

    /// Writes the changes kept in memory. Later changes are written directly.
    pub(crate) fn release(&self) -> io::Result<()> {
        let inner = &self.0;
        let mut view = inner.view();
        let released = inner.write_changes(&mut view);
        match &released {
            Ok(()) => inner.writes_through.store(true, Ordering::Release),
            Err(error) => inner.fail(&mut view, error),
        }
        released
    }

    /// Takes the locks that were deferred.
    pub(crate) fn take_locks(&self) -> io::Result<()> {
        for (start, end) in lock(&self.0.deferred_locks).iter() {
            match self.0.file.try_lock_range(*start, *end) {
                Ok(true) | Err(BackendError::Unsupported) => {}
                Ok(false) => return Err(io::ErrorKind::ResourceBusy.into()),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(())
    }

    /// Records that the engine verifies the checksums of all pages.
    pub(super) fn engine_scans(&self) {
        lock(&self.0.opening).scans = true;
    }

    /// Starts checking pages. First checks the pages in the engine's cache; returns whether they are sound.
    pub(super) fn check_pages(&self) -> io::Result<bool> {
        let read = std::mem::take(&mut *lock(&self.0.opening)).read;
        let mut header = vec![0; PAGE as usize];
        self.0.read_with_overlay(0, &mut header)?;
        let Some(header) = Header::parse(&header) else {
            return Ok(false);
        };
        lock(&self.0.sums).header = Some(header);
        // From the roots down: the checksum of a page is known only from its parent, and a parent is trusted only after its own
        // comparison.
        let mut pages: Vec<PageRef> = header.roots.into_iter().flatten().collect();
        while let Some(page) = pages.pop() {
            lock(&self.0.sums).learn(&page);
            // Includes pages that the engine wrote since then. Leaves of definitions refer to other pages, as
            // branches do; there are few of them.
            let is_cached =
                read.contains(&page.at) || self.0.view().changes.touches(page.at, page.len());
            if !is_cached && !page.kind.has_definitions() {
                continue;
            }
            let mut bytes = vec![0; page.len()];
            self.0.read_with_overlay(page.at, &mut bytes)?;
            if page::sum(&bytes, page.kind) != Some(page.sum) {
                return Ok(false);
            }
            let Some(references) = header.references(&bytes, page.kind) else {
                return Ok(false);
            };
            pages.extend(references);
        }
        self.0.checking.store(true, Ordering::Release);
        Ok(true)
    }

    /// Reads the file, including the changes in memory, without checking pages.
    pub(crate) fn read_unchecked(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        if at >= PAGE && self.0.writes_through.load(Ordering::Acquire) {
            return self.0.file.read(at, out);
        }
        self.0.read_with_overlay(at, out)
    }

    /// Returns why the file accepts no more writes, if so.
    pub(crate) fn failure(&self) -> Option<WriteFailure> {
        self.0.view().failure.clone()
    }

    /// Writes nothing more to the file, because the engine's state is not reliable. Further changes stay in memory.
    pub(crate) fn stop_writing(&self) {
        let mut view = self.0.view();
        self.0
            .fail(&mut view, &io::Error::other("the engine failed"));
    }

    /// Sets whether the engine gets errors of failed writes. It then refuses all later calls, including
    /// reads.
    pub(crate) fn set_reports_errors(&self, reports: bool) {
        self.0.view().reports_errors = reports;
    }
}

impl Inner {
    fn view(&self) -> MutexGuard<'_, EngineView> {
        lock(&self.view)
    }

    /// Writes the changes in memory, the header last.
    fn write_changes(&self, view: &mut EngineView) -> io::Result<()> {
        let changed = self.file.len()? != view.len;
        if changed {
            self.file.set_len(view.len)?;
        }
        if !changed && view.changes.is_empty() {
            return Ok(());
        }
        let (header, pages): (Vec<_>, Vec<_>) = view.changes.iter().partition(|(at, _)| *at < PAGE);
        // Two syncs. A header on the disk before its pages would name a state that is not there.
        for part in [pages, header] {
            for (at, bytes) in &part {
                // Before the write, because a write that fails may have changed a part of the range.
                self.unsynced.add(*at, bytes.len());
                self.file.write(*at, bytes)?;
                if *at >= PAGE {
                    lock(&self.sums).written(*at, bytes);
                }
            }
            self.file
                .sync_data()
                .inspect_err(|_| self.unsynced.mark())?;
        }
        self.unsynced.clear();
        view.changes.clear();
        Ok(())
    }

    fn fail(&self, view: &mut EngineView, error: &io::Error) {
        // First: a write that comes after the failed one must not reach the file.
        self.writes_through.store(false, Ordering::Release);
        // Later failures are consequences of the first. Only at the first does `header_may_be_written` tell the outcome of the commit.
        if view.failure.is_none() {
            let may_be_applied = view.header_may_be_written;
            let error = Arc::new(io::Error::new(error.kind(), error.to_string()));
            tracing::error!(%error, may_be_applied, "the file cannot be written any more");
            view.failure = Some(WriteFailure {
                error,
                may_be_applied,
            });
        }
    }

    /// Writes a change, or keeps it in memory.
    fn change(
        &self,
        view: &mut EngineView,
        write_now: impl FnOnce(&Self, &mut EngineView) -> io::Result<()>,
        keep_in_memory: impl FnOnce(&mut EngineView),
    ) -> io::Result<()> {
        if self.writes_through.load(Ordering::Acquire) {
            match write_now(self, view) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    self.fail(view, &error);
                    if view.reports_errors {
                        return Err(error);
                    }
                }
            }
        }
        // Success, although nothing reached the file: the type says why. The committer asks `failure` and does not acknowledge.
        keep_in_memory(view);
        Ok(())
    }

    fn sync(&self, view: &mut EngineView) -> io::Result<()> {
        // While the file is written directly, only the header is in memory (`write`). From its first byte on, a crash may show
        // the new state, so an error is ambiguous from here.
        //
        // Pages and header share this sync, and a disk may write them in any order, also the header first. Recovery notices: it compares
        // the checksums of the newer commit, and takes the older commit if a page is missing.
        for (at, bytes) in view.changes.iter() {
            view.header_may_be_written = true;
            self.unsynced.add(at, bytes.len());
            self.file.write(at, bytes)?;
        }
        self.file
            .sync_data()
            .inspect_err(|_| self.unsynced.mark())?;
        self.unsynced.clear();
        view.changes.clear();
        view.header_may_be_written = false;
        Ok(())
    }

    /// Reads the file, including the changes in memory.
    fn read_with_overlay(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let view = self.view();
        if at.saturating_add(out.len() as u64) > view.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let real = self.file.len()?.saturating_sub(at);
        let real = usize::try_from(real).unwrap_or(usize::MAX).min(out.len());
        self.file.read(at, &mut out[..real])?;
        // The file may be shorter than the engine believes while a longer length is held in memory.
        out[real..].fill(0);
        view.changes.show(at, out);
        Ok(())
    }

    fn note_opening(&self, at: u64, bytes: &[u8]) {
        let mut opening = lock(&self.opening);
        if !opening.scans || page::is_branch(bytes) {
            opening.read.insert(at);
        }
    }

    /// Reads a page and compares it with its checksum. If it does not match, it is read once more, and the
    /// second result counts.
    fn read_checked(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let writes_through = self.writes_through.load(Ordering::Acquire);
        // While the file is written directly, without the lock of `view`, which a sync holds: reads do not wait for a sync.
        let read = |out: &mut [u8]| {
            if writes_through {
                self.file.read(at, out)
            } else {
                self.read_with_overlay(at, out)
            }
        };
        let expected = lock(&self.sums).expected(at, out.len());
        let mut sound = read(out).is_ok() && expected.is_met(out);
        if !sound {
            // A fault between disk and memory passes with another read; damage on the disk stays. Bytes that are kept in memory come
            // from the engine itself and need no comparison.
            read(out)?;
            sound = expected.is_met(out)
                || (!writes_through && self.view().changes.touches(at, out.len()));
        }
        if !sound {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a page does not match its checksum",
            ));
        }
        // Only a page that matched may say what its children must be. A page that this process wrote refers to pages that it read or
        // wrote before, so nothing is learned from it.
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

impl StorageBackend for Session {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.view().len)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = &self.0;
        if at < PAGE || !inner.checking.load(Ordering::Acquire) {
            inner.read_with_overlay(at, out)?;
            if at >= PAGE {
                inner.note_opening(at, out);
            }
            return Ok(());
        }
        if let Err(error) = inner.read_checked(at, out) {
            tracing::error!(at, bytes = out.len(), %error, "a page of the file cannot be read");
            // An error would make the engine refuse all further calls. `resume_unwind` does not call the panic hook, which would print
            // a message for each damaged page.
            resume_unwind(Box::new(Unreadable));
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut view = self.0.view();
        let write_now = |inner: &Inner, view: &mut EngineView| {
            inner.file.set_len(len)?;
            view.len = len;
            Ok(())
        };
        self.0.change(&mut view, write_now, |view| {
            view.len = len;
            view.changes.truncate(len);
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        // Nothing to keep: the changes stay in memory, and `failure` tells the committer.
        self.0.change(&mut self.0.view(), Inner::sync, |_| {})
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut view = self.0.view();
        if at < PAGE {
            // The header waits for `sync`, which writes it after all pages.
            view.changes.write(at, bytes);
            return Ok(());
        }
        let write_now = |inner: &Inner, _: &mut EngineView| {
            inner.unsynced.add(at, bytes.len());
            inner.file.write(at, bytes)?;
            // After the write: if it fails, the file may still have the old bytes, which the old expectation describes.
            lock(&inner.sums).written(at, bytes);
            Ok(())
        };
        self.0.change(&mut view, write_now, |view| {
            view.changes.write(at, bytes);
            lock(&self.0.sums).written(at, bytes);
        })
    }

    fn close(&self) -> io::Result<()> {
        self.0.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        match self.0.locks {
            LockMode::Take => return self.0.file.try_lock_range(start, end),
            LockMode::Skip => {}
            LockMode::Later => lock(&self.0.deferred_locks).push((start, end)),
        }
        Ok(true)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        match self.0.locks {
            LockMode::Take => return self.0.file.unlock_range(start, end),
            LockMode::Skip => {}
            LockMode::Later => lock(&self.0.deferred_locks).retain(|range| *range != (start, end)),
        }
        Ok(())
    }
}
