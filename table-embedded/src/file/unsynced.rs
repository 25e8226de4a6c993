use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use super::page::PAGE;

/// Contents of the file `lock` from a failed sync until all unsynced pages are on the disk.
const MARK: &[u8] = b"unsynced";
/// Maximum number of separate ranges. Beyond that, ranges are merged.
const MAX_RANGES: usize = 4096;
const CHUNK_BYTES: u64 = 1 << 20;

/// The ranges of the file that were written since the last successful sync.
///
/// After a failed sync, the operating system's cache is not reliable: it may hold pages that never reached
/// the disk and that no later sync writes (Linux marks them clean). Therefore these ranges are written again
/// from the cache, and are trusted only after a successful sync. Then cache and disk agree, and recovery
/// decides by checksums what is in the file. Descriptors and processes share the cache, so reopening the file
/// is not enough: a mark in the file `lock` informs later processes.
///
/// <https://wiki.postgresql.org/wiki/Fsync_Errors>
#[derive(Debug)]
pub(crate) struct Unsynced {
    ranges: Mutex<Vec<(u64, u64)>>,
    /// Whether an earlier process ended without closing the file and may have left unsynced writes.
    unclean: AtomicBool,
    /// The file `lock`.
    mark: Option<File>,
}

impl Unsynced {
    /// Creates the state for a directory with this `lock` file.
    pub(super) fn new(lock: Option<File>) -> Self {
        let unsynced = Self {
            ranges: Mutex::default(),
            unclean: AtomicBool::new(false),
            mark: lock,
        };
        if unsynced.is_marked() {
            unsynced.add_all();
        }
        unsynced
    }

    /// Whether an earlier process left pages that may not be on the disk.
    pub(super) fn is_marked(&self) -> bool {
        let Some(mut mark) = self.mark.as_ref() else {
            return false;
        };
        let mut text = Vec::new();
        let read = mark
            .seek(SeekFrom::Start(0))
            .and_then(|_| mark.take(MARK.len() as u64).read_to_end(&mut text));
        // What cannot be read may be a mark: then the pages are written again, which costs time and nothing else.
        read.is_err() || text == MARK
    }

    pub(super) fn add(&self, at: u64, len: usize) {
        let end = at + len as u64;
        let mut ranges = self.ranges();
        match ranges.last_mut() {
            Some(last) if last.0 <= at && at <= last.1 => last.1 = last.1.max(end),
            _ => ranges.push((at, end)),
        }
        // One range over all is right too: it only writes more bytes again.
        if ranges.len() > MAX_RANGES {
            let all = ranges.iter().fold((at, end), |all, range| {
                (all.0.min(range.0), all.1.max(range.1))
            });
            *ranges = vec![all];
        }
    }

    fn add_all(&self) {
        *self.ranges() = vec![(0, u64::MAX)];
    }

    /// Records that an earlier process did not close the file, so its synced ranges are unknown.
    pub(super) fn set_unclean(&self) {
        self.unclean.store(true, Ordering::Relaxed);
    }

    /// Records a successful sync.
    pub(super) fn clear(&self) {
        self.unclean.store(false, Ordering::Relaxed);
        self.ranges().clear();
    }

    /// Records a failed sync.
    pub(super) fn mark(&self) {
        // An earlier process may have left unsynced pages outside the ranges of this process. A successful sync would have covered
        // them; this one did not.
        if self.unclean.load(Ordering::Relaxed) {
            self.add_all();
        }
        if let Err(error) = self.write_mark(MARK) {
            tracing::error!(%error, "cannot record the failed sync for later processes");
        }
    }

    fn write_mark(&self, text: &[u8]) -> io::Result<()> {
        let Some(mut mark) = self.mark.as_ref() else {
            return Ok(());
        };
        // Without a sync: the mark is for later processes of the same system, which share its cache. A restart of the machine may lose
        // the mark, but it also empties the cache, and reads then come from the disk.
        mark.seek(SeekFrom::Start(0))?;
        mark.write_all(text)?;
        mark.set_len(text.len() as u64)
    }

    /// Writes the unsynced ranges again, with the contents of the cache, and syncs them.
    ///
    /// # Errors
    /// The disk still fails. Nothing read from the file is reliable then.
    pub(super) fn write_again(&self, file: &dyn StorageBackend) -> io::Result<()> {
        let ranges = self.ranges().clone();
        if ranges.is_empty() {
            return Ok(());
        }
        let len = file.len()?;
        let mut bytes = Vec::new();
        for (from, to) in ranges {
            let (mut at, to) = (
                from - from % PAGE,
                to.div_ceil(PAGE).saturating_mul(PAGE).min(len),
            );
            while at < to {
                bytes.resize((to - at).min(CHUNK_BYTES) as usize, 0);
                file.read(at, &mut bytes)?;
                file.write(at, &bytes)?;
                at += bytes.len() as u64;
            }
        }
        file.sync_data().inspect_err(|_| self.mark())?;
        self.clear();
        // Last, so that a process that ends before this point leaves the mark to the next.
        self.write_mark(b"")
    }

    fn ranges(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
