use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::side::Side;

/// The number of entities to read.
pub(crate) const LOADED: u32 = 10_000;
const REQUESTS: u32 = 1_500;
const GROUPED: u32 = 2_000;
const IN_FLIGHT: usize = 32;

/// The operation that a round measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Get,
    Insert,
    Group,
    Scan,
}

impl Work {
    pub(crate) const ALL: [Self; 4] = [Self::Get, Self::Insert, Self::Group, Self::Scan];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "get, 32 in flight",
            Self::Insert => "insert, 32 in flight",
            Self::Group => "group of 100, per 1,000 entities",
            Self::Scan => "scan of 10,000, per 1,000 entities",
        }
    }

    /// The number of operations in one round.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Self::Get | Self::Insert => REQUESTS,
            Self::Group => GROUPED,
            Self::Scan => LOADED,
        }
    }
}

/// The cost of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Seconds of processor time of the client per 1,000 operations.
    pub(crate) cpu: f64,
    /// Operations per second.
    pub(crate) rate: f64,
}

impl Cost {
    pub(crate) fn new(work: Work, cpu: Duration, wall: Duration) -> Self {
        let count = f64::from(work.count());
        Self { cpu: cpu.as_secs_f64() * 1000.0 / count, rate: count / wall.as_secs_f64() }
    }
}

/// Runs one round of one client.
pub(crate) fn round<S: Side>(runtime: &Runtime, side: &S, work: Work, partition: &str) -> Cost {
    let rows: Vec<_> = match work {
        Work::Insert | Work::Group => (0..work.count()).map(|n| S::row(partition, n)).collect(),
        Work::Get | Work::Scan => Vec::new(),
    };
    let (side, rows, partition) = (side.clone(), Arc::new(rows), partition.to_owned());
    let (cpu, wall) = (processor_time(), Instant::now());
    // Runs on the worker threads, as in a service, and not on the thread that waits for them.
    let done = runtime.spawn(async move {
        match work {
            Work::Get => in_flight(REQUESTS, move |n| get(side.clone(), n)).await,
            Work::Insert => in_flight(REQUESTS, move |n| insert(side.clone(), Arc::clone(&rows), n)).await,
            Work::Group => {
                for group in rows.chunks(100) {
                    side.group(&partition, group).await;
                }
            }
            Work::Scan => assert_eq!(side.scan().await, LOADED as usize),
        }
    });
    runtime.block_on(done).unwrap();
    Cost::new(work, processor_time() - cpu, wall.elapsed())
}

async fn get<S: Side>(side: S, n: u32) {
    side.get(n * 7919 % LOADED).await;
}

async fn insert<S: Side>(side: S, rows: Arc<Vec<S::Row>>, n: u32) {
    side.insert(&rows[n as usize]).await;
}

/// Runs the work in concurrent tasks; each task does its share sequentially.
async fn in_flight<F, W>(count: u32, work: F)
where
    F: Fn(u32) -> W + Clone + Send + 'static,
    W: Future<Output = ()> + Send,
{
    let mut tasks = JoinSet::new();
    for task in 0..IN_FLIGHT as u32 {
        let work = work.clone();
        tasks.spawn(async move {
            for n in (task..count).step_by(IN_FLIGHT) {
                work(n).await;
            }
        });
    }
    tasks.join_all().await;
}

/// User and system time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
