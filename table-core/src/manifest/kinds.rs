use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Names, Text, names};
use crate::limits;
use crate::model::{Entity, TableName, ValueRef};
use crate::query::Filter;

/// Where the entries of an index are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// In the entity's own partition: written with it, atomically.
    SamePartition,
    /// In another partition of the same table.
    OtherPartition,
    /// In another table.
    OtherTable(TableName),
}

/// What an entry holds beside its owner's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Every property: a lookup is one request.
    Full,
    /// These properties.
    Fields(Names),
    /// Nothing: a lookup follows the reference.
    Reference,
}

impl Payload {
    /// Entries that hold these properties.
    pub fn fields<N: Into<Text>>(properties: impl IntoIterator<Item = N>) -> Self {
        Self::Fields(names(properties))
    }
}

/// Which other entities may have the same entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uniqueness {
    /// Any: the entry's key includes the entity's, so that entries do not collide.
    No,
    /// None in the partition of the entity.
    WithinPartition,
    /// None in the table.
    WithinTable,
}

/// How the entries of an index are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A row of its own for each entity.
    #[default]
    Row,
    /// One row for each key, with references to its entities: the guide's index entity. See
    /// [`Shape::LIST`].
    List {
        /// How many bytes of references one list entity holds. Every change writes the whole entity
        /// again: less makes writes cheaper and long lists dearer to read.
        bytes: usize,
        /// Where references go that do not fit.
        overflow: Overflow,
    },
    /// One blob for each key, with references to its entities, and a row that names the blob.
    Blob,
    /// One row for each key in the entity's partition, which counts its entities and sums properties of
    /// theirs.
    Summary {
        /// The properties to sum: integers, or absent.
        sums: Names,
    },
    /// Properties copied into another entity, whose key the index gives.
    Copy {
        /// What the names of the copies start with.
        prefix: Text,
        /// The properties to copy.
        fields: Names,
    },
}

/// Where references go that do not fit into a list entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Into more list entities beside it.
    Entities,
    /// All of the list into a blob.
    Blob,
}

impl Shape {
    /// What fits into an entity beside its keys.
    pub const LIST_BYTES: usize = 14 * limits::BINARY_BYTES;

    /// Lists that fill an entity, and then go on in another.
    pub const LIST: Self = Self::List { bytes: Self::LIST_BYTES, overflow: Overflow::Entities };

    /// Rows that count entities and sum these properties of theirs.
    pub fn summary<N: Into<Text>>(sums: impl IntoIterator<Item = N>) -> Self {
        Self::Summary { sums: names(sums) }
    }

    /// Copies of these properties in another entity, under names that start with `prefix`.
    pub fn copy<N: Into<Text>>(prefix: impl Into<Text>, fields: impl IntoIterator<Item = N>) -> Self {
        Self::Copy { prefix: prefix.into(), fields: names(fields) }
    }

    /// Whether entries of several entities are kept in one row.
    pub const fn is_shared(&self) -> bool {
        !matches!(self, Self::Row)
    }

    /// Whether it is a list of references.
    pub const fn is_list(&self) -> bool {
        matches!(self, Self::List { .. } | Self::Blob)
    }

    /// Whether it needs a store of blobs.
    pub const fn needs_blobs(&self) -> bool {
        matches!(self, Self::Blob | Self::List { overflow: Overflow::Blob, .. })
    }

    /// What is wrong with it, if anything.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::List { bytes: 256..=Self::LIST_BYTES, .. } => None,
            Self::List { bytes, .. } => {
                Some(format!("a list entity of {bytes} bytes: choose 256 to {}", Self::LIST_BYTES))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Row => "row",
            Self::List { .. } => "list",
            Self::Blob => "blob",
            Self::Summary { .. } => "summary",
            Self::Copy { .. } => "copy",
        })
    }
}

/// How rows of a type are told from the rows of other types in the same table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discriminator {
    /// The table holds nothing else.
    None,
    /// A property with this name holds the name of the type.
    Property(Text),
    /// The row key starts with this text.
    RowPrefix(Text),
    /// The partition key starts with this text.
    PartitionPrefix(Text),
}

impl Discriminator {
    /// The condition that keeps other types' rows out of a query.
    pub fn filter(&self, type_name: &str) -> Option<Filter> {
        let prefix = |property: &str, prefix: &str| Some(Filter::starts_with(property, prefix));
        match self {
            Self::None => None,
            Self::Property(name) => Some(Filter::eq(name, type_name)),
            Self::RowPrefix(text) => prefix(Filter::ROW_KEY, text),
            Self::PartitionPrefix(text) => prefix(Filter::PARTITION_KEY, text),
        }
    }

    /// Whether a row is of the type, as far as the discriminator tells.
    pub fn admits(&self, type_name: &str, entity: &Entity) -> bool {
        match self {
            Self::None => true,
            Self::Property(name) => entity.get(name) == Some(ValueRef::String(type_name)),
            Self::RowPrefix(prefix) => entity.key().row().starts_with(&**prefix),
            Self::PartitionPrefix(prefix) => entity.key().partition().starts_with(&**prefix),
        }
    }

    /// The property that holds the name of the type, if one does.
    pub fn property(&self) -> Option<&str> {
        match self {
            Self::Property(name) => Some(name),
            _ => None,
        }
    }
}
