//! The layout in which the entities of a type are stored.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Names, Text, names};

/// The layout in which the entities of a type are stored. Other types and programs must know it before they read or write
/// the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layout {
    /// One row under the entity's key.
    Plain,
    /// One row under the entity's key. Long values of some properties are in blobs.
    Large {
        /// The names of these properties.
        properties: Names,
    },
    /// A main row and as many further rows as the properties of the entity need.
    Wide,
    /// One row in one of several partitions. A hash of salt and RowKey chooses the partition.
    Spread {
        /// The number of stored partitions per PartitionKey.
        buckets: u32,
        /// The text that is hashed with the RowKey. Default: empty.
        salt: Text,
    },
    /// The JSON of a layout that a later version of this library has written.
    #[serde(skip)]
    Unknown(String),
}

impl Layout {
    /// Returns the layout of one row per entity, with long values of these properties in blobs.
    pub(crate) fn of_one_row(large: impl Iterator<Item = Text>) -> Self {
        let mut large: Vec<Text> = large.collect();
        large.sort();
        large.dedup();
        if large.is_empty() {
            Self::Plain
        } else {
            Self::Large {
                properties: names(large),
            }
        }
    }

    /// Returns the properties whose values may be in blobs; `None` for a layout that does not have one row per entity.
    pub(crate) fn large(&self) -> Option<&[Text]> {
        match self {
            Self::Plain => Some(&[]),
            Self::Large { properties } => Some(properties),
            _ => None,
        }
    }

    /// Returns this layout extended by the large properties of another program's layout of the same type.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        match (self.large(), other.large()) {
            // A plain layout is one without large properties, so one list describes both kinds.
            (Some(these), Some(those)) => Self::of_one_row(these.iter().chain(those).cloned()),
            _ => self.clone(),
        }
    }

    /// Returns the JSON for the manifest.
    pub fn to_json(&self) -> String {
        match self {
            Self::Unknown(json) => json.clone(),
            // Serialization cannot fail: a layout contains only texts, integers and lists.
            known => serde_json::to_string(known).unwrap_or_default(),
        }
    }

    /// Parses the JSON of a manifest.
    pub fn from_json(text: &str) -> Self {
        // The text is kept, so that a program that extends the row writes the unknown layout back as it is.
        serde_json::from_str(text).unwrap_or_else(|_| Self::Unknown(text.to_owned()))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("rows of one entity each"),
            Self::Large { properties } => {
                write!(
                    f,
                    "rows of one entity each, with large values of {} in blobs",
                    properties.join(", ")
                )
            }
            Self::Wide => f.write_str("wide entities of several rows"),
            Self::Spread { buckets, salt } if salt.is_empty() => {
                write!(f, "rows spread over {buckets} buckets")
            }
            Self::Spread { buckets, salt } => {
                write!(f, "rows spread over {buckets} buckets by the salt {salt:?}")
            }
            Self::Unknown(json) => write!(f, "a layout that this program does not know, {json}"),
        }
    }
}
