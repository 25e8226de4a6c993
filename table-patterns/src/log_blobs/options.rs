use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object a line: `{"time":"…","record":…}`.
    JsonLines,
    /// The time and the fields, with this ASCII character between them; in fields, it, line breaks and
    /// backslashes are escaped by a backslash. The header starts with `#`.
    Delimited(char),
}

/// How much time goes into one directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPeriod {
    /// An hour: `1800`.
    Hour,
    /// A minute: `1823`.
    Minute,
}

/// When an append is answered, which says what a crash can lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSync {
    /// At once, also while others are being stored; stored when the buffer is full or old.
    Buffered,
    /// Every so many records the append waits until all are stored; 1 waits for each, together with
    /// those that come at the same time.
    Every(u32),
}

/// How a [`LogWriter`](super::LogWriter) works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogOptions {
    /// How records are written; JSON lines unless told otherwise.
    pub format: LogFormat,
    /// How much time goes into one directory; an hour unless told otherwise.
    pub period: LogPeriod,
    /// When an append is answered; at once unless told otherwise.
    pub sync: LogSync,
    /// Bytes of records over which they are stored; 4 MiB unless told otherwise.
    pub max_bytes: usize,
    /// The age of the first record at which they are stored; a minute unless told otherwise. [`Duration::MAX`]
    /// bounds it by the bytes, the end of the directory's time and `flush` alone.
    pub max_age: Duration,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            format: LogFormat::JsonLines,
            period: LogPeriod::Hour,
            sync: LogSync::Buffered,
            max_bytes: 4 * 1024 * 1024,
            max_age: Duration::from_secs(60),
            clock: Arc::new(SystemClock),
        }
    }
}

impl LogOptions {
    /// Another format.
    #[must_use]
    pub const fn with_format(mut self, format: LogFormat) -> Self {
        self.format = format;
        self
    }

    /// Another period.
    #[must_use]
    pub const fn with_period(mut self, period: LogPeriod) -> Self {
        self.period = period;
        self
    }

    /// Another promise about what is stored when.
    #[must_use]
    pub const fn with_sync(mut self, sync: LogSync) -> Self {
        self.sync = sync;
        self
    }

    /// Other bounds of the buffer.
    #[must_use]
    pub const fn with_buffer(mut self, max_bytes: usize, max_age: Duration) -> Self {
        (self.max_bytes, self.max_age) = (max_bytes, max_age);
        self
    }

    /// Another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}
