//! Behaviour on a failing disk: operations with an unknown outcome report it, and the store works again as
//! soon as the disk does. Also what the store writes to a healthy disk.

mod commits;
mod copies;
pub(crate) mod disk;
mod lying;
mod reclaiming;
mod upkeep;
mod verification;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use table_core::model::{Entity, Key, PartitionKey, TableName, ValueRef};
use table_core::store::{GroupTransaction, Operation, Result, TableStore, Written};
use tempfile::TempDir;

use self::disk::Disk;
use crate::disk::Opener;
use crate::{Durability, EmbeddedBuilder, EmbeddedStore};

struct Fixture {
    store: EmbeddedStore,
    disk: Arc<Disk>,
    /// The disk of backups.
    copies: Arc<Disk>,
    /// Options for reopening the store.
    builder: fn(EmbeddedBuilder) -> EmbeddedBuilder,
    table: TableName,
    directory: TempDir,
}

fn name(text: &str) -> TableName {
    TableName::new(text).unwrap()
}

impl Fixture {
    async fn new(durability: Durability) -> Self {
        let (directory, table) = (tempfile::tempdir().unwrap(), name("Things"));
        let (disk, copies) = (Arc::<Disk>::default(), Arc::<Disk>::default());
        let builder = builder(directory.path(), &disk, &copies).durability(durability);
        let store = builder.open().await.unwrap();
        store.create_table(&table).await.unwrap();
        Self {
            store,
            disk,
            copies,
            builder: |builder| builder,
            table,
            directory,
        }
    }

    /// Returns a directory for a backup.
    fn copy(&self) -> PathBuf {
        self.directory.path().join("copy")
    }

    /// Creates a store with this many rows and reopens it, so that it writes nothing without a request.
    async fn with_rows(rows: usize) -> Self {
        let mut fixture = Self::new(Durability::Relaxed).await;
        fixture.fill(&fixture.table, rows).await;
        fixture.store.close().await.unwrap();
        fixture.reopen().await;
        fixture
    }

    async fn reopen(&mut self) {
        let builder = builder(self.directory.path(), &self.disk, &self.copies);
        self.store = (self.builder)(builder).open().await.unwrap();
    }

    async fn fill(&self, table: &TableName, rows: usize) {
        for first in (0..rows).step_by(100) {
            let mut group =
                GroupTransaction::new(PartitionKey::new("p").unwrap(), self.store.profile());
            for n in first..rows.min(first + 100) {
                let entity = Entity::new("p", format!("{n:06}"))
                    .unwrap()
                    .with("Text", "x".repeat(100).as_str());
                group.push(Operation::Insert(entity)).unwrap();
            }
            self.store.transact(table, group).await.unwrap();
        }
    }

    async fn insert(&self, row: &str) -> Result<Written> {
        // A property name of its own, so that a lost write does not affect the dictionary entries of later
        // rows.
        let entity = Entity::new("p", row).unwrap().with(row, row);
        self.store
            .write(&self.table, Operation::Insert(entity))
            .await
    }

    /// Whether the row exists. Asserts that it has the inserted value.
    async fn exists(&self, row: &str) -> Result<bool> {
        let found = self
            .store
            .get(&self.table, &Key::new("p", row).unwrap(), None)
            .await?;
        let filled = |entity: &Entity| entity.get("Text").is_some();
        let inserted = |entity: &Entity| entity.get(row) == Some(ValueRef::String(row));
        assert!(
            found
                .as_ref()
                .is_none_or(|entity| filled(entity) || inserted(entity))
        );
        Ok(found.is_some())
    }

    /// Writes until a write succeeds; panics after ten seconds of errors.
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

/// Returns the builder of a store below the directory, whose backups are on another disk.
fn builder(directory: &Path, disk: &Arc<Disk>, copies: &Arc<Disk>) -> EmbeddedBuilder {
    let store = directory.join("store");
    let mut builder = EmbeddedStore::builder(&store);
    let (disk, copies) = (Arc::clone(disk), Arc::clone(copies));
    builder.config.file.opener = Opener(Arc::new(move |path, _| {
        if path.starts_with(&store) {
            disk.open(path)
        } else {
            copies.open(path)
        }
    }));
    builder
}
