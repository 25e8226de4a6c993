//! Runs a path, crashes, recovers and checks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{CrashPoint, Fault, FaultInjector, Faulty, RetryPolicy, Retrying};
use table_core::store::{Result, TableStore};
use table_patterns::journal::Acknowledge;

use crate::check::assert_in_step;
use crate::paths::{Path, work};
use crate::process::{Knows, Names, Process, person};

/// Which process finds the unfinished write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recover {
    /// Workers with the tickets; the sweep only removes reservations and abort rows.
    ByWorkers,
    /// A sweep; workers find only tickets without work.
    BySweep,
}

/// The fault at one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InjectedFault {
    /// The process crashes.
    Crash(CrashPoint),
    /// The process crashes; before that, a retry sends lost requests again.
    CrashUnderRetries(CrashPoint),
    /// The request or its answer is lost, and a retry sends the request again.
    LossUnderRetries(Fault),
}

impl InjectedFault {
    pub(crate) const CRASHES: [Self; 2] = [
        Self::Crash(CrashPoint::Before),
        Self::Crash(CrashPoint::After),
    ];
    pub(crate) const UNDER_RETRIES: [Self; 4] = [
        Self::CrashUnderRetries(CrashPoint::Before),
        Self::CrashUnderRetries(CrashPoint::After),
        Self::LossUnderRetries(Fault::LoseRequest),
        Self::LossUnderRetries(Fault::LoseAnswer),
    ];

    fn inject(self, faults: &FaultInjector, request: u64) {
        match self {
            Self::Crash(point) | Self::CrashUnderRetries(point) => faults.crash_at(request, point),
            Self::LossUnderRetries(fault) => {
                faults.script((1..request).map(|_| None).chain([Some(fault)]));
            }
        }
    }

    /// The store of the process; with retries and write ids, as programs use them.
    fn stack(self, store: Arc<dyn TableStore>, faults: &FaultInjector) -> Arc<dyn TableStore> {
        let faulty = Faulty::new(store, faults.clone());
        if matches!(self, Self::Crash(_)) {
            return Arc::new(faulty);
        }
        let delays = (Duration::from_millis(2), Duration::from_millis(10));
        let policy = RetryPolicy::default()
            .with_write_ids()
            .with_delays(delays.0, delays.1);
        Arc::new(Retrying::new(faulty, policy))
    }
}

/// Runs every path with a fault at each of its requests. Returns the number of faults.
pub(crate) async fn crash_everywhere<S: TableStore>(
    paths: &[Path],
    faults: &[InjectedFault],
    recover: Recover,
    store: impl Fn() -> Arc<S>,
) -> Result<usize> {
    let mut crashes = 0;
    for path in paths {
        for fault in faults {
            for request in 1.. {
                if !crash(path, request, *fault, recover, store(), Names::new(0)).await? {
                    break;
                }
                crashes += 1;
            }
        }
    }
    Ok(crashes)
}

/// Runs each path with faults at requests that a seed draws, in one store. Faults and recoveries alternate, so
/// that each of them occurs.
pub(crate) async fn crash_sometimes<S: TableStore>(
    paths: &[Path],
    faults: &[InjectedFault],
    store: Arc<S>,
    seed: u64,
    times: usize,
) -> Result<()> {
    // The tables of several runs are in one store.
    let (mut rng, mut world) = (fastrand::Rng::with_seed(seed), 10_000 * seed as usize);
    let mut met = BTreeSet::new();
    for (round, (n, path)) in
        (0..times).flat_map(|round| paths.iter().enumerate().map(move |p| (round, p)))
    {
        let fault = faults[(n + round) % faults.len()];
        let recover = [Recover::ByWorkers, Recover::BySweep][(n / faults.len() + round) % 2];
        let mut request = rng.u64(1..=15);
        loop {
            world += 1;
            if crash(
                path,
                request,
                fault,
                recover,
                store.clone(),
                Names::new(world),
            )
            .await?
            {
                break;
            }
            // The path has fewer requests.
            request /= 2;
            assert!(request > 0, "{} sends no request", path.name);
        }
        eprintln!(
            "{}: {fault:?} at request {request}, recovery {recover:?}",
            path.name
        );
        met.extend([
            path.name.to_owned(),
            format!("{fault:?}"),
            format!("{recover:?}"),
        ]);
    }
    assert_eq!(
        met.len(),
        paths.len() + faults.len() + 2,
        "only {met:?} occurred"
    );
    Ok(())
}

/// Returns whether the path reached the fault.
async fn crash<S: TableStore>(
    path: &Path,
    request: u64,
    fault: InjectedFault,
    recover: Recover,
    store: Arc<S>,
    names: Names,
) -> Result<bool> {
    let case = format!(
        "{}, {fault:?} at request {request}, recovery {recover:?}",
        path.name
    );
    let store: Arc<dyn TableStore> = store;
    // Either all processes of a table have write ids, or none has.
    let healthy = fault.stack(store.clone(), &FaultInjector::new(0));
    Process::create(&healthy, names).await?;
    let first = Process::start(healthy.clone(), names, Knows::Three, Acknowledge::Applied).await?;
    for (id, name, city) in [("1", "ken", "oslo"), ("2", "kim", "oslo")] {
        first.people.insert(person(id, name, city)?).await?;
    }
    let faults = FaultInjector::new(0);
    let crashing = Process::start(
        fault.stack(store, &faults),
        names,
        path.knows,
        path.acknowledge,
    )
    .await?;
    (path.before)(&crashing, &faults).await?;
    let before = faults.injected().len();
    fault.inject(&faults, request);
    let answer = (path.act)(&crashing, &faults).await;
    let struck = faults.is_crashed() || faults.injected().len() > before;
    assert!(struck || answer.is_ok(), "{case}: {answer:?}");
    faults.heal();

    let second = Process::start(healthy, names, path.knows, Acknowledge::Applied).await?;
    (path.again)(&second, &faults).await?;
    match recover {
        Recover::ByWorkers => work(&second).await?,
        Recover::BySweep => drop(second.sweep().await?),
    }
    work(&second).await?;
    second.sweep().await?;
    second.sweep().await?;
    assert_in_step(&second, path.dropped, &case).await?;
    let seen = (path.visible)(&second.entities().await?);
    assert!(
        seen || answer.is_err(),
        "{case}: an acknowledged write is lost"
    );
    Ok(struck)
}
