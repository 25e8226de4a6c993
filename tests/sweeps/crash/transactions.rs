//! Eventual transactions with faults: at every request of every path the process crashes, or the request or its
//! answer is lost. Then other processes continue, and either the whole plan is carried out or nothing.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::adapter::{CrashPoint, Fault, FaultInjector};
use table_core::model::Properties;
use table_core::queue::WorkQueue;
use table_core::store::{Outcome, Result};
use table_patterns::eventual::{EventualTransaction, Submitted, TransactionStatus};
use table_patterns::journal::Acknowledge;
use tokio::time::sleep;

use crate::transaction_process::{Stores, TransactionProcess};

/// The fault at one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InjectedFault {
    Crash(CrashPoint),
    Fault(Fault),
}

impl InjectedFault {
    pub(crate) const ALL: [Self; 4] = [
        Self::Crash(CrashPoint::Before),
        Self::Crash(CrashPoint::After),
        Self::Fault(Fault::LoseRequest),
        Self::Fault(Fault::LoseAnswer),
    ];

    fn inject(self, faults: &FaultInjector, request: usize) {
        match self {
            Self::Crash(point) => faults.crash_at(request as u64, point),
            Self::Fault(fault) => {
                let steps = std::iter::repeat_n(None, request - 1).chain([Some(fault)]);
                faults.script(steps);
            }
        }
    }
}

type Act = for<'a> fn(
    &'a TransactionProcess,
    &'a EventualTransaction,
) -> BoxFuture<'a, Result<Option<Submitted>>>;

/// The work of the process under test.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    name: &'static str,
    large: bool,
    /// Whether the transaction was committed before.
    committed: bool,
    act: Act,
}

pub(crate) const PATHS: [Path; 8] = [
    Path {
        name: "submit",
        large: false,
        committed: false,
        act: submit,
    },
    Path {
        name: "submit and apply",
        large: false,
        committed: false,
        act: apply,
    },
    Path {
        name: "submit a large plan",
        large: true,
        committed: false,
        act: submit,
    },
    Path {
        name: "submit and apply a large plan",
        large: true,
        committed: false,
        act: apply,
    },
    Path {
        name: "work",
        large: false,
        committed: true,
        act: work,
    },
    Path {
        name: "work on a large plan",
        large: true,
        committed: true,
        act: work,
    },
    Path {
        name: "take over",
        large: false,
        committed: true,
        act: take_over,
    },
    Path {
        name: "take over a large plan",
        large: true,
        committed: true,
        act: take_over,
    },
];

fn submit<'a>(
    process: &'a TransactionProcess,
    plan: &'a EventualTransaction,
) -> BoxFuture<'a, Result<Option<Submitted>>> {
    Box::pin(async {
        process
            .coordinator
            .submit(plan, Acknowledge::Committed)
            .await
            .map(Some)
    })
}

fn apply<'a>(
    process: &'a TransactionProcess,
    plan: &'a EventualTransaction,
) -> BoxFuture<'a, Result<Option<Submitted>>> {
    Box::pin(async {
        process
            .coordinator
            .submit(plan, Acknowledge::Applied)
            .await
            .map(Some)
    })
}

fn work<'a>(
    process: &'a TransactionProcess,
    _: &'a EventualTransaction,
) -> BoxFuture<'a, Result<Option<Submitted>>> {
    Box::pin(async { process.coordinator.run_once(8).await.map(|_| None) })
}

/// A claim whose owner stopped is observed and taken over.
fn take_over<'a>(
    process: &'a TransactionProcess,
    plan: &'a EventualTransaction,
) -> BoxFuture<'a, Result<Option<Submitted>>> {
    Box::pin(async {
        let faults = FaultInjector::new(0);
        let crashing = process.stores.with_faults(&faults).open(100).await?;
        faults.crash_at(10, CrashPoint::After);
        let _dead = crashing.coordinator.run_once(8).await;
        sleep(Duration::from_secs(2)).await;
        work(process, plan).await
    })
}

/// Runs every path with a fault at each of its requests. Returns the number of faults.
pub(crate) async fn faults_at_every_request(stores: impl Fn(usize) -> Stores) -> Result<usize> {
    let (mut count, mut worlds) = (0, 0);
    for path in &PATHS {
        for fault in InjectedFault::ALL {
            for request in 1.. {
                worlds += 1;
                if !run_with_fault(path, request, fault, &stores(worlds)).await? {
                    break;
                }
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Runs paths with faults at requests that a seed draws. Returns the number of faults.
pub(crate) async fn faults_at_drawn_requests(
    stores: impl Fn(usize) -> Stores,
    seed: u64,
    times: usize,
) -> Result<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut count = 0;
    for world in 0..times {
        let path = &PATHS[rng.usize(..PATHS.len())];
        let fault = InjectedFault::ALL[rng.usize(..InjectedFault::ALL.len())];
        count += usize::from(run_with_fault(path, rng.usize(1..=20), fault, &stores(world)).await?);
    }
    Ok(count)
}

/// Returns whether the path reached the fault.
async fn run_with_fault(
    path: &Path,
    request: usize,
    fault: InjectedFault,
    stores: &Stores,
) -> Result<bool> {
    let case = format!("{}, {fault:?} at request {request}", path.name);
    stores.fill().await?;
    let before = stores.rows().await?;
    let healthy = stores.open(100).await?;
    let plan = healthy.plan(path.large)?;
    if path.committed {
        healthy
            .coordinator
            .submit(&plan, Acknowledge::Committed)
            .await?;
    }
    let faults = FaultInjector::new(0);
    let faulty = stores.with_faults(&faults).open(100).await?;
    fault.inject(&faults, request);
    let answer = (path.act)(&faulty, &plan).await;
    let struck = faults.is_crashed() || !faults.injected().is_empty();
    assert!(struck || answer.is_ok(), "{case}: {answer:?}");

    healthy.work().await?;
    let status = healthy.coordinator.status(plan.id()).await?;
    let now = stores.rows().await?;
    if status == TransactionStatus::Applied {
        assert_eq!(now, done(&before), "{case}");
    } else {
        assert!(
            matches!(
                status,
                TransactionStatus::Aborted | TransactionStatus::Unknown
            ),
            "{case}: {status:?}"
        );
        assert_eq!(now, before, "{case}");
        assert!(
            !path.committed,
            "{case}: a committed transaction was not carried out"
        );
    }
    assert_eq!(
        healthy.pieces().await?,
        0,
        "{case}: a piece of the plan is left"
    );
    let heard = !path.committed && !faults.is_crashed();
    check_answer(&case, &answer, heard, &status);
    Ok(struck)
}

/// Asserts that the answer is true, if the submitter received an answer.
fn check_answer(
    case: &str,
    answer: &Result<Option<Submitted>>,
    heard: bool,
    status: &TransactionStatus,
) {
    let applied = *status == TransactionStatus::Applied;
    match answer {
        Ok(_) => assert!(applied, "{case}: an acknowledged transaction is lost"),
        Err(error) if error.outcome() == Outcome::NotApplied && heard => {
            assert!(
                !applied,
                "{case}: {error}, but the transaction is carried out"
            );
        }
        Err(_) => {}
    }
}

/// Returns the rows after the plan.
fn done(before: &BTreeMap<String, Properties>) -> BTreeMap<String, Properties> {
    let mut rows = before.clone();
    let ken = rows
        .remove("Current ('Sales', '456')")
        .expect("an employee");
    rows.insert("Archive ('Sales', '456')".to_owned(), ken);
    rows.insert(
        "Archive ('Sales', '1')".to_owned(),
        [("N", 1), ("M", 2)].into_iter().collect(),
    );
    rows.insert(
        "Current ('Sales', '2')".to_owned(),
        [("N", 3)].into_iter().collect(),
    );
    rows.insert("Archive ('audit', '4')".to_owned(), Properties::new());
    rows
}

/// A process with faults discards a transaction that cannot succeed, then another process discards it.
pub(crate) async fn faults_in_discards(stores: impl Fn(usize) -> Stores) -> Result<usize> {
    let (mut count, mut worlds) = (0, 100_000);
    for large in [false, true] {
        for fault in InjectedFault::ALL {
            for request in 1.. {
                worlds += 1;
                if !discard(large, request, fault, &stores(worlds)).await? {
                    break;
                }
                count += 1;
            }
        }
    }
    Ok(count)
}

async fn discard(
    large: bool,
    request: usize,
    fault: InjectedFault,
    stores: &Stores,
) -> Result<bool> {
    let case = format!("discard, large {large}, {fault:?} at request {request}");
    stores.fill().await?;
    let healthy = stores.open(2).await?;
    healthy.handler.fails.store(true, Ordering::SeqCst);
    let plan = healthy.plan(large)?;
    healthy
        .coordinator
        .submit(&plan, Acknowledge::Committed)
        .await?;
    healthy.work().await?;
    let stopped = stores.rows().await?;
    let faults = FaultInjector::new(0);
    let faulty = stores.with_faults(&faults).open(2).await?;
    let poisoned = faulty
        .coordinator
        .poison(1)
        .await?
        .pop()
        .expect("the transaction is poisoned");
    fault.inject(&faults, request);
    let answer = faulty.coordinator.discard(&poisoned).await;
    let struck = faults.is_crashed() || !faults.injected().is_empty();
    assert!(struck || answer.is_ok(), "{case}: {answer:?}");

    for poisoned in healthy.coordinator.poison(9).await? {
        healthy.coordinator.discard(&poisoned).await?;
    }
    // If the discard was not finished, the message was put back. A worker removes the remaining rows.
    healthy.work().await?;
    let status = healthy.coordinator.status(plan.id()).await?;
    assert_eq!(status, TransactionStatus::Discarded { step: 4 }, "{case}");
    assert_eq!(healthy.pieces().await?, 0, "{case}");
    assert_eq!(healthy.queue.poison(9).await?, vec![], "{case}");
    assert_eq!(stores.rows().await?, stopped, "{case}");
    Ok(struck)
}
