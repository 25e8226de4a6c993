//! All typed handles behind one trait, with the requests of each verb. The behaviours of
//! [`verbs`](super::verbs) run on each handle.

mod costs;
mod groups;
mod layouts;
mod notes;
mod tables;
mod verbs;

pub(super) use costs::Cell;
pub(super) use groups::GroupOf;
pub(super) use notes::{
    BOOK, Indexed, Large, LargeIndexed, Note, Plain, Recorded, Spread, Typed, Untyped, Wider,
};
pub(super) use verbs::{Verbs, World};
