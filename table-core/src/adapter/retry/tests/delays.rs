use std::time::Duration;

use tokio::time::Instant;

use super::rig::{Rig, entity, key, table};
use crate::adapter::{Fault, FaultRule, RetryPolicy};
use crate::query::Query;
use crate::store::{ErrorKind, Operation, OperationKind, Outcome, TableStore};

const SECOND: Duration = Duration::from_secs(1);

fn policy() -> RetryPolicy {
    RetryPolicy::default().with_delays(SECOND, 5 * SECOND)
}

fn insert() -> Operation {
    Operation::Insert(entity("new", "ours"))
}

#[test]
fn delays_double_up_to_the_longest() {
    let delays = [1, 2, 3, 4, 40].map(|made| policy().delay(made, 0.0));
    assert_eq!(delays, [1, 2, 4, 5, 5].map(Duration::from_secs));
    assert_eq!(policy().with_jitter(0.5).delay(3, 1.0), 2 * SECOND);
    assert_eq!(policy().with_jitter(0.0).delay(3, 1.0), 4 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_and_each_counts() {
    let rig = Rig::new(policy().with_max_attempts(3)).await;
    rig.below
        .faults()
        .add(FaultRule::new(Fault::Throttle { retry_after: None }));
    let error = rig.store.write(&table(), insert()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Throttled { .. }));
    assert_eq!(rig.below.faults().requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_attempt_repeats_nothing() {
    let rig = Rig::new(policy().with_max_attempts(1)).await;
    rig.script(&[Fault::FailBefore]);
    rig.store.write(&table(), insert()).await.unwrap_err();
    assert_eq!(rig.below.faults().requests(), 1);
}

/// The service deletes a table for 40 seconds or more. Five attempts with the default delays end after 3 seconds.
#[tokio::test(start_paused = true)]
async fn a_table_that_is_being_deleted_is_waited_for() {
    let being_deleted = |rig: &Rig, times| {
        rig.below
            .faults()
            .add(FaultRule::new(Fault::TableBeingDeleted).times(times));
    };
    let default = RetryPolicy::default().with_jitter(0.0);
    let rig = Rig::new(default.clone()).await;
    being_deleted(&rig, 10);
    let start = Instant::now();
    rig.store.write(&table(), insert()).await.unwrap();
    // 0.2, 0.4, 0.8, 1.6, 3.2, 6.4 seconds, and then the longest delay four times.
    assert_eq!(start.elapsed(), Duration::from_millis(52_600));
    assert_eq!(rig.below.faults().requests(), 11);

    // At most until the deadline, and without one as often as any other request. One attempt stays one.
    for (policy, requests, seconds) in [
        (default.clone(), 17, 112),
        (default.clone().with_deadline(None), 5, 3),
        (default.with_max_attempts(1), 1, 0),
    ] {
        let rig = Rig::new(policy).await;
        being_deleted(&rig, u64::MAX);
        let start = Instant::now();
        let error = rig.store.write(&table(), insert()).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::TableBeingDeleted { .. }),
            "{error}"
        );
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert_eq!(
            (rig.below.faults().requests(), start.elapsed().as_secs()),
            (requests, seconds)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected() {
    let rig = Rig::new(policy()).await;
    rig.script(&[Fault::Throttle {
        retry_after: Some(17 * SECOND),
    }]);
    let start = Instant::now();
    rig.store.write(&table(), insert()).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 17);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_beyond_the_maximum_ends_the_retries() {
    let without_deadline = RetryPolicy::default().with_deadline(None);
    for (policy, maximum) in [
        (without_deadline.clone(), 120),
        (without_deadline.with_max_retry_after(7 * SECOND), 7),
    ] {
        for (seconds, requests) in [(maximum, 2), (maximum + 1, 1), (u64::MAX, 1)] {
            let rig = Rig::new(policy.clone()).await;
            rig.script(&[Fault::Throttle {
                retry_after: Some(Duration::from_secs(seconds)),
            }]);
            let result = rig.store.write(&table(), insert()).await;
            assert_eq!(result.is_ok(), requests == 2, "{seconds}");
            assert_eq!(rig.below.faults().requests(), requests, "{seconds}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_exceeds_the_deadline_is_not_begun() {
    let rig = Rig::new(policy().with_deadline(Some(10 * SECOND))).await;
    rig.script(&[Fault::Throttle {
        retry_after: Some(10 * SECOND),
    }]);
    let start = Instant::now();
    let error = rig.store.write(&table(), insert()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Throttled { .. }));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_an_attempt_off() {
    let rig = Rig::new(
        policy()
            .with_deadline(Some(10 * SECOND))
            .with_attempt_timeout(None),
    )
    .await;
    rig.script(&[Fault::Delay(60 * SECOND)]);
    let start = Instant::now();
    let error = rig.store.write(&table(), insert()).await.unwrap_err();
    assert!(error.is_ambiguous());
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_takes_too_long_is_repeated() {
    let rig = Rig::new(policy().with_attempt_timeout(Some(SECOND))).await;
    rig.script(&[Fault::Delay(60 * SECOND), Fault::DelayAnswer(60 * SECOND)]);
    assert!(
        rig.store
            .get(&table(), &key("old"), None)
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(rig.below.faults().requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_timed_out_is_not_ambiguous() {
    let rig = Rig::new(
        policy()
            .with_max_attempts(1)
            .with_attempt_timeout(Some(SECOND)),
    )
    .await;
    rig.script(&[Fault::Delay(60 * SECOND)]);
    let error = rig
        .store
        .get(&table(), &key("old"), None)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "no answer within 1s");
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_takes_too_long_is_ambiguous() {
    let policy = policy().with_attempt_timeout(Some(SECOND));
    for (policy, certain) in [(policy.clone(), false), (policy.with_write_ids(), true)] {
        let rig = Rig::new(policy).await;
        rig.script(&[Fault::DelayAnswer(60 * SECOND)]);
        let result = rig.store.write(&table(), insert()).await;
        assert_eq!(rig.applied(OperationKind::Insert).await, 1);
        match result {
            Ok(written) => {
                assert!(certain);
                assert_eq!(rig.read("new").await.unwrap().etag(), written.etag.as_ref());
            }
            Err(error) => assert!(!certain && error.is_ambiguous()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_read_is_repeated() {
    for fault in [Fault::FailBefore, Fault::LoseRequest, Fault::LoseAnswer] {
        let rig = Rig::new(policy()).await;
        rig.script(&[fault, fault]);
        assert!(
            rig.store
                .get(&table(), &key("old"), None)
                .await
                .unwrap()
                .is_some()
        );
        rig.script(&[fault, fault]);
        assert_eq!(
            rig.store
                .query(&table(), &Query::new(), None)
                .await
                .unwrap()
                .into_page()
                .unwrap()
                .items
                .len(),
            1
        );
        rig.script(&[fault, fault]);
        assert_eq!(
            rig.store.list_tables(None, None).await.unwrap().items.len(),
            1
        );
        assert_eq!(rig.below.faults().requests(), 9);
    }
}

#[tokio::test(start_paused = true)]
async fn applied_writes_are_not_repeated() {
    for policy in [policy(), policy().with_write_ids()] {
        let rig = Rig::new(policy).await;
        rig.script(&[Fault::BreakAnswer]);
        let error = rig
            .store
            .write(&table(), Operation::InsertOrReplace(entity("new", "ours")))
            .await;
        assert_eq!(error.unwrap_err().outcome(), Outcome::Applied);
        assert_eq!(rig.below.faults().requests(), 1);
    }
}
