//! Queries: filters, projections, access paths, pages.

mod bounds;
mod evaluate;
mod explain;
mod filter;
mod lex;
mod literal;
mod names;
mod page;
mod parse;
mod plan;
mod print;
mod range;
mod residual;
mod select;
mod serialize;

pub use crate::access_path::AccessPath;
pub use bounds::KeyBounds;
pub(crate) use evaluate::RowRef;
pub use explain::Explanation;
pub use filter::{Comparison, Filter, FilterNode};
pub use page::{Continuation, Page, Position, ReadablePage, UnreadableEntity};
pub use plan::Plan;
pub use range::Range;
pub use select::{Query, Select};

#[cfg(test)]
pub(crate) mod tests;
