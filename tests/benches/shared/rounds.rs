//! Runs two sides in alternating rounds, so that other load of the machine affects both.

use std::time::{Duration, Instant};

const ROUNDS: usize = 9;

/// Returns the median times of both sides. Each side gets the number of its round.
pub(crate) fn medians(mut theirs: impl FnMut(usize), mut ours: impl FnMut(usize)) -> (Duration, Duration) {
    let mut times = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        times.0.push(time(|| theirs(round)));
        times.1.push(time(|| ours(round)));
    }
    (median(times.0), median(times.1))
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
