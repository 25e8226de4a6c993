//! A change feed: numbered without gaps under concurrent writers, complete after faults.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::join_all;
use table_core::adapter::Faulty;
use table_core::prelude::*;
use table_core::store::{Error, Outcome, Result};
use table_patterns::changes::{Change, ChangeHandler, ChangeKind, ChangeTable};

use crate::Harness;
use crate::fault_runs::{FaultRun, run_with_faults};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
struct Order {
    #[partition_key]
    customer: String,
    #[row_key(format = "order_{:04}")]
    number: u32,
    paid: bool,
}

fn order(number: u32) -> Order {
    Order {
        customer: "ann".to_owned(),
        number,
        paid: false,
    }
}

fn key(number: u32) -> EntityKey<Order> {
    Order::key("ann", number).expect("a legal key")
}

fn ann() -> PartitionKey {
    PartitionKey::new("ann").expect("a legal key")
}

fn open(store: Arc<dyn TableStore>, table: &TableName) -> ChangeTable<Order> {
    ChangeTable::new(store, table.clone())
        .expect("a table")
        .with_attempts(100)
}

#[derive(Default)]
struct Collected(Mutex<Vec<Change>>);

#[async_trait]
impl ChangeHandler for Collected {
    async fn handle(&self, change: &Change) -> Result<()> {
        self.0.lock().expect("no panic").push(change.clone());
        Ok(())
    }
}

/// Writers of one partition get numbers without gaps, and a consumer gets them in order.
pub(super) async fn concurrent_writers_are_numbered_without_gaps(harness: &Harness) {
    let table = harness.unused_name();
    open(harness.store().clone(), &table)
        .create_if_missing()
        .await
        .expect("a new table");
    let writers = (0..4u32).map(|writer| {
        let orders = open(harness.store().clone(), &table);
        async move {
            for number in 0..5 {
                orders
                    .insert(&order(writer * 10 + number))
                    .await
                    .expect("a new order");
            }
        }
    });
    join_all(writers).await;
    let orders = open(harness.store().clone(), &table);
    let pay = |order: &mut Order| {
        order.paid = true;
        Ok(())
    };
    orders.update(key(0), pay).await.expect("the order");
    orders
        .delete(key(1), IfMatch::Any)
        .await
        .expect("the order");
    let collected = Collected::default();
    let consumer = orders.changes().consumer("it's 100%").with_batch(7);
    assert_eq!(
        consumer.run_once(&collected).await.expect("a run").changes,
        22
    );
    let changes = collected.0.into_inner().expect("no panic");
    let numbers: Vec<i64> = changes.iter().map(|change| change.number).collect();
    assert_eq!(numbers, (1..=22).collect::<Vec<_>>());
    assert_eq!(changes[20].kind, ChangeKind::Updated);
    assert_eq!(&changes[20].key, key(0).key());
    assert_eq!(changes[21].kind, ChangeKind::Deleted);
    assert_eq!(&changes[21].key, key(1).key());
    assert_eq!(
        orders.query().count().await.expect("an answer"),
        19,
        "rows of the feed are no entities"
    );
}

/// With a fault at any request, a change exists exactly if its write took effect, and a consumer gets every change.
pub(super) async fn changes_agree_with_writes_after_faults(harness: &Harness) {
    let run = async |run: &FaultRun<'_>| {
        let table = harness.unused_name();
        let plain = open(harness.store().clone(), &table);
        plain.create_if_missing().await.expect("a new table");
        plain.insert(&order(1)).await.expect("a new order");
        let orders = open(
            Arc::new(Faulty::new(harness.store().clone(), run.faults.clone())),
            &table,
        );
        let pay = |order: &mut Order| {
            order.paid = true;
            Ok(())
        };
        run.begin();
        let done: [Result<(), Error>; 3] = [
            orders.insert(&order(2)).await.map(drop),
            orders.update(key(1), pay).await.map(drop),
            orders.delete(key(2), IfMatch::Any).await,
        ];
        run.end();
        let changes = plain.changes().after(&ann(), 1).await.expect("the changes");
        let has = |number: u32, kind: ChangeKind| {
            changes
                .iter()
                .filter(|change| change.key == *key(number).key() && change.kind == kind)
                .count()
        };
        let found = [
            (has(2, ChangeKind::Inserted), &done[0]),
            (has(1, ChangeKind::Updated), &done[1]),
            (has(2, ChangeKind::Deleted), &done[2]),
        ];
        for (count, done) in found {
            match done.as_ref().map_err(Error::outcome) {
                Ok(()) | Err(Outcome::Applied) => assert_eq!(count, 1, "{run}: {done:?}"),
                Err(Outcome::NotApplied) => assert_eq!(count, 0, "{run}: {done:?}"),
                Err(Outcome::Ambiguous) => assert!(count <= 1, "{run}: {done:?}"),
            }
        }
        let is_there = plain.get(key(2)).await.expect("an answer").is_some();
        let (inserted, deleted) = (has(2, ChangeKind::Inserted), has(2, ChangeKind::Deleted));
        assert_eq!(
            is_there,
            inserted > deleted,
            "{run}: the entity agrees with its changes"
        );
        let paid = plain.get_existing(key(1)).await.expect("the order").paid;
        assert_eq!(
            paid,
            has(1, ChangeKind::Updated) == 1,
            "{run}: the entity agrees with its changes"
        );

        // The next write goes on with the next number.
        plain.upsert(&order(3)).await.expect("a write");
        let numbers = plain.changes().after(&ann(), 0).await.expect("the changes");
        let numbers: Vec<i64> = numbers.iter().map(|change| change.number).collect();
        assert_eq!(
            numbers,
            (1..=numbers.len() as i64).collect::<Vec<_>>(),
            "{run}"
        );
    };
    run_with_faults(harness, "writes with changes", run).await;
}

/// Rows that another program has written into a feed end the delivery in their partition, with an error that names the row. The changes
/// before them are delivered, and the other partitions go on.
pub(super) async fn planted_rows_end_the_delivery_before_them(harness: &Harness) {
    let table = harness.unused_name();
    let orders = open(harness.store().clone(), &table);
    orders.create_if_missing().await.expect("a new table");
    let of = |customer: &str, number| Order {
        customer: customer.to_owned(),
        number,
        paid: false,
    };
    for customer in ["ann", "bob", "cat", "dan"] {
        orders.insert(&of(customer, 1)).await.expect("a new order");
    }
    let row = |partition: &str, row: &str| Entity::new(partition, row).expect("a legal key");
    let last = "~~changes~9223372036854775807";
    let planted = [
        row("ann", last)
            .with("Kind", "written")
            .with("Row", "order_0001"),
        row("bob", "~~changes~0000000000000000007")
            .with("Kind", "written")
            .with("Row", "order_0001"),
        row("cat", "~~changes").with("Next", i64::MIN),
    ];
    for row in planted {
        harness
            .store()
            .write(&table, Operation::InsertOrReplace(row))
            .await
            .expect("a planted row");
    }
    let collected = Collected::default();
    let consumer = orders.changes().consumer("mail");
    let done = consumer.run_once(&collected).await.expect("partitions");
    let mut failed: Vec<_> = done
        .failed
        .iter()
        .map(|(key, error)| (key.as_str(), error.to_string()))
        .collect();
    failed.sort();
    let count = || collected.0.lock().expect("no panic").len();
    assert_eq!(count(), 3, "{failed:?}");
    assert_eq!(
        failed.iter().map(|(key, _)| *key).collect::<Vec<_>>(),
        ["ann", "bob", "cat"]
    );
    assert!(failed[0].1.contains(last), "{failed:?}");
    assert!(
        failed[1].1.contains("~~changes~0000000000000000007"),
        "{failed:?}"
    );
    assert!(failed[2].1.contains("Next"), "{failed:?}");
    let again = consumer.run_once(&collected).await.expect("partitions");
    assert_eq!(
        (count(), again.failed.len()),
        (3, 3),
        "no change is delivered twice"
    );
}
