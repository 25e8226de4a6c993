//! What a failing disk does to the store: operations whose outcome is unknown say so, and the store works
//! again as soon as the disk does. And what the store writes to a sound one.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redb::StorageBackend;
use redb::backends::FileBackend;
use table_core::model::{Entity, Key, PartitionKey, TableName, ValueRef};
use table_core::store::{ErrorKind, GroupTransaction, Operation, Result, TableStore, Written};
use tempfile::TempDir;

use crate::file::Opener;
use crate::{Durability, EmbeddedStore};

/// What the disk does.
#[derive(Debug, Default)]
struct Disk {
    fault: AtomicU8,
    syncs: AtomicUsize,
    /// Bytes written since the last sync.
    written: AtomicUsize,
    /// Bytes written up to each sync.
    commits: Mutex<Vec<usize>>,
}

const SOUND: u8 = 0;
const SYNCS_FAIL: u8 = 1;
const WRITES_FAIL: u8 = 2;
const WRITES_PANIC: u8 = 3;
const SYNCS_WAIT: u8 = 4;

impl Disk {
    fn set(&self, fault: u8) {
        self.fault.store(fault, Ordering::SeqCst);
    }

    fn is(&self, fault: u8) -> bool {
        self.fault.load(Ordering::SeqCst) == fault
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: FileBackend,
    disk: Arc<Disk>,
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.disk.is(SYNCS_FAIL) {
            return Err(io::Error::other("the disk is gone"));
        }
        while self.disk.is(SYNCS_WAIT) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.disk.syncs.fetch_add(1, Ordering::SeqCst);
        let written = self.disk.written.swap(0, Ordering::SeqCst);
        self.disk.commits.lock().unwrap().push(written);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        assert!(!self.disk.is(WRITES_PANIC), "the test makes the engine panic");
        if self.disk.is(WRITES_FAIL) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.disk.written.fetch_add(data.len(), Ordering::SeqCst);
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

struct Fixture {
    store: EmbeddedStore,
    disk: Arc<Disk>,
    table: TableName,
    directory: TempDir,
}

async fn open(directory: &Path, disk: &Arc<Disk>, durability: Durability) -> EmbeddedStore {
    let disk = Arc::clone(disk);
    let mut builder = EmbeddedStore::builder(directory).durability(durability);
    builder.config.file.opener = Opener(Arc::new(move |path| {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let file = FileBackend::new(file).map_err(io::Error::other)?;
        Ok(Box::new(FaultyFile { file, disk: Arc::clone(&disk) }))
    }));
    builder.open().await.unwrap()
}

impl Fixture {
    async fn new(durability: Durability) -> Self {
        let (directory, disk) = (tempfile::tempdir().unwrap(), Arc::new(Disk::default()));
        let store = open(directory.path(), &disk, durability).await;
        let table = TableName::new("Things").unwrap();
        store.create_table(&table).await.unwrap();
        Self { store, disk, table, directory }
    }

    /// A store of this many rows, just opened: it writes nothing of its own accord.
    async fn with_rows(rows: usize) -> Self {
        let mut fixture = Self::new(Durability::Relaxed).await;
        for first in (0..rows).step_by(100) {
            let mut group = GroupTransaction::new(PartitionKey::new("p").unwrap(), fixture.store.profile());
            for n in first..rows.min(first + 100) {
                let entity =
                    Entity::new("p", format!("{n:06}")).unwrap().with("Text", "x".repeat(100).as_str());
                group.push(Operation::Insert(entity)).unwrap();
            }
            fixture.store.transact(&fixture.table, group).await.unwrap();
        }
        fixture.store.close().await.unwrap();
        fixture.store = open(fixture.directory.path(), &fixture.disk, Durability::Immediate).await;
        fixture
    }

    async fn insert(&self, row: &str) -> Result<Written> {
        // A name of its own: a lost write must not take along what later rows refer to.
        let entity = Entity::new("p", row).unwrap().with(row, row);
        self.store.write(&self.table, Operation::Insert(entity)).await
    }

    async fn exists(&self, row: &str) -> Result<bool> {
        let key = Key::new("p", row).unwrap();
        let found = self.store.get(&self.table, &key, None).await?;
        assert!(found.as_ref().is_none_or(|entity| entity.get(row) == Some(ValueRef::String(row))));
        Ok(found.is_some())
    }

    /// Writes until a write succeeds; fails after ten seconds of errors.
    async fn insert_until_it_works(&self, row: &str) -> Written {
        for _ in 0..1000 {
            match self.insert(row).await {
                Ok(written) => return written,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("the store did not recover");
    }
}

/// Whatever happens to one write, those before are there and those after work.
async fn survives(fault: u8) {
    let fixture = Fixture::new(Durability::Immediate).await;
    let before = fixture.insert("before").await.unwrap();

    fixture.disk.set(fault);
    let error = fixture.insert("during").await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(matches!(error.kind(), ErrorKind::Storage(_)), "{error:?}");
    // The store is reopened while the fault lasts, and again.
    tokio::time::sleep(Duration::from_millis(100)).await;

    fixture.disk.set(SOUND);
    let after = fixture.insert_until_it_works("after").await;
    assert_ne!(before.etag, after.etag);
    assert!(fixture.exists("before").await.unwrap());
    assert!(fixture.exists("after").await.unwrap());
    // Either is right, but it must be decided: a second insert agrees with what is read.
    let during = fixture.exists("during").await.unwrap();
    assert_eq!(fixture.insert("during").await.is_err(), during);
    fixture.store.close().await.unwrap();
}

#[tokio::test]
async fn a_failed_sync_is_ambiguous_and_survived() {
    survives(SYNCS_FAIL).await;
}

#[tokio::test]
async fn a_full_disk_is_ambiguous_and_survived() {
    survives(WRITES_FAIL).await;
}

#[tokio::test]
async fn a_panic_of_the_engine_is_ambiguous_and_survived() {
    survives(WRITES_PANIC).await;
}

#[tokio::test]
async fn while_the_disk_fails_writes_after_the_first_are_known_not_to_be_applied() {
    let fixture = Fixture::new(Durability::Immediate).await;
    fixture.insert("before").await.unwrap();
    fixture.disk.set(SYNCS_FAIL);
    assert!(fixture.insert("first").await.unwrap_err().is_ambiguous());
    let error = fixture.insert("second").await.unwrap_err();
    assert!(!error.is_ambiguous(), "{error}");

    fixture.disk.set(SOUND);
    fixture.insert_until_it_works("after").await;
    assert!(!fixture.exists("second").await.unwrap());
}

#[tokio::test]
async fn relaxed_writes_reach_the_disk_without_being_asked() {
    let fixture = Fixture::new(Durability::Relaxed).await;
    fixture.insert("first").await.unwrap();
    let syncs = fixture.disk.syncs.load(Ordering::SeqCst);
    fixture.insert("second").await.unwrap();
    while fixture.disk.syncs.load(Ordering::SeqCst) == syncs {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Who gave a write up may have done something else since.
#[tokio::test]
async fn a_write_that_is_dropped_before_its_turn_is_not_done() {
    let fixture = Fixture::new(Durability::Immediate).await;
    fixture.disk.set(SYNCS_WAIT);
    let first = fixture.insert("first");
    let second = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let second = tokio::time::timeout(Duration::from_millis(50), fixture.insert("second")).await;
        fixture.disk.set(SOUND);
        second
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_ok() && second.is_err());
    fixture.insert("third").await.unwrap();
    assert!(!fixture.exists("second").await.unwrap());
}

/// The rows are removed after the answer, in commits of bounded size.
#[tokio::test]
async fn dropping_a_table_of_any_size_is_one_small_commit() {
    const SMALL: usize = 128 << 10;
    for rows in [10, 10_000] {
        let fixture = Fixture::with_rows(rows).await;
        let commits = fixture.disk.commits.lock().unwrap().len();
        fixture.store.delete_table(&fixture.table).await.unwrap();
        let written: usize = fixture.disk.commits.lock().unwrap()[commits..].iter().sum();
        assert!(written > 0 && written < SMALL, "{written} bytes for {rows} rows");
        fixture.store.create_table(&fixture.table).await.unwrap();
        assert!(!fixture.exists("000001").await.unwrap());
    }
}
