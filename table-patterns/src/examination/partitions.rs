//! The partitions of a table: their sizes, and the writes that they took.

use std::collections::{BTreeMap, HashMap};

use table_core::model::{Entity, Ticks};
use table_core::store::{KeyOrder, ServiceProfile, limits};

use super::report::{Findings, PartitionSize, PartitionSizes, Problem};

/// The maximal number of partitions in each list of a report.
const MAX_LISTED: usize = 20;
/// The maximal number of partitions that are counted in a service without order.
const MAX_OPEN: usize = 100_000;
/// A second, in ticks of 100 ns.
const SECOND: i64 = 10_000_000;
/// A day, in ticks of 100 ns.
const DAY: i64 = 24 * 3600 * SECOND;
/// A partition is hot from this share of the service's target on, in percent.
const HOT: u64 = 50;
/// A partition with half of the writes of a day is hot if the table had at least this number of writes on that day.
const MANY_WRITES: u64 = 10_000;

/// A partition whose rows are being read.
struct OpenPartition {
    size: PartitionSize,
    /// The number of rows by second of the last day: 86,400 numbers at most.
    seconds: BTreeMap<i64, u64>,
}

/// Counts rows by partition. Rows of a sorted store come partition by partition, so one is open at a time.
pub(super) struct Partitions {
    is_sorted: bool,
    /// The beginning of the last day.
    since: i64,
    open: HashMap<String, OpenPartition>,
    last: Option<OpenPartition>,
    sizes: PartitionSizes,
}

impl Partitions {
    pub(super) fn new(profile: &ServiceProfile, now: Ticks) -> Self {
        let sizes = PartitionSizes {
            is_complete: true,
            ..PartitionSizes::default()
        };
        let is_sorted = profile.order == KeyOrder::Sorted;
        Self {
            is_sorted,
            since: now.get() - DAY,
            open: HashMap::new(),
            last: None,
            sizes,
        }
    }

    pub(super) fn add(&mut self, row: &Entity, bytes: u64) {
        let partition = row.key().partition();
        let open = if self.is_sorted {
            let is_other = self
                .last
                .as_ref()
                .is_none_or(|open| open.size.partition != partition);
            if is_other && let Some(ended) = self.last.replace(OpenPartition::new(partition)) {
                self.end_partition(ended);
            }
            self.last.as_mut()
        } else if self.open.contains_key(partition) || self.open.len() < MAX_OPEN {
            Some(
                self.open
                    .entry(partition.to_owned())
                    .or_insert_with(|| OpenPartition::new(partition)),
            )
        } else {
            self.sizes.is_complete = false;
            None
        };
        let Some(open) = open else { return };
        open.size.rows += 1;
        open.size.bytes += bytes;
        if let Some(time) = row
            .timestamp()
            .map(Ticks::get)
            .filter(|time| *time >= self.since)
        {
            open.size.written_last_day += 1;
            self.sizes.written_last_day += 1;
            if self.is_sorted {
                *open.seconds.entry(time / SECOND).or_default() += 1;
            }
        }
    }

    /// Adds the size of a partition whose rows are all read.
    fn end_partition(&mut self, open: OpenPartition) {
        let OpenPartition { mut size, seconds } = open;
        size.busiest_second = seconds.into_values().max().unwrap_or_default();
        self.sizes.count += 1;
        // Class n has partitions of 2^n rows and more, below 2^(n+1).
        let power = size.rows.checked_ilog2().unwrap_or_default() as usize;
        while self.sizes.by_rows.len() <= power {
            self.sizes.by_rows.push((2 << self.sizes.by_rows.len(), 0));
        }
        self.sizes.by_rows[power].1 += 1;
        insert_if_great(&mut self.sizes.largest, &size, |size| size.rows);
        if size.written_last_day > 0 {
            // The measure is a product: many writes of a day harm less if they are spread over the day.
            insert_if_great(&mut self.sizes.busiest, &size, |size| {
                size.busiest_second.max(1) * size.written_last_day
            });
        }
    }

    /// The sizes of all partitions. Adds the findings about hot partitions.
    pub(super) fn finish(mut self, findings: &mut Findings) -> PartitionSizes {
        let open: Vec<_> = self
            .last
            .take()
            .into_iter()
            .chain(std::mem::take(&mut self.open).into_values())
            .collect();
        open.into_iter().for_each(|open| self.end_partition(open));
        let all = self.sizes.written_last_day;
        let target = limits::PARTITION_ENTITIES_PER_SECOND;
        for size in &self.sizes.busiest {
            let PartitionSize {
                partition,
                written_last_day,
                busiest_second,
                ..
            } = size;
            // A row shows its last write only, so these numbers are lower bounds: a partition may be hot and
            // not be found.
            let takes_half =
                self.sizes.count > 1 && all >= MANY_WRITES && written_last_day * 2 >= all;
            let subject = if busiest_second * 100 >= target * HOT {
                format!(
                    "{partition:?}: {busiest_second} rows were written in one second; the service's target for a partition is {target}"
                )
            } else if takes_half {
                format!("{partition:?}: {written_last_day} of the {all} rows of the last day")
            } else {
                continue;
            };
            findings.add_many(Problem::HotPartition, &subject, *written_last_day);
        }
        self.sizes
    }
}

impl OpenPartition {
    fn new(partition: &str) -> Self {
        let size = PartitionSize {
            partition: partition.to_owned(),
            rows: 0,
            bytes: 0,
            written_last_day: 0,
            busiest_second: 0,
        };
        Self {
            size,
            seconds: BTreeMap::new(),
        }
    }
}

/// Inserts a partition into a list of those with the greatest measure, greatest first.
fn insert_if_great(
    list: &mut Vec<PartitionSize>,
    size: &PartitionSize,
    measure: impl Fn(&PartitionSize) -> u64,
) {
    let at = list.partition_point(|other| measure(other) >= measure(size));
    if at < MAX_LISTED {
        list.insert(at, size.clone());
        list.truncate(MAX_LISTED);
    }
}
