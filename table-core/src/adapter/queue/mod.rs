//! Adapters of work queues: retry and meter.

mod meter;
mod retry;
#[cfg(test)]
mod tests;

use std::fmt;

pub use meter::{MeteredQueue, QueueMeter};
pub use retry::RetryingQueue;

/// A call of a [`WorkQueue`](crate::queue::WorkQueue).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names of the calls")]
pub enum QueueCall {
    Send,
    Receive,
    Renew,
    Delete,
    Peek,
    Poison,
    Requeue,
}

impl QueueCall {
    /// Returns the name in snake case, as in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Renew => "renew",
            Self::Delete => "delete",
            Self::Peek => "peek",
            Self::Poison => "poison",
            Self::Requeue => "requeue",
        }
    }

    /// Whether a failed call has certainly changed nothing.
    const fn is_read(self) -> bool {
        matches!(self, Self::Peek)
    }
}

impl fmt::Display for QueueCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
