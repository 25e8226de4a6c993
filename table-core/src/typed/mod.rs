//! Typed entities: structs as entities, typed keys, fields, patches and the [`Table`] handle.

mod codec;
#[doc(hidden)]
pub mod derived;
mod entity;
mod field;
mod index;
mod layout;
mod record;
mod requirements;
mod row_prefix;
mod schema;
mod serde_form;
mod table;
mod width;

pub use crate::manifest::Discriminator;
pub use crate::model::{Property, PropertySink, Text};
pub use codec::{AsText, Codec, Comparable, Json, Optional, Padded, PaddedInteger, Plain, PrefixComparable};
pub use derived::PropertyGroup;
pub use entity::{EntityKey, EntityPatch, FromEntity, PartitionOf, TableEntity};
#[doc(hidden)]
pub use field::{ComparesWithEncrypted, ComparesWithKey};
pub use field::{Condition, EncryptedField, Field, FieldGroup, KeyField, LargeField, Operand};
pub use index::{EntriesOf, IndexEntries, IndexedEntity, ManyEntries, OneEntry, PartRange};
pub use record::Record;
#[doc(hidden)]
pub use requirements::Requirements;
pub use row_prefix::RowPrefix;
pub use schema::{PropertySchema, Schema, Spread};
/// Set operations of handles: how the rows that a query finds are written.
pub mod set {
    pub use super::table::{Decision, RowChange, SetWrite, SetWriter, changed};
}
pub use serde_form::Serde;
#[doc(hidden)]
pub use table::Upgraded;
pub use table::{
    KeyOf, PartitionIn, PropertyDiff, RowBounds, SchemaDiff, SerdeTable, Table, TableGroup, TableQuery,
    Versioned,
};
#[cfg(feature = "derive")]
pub use table_derive::{EntityResolver, Property, PropertyGroup, TableEntity};
pub use width::ExactWidth;

#[cfg(test)]
mod tests;
