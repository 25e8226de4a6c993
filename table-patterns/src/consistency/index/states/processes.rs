//! The processes that write a table by its indexes, as the manifest registers them: a change of an index's
//! state waits for these processes, and not for ended processes.
//!
//! A process writes its own row before it first reads the manifest. It writes the row again before a read that
//! begins half a heartbeat or more after the row was last sent. So the states that a process acts on were read
//! within half a heartbeat, by its own clock, of a write of its row. A heartbeat is at least twice as long as
//! the lease.
//!
//! Another process observes the row, by the observer's clock. It waits for the heartbeat, plus the cache time,
//! plus the longest request. If the row is unchanged by then, no request of the process is under way, and the
//! process will not act before it has written a row again. The process has *ended* for the observer.
//!
//! An observer that runs for a shorter time uses the store's clock. A row is then of an ended process if it is
//! older than the observer's own row by all these durations and one day. docs/manifest.md has the argument;
//! tests break each of these rules.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use table_core::model::{
    ETag, Entity, IfMatch, Key, MANIFEST_PARTITION, TableName, Ticks, ValueRef,
};
use table_core::store::{Error, Operation, Result, TableStore};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::clock::{after, millis};
use crate::journal::LONGEST_LEASE;
use crate::rows::{accept_applied, fresh_id};

const ROWS: &str = "process~";
const DURATIONS: [&str; 3] = ["Cache", "Request", "Lease"];
const HEARTBEAT: &str = "Heartbeat";

/// The additional age, by the store's clock, after which the row of another process counts as ended without
/// observation.
const LONG_AGO: Duration = Duration::from_secs(24 * 3600);

/// Attempts to write a row that another process keeps removing.
const ROUNDS: usize = 4;

/// The id of a process that a change of an index's state waits for: the manifest has its row under the RowKey
/// `process~{id}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(Uuid);

impl ProcessId {
    fn new() -> Self {
        Self(fresh_id())
    }

    pub(super) fn key(self) -> Result<Key> {
        Key::new(MANIFEST_PARTITION, format!("{ROWS}{self}"))
    }

    fn of(key: &Key) -> Option<Self> {
        key.row()
            .strip_prefix(ROWS)
            .and_then(|id| Uuid::parse_str(id).ok())
            .map(Self)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_simple().fmt(f)
    }
}

/// The cache time, longest request and lease of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    /// The time for which the process caches the states of indexes.
    pub(crate) cache: Duration,
    /// The longest duration of its requests.
    pub(crate) request: Duration,
    /// Its lease as a builder and as an applier of journal rows.
    pub(crate) lease: Duration,
}

impl Durations {
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            cache: self.cache.max(other.cache),
            request: self.request.max(other.request),
            lease: self.lease.max(other.lease),
        }
    }

    /// The longest durations of a process: longer ones are refused when it opens a table.
    const LONGEST: Self = Self {
        cache: LONGEST_LEASE,
        request: LONGEST_LEASE,
        lease: LONGEST_LEASE,
    };

    /// These durations, at most the durations that a process can have.
    pub(super) fn believed(self) -> Self {
        let Self {
            cache,
            request,
            lease,
        } = Self::LONGEST;
        Self {
            cache: self.cache.min(cache),
            request: self.request.min(request),
            lease: self.lease.min(lease),
        }
    }

    /// Reads the durations that [`on`](Self::on) has set.
    pub(super) fn read(row: &Entity, [cache, request, lease]: [&str; 3]) -> Result<Self> {
        let millis = |name| read_millis(row, name);
        Ok(Self {
            cache: millis(cache)?,
            request: millis(request)?,
            lease: millis(lease)?,
        })
    }

    /// Sets the durations as properties of these names, in milliseconds.
    pub(super) fn on(self, row: Entity, [cache, request, lease]: [&str; 3]) -> Entity {
        let row = row
            .with(cache, millis(self.cache))
            .with(request, millis(self.request));
        row.with(lease, millis(self.lease))
    }

    /// After this time, no request of the process depends on an earlier state.
    pub(crate) const fn to_settle(self) -> Duration {
        self.cache.saturating_add(self.request)
    }

    /// The time for which a row is valid: at least twice the lease, so that a lease that begins in the first
    /// half of a heartbeat ends within the heartbeat.
    fn heartbeat(self) -> Duration {
        self.cache
            .saturating_mul(10)
            .max(self.lease)
            .saturating_mul(2)
    }
}

/// Reads a duration in milliseconds from a manifest row.
fn read_millis(row: &Entity, name: &str) -> Result<Duration> {
    match row.get(name) {
        Some(ValueRef::Int64(millis)) if millis >= 0 => {
            Ok(Duration::from_millis(millis.unsigned_abs()))
        }
        _ => Err(Error::decode(
            "manifest",
            row.key(),
            name,
            "milliseconds",
            "something else",
        )),
    }
}

/// The manifest row of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessRow {
    pub(crate) id: ProcessId,
    pub(crate) durations: Durations,
    heartbeat: Duration,
    pub(super) etag: Option<ETag>,
    /// The time of the last write, by the store's clock.
    at: Option<Ticks>,
}

impl ProcessRow {
    /// Reads the row of a process; `None` for any other row.
    pub(crate) fn read(row: &Entity) -> Result<Option<Self>> {
        let Some(id) = ProcessId::of(row.key()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            id,
            durations: Durations::read(row, DURATIONS)?,
            heartbeat: read_millis(row, HEARTBEAT)?,
            etag: row.etag().cloned(),
            at: row.timestamp(),
        }))
    }

    fn to_entity(id: ProcessId, durations: Durations) -> Result<Entity> {
        let row = durations.on(Entity::from(id.key()?), DURATIONS);
        Ok(row.with(HEARTBEAT, millis(durations.heartbeat())))
    }

    /// Whether no process can have written the row: its durations are longer than the durations of any process. State changes would wait for them.
    fn is_impossible(&self) -> bool {
        self.durations != self.durations.believed()
            || self.heartbeat > Durations::LONGEST.heartbeat()
    }

    /// Whether the row is so much older than a row written at `written` that its process has ended, whatever
    /// the clock of that process says.
    fn is_long_ago(&self, written: Option<Ticks>) -> bool {
        let long = self.lifetime().saturating_add(LONG_AGO);
        self.at
            .zip(written)
            .is_some_and(|(at, written)| after(at, long) <= written)
    }

    /// A row that is unchanged for this time is the row of an ended process.
    const fn lifetime(&self) -> Duration {
        self.heartbeat.saturating_add(self.durations.to_settle())
    }
}

/// For each row of a process: its ETag, and since when this process has seen the row unchanged, by its own
/// clock.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<HashMap<ProcessId, (Option<ETag>, Instant)>>);

impl Watch {
    /// Divides rows that were read at `asked` into rows of processes that may be active, and rows of ended
    /// processes. The observation of a new or changed row starts now, after the answer. `own` is the row of
    /// this process.
    pub(crate) fn divide(
        &self,
        rows: &[ProcessRow],
        asked: Instant,
        own: Option<ProcessId>,
    ) -> (Vec<ProcessRow>, Vec<ProcessRow>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut active, mut gone) = (Vec::new(), Vec::new());
        // The store's clock, by the row that this process has written last: the one clock that has set all of the rows' times.
        let written = rows
            .iter()
            .find(|row| Some(row.id) == own)
            .and_then(|row| row.at);
        let mut next = HashMap::with_capacity(rows.len());
        for row in rows {
            let before = seen
                .get(&row.id)
                .filter(|(etag, _)| etag.is_some() && *etag == row.etag);
            // A row without an ETag, or with another one than before, is observed from the beginning.
            let since = before.map_or_else(Instant::now, |(_, since)| *since);
            let unchanged = asked.saturating_duration_since(since);
            // `WatchWhole`: a process that pauses for less than the lifetime of its row still acts by its
            // states.
            let was_watched = before.is_some() && unchanged >= row.lifetime();
            // A row with impossible durations is removed like the row of an ended process.
            let is_gone = was_watched || row.is_long_ago(written) || row.is_impossible();
            if is_gone { &mut gone } else { &mut active }.push(row.clone());
            next.insert(row.id, (row.etag.clone(), since));
        }
        *seen = next;
        (active, gone)
    }
}

/// The row of this process, for all of its handles of a table that have the same durations.
#[derive(Debug)]
pub(crate) struct Registration {
    durations: Durations,
    row: Mutex<Option<Registered>>,
    /// Held during a write of the row, so that concurrent tasks send one write.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct Registered {
    id: ProcessId,
    etag: ETag,
    /// When the write was sent, not when it was answered.
    sent: Instant,
}

impl Registration {
    pub(crate) fn new(durations: Durations) -> Self {
        Self {
            durations,
            row: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn row(&self) -> MutexGuard<'_, Option<Registered>> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn id(&self) -> Option<ProcessId> {
        self.row().as_ref().map(|row| row.id)
    }

    /// Forgets the row with this id, which the manifest no longer has: the process registers under another id before it acts.
    pub(crate) fn forget(&self, id: ProcessId) {
        let mut row = self.row();
        if row.as_ref().is_some_and(|row| row.id == id) {
            *row = None;
        }
    }

    /// Whether the process may act on states whose read begins at this moment.
    pub(crate) fn holds_at(&self, asked: Instant) -> bool {
        // Half of the heartbeat, from the moment at which the write was *sent*. Observers wait for a whole heartbeat plus the time in which
        // states and requests end (`lifetime`), from the moment at which they have *seen* the row. So a process has stopped long before an
        // observer takes it for ended, without a comparison of two clocks.
        let half = self.durations.heartbeat() / 2;
        self.row()
            .as_ref()
            .is_some_and(|row| asked < row.sent + half)
    }

    /// Writes the row under its last known ETag, so that a delayed request of this process cannot overwrite a
    /// later row. If the ETag is unknown, or the row was removed, the process inserts another row, and the
    /// earlier row ends unchanged. 1 request; 2 if the row was removed.
    pub(crate) async fn renew(&self, store: &dyn TableStore, table: &TableName) -> Result<()> {
        // One task writes for all tasks that wait. The timeout limits the wait for a task whose future is not polled.
        let _turn = timeout(self.durations.cache, self.turn.lock()).await;
        for _ in 0..ROUNDS {
            // Before the write is sent. Other processes count from the moment at which they see the row, which
            // is later.
            let sent = Instant::now();
            if self.holds_at(sent) {
                return Ok(());
            }
            let before = self.row().clone();
            let id = before.as_ref().map_or_else(ProcessId::new, |row| row.id);
            let row = ProcessRow::to_entity(id, self.durations)?;
            let operation = match &before {
                Some(before) => Operation::Replace(row, IfMatch::from(&before.etag)),
                None => Operation::Insert(row),
            };
            match accept_applied(store.write(table, operation).await) {
                // Without an ETag the row cannot be renewed: the next round inserts another one.
                Ok(written) => *self.row() = written.etag.map(|etag| Registered { id, etag, sent }),
                // An observer has removed the row, or a delayed request of this process has changed it:
                // register under a new id.
                Err(e) if e.is_conflict() => *self.row() = None,
                Err(e) => {
                    // The version of the row is unknown, so it can no longer be renewed. Observers see it
                    // end.
                    if e.is_ambiguous() {
                        *self.row() = None;
                    }
                    return Err(e);
                }
            }
        }
        Err(Error::precondition_failed(table, ROWS))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn row(id: u64, version: u64) -> ProcessRow {
        let durations = Durations {
            cache: Duration::from_secs(30),
            request: Duration::from_secs(60),
            lease: Duration::from_secs(300),
        };
        let entity =
            ProcessRow::to_entity(ProcessId(Uuid::from_u64_pair(0, id)), durations).unwrap();
        ProcessRow::read(&entity.with_system(Some(ETag::from_version(version)), None))
            .unwrap()
            .unwrap()
    }

    /// A planted row does not make a change of state wait for as long as it says.
    #[tokio::test(start_paused = true)]
    async fn a_row_with_durations_that_no_process_has_is_gone() {
        let sound = row(1, 1);
        let lease = Durations {
            lease: Duration::from_millis(i64::MAX as u64),
            ..sound.durations
        };
        let rows = [
            sound.clone(),
            ProcessRow {
                durations: lease,
                ..row(2, 1)
            },
            ProcessRow {
                heartbeat: lease.lease,
                ..row(3, 1)
            },
        ];
        assert_eq!(gone(&Watch::default(), &rows), [2, 3]);
    }

    /// Observes rows with an immediate answer; returns the ids of ended processes.
    fn gone(watch: &Watch, rows: &[ProcessRow]) -> Vec<u64> {
        let (there, gone) = watch.divide(rows, Instant::now(), None);
        assert_eq!(there.len() + gone.len(), rows.len());
        gone.iter().map(|row| row.id.0.as_u64_pair().1).collect()
    }

    #[test]
    fn a_row_has_its_heartbeat() {
        let row = row(1, 1);
        assert_eq!(
            row.heartbeat,
            Duration::from_secs(600),
            "ten times the cache, and the lease, twice"
        );
        assert_eq!(row.lifetime(), Duration::from_secs(600 + 30 + 60));
        let other = Entity::new(MANIFEST_PARTITION, "table").unwrap();
        assert_eq!(ProcessRow::read(&other).unwrap(), None);
    }

    /// An observation begins with the first answer that has the row unchanged, and ends with the start of the last read.
    #[tokio::test(start_paused = true)]
    async fn a_process_has_ended_after_its_row_was_unchanged_for_its_lifetime() {
        let (watch, lifetime) = (Watch::default(), row(1, 1).lifetime());
        let nearly = lifetime.checked_sub(Duration::from_millis(1)).unwrap();
        assert!(
            gone(&watch, &[row(1, 1), row(2, 1)]).is_empty(),
            "nobody has watched them before"
        );
        advance(nearly).await;
        assert!(gone(&watch, &[row(1, 1), row(2, 2)]).is_empty());
        advance(Duration::from_millis(1)).await;
        assert_eq!(
            gone(&watch, &[row(1, 1), row(2, 2), row(3, 1)]),
            [1],
            "the second was written anew"
        );
        advance(nearly).await;
        assert_eq!(
            gone(&watch, &[row(1, 2), row(2, 2), row(3, 1)]),
            [2],
            "the first is there again"
        );
    }

    /// A delayed answer shows the state at the start of its read.
    #[tokio::test(start_paused = true)]
    async fn a_delayed_answer_does_not_extend_the_observation() {
        let (watch, lifetime) = (Watch::default(), row(1, 1).lifetime());
        let asked = Instant::now();
        advance(lifetime).await;
        // The first answer: the row could have been written just before the answer.
        assert!(watch.divide(&[row(1, 1)], asked, None).1.is_empty());
        let asked = Instant::now();
        advance(lifetime).await;
        assert!(watch.divide(&[row(1, 1)], asked, None).1.is_empty());
        assert_eq!(watch.divide(&[row(1, 1)], Instant::now(), None).1.len(), 1);
    }

    /// A process that runs too briefly to observe a row compares the store's timestamps of that row and of its own.
    #[tokio::test(start_paused = true)]
    async fn a_process_has_ended_if_its_row_is_a_day_older_than_another() {
        let stamped = |id, at| ProcessRow {
            at: Some(at),
            ..row(id, 1)
        };
        let (first, lifetime) = (Ticks::now(), row(1, 1).lifetime());
        for (age, is_gone) in [(LONG_AGO, false), (LONG_AGO + lifetime, true)] {
            let rows = [stamped(1, first), stamped(2, after(first, age))];
            let gone = |own: u64| {
                let own = Some(ProcessId(Uuid::from_u64_pair(0, own)));
                let (_, gone) = Watch::default().divide(&rows, Instant::now(), own);
                gone.iter()
                    .map(|row| row.id.0.as_u64_pair().1)
                    .collect::<Vec<_>>()
            };
            assert_eq!(gone(2), if is_gone { vec![1] } else { vec![] });
            assert!(
                gone(1).is_empty() && gone(3).is_empty(),
                "by its own row alone"
            );
        }
    }
}
