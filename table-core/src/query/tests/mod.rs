//! Unit and property tests of the whole of `query`; `arbitrary` makes the values they share.

mod access;
pub(crate) mod arbitrary;
mod bounds;
mod evaluate;
mod explain;
mod page;
mod parse;
mod plan;
mod print;
