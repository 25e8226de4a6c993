//! A disk whose syncs fail, followed by a power loss. After a failed sync the operating system's cache still
//! shows the written data but never writes it. Whatever the store does then, everything that it acknowledged
//! must be in every state that a power loss may leave.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use fastrand::Rng;
use redb::StorageBackend;
use redb::backends::FileBackend;
use table_core::model::{Entity, IfMatch, Key, PartitionKey, ValueRef};
use table_core::query::Query;
use table_core::store::{GroupTransaction, Operation, Outcome, Result, TableStore};

use super::name;
use crate::disk::Opener;
use crate::{EmbeddedBuilder, EmbeddedStore};

const BLOCK: usize = 4096;
const TABLE: &str = "Things";
const ROWS: u32 = 40;

/// The disk below the file; the file acts as its cache.
#[derive(Debug)]
struct Disk {
    /// The contents after a power loss.
    durable: Vec<u8>,
    /// Blocks that differ in the cache and that the operating system will write.
    dirty: BTreeSet<usize>,
    rng: Rng,
    /// Failing syncs in a hundred, and failing writes in a thousand.
    failing: (u32, u32),
    failed_syncs: usize,
    lost_blocks: usize,
}

type Shared = Arc<Mutex<Disk>>;

fn lock(disk: &Shared) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap()
}

#[derive(Debug)]
struct LyingFile {
    cache: FileBackend,
    disk: Shared,
}

fn opener(disk: &Shared) -> Opener {
    let disk = Arc::clone(disk);
    Opener(Arc::new(move |path, _| {
        let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
        let cache = FileBackend::new(file).map_err(io::Error::other)?;
        Ok(Box::new(LyingFile {
            cache,
            disk: Arc::clone(&disk),
        }))
    }))
}

fn resize(bytes: &mut Vec<u8>, block: usize) {
    let end = (block + 1) * BLOCK;
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
}

impl LyingFile {
    fn block(&self, block: usize) -> io::Result<Vec<u8>> {
        let at = (block * BLOCK) as u64;
        let len = self.cache.len()?.saturating_sub(at).min(BLOCK as u64) as usize;
        let mut bytes = vec![0; BLOCK];
        self.cache.read(at, &mut bytes[..len])?;
        Ok(bytes)
    }
}

impl StorageBackend for LyingFile {
    fn len(&self) -> io::Result<u64> {
        self.cache.len()
    }

    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.cache.read(at, out)
    }

    /// The file system journals the length, so it survives.
    fn set_len(&self, len: u64) -> io::Result<()> {
        lock(&self.disk).durable.resize(len as usize, 0);
        self.cache.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = lock(&self.disk);
        let dirty = std::mem::take(&mut disk.dirty);
        let fails = disk.rng.u32(..100) < disk.failing.0;
        for block in dirty {
            // Some blocks of a failed sync have reached the disk. The others count as written, and the cache
            // may drop them.
            if fails && disk.rng.bool() {
                disk.lost_blocks += 1;
                if disk.rng.u8(..4) == 0 {
                    let at = block * BLOCK;
                    let end = (at + BLOCK).min(disk.durable.len()).max(at);
                    self.cache.write(at as u64, &disk.durable[at..end])?;
                }
                continue;
            }
            let bytes = self.block(block)?;
            resize(&mut disk.durable, block);
            disk.durable[block * BLOCK..][..BLOCK].copy_from_slice(&bytes);
        }
        if fails {
            disk.failed_syncs += 1;
            return Err(io::Error::other("the disk lies"));
        }
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = lock(&self.disk);
        let fails = disk.rng.u32(..1000) < disk.failing.1;
        // Sectors are written completely or not at all.
        let data = if fails {
            &data[..data.len() / 1024 * 512]
        } else {
            data
        };
        self.cache.write(at, data)?;
        let (first, last) = (
            at as usize / BLOCK,
            (at as usize + data.len().max(1) - 1) / BLOCK,
        );
        disk.dirty.extend(first..=last);
        if fails {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

/// The possible contents of the file: the values that each row may have; `None` if the row may be missing.
type Model = BTreeMap<String, Vec<Option<i32>>>;

struct Run {
    disk: Shared,
    directory: tempfile::TempDir,
    store: EmbeddedStore,
    model: Model,
    rng: Rng,
    next: i32,
    states: usize,
    acknowledged: usize,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = EmbeddedStore::open(&path).await.unwrap();
        store.create_table(&name(TABLE)).await.unwrap();
        store.close().await.unwrap();
        let disk = Disk {
            durable: fs::read(path.join("tables.redb")).unwrap(),
            dirty: BTreeSet::new(),
            rng: Rng::with_seed(seed),
            failing: (0, 0),
            failed_syncs: 0,
            lost_blocks: 0,
        };
        let disk = Arc::new(Mutex::new(disk));
        let store = Self::builder(&path, &disk).open().await.unwrap();
        let rng = Rng::with_seed(seed);
        let model = Model::new();
        Self {
            disk,
            directory,
            store,
            model,
            rng,
            next: 0,
            states: 0,
            acknowledged: 0,
        }
    }

    fn builder(path: &Path, disk: &Shared) -> EmbeddedBuilder {
        let mut builder = EmbeddedStore::builder(path);
        builder.config.file.opener = opener(disk);
        builder
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// Executes a write or a group, and updates the possible contents.
    async fn write(&mut self) {
        self.next += 1;
        let value = self.next;
        let rows: BTreeSet<_> = (0..self.rng.usize(1..6))
            .map(|_| format!("{:03}", self.rng.u32(..ROWS)))
            .collect();
        let deletes = self.rng.u8(..6) == 0;
        let result = if deletes {
            let key = Key::new("p", rows.first().unwrap()).unwrap();
            self.store
                .write(&name(TABLE), Operation::Delete(key, IfMatch::Any))
                .await
                .map(drop)
        } else {
            self.group(&rows, value).await
        };
        let rows: Vec<_> = if deletes {
            rows.into_iter().take(1).collect()
        } else {
            rows.into_iter().collect()
        };
        let new = (!deletes).then_some(value);
        match result {
            Ok(()) => {
                self.acknowledged += 1;
                self.model
                    .extend(rows.into_iter().map(|row| (row, vec![new])));
            }
            Err(error) if error.is_entity_not_found() => {
                let may = &self
                    .model
                    .entry(rows[0].clone())
                    .or_insert_with(|| vec![None]);
                assert!(may.contains(&None), "{error}");
            }
            Err(error) => {
                assert_ne!(error.outcome(), Outcome::Applied);
                if error.is_ambiguous() {
                    for row in rows {
                        self.model
                            .entry(row)
                            .or_insert_with(|| vec![None])
                            .push(new);
                    }
                }
            }
        }
    }

    async fn group(&self, rows: &BTreeSet<String>, value: i32) -> Result<()> {
        let mut group =
            GroupTransaction::new(PartitionKey::new("p").unwrap(), self.store.profile());
        for row in rows {
            let entity = Entity::new("p", row)
                .unwrap()
                .with("V", value)
                .with("Text", "x".repeat(900).as_str());
            group.push(Operation::InsertOrReplace(entity)).unwrap();
        }
        self.store.transact(&name(TABLE), group).await.map(drop)
    }

    /// Simulates a power loss: the file has an arbitrary subset of the blocks that were still to be written.
    async fn lose_power(&mut self) {
        let mut image = lock(&self.disk).durable.clone();
        let cache = fs::read(self.path().join("tables.redb")).unwrap();
        let dirty = lock(&self.disk).dirty.clone();
        let share = self.rng.u8(..=4);
        for block in dirty {
            if self.rng.u8(..4) < share {
                resize(&mut image, block);
                let end = cache.len().min((block + 1) * BLOCK);
                image[block * BLOCK..end].copy_from_slice(&cache[block * BLOCK..end]);
            }
        }
        image.truncate(cache.len());
        self.check_image(&image).await;
        self.states += 1;
    }

    async fn check_image(&self, image: &[u8]) {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("tables.redb"), image).unwrap();
        let store = EmbeddedStore::open(place.path()).await;
        let store =
            store.unwrap_or_else(|error| panic!("state {} cannot be opened: {error}", self.states));
        self.check(&store).await;
        store.close().await.unwrap();
    }

    async fn check(&self, store: &EmbeddedStore) {
        let page = store
            .query(&name(TABLE), &Query::new(), None)
            .await
            .unwrap()
            .into_page()
            .unwrap();
        assert!(page.continuation.is_none());
        let mut found: BTreeMap<_, _> = page
            .items
            .iter()
            .map(|row| (row.key().row(), row.get("V")))
            .collect();
        for (row, may) in &self.model {
            let value = found.remove(row.as_str()).map(|value| match value {
                Some(ValueRef::Int32(value)) => value,
                other => panic!("{row} is {other:?}"),
            });
            assert!(
                may.contains(&value),
                "state {}: {row} is {value:?}, not one of {may:?}",
                self.states
            );
        }
        assert!(found.is_empty(), "rows that were never written: {found:?}");
    }

    /// Simulates another process, which sees the same unreliable cache.
    async fn restart(&mut self) {
        let _ = self.store.close().await;
        for _ in 0..100 {
            match Self::builder(&self.path(), &self.disk).open().await {
                Ok(store) => {
                    self.store = store;
                    return;
                }
                Err(_) => lock(&self.disk).failing.0 /= 2,
            }
        }
        panic!("the store cannot be opened any more");
    }

    async fn run(&mut self, steps: usize) {
        for step in 0..steps {
            // Faults start and stop.
            if step % 10 == 0 {
                let trouble = [(0, 0), (30, 0), (70, 0), (0, 40), (20, 20)];
                lock(&self.disk).failing = trouble[self.rng.usize(..trouble.len())];
            }
            self.write().await;
            self.check(&self.store).await;
            match self.rng.u8(..12) {
                0..6 => self.lose_power().await,
                6 => self.restart().await,
                7 => tokio::time::sleep(std::time::Duration::from_millis(3)).await,
                _ => {}
            }
        }
        lock(&self.disk).failing = (0, 0);
        self.restart().await;
        self.write().await;
        self.lose_power().await;
    }
}

/// Each seed is one run; a failed run can be repeated by its seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_failed_syncs_and_power_loss() {
    let runs: Vec<_> = (0..14)
        .map(|seed| {
            tokio::spawn(async move {
                let mut run = Run::new(seed).await;
                run.run(100).await;
                let disk = lock(&run.disk);
                (
                    run.states,
                    run.acknowledged,
                    disk.failed_syncs,
                    disk.lost_blocks,
                )
            })
        })
        .collect();
    let (mut states, mut acknowledged, mut failed, mut lost) = (0, 0, 0, 0);
    for run in runs {
        let run = run.await.unwrap();
        states += run.0;
        acknowledged += run.1;
        failed += run.2;
        lost += run.3;
    }
    assert!(states >= 500, "{states} states");
    assert!(
        acknowledged > 300 && failed > 100 && lost > 100,
        "{acknowledged}, {failed}, {lost}"
    );
}
