//! Time slices with a table name that is still being deleted, or after a crash.

use std::time::Duration;

use table_core::adapter::{CrashPoint, Fault, FaultRule};
use table_core::store::OperationKind;
use table_patterns::time_slices::Reuse;

use super::time_slices::{Login, at, family, faulty, fill, login, names, open};
use crate::Harness;

/// An insert waits while the service deletes the table name, until the write deadline.
pub(crate) async fn an_insert_waits_while_a_name_is_being_deleted(harness: &Harness) {
    let family = family(harness);
    let (logins, faults) = faulty(harness, &family);
    let in_deletion = FaultRule::new(Fault::TableBeingDeleted).on(OperationKind::CreateTable);
    faults.add(in_deletion.clone().times(2));
    logins
        .insert(&login("ken", "01-15T08:00"))
        .await
        .expect("the insert waited");
    assert_eq!(faults.injected().len(), 2);
    assert_eq!(names(&logins.slices().await.expect("tables")), ["201301"]);

    faults.add(in_deletion);
    let hasty = logins.with_reuse(Reuse::Wait(Duration::from_millis(250)));
    let error = hasty
        .insert(&login("ken", "02-15T08:00"))
        .await
        .expect_err("the deletion never ends");
    assert!(error.to_string().contains("being deleted"), "{error}");
}

/// With `Reuse::Generation` an insert creates another generation of the slice. Queries, reads and drops find
/// this generation.
pub(crate) async fn an_insert_creates_a_generation_while_a_name_is_being_deleted(
    harness: &Harness,
) {
    let family = family(harness);
    let first = open(harness.store().clone(), &family);
    let early = login("adam", "01-10T08:00");
    first.insert(&early).await.expect("a new login");

    // Readers find the old table. Its creation fails, because the service is deleting the name.
    let (logins, faults) = faulty(harness, &family);
    let logins = logins.with_reuse(Reuse::Generation);
    let base = format!("{family}201302").parse().expect("a legal name");
    faults.add(
        FaultRule::new(Fault::TableBeingDeleted)
            .on(OperationKind::CreateTable)
            .in_table(base),
    );
    let late = login("ken", "02-15T08:00");
    logins.insert(&late).await.expect("the next generation");
    let slices = logins.slices().await.expect("tables");
    assert_eq!(names(&slices), vec!["201301", "201302"]);
    assert_eq!(slices[1].generation, 1);
    let key = Login::key("ken", late.at).expect("a legal key");
    assert_eq!(
        logins.get(late.at, &key).await.expect("an answer"),
        Some(late.clone())
    );
    assert_eq!(logins.query().all().await.expect("logins"), [early, late]);

    // Another process finds the existing generation.
    let other = open(harness.store().clone(), &family).with_reuse(Reuse::Generation);
    other
        .insert(&login("kim", "02-16T08:00"))
        .await
        .expect("a new login");
    assert_eq!(other.slices().await.expect("tables").len(), 2);
    assert_eq!(
        other
            .drop_before(at("2013-03-01T00:00:00Z"))
            .await
            .expect("slices")
            .len(),
        2
    );
}

/// A handle that waits reads and writes the generations of a handle that does not wait.
pub(crate) async fn handles_with_either_option_share_generations(harness: &Harness) {
    let family = family(harness);
    let (hasty, faults) = faulty(harness, &family);
    let hasty = hasty.with_reuse(Reuse::Generation);
    let base = format!("{family}201302").parse().expect("a legal name");
    faults.add(
        FaultRule::new(Fault::TableBeingDeleted)
            .on(OperationKind::CreateTable)
            .in_table(base),
    );
    let day = login("ken", "02-15T08:00");
    hasty.insert(&day).await.expect("the next generation");

    let patient = open(harness.store().clone(), &family);
    let key = Login::key("ken", day.at).expect("a legal key");
    assert_eq!(
        patient.get(day.at, &key).await.expect("an answer"),
        Some(day.clone())
    );
    let again = patient.insert(&day).await.expect_err("the row exists");
    assert!(again.is_already_exists(), "{again}");
    let other = login("kim", "02-16T08:00");
    patient.insert(&other).await.expect("a new login");
    let slices = patient.slices().await.expect("tables");
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0].generation, 1);
    let key = Login::key("kim", other.at).expect("a legal key");
    assert_eq!(
        hasty.get(other.at, &key).await.expect("an answer"),
        Some(other.clone())
    );
    assert_eq!(hasty.query().all().await.expect("logins"), [day, other]);
}

/// An insert that crashed between the creation of the table and the write can be repeated.
pub(crate) async fn a_crashed_insert_can_be_repeated(harness: &Harness) {
    let mut crashes = 0;
    for point in CrashPoint::ALL {
        for request in 1.. {
            let family = family(harness);
            let (crashing, faults) = faulty(harness, &family);
            faults.crash_at(request, point);
            let day = login("ken", "01-15T08:00");
            let answer = crashing.insert(&day).await;
            let healthy = open(harness.store().clone(), &family);
            let again = healthy.insert(&day).await;
            assert!(again.is_ok() || again.is_err_and(|error| error.is_already_exists()));
            assert_eq!(healthy.query().all().await.expect("logins"), [day]);
            assert_eq!(answer.is_err(), faults.is_crashed());
            if !faults.is_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    assert_eq!(crashes, 6);
}

/// A drop that crashed can be repeated and drops the remaining tables.
pub(crate) async fn a_crashed_drop_can_be_repeated(harness: &Harness) {
    let mut crashes = 0;
    for point in CrashPoint::ALL {
        for request in 1.. {
            let family = family(harness);
            let healthy = open(harness.store().clone(), &family);
            fill(&healthy).await;
            let (crashing, faults) = faulty(harness, &family);
            let crashing = crashing.with_concurrency(1);
            faults.crash_at(request, point);
            let answer = crashing.drop_before(at("2013-03-01T00:00:00Z")).await;
            assert_eq!(answer.is_err(), faults.is_crashed());
            healthy
                .drop_before(at("2013-03-01T00:00:00Z"))
                .await
                .expect("the rest");
            assert_eq!(
                names(&healthy.slices().await.expect("tables")),
                ["201303", "201304"]
            );
            assert_eq!(healthy.query().all().await.expect("logins").len(), 4);
            if !faults.is_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    assert_eq!(crashes, 6);
}
