//! `#[index(…)]`: the meaning of the attributes, their rules, and the generated code.

mod condition;
mod expand;
mod lookup;
mod model;
mod rules;
mod schema;

pub(crate) use expand::{checks, expand, keys_function};
pub(crate) use lookup::definition;
pub(crate) use model::{Context, Index, build};
