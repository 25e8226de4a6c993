//! Typed mapping: structs as entities, typed keys, fields, patches and the [`Table`] handle.

mod entity;
mod field;
mod row_prefix;
mod schema;

pub use entity::{EntityKey, EntityPatch, FromEntity, PartitionOf, TableEntity};
pub use field::{Condition, EncryptedField, Field};
pub use row_prefix::RowPrefix;
pub use schema::{Discriminator, PropertySchema, Schema};
