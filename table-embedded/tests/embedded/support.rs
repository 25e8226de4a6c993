//! Helpers for the tests of this store.

use std::path::PathBuf;

use table_core::model::{ETag, Entity, Key, TableName};
use table_core::store::{GroupTransaction, Operation, TableStore};
use table_embedded::EmbeddedStore;
use tempfile::TempDir;

/// A directory for a store, removed at the end.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("store")
    }

    /// Returns the path of the file that holds the tables.
    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("tables.redb")
    }

    pub(crate) fn other(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) async fn open(&self) -> EmbeddedStore {
        EmbeddedStore::open(self.path()).await.unwrap()
    }
}

pub(crate) fn name(text: &str) -> TableName {
    TableName::new(text).unwrap()
}

pub(crate) fn entity(partition: &str, row: &str) -> Entity {
    Entity::new(partition, row).unwrap().with("Value", row)
}

pub(crate) fn key(partition: &str, row: &str) -> Key {
    Key::new(partition, row).unwrap()
}

pub(crate) async fn insert(store: &EmbeddedStore, table: &TableName, row: &str) -> ETag {
    let written = store
        .write(table, Operation::Insert(entity("p", row)))
        .await
        .unwrap();
    written.etag.unwrap()
}

/// Inserts rows `from..to`, 100 per group.
pub(crate) async fn fill(store: &EmbeddedStore, table: &TableName, from: usize, to: usize) {
    for start in (from..to).step_by(100) {
        let partition = table_core::model::PartitionKey::new("p").unwrap();
        let mut group = GroupTransaction::new(partition, store.profile());
        for n in start..to.min(start + 100) {
            let wide = entity("p", &format!("{n:07}")).with("Filler", "x".repeat(300).as_str());
            group.push(Operation::Insert(wide)).unwrap();
        }
        store.transact(table, group).await.unwrap();
    }
}

/// Returns the number of entities of a table, read page by page.
pub(crate) async fn count(store: &EmbeddedStore, table: &TableName) -> usize {
    use table_core::query::Query;
    let (mut count, mut from) = (0, None);
    loop {
        let page = store
            .query(table, &Query::new(), from.as_ref())
            .await
            .unwrap()
            .into_page()
            .unwrap();
        count += page.items.len();
        from = page.continuation;
        if from.is_none() {
            return count;
        }
    }
}
