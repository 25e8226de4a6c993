//! The data series pattern: a value per slot, such as an hour or a day, with many slots in one row.
//!
//! # Problem
//! Messages per hour of an employee, temperatures per day of a station: with a row per value, a chart reads a row per
//! point. One entity with all values of a series takes 1 request to read, and a merge updates one value alone.
//!
//! # Key layout
//!
//! | series | PartitionKey | RowKey | properties |
//! |---|---|---|---|
//! | fits into one entity | the key's | the key's | one per slot: `H00` … `H23` |
//! | larger | the key's | row 0: the key's; then the key's + `!000001`, `!000002`, … | the next slots in each row |
//!
//! The type of the values determines how many slots a row has: at most 248 properties, and at most as many as fit into
//! 1 MiB with the largest values and the longest names. (The service allows 252 properties; four are left for adapters,
//! such as write ids.) The stored values do not matter: a value is therefore merged into its row without a read, and a
//! set of slots may grow at its end without a move of stored values.
//!
//! # Guarantees
//! - Setting a slot changes no other slot: concurrent updates of different slots never conflict. Of several updates of
//!   one slot, the last one stays.
//! - [`DataSeries::set_many`] writes all of its slots or none.
//! - [`DataSeries::modify`] and [`DataSeries::add`] lose no update: they merge under the ETag of the row that they read,
//!   and repeat after a conflict. An update of another slot in the row is a conflict too.
//! - A slot that was never set is missing, which is not zero.
//!
//! # Failure windows
//! None: every write is 1 request, except the deletion of more than 100 rows; repeat a deletion that failed. A series of
//! several rows is read by one query, which is not a snapshot: the result may have one row from before and another from
//! after a `set_many`.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | set, set_many | 1 |
//! | get, get_slot | 1; get 1 per 1,000 rows |
//! | modify, add, clear | 2, and 2 per conflict |
//! | delete | 1; for a series of several rows 1 per 1,000 rows and 1 per 100 |
//!
//! # Limits, and when not to use it
//! A series has at most a million rows. A handle reads and deletes only the slots of its set, even if another handle has
//! stored more. A `set_many` is one group transaction: at most 100 rows and 4 MiB. Many writers of one counter slow each
//! other down: give each writer its own slot, and add up the slots when reading. For values without a fixed set of slots
//! use a row per value: a log tail, or time slices.

mod codec;
mod data;
mod layout;
mod slots;

pub use codec::{Grouped, SlotCodec};
pub use data::{Counter, DataSeries, Series};
pub use slots::{Days, Enumerated, Hours, Numbered, SlotSet};
