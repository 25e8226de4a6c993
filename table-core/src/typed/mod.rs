//! Typed mapping: structs as entities, typed keys, fields, patches and the [`Table`] handle.

mod codec;
mod entity;
mod field;
mod operand;
mod prefix_builder;
mod property;
mod property_impls;
mod row_prefix;
mod schema;

pub use codec::{Codec, Comparable, Json, Padded, PaddedInteger, Plain};
pub use entity::{EntityKey, EntityPatch, FromEntity, PartitionOf, TableEntity};
pub use field::{Condition, EncryptedField, Field};
pub use operand::Operand;
pub use prefix_builder::PrefixBuilder;
pub use property::{Property, PropertySink, Text};
pub use row_prefix::RowPrefix;
pub use schema::{Discriminator, PropertySchema, Schema};

#[cfg(test)]
mod tests;
