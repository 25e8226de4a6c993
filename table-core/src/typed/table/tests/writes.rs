use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use crate::memory::MemoryStore;
use crate::model::{Entity, IfMatch, Key, ValueRef};
use crate::store::{ErrorKind, Operation, OperationKind, TableStore as _};
use crate::typed::{PlainTable, RowPrefix, Schema, TableEntity};

#[tokio::test]
async fn each_write_costs_a_request() {
    let (table, meter) = employees([]).await;
    let mut ken = employee(1, "Ken");
    ken.etag = table.insert(&ken).await.unwrap().etag;
    assert!(table.insert(&ken).await.unwrap_err().is_already_exists());
    ken.etag = table.replace(&ken).await.unwrap().etag;
    ken.etag = table.replace_if(&ken, IfMatch::Any).await.unwrap().etag;
    table.upsert(&ken).await.unwrap();
    assert!(
        table
            .replace(&ken)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    table.insert_or_merge(&ken).await.unwrap();
    assert!(
        table
            .delete_entity(&ken)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    table.delete(key(1), IfMatch::Any).await.unwrap();
    assert!(!table.delete_if_exists(key(1)).await.unwrap());
    assert_eq!(
        meter.total(),
        13,
        "unconditional writes read the type and the version first"
    );
}

#[tokio::test]
async fn a_replace_without_an_etag_is_refused_before_it_is_sent() {
    let (table, meter) = employees([1]).await;
    let error = table.replace(&employee(1, "Ken")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)));
    assert!(error.to_string().contains("replace_if"), "{error}");
    assert!(table.delete_entity(&employee(1, "Ken")).await.is_err());
    assert_eq!(meter.total(), 0);
}

#[tokio::test]
async fn insert_or_merge_keeps_other_properties() {
    let (table, _) = employees([]).await;
    table
        .insert(&Employee {
            age: Some(41),
            ..employee(1, "Ken")
        })
        .await
        .unwrap();
    table
        .insert_or_merge(&employee(1, "Kenneth"))
        .await
        .unwrap();
    let read = table.get_existing(key(1)).await.unwrap();
    assert_eq!(read.name.as_str(), "Kenneth");
    assert_eq!(read.age, Some(41));
    table.upsert(&employee(1, "Ken")).await.unwrap();
    assert_eq!(table.get_existing(key(1)).await.unwrap().age, None);
}

/// A badge in the first version of its schema.
fn old_badge() -> Entity {
    Entity::new("Sales", "badge_000001")
        .unwrap()
        .with("Color", "red")
        .with("Shape", "round")
}

#[tokio::test]
async fn an_upsert_by_merge_crosses_no_schema_version() {
    let (table, meter) = employees([]).await;
    let badges = PlainTable::<Badge>::new(table.store().clone(), "Employees").unwrap();
    let blue = Badge {
        department: "Sales".to_owned(),
        id: 1,
        color: "blue".to_owned(),
    };
    badges.insert_or_merge(&blue).await.unwrap();
    badges.insert_or_merge(&blue).await.unwrap();
    assert_eq!(meter.total(), 4);
    assert_eq!(badges.query().count().await.unwrap(), 1);

    table
        .store()
        .write(table.name(), Operation::InsertOrReplace(old_badge()))
        .await
        .unwrap();
    let error = badges.insert_or_merge(&blue).await.unwrap_err();
    assert!(error.to_string().contains("stored in version 1"), "{error}");
    let mut group = badges.group(sales());
    group.insert_or_merge(&blue).unwrap();
    let error = group.commit().await.unwrap_err();
    assert!(
        error.failed_index() == Some(0) && error.to_string().contains("stored in version 1"),
        "{error}"
    );
    let kept = table
        .store()
        .get(table.name(), old_badge().key(), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.properties(), old_badge().properties());
}

#[tokio::test]
async fn an_upsert_by_merge_crosses_no_type() {
    let (table, _) = employees([]).await;
    let contractor = Entity::from(key(1).into_key()).with(Schema::TYPE_PROPERTY, "Contractor");
    table
        .store()
        .write(table.name(), Operation::Insert(contractor.clone()))
        .await
        .unwrap();
    assert!(
        table
            .insert_or_merge(&employee(1, "Ken"))
            .await
            .unwrap_err()
            .to_string()
            .contains("Contractor")
    );
    let mut group = table.group(sales());
    group.insert_or_merge(&employee(1, "Ken")).unwrap();
    assert!(
        group
            .commit()
            .await
            .unwrap_err()
            .to_string()
            .contains("Contractor")
    );
    let kept = table
        .store()
        .get(table.name(), contractor.key(), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.properties(), contractor.properties());
}

/// Another writer writes between the read and the write of an upsert: the upsert reads again.
#[tokio::test(start_paused = true)]
async fn an_upsert_by_merge_that_loses_a_race_starts_again() {
    let faults = FaultInjector::new(1);
    let memory = Arc::new(MemoryStore::new());
    let slow = Faulty::new(memory.clone(), faults.clone());
    let (slow, other) = (
        PlainTable::<Employee>::new(slow, "Employees"),
        PlainTable::<Employee>::new(memory, "Employees"),
    );
    let (slow, other) = (slow.unwrap(), other.unwrap());
    other.create_if_missing().await.unwrap();
    faults.add(
        FaultRule::new(Fault::Delay(Duration::from_secs(1)))
            .on(OperationKind::Insert)
            .times(1),
    );
    let older = Employee {
        age: Some(41),
        ..employee(1, "Ken")
    };
    let between = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        other.insert(&older).await
    };
    let new = employee(1, "Kim");
    let (written, inserted) = tokio::join!(slow.insert_or_merge(&new), between);
    inserted.unwrap();
    written.unwrap();
    let read = other.get_existing(key(1)).await.unwrap();
    assert_eq!(read.name.as_str(), "Kim");
    assert_eq!(read.age, Some(41));
}

#[tokio::test]
async fn a_merge_of_a_first_version_costs_one_request() {
    let (table, meter) = employees([1]).await;
    let etag = table.get_existing(key(1)).await.unwrap().etag.unwrap();
    let patch = EmployeePatch {
        age: Some(41),
        ..EmployeePatch::default()
    };
    let before = meter.snapshot();
    table.merge(key(1), &patch, &etag).await.unwrap();
    assert_eq!(meter.since(&before).total(), 1);
    assert!(
        table
            .merge(key(1), &patch, etag)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    let read = table.get_existing(key(1)).await.unwrap();
    assert_eq!(read.name.as_str(), "n1");
    assert_eq!(read.age, Some(41));
}

#[tokio::test]
async fn an_empty_patch_is_refused_before_it_is_sent() {
    let (table, meter) = employees([1]).await;
    let error = table
        .merge(key(1), &EmployeePatch::default(), IfMatch::Any)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the patch of the Employee ('Sales', 'empid_000001')"),
        "{error}"
    );
    assert_eq!(meter.total(), 0);
}

fn red() -> Badge {
    Badge {
        department: "Sales".to_owned(),
        id: 7,
        color: "red".to_owned(),
    }
}

fn blue() -> BadgePatch {
    BadgePatch {
        color: Some("blue".to_owned()),
    }
}

#[tokio::test]
async fn a_merge_of_a_later_version_reads_the_version_first() {
    let (table, meter) = employees([]).await;
    let badges = table.view::<Badge>().unwrap();
    let etag = badges.insert(&red()).await.unwrap().etag.unwrap();
    let key = red().entity_key().unwrap();
    let before = meter.snapshot();
    badges.merge(&key, &blue(), &etag).await.unwrap();
    let cost = meter.since(&before);
    assert_eq!(cost.of_kind(OperationKind::Get), 1);
    assert_eq!(cost.of_kind(OperationKind::Merge), 1);

    assert!(
        badges
            .merge(&key, &blue(), &etag)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    badges.merge(&key, &blue(), IfMatch::Any).await.unwrap();
    assert_eq!(badges.get_existing(&key).await.unwrap().color, "blue");
}

#[tokio::test]
async fn a_merge_does_not_cross_schema_versions() {
    let (table, meter) = employees([]).await;
    let badges = table.view::<Badge>().unwrap();
    let key = red().entity_key().unwrap();
    assert!(
        badges
            .merge(&key, &blue(), IfMatch::Any)
            .await
            .unwrap_err()
            .is_entity_not_found()
    );
    for (stored, version) in [(None, "version 1 "), (Some(3_i64), "version 3 ")] {
        let mut entity = red().to_entity().unwrap();
        entity.properties_mut().remove(Schema::VERSION_PROPERTY);
        stored
            .into_iter()
            .for_each(|v| entity.properties_mut().set(Schema::VERSION_PROPERTY, v));
        let write = crate::store::Operation::InsertOrReplace(entity);
        table.store().write(table.name(), write).await.unwrap();

        let before = meter.snapshot();
        let error = badges.merge(&key, &blue(), IfMatch::Any).await.unwrap_err();
        assert!(error.to_string().contains(version), "{error}");
        assert_eq!(meter.since(&before).total(), 1);
    }
}

#[tokio::test]
async fn a_merge_writes_nothing_but_the_patch() {
    let (table, _) = employees([1]).await;
    let patch = EmployeePatch {
        age: Some(41),
        ..EmployeePatch::default()
    };
    table.merge(key(1), &patch, IfMatch::Any).await.unwrap();
    let stored = table
        .store()
        .get(table.name(), key(1).key(), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored.get("Age"), Some(ValueRef::Int32(41)));
    assert_eq!(stored.properties().len(), 3);
}

#[test]
fn keys_and_prefixes_can_be_claimed_for_another_type() {
    let cast = key(1).cast::<Named>();
    assert_eq!(Key::from(&cast), Key::new("Sales", "empid_000001").unwrap());
    let prefix = RowPrefix::<Employee>::escaped("empid_").cast::<Named>();
    assert_eq!(prefix.into_text().unwrap(), "empid_");
}
