//! The processes that write a table by its indexes, as its manifest names them: who changes the state of an index waits for these,
//! and for nobody that is gone.
//!
//! A handle is registered by a row of its own before it asks the manifest, and whenever it asks again half a heartbeat or more after it
//! sent the row last. So what it acts upon was asked, by its own clock, within half a heartbeat of a row that took effect. A heartbeat
//! is at least twice as long as its lease. Whoever has seen the row unchanged, by its own clock, for the heartbeat, the time for which
//! states are cached and the longest life of a request knows that nothing of the process is under way any more, and that it will not act before it has
//! written a row again. Processes that live shorter than that cannot know: they go by the store's clock, which has stamped their own row
//! a day and all of this later than the other.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use table_core::model::{ETag, Entity, IfMatch, Key, MANIFEST_PARTITION, TableName, Ticks, ValueRef};
use table_core::store::{Error, ErrorKind, Operation, Result, TableStore};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::manifest::{ManifestRows, is_lost};
use super::options::IndexOptions;
use crate::clock::after;

const ROWS: &str = "process~";
const CACHE: &str = "Cache";
const REQUEST: &str = "Request";
const LEASE: &str = "Lease";
const HEARTBEAT: &str = "Heartbeat";

/// By how much more than it takes a row is older than one that was just written, by the clock of the store, if its process is gone.
const LONG_AGO: Duration = Duration::from_secs(24 * 3600);

/// How often a row is written anew that somebody has removed meanwhile.
const ROUNDS: usize = 4;

/// Whom a change of an index's state waits for: the id in the RowKey `process~{id}` of the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(Uuid);

impl ProcessId {
    fn new() -> Self {
        #[cfg(test)]
        if let Some(id) = crate::proof::ids::next() {
            return Self(id);
        }
        Self(Uuid::new_v4())
    }

    fn key(self) -> Result<Key> {
        Key::new(MANIFEST_PARTITION, format!("{ROWS}{self}"))
    }

    fn of(key: &Key) -> Option<Self> {
        key.row().strip_prefix(ROWS).and_then(|id| Uuid::parse_str(id).ok()).map(Self)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_simple().fmt(f)
    }
}

/// For how long a process acts upon what it has read, and its requests and leases last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Durations {
    /// For how long it caches the states of indexes.
    pub(super) cache: Duration,
    /// The longest life of its requests.
    pub(super) request: Duration,
    /// Its lease as a builder, and as an applier of journal rows.
    pub(super) lease: Duration,
}

impl Durations {
    pub(super) const fn of(options: &IndexOptions) -> Self {
        let timing = &options.timing;
        Self { cache: options.cache, request: timing.request(), lease: timing.lease() }
    }

    pub(super) fn max(self, other: Self) -> Self {
        Self {
            cache: self.cache.max(other.cache),
            request: self.request.max(other.request),
            lease: self.lease.max(other.lease),
        }
    }

    /// When a process with these has nothing under way any more that rests on states from before.
    pub(super) const fn to_settle(self) -> Duration {
        self.cache.saturating_add(self.request)
    }

    /// How long a row is good for. Twice a lease or more: a lease that begins in its first half ends before it does.
    fn heartbeat(self) -> Duration {
        self.cache.saturating_mul(10).max(self.lease).saturating_mul(2)
    }
}

/// Milliseconds, rounded up: nobody waits less than it lasts.
pub(super) fn to_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// A property with milliseconds of a row of the manifest.
pub(super) fn read_millis(row: &Entity, name: &str) -> Result<Duration> {
    match row.get(name) {
        Some(ValueRef::Int64(millis)) if millis >= 0 => Ok(Duration::from_millis(millis.unsigned_abs())),
        _ => Err(Error::decode("manifest", row.key(), name, "milliseconds", "something else")),
    }
}

/// A process, as the manifest names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessRow {
    pub(super) id: ProcessId,
    pub(super) durations: Durations,
    heartbeat: Duration,
    etag: Option<ETag>,
    /// When it was written, by the clock of the store.
    at: Option<Ticks>,
}

impl ProcessRow {
    /// `None` if it is a row of another kind.
    pub(super) fn read(row: &Entity) -> Result<Option<Self>> {
        let Some(id) = ProcessId::of(row.key()) else { return Ok(None) };
        let millis = |name| read_millis(row, name);
        let durations = Durations { cache: millis(CACHE)?, request: millis(REQUEST)?, lease: millis(LEASE)? };
        Ok(Some(Self {
            id,
            durations,
            heartbeat: millis(HEARTBEAT)?,
            etag: row.etag().cloned(),
            at: row.timestamp(),
        }))
    }

    fn to_entity(id: ProcessId, durations: Durations) -> Result<Entity> {
        Ok(Entity::from(id.key()?)
            .with(CACHE, to_millis(durations.cache))
            .with(REQUEST, to_millis(durations.request))
            .with(LEASE, to_millis(durations.lease))
            .with(HEARTBEAT, to_millis(durations.heartbeat())))
    }

    /// Whether it is so much older than a row that was written at a moment that its process is gone whatever its own clock says.
    fn is_long_ago(&self, written: Option<Ticks>) -> bool {
        let long = self.lifetime().saturating_add(LONG_AGO);
        self.at.zip(written).is_some_and(|(at, written)| after(at, long) <= written)
    }

    /// For how long the row is unchanged where the process is gone.
    const fn lifetime(&self) -> Duration {
        self.heartbeat.saturating_add(self.durations.to_settle())
    }
}

/// Since when rows of processes have been seen unchanged here, by the clock of this process.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<HashMap<ProcessId, (Option<ETag>, Instant)>>);

impl Watch {
    /// Takes note of the rows that were asked for at a moment and have been answered by now: those of processes that may be there, and
    /// of those that are gone. A row that is new, or has changed, counts from now on. `own` is the row of this process; `whole` is `false`
    /// in tests alone.
    pub(super) fn look(
        &self,
        rows: &[ProcessRow],
        asked: Instant,
        own: Option<ProcessId>,
        whole: bool,
    ) -> (Vec<ProcessRow>, Vec<ProcessRow>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut there, mut gone) = (Vec::new(), Vec::new());
        let written = rows.iter().find(|row| Some(row.id) == own).and_then(|row| row.at);
        let mut next = HashMap::with_capacity(rows.len());
        for row in rows {
            let before = seen.get(&row.id).filter(|(etag, _)| etag.is_some() && *etag == row.etag);
            let since = before.map_or_else(Instant::now, |(_, since)| *since);
            let unchanged = asked.saturating_duration_since(since);
            let was_watched = before.is_some() && (unchanged >= row.lifetime() || !whole);
            let is_gone = was_watched || row.is_long_ago(written);
            if is_gone { &mut gone } else { &mut there }.push(row.clone());
            next.insert(row.id, (row.etag.clone(), since));
        }
        *seen = next;
        (there, gone)
    }
}

/// This process's own row.
#[derive(Debug)]
pub(super) struct Registration {
    durations: Durations,
    row: Mutex<Option<Registered>>,
    /// Who writes it.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct Registered {
    id: ProcessId,
    etag: ETag,
    /// When it was sent, not when it was answered.
    sent: Instant,
}

impl Registration {
    pub(super) fn new(durations: Durations) -> Self {
        Self { durations, row: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    fn row(&self) -> MutexGuard<'_, Option<Registered>> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn id(&self) -> Option<ProcessId> {
        self.row().as_ref().map(|row| row.id)
    }

    /// Whether what is asked at a moment may be acted upon.
    pub(super) fn holds_at(&self, asked: Instant) -> bool {
        let half = self.durations.heartbeat() / 2;
        self.row().as_ref().is_some_and(|row| asked < row.sent + half)
    }

    /// Writes the row, under the ETag of the last time: no request of this process that takes effect late can undo it. Where that is
    /// not known, or the row was removed, it is another row, and the first is soon gone. One request; two where the row was removed.
    pub(super) async fn renew(&self, store: &dyn TableStore, table: &TableName) -> Result<()> {
        // One who needs it does it for all; one whose future nobody polls holds up nobody for long.
        let _turn = timeout(self.durations.cache, self.turn.lock()).await;
        for _ in 0..ROUNDS {
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
            match store.write(table, operation).await {
                Ok(written) => *self.row() = written.etag.map(|etag| Registered { id, etag, sent }),
                Err(e) if is_lost(&e) => *self.row() = None,
                Err(e) => {
                    if e.is_ambiguous() {
                        *self.row() = None;
                    }
                    return Err(e);
                }
            }
        }
        let (table, key) = (table.to_string(), ROWS.to_owned());
        Err(ErrorKind::PreconditionFailed { table, key }.into())
    }
}

impl ManifestRows<'_> {
    /// Removes rows of processes that are gone, in the versions that were watched. One request for each.
    pub(super) async fn remove_processes(&self, gone: &[ProcessRow]) -> Result<()> {
        for row in gone {
            let condition = row.etag.clone().map_or(IfMatch::Any, IfMatch::Exactly);
            match self.store.write(self.table, Operation::Delete(row.id.key()?, condition)).await {
                // It is there again, or another one was quicker.
                Err(e) if is_lost(&e) => {}
                other => other.map(drop)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
