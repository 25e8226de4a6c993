use std::time::Duration;

use super::*;
use crate::memory::MemoryStore;
use crate::model::{Entity, Key, PartitionKey, TableName};
use crate::query::Query;
use crate::store::{
    ErrorKind, GroupTransaction, Operation, OperationKind, Outcome, ServiceProfile, TableStore,
    TableStoreExt,
};

fn table() -> TableName {
    TableName::new("Employees").unwrap()
}

fn key(row: &str) -> Key {
    Key::new("Sales", row).unwrap()
}

fn insert(row: &str) -> Operation {
    Operation::Insert(Entity::from(key(row)))
}

/// Returns a store with a table whose next requests are number 1, 2, …
async fn faulty(seed: u64) -> Faulty<MemoryStore> {
    let store = MemoryStore::new();
    store.create_table(&table()).await.unwrap();
    Faulty::new(store, FaultInjector::new(seed))
}

async fn has(store: &Faulty<MemoryStore>, row: &str) -> bool {
    store
        .inner()
        .get(&table(), &key(row), None)
        .await
        .unwrap()
        .is_some()
}

#[tokio::test]
async fn faults_before_the_effect_are_not_applied() {
    let busy = Fault::Throttle {
        retry_after: Some(Duration::from_secs(3)),
    };
    for fault in [Fault::FailBefore, busy, Fault::TableBeingDeleted] {
        let store = faulty(0).await;
        store.faults().script([Some(fault)]);
        let error = store.write(&table(), insert("a")).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert!(error.is_transient());
        assert!(!has(&store, "a").await, "{fault:?}");
        assert_eq!(store.faults().injected()[0].fault, fault);
    }
}

#[tokio::test]
async fn a_lost_request_and_a_lost_answer_look_the_same() {
    for (fault, applied) in [(Fault::LoseRequest, false), (Fault::LoseAnswer, true)] {
        let store = faulty(0).await;
        store.faults().script([Some(fault)]);
        let error = store.write(&table(), insert("a")).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "transport: the answer was lost (injected) (the operation may have been applied)"
        );
        assert_eq!(has(&store, "a").await, applied);
    }
}

#[tokio::test]
async fn a_lost_read_is_not_ambiguous() {
    let store = faulty(0).await;
    store
        .faults()
        .script([Some(Fault::LoseAnswer), Some(Fault::LoseRequest)]);
    let error = store.get(&table(), &key("a"), None).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let error = store
        .query(&table(), &Query::new(), None)
        .await
        .unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[tokio::test]
async fn a_late_effect_happens_before_a_later_request() {
    let store = faulty(0).await;
    store
        .faults()
        .script([Some(Fault::LateEffect { requests: 2 })]);
    assert!(
        store
            .write(&table(), insert("a"))
            .await
            .unwrap_err()
            .is_ambiguous()
    );
    assert_eq!(store.get(&table(), &key("a"), None).await.unwrap(), None);
    assert!(
        store
            .get(&table(), &key("a"), None)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_late_group_can_be_settled() {
    let store = faulty(0).await;
    let mut group =
        GroupTransaction::new(PartitionKey::new("Sales").unwrap(), &ServiceProfile::LOCAL);
    group.push(insert("a")).unwrap();
    store
        .faults()
        .script([Some(Fault::LateEffect { requests: 99 })]);
    assert!(
        store
            .transact(&table(), group)
            .await
            .unwrap_err()
            .is_ambiguous()
    );
    assert!(!has(&store, "a").await);
    store.settle().await;
    assert!(has(&store, "a").await);
}

#[tokio::test(start_paused = true)]
async fn delays_are_before_or_after_the_effect() {
    for (fault, applied) in [
        (Fault::Delay(Duration::from_secs(60)), false),
        (Fault::DelayAnswer(Duration::from_secs(60)), true),
    ] {
        let store = faulty(0).await;
        store.faults().script([Some(fault)]);
        let cancelled =
            tokio::time::timeout(Duration::from_secs(1), store.write(&table(), insert("a"))).await;
        assert!(cancelled.is_err());
        assert_eq!(has(&store, "a").await, applied, "{fault:?}");
    }
}

#[tokio::test]
async fn short_pages_lose_nothing() {
    let store = faulty(0).await;
    for row in ["a", "b", "c", "d", "e"] {
        store.write(&table(), insert(row)).await.unwrap();
    }
    store
        .faults()
        .script([2, 0, 1].map(|len| Some(Fault::ShortPage(len))));
    let mut rows = Vec::new();
    let (mut from, mut lens) = (None, Vec::new());
    loop {
        let page = store
            .query(&table(), &Query::new(), from.as_ref())
            .await
            .unwrap()
            .into_page()
            .unwrap();
        lens.push(page.items.len());
        rows.extend(page.items.iter().map(|e| e.key().row().to_owned()));
        from = page.continuation;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(rows, ["a", "b", "c", "d", "e"]);
    assert_eq!(lens, [2, 0, 1, 2]);
}

#[tokio::test]
async fn short_listings_lose_nothing() {
    let store = faulty(0).await;
    for name in ["Beta", "alpha", "Gamma"] {
        store
            .create_table(&TableName::new(name).unwrap())
            .await
            .unwrap();
    }
    store
        .faults()
        .script([1, 0, 2].map(|len| Some(Fault::ShortPage(len))));
    let names = store.all_tables(None).await.unwrap();
    assert_eq!(
        names.iter().map(TableName::as_str).collect::<Vec<_>>(),
        ["alpha", "Beta", "Employees", "Gamma"]
    );
    assert_eq!(store.faults().injected().len(), 3);
}

#[tokio::test]
async fn rules_select_by_kind_table_and_count() {
    let store = faulty(0).await;
    let faults = store.faults().clone();
    let other = TableName::new("Other").unwrap();
    store.create_table(&other).await.unwrap();
    faults.add(
        FaultRule::new(Fault::FailBefore)
            .on(OperationKind::Insert)
            .in_table(table())
            .nth(2),
    );
    faults.add(
        FaultRule::new(Fault::LoseRequest)
            .on(OperationKind::Get)
            .every(2)
            .times(1),
    );
    store.write(&table(), insert("a")).await.unwrap();
    store.write(&other, insert("a")).await.unwrap();
    store.write(&table(), insert("b")).await.unwrap_err();
    store.write(&table(), insert("b")).await.unwrap();
    for failing in [false, true, false, false] {
        assert_eq!(store.get(&table(), &key("a"), None).await.is_err(), failing);
    }
    let injected: Vec<_> = faults
        .injected()
        .iter()
        .map(|i| (i.request, i.kind))
        .collect();
    assert_eq!(
        injected,
        [(4, OperationKind::Insert), (7, OperationKind::Get)]
    );
}

#[tokio::test]
async fn a_seed_determines_the_random_choices() {
    let mut patterns = Vec::new();
    for seed in [1, 1, 2] {
        let store = faulty(seed).await;
        store
            .faults()
            .add(FaultRule::new(Fault::FailBefore).with_probability(0.5));
        let mut pattern = Vec::new();
        for _ in 0..64 {
            pattern.push(store.get(&table(), &key("a"), None).await.is_err());
        }
        patterns.push(pattern);
    }
    assert_eq!(patterns[0], patterns[1]);
    assert_ne!(patterns[0], patterns[2]);
    assert!(patterns[0].contains(&true) && patterns[0].contains(&false));
}

#[tokio::test]
async fn after_a_crash_all_requests_fail_until_healed() {
    for (point, applied) in [(CrashPoint::Before, false), (CrashPoint::After, true)] {
        let store = faulty(0).await;
        store.faults().crash_at(2, point);
        store.write(&table(), insert("a")).await.unwrap();
        assert!(!store.faults().is_crashed());
        let error = store.write(&table(), insert("b")).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Storage(_)) && !error.is_transient());
        assert!(store.faults().is_crashed());
        store.write(&table(), insert("c")).await.unwrap_err();
        store.faults().heal();
        let rows = store.query_all(&table(), &Query::new()).await.unwrap();
        let rows: Vec<_> = rows.iter().map(|e| e.key().row()).collect();
        assert_eq!(
            rows,
            if applied {
                ["a", "b"].as_slice()
            } else {
                &["a"]
            }
        );
    }
}
