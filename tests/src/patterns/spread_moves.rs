//! Spread tables while the number of buckets changes: readers and writers continue, no entity is lost, and no
//! deleted entity returns.

use std::sync::Arc;

use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_core::model::IfMatch;
use table_core::store::{Result, TableStore};
use table_core::typed::{KeyOf, TableEntity};
use table_patterns::spread::SpreadTable;
use tokio::task::JoinSet;

use super::spread::entities;
use crate::wrappers::HookedStore;
use crate::{Harness, TestTable};

const ROWS: u32 = 48;

/// One type of rows with different numbers of buckets.
macro_rules! event {
    ($name:ident, $spread:literal) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        #[entity(type = "Event", rename_all = "PascalCase", spread = $spread)]
        struct $name {
            #[partition_key]
            day: String,
            #[row_key(format = "{:04}")]
            number: u32,
            count: i32,
        }
    };
}

event!(Event, 3);
event!(Wider, 7);

fn event(number: u32) -> Event {
    Event {
        day: "day".to_owned(),
        number,
        count: 0,
    }
}

fn open<T: TableEntity>(store: &Arc<dyn TableStore>, table: &TestTable) -> SpreadTable<T> {
    SpreadTable::new(Arc::clone(store), table.name().clone())
        .expect("a table")
        .with_attempts(100)
}

fn key(number: u32) -> impl KeyOf<Wider> {
    Wider::key("day", number).expect("a key")
}

/// Counts in the rows of this writer by all verbs, and deletes and inserts one of them.
async fn write(events: SpreadTable<Wider>, own: u32) -> Result<()> {
    for number in (0..ROWS).filter(|number| number % 4 == own) {
        let add = |event: &mut Wider| {
            event.count += 1;
            Ok(())
        };
        events.update(key(number), add).await?;
        let mut event = events.get_existing(key(number)).await?;
        event.count += 1;
        events.replace_if(&event, IfMatch::Any).await?;
        event.count += 1;
        events.upsert(&event).await?;
        if number % 3 == 0 {
            events.delete(key(number), IfMatch::Any).await?;
            assert_eq!(events.get(key(number)).await?, None);
            events.insert(&event).await?;
        }
    }
    Ok(())
}

/// Point reads find every row that no writer deletes, and no count decreases.
async fn read(events: SpreadTable<Wider>) -> Result<()> {
    let mut seen = vec![0; ROWS as usize];
    for _ in 0..3 {
        for number in (0..ROWS).filter(|number| number % 3 != 0) {
            let event = events.get_existing(key(number)).await?;
            let seen = &mut seen[number as usize];
            assert!(
                event.count >= *seen,
                "{number}: {} after {seen}",
                event.count
            );
            *seen = event.count;
        }
        let day = Wider::partition("day").expect("a key");
        let all: Vec<Wider> = events.query().partition(day).all().await?;
        assert!(all.windows(2).all(|two| two[0].number < two[1].number));
    }
    Ok(())
}

/// A migration moves all rows while readers and writers run, without an error for any of them.
pub(crate) async fn a_migration_moves_rows_under_readers_and_writers(harness: &Harness) {
    let table = harness.table().await;
    let events = open::<Event>(harness.store(), &table);
    for number in 0..ROWS {
        events.insert(&event(number)).await.expect("a new event");
    }
    let wider = open::<Wider>(harness.store(), &table).with_previous(3);
    let mut others = JoinSet::new();
    for own in 0..4 {
        others.spawn(write(wider.clone(), own));
    }
    others.spawn(read(wider.clone()));
    wider.migrate().await.expect("a migration");
    while let Some(other) = others.join_next().await {
        other
            .expect("no panic")
            .expect("neither readers nor writers fail");
    }
    wider.migrate().await.expect("a migration");

    let day = Wider::partition("day").expect("a key");
    let moved = open::<Wider>(harness.store(), &table);
    let all: Vec<Wider> = moved.query().partition(day).all().await.expect("events");
    assert!(
        all.iter()
            .map(|event| (event.number, event.count))
            .eq((0..ROWS).map(|number| (number, 3)))
    );
    let stored = entities(harness, table.name()).await;
    assert_eq!(stored.len(), ROWS as usize);
}

/// A migration crashes at each of its requests, before each request of a delete. A deleted entity does not
/// return, and an entity whose delete failed is still there.
pub(crate) async fn a_deleted_row_does_not_return_after_a_crashed_migration(harness: &Harness) {
    let mut schedules = 0;
    for point in CrashPoint::ALL {
        for died_at in 1..=4 {
            for request in 1.. {
                if !delete_around(harness, request, died_at, point).await {
                    break;
                }
                schedules += 1;
            }
        }
    }
    assert!(schedules >= 16, "{schedules}");
}

/// Returns whether the delete sends at least `request` requests.
async fn delete_around(harness: &Harness, request: u64, died_at: u64, point: CrashPoint) -> bool {
    let table = harness.table().await;
    // The buckets of this row differ: bucket 2 of 3, and bucket 5 of 7.
    let number = 4;
    open::<Event>(harness.store(), &table)
        .insert(&event(number))
        .await
        .expect("a new event");
    let wider = open::<Wider>(harness.store(), &table)
        .with_previous(3)
        .with_attempts(3);
    let old = open::<Event>(harness.store(), &table)
        .stored_key(Event::key("day", number).expect("a key"));
    assert_ne!(
        old.expect("a key"),
        wider.stored_key(key(number)).expect("a key")
    );

    let faults = FaultInjector::new(1);
    faults.crash_at(died_at, point);
    let faulty: Arc<dyn TableStore> = Arc::new(Faulty::new(Arc::clone(harness.store()), faults));
    let crashing = open::<Wider>(&faulty, &table).with_previous(3);
    let store = HookedStore::before_request(request, Arc::clone(harness.store()), async move {
        crashing.migrate().await.expect_err("the process crashes");
    });
    let store = Arc::new(store);
    let deleter =
        open::<Wider>(&(Arc::clone(&store) as Arc<dyn TableStore>), &table).with_previous(3);
    let deleted = deleter
        .with_attempts(3)
        .delete(key(number), IfMatch::Any)
        .await;

    let then = format!("{point:?} {died_at} before {request}: {deleted:?}");
    let found = wider.get(key(number)).await.expect("the store works");
    assert_eq!(found.is_some(), deleted.is_err(), "{then}");
    wider.migrate().await.expect("a migration");
    let found = wider.get(key(number)).await.expect("the store works");
    assert_eq!(found.is_some(), deleted.is_err(), "{then}");
    if let Err(error) = deleted {
        assert!(error.is_precondition_failed(), "{error}");
        wider
            .delete(key(number), IfMatch::Any)
            .await
            .expect("the entity is moved");
    }
    let stored = entities(harness, table.name()).await;
    assert_eq!(stored.len(), 0, "{then}");
    store.has_run()
}
