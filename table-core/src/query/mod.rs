//! Queries: filters, projections, access paths, pages.

mod explain;
mod filter;
mod page;
mod parse;
mod plan;
mod range;
mod select;

pub use crate::access_path::AccessPath;
pub use explain::Explanation;
pub(crate) use filter::RowRef;
pub use filter::{Comparison, Filter, FilterNode};
pub use page::{Continuation, Page, Position, ReadablePage, UnreadableEntity};
pub(crate) use parse::identifier_problem;
pub use plan::Plan;
pub(crate) use plan::ResidualFilter;
pub use range::{KeyBounds, Range};
pub use select::{Query, Select};

#[cfg(test)]
pub(crate) mod tests;
