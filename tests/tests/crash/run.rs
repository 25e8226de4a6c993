//! Dies, recovers, checks.

use std::sync::Arc;

use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_core::store::{Result, TableStore};
use table_patterns::journal::Acknowledge;

use crate::check::assert_in_step;
use crate::paths::{Path, work};
use crate::process::{Knows, Names, Process, person};

/// Who finds what a crash left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recover {
    /// Workers with the tickets; the sweep only clears reservations and abort rows.
    ByWorkers,
    /// A sweep; workers find only tickets without a task.
    BySweep,
}

/// Dies at every request of every path; how often.
pub(crate) async fn crash_everywhere<S: TableStore>(
    paths: &[Path],
    recover: Recover,
    store: impl Fn() -> Arc<S>,
) -> Result<usize> {
    let mut crashes = 0;
    for path in paths {
        for point in CrashPoint::ALL {
            for request in 1.. {
                if !crash(path, request, point, recover, store(), Names::new(0)).await? {
                    break;
                }
                crashes += 1;
            }
        }
    }
    Ok(crashes)
}

/// Dies at requests drawn by a seed, in one store; how often.
pub(crate) async fn crash_sometimes<S: TableStore>(
    paths: &[Path],
    store: Arc<S>,
    seed: u64,
    times: usize,
) -> Result<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut crashes = 0;
    for world in 0..times {
        let path = &paths[rng.usize(..paths.len())];
        let point = CrashPoint::ALL[rng.usize(..2)];
        let recover = [Recover::ByWorkers, Recover::BySweep][rng.usize(..2)];
        let request = rng.u64(1..=15);
        crashes += usize::from(crash(path, request, point, recover, store.clone(), Names::new(world)).await?);
    }
    Ok(crashes)
}

/// Whether the path got so far as to die.
async fn crash<S: TableStore>(
    path: &Path,
    request: u64,
    point: CrashPoint,
    recover: Recover,
    store: Arc<S>,
    names: Names,
) -> Result<bool> {
    let case = format!("{}, dead at request {request}, {point:?}, recovery {recover:?}", path.name);
    let healthy: Arc<dyn TableStore> = store;
    Process::create(&healthy, names).await?;
    let first = Process::start(healthy.clone(), names, Knows::Three, Acknowledge::Applied).await?;
    for (id, name, city) in [("1", "ken", "oslo"), ("2", "kim", "oslo")] {
        first.people.insert(person(id, name, city)?).await?;
    }
    let faults = FaultInjector::new(0);
    let faulty: Arc<dyn TableStore> = Arc::new(Faulty::new(healthy.clone(), faults.clone()));
    let dying = Process::start(faulty, names, path.knows, path.acknowledge).await?;
    (path.before)(&dying, &faults).await?;
    faults.crash_at(request, point);
    let answer = (path.act)(&dying, &faults).await;
    let crashed = faults.is_crashed();
    assert!(crashed || answer.is_ok(), "{case}: {answer:?}");
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
    assert!(seen || answer.is_err(), "{case}: an acknowledged write is lost");
    Ok(crashed)
}
