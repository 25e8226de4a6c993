use super::*;
use crate::model::{Entity, IfMatch, Key, PartitionKey};
use crate::store::{ErrorKind, Operation, OperationKind};
use crate::typed::{PlainTable, TableEntity};

fn badge(id: u32) -> Badge {
    Badge {
        department: "Sales".to_owned(),
        id,
        color: "red".to_owned(),
    }
}

#[tokio::test]
async fn several_types_are_written_in_one_request() {
    let (table, meter) = employees([1, 2, 3]).await;
    let ken = table.get_existing(key(1)).await.unwrap();
    let before = meter.snapshot();
    let patch = EmployeePatch {
        age: Some(41),
        ..EmployeePatch::default()
    };
    let mut group = table.group(sales());
    group
        .insert(&badge(1))
        .unwrap()
        .insert_or_merge(&employee(4, "Rob"))
        .unwrap();
    group
        .replace(&Employee {
            name: "Ken".to_owned(),
            ..ken
        })
        .unwrap();
    group.merge(key(2), &patch, IfMatch::Any).unwrap();
    group.delete(key(3), IfMatch::Any).unwrap();
    group
        .push(Operation::Insert(Entity::new("Sales", "raw").unwrap()))
        .unwrap();
    assert_eq!(group.len(), 6);
    let written = group.commit().await.unwrap();
    assert_eq!(
        written.iter().map(|w| w.etag.is_some()).collect::<Vec<_>>(),
        [true, true, true, true, false, true]
    );
    let cost = meter.since(&before);
    assert_eq!(
        (cost.of_kind(OperationKind::Transact), cost.total()),
        (1, 3),
        "the upserts and the merge in any version read first"
    );

    let names = table.query().project::<Named>().all().await.unwrap();
    assert_eq!(
        names.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(),
        ["Ken", "n2", "Rob"]
    );
}

#[tokio::test]
async fn a_single_write_is_a_group_too() {
    let (table, meter) = employees([]).await;
    let mut group = table.group(sales());
    group.insert(&employee(1, "Ken")).unwrap();
    group.commit().await.unwrap();
    assert_eq!(meter.snapshot().of_kind(OperationKind::Transact), 1);
}

#[tokio::test]
async fn a_write_that_cannot_be_in_the_group_is_refused_when_it_is_added() {
    let (table, meter) = employees([]).await;
    let mut group = table.group(sales());
    group.insert(&employee(1, "Ken")).unwrap();
    let elsewhere = Employee {
        department: "Marketing".to_owned(),
        ..employee(2, "Rob")
    };
    let refused = [
        group.insert(&elsewhere).map(drop).unwrap_err(),
        group.delete(key(1), IfMatch::Any).map(drop).unwrap_err(),
        group.replace(&employee(2, "Rob")).map(drop).unwrap_err(),
        group
            .merge(key(2), &EmployeePatch::default(), IfMatch::Any)
            .map(drop)
            .unwrap_err(),
    ];
    for (error, says) in refused
        .iter()
        .zip(["'Sales'", "occurs twice", "no ETag", "sets no field"])
    {
        assert_eq!(error.failed_index(), Some(1));
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(group.len(), 1);
    for id in 2..=100 {
        group.insert(&employee(id, "n")).unwrap();
    }
    assert!(
        group
            .insert(&employee(101, "n"))
            .unwrap_err()
            .is_limit_exceeded()
    );
    group.commit().await.unwrap();
    assert_eq!(meter.total(), 1);
    assert_eq!(table.query().count().await.unwrap(), 100);
}

#[tokio::test]
async fn a_failed_write_undoes_the_others_and_tells_its_index() {
    let (table, _) = employees([2]).await;
    let mut group = table.group(sales());
    group
        .insert(&employee(1, "Ken"))
        .unwrap()
        .insert(&employee(2, "Rob"))
        .unwrap();
    let error = group.commit().await.unwrap_err();
    assert!(error.is_already_exists());
    assert_eq!(error.failed_index(), Some(1));
    assert_eq!(table.query().count().await.unwrap(), 1);
}

#[tokio::test]
async fn an_empty_group_is_refused() {
    let (table, _) = employees([]).await;
    let error = table
        .group(PartitionKey::new("Sales").unwrap())
        .commit()
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)));
}

#[tokio::test]
async fn merges_of_later_versions_are_bound_to_the_version_that_was_checked() {
    let (table, meter) = employees([]).await;
    let badges: PlainTable<Badge> = table.view().unwrap();
    let etag = badges.insert(&badge(1)).await.unwrap().etag.unwrap();
    badges.insert(&badge(2)).await.unwrap();
    let patch = BadgePatch {
        color: Some("blue".to_owned()),
    };
    let merge = |version: IfMatch| {
        let mut group = badges.group(sales());
        group.upsert(&employee(1, "Ken")).unwrap();
        group
            .merge(badge(1).entity_key().unwrap(), &patch, version)
            .unwrap();
        group
            .merge(badge(2).entity_key().unwrap(), &patch, IfMatch::Any)
            .unwrap();
        group.commit()
    };
    let before = meter.snapshot();
    merge(etag.clone().into()).await.unwrap();
    let cost = meter.since(&before);
    assert_eq!(cost.of_kind(OperationKind::Get), 3);
    assert_eq!(cost.of_kind(OperationKind::Transact), 1);

    let stale = merge(etag.into()).await.unwrap_err();
    assert!(stale.is_precondition_failed());
    assert_eq!(stale.failed_index(), Some(1));

    let mut other = badge(1).to_entity().unwrap();
    other
        .properties_mut()
        .set(crate::typed::Schema::VERSION_PROPERTY, 1_i64);
    table
        .store()
        .write(table.name(), Operation::InsertOrReplace(other))
        .await
        .unwrap();
    let crossing = merge(IfMatch::Any).await.unwrap_err();
    assert!(crossing.to_string().contains("version 1"), "{crossing}");
}

#[test]
fn a_group_shows_its_writes() {
    let table = PlainTable::<Entity>::new(crate::memory::MemoryStore::new(), "Employees").unwrap();
    let mut group = table.group(sales());
    group
        .push(Operation::Delete(
            Key::new("Sales", "1").unwrap(),
            IfMatch::Any,
        ))
        .unwrap();
    assert!(format!("{group:?}").contains("('Sales', '1')"));
}
