//! How the entities of a type are stored.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Names, Text, names};

/// How the entities of a type are stored: what another type or program must know before it reads or writes their rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layout {
    /// One row under the entity's key.
    Plain,
    /// One row under the entity's key; a long value of one of these properties is in a blob.
    Large {
        /// Their names.
        properties: Names,
    },
    /// The rows of a wide entity: a head and as many others as its properties need.
    Wide,
    /// One row in one of several partitions, by the hash of salt and RowKey.
    Spread {
        /// The number of partitions for each PartitionKey.
        buckets: u32,
        /// What is hashed with the RowKey; empty unless declared.
        salt: Text,
    },
    /// What a later program has written, as it is stored.
    #[serde(skip)]
    Unknown(String),
}

impl Layout {
    /// One row for each entity, with large values of these properties in blobs.
    pub(crate) fn of_one_row(large: impl Iterator<Item = Text>) -> Self {
        let mut large: Vec<Text> = large.collect();
        large.sort();
        large.dedup();
        if large.is_empty() { Self::Plain } else { Self::Large { properties: names(large) } }
    }

    /// The properties that may be in blobs, of a layout of one row under the entity's key; `None` of others.
    pub(crate) fn large(&self) -> Option<&[Text]> {
        match self {
            Self::Plain => Some(&[]),
            Self::Large { properties } => Some(properties),
            _ => None,
        }
    }

    /// This layout, and what another program of the type adds that may have large values in other properties.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        match (self.large(), other.large()) {
            (Some(these), Some(those)) => Self::of_one_row(these.iter().chain(those).cloned()),
            _ => self.clone(),
        }
    }

    /// As a manifest holds it.
    pub fn to_json(&self) -> String {
        match self {
            Self::Unknown(json) => json.clone(),
            // Nothing in it can fail to be written.
            known => serde_json::to_string(known).unwrap_or_default(),
        }
    }

    /// Reads what a manifest holds.
    pub fn from_json(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self::Unknown(text.to_owned()))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("rows of one entity each"),
            Self::Large { properties } => {
                write!(f, "rows of one entity each, with large values of {} in blobs", properties.join(", "))
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
