use std::time::Duration;

use super::*;
use crate::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use crate::memory::MemoryStore;
use crate::model::{Entity, Key, PartitionKey, TableName};
use crate::query::{AccessPath, Query};
use crate::store::{GroupTransaction, Operation, OperationKind, ServiceProfile, TableStore};

fn table() -> TableName {
    TableName::new("Employees").unwrap()
}

fn insert(row: &str) -> Operation {
    Operation::Insert(Entity::new("Sales", row).unwrap())
}

async fn metered() -> Metered<MemoryStore> {
    let store = Metered::new(MemoryStore::new(), RequestMeter::new());
    store.create_table(&table()).await.unwrap();
    store.meter().reset();
    store
}

#[tokio::test]
async fn every_operation_counts_once() {
    let store = metered().await;
    let other = TableName::new("Other").unwrap();
    store.create_table(&other).await.unwrap();
    store.list_tables(None, None).await.unwrap();
    store.write(&table(), insert("a")).await.unwrap();
    store
        .get(&table(), &Key::new("Sales", "a").unwrap(), None)
        .await
        .unwrap();
    store
        .query(&table(), &Query::new(), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    let mut group =
        GroupTransaction::new(PartitionKey::new("Sales").unwrap(), &ServiceProfile::LOCAL);
    group.push(insert("b")).unwrap();
    group.push(insert("c")).unwrap();
    store.transact(&table(), group).await.unwrap();
    store.delete_table(&other).await.unwrap();

    let counts = store.meter().snapshot();
    assert_eq!(counts.total(), 7);
    assert!(
        counts
            .iter()
            .all(|(_, count)| count.requests == 1 && count.failed == 0)
    );
    assert_eq!(
        counts.sum(|r| r.kind == OperationKind::Transact).entities,
        2
    );
    assert_eq!(
        counts.sum(|r| r.kind == OperationKind::ListTables).entities,
        2
    );
    assert_eq!(counts.of_path(AccessPath::Point), 1);
    assert_eq!(counts.costliest_path(), Some(Query::new().access_path()));
    assert_eq!(counts.of_table(&TableName::new("employees").unwrap()), 4);
}

#[tokio::test]
async fn failed_attempts_count() {
    let store = metered().await;
    store.write(&table(), insert("a")).await.unwrap();
    store.write(&table(), insert("a")).await.unwrap_err();
    let count = store.meter().snapshot().sum(|_| true);
    assert_eq!(
        count,
        Count {
            requests: 2,
            failed: 1,
            entities: 1
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_counts() {
    let faults = FaultInjector::new(0);
    faults.script([Some(Fault::Delay(Duration::from_secs(60)))]);
    let store = Metered::new(Faulty::new(MemoryStore::new(), faults), RequestMeter::new());
    let cancelled =
        tokio::time::timeout(Duration::from_secs(1), store.create_table(&table())).await;
    assert!(cancelled.is_err());
    let count = store.meter().snapshot().sum(|_| true);
    assert_eq!(
        count,
        Count {
            requests: 1,
            failed: 0,
            entities: 0
        }
    );
}

#[tokio::test]
async fn a_block_is_measured_separately() {
    let store = metered().await;
    store.write(&table(), insert("a")).await.unwrap();
    let (_, cost) = store
        .meter()
        .measure(store.write(&table(), insert("b")))
        .await;
    assert_eq!(cost.total(), 1);
    assert_eq!(store.meter().total(), 2);
    let (_, cost) = store.meter().measure(async {}).await;
    assert_eq!(cost, RequestCounts::default());
}

#[tokio::test]
async fn prints_as_a_table() {
    let store = metered().await;
    store.write(&table(), insert("a")).await.unwrap();
    store.list_tables(None, None).await.unwrap();
    let expected = "\
table      operation    access path  requests  failed  entities
-          list_tables  -                   1       0         1
Employees  insert       -                   1       0         1
";
    assert_eq!(store.meter().snapshot().to_string(), expected);
}

/// Two requests, then three at the same time, then one.
#[tokio::test(start_paused = true)]
async fn requests_at_the_same_time_are_one_round_trip() {
    let faults = FaultInjector::new(0);
    let slow = Faulty::new(MemoryStore::new(), faults.clone());
    let store = Metered::new(slow, RequestMeter::new());
    store.create_table(&table()).await.unwrap();
    faults.add(FaultRule::new(Fault::Delay(Duration::from_millis(10))));
    let get = async |row: &str| {
        store
            .get(&table(), &Key::new("Sales", row).unwrap(), None)
            .await
            .unwrap()
    };
    let (_, cost) = store
        .meter()
        .measure(async {
            get("a").await;
            get("b").await;
            tokio::join!(get("c"), get("d"), get("e"));
            get("f").await;
        })
        .await;
    assert_eq!(cost.total(), 6);
    assert_eq!(cost.round_trips(), 4);
    let chained = async {
        get("a").await;
        get("b").await;
    };
    let (_, cost) = store
        .meter()
        .measure(async { tokio::join!(chained, get("c")) })
        .await;
    assert_eq!(cost.total(), 3);
    assert_eq!(cost.round_trips(), 2);
    store.meter().reset();
    assert_eq!(store.meter().snapshot().round_trips(), 0);
    get("a").await;
    assert_eq!(store.meter().snapshot().round_trips(), 1);
}

/// A request that was cancelled has ended: the next one follows it.
#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_a_round_trip() {
    let faults = FaultInjector::new(0);
    faults.script([Some(Fault::Delay(Duration::from_secs(60)))]);
    let store = Metered::new(Faulty::new(MemoryStore::new(), faults), RequestMeter::new());
    let cancelled =
        tokio::time::timeout(Duration::from_secs(1), store.create_table(&table())).await;
    assert!(cancelled.is_err());
    store.create_table(&table()).await.unwrap();
    assert_eq!(store.meter().snapshot().round_trips(), 2);
}
