use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redb::StorageBackend;
use redb::backends::FileBackend;

use crate::disk::Opener;

/// A simulated disk with its faults and its writes.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    fault: AtomicU8,
    /// A range of each file that is damaged once the file is open. Not earlier, because debug builds of the
    /// engine check every page when they open a file.
    pub(crate) damaged: Mutex<Option<Range<u64>>>,
    /// Number of syncs that succeed before the fault starts.
    sound_syncs: AtomicUsize,
    pub(crate) opens: AtomicUsize,
    pub(crate) syncs: AtomicUsize,
    /// Number of syncs that are waiting.
    pub(crate) waiting: AtomicUsize,
    /// Bytes written since the last sync.
    written: AtomicUsize,
    /// Bytes written before each sync.
    pub(crate) commits: Mutex<Vec<usize>>,
}

pub(crate) const SOUND: u8 = 0;
pub(crate) const SYNCS_FAIL: u8 = 1;
pub(crate) const WRITES_FAIL: u8 = 2;
pub(crate) const WRITES_PANIC: u8 = 3;
pub(crate) const SYNCS_WAIT: u8 = 4;
/// The file cannot grow; existing bytes can be overwritten.
pub(crate) const FULL: u8 = 5;
pub(crate) const READS_FAIL: u8 = 6;

impl Disk {
    pub(crate) fn set(&self, fault: u8) {
        self.set_after(0, fault);
    }

    /// Sets a fault that starts after this many syncs.
    pub(crate) fn set_after(&self, syncs: usize, fault: u8) {
        self.sound_syncs.store(syncs, Ordering::SeqCst);
        self.fault.store(fault, Ordering::SeqCst);
    }

    pub(crate) fn syncs(&self) -> usize {
        self.syncs.load(Ordering::SeqCst)
    }

    /// Opens a file on this disk.
    pub(crate) fn open(self: &Arc<Self>, path: &Path) -> io::Result<Box<dyn StorageBackend>> {
        self.opens.fetch_add(1, Ordering::SeqCst);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let file = FileBackend::new(file).map_err(io::Error::other)?;
        Ok(Box::new(FaultyFile {
            file,
            disk: Arc::clone(self),
            opened: AtomicBool::default(),
        }))
    }

    pub(crate) fn opener(self: &Arc<Self>) -> Opener {
        let disk = Arc::clone(self);
        Opener(Arc::new(move |path, _| disk.open(path)))
    }

    /// Whether the fault is active.
    pub(crate) fn is(&self, fault: u8) -> bool {
        self.sound_syncs.load(Ordering::SeqCst) == 0 && self.fault.load(Ordering::SeqCst) == fault
    }

    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.is(SYNCS_WAIT) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: FileBackend,
    disk: Arc<Disk>,
    /// Whether the file is known to be sound. Until then, the writes of opening it are held back.
    opened: AtomicBool,
}

impl FaultyFile {
    fn is_damaged(&self, offset: u64, bytes: usize) -> bool {
        let damaged = self.disk.damaged.lock().unwrap();
        let here = |place: &Range<u64>| offset < place.end && place.start < offset + bytes as u64;
        self.opened.load(Ordering::SeqCst) && damaged.as_ref().is_some_and(here)
    }

    fn grow(&self, end: u64) -> io::Result<()> {
        if self.disk.is(FULL) && end > self.file.len()? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.disk.is(READS_FAIL) {
            return Err(io::Error::other("the disk cannot be read"));
        }
        self.file.read(offset, out)?;
        if self.is_damaged(offset, out.len()) {
            out.fill(0xFF);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.grow(len)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.disk.is(SYNCS_FAIL) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.disk.wait();
        let sooner = |syncs: usize| Some(syncs.saturating_sub(1));
        let _ = self
            .disk
            .sound_syncs
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, sooner);
        self.disk.syncs.fetch_add(1, Ordering::SeqCst);
        let written = self.disk.written.swap(0, Ordering::SeqCst);
        self.disk.commits.lock().unwrap().push(written);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        assert!(
            !self.disk.is(WRITES_PANIC),
            "the test makes the engine panic"
        );
        if self.disk.is(WRITES_FAIL) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.grow(offset + data.len() as u64)?;
        self.opened.store(true, Ordering::SeqCst);
        self.disk.written.fetch_add(data.len(), Ordering::SeqCst);
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
