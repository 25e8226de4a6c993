//! The data series pattern: a fixed set of slots, a property each, in as few rows as they need.
//!
//! # Problem
//! Messages per hour of an employee, temperatures per day of a station: a row per value would cost a row read
//! for each point of a chart. All values of a series in one entity are read in one request, and each is
//! updated alone by a merge.
//!
//! # Key layout
//!
//! | series | PartitionKey | RowKey | properties |
//! |---|---|---|---|
//! | that fits one entity | the key's | the key's | one per slot: `H00` … `H23` |
//! | that does not | the key's | the same; then the key's + `!000001`, `!000002`, … | the next slots in each |
//!
//! Which slots a row has follows from the type of the values alone: at most 248 properties (four of the service's 252
//! are left for adapters, such as write ids) and 1 MiB of the largest values there can be, with the longest names. So a
//! value is merged into its row without reading, whatever the row holds; and a set of slots may
//! grow at its end, also past an entity: what is stored stays where it is.
//!
//! # Guarantees
//! - Setting a slot touches no other: concurrent updates of different slots never conflict, and of the same
//!   slot the last one stays.
//! - [`DataSeries::set_many`] writes all of its slots or none.
//! - [`DataSeries::modify`] and [`DataSeries::add`] lose no update: they merge under the ETag that was read, and
//!   try again. That ETag is the row's, so updates of its other slots make them try again too.
//! - A slot that was never set is missing, which is not zero.
//!
//! # Failure windows
//! None: every write is one request, but for the deletion of more than 100 rows, which is run again where it
//! failed. A series of several rows is read in one query, which is no snapshot: it can
//! see one row before and another after a `set_many`.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | set, set_many | 1 |
//! | get, get_slot | 1; get 1 per 1,000 rows |
//! | modify, add, clear | 2, again on conflict |
//! | delete | 1; where there are several rows 1 per 1,000 and 1 per 100 |
//!
//! # Limits, and when not to use it
//! A series has at most a million rows. A handle with fewer slots than there were reads and deletes those it knows. A
//! `set_many` is one group transaction: 100 rows, 4 MiB. Many writers of one counter slow each other down: give
//! each a slot and add up when reading. For a series without a fixed set of slots use a row per value: a log
//! tail, or time slices.

mod codec;
mod counter;
mod data;
mod layout;
mod remove;
mod slots;
mod values;

pub use codec::{Grouped, SlotCodec};
pub use counter::Counter;
pub use data::DataSeries;
pub use slots::{Days, Enumerated, Hours, Numbered, SlotSet};
pub use values::Series;
