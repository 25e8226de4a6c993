//! The high-volume delete pattern: a table per period, so that old entities are deleted by dropping tables.
//!
//! # Problem
//! Millions of sign-ins older than 60 days: deleting the entities one by one takes a scan to find them and 1 request per
//! hundred. Dropping a table is 1 request, whatever its size.
//!
//! # Key layout
//!
//! | table | holds |
//! |---|---|
//! | family + `2013010115`, `20130101` or `201301` | the entities whose time is in an hour, a day, a month |
//! | the same + `G1`, `G2`, … | further generations: the same slice, while the name of a dropped table cannot be used again |
//!
//! The keys within a table are the entity's own. Spread them over partitions as in a single table.
//!
//! # Guarantees
//! - An entity is stored in the slice of its own time. The slice's table is created when it is needed, by 1 request of a
//!   handle and its clones, however many inserts run at once. The handle remembers the table.
//! - A query returns the slices in the order of time, and exactly the entities of the period.
//! - [`TimeSlices::drop_before`] drops only slices that end by the given time. A policy ([`Keep`]) drops only slices that
//!   have ended by the given time, even if wrong clocks have made slices of the future. A query that meets a slice
//!   dropped during the query treats it as empty; an insert creates the slice again.
//!
//! # Failure windows
//! A drop of several slices stops at the first failure; repeat it. The service keeps the name of a dropped table for at
//! least 40 seconds. An insert into such a slice waits ([`Reuse::Wait`]) or creates another generation
//! ([`Reuse::Generation`]). With generations, two processes can create different ones at the moment when the old name
//! becomes usable. Queries read all generations, but one key may then be in both. Handles that wait read the generations
//! of other handles, and write to the latest generation that exists.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | insert | 1; the first of a handle into a slice 3: it lists its tables and creates one; with generations 2 if there is one, 1 more per name that cannot be used |
//! | upsert, insert_or_merge | as insert; 1 more for a type that has a `type` or a `version` |
//! | replace, update, delete, merge | as the same verb of a table if the entity is in the first table of its slice, merge 1 more; else 1 more to list the tables and 1 per table |
//! | move_to | 4, and 2 more for the first of a handle into a slice |
//! | get | 1 if the entity is in the first table, 2 if it is missing, 1 more per generation; with generations 1 to list the tables and 1 per table of the slice |
//! | query, count | 1 to list the tables, 1 per page of each slice; with a limit, of the slices until it is reached |
//! | expired (a dry run) | 1 |
//! | drop_before, retain, drop_expired | 1 to list, 1 per slice |
//!
//! # Limits, and when not to use it
//! A search for an entity without its time reads every slice. On Azure a new table is slow until the service has spread
//! it: prefer days to hours. For rare deletions by key range, use bulk deletion.

mod family;
mod point;
mod query;
mod slice;
mod upgrade;

pub use family::{Reuse, TimeSlices};
pub use query::SliceQuery;
pub use slice::{Every, Keep, Slice, Slicing};
