//! A change feed: numbered without gaps under concurrent writers, complete after faults.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::join_all;
use futures_util::stream;
use table_core::adapter::Faulty;
use table_core::prelude::*;
use table_core::store::{Error, Outcome, Result};
use table_patterns::bulk::BulkTable as _;
use table_patterns::changes::{Change, ChangeHandler, ChangeKind};
use table_patterns::index::ScrubMode;
use table_patterns::{Database, Table};

use super::expiry::World;
use crate::fault_runs::{FaultRun, run_with_faults};
use crate::{Clock, Harness};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase", feed)]
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

async fn open(store: Arc<dyn TableStore>, table: &TableName) -> Table<Order> {
    let orders = Database::new(store)
        .table(table.clone())
        .expect("a table")
        .with_attempts(100);
    orders.declare().await.expect("a table");
    orders
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
    open(harness.store().clone(), &table).await;
    let writers = (0..4u32).map(|writer| {
        let opening = open(harness.store().clone(), &table);
        async move {
            let orders = opening.await;
            for number in 0..5 {
                orders
                    .insert(&order(writer * 10 + number))
                    .await
                    .expect("a new order");
            }
        }
    });
    join_all(writers).await;
    let orders = open(harness.store().clone(), &table).await;
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
        let plain = open(harness.store().clone(), &table).await;
        plain.insert(&order(1)).await.expect("a new order");
        let orders = open(
            Arc::new(Faulty::new(harness.store().clone(), run.faults.clone())),
            &table,
        )
        .await;
        let pay = |order: &mut Order| {
            order.paid = true;
            Ok(())
        };
        run.begin();
        let done: [Result<(), Error>; 3] = [
            orders.insert(&order(2)).await.map(drop),
            orders.update(key(1), pay).await.map(drop),
            orders.delete(key(2), IfMatch::Any).await.map(drop),
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
    let orders = open(harness.store().clone(), &table).await;
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
            .with("Kind", "updated")
            .with("Type", "Order")
            .with("Row", "order_0001"),
        row("bob", "~~changes~0000000000000000007")
            .with("Kind", "updated")
            .with("Type", "Order")
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

/// An entity with everything that a feed meets: entries in its partition and elsewhere, a unique value, a summary, a value in a blob, times.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Note", rename_all = "PascalCase", feed)]
#[index(local, row_key = "local_{title}_{number}")]
#[index(
    title,
    partition_key = "title_{title}",
    row_key = "x",
    unique = "table"
)]
#[index(count, row_key = "count", shape = summary)]
struct Note {
    #[partition_key]
    book: String,
    #[row_key(format = "note_{:04}")]
    number: u32,
    title: String,
    state: i32,
    #[large(over = 8)]
    text: String,
    #[expires]
    until: Option<Ticks>,
    #[deleted_at(keep_days = 7)]
    deleted: Option<Ticks>,
}

fn note(book: &str, number: u32) -> Note {
    Note {
        book: book.to_owned(),
        number,
        title: format!("title {number}"),
        state: 0,
        text: "a long text".to_owned(),
        until: None,
        deleted: None,
    }
}

fn note_key(book: &str, number: u32) -> EntityKey<Note> {
    Note::key(book, number).expect("a legal key")
}

/// Each way to change an entity has its change, in order; what changes no entity has none.
pub(super) async fn every_way_to_write_is_in_the_feed(harness: &Harness) {
    use ChangeKind::{Deleted, Expired, Inserted, SoftDeleted, Updated};
    let world = World::new(harness).await;
    let (clock, notes) = (&world.clock, world.with_blobs::<Note>().await);
    let set = |title: &'static str| {
        move |note: &mut Note| {
            note.title = title.to_owned();
            Ok(())
        }
    };
    let mut expected = Vec::new();
    let mut wrote = |kinds: &[(ChangeKind, u32)]| expected.extend_from_slice(kinds);

    // Single writes.
    notes.insert(&note("a", 1)).await.expect("an insert");
    notes.upsert(&note("a", 2)).await.expect("an insert");
    notes.upsert(&note("a", 2)).await.expect("a replacement");
    let patch = Note::patch().state(1);
    notes
        .merge(note_key("a", 1), &patch, IfMatch::Any)
        .await
        .expect("a merge");
    notes
        .update(note_key("a", 1), set("first"))
        .await
        .expect("an update");
    let mut stored = notes
        .get_existing_stored(note_key("a", 2))
        .await
        .expect("a note");
    notes
        .update_stored(&mut stored, set("second"))
        .await
        .expect("an update");
    notes.delete_stored(&stored).await.expect("a deletion");
    wrote(&[
        (Inserted, 1),
        (Inserted, 2),
        (Updated, 2),
        (Updated, 1),
        (Updated, 1),
        (Updated, 2),
        (Deleted, 2),
    ]);

    // A group, a set, many inserts.
    let a = Note::partition("a").expect("a legal key");
    let mut group = notes.group(&a);
    group.insert(&note("a", 3)).expect("an operation");
    group
        .delete(note_key("a", 1), IfMatch::Any)
        .expect("an operation");
    group.commit().await.expect("a group");
    let retitled = |note: &mut Note| {
        note.title = format!("new {}", note.number);
        Ok(())
    };
    let done = notes.query().partition(&a).update(retitled).await;
    assert_eq!(done.expect("a set").written, 1);
    let many = stream::iter((10..70).map(|n| Note {
        state: 7,
        ..note("a", n)
    }));
    let done = notes.bulk().insert_all(many).await.expect("a result");
    assert_eq!(done.written, 60, "{done:?}");
    wrote(&[(Inserted, 3), (Deleted, 1), (Updated, 3)]);
    wrote(&(10..70).map(|n| (Inserted, n)).collect::<Vec<_>>());
    let done = notes
        .query()
        .partition(&a)
        .filter(Note::STATE.eq(7))
        .delete()
        .await;
    assert_eq!(done.expect("a set").written, 60);
    wrote(&(10..70).map(|n| (Deleted, n)).collect::<Vec<_>>());

    // Moves: within the partition, and out of it with a unique value.
    notes
        .move_to(note_key("a", 3), &notes, note_key("a", 4))
        .await
        .expect("a move");
    notes
        .move_to(note_key("a", 4), &notes, note_key("b", 4))
        .await
        .expect("a move");
    wrote(&[(Deleted, 3), (Inserted, 4), (Deleted, 4)]);

    // What changes no entity: the repair of entries.
    let entities = notes.entities().await.expect("the indexes");
    for index in ["local", "title", "count", "changes"] {
        entities
            .scrub(index, ScrubMode::Repair)
            .await
            .expect("a scrub");
    }

    // Soft deletion, restoration, expiry by a sweep, and by a claim of the unique value.
    notes.insert(&note("a", 5)).await.expect("an insert");
    notes
        .soft_delete(note_key("a", 5))
        .await
        .expect("a soft deletion");
    notes
        .restore(note_key("a", 5))
        .await
        .expect("a restoration");
    let end = Some(clock.now());
    let due = |number| Note {
        until: end,
        ..note("a", number)
    };
    notes.insert(&due(6)).await.expect("an insert");
    notes.insert(&due(7)).await.expect("an insert");
    clock.advance(Clock::DAY);
    let claim = Note {
        title: "title 7".to_owned(),
        ..note("a", 8)
    };
    notes
        .insert(&claim)
        .await
        .expect("the value of an expired note");
    assert_eq!(world.sweep().await.removed, 1);
    wrote(&[
        (Inserted, 5),
        (SoftDeleted, 5),
        (Updated, 5),
        (Inserted, 6),
        (Inserted, 7),
        (Expired, 7),
        (Inserted, 8),
        (Expired, 6),
    ]);

    let changes = notes.changes();
    let found = changes.after(a.partition_key(), 0).await.expect("changes");
    let number = |change: &Change| {
        let row = change.key.row().strip_prefix("note_").expect("a note");
        row.parse::<u32>().expect("a number")
    };
    // Groups of one set, or of one bulk insert, may commit in any order.
    let mut found: Vec<_> = found
        .iter()
        .map(|change| (change.kind, number(change)))
        .collect();
    for range in [10..70, 70..130] {
        found[range].sort_by_key(|(_, number)| *number);
    }
    assert_eq!(found, expected);
    let there = changes
        .after(&PartitionKey::new("b").expect("a legal key"), 0)
        .await
        .expect("changes");
    let there: Vec<_> = there
        .iter()
        .map(|change| (change.kind, number(change), &*change.entity_type))
        .collect();
    assert_eq!(there, [(Inserted, 4, "Note")]);
}
