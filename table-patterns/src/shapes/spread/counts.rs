//! Counters of a bounded number of partitions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use table_core::model::TableName;
use tokio::time::Instant;

/// Partitions that are counted at once.
const COUNTERS: usize = 1024;

/// Requests to one partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) requests: u64,
    pub(super) reads: u64,
}

/// A half of the window.
#[derive(Debug, Default)]
struct Half {
    tables: HashMap<TableName, HashMap<Arc<str>, Count>>,
    counters: usize,
    total: u64,
    /// Those that had `least` requests, the smallest count, when it was looked for.
    smallest: Vec<(TableName, Arc<str>)>,
    least: u64,
}

/// The requests of a window, in two halves.
#[derive(Debug)]
pub(super) struct Counts {
    half: Duration,
    since: Instant,
    now: Half,
    before: Half,
}

impl Counts {
    pub(super) fn new(window: Duration) -> Self {
        let (now, before) = (Half::default(), Half::default());
        Self { half: window / 2, since: Instant::now(), now, before }
    }

    /// All requests.
    pub(super) const fn total(&self) -> u64 {
        self.now.total + self.before.total
    }

    /// Those to each partition.
    pub(super) fn sums(&self) -> HashMap<(&TableName, &str), Count> {
        let mut all: HashMap<(&TableName, &str), Count> = HashMap::new();
        for (partition, count) in self.now.all().chain(self.before.all()) {
            let sum = all.entry(partition).or_default();
            *sum = Count { requests: sum.requests + count.requests, reads: sum.reads + count.reads };
        }
        all
    }

    /// Begins a new half when the present one is over; forgets what is older than the window.
    pub(super) fn turn(&mut self) {
        let passed = self.since.elapsed();
        if passed < self.half {
            return;
        }
        let last = std::mem::take(&mut self.now);
        self.before = if passed < self.half * 2 { last } else { Half::default() };
        self.since = Instant::now();
    }

    pub(super) fn add(&mut self, table: &TableName, partition: &str, reads: u64) {
        let half = &mut self.now;
        half.total += 1;
        if let Some(count) = half.tables.get_mut(table).and_then(|counters| counters.get_mut(partition)) {
            *count = Count { requests: count.requests + 1, reads: count.reads + reads };
            return;
        }
        let before = if half.counters < COUNTERS { Count::default() } else { half.take_smallest() };
        let count = Count { requests: before.requests + 1, reads: before.reads + reads };
        half.tables.entry(table.clone()).or_default().insert(partition.into(), count);
        half.counters += 1;
    }
}

impl Half {
    fn all(&self) -> impl Iterator<Item = ((&TableName, &str), &Count)> {
        let tables = self.tables.iter();
        tables
            .flat_map(|(table, counters)| counters.iter().map(move |(name, count)| ((table, &**name), count)))
    }

    /// Frees a counter with the smallest count, which the next partition takes over. All of that count are looked for
    /// together: where many partitions come and go, that is rarely.
    fn take_smallest(&mut self) -> Count {
        if let Some(count) = self.take_known() {
            return count;
        }
        self.least = self.all().map(|(_, count)| count.requests).min().unwrap_or_default();
        let least = self.tables.iter().flat_map(|(table, counters)| {
            let least = counters.iter().filter(|(_, count)| count.requests == self.least);
            least.map(|(partition, _)| (table.clone(), Arc::clone(partition)))
        });
        self.smallest = least.collect();
        self.take_known().unwrap_or_default()
    }

    /// One that still has the smallest count.
    fn take_known(&mut self) -> Option<Count> {
        while let Some((table, partition)) = self.smallest.pop() {
            let Some(counters) = self.tables.get_mut(&table) else { continue };
            if counters.get(&partition).is_none_or(|count| count.requests != self.least) {
                continue;
            }
            let count = counters.remove(&partition);
            if counters.is_empty() {
                self.tables.remove(&table);
            }
            self.counters -= 1;
            return count;
        }
        None
    }
}
