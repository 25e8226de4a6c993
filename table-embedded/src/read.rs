use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redb::ReadableTable;
use table_core::Result;
use table_core::engine::{Scan, ScanStep, read_entity};
use table_core::model::{Entity, Key, PackBuffer, TableName};
use table_core::query::{Continuation, Page, Query, Select};
use table_core::store::ServiceProfile;

use crate::error::Failure;
use crate::format;
use crate::readers::Answered;
use crate::shared::Snapshot;

impl Snapshot {
    pub(crate) fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let stored = format::row_key(self.catalog.id(table)?, key);
        let row = self.rows.get(stored.as_slice()).map_err(Failure::read)?;
        let Some(row) = row else { return Ok(None) };
        let mut record = PackBuffer::default();
        format::unpack_row(&self.catalog.dictionary, &stored, row.value(), &mut record)?;
        read_entity(key.clone(), record.as_bytes(), select).map(Some)
    }

    pub(crate) fn query(
        &self,
        profile: &ServiceProfile,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let id = self.catalog.id(table)?;
        let mut scan = Scan::new(profile, table, query, from)?;
        let Some((from, to)) = scan.range().map(|range| stored_range(id, range)) else {
            return Ok(scan.finish());
        };
        let dictionary = &self.catalog.dictionary;
        let range = (
            from.as_ref().map(Vec::as_slice),
            to.as_ref().map(Vec::as_slice),
        );
        // Each page was checked by itself; this checks the order across pages.
        let mut before: Vec<u8> = Vec::new();
        for row in ReadableTable::range::<&[u8]>(&self.rows, range).map_err(Failure::read)? {
            let (key, row) = row.map_err(Failure::read)?;
            let record = format::open_row(key.value(), row.value())?;
            if key.value() <= before.as_slice() || format::table_of(key.value()) != Some(id) {
                return Err(Failure::DamagedOrder.into());
            }
            before.clear();
            before.extend_from_slice(key.value());
            if scan.offer_numbered(format::sortable(key.value()), record, dictionary)?
                == ScanStep::Done
            {
                break;
            }
        }
        Ok(scan.finish())
    }
}

type Range<B> = (Bound<B>, Bound<B>);

/// Converts a range of a table's keys to a range of stored keys. It must not reach into the next table.
fn stored_range(id: u64, (from, to): Range<&[u8]>) -> Range<Vec<u8>> {
    let prefixed = |bound: Bound<&[u8]>| bound.map(|key| format::prefixed(id, key));
    let from = match from {
        Bound::Unbounded => Bound::Included(format::prefixed(id, &[])),
        bound => prefixed(bound),
    };
    let to = match to {
        Bound::Unbounded => Bound::Excluded(format::prefixed(id + 1, &[])),
        bound => prefixed(bound),
    };
    (from, to)
}

/// The page that a caller probably asks for next. It is read while the caller uses the page before.
///
/// - A page is read ahead only after the caller has continued the query once, and for one query at a time. So a caller that reads
///   one page causes no further read, and of queries in parallel at most one causes a read without use.
/// - A page is used only if no commit was published since it was read. So every page is as it was when the caller asked for
///   it.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    page: Option<Ahead>,
    /// When a commit made a page useless that was read ahead.
    outdated: Option<Instant>,
}

/// A page that is being read or was read.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) table: TableName,
    pub(crate) query: Query,
    pub(crate) from: Continuation,
    /// The number of the commit that it was read from.
    pub(crate) commit: u64,
    pub(crate) since: Instant,
    pub(crate) page: Answered<Page<Entity>>,
}

/// After this time, a page that was not asked for makes room for another.
const UNUSED_AFTER: Duration = Duration::from_millis(250);
/// How long nothing is read ahead after a commit made a page useless: with frequent commits most would be.
const READ_AHEAD_PAUSE: Duration = Duration::from_millis(100);

impl ReadAhead {
    /// Takes the page of the query from this position on, if it was read ahead and is up to date.
    pub(crate) fn take(
        &self,
        table: &TableName,
        query: &Query,
        from: &Continuation,
        commit: u64,
    ) -> Option<Answered<Page<Entity>>> {
        let mut state = self.state();
        let matches =
            |page: &mut Ahead| page.from == *from && page.table == *table && page.query == *query;
        let ahead = state.page.take_if(matches)?;
        if ahead.commit != commit {
            state.outdated = Some(Instant::now());
            return None;
        }
        Some(ahead.page)
    }

    /// Starts to read a page ahead, if there is room for it.
    pub(crate) fn start(&self, ahead: impl FnOnce() -> Option<Ahead>) {
        let mut state = self.state();
        let is_paused = state
            .outdated
            .is_some_and(|outdated| outdated.elapsed() < READ_AHEAD_PAUSE);
        let is_taken = state
            .page
            .as_ref()
            .is_some_and(|page| page.since.elapsed() < UNUSED_AFTER);
        if !is_paused && !is_taken {
            state.page = ahead();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
