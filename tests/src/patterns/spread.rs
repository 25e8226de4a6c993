//! Spread tables: a logical partition in several buckets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use table_core::model::{ETag, Entity, IfMatch, TableName};
use table_core::query::Query;
use table_core::store::{Operation, TableStore, TableStoreExt as _};
use table_core::typed::{RowPrefix, TableEntity};
use table_patterns::spread::{PartitionWatch, SpreadTable, Watched};
use tokio::task::JoinSet;

use super::log_tail::{declare_index_of_alarms, declare_index_of_any};
use crate::wrappers::InFlightStore;
use crate::{Harness, TestTable};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Event", rename_all = "PascalCase")]
struct Event {
    #[partition_key(spread = 8)]
    day: String,
    #[row_key(format = "e_{:04}")]
    number: u32,
    text: String,
    #[etag]
    etag: Option<ETag>,
}

/// The same type with more buckets.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Event", rename_all = "PascalCase", spread = 12)]
struct Wider {
    #[partition_key]
    day: String,
    #[row_key(format = "e_{:04}")]
    number: u32,
    text: String,
}

fn event(number: u32) -> Event {
    Event {
        day: "it's day 1".to_owned(),
        number,
        text: "t".to_owned(),
        etag: None,
    }
}

/// Returns the rows of a table without those of its manifest.
pub(super) async fn entities(harness: &Harness, table: &TableName) -> Vec<Entity> {
    let mut rows = harness
        .store()
        .query_all(table, &Query::new())
        .await
        .expect("rows");
    rows.retain(|row| !row.key().is_system());
    rows
}

async fn filled(harness: &Harness, count: u32) -> (SpreadTable<Event>, TestTable) {
    let table = harness.table().await;
    let events = SpreadTable::<Event>::new(Arc::clone(harness.store()), table.name().clone())
        .expect("a table");
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let events = events.clone();
        writers.spawn(async move {
            for number in (0..count).filter(|number| number % 4 == writer) {
                events.insert(&event(number)).await.expect("a new event");
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("no panic");
    }
    (events, table)
}

/// Entities are stored in several partitions, and read by key and in order.
pub(crate) async fn a_logical_partition_has_several_buckets(harness: &Harness) {
    let (events, table) = filled(harness, 80).await;
    let stored = entities(harness, table.name()).await;
    let partitions: BTreeSet<_> = stored
        .iter()
        .map(|row| row.key().partition().to_owned())
        .collect();
    assert_eq!(partitions.len(), 8);
    assert!(
        partitions
            .iter()
            .all(|partition| partition.ends_with("_it's day 1"))
    );

    let day = || Event::partition("it's day 1").expect("a key");
    let all: Vec<_> = events
        .query()
        .partition(day())
        .narrow(move |rows| rows.page_size(3))
        .all()
        .await
        .expect("events");
    assert!(all.iter().map(|event| event.number).eq(0..80));
    let range = || RowPrefix::escaped("e_0030")..RowPrefix::escaped("e_0040");
    let first = events
        .query()
        .partition(day())
        .narrow(move |rows| rows.rows(range()))
        .limit(5)
        .all()
        .await
        .expect("events");
    assert!(first.iter().map(|event| event.number).eq(30..35));
    let seven = Event::key("it's day 1", 7u32).expect("a key");
    assert_eq!(
        events
            .get(&seven)
            .await
            .expect("the store works")
            .map(|event| event.number),
        Some(7)
    );
}

/// The buckets of a partition are read concurrently.
pub(crate) async fn buckets_are_read_concurrently(harness: &Harness) {
    let (events, table) = filled(harness, 40).await;
    let in_flight = Arc::new(InFlightStore::new(Arc::clone(harness.store())));
    let store = Arc::clone(&in_flight) as Arc<dyn TableStore>;
    let crowded = SpreadTable::<Event>::new(store, table.name().clone()).expect("a table");
    let day = || Event::partition("it's day 1").expect("a key");
    let all: Vec<Event> = crowded
        .query()
        .partition(day())
        .all()
        .await
        .expect("events");
    assert!(all.iter().map(|event| event.number).eq(0..40));
    assert_eq!(in_flight.max_in_flight(), 8);
    in_flight.reset();
    let three = crowded
        .clone()
        .with_concurrency(3)
        .query()
        .partition(day())
        .count()
        .await;
    assert_eq!(three.expect("events"), 40);
    assert_eq!(in_flight.max_in_flight(), 3);
    let without = crowded
        .query()
        .all()
        .await
        .expect_err("no partition")
        .to_string();
    assert!(without.contains("partition"), "{without}");

    let first = crowded
        .query()
        .partition(day())
        .narrow(move |rows| rows.limit(1))
        .limit(20)
        .all()
        .await
        .expect("events");
    assert_eq!(first.len(), 8, "the smaller limit of a bucket counts");
    assert!(first.is_sorted_by_key(|event| event.number));
    let first = crowded
        .query()
        .partition(day())
        .narrow(move |rows| rows.limit(20))
        .limit(3)
        .all()
        .await
        .expect("events");
    assert!(first.iter().map(|event| event.number).eq(0..3));
    drop(events);
}

/// Versions, conflicts and deletes are the same as in plain tables.
pub(crate) async fn versions_work_as_in_plain_tables(harness: &Harness) {
    let (events, _table) = filled(harness, 4).await;
    let key = Event::key("it's day 1", 2u32).expect("a key");
    let stale = events.get_existing(&key).await.expect("the row exists");
    let upper = |event: &mut Event| {
        event.text.push('!');
        Ok(())
    };
    assert_eq!(
        events
            .update(&key, upper)
            .await
            .expect("no other writer")
            .text,
        "t!"
    );
    assert!(
        events
            .replace(&stale)
            .await
            .is_err_and(|error| error.is_precondition_failed())
    );
    assert!(
        events
            .insert(&stale)
            .await
            .is_err_and(|error| error.is_already_exists())
    );
    for error in [events.insert(&stale).await, events.replace(&stale).await] {
        let error = error
            .expect_err("it is there, in another version")
            .to_string();
        assert!(error.contains("('it''s day 1', 'e_0002')"), "{error}");
    }
    events.upsert(&stale).await.expect("the last writer wins");
    events
        .delete(&key, IfMatch::Any)
        .await
        .expect("the row exists");
    assert!(
        events
            .delete(&key, IfMatch::Any)
            .await
            .is_err_and(|error| error.is_entity_not_found())
    );
}

/// The number of buckets changes. Every entity is found before and after a migration.
pub(crate) async fn the_number_of_buckets_changes(harness: &Harness) {
    let (_events, table) = filled(harness, 60).await;
    let wider = SpreadTable::<Wider>::new(Arc::clone(harness.store()), table.name().clone())
        .expect("a table");
    let wider = wider.with_previous(8);
    let key = |number: u32| Wider::key("it's day 1", number).expect("a key");
    assert!(wider.get(key(3)).await.expect("the store works").is_some());
    let changed = Wider {
        day: "it's day 1".to_owned(),
        number: 3,
        text: "new".to_owned(),
    };
    wider.upsert(&changed).await.expect("the store works");
    wider.migrate().await.expect("a migration");
    assert_eq!(wider.migrate().await.expect("a migration").moved, 0);

    let wider = SpreadTable::<Wider>::new(Arc::clone(harness.store()), table.name().clone())
        .expect("a table");
    let day = Wider::partition("it's day 1").expect("a key");
    let all: Vec<_> = wider.query().partition(day).all().await.expect("events");
    assert!(all.iter().map(|event| event.number).eq(0..60));
    assert_eq!(
        wider
            .get_existing(key(3))
            .await
            .expect("the row exists")
            .text,
        "new"
    );
    let stored = entities(harness, table.name()).await;
    assert_eq!(stored.len(), 60);
}

/// A watch around the store reports the partition that gets all writes, and none once the keys are spread.
pub(crate) async fn the_watch_reports_hot_partitions(harness: &Harness) {
    let watch = PartitionWatch::new(Duration::from_secs(3600));
    let watched: Arc<dyn TableStore> =
        Arc::new(Watched::new(harness.store().clone(), watch.clone()));
    let plain = harness.table().await;
    for number in 0..40 {
        let partition = if number % 8 == 0 {
            "yesterday"
        } else {
            "today"
        };
        let entity = Entity::new(partition, format!("{number:04}")).expect("a key");
        watched
            .write(plain.name(), Operation::Insert(entity))
            .await
            .expect("a new entity");
    }
    let hot = watch.hot(0.5);
    let found: Vec<_> = hot
        .iter()
        .map(|hot| (&hot.table, hot.partition.as_str(), hot.requests))
        .collect();
    assert_eq!(found, [(plain.name(), "today", 35)]);
    assert!(
        hot[0]
            .to_string()
            .contains("`#[partition_key(spread = 16)]`"),
        "{}",
        hot[0]
    );

    let watch = PartitionWatch::new(Duration::from_secs(3600));
    let watched = Arc::new(Watched::new(harness.store().clone(), watch.clone()));
    let table = harness.table().await;
    // The first write registers the type in the manifest, past the watch.
    let first = SpreadTable::<Event>::new(Arc::clone(harness.store()), table.name().clone())
        .expect("a table");
    first.insert(&event(80)).await.expect("a new event");
    let events = SpreadTable::<Event>::new(watched, table.name().clone()).expect("a table");
    for number in 0..80 {
        events.insert(&event(number)).await.expect("a new event");
    }
    assert_eq!(watch.hot(0.3), []);
    assert_eq!(
        watch.hot(0.0).iter().map(|hot| hot.requests).sum::<u64>(),
        80
    );
}

/// Writes succeed if an index is of another type. An index of entities of any type makes the spread table
/// refuse each write without a change.
pub(crate) async fn writes_are_refused_over_an_index_of_any_type(harness: &Harness) {
    let (events, table) = filled(harness, 2).await;
    declare_index_of_alarms(table.store(), table.name()).await;
    events
        .upsert(&event(1))
        .await
        .expect("an index of another type");
    declare_index_of_any(table.store(), table.name()).await;
    let key = |number: u32| Event::key("it's day 1", number).expect("a legal key");
    let refused = [
        events.insert(&event(2)).await.map(drop),
        events.upsert(&event(1)).await.map(drop),
        events
            .update(key(1), |event| {
                event.text.clear();
                Ok(())
            })
            .await
            .map(drop),
        events.delete(key(1), IfMatch::Any).await,
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let error = refused
            .expect_err("an index of any type refuses the append")
            .to_string();
        assert!(error.contains("'amount."), "write {number}: {error}");
    }
    let left = events
        .get(key(1))
        .await
        .expect("an answer")
        .expect("an event");
    assert_eq!(left.text, "t");
    assert_eq!(events.get(key(2)).await.expect("an answer"), None);
}
