use std::fmt;

use serde::{Deserialize, Serialize};
use table_core::store::limits;

/// How the entries of an index are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// theirs. See [`Summary`](super::Summary).
    Summary {
        /// The properties to sum: integers, or absent.
        sums: Vec<String>,
    },
    /// Properties copied into another entity, whose key the index gives.
    Copy {
        /// What the names of the copies start with.
        prefix: String,
        /// The properties to copy.
        fields: Vec<String>,
    },
}

/// Where references go that do not fit into a list entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    /// How a list is laid out.
    pub(super) const fn layout(&self) -> Layout {
        match self {
            Self::List { bytes, overflow } => Layout { bytes: *bytes, overflow: *overflow },
            _ => Layout { bytes: 0, overflow: Overflow::Blob },
        }
    }

    /// What is wrong with it, if anything.
    pub(super) fn problem(&self) -> Option<String> {
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

/// How much of a list is in its row, and where the rest is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) bytes: usize,
    pub(super) overflow: Overflow,
}
