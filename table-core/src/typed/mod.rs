//! Typed entities: structs as entities, typed keys, fields, patches and queries. `table_patterns::Table` writes and reads them; [`PlainTable`] is
//! its part for rows alone.

mod codec;
#[cfg(feature = "derive")]
mod derive_macros;
#[doc(hidden)]
pub mod derived;
mod entity;
mod field;
mod index;
mod layout;
mod record;
mod registration;
mod row_prefix;
mod schema;
mod serde_form;
mod split;
mod table;
mod width;

pub use crate::manifest::Discriminator;
pub use crate::model::{Property, PropertySink, Text};
pub use codec::{
    AsText, Codec, Comparable, Json, Optional, Padded, PaddedInteger, Plain, PrefixComparable,
};
#[cfg(feature = "derive")]
pub use derive_macros::{EntityResolver, Property, PropertyGroup, TableEntity};
pub use derived::PropertyGroup;
pub use entity::{
    EntityKey, EntityPatch, Expires, FromEntity, PartitionOf, SoftDelete, TableEntity,
};
#[doc(hidden)]
pub use field::{ComparesWithEncrypted, ComparesWithKey, ComparesWithSplit};
pub use field::{
    Condition, EncryptedField, Field, FieldGroup, IntoCondition, KeyField, LargeField, Operand,
    SplitField,
};
pub use index::{EntriesOf, FindsOne, IndexEntries, ManyEntries, OneEntry, PartRange};
pub use record::Record;
#[doc(hidden)]
pub use registration::permit_registered;
pub use row_prefix::{PartitionPrefix, RowPrefix};
#[doc(hidden)]
pub use schema::Requirements;
pub use schema::{PropertySchema, Schema, Spread};
/// Set operations of handles: how the rows that a query finds are written.
pub mod set {
    pub use super::table::{Decision, RowChange, SetWrite, SetWriter, changed};
}
/// Upgrades of handles: how rows of older schema versions are read and converted.
pub mod upgrade {
    pub use super::table::{UpgradePage, UpgradeRow, UpgradeRows};
}
/// Values that are stored outside of their rows.
#[doc(hidden)]
pub mod load {
    pub use super::table::{LoadedRow, RowLoader};
}
pub use serde_form::Serde;
pub use table::{
    KeyOf, PartitionIn, PlainGroup, PlainTable, PropertyDiff, RowBounds, SchemaDiff, SerdeTable,
    TableQuery, Upgrade, UpgradeCursor, UpgradeReport, Versioned,
};
pub use width::ExactWidth;

#[cfg(test)]
mod tests;
