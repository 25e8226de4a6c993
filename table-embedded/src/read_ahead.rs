use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use table_core::model::{Entity, TableName};
use table_core::query::{Continuation, Page, Query};

use crate::readers::Answered;

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
const UNUSED: Duration = Duration::from_millis(250);
/// How long nothing is read ahead after a commit made a page useless: with frequent commits most would be.
const PAUSE: Duration = Duration::from_millis(100);

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
        let matches = |page: &mut Ahead| page.from == *from && page.table == *table && page.query == *query;
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
        let is_paused = state.outdated.is_some_and(|outdated| outdated.elapsed() < PAUSE);
        let is_taken = state.page.as_ref().is_some_and(|page| page.since.elapsed() < UNUSED);
        if !is_paused && !is_taken {
            state.page = ahead();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
