//! The times of writes, in as many intervals as fit a picture.

use std::collections::BTreeMap;

use table_core::model::Ticks;

/// A second, in ticks of 100 ns.
const SECOND: i64 = 10_000_000;
/// The maximal number of intervals. With one more, the intervals become longer.
const MAX_INTERVALS: usize = 400;
/// The lengths of intervals in seconds.
const LENGTHS: [i64; 12] = [
    1,
    10,
    60,
    300,
    900,
    3600,
    21_600,
    86_400,
    604_800,
    2_592_000,
    31_536_000,
    315_360_000,
];

/// The number of rows by the time of their last write.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct WriteTimes {
    /// The length of an interval, in seconds.
    pub seconds: u64,
    /// The intervals with rows: the beginning, and the number of rows.
    pub intervals: Vec<(Ticks, u64)>,
}

/// Counts rows by time, at first by second. The intervals become longer as the times spread.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The index of the length in [`LENGTHS`].
    length: usize,
    counts: BTreeMap<i64, u64>,
}

impl Times {
    pub(super) fn add(&mut self, time: Ticks) {
        *self.counts.entry(time.get() / self.ticks()).or_default() += 1;
        while self.is_too_fine() {
            let earlier = self.ticks();
            self.length += 1;
            let now = self.ticks();
            let counts = std::mem::take(&mut self.counts);
            // By the beginning: a week that spans two months counts for the month in which it begins.
            for (interval, rows) in counts {
                *self.counts.entry(interval * earlier / now).or_default() += rows;
            }
        }
    }

    fn ticks(&self) -> i64 {
        LENGTHS[self.length] * SECOND
    }

    /// Whether the picture would have too many intervals, empty ones included.
    fn is_too_fine(&self) -> bool {
        let ends = self
            .counts
            .first_key_value()
            .zip(self.counts.last_key_value());
        let intervals = ends.map_or(0, |((first, _), (last, _))| last - first + 1);
        intervals > MAX_INTERVALS as i64 && self.length + 1 < LENGTHS.len()
    }

    pub(super) fn finish(self) -> WriteTimes {
        let ticks = self.ticks();
        let intervals = self.counts.into_iter();
        let intervals =
            intervals.filter_map(|(interval, rows)| Some((Ticks::new(interval * ticks)?, rows)));
        WriteTimes {
            seconds: LENGTHS[self.length].unsigned_abs(),
            intervals: intervals.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_grow_and_no_row_is_lost() {
        let mut times = Times::default();
        let start: Ticks = "2026-01-01T00:00:00Z".parse().unwrap();
        for second in 0..100_000 {
            times.add(Ticks::new(start.get() + second * SECOND).unwrap());
        }
        let end = times.finish();
        assert_eq!(end.seconds, 300);
        assert_eq!(end.intervals.len(), 334);
        assert_eq!(
            end.intervals.iter().map(|(_, rows)| rows).sum::<u64>(),
            100_000
        );
        assert_eq!(end.intervals[0], (start, 300));
    }
}
