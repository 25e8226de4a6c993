use std::fmt::Debug;
use std::sync::Arc;

use table_core::model::{ETag, Entity, Key, PartitionKey, Properties, TableName, ValueRef};
use table_core::query::{Continuation, Page, Query, ReadablePage};
use table_core::store::{
    Error, GroupTransaction, KeyOrder, Operation, Outcome, Result, TableStore, TableStoreExt,
    Written,
};

/// A table of one behaviour, with methods that expect success.
#[derive(Clone, Debug)]
pub struct TestTable {
    store: Arc<dyn TableStore>,
    name: TableName,
}

impl TestTable {
    pub(crate) const fn new(store: Arc<dyn TableStore>, name: TableName) -> Self {
        Self { store, name }
    }

    /// The table's name.
    pub const fn name(&self) -> &TableName {
        &self.name
    }

    /// The store of the table.
    pub const fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    /// Sends one write.
    pub async fn write(&self, operation: Operation) -> Result<Written> {
        self.store.write(&self.name, operation).await
    }

    /// Sends a write that must succeed, and returns the ETag.
    pub async fn put(&self, operation: Operation) -> ETag {
        let label = format!("{} of {}", operation.kind(), operation.key());
        match self.write(operation).await {
            Ok(written) => written
                .etag
                .unwrap_or_else(|| panic!("{label}: no etag in the answer")),
            Err(e) => panic!("{label}: {e}"),
        }
    }

    /// Inserts an entity, which must succeed.
    pub async fn insert(&self, entity: Entity) -> ETag {
        self.put(Operation::Insert(entity)).await
    }

    /// Inserts entities in groups of the maximum size, which must succeed.
    pub async fn load(&self, partition: &str, entities: impl IntoIterator<Item = Entity>) {
        let mut group = self.group(partition);
        for entity in entities {
            let operation = Operation::Insert(entity);
            if !group.fits(&operation) {
                let full = std::mem::replace(&mut group, self.group(partition));
                self.store
                    .transact(&self.name, full)
                    .await
                    .expect("a group of inserts");
            }
            group.push(operation).expect("it fits");
        }
        self.store
            .transact(&self.name, group)
            .await
            .expect("a group of inserts");
    }

    /// Returns the entity, if it exists.
    pub async fn get(&self, key: &Key) -> Option<Entity> {
        let read = self.store.get(&self.name, key, None).await;
        read.unwrap_or_else(|e| panic!("get of {key}: {e}"))
    }

    /// Returns the entity, which must exist.
    pub async fn existing(&self, key: &Key) -> Entity {
        self.get(key)
            .await
            .unwrap_or_else(|| panic!("{key} is missing"))
    }

    /// Returns an empty group.
    pub fn group(&self, partition: &str) -> GroupTransaction {
        let partition = PartitionKey::new(partition).expect("a legal key");
        GroupTransaction::new(partition, self.store.profile())
    }

    /// Sends a group transaction of these operations, which must fit into one group.
    pub async fn transact(
        &self,
        partition: &str,
        operations: Vec<Operation>,
    ) -> Result<Vec<Written>> {
        let mut group = self.group(partition);
        operations
            .into_iter()
            .for_each(|op| group.push(op).expect("an operation that fits the group"));
        self.store.transact(&self.name, group).await
    }

    /// Reads one page.
    pub async fn page(&self, query: &Query, from: Option<&Continuation>) -> Page<Entity> {
        let found = self.store.query(&self.name, query, from).await;
        let page = found.and_then(ReadablePage::into_page);
        page.unwrap_or_else(|e| panic!("page of {query:?}: {e}"))
    }

    /// Returns all matching entities in the order of keys.
    pub async fn all(&self, query: &Query) -> Vec<Entity> {
        let found = self.store.query_all(&self.name, query).await;
        let mut found = found.unwrap_or_else(|e| panic!("{query:?}: {e}"));
        if self.store.profile().order == KeyOrder::Unsorted {
            found.sort_by(|a, b| a.key().cmp(b.key()));
        }
        found
    }

    /// Returns the keys of all matching entities in the order of the query.
    pub async fn keys(&self, query: &Query) -> Vec<Key> {
        self.all(query)
            .await
            .iter()
            .map(|e| e.key().clone())
            .collect()
    }
}

/// Returns the error of an operation, and asserts that it says "not applied".
#[track_caller]
pub(super) fn refused<T: Debug>(result: Result<T>) -> Error {
    let error = result.expect_err("the operation must be refused");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    error
}

pub(super) fn key(partition: &str, row: &str) -> Key {
    Key::new(partition, row).expect("a legal key")
}

pub(super) fn entity(partition: &str, row: &str) -> Entity {
    Entity::from(key(partition, row))
}

/// Asserts that two property lists hold the same values, in any order. Doubles are compared by their bits.
#[track_caller]
pub(crate) fn assert_same(found: &Properties, expected: &Properties) {
    assert_eq!(comparable(found), comparable(expected));
}

fn comparable(properties: &Properties) -> Vec<(&str, String, bool)> {
    let text = |value| match value {
        ValueRef::Double(v) => format!("Double bits {:x}", v.to_bits()),
        other => format!("{other:?}"),
    };
    let mut all: Vec<_> = properties
        .iter()
        .map(|p| (p.name(), text(p.value()), p.is_encrypted()))
        .collect();
    all.sort_unstable();
    all
}
