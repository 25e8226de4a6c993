//! Queries: filters, projections, access paths, pages.

mod access;
mod bounds;
mod evaluate;
mod filter;
mod lex;
mod literal;
mod names;
mod page;
mod parse;
mod print;
mod select;

pub use access::AccessPath;
pub use bounds::{KeyBounds, Range};
pub use filter::{Comparison, Filter};
pub use page::{Continuation, Page, Position};
pub use select::{Query, Select};

#[cfg(test)]
mod tests;
