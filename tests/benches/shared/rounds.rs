//! Runs two sides in alternating rounds, so that other load of the machine affects both.

use std::time::{Duration, Instant};

use crate::median::median;

const ROUNDS: usize = 9;

/// Returns the median times of both sides. Each side gets the number of its round.
pub(crate) fn medians(
    mut first: impl FnMut(usize),
    mut second: impl FnMut(usize),
) -> (Duration, Duration) {
    let mut times = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        times.0.push(seconds(|| first(round)));
        times.1.push(seconds(|| second(round)));
    }
    (
        Duration::from_secs_f64(median(times.0)),
        Duration::from_secs_f64(median(times.1)),
    )
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}
