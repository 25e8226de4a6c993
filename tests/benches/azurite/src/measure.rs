use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::load::{in_flight, processor_time};
use crate::side::Side;

/// The number of entities to read.
pub(crate) const LOADED: u32 = 10_000;
const REQUESTS: u32 = 1_500;
const GROUPED: u32 = 2_000;
const IN_FLIGHT: u32 = 32;

/// The operation that a round measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Insert,
    Group,
    Scan,
}

impl Operation {
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
    pub(crate) fn new(operation: Operation, cpu: Duration, wall: Duration) -> Self {
        let count = f64::from(operation.count());
        Self {
            cpu: cpu.as_secs_f64() * 1000.0 / count,
            rate: count / wall.as_secs_f64(),
        }
    }
}

/// Runs one round of one client.
pub(crate) fn round<S: Side>(
    runtime: &Runtime,
    side: &S,
    operation: Operation,
    partition: &str,
) -> Cost {
    let rows: Vec<_> = match operation {
        Operation::Insert | Operation::Group => (0..operation.count())
            .map(|n| S::row(partition, n))
            .collect(),
        Operation::Get | Operation::Scan => Vec::new(),
    };
    let (side, rows, partition) = (side.clone(), Arc::new(rows), partition.to_owned());
    let (cpu, wall) = (processor_time(), Instant::now());
    // Runs on the worker threads, as in a service, and not on the thread that waits for them.
    let done = runtime.spawn(async move {
        match operation {
            Operation::Get => in_flight(IN_FLIGHT, REQUESTS, move |n| get(side.clone(), n)).await,
            Operation::Insert => {
                in_flight(IN_FLIGHT, REQUESTS, move |n| {
                    insert(side.clone(), Arc::clone(&rows), n)
                })
                .await
            }
            Operation::Group => {
                for group in rows.chunks(100) {
                    side.group(&partition, group).await;
                }
            }
            Operation::Scan => assert_eq!(side.scan().await, LOADED as usize),
        }
    });
    runtime.block_on(done).unwrap();
    Cost::new(operation, processor_time() - cpu, wall.elapsed())
}

async fn get<S: Side>(side: S, n: u32) {
    side.get(n * 7919 % LOADED).await;
}

async fn insert<S: Side>(side: S, rows: Arc<Vec<S::Row>>, n: u32) {
    side.insert(&rows[n as usize]).await;
}
