use std::time::Duration;

use crate::model::TableName;
use crate::store::{Error, ErrorKind, OperationKind, Outcome};

/// What goes wrong with a request.
///
/// "Ambiguous" is said of writes: a read that failed changed nothing, whatever was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request never leaves: a transport error, not applied.
    FailBefore,
    /// The request is lost and nobody can tell: a transport error, ambiguous, not applied.
    LoseRequest,
    /// The request runs and its answer is lost, whatever it was: a transport error, ambiguous.
    LoseAnswer,
    /// The request runs and its answer cannot be understood: a service error, applied.
    BreakAnswer,
    /// The answer is lost at once and the write happens later, before the request that comes this
    /// many requests after it: a packet that was held up. Single writes and group transactions.
    LateEffect {
        /// From 1, the next request.
        requests: u64,
    },
    /// The service is busy; not applied.
    Throttle {
        /// What the service says about when to come back.
        retry_after: Option<Duration>,
    },
    /// The table's name cannot be used yet; not applied. Requests to a table.
    TableBeingDeleted,
    /// The request waits before it runs.
    Delay(Duration),
    /// The request runs at once and its answer waits.
    DelayAnswer(Duration),
    /// The page has at most this many items, perhaps none, and a continuation that goes on
    /// behind them. Queries and listings, on stores whose continuations are keys: the local ones.
    ///
    /// A rule that always answers pages of none never gets a query to its end: bound it.
    ShortPage(usize),
    /// The process dies at this request: see [`FaultInjector::crash_at`](super::FaultInjector::crash_at).
    Crash(CrashPoint),
}

/// Where in its last request a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before the request takes effect.
    Before,
    /// After the request took effect, before its answer is seen.
    After,
}

impl CrashPoint {
    /// Both, to loop over.
    pub const ALL: [Self; 2] = [Self::Before, Self::After];
}

impl Fault {
    /// Whether a request of this kind can suffer it.
    pub(super) const fn can_happen_to(self, kind: OperationKind) -> bool {
        use OperationKind as K;
        match self {
            Self::ShortPage(_) => matches!(kind, K::Query | K::ListTables),
            Self::LateEffect { .. } => !kind.is_read() && !matches!(kind, K::CreateTable | K::DeleteTable),
            Self::TableBeingDeleted => !matches!(kind, K::ListTables),
            _ => true,
        }
    }
}

pub(super) fn not_sent() -> Error {
    ErrorKind::Transport("the connection was refused (injected)".to_owned()).into()
}

/// The error of a request whose answer never comes.
pub(super) fn lost(kind: OperationKind) -> Error {
    let error = Error::new(ErrorKind::Transport("the answer was lost (injected)".to_owned()));
    error.with_outcome(if kind.is_read() { Outcome::NotApplied } else { Outcome::Ambiguous })
}

pub(super) fn broken(kind: OperationKind) -> Error {
    let error = Error::new(ErrorKind::Service("something that is no answer (injected)".to_owned()));
    error.with_outcome(if kind.is_read() { Outcome::NotApplied } else { Outcome::Applied })
}

pub(super) fn throttled(retry_after: Option<Duration>) -> Error {
    ErrorKind::Throttled { retry_after }.into()
}

pub(super) fn being_deleted(table: Option<&TableName>) -> Error {
    let table = table.map(ToString::to_string).unwrap_or_default();
    ErrorKind::TableBeingDeleted { table }.into()
}

/// Not transient: nothing that runs in a dead process tries again.
pub(super) fn crashed() -> Error {
    ErrorKind::Storage("the process is dead since a crash (injected)".to_owned()).into()
}
