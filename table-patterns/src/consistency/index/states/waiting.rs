//! The waits of a change of an index's state, and how callers learn of them.

use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use table_core::manifest::IndexState;
use table_core::store::Result;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::processes::ProcessId;
use super::set::{FORGOTTEN_AT_ONCE, IndexSet};

/// A wait of a build or drop: the reason, and its latest end. [`Display`](fmt::Display) prints both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The reason of the wait.
    pub for_what: WaitingFor,
    /// The registered process with the longest durations; `None` if this process, or a process without a row, has the longest.
    pub process: Option<ProcessId>,
    /// The latest end of the wait. In a store that only this process writes, the wait ends as soon as its reason has ended. In any other
    /// store, the wait ends at this time, unless a process with longer durations is found.
    pub until: Instant,
}

/// As the text of [`Display`](fmt::Display).
impl serde::Serialize for Waiting {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The reason of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitingFor {
    /// Every registered process must know this state of the index, and its requests under the earlier state must have ended: its cache
    /// time plus its longest request.
    State(IndexState),
    /// Every program that writes plain rows of the type must know the type's first index, and its earlier requests must have ended. Such
    /// a program has no row in the manifest. It reads the manifest again after
    /// [`ManifestCache::LIFE`](table_core::store::ManifestCache::LIFE), and refuses its writes from then on.
    PlainWriters,
    /// Writes must end that began before the build wrote entries: such a write does not know the entries that it should remove.
    Writers,
    /// Writes must end that may have written a blob which no row names yet.
    Blobs,
    /// Another builder of the index must end, or be silent for its lease.
    Builder,
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => {
                write!(
                    f,
                    "until all programs know that the index is {state}, and their earlier requests have ended"
                )
            }
            Self::PlainWriters => f.write_str(
                "until all programs that write plain rows know the first index of the type, and their earlier requests have ended",
            ),
            Self::Writers => {
                f.write_str("until the writes have ended that began before the build wrote its entries")
            }
            Self::Blobs => f.write_str("until the writes have ended whose blobs no row may name yet"),
            Self::Builder => {
                f.write_str("until another builder of the index has ended, or was silent for its lease")
            }
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.until.saturating_duration_since(Instant::now());
        write!(f, "waiting {}: {left:.0?} at most", self.for_what)?;
        self.process
            .map_or(Ok(()), |process| write!(f, ", for the process {process}"))
    }
}

/// The waits of a process that changes the states of indexes. `report` is called with each wait before it begins.
pub(crate) struct Waits<'a, 't> {
    pub(crate) set: &'a IndexSet,
    pub(crate) report: &'t mut (dyn FnMut(Waiting) + Send),
}

impl Waits<'_, '_> {
    /// Waits until every writer knows the present states of the manifest and no request that used earlier states is in progress. Then reads
    /// the manifest.
    ///
    /// In a store that only this process writes, the wait ends when all earlier writes have ended, and the result is `true`. On a service, or
    /// if a local write does not continue, the wait takes as long as the slowest registered process needs.
    ///
    /// One request. One more if the slowest process has not been read for a cache time, and one per process that is gone, up to ten.
    pub(crate) async fn until_states_known(&mut self, for_what: WaitingFor) -> Result<bool> {
        let (set, report) = (self.set, &mut *self.report);
        let changed = Instant::now();
        // Before anything is awaited: a local writer that enters after this call reads the new states.
        let announced = set.announce_change();
        // The slowest process may be gone since its row was read.
        if set.slowest().process.is_some() && set.are_old() {
            set.refresh().await?;
        }
        let mut slowest = set.slowest();
        loop {
            let waited = slowest.durations.to_settle();
            let over = async {
                match &announced {
                    Some(change) => change.known().await,
                    None => pending().await,
                }
            };
            let waiting = Waiting {
                for_what,
                process: slowest.process,
                until: changed + waited,
            };
            // `WaitForWriters`: no writer may be more than one state behind (Rae et al., *Online,
            // Asynchronous Schema Change in F1*, VLDB 2013).
            let is_known = wait(waiting, report, over).await;
            // This read returns every process that registered before the state change, unless the process is gone.
            let (loaded, asked) = set.load().await?;
            set.adopt_manifest(&loaded, asked)?;
            slowest = set.slowest();
            // A process with longer durations may have registered during the wait, by a read of the earlier state: wait for it too.
            if is_known || slowest.durations.to_settle() <= waited {
                set.forget_gone(FORGOTTEN_AT_ONCE).await;
                return Ok(is_known);
            }
        }
    }

    /// Waits for the longest lease plus the longest request of the registered processes. A write that had stored a blob before has named
    /// the blob by then, or never will.
    pub(crate) async fn until_blobs_named(&mut self) {
        let slowest = self.set.slowest().durations;
        let until = Instant::now() + slowest.lease + slowest.request;
        (self.report)(Waiting {
            for_what: WaitingFor::Blobs,
            process: None,
            until,
        });
        sleep_until(until).await;
    }

    /// Waits for another builder of the index, which must stop or may have crashed. In a store that only this process writes, the wait ends
    /// when the builder has ended; on a service it takes a lease.
    pub(crate) async fn until_builder_ends(&mut self, id: &str, lease: Duration) {
        let until = Instant::now() + lease;
        let waiting = Waiting {
            for_what: WaitingFor::Builder,
            process: None,
            until,
        };
        wait(waiting, self.report, self.set.until_not_built(id)).await;
    }
}

/// Waits until `over` ends, at most to `waiting.until`, and reports the wait first if `over` has not ended yet.
/// Returns whether `over` ended in time.
pub(crate) async fn wait(
    waiting: Waiting,
    report: &mut (dyn FnMut(Waiting) + Send),
    over: impl Future<Output = ()> + Send,
) -> bool {
    let mut over = pin!(over);
    let is_over = over.as_mut().now_or_never().is_some();
    if is_over || Instant::now() >= waiting.until {
        return is_over;
    }
    report(waiting);
    timeout_at(waiting.until, over).await.is_ok()
}
