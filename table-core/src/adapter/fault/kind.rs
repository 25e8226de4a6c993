use std::time::Duration;

use crate::model::TableName;
use crate::store::{Error, ErrorKind, OperationKind, Outcome};

/// A fault of a request.
///
/// "Ambiguous" applies to writes: a failed read has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request is not sent: a transport error, not applied.
    FailBefore,
    /// The request is lost after sending: a transport error, reported as ambiguous, not applied.
    LoseRequest,
    /// The request is executed and its answer is lost: a transport error, ambiguous.
    LoseAnswer,
    /// The request is executed and its answer is unreadable: a service error, applied.
    BreakAnswer,
    /// The answer is lost immediately, and the write takes effect later, just before a later request: a
    /// delayed packet. Single writes and group transactions only.
    LateEffect {
        /// How many requests later; 1 is the next request.
        requests: u64,
    },
    /// The service is busy; not applied.
    Throttle {
        /// The Retry-After time of the service.
        retry_after: Option<Duration>,
    },
    /// The table's name cannot be used yet; not applied. Requests to a table only.
    TableBeingDeleted,
    /// The request waits before it is executed.
    Delay(Duration),
    /// The request is executed immediately and its answer waits.
    DelayAnswer(Duration),
    /// The page has at most this many items, perhaps none, and a continuation token for the rest. Queries and
    /// listings only, on stores whose continuation tokens are keys: the local stores.
    ///
    /// A rule that always returns empty pages never ends a query: limit it.
    ShortPage(usize),
    /// The process crashes at this request: see [`FaultInjector::crash_at`](super::FaultInjector::crash_at).
    Crash(CrashPoint),
}

/// The point in its last request at which a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before the request takes effect.
    Before,
    /// After the request took effect, before its answer is received.
    After,
}

impl CrashPoint {
    /// Both values, for loops.
    pub const ALL: [Self; 2] = [Self::Before, Self::After];
}

impl Fault {
    /// Whether this fault can happen to a request of this kind.
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

/// Returns the error of a request whose answer is lost.
pub(super) fn lost(kind: OperationKind) -> Error {
    let error = Error::new(ErrorKind::Transport("the answer was lost (injected)".to_owned()));
    error.with_outcome(if kind.is_read() { Outcome::NotApplied } else { Outcome::Ambiguous })
}

pub(super) fn broken(kind: OperationKind) -> Error {
    let error = Error::new(ErrorKind::Service("an unreadable answer (injected)".to_owned()));
    error.with_outcome(if kind.is_read() { Outcome::NotApplied } else { Outcome::Applied })
}

pub(super) fn throttled(retry_after: Option<Duration>) -> Error {
    ErrorKind::Throttled { retry_after }.into()
}

pub(super) fn being_deleted(table: Option<&TableName>) -> Error {
    let table = table.map(ToString::to_string).unwrap_or_default();
    ErrorKind::TableBeingDeleted { table }.into()
}

/// Not transient, because no code of a crashed process retries.
pub(super) fn crashed() -> Error {
    ErrorKind::Storage("the process has crashed (injected)".to_owned()).into()
}
