//! Log data in blobs: many small records together, named by service and time.
//!
//! # Problem
//! The log-data anti-pattern: a row for every record of a log makes the newest partition hot, is paid for by the
//! request, and is read by the day, never by the row. A blob for many records costs one request and is
//! found by its name. (Records that are looked up one by one belong into a table: see
//! [`log_tail`](crate::log_tail).)
//!
//! # Key layout
//! `{service}/2014/07/31/1800/000001.log`: year, month, day, then hour and minute by [`LogPeriod`], in UTC, then a
//! number. A blob never crosses from one such directory into the next, so a range of time is a
//! range of directories.
//!
//! The first line is a header, since local files keep no metadata: a JSON object with the times of the
//! first and last record, their number, and who wrote them. [`LogFormat`] says how the records follow.
//!
//! # Guarantees
//! - Blobs are created, never changed and never overwritten: of two processes with the same number in mind,
//!   one takes the next. A flush whose answer was lost is recognized by its header and not written twice.
//! - The records of one [`LogWriter`] have times that do not go back, and are read in their order. Those of
//!   several writers come blob by blob within a directory. Where the clock is set back by more than a minute, the log
//!   goes back with it, in a new blob.
//! - Nothing is dropped silently: what could not be stored stays in memory, is tried again, and makes
//!   [`append`](LogWriter::append) fail once four buffers have gathered. Appends go on while a flush is under way,
//!   however long that takes.
//!
//! # Failure windows
//! A process that dies loses what it has not stored: with [`LogSync::Buffered`] at most [`LogOptions::max_age`] of
//! records, or [`LogOptions::max_bytes`], whichever is reached first, and what comes while that is being stored, up to
//! four buffers; with [`LogSync::Every`]`(n)`, fewer than `n` that
//! were acknowledged; with `Every(1)` none. So does a machine that dies, if the blob store has on disk what it
//! acknowledged: **open local files with** `LocalFileSystem::new_with_prefix(…)?.with_fsync(true)`. At the end of a
//! program, [`close`](LogWriter::close) tries for a few seconds; [`flush`](LogWriter::flush) until it succeeds loses nothing. A record whose append failed or was cancelled may still be stored.
//!
//! # Cost in requests
//!
//! | call | requests to the blob store |
//! |---|---|
//! | append | 0; 1 per flush; in a new directory 1 more, to find the next number |
//! | a number that another process took | 2 more each: it is looked at, and the next tried |
//! | read a range | 1 list per day or page of names, 1 per blob; of more than 31 days or days to come 1, 1 per year and 1 per month more, and none for days without blobs |
//!
//! # Limits, and when not to use it
//! Times are those of the writer's clock. A writer holds four buffers at most, and one record; a reader one blob, of the
//! size of a buffer. Blob stores
//! without conditional creation cannot be used. Sorting the records of several writers by time is left to the reader.

mod actor;
mod buffer;
mod days;
mod entry;
mod name;
mod options;
mod reader;
mod saver;
mod writer;

pub use entry::LogEntry;
pub use options::{LogFormat, LogOptions, LogPeriod, LogSync};
pub use reader::read_logs;
pub use writer::LogWriter;

#[cfg(test)]
mod tests;
