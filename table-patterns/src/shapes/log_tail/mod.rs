//! The log tail pattern: a log in one partition, newest first.
//!
//! # Problem
//! "The last ten expense claims of an employee": a table service returns rows by key, ascending, and has no
//! way to ask for the last ones.
//!
//! # Key layout
//!
//! | row | PartitionKey | RowKey |
//! |---|---|---|
//! | entry | the log's name | prefix + inverted ticks (19 digits) + `_` + inverted count (12 hex digits) + `_` + writer |
//!
//! Inverted ticks are the guide's `DateTime.MaxValue.Ticks - ticks`. The count falls with each append of one
//! handle, and the writer is the handle's UUID: two appends never share a key, in one tick of any number of
//! machines neither, and those of one handle stay newest first within a tick.
//!
//! Rows that other programs wrote with the guide's formula, alone or with any suffix, are entries too. The
//! prefix, empty unless it is set, keeps a log apart from other rows of its partition.
//!
//! # Guarantees
//! - An append never overwrites. One that is repeated with its [`EntryId`] is stored once; another value
//!   under that id is an error.
//! - Newest first by the time that was given. Appends of one handle that follow one another come out in
//!   reverse, even if the clock stands still or is set back.
//!
//! # Failure windows
//! None: an append is one insert. After an ambiguous error repeat it with the same id
//! ([`LogTail::append_as`]). Machines' clocks differ, and so does the order of what they append at nearly the
//! same time; within one tick, the order between handles is arbitrary.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | append | 1; one that is repeated 2 |
//! | get one entry by its id | 1 |
//! | latest *n*, an older page of *n* | 1 for up to 1000 entries |
//! | since a moment, between two | 1 per page |
//! | any range of these, sorted on the client | 1 per page of the **whole** range, however few are wanted |
//!
//! # Limits, and when not to use it
//! All appends go to one partition: on Azure some 2,000 a second. Spread over several logs for more, or write
//! log data to blobs. A service without order (Cosmos DB) is refused unless
//! [`LogTail::sorted_on_client`] is chosen. To delete old entries by the million, keep logs in tables by time:
//! the high-volume delete pattern.

mod entry;
mod ids;
mod log;

pub use entry::{EntryId, Logged};
pub use log::LogTail;
