//! The options of a log.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};

/// The format of the records in a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line: `{"time":"…","record":…}`.
    JsonLines,
    /// The time and the fields, separated by this ASCII character. In fields, a backslash escapes the separator, line
    /// breaks and backslashes. The header starts with `#`.
    Delimited(char),
}

/// The period of one directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPeriod {
    /// An hour: `1800`.
    Hour,
    /// A minute: `1823`.
    Minute,
}

/// When an append returns, and so how many acknowledged records a crash can lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSync {
    /// At once. The record is stored when the buffer is full or [`LogOptions::max_age`] has passed.
    Buffered,
    /// Every `n`th append waits until all records are stored; the others return at once. With 1 every append waits.
    /// Appends that arrive at the same time share a flush.
    Every(u32),
}

/// Format, directories and buffering of a [`LogWriter`](super::LogWriter).
///
/// ```
/// use table_patterns::log_blobs::{LogOptions, LogPeriod, LogSync};
/// let options = LogOptions::default().with_period(LogPeriod::Minute).with_sync(LogSync::Every(1));
/// assert_eq!(options.max_bytes, 4 * 1024 * 1024);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogOptions {
    /// The format of the records; JSON lines by default.
    pub format: LogFormat,
    /// The period of one directory; an hour by default.
    pub period: LogPeriod,
    /// When an append returns; at once by default.
    pub sync: LogSync,
    /// The size of a buffer, in bytes, at which its records are stored; 4 MiB by default.
    pub max_bytes: usize,
    /// The age of a buffer's first record at which the records are stored; a minute by default. With
    /// [`Duration::MAX`], records are stored only by size, at the end of the directory's time, and by `flush`.
    pub max_age: Duration,
    /// The clock that gives records their times.
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
    /// Sets the format of the records.
    #[must_use]
    pub const fn with_format(mut self, format: LogFormat) -> Self {
        self.format = format;
        self
    }

    /// Sets the period of one directory.
    #[must_use]
    pub const fn with_period(mut self, period: LogPeriod) -> Self {
        self.period = period;
        self
    }

    /// Sets when an append returns.
    #[must_use]
    pub const fn with_sync(mut self, sync: LogSync) -> Self {
        self.sync = sync;
        self
    }

    /// Sets the size and the age at which a buffer is stored.
    #[must_use]
    pub const fn with_buffer(mut self, max_bytes: usize, max_age: Duration) -> Self {
        (self.max_bytes, self.max_age) = (max_bytes, max_age);
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}
