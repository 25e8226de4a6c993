//! Concurrent load, and the processor time that it takes.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

/// Runs the work for each number below `count` in concurrent tasks; each task does its share sequentially.
pub(crate) async fn in_flight<F, W>(tasks: u32, count: u32, work: F)
where
    F: Fn(u32) -> W + Clone + Send + 'static,
    W: Future<Output = ()> + Send,
{
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let work = work.clone();
        running.spawn(async move {
            for n in (task..count).step_by(tasks as usize) {
                work(n).await;
            }
        });
    }
    running.join_all().await;
}

/// User and system time of this process.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
