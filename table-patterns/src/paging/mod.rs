//! Pages for web clients: the next and the previous page by cursors that the client keeps and cannot read or change.
//!
//! # Problem
//! A continuation token leads forward only, names keys of rows in readable text, works for every user, and never expires. A
//! web application needs links to the next and the previous page that it can give to anyone.
//!
//! # Key layout
//! None: the server keeps no state. A cursor holds everything.
//!
//! # Guarantees
//! - **Sealed.** A cursor is encrypted and authenticated (AES-256-GCM) with a key of the program. Keys of rows cannot be read
//!   from it, except for their approximate length. A changed cursor is refused.
//! - **Bound.** A cursor works for one query and one user, until it expires. Each mismatch is an error of its own
//!   ([`CursorError`]), whose text contains nothing of the cursor.
//! - **Both ways.** The next and the previous page work for every query that has pages: plain, large, wide and spread
//!   tables, slices, and lookups in indexes.
//! - **Keys can be changed.** The newest key seals, earlier keys open ([`Pager::with_earlier_key`]).
//!
//! # Failure windows
//! None. Pages are not snapshots: entities that are written between two requests may move to another page.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | a page, and the page after | those of one page of the query; again for each page that the service returned empty |
//! | the page before, at most 8 pages back in a row | the same |
//! | further back | those of the pages from the nearest known start: 62 from page 40 to page 1, at most 8 for a step |
//!
//! # Limits, and when not to use it
//! A cursor is about 150 bytes and, for each of at most 16 pages, one and a third times the text of a continuation token. There
//! is no jump to a page number, because a table service has none. For a cursor that only your own program keeps, use
//! [`Continuation`](table_core::query::Continuation).

mod cursor;
mod pager;

pub use cursor::{CursorError, CursorKey};
pub use pager::{PageError, Paged, Pager, WebPage};

#[cfg(test)]
mod tests;
