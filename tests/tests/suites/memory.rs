//! The suite of stores on the memory store, with local limits, with limits of Cosmos DB for Table, and with
//! thousands of tasks.

use std::sync::Arc;

use conformance::{Backend, async_trait, conformance_tests};
use table_core::memory::MemoryStore;
use table_core::model::{EdmValue, Entity, PartitionKey, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{GroupTransaction, Operation, ServiceProfile, TableStore, TableStoreExt};
use tokio::task::JoinSet;

struct Memory(ServiceProfile);

#[async_trait]
impl Backend for Memory {
    async fn store(&self) -> Arc<dyn TableStore> {
        Arc::new(MemoryStore::with_profile(self.0.clone()))
    }
}

mod local {
    use super::*;

    conformance_tests!(Memory(ServiceProfile::LOCAL));
}

mod cosmos {
    use super::*;

    conformance_tests!(Memory(ServiceProfile::COSMOS_TABLE));
}

mod encrypting {
    use super::*;

    conformance_tests!(Memory(ServiceProfile::LOCAL.with_encryption()));
}

/// Five thousand concurrent tasks insert, increment a shared counter, write a group and read. Every row is
/// stored, every increment counts, and no scan sees half a group.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_tasks_lose_no_write() {
    let store = Arc::new(MemoryStore::new());
    let table = TableName::new("Crowd").expect("a legal name");
    store.create_table(&table).await.expect("a new table");
    let mut crowd = JoinSet::new();
    for n in 0..TASKS {
        crowd.spawn(write_and_read(Arc::clone(&store), table.clone(), n));
    }
    crowd.join_all().await;
    let all = store
        .query_all(&table, &Query::new())
        .await
        .expect("a table scan");
    let (counters, rows): (Vec<_>, Vec<_>) = all.iter().partition(|e| e.key().row() == "counter");
    assert_eq!(rows.len(), 3 * TASKS as usize);
    let counted = counters
        .iter()
        .map(|e| e.get("Count").map(|v| v.to_owned()));
    let sum: i32 = counted
        .map(|count| {
            if let Some(EdmValue::Int32(n)) = count {
                n
            } else {
                0
            }
        })
        .sum();
    assert_eq!(sum, TASKS);
}

const TASKS: i32 = 5_000;

/// Inserts a row, increments the counter of its partition, and writes two rows in a group.
async fn write_and_read(store: Arc<MemoryStore>, table: TableName, n: i32) {
    let partition = (n % 50).to_string();
    let entity = |row: String| {
        Entity::new(&partition, row)
            .expect("a legal key")
            .with("N", n)
    };
    store
        .write(&table, Operation::Insert(entity(format!("row{n}"))))
        .await
        .expect("an insert");
    add_one(&store, &table, &partition).await;
    let group = [entity(format!("pair{n}a")), entity(format!("pair{n}b"))].map(Operation::Insert);
    let mut transaction = GroupTransaction::new(
        PartitionKey::new(&*partition).expect("a legal key"),
        store.profile(),
    );
    group
        .into_iter()
        .for_each(|op| transaction.push(op).expect("it fits"));
    store.transact(&table, transaction).await.expect("a group");
    let page = store
        .query(&table, &pairs(&partition), None)
        .await
        .expect("a page")
        .into_page()
        .expect("a page");
    assert!(page.continuation.is_some() || page.items.len().is_multiple_of(2));
}

fn pairs(partition: &str) -> Query {
    let filter = Filter::eq("PartitionKey", partition).and(Filter::starts_with("RowKey", "pair"));
    Query::new().with_filter(filter)
}

async fn add_one(store: &MemoryStore, table: &TableName, partition: &str) {
    let counter = Entity::new(partition, "counter").expect("a legal key");
    loop {
        let read = store.get(table, counter.key(), None).await.expect("a get");
        let attempt = match read {
            None => Operation::Insert(counter.clone().with("Count", 1)),
            Some(read) => {
                let Some(EdmValue::Int32(count)) = read.get("Count").map(|v| v.to_owned()) else {
                    panic!()
                };
                let version = read.etag().expect("a version").into();
                Operation::Replace(counter.clone().with("Count", count + 1), version)
            }
        };
        match store.write(table, attempt).await {
            Ok(_) => return,
            Err(e) => assert!(e.is_precondition_failed() || e.is_already_exists(), "{e}"),
        }
    }
}
