//! Every write, with and without write ids, with every fault, alone and with another writer.

use super::super::{Job, Repeat};
use super::rig::{Rig, entity, group, key};
use crate::adapter::{AbsentInsert, Fault, RetryPolicy, WRITE_ID_PROPERTY};
use crate::model::{ETag, IfMatch};
use crate::store::{Operation, Outcome, Result, TableStoreExt as _, Written};

const REFUSED: [Fault; 3] = [
    Fault::FailBefore,
    Fault::Throttle { retry_after: None },
    Fault::TableBeingDeleted,
];
const LOST: [Fault; 5] = [
    Fault::LoseRequest,
    Fault::LoseAnswer,
    Fault::LateEffect { requests: 1 },
    Fault::LateEffect { requests: 2 },
    Fault::LateEffect { requests: 3 },
];

fn policy(write_ids: bool, absent: AbsentInsert) -> RetryPolicy {
    let policy = RetryPolicy::default()
        .with_max_attempts(4)
        .with_absent_insert(absent);
    if write_ids {
        policy.with_write_ids()
    } else {
        policy
    }
}

/// Returns our write in every form: on the existing entity `old`, and on `new`, which does not exist.
fn jobs(old: &ETag) -> Vec<Job> {
    let ours = |row| entity(row, "ours");
    let exactly = || IfMatch::from(old);
    let mut jobs: Vec<_> = [
        Operation::Insert(ours("new")),
        Operation::InsertOrReplace(ours("old")),
        Operation::InsertOrMerge(ours("old")),
        Operation::Replace(ours("old"), exactly()),
        Operation::Replace(ours("old"), IfMatch::Any),
        Operation::Merge(ours("old"), exactly()),
        Operation::Merge(ours("old"), IfMatch::Any),
        Operation::Delete(key("old"), exactly()),
        Operation::Delete(key("old"), IfMatch::Any),
    ]
    .map(Job::Write)
    .into();
    jobs.extend(
        [
            group([
                Operation::Insert(ours("new")),
                Operation::Replace(ours("old"), exactly()),
            ]),
            group([
                Operation::Insert(ours("new")),
                Operation::InsertOrReplace(ours("old")),
            ]),
            group([
                Operation::InsertOrMerge(ours("new")),
                Operation::Merge(ours("old"), IfMatch::Any),
            ]),
            group([
                Operation::Insert(ours("new")),
                Operation::Delete(key("old"), exactly()),
            ]),
            group([Operation::Delete(key("old"), exactly())]),
        ]
        .map(Job::Transact),
    );
    jobs
}

/// Describes the failed case.
type Case<'a> = &'a (dyn Fn() -> String + Sync);

fn only_deletes(job: &Job) -> bool {
    job.operations()
        .iter()
        .all(|operation| operation.entity().is_none())
}

/// Asserts that the returned ETags agree with the data if our writes left their content.
async fn assert_content(rig: &Rig, job: &Job, written: &[Written], case: Case<'_>) {
    for (operation, written) in job.operations().iter().zip(written) {
        let stored = rig.read(operation.key().row()).await;
        match (operation.entity(), stored) {
            (None, _) => assert_eq!(written.etag, None, "{}", case()),
            (Some(ours), Some(stored)) if stored.etag() == written.etag.as_ref() => {
                assert_eq!(
                    stored.get("By"),
                    ours.get("By"),
                    "the version of another writer: {}",
                    case()
                );
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_were_not_applied_are_repeated() {
    for fault in REFUSED {
        for write_ids in [false, true] {
            for at in 0..jobs(&ETag::from("")).len() {
                let rig = Rig::new(policy(write_ids, AbsentInsert::Repeat)).await;
                let job = jobs(&rig.old).swap_remove(at);
                rig.script(&[fault, fault]);
                let written = rig.send(&job).await.unwrap();
                assert_content(&rig, &job, &written, &|| format!("{fault:?}, {job:?}")).await;
                assert_eq!(rig.below.faults().injected().len(), 2);
                assert_eq!(rig.applied(job.kind()).await, 1);
                assert_eq!(rig.meter.total(), 1, "{job:?}");
            }
        }
    }
}

/// Whether a write whose answer was lost can be reported as applied.
fn is_certain(job: &Job, write_ids: bool, fault: Fault) -> bool {
    match job.repeat() {
        Repeat::Insert => write_ids,
        _ if fault == Fault::LoseRequest => true,
        Repeat::AtMostOnce => write_ids && !only_deletes(job),
        Repeat::LastWins => !only_deletes(job),
    }
}

#[tokio::test(start_paused = true)]
async fn lost_writes_are_certain_or_ambiguous() {
    for fault in LOST {
        for write_ids in [false, true] {
            for at in 0..jobs(&ETag::from("")).len() {
                let rig = Rig::new(policy(write_ids, AbsentInsert::Repeat)).await;
                let job = jobs(&rig.old).swap_remove(at);
                rig.script(&[fault]);
                let result = rig.send(&job).await;
                let case = || format!("{fault:?}, write ids {write_ids}, {job:?}: {result:?}");
                match &result {
                    Ok(written) => {
                        assert_content(&rig, &job, written, &case).await;
                        assert_ne!(rig.applied(job.kind()).await, 0, "{}", case());
                    }
                    Err(error) => {
                        assert!(error.is_ambiguous(), "{}", case());
                        assert!(!is_certain(&job, write_ids, fault), "{}", case());
                    }
                }
                if job.repeat() != Repeat::LastWins {
                    assert!(rig.applied(job.kind()).await <= 1, "{}", case());
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_table_operations_are_repeated_or_ambiguous() {
    for job in [Job::CreateTable, Job::DeleteTable] {
        for (fault, certain) in [(Fault::LoseRequest, true), (Fault::LoseAnswer, false)] {
            let rig = Rig::new(RetryPolicy::default()).await;
            if matches!(job, Job::CreateTable) {
                Job::DeleteTable
                    .send(&rig.data, &super::rig::table())
                    .await
                    .unwrap();
            }
            rig.script(&[fault]);
            let result = rig.send(&job).await;
            assert_eq!(rig.applied(job.kind()).await, 1);
            match result {
                Ok(_) => assert!(certain),
                Err(error) => {
                    assert!(!certain && error.is_ambiguous() && !error.is_already_exists());
                }
            }
        }
    }
}

/// What another writer may do between two requests.
fn intrusions() -> Vec<Vec<Operation>> {
    let id = |n: u128| uuid::Uuid::from_u128(n);
    let theirs = |row| entity(row, "theirs").with(WRITE_ID_PROPERTY, id(7));
    ["old", "new"]
        .into_iter()
        .flat_map(|row| {
            [
                vec![Operation::InsertOrReplace(theirs(row))],
                vec![Operation::Merge(theirs(row), IfMatch::Any)],
                vec![Operation::Delete(key(row), IfMatch::Any)],
                vec![
                    Operation::Delete(key(row), IfMatch::Any),
                    Operation::Insert(theirs(row)),
                ],
            ]
        })
        .collect()
}

/// One fault, or two lost answers in sequence.
fn scripts() -> Vec<Vec<Fault>> {
    let one = LOST.iter().chain(&REFUSED).map(|fault| vec![*fault]);
    let often = &LOST[..3];
    let two = often
        .iter()
        .flat_map(|first| often.iter().map(|second| vec![*first, *second]));
    one.chain(two).collect()
}

fn assert_honest(
    job: &Job,
    strict: bool,
    result: &Result<Vec<Written>>,
    applied: u64,
    case: Case<'_>,
) {
    if job.repeat() == Repeat::AtMostOnce || (job.repeat() == Repeat::Insert && strict) {
        assert!(applied <= 1, "applied {applied} times: {}", case());
    }
    match result {
        Ok(_) => assert_ne!(applied, 0, "reported, but never applied: {}", case()),
        Err(error) if error.outcome() == Outcome::NotApplied => {
            assert_eq!(
                applied,
                0,
                "reported as not applied, but it was: {}",
                case()
            );
        }
        Err(error) => {
            assert!(
                !error.is_precondition_failed()
                    && !error.is_not_found()
                    && !error.is_already_exists()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reported_outcomes_stay_correct_with_another_writer_between_attempts() {
    let mut undecided = 0;
    for (write_ids, absent) in [
        (false, AbsentInsert::Report),
        (true, AbsentInsert::Report),
        (true, AbsentInsert::Repeat),
    ] {
        for (script, intrusion) in scripts()
            .iter()
            .flat_map(|script| intrusions().into_iter().map(move |i| (script, i)))
        {
            for at in 0..jobs(&ETag::from("")).len() {
                for before in 2..=4 {
                    let rig = Rig::new(policy(write_ids, absent)).await;
                    let job = jobs(&rig.old).swap_remove(at);
                    rig.script(script);
                    rig.intrude(before, intrusion.clone());
                    let result = rig.send(&job).await;
                    let applied = rig.applied(job.kind()).await;
                    let case = || {
                        format!(
                            "{script:?}, write ids {write_ids}, {absent:?}, before {before}: {intrusion:?}, \
                             {job:?}: {result:?}"
                        )
                    };
                    assert_honest(
                        &job,
                        absent == AbsentInsert::Report,
                        &result,
                        applied,
                        &case,
                    );
                    match &result {
                        Ok(written) => assert_content(&rig, &job, written, &case).await,
                        Err(error) => undecided += u32::from(error.is_ambiguous()),
                    }
                }
            }
        }
    }
    assert_ne!(undecided, 0);
}

/// The table exists, or does not exist, at the end: a lost answer is no reason to fail.
#[tokio::test(start_paused = true)]
async fn lost_table_operations_succeed_on_repetition() {
    for fault in [Fault::LoseRequest, Fault::LoseAnswer] {
        let rig = Rig::new(RetryPolicy::default()).await;
        Job::DeleteTable
            .send(&rig.data, &super::rig::table())
            .await
            .unwrap();
        rig.script(&[fault]);
        let created = rig
            .store
            .create_table_if_missing(&super::rig::table())
            .await;
        assert!(created.is_ok(), "{fault:?}: {created:?}");
        assert!(
            !rig.store
                .create_table_if_missing(&super::rig::table())
                .await
                .unwrap()
        );
        rig.script(&[fault]);
        let deleted = rig.store.delete_table_if_exists(&super::rig::table()).await;
        assert!(deleted.is_ok(), "{fault:?}: {deleted:?}");
        assert!(
            !rig.store
                .delete_table_if_exists(&super::rig::table())
                .await
                .unwrap()
        );
    }
}
