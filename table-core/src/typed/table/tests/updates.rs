use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;

use super::*;
use crate::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use crate::model::IfMatch;
use crate::store::{Error, ErrorKind, OperationKind};
use crate::typed::PlainTable;

#[tokio::test]
async fn an_update_costs_two_requests_and_returns_the_stored_entity() {
    let (table, meter) = employees([1]).await;
    let stored = table
        .update(key(1), |ken| {
            ken.age = Some(41);
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(meter.total(), 2);
    assert_eq!(table.get(key(1)).await.unwrap(), Some(stored));
}

/// Another writer, between the read and the write of an update.
fn interfere(table: &PlainTable<Employee>) {
    let patch = EmployeePatch {
        name: Some("other".to_owned()),
        ..EmployeePatch::default()
    };
    table
        .merge(key(1), &patch, IfMatch::Any)
        .now_or_never()
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_update_after_a_conflict_reads_the_entity_again() {
    let (table, meter) = employees([1]).await;
    let other = PlainTable::<Employee>::new(table.store().clone(), "Employees").unwrap();
    let mut races = 2;
    let stored = table.update(key(1), |ken| {
        if races > 0 {
            races -= 1;
            interfere(&other);
        }
        ken.age = Some(41);
        Ok(())
    });
    let stored = stored.await.unwrap();
    assert_eq!(stored.name.as_str(), "other");
    assert_eq!(stored.age, Some(41));
    assert_eq!(meter.total(), 2 * 3 + 2 * 2);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded() {
    let (table, meter) = employees([1]).await;
    let table = table.with_attempts(3);
    let other = table.clone();
    let lost = table
        .update(key(1), |_| {
            interfere(&other);
            Ok(())
        })
        .await
        .unwrap_err();
    assert!(lost.is_precondition_failed());
    assert_eq!(meter.total(), 3 * 4);
}

#[tokio::test]
async fn the_change_can_refuse() {
    let (table, meter) = employees([1]).await;
    let refused = table
        .update(key(1), |_| Err(Error::application("too young")))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("too young"));
    assert_eq!(meter.total(), 1);
}

#[tokio::test]
async fn the_key_cannot_be_changed() {
    let (table, meter) = employees([1]).await;
    let refused = table
        .update(key(1), |ken| {
            ken.id = 2;
            Ok(())
        })
        .await
        .unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Misuse(_)));
    assert!(refused.to_string().contains("empid_000002"), "{refused}");
    assert_eq!(meter.total(), 1);
}

#[tokio::test]
async fn a_missing_entity_is_not_created() {
    let (table, _) = employees([]).await;
    let error = table.update(key(1), |_| Ok(())).await.unwrap_err();
    assert!(error.is_entity_not_found());
}

#[tokio::test]
async fn a_lost_answer_is_ambiguous_and_not_tried_again() {
    let (table, meter) = employees([1]).await;
    let faults = FaultInjector::new(0);
    faults.add(FaultRule::new(Fault::LoseAnswer).on(OperationKind::Replace));
    let table =
        PlainTable::<Employee>::new(Faulty::new(table.store().clone(), faults), "Employees")
            .unwrap();
    let error = table
        .update(key(1), |ken| {
            ken.age = Some(41);
            Ok(())
        })
        .await
        .unwrap_err();
    assert!(error.is_ambiguous());
    assert_eq!(meter.total(), 2);
}

/// A table whose requests of a kind wait for a second of the paused clock.
fn delayed(table: &PlainTable<Employee>, kind: OperationKind) -> PlainTable<Employee> {
    let faults = FaultInjector::new(0);
    faults.add(FaultRule::new(Fault::Delay(Duration::from_secs(1))).on(kind));
    PlainTable::new(Faulty::new(table.store().clone(), faults), "Employees").unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_update_is_lost_among_many_writers() {
    let (table, _) = employees([1]).await;
    let writers = delayed(&table, OperationKind::Replace).with_attempts(1000);
    let increment = |ken: &mut Employee| {
        ken.age = Some(ken.age.unwrap_or(0) + 1);
        Ok(())
    };
    try_join_all((0..32).map(|_| writers.update(key(1), increment)))
        .await
        .unwrap();
    assert_eq!(table.get_existing(key(1)).await.unwrap().age, Some(32));
}

#[tokio::test(start_paused = true)]
async fn point_reads_in_flight_are_bounded() {
    let (table, _) = employees(1..=9).await;
    let table = delayed(&table, OperationKind::Get).with_concurrency(3);
    let start = tokio::time::Instant::now();
    assert_eq!(table.get_many((1..=9).map(key)).await.unwrap().len(), 9);
    assert_eq!(
        start.elapsed().as_secs(),
        3,
        "nine reads of a second, three at once, on the paused clock"
    );
}
