//! Log data in blobs: many small records per blob, named by service and time.
//!
//! # Problem
//! The log-data anti-pattern: a row per record makes the newest partition hot and costs a request per record, although
//! programs read a log by the day and never by the row. A blob with many records costs 1 request and is found by its
//! name. (Keep records that are looked up one by one in a table: see [`log_tail`](crate::log_tail).)
//!
//! # Key layout
//! `{service}/2014/07/31/1800/000001.log`: year, month, day, then hour and minute by [`LogPeriod`], in UTC, then a
//! number. All records of a blob belong to one such directory, so a range of time is a range of directories.
//!
//! The first line is a header, because local files keep no metadata: a JSON object with the times of the first and the
//! last record, the number of records, and the writer. [`LogFormat`] is the format of the records that follow.
//!
//! # Guarantees
//! - A blob is created once, and never changed or replaced. If two processes choose the same number, one of them takes
//!   the next number. If the answer of a flush is lost, the writer recognizes its blob by the header and does not store
//!   the records twice.
//! - The times of the records of one [`LogWriter`] do not decrease, and the reader returns the records in their order.
//!   Within a directory, records of several writers come blob by blob. If the clock is set back by more than a minute,
//!   the writer starts a new blob with the earlier time.
//! - No record is dropped silently. Records that could not be stored stay in memory and are stored again later. Once
//!   four buffers of records wait, [`append`](LogWriter::append) fails. Appends continue during a flush, however long
//!   the flush takes.
//!
//! # Failure windows
//! A process that dies loses the records that are not stored:
//!
//! | sync | lost at most |
//! |---|---|
//! | [`LogSync::Buffered`] | the records of [`LogOptions::max_age`], or of [`LogOptions::max_bytes`] if that is less, and the records that arrive while these are stored, up to four buffers |
//! | [`LogSync::Every`]`(n)` | fewer than `n` acknowledged records |
//! | `Every(1)` | no acknowledged record |
//!
//! The same holds for a machine that dies, if the blob store has its acknowledged blobs on disk: **open local files
//! with** `LocalFileSystem::new_with_prefix(…)?.with_fsync(true)`. At the end of a program, [`close`](LogWriter::close)
//! tries for a few seconds; repeat [`flush`](LogWriter::flush) until it succeeds to lose nothing. A record whose append
//! failed or was cancelled may still be stored.
//!
//! # Cost in requests
//!
//! | call | requests to the blob store |
//! |---|---|
//! | append | 0; 1 per flush, and 1 more in a new directory to find the next number |
//! | a number that another process took | 2 more: a read of the other blob's header, and the next number |
//! | read a range | 1 list per day or page of names, 1 per blob. For more than 31 days, or a range that ends in the future: 1, 1 per year and 1 per month more, and no list for days without blobs |
//!
//! # Limits, and when not to use it
//! The times come from the writer's clock. A writer holds at most four buffers and one record in memory, a reader
//! one blob, which has the size of a buffer. The blob store must support conditional creation. The reader does not sort
//! the records of several writers by time.

mod buffers;
mod format;
mod options;
mod reader;
mod writer;

pub use format::LogEntry;
pub use options::{LogFormat, LogOptions, LogPeriod, LogSync};
pub use reader::read_logs;
pub use writer::LogWriter;

#[cfg(test)]
mod tests;
