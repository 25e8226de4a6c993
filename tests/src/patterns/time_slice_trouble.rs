//! Families of tables by time, where a name is still being deleted or a process died.

use std::time::Duration;

use table_core::adapter::{CrashPoint, Fault, FaultRule};
use table_core::store::OperationKind;
use table_patterns::time_slices::Reuse;

use super::time_slices::{Login, at, family, faulty, fill, login, names, open};
use crate::Harness;

/// While a name is being deleted, an insert waits for it, no longer than it may.
pub(crate) async fn a_name_in_deletion_is_waited_for(harness: &Harness) {
    let family = family(harness);
    let (logins, faults) = faulty(harness, &family);
    let in_deletion = FaultRule::new(Fault::TableBeingDeleted).on(OperationKind::CreateTable);
    faults.add(in_deletion.clone().times(2));
    logins.insert(&login("ken", "01-15T08:00")).await.expect("it waited");
    assert_eq!(faults.injected().len(), 2);
    assert_eq!(names(&logins.slices().await.expect("tables")), ["201301"]);

    faults.add(in_deletion);
    let hasty = logins.with_reuse(Reuse::Wait(Duration::from_millis(250)));
    let error = hasty.insert(&login("ken", "02-15T08:00")).await.expect_err("it never ends");
    assert!(error.to_string().contains("being deleted"), "{error}");
}

/// Or it starts another generation of the slice, which queries, reads and drops know.
pub(crate) async fn or_another_generation_is_started(harness: &Harness) {
    let family = family(harness);
    let first = open(harness.store().clone(), &family);
    let early = login("adam", "01-10T08:00");
    first.insert(&early).await.expect("a new login");

    // The old name is there for readers; for those who would make it, it is being deleted.
    let (logins, faults) = faulty(harness, &family);
    let logins = logins.with_reuse(Reuse::Generation);
    let base = format!("{family}201302").parse().expect("a legal name");
    faults.add(FaultRule::new(Fault::TableBeingDeleted).on(OperationKind::CreateTable).in_table(base));
    let late = login("ken", "02-15T08:00");
    logins.insert(&late).await.expect("the next generation");
    let slices = logins.slices().await.expect("tables");
    assert_eq!(names(&slices), vec!["201301", "201302"]);
    assert_eq!(slices[1].generation, 1);
    let key = Login::key("ken", late.at).expect("a legal key");
    assert_eq!(logins.get(late.at, &key).await.expect("an answer"), Some(late.clone()));
    assert_eq!(logins.query().all().await.expect("logins"), [early, late]);

    // Another process finds the generation that is there.
    let other = open(harness.store().clone(), &family).with_reuse(Reuse::Generation);
    other.insert(&login("kim", "02-16T08:00")).await.expect("a new login");
    assert_eq!(other.slices().await.expect("tables").len(), 2);
    assert_eq!(other.drop_before(at("2013-03-01T00:00:00Z")).await.expect("slices").len(), 2);
}

/// A handle that waits reads and writes the generations of one that does not.
pub(crate) async fn handles_of_either_choice_agree(harness: &Harness) {
    let family = family(harness);
    let (hasty, faults) = faulty(harness, &family);
    let hasty = hasty.with_reuse(Reuse::Generation);
    let base = format!("{family}201302").parse().expect("a legal name");
    faults.add(FaultRule::new(Fault::TableBeingDeleted).on(OperationKind::CreateTable).in_table(base));
    let day = login("ken", "02-15T08:00");
    hasty.insert(&day).await.expect("the next generation");

    let patient = open(harness.store().clone(), &family);
    let key = Login::key("ken", day.at).expect("a legal key");
    assert_eq!(patient.get(day.at, &key).await.expect("an answer"), Some(day.clone()));
    let again = patient.insert(&day).await.expect_err("it is there");
    assert!(again.is_already_exists(), "{again}");
    let other = login("kim", "02-16T08:00");
    patient.insert(&other).await.expect("a new login");
    let slices = patient.slices().await.expect("tables");
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0].generation, 1);
    let key = Login::key("kim", other.at).expect("a legal key");
    assert_eq!(hasty.get(other.at, &key).await.expect("an answer"), Some(other.clone()));
    assert_eq!(hasty.query().all().await.expect("logins"), [day, other]);
}

/// An insert that died between making the table and using it is run again.
pub(crate) async fn an_insert_that_died_is_run_again(harness: &Harness) {
    let mut crashes = 0;
    for point in CrashPoint::ALL {
        for request in 1.. {
            let family = family(harness);
            let (dying, faults) = faulty(harness, &family);
            faults.crash_at(request, point);
            let day = login("ken", "01-15T08:00");
            let answer = dying.insert(&day).await;
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

/// A drop that died is run again, and drops the rest.
pub(crate) async fn a_drop_that_died_is_run_again(harness: &Harness) {
    let mut crashes = 0;
    for point in CrashPoint::ALL {
        for request in 1.. {
            let family = family(harness);
            let healthy = open(harness.store().clone(), &family);
            fill(&healthy).await;
            let (dying, faults) = faulty(harness, &family);
            let dying = dying.with_concurrency(1);
            faults.crash_at(request, point);
            let answer = dying.drop_before(at("2013-03-01T00:00:00Z")).await;
            assert_eq!(answer.is_err(), faults.is_crashed());
            healthy.drop_before(at("2013-03-01T00:00:00Z")).await.expect("the rest");
            assert_eq!(names(&healthy.slices().await.expect("tables")), ["201303", "201304"]);
            assert_eq!(healthy.query().all().await.expect("logins").len(), 4);
            if !faults.is_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    assert_eq!(crashes, 6);
}
