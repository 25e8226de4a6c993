//! The read path: from an index query to rows of entries, and from entries to their entities.
//!
//! | module | part |
//! |---|---|
//! | `entries` | [`IndexQuery`](entries::IndexQuery); reads rows of an index and follows them to entities |
//! | `lookup` | lookups by one key, pages and streams |
//! | `lists` | lookups in lists and summaries, and pages of lists |
//! | `merged` | several partitions in parallel, in one order |

pub(crate) mod entries;
pub(crate) mod lists;
pub(crate) mod lookup;
mod merged;
