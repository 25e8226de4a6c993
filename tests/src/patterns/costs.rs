//! Requests of each call, as the modules of the patterns document them. This module has the calls that no other
//! module counts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use object_store::ObjectStore;
use table_core::adapter::{Metered, RequestMeter};
use table_core::model::{Entity, IfMatch, Key, PartitionKey, Ticks};
use table_core::query::Filter;
use table_core::store::{Result, TableStore};
use table_core::typed::{Plain, PropertyGroup, TableEntity};
use table_patterns::Database;
use table_patterns::bulk::{BulkOptions, Unchanged, compare_tables, delete_where};
use table_patterns::large::CollectMode;
use table_patterns::log_tail::LogTail;
use table_patterns::series::{DataSeries, Hours};
use table_patterns::time_slices::{Keep, Reuse};
use table_patterns::wide::WideEntities;

use super::counting_blobs::CountingBlobs;
use super::time_slices::{at, fill, login, open};
use crate::Harness;
use crate::wrappers::UnsortedStore;

fn metered(store: Arc<dyn TableStore>) -> (Arc<dyn TableStore>, RequestMeter) {
    let meter = RequestMeter::new();
    (Arc::new(Metered::new(store, meter.clone())), meter)
}

/// Returns the number of requests of a call that succeeds.
async fn cost<T>(meter: &RequestMeter, call: impl Future<Output = Result<T>>) -> u64 {
    let (done, cost) = meter.measure(call).await;
    done.expect("the call works");
    cost.total()
}

fn key() -> Key {
    Key::new("Sales", "empid_000223").expect("a legal key")
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
struct Claim {
    amount: i32,
}

/// Each call of a log is one request. A log that is sorted on the client reads all its rows.
pub(crate) async fn requests_of_logs(harness: &Harness) {
    let table = harness.table().await;
    let (store, meter) = metered(harness.store().clone());
    let ken = || PartitionKey::new("empid_000223").expect("a legal key");
    let log = LogTail::<Claim>::new(store, table.name().clone(), ken()).expect("a log");
    let id = log.new_id();
    assert_eq!(
        cost(&meter, log.append_as(&id, &Claim { amount: 0 })).await,
        1
    );
    for amount in 1..5 {
        assert_eq!(
            cost(
                &meter,
                log.append_at(at("2013-01-15T08:00:00Z"), &Claim { amount })
            )
            .await,
            1
        );
    }
    assert_eq!(cost(&meter, log.get(&id)).await, 1);
    assert_eq!(cost(&meter, log.page(Some(&id), 2)).await, 1);
    assert_eq!(
        cost(&meter, log.since(Ticks::MIN).try_collect::<Vec<_>>()).await,
        1
    );
    assert_eq!(
        cost(
            &meter,
            log.between(Ticks::MIN, Ticks::MAX).try_collect::<Vec<_>>()
        )
        .await,
        1
    );

    let unsorted = UnsortedStore::with_pages_of(2, harness.store().clone());
    let (store, meter) = metered(Arc::new(unsorted));
    let log = LogTail::<Claim>::new(store, table.name().clone(), ken())
        .expect("a log")
        .sorted_on_client();
    assert_eq!(
        cost(&meter, log.latest(1)).await,
        3,
        "five rows in pages of two"
    );
    assert_eq!(cost(&meter, log.get(&id)).await, 1);
}

/// Each call on a series of one row.
pub(crate) async fn requests_of_series(harness: &Harness) {
    let table = harness.table().await;
    let (store, meter) = metered(harness.store().clone());
    let hours =
        DataSeries::<Hours, i32, Plain>::new(store, table.name().clone(), Hours).expect("slots");
    assert_eq!(
        cost(&meter, hours.set_many(&key(), [(1, 1), (2, 2), (3, 3)])).await,
        1
    );
    assert_eq!(cost(&meter, hours.get_slot(&key(), 2)).await, 1);
    assert_eq!(
        cost(
            &meter,
            hours.modify(&key(), 2, |old| Ok(old.unwrap_or(0) + 1))
        )
        .await,
        2
    );
    assert_eq!(cost(&meter, hours.clear(&key(), 1)).await, 2);
    assert_eq!(cost(&meter, hours.delete(&key())).await, 1);
}

/// A wide entity of three rows, replaced and deleted by the version that was read; a query of its partition.
pub(crate) async fn requests_of_wide_entities(harness: &Harness) {
    let table = harness.table().await;
    let (store, meter) = metered(harness.store().clone());
    let wide = WideEntities::new(store, table.name().clone());
    let numbers = |row: &str| {
        let empty = Entity::new("JFK", row).expect("a legal key");
        (0..365).fold(empty, |entity, day| entity.with(&format!("D{day:03}"), day))
    };
    let read = wide.insert(&numbers("2013")).await.expect("a new entity");
    wide.insert(&numbers("2014")).await.expect("a new entity");
    assert_eq!(read.rows(), 3);
    let (replaced, requests) = meter
        .measure(wide.replace_stored(&read, &numbers("2013")))
        .await;
    let replaced = replaced.expect("the version that was read");
    assert_eq!(requests.total(), 1);
    let of_jfk = wide.query().partition(replaced.key().partition_key());
    assert_eq!(cost(&meter, of_jfk.all()).await, 1);
    assert_eq!(cost(&meter, wide.delete_stored(&replaced)).await, 1);
}

/// Time slices with generations: the handle lists the tables before it writes or reads.
pub(crate) async fn requests_of_generations(harness: &Harness) {
    let family = super::time_slices::family(harness);
    let (store, meter) = metered(harness.store().clone());
    let open = || open(store.clone(), &family).with_reuse(Reuse::Generation);
    let logins = open();
    let late = login("ken", "01-31T08:00");
    assert_eq!(
        cost(&meter, logins.insert(&login("ken", "01-14T08:00"))).await,
        3,
        "list, table, row"
    );
    assert_eq!(cost(&meter, logins.insert(&late)).await, 1);
    assert_eq!(
        cost(&meter, open().insert(&login("kim", "01-14T08:00"))).await,
        2,
        "list, row"
    );
    assert_eq!(
        cost(
            &meter,
            logins.get(late.at, late.entity_key().expect("a key"))
        )
        .await,
        2
    );
    fill(&open()).await;
    let (dropped, requests) = meter
        .measure(logins.retain(Keep::Newest(1), at("2013-04-20T00:00:00Z")))
        .await;
    assert_eq!(dropped.expect("slices").len(), 3);
    assert_eq!(requests.total(), 1 + 3);
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Recording {
    #[partition_key]
    day: String,
    #[row_key]
    number: u32,
    #[large(over = 1000)]
    sound: Vec<u8>,
}

/// Large entities: requests to the table and to the blobs. A part of an upload is 8 MiB.
pub(crate) async fn requests_of_large_entities(harness: &Harness) {
    let table = harness.table().await;
    let (store, meter) = metered(harness.store().clone());
    let counted = Arc::new(CountingBlobs::new(harness.blobs().await));
    let blobs = Arc::clone(&counted) as Arc<dyn ObjectStore>;
    let db = Database::new(store).with_blobs(blobs);
    let recordings = db
        .table::<Recording>(table.name().clone())
        .expect("a table");
    let recording = |mib: usize| Recording {
        day: "1".to_owned(),
        number: 1,
        sound: vec![7; mib << 20],
    };
    let key = recording(0).entity_key().expect("a key");

    // The type's row in the manifest, the manifest again, and the entity.
    assert_eq!(cost(&meter, recordings.insert(&recording(1))).await, 3);
    assert_eq!(counted.take(), 1);
    assert_eq!(cost(&meter, recordings.get(&key)).await, 1);
    assert_eq!(counted.take(), 1);
    let large = recording(9);
    let upsert = recordings.upsert(&large);
    assert_eq!(cost(&meter, upsert).await, 2, "two parts; the old blob");
    assert_eq!(counted.take(), 2 + 2 + 1, "two parts; the old blob");
    let pieces = stream::iter(vec![Ok(Bytes::from(vec![1; 1 << 20])); 3]);
    let put = recordings.put_stream(&key, Recording::SOUND, pieces, IfMatch::Any);
    assert_eq!(cost(&meter, put).await, 2);
    assert_eq!(counted.take(), 1 + 1);
    let read = async {
        let read = recordings
            .read_stream(&key, Recording::SOUND)
            .await?
            .expect("a value");
        read.content.try_for_each(|_| async { Ok(()) }).await
    };
    assert_eq!(cost(&meter, read).await, 1);
    assert_eq!(counted.take(), 1);
    assert_eq!(cost(&meter, recordings.scrub_blobs()).await, 1);
    assert_eq!(counted.take(), 1);
    let young = recordings.collect_blobs(Duration::from_secs(7200), CollectMode::Remove);
    assert_eq!(cost(&meter, young).await, 0, "the clock, a page of names");
    assert_eq!(counted.take(), 3 + 1, "the clock, a page of names");
    assert_eq!(cost(&meter, recordings.delete(&key, IfMatch::Any)).await, 2);
    assert_eq!(counted.take(), 1);
}

/// Work on whole tables: a comparison reads the pages of both tables; a deletion writes full groups.
pub(crate) async fn requests_of_bulk_work(harness: &Harness) {
    let (first, second) = (harness.table().await, harness.table().await);
    let rows = |count: u32| {
        let keys = (0..count).map(|row| Key::new("p", format!("{row:04}")).expect("a legal key"));
        keys.map(|key| Entity::from(key).with("A", 1))
            .collect::<Vec<_>>()
    };
    first.load("p", rows(1100)).await;
    second.load("p", rows(900)).await;
    let (store, meter) = metered(harness.store().clone());
    let compared = compare_tables(
        (store.clone(), first.name().clone()),
        (store.clone(), second.name().clone()),
    );
    assert_eq!(cost(&meter, compared).await, 2 + 1);
    let some = Filter::lt(Filter::ROW_KEY, "0250");
    let (name, options) = (second.name(), BulkOptions::default());
    let deleted = delete_where(store, name, some, Unchanged::Required, options);
    assert_eq!(
        cost(&meter, deleted).await,
        1 + 3,
        "a page of keys, the groups"
    );
}
