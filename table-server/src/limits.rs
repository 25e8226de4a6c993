//! Limits on the resources that clients can use.

use std::time::Duration;

use table_core::store::limits;

/// Limits on connections, sizes and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of connections. Further connections wait in the operating system's queue.
    pub connections: usize,
    /// Maximum bytes of a request line with headers. A larger request gets status 431.
    pub header_bytes: usize,
    /// Maximum bytes of a request body; default 4 MiB, as in the service. A larger body gets status 413.
    pub body_bytes: usize,
    /// Maximum bytes of all request bodies in memory. A request that would exceed it gets status 503.
    pub body_memory: usize,
    /// Maximum bytes of the answers that clients have not read yet. A query waits up to 10 seconds until its answer
    /// has room, and then gets status 503.
    pub answer_memory: usize,
    /// Maximum time that a connection waits for the complete request line and headers.
    pub header_time: Duration,
    /// Maximum time in which a request body must arrive. A slower body gets status 408.
    pub body_time: Duration,
    /// Maximum time for which a client may leave a response unread before its connection is closed.
    pub write_time: Duration,
    /// Maximum time that a stop waits for pending requests.
    pub stop_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            header_bytes: 64 * 1024,
            body_bytes: limits::GROUP_BYTES,
            body_memory: 256 * 1024 * 1024,
            answer_memory: 512 * 1024 * 1024,
            header_time: Duration::from_secs(60),
            body_time: Duration::from_secs(60),
            write_time: Duration::from_secs(60),
            stop_time: Duration::from_secs(30),
        }
    }
}
