//! The log tail pattern: a log in one partition, newest entry first.
//!
//! # Problem
//! "The last ten expense claims of an employee": the Table service returns rows in ascending order of keys, and cannot
//! return the last rows first.
//!
//! # Key layout
//!
//! | row | PartitionKey | RowKey |
//! |---|---|---|
//! | entry | the log's name | prefix + inverted ticks (19 digits) + `_` + inverted count (12 hex digits) + `_` + writer |
//!
//! Inverted ticks are the Table design guide's `DateTime.MaxValue.Ticks - ticks`: a later time has a smaller key. The
//! inverted count decreases with each append of one handle, and the writer is the handle's UUID. Two appends therefore
//! never share a key, on any number of machines. Appends of one handle within one tick are in order too.
//!
//! Rows that other programs wrote with the guide's formula, with or without a suffix, are entries too. The prefix, empty
//! by default, separates a log from other rows of its partition.
//!
//! # Guarantees
//! - An append never replaces an entry. An append that is repeated with its [`EntryId`] and value is stored once; a
//!   different value under the same id is an error.
//! - Entries are in the order of their times, newest first. Successive appends of one handle come out in reverse order,
//!   even if the clock stands still or is set back.
//!
//! # Failure windows
//! None: an append is one insert. After an ambiguous error, repeat the append with the same id
//! ([`LogTail::append_as`]). The clocks of machines differ: appends of different machines at nearly the same time may be
//! in either order. Within one tick, the order between handles is arbitrary.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | append | 1; a repeated append 2 |
//! | get one entry by its id | 1 |
//! | latest *n*, an older page of *n* | 1 for up to 1000 entries |
//! | since a time, between two times | 1 per page |
//! | any of these ranges, sorted on the client | 1 per page of the **whole** range, even for few entries |
//!
//! # Limits, and when not to use it
//! All appends go to one partition: on Azure about 2,000 per second. For more, spread the entries over several logs, or
//! write log data to blobs. Reads from a service that does not sort (Cosmos DB) fail unless
//! [`LogTail::sorted_on_client`] is set. To delete millions of old entries, keep one table per period: see
//! [`time_slices`](crate::time_slices).

mod entry;
mod log;

pub use entry::{EntryId, Logged};
pub use log::LogTail;
