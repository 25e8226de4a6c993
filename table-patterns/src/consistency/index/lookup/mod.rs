//! Lookups: from a query of an index to its entries, and from entries to their entities.
//!
//! | module | part |
//! |---|---|
//! | `query` | a query of an index |
//! | `entries` | indexes whose rows hold one entry each; from an entry to its entity |
//! | `lists` | lookups in lists and summaries; pages of lists, which may end within a list |
//! | `merged` | several partitions in parallel, in one order |
//! | `pages` | pages and streams of any index that leads to entities |

mod entries;
mod lists;
mod merged;
mod pages;
mod query;

pub(super) use self::entries::Lookups;
pub(super) use self::lists::Lists;
pub(super) use self::merged::MergedLookup;
pub(super) use self::pages::Pages;
pub use self::query::{IndexQuery, Trust};
