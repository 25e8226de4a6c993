//! Unit and property tests of `query`; `arbitrary` generates their values.

mod access;
pub(crate) mod arbitrary;
mod bounds;
mod evaluate;
mod explain;
mod page;
mod parse;
mod plan;
mod print;
