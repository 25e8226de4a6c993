//! Migrations and rotations while writers continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use table_core::model::{Entity, ValueRef};
use table_core::query::Query;
use table_core::store::Operation;
use table_encryption::{Description, Keys, LegacyV1};
use tokio::task::JoinHandle;

use super::{HEADER, TableViews, kek, key, keys};
use crate::{Harness, TestTable};

const PEOPLE: i32 = 60;

fn person(n: i32) -> Entity {
    Entity::from(key("Sales", &format!("{n:03}")))
        .with("NationalId", format!("id{n}"))
        .with("Visits", 0)
}

async fn fill(table: &TestTable, people: impl Iterator<Item = i32>) {
    table.load("Sales", people.map(person)).await;
}

/// Counts visits of random people until `stop` is set. Returns the number of counted visits.
fn visitors(table: &TestTable, stop: &Arc<AtomicBool>) -> JoinHandle<i32> {
    let (table, stop) = (table.clone(), Arc::clone(stop));
    tokio::spawn(async move {
        let mut visits = 0;
        while !stop.load(SeqCst) || visits == 0 {
            let at = person(fastrand::i32(0..PEOPLE));
            let read = table.existing(at.key()).await;
            let Some(ValueRef::Int32(seen)) = read.get("Visits") else {
                panic!("{read:?}")
            };
            let version = read.etag().expect("a version").into();
            match table
                .write(Operation::Replace(read.with("Visits", seen + 1), version))
                .await
            {
                Ok(_) => visits += 1,
                Err(e) => assert!(e.is_precondition_failed(), "{e}"),
            }
        }
        visits
    })
}

/// Asserts that every value is readable and that every visit was counted.
async fn assert_whole(table: &TableViews, visits: i32) {
    let mut counted = 0;
    for (n, entity) in table.clear.all(&Query::new()).await.into_iter().enumerate() {
        let id = entity.properties().find("NationalId").expect("an id");
        assert!(id.is_encrypted());
        assert_eq!(id.value(), ValueRef::String(&format!("id{n}")));
        let Some(ValueRef::Int32(visits)) = entity.get("Visits") else {
            panic!("{entity:?}")
        };
        counted += visits;
    }
    assert_eq!(counted, visits);
}

/// At the end every value is encrypted, and no write is lost.
pub(crate) async fn plaintext_is_migrated_while_writers_continue(harness: &Harness) {
    let raw = harness.table().await;
    fill(&raw, 0..PEOPLE).await;
    let table = TableViews::over(raw, keys(), |b, t| {
        b.encrypt(t, ["NationalId"]).accept_plaintext(t)
    });
    let stop = Arc::new(AtomicBool::new(false));
    let writers = visitors(&table.clear, &stop);
    let done = table
        .store
        .migration(table.raw.name())
        .with_page_size(7)
        .run()
        .await
        .expect("a migration");
    stop.store(true, SeqCst);
    let visits = writers.await.expect("visits");
    assert_eq!(done.read, PEOPLE as u64);
    let strict = TableViews::over(table.raw.clone(), keys(), |b, t| {
        b.encrypt(t, ["NationalId"]).require_encryption(t)
    });
    assert_whole(&strict, visits).await;
}

/// At the end every header is under the new key, and no write is lost.
pub(crate) async fn keys_are_rotated_while_writers_continue(harness: &Harness) {
    let raw = harness.table().await;
    let old = TableViews::over(raw, Keys::new(kek(1)), |b, t| b.encrypt(t, ["NationalId"]));
    fill(&old.clear, 0..PEOPLE).await;
    let both = TableViews::over(
        old.raw.clone(),
        Keys::new(kek(2)).with_key(kek(1)),
        |b, t| b.encrypt(t, ["NationalId"]),
    );
    let stop = Arc::new(AtomicBool::new(false));
    let writers = visitors(&both.clear, &stop);
    let done = both
        .store
        .rotation(both.raw.name())
        .with_page_size(7)
        .run()
        .await
        .expect("a rotation");
    stop.store(true, SeqCst);
    let visits = writers.await.expect("visits");
    assert_eq!(done.read, PEOPLE as u64);
    let new = TableViews::over(old.raw.clone(), Keys::new(kek(2)), |b, t| {
        b.encrypt(t, ["NationalId"])
    });
    assert_whole(&new, visits).await;
}

/// At the end the legacy key is not needed, and its metadata is gone.
pub(crate) async fn legacy_data_is_migrated(harness: &Harness) {
    let raw = harness.table().await;
    let legacy = || LegacyV1::new(Keys::new(kek(9)));
    let old = TableViews::over(raw, keys(), |b, t| {
        b.encrypt(t, ["NationalId"])
            .with_legacy_v1(legacy().write_insecurely_for_interoperability(t))
    });
    fill(&old.clear, 0..20).await;
    let described = old
        .store
        .describe(old.raw.name(), person(3).key())
        .await
        .expect("metadata");
    assert!(matches!(described, Some(Description::V1 { key_id, .. }) if key_id == "kek9"));
    assert!(
        old.raw
            .existing(person(3).key())
            .await
            .get(HEADER)
            .is_none()
    );
    let both = TableViews::over(old.raw.clone(), keys(), |b, t| {
        b.encrypt(t, ["NationalId"])
            .with_legacy_v1(legacy().read(t))
    });
    assert_whole(&both, 0).await;
    let done = both
        .store
        .migration(both.raw.name())
        .run()
        .await
        .expect("a migration");
    assert_eq!(done.read, 20);
    assert_eq!(done.changed, 20);
    let new = TableViews::over(old.raw.clone(), keys(), |b, t| {
        b.encrypt(t, ["NationalId"]).require_encryption(t)
    });
    assert_whole(&new, 0).await;
    assert_eq!(
        new.raw.existing(person(3).key()).await.properties().len(),
        3
    );
}
