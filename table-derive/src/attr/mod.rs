//! Parses attributes: syntax only, without checking their meaning.

mod container;
mod field;
mod index;
mod item;
mod shape;

pub(crate) use container::{Container, DiscriminatorAttr, ENTITY, RESOLVER, SIMPLE};
pub(crate) use field::{FieldAttrs, KeyAttr};
pub(crate) use index::{IndexAttr, ListAttr, PayloadAttr, ScopeAttr, ShapeAttr};
pub(crate) use item::items;
