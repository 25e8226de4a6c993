//! What a change of an index's state waits for.

use std::fmt;
use std::future::Future;
use std::pin::pin;

use futures_util::FutureExt as _;
use table_core::manifest::IndexState;
use tokio::time::{Instant, timeout_at};

use super::processes::ProcessId;

/// What a build or a removal of an index is waiting for, and until when at most. [`Display`](fmt::Display) says both in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// For what.
    pub for_what: WaitingFor,
    /// The process, of those that are registered in the table's manifest, that takes longest; `None` where it is this one, or one that
    /// needs no row.
    pub process: Option<ProcessId>,
    /// When it goes on at the latest. In a store that only this process writes it goes on as soon as what it waits for is done;
    /// anywhere else then, unless a process is found that takes longer.
    pub until: Instant,
}

/// What a change of an index's state can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitingFor {
    /// Until every process that is registered knows that the index is in this state, and the requests are over that it sent
    /// without knowing: as long as it caches states, and the longest life of its requests.
    State(IndexState),
    /// Until writers are done that began before the entries were written which they would have removed.
    Writers,
    /// Until the writes are over that may have put blobs of lists which no row names yet.
    Blobs,
    /// Until another builder of the index is done, or has been silent for a lease.
    Builder,
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => {
                write!(
                    f,
                    "until all programs know that the index is {state}, and what they sent before is done"
                )
            }
            Self::Writers => {
                f.write_str("until the writes are done that began before the entries were written")
            }
            Self::Blobs => f.write_str("until the writes are over whose blobs no row may name yet"),
            Self::Builder => {
                f.write_str("until another builder of the index is done, or was silent for its lease")
            }
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.until.saturating_duration_since(Instant::now());
        write!(f, "waiting {}: {left:.0?} at most", self.for_what)?;
        self.process.map_or(Ok(()), |process| write!(f, ", for the process {process}"))
    }
}

/// Waits for what is taken to be over at a moment at the latest, and says so first where it is not over yet. Whether it was over
/// before.
pub(super) async fn wait(
    waiting: Waiting,
    tell: &mut (dyn FnMut(Waiting) + Send),
    over: impl Future<Output = ()> + Send,
) -> bool {
    let mut over = pin!(over);
    let is_over = over.as_mut().now_or_never().is_some();
    if is_over || Instant::now() >= waiting.until {
        return is_over;
    }
    tell(waiting);
    timeout_at(waiting.until, over).await.is_ok()
}
