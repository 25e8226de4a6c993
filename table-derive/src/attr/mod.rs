//! Parses attributes: syntax only, without checking their meaning.

mod container;
mod field;
mod index;
mod item;

pub(crate) use container::{
    Container, DiscriminatorAttr, ENTITY, RESOLVER, SIMPLE, VALUE, VariantAttrs,
};
pub(crate) use field::{FieldAttrs, KeyAttr};
pub(crate) use index::{IndexAttr, ListAttr, PayloadAttr, ScopeAttr, ShapeAttr, SummaryAttr};
pub(crate) use item::items;
