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
    /// In the entity's partition: one group transaction writes the entity and its entries.
    SamePartition,
    /// In another partition of the same table.
    OtherPartition,
    /// In another table.
    OtherTable(TableName),
}

/// The properties that an entry contains, in addition to the key of its entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// All properties. A lookup needs no second request.
    Full,
    /// These properties.
    Fields(Names),
    /// No properties. A lookup reads each entity by its key.
    Reference,
}

impl Payload {
    /// Creates a payload of these properties.
    pub fn fields<N: Into<Text>>(properties: impl IntoIterator<Item = N>) -> Self {
        Self::Fields(names(properties))
    }
}

/// Whether several entities may have the same entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uniqueness {
    /// The index is not unique. The key of an entry must contain the key of its entity, so that entries do not collide.
    No,
    /// No two entities of a partition have the same entry.
    WithinPartition,
    /// No two entities of the table have the same entry.
    WithinTable,
}

/// How the entries of an index are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// One row per entity.
    #[default]
    Row,
    /// One row per key, with references to all entities: the index entity of the design guide. See [`Shape::LIST`].
    List {
        /// Maximum number of bytes of references in one list entity. Every change writes the whole entity again. A
        /// smaller number makes writes cheaper and reads of long lists more expensive.
        bytes: usize,
        /// Where further references are stored.
        overflow: Overflow,
    },
    /// One blob per key, with references to all entities, and a row with the name of the blob.
    Blob,
    /// One row per key, in the entities' partition, with the number of entities, and sums, minima and maxima of their
    /// properties.
    Summary {
        /// The properties to add up. Their values must be integers or absent.
        sums: Names,
        /// The properties whose smallest value is kept. Their values must be numbers or times, or absent.
        #[serde(default, skip_serializing_if = "is_empty")]
        minima: Names,
        /// The properties whose largest value is kept. Their values must be numbers or times, or absent.
        #[serde(default, skip_serializing_if = "is_empty")]
        maxima: Names,
    },
    /// Properties copied into another entity, whose key the index computes.
    Copy {
        /// The prefix of the names of the copied properties.
        prefix: Text,
        /// The properties to copy.
        fields: Names,
    },
    /// A change feed: every write of an entity adds a row with the change, in the entity's partition. See
    /// [`IndexDefinition::feed`](super::IndexDefinition::feed).
    Feed,
}

fn is_empty(names: &Names) -> bool {
    names.is_empty()
}

/// Where the references of a full list entity are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// In further list entities (chunks) of the same partition.
    Entities,
    /// In a blob, with all references of the list.
    Blob,
}

impl Shape {
    /// Maximum number of bytes of references in an entity: 896 KiB of the 1 MiB that an entity may have, so that keys and other
    /// properties fit too.
    pub const LIST_BYTES: usize = 14 * limits::BINARY_BYTES;

    /// Lists with full entities and further list entities.
    pub const LIST: Self = Self::List {
        bytes: Self::LIST_BYTES,
        overflow: Overflow::Entities,
    };

    /// Creates a summary that counts entities and adds up these properties.
    pub fn summary<N: Into<Text>>(sums: impl IntoIterator<Item = N>) -> Self {
        Self::Summary {
            sums: names(sums),
            minima: names::<Text>([]),
            maxima: names::<Text>([]),
        }
    }

    /// Iterates over the properties that a summary reads, with repetitions; none for other shapes.
    pub fn summarized(&self) -> impl Iterator<Item = &str> {
        let all = match self {
            Self::Summary {
                sums,
                minima,
                maxima,
            } => Some([sums, minima, maxima]),
            _ => None,
        };
        all.into_iter()
            .flatten()
            .flat_map(|names| names.iter().map(|name| &**name))
    }

    /// Creates copies of these properties in another entity. The names of the copies start with `prefix`.
    pub fn copy<N: Into<Text>>(
        prefix: impl Into<Text>,
        fields: impl IntoIterator<Item = N>,
    ) -> Self {
        Self::Copy {
            prefix: prefix.into(),
            fields: names(fields),
        }
    }

    /// Whether the shape is a summary with minima or maxima.
    pub fn has_extremes(&self) -> bool {
        matches!(self, Self::Summary { minima, maxima, .. } if !(minima.is_empty() && maxima.is_empty()))
    }

    /// Whether one row contains entries of several entities.
    pub const fn is_shared(&self) -> bool {
        !matches!(self, Self::Row)
    }

    /// Whether the shape is a list of references.
    pub const fn is_list(&self) -> bool {
        matches!(self, Self::List { .. } | Self::Blob)
    }

    /// Whether the shape needs a blob store.
    pub const fn needs_blobs(&self) -> bool {
        matches!(
            self,
            Self::Blob
                | Self::List {
                    overflow: Overflow::Blob,
                    ..
                }
        )
    }

    /// Returns the rule that the shape breaks, if it breaks one.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::List {
                bytes: 256..=Self::LIST_BYTES,
                ..
            } => None,
            Self::List { bytes, .. } => Some(format!(
                "a list entity has {bytes} bytes; it must have 256 to {} bytes",
                Self::LIST_BYTES
            )),
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
            Self::Feed => "feed",
        })
    }
}

/// How a row says which type it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discriminator {
    /// Rows do not say it: the table must not contain other types.
    None,
    /// The property with this name contains the name of the type.
    Property(Text),
    /// The RowKey starts with this text.
    RowPrefix(Text),
    /// The PartitionKey starts with this text.
    PartitionPrefix(Text),
}

impl Discriminator {
    /// Returns the filter that selects the rows of a type; `None` without a discriminator.
    pub fn filter(&self, type_name: &str) -> Option<Filter> {
        let prefix = |property: &str, prefix: &str| Some(Filter::starts_with(property, prefix));
        match self {
            Self::None => None,
            Self::Property(name) => Some(Filter::eq(name, type_name)),
            Self::RowPrefix(text) => prefix(Filter::ROW_KEY, text),
            Self::PartitionPrefix(text) => prefix(Filter::PARTITION_KEY, text),
        }
    }

    /// Whether a row has the type. Without a discriminator, every row is admitted.
    pub fn admits(&self, type_name: &str, entity: &Entity) -> bool {
        match self {
            Self::None => true,
            Self::Property(name) => entity.get(name) == Some(ValueRef::String(type_name)),
            Self::RowPrefix(prefix) => entity.key().row().starts_with(&**prefix),
            Self::PartitionPrefix(prefix) => entity.key().partition().starts_with(&**prefix),
        }
    }

    /// Returns the property that contains the name of the type, if there is one.
    pub fn property(&self) -> Option<&str> {
        match self {
            Self::Property(name) => Some(name),
            _ => None,
        }
    }
}
