//! Records that are not stored yet.

use std::collections::VecDeque;
use std::time::Duration;

use table_core::model::Ticks;
use tokio::time::Instant;

use super::LogOptions;
use super::entry::line;
use super::name::directory;

/// How far the clock may go back without the log doing so: a minute.
const BACK: i64 = 60 * 10_000_000;

/// Records of one directory.
pub(super) struct Buffer {
    pub(super) directory: String,
    pub(super) first: Ticks,
    pub(super) last: Ticks,
    pub(super) records: u64,
    pub(super) text: String,
    /// Its number among the writer's, by which a lost answer is recognized.
    pub(super) flush: u64,
    since: Instant,
    /// Whether storing it was tried: what is stored under its number cannot grow any more.
    sealed: bool,
}

/// The last is being filled; those before could not be stored, or wait for it.
#[derive(Default)]
pub(super) struct Buffers {
    waiting: VecDeque<Buffer>,
    /// What is being stored.
    under_way: usize,
    flushes: u64,
    last: Option<Ticks>,
}

impl Buffers {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn records(&self) -> u64 {
        self.waiting.iter().map(|buffer| buffer.records).sum()
    }

    /// Bytes in memory, those that are being stored among them.
    pub(super) fn bytes(&self) -> usize {
        self.under_way + self.bytes_waiting()
    }

    fn bytes_waiting(&self) -> usize {
        self.waiting.iter().map(|buffer| buffer.text.len()).sum()
    }

    /// Whether something has to be stored, whatever its age.
    pub(super) fn is_full(&self, max: usize) -> bool {
        self.len() > 1 || self.bytes_waiting() >= max
    }

    /// Whether there is room for more in the last one.
    pub(super) fn may_grow(&self, max: usize) -> bool {
        self.waiting.back().is_some_and(|buffer| !buffer.sealed && buffer.text.len() < max)
    }

    /// When the oldest record has this age; `None` without any, or where the age has no bound.
    pub(super) fn aged(&self, age: Duration) -> Option<Instant> {
        self.waiting.front()?.since.checked_add(age)
    }

    /// Adds a record; times go back only if the clock does by more than [`BACK`].
    pub(super) fn push(&mut self, service: &str, options: &LogOptions, record: &str) {
        let clock = options.clock.now();
        let ahead = |last: &Ticks| (1..=BACK).contains(&(last.get() - clock.get()));
        let now = self.last.filter(ahead).unwrap_or(clock);
        let went_back = self.last.is_some_and(|last| last > now);
        self.last = Some(now);
        let place = directory(service, now, options.period);
        let fits = self.may_grow(options.max_bytes) && !went_back;
        if !(fits && self.waiting.back().is_some_and(|buffer| buffer.directory == place)) {
            self.begin(place, now);
        }
        if let Some(buffer) = self.waiting.back_mut() {
            buffer.text.push_str(&line(options.format, now, record));
            (buffer.last, buffer.records) = (now, buffer.records + 1);
        }
    }

    fn begin(&mut self, directory: String, now: Ticks) {
        self.flushes += 1;
        let (first, last, flush, since) = (now, now, self.flushes, Instant::now());
        let (records, text, sealed) = (0, String::new(), false);
        self.waiting.push_back(Buffer { directory, first, last, records, text, flush, since, sealed });
    }

    /// The first so many, to be stored.
    pub(super) fn take(&mut self, count: usize) -> VecDeque<Buffer> {
        let mut taken: VecDeque<_> = self.waiting.drain(..count).collect();
        taken.iter_mut().for_each(|buffer| buffer.sealed = true);
        self.under_way = taken.iter().map(|buffer| buffer.text.len()).sum();
        taken
    }

    /// What of them could not be stored.
    pub(super) fn put_back(&mut self, mut left: VecDeque<Buffer>) {
        self.under_way = 0;
        left.append(&mut self.waiting);
        self.waiting = left;
    }
}
