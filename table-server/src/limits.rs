//! What bounds the work that clients can make.

use std::time::Duration;

use table_core::store::limits;

/// Bounds on connections, sizes and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once; further ones wait in the operating system's queue.
    pub connections: usize,
    /// Bytes of a request's first line and headers. A request with more is answered with status 431.
    pub header_bytes: usize,
    /// Bytes of a request's body: what the service allows, 4 MiB. A larger one is answered with status 413.
    pub body_bytes: usize,
    /// Bytes of all bodies that are read at once. A request for which there is no room is answered with status 503.
    pub body_memory: usize,
    /// How long a connection may wait for the whole first line and headers of its next request.
    pub header_time: Duration,
    /// How long a request's body may take to arrive. A slower one is answered with status 408.
    pub body_time: Duration,
    /// How long a client may leave a part of an answer unread before its connection is closed.
    pub write_time: Duration,
    /// How long a stop waits for requests that are being answered.
    pub stop_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            header_bytes: 64 * 1024,
            body_bytes: limits::GROUP_BYTES,
            body_memory: 256 * 1024 * 1024,
            header_time: Duration::from_secs(60),
            body_time: Duration::from_secs(60),
            write_time: Duration::from_secs(60),
            stop_time: Duration::from_secs(30),
        }
    }
}
