use std::time::{Duration, Instant};

use super::Writer;
use super::commit::Work;
use super::reopen::CommitFailure;

/// Maximum rows of a dropped table that one commit removes. This takes about a millisecond, which a write may
/// have to wait.
pub(super) const MAX_ROWS: usize = 4096;
/// Maximum bytes; the row that exceeds them is the last.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Pause after the first failed attempt. It doubles with each attempt …
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// … up to this limit. Each failure leads to reopening the file.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// While there are writes, they get this many times the time that reclaiming takes.
const SHARE_OF_WRITES: u32 = 9;

/// Decides when rows of which dropped table are removed. After a failure, the pause grows and other tables go
/// first.
#[derive(Debug, Default)]
pub(super) struct Reclaiming {
    /// Tables that failed while others are left.
    postponed: Vec<u64>,
    /// Pause between the last failure and the next attempt.
    pause: Duration,
    not_before: Option<Instant>,
    /// Until this time, writes go first.
    writes_until: Option<Instant>,
}

impl Reclaiming {
    /// Returns how long to wait with reclaiming while there are no requests; `None` if no table is left.
    pub(super) fn wait(&self, dropped: &[u64], now: Instant) -> Option<Duration> {
        let wait = self
            .not_before
            .map_or(Duration::ZERO, |time| time.saturating_duration_since(now));
        (!dropped.is_empty()).then_some(wait)
    }

    /// Whether reclaiming is due although there are writes.
    fn is_due_among_writes(&self, dropped: &[u64], now: Instant) -> bool {
        let writes_had_theirs = self.writes_until.is_none_or(|time| time <= now);
        writes_had_theirs && self.wait(dropped, now) == Some(Duration::ZERO)
    }

    /// Returns the table to continue with.
    fn next(&mut self, dropped: &[u64]) -> Option<u64> {
        let other = dropped
            .iter()
            .rev()
            .find(|table| !self.postponed.contains(table))
            .copied();
        other.or_else(|| {
            self.postponed.clear();
            dropped.last().copied()
        })
    }

    fn succeeded(&mut self, started: Instant, now: Instant) {
        (self.pause, self.not_before) = (Duration::ZERO, None);
        self.writes_until = Some(now + now.duration_since(started) * SHARE_OF_WRITES);
    }

    fn failed(&mut self, table: u64, now: Instant) {
        self.postponed.push(table);
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.not_before = Some(now + self.pause);
    }
}

impl Writer {
    /// Removes some rows of a dropped table. A failure affects no request: reclaiming has its own commit,
    /// before which all acknowledged writes are on disk and the file is prepared for fast recovery. Otherwise
    /// recovery would scan every page, find a damaged page of a dropped table, and refuse the file.
    pub(super) fn reclaim(&mut self) -> Result<(), CommitFailure> {
        if !self.recovery_prepared {
            self.prepare_recovery()?;
        }
        let Some(table) = self.reclaiming.next(&self.ledger.dropped) else {
            return Ok(());
        };
        let started = Instant::now();
        let done = self.commit(Work::Reclaim(table));
        match &done {
            Ok(_) => self.reclaiming.succeeded(started, Instant::now()),
            Err(_) => self.reclaiming.failed(table, Instant::now()),
        }
        done.map(drop)
    }

    /// Whether to reclaim before the next writes.
    pub(super) fn is_reclaiming_due(&self) -> bool {
        self.reclaiming
            .is_due_among_writes(&self.ledger.dropped, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tables_wait_longer_each_time_and_go_last() {
        let (mut reclaiming, mut now, dropped) = (Reclaiming::default(), Instant::now(), [1, 2, 3]);
        assert_eq!(reclaiming.wait(&dropped, now), Some(Duration::ZERO));
        let mut attempts = Vec::new();
        for _ in 0..12 {
            let table = reclaiming.next(&dropped).unwrap();
            reclaiming.failed(table, now);
            let wait = reclaiming.wait(&dropped, now).unwrap();
            attempts.push((table, wait.as_secs()));
            assert!(!reclaiming.is_due_among_writes(&dropped, now));
            now += wait;
            assert!(reclaiming.is_due_among_writes(&dropped, now));
        }
        let tables: Vec<_> = attempts.iter().map(|(table, _)| *table).collect();
        let waits: Vec<_> = attempts.iter().map(|(_, wait)| *wait).collect();
        assert_eq!(tables, [3, 2, 1].repeat(4));
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    }

    #[test]
    fn a_success_resets_the_pause_and_leaves_most_time_to_writes() {
        let (mut reclaiming, now, dropped) = (Reclaiming::default(), Instant::now(), [7, 8]);
        reclaiming.failed(8, now);
        assert_eq!(reclaiming.next(&dropped), Some(7));
        reclaiming.succeeded(now, now + Duration::from_millis(2));
        assert_eq!(reclaiming.wait(&dropped, now), Some(Duration::ZERO));
        assert!(!reclaiming.is_due_among_writes(&dropped, now + Duration::from_millis(19)));
        assert!(reclaiming.is_due_among_writes(&dropped, now + Duration::from_millis(20)));
        assert_eq!(reclaiming.wait(&[], now), None);
    }
}
