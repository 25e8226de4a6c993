//! The high-volume delete pattern: a family of tables by time, of which the old ones are dropped whole.
//!
//! # Problem
//! Sign-ins older than 60 days, by the million: deleting them one by one means finding them by a scan and paying a
//! request for every hundred. Dropping a table is one request, however much is in it.
//!
//! # Layout
//!
//! | table | holds |
//! |---|---|
//! | family + `2013010115`, `20130101` or `201301` | the entities of an hour, a day, a month, by their own time |
//! | the same + `G1`, `G2`, … | the same slice again, after the name was dropped and could not be used yet |
//!
//! Keys within a table are the entity's own: spread them over partitions as if there were one table.
//!
//! # Guarantees
//! - An entity goes to the slice of its own time. Its table is made when it is needed: by one request of a
//!   handle and its clones, however many insert at once; and remembered.
//! - A query gives whole slices in the order of time, and exactly the entities of the period that was asked for.
//! - [`TimeSlices::drop_before`] drops only slices that end by then; a policy ([`Keep`]) only slices that have ended by the
//!   time it is given, however many of the future wrong clocks have made. A slice dropped meanwhile is an empty one to
//!   queries; an insert makes it again.
//!
//! # Failure windows
//! Dropping stops where it fails; run it again. The service keeps a dropped name for a while (40 seconds and more).
//! An insert into it waits ([`Reuse::Wait`]) or starts another generation ([`Reuse::Generation`]), by choice. With
//! generations, while the old name becomes usable again, two processes can start different ones: queries read
//! all, but one key can then be in both. Handles that wait know generations of others: they read them, and write to the latest
//! that is there.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | insert | 1; the first of a handle into a slice 3: it lists its tables and makes one; with generations 2 if there is one, 1 more per name that cannot be used |
//! | upsert, insert_or_merge | as insert; 1 more for a type that has a `type` or a `version` |
//! | replace, update, delete, merge | as the same verb of a table where the entity is in the first table of its slice, merge 1 more; else 1 more to list the tables and 1 for each |
//! | move_to | 4, and the first of a handle into a slice 2 more |
//! | get | 1 where it is in the first table, 2 if missing, 1 more for each generation; with generations 1 to list the tables and 1 for each of the slice |
//! | query, count | 1 to list the tables, 1 per page of each slice; with a limit, of the slices until it is reached |
//! | expired (a dry run) | 1 |
//! | drop_before, retain | 1 to list, 1 per slice |
//!
//! # Limits, and when not to use it
//! Looking for an entity without its time reads every slice. A new table is slow at first on Azure, until the
//! service has spread it: prefer days to hours. For rare deletes by key range, use bulk deletion.

mod family;
mod point;
mod query;
mod retention;
mod slice;
mod tables;

pub use family::{Reuse, TimeSlices};
pub use query::SliceQuery;
pub use slice::{Every, Keep, Slice, Slicing};
