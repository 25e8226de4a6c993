use std::borrow::Cow;

use super::Text;
use crate::model::KeyPartType;

/// Where the value of a key part comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartSource {
    /// A property of the entity.
    Property(Text),
    /// A field inside the entity's own keys, by the name it has in the key templates of the entity's type.
    KeyField(Text),
    /// The whole PartitionKey.
    PartitionKey,
    /// The whole RowKey.
    RowKey,
}

/// How the value of a key part is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartEncoding {
    /// As the type that the property is stored as: a dynamic index declares no types.
    Stored,
    /// As this type, whatever integer or number type the property is stored as.
    Declared(KeyPartType),
    /// As only a Rust type of the program knows: no other program can evaluate the template.
    Opaque {
        /// The name of the encoding.
        name: Text,
        /// The characters that it takes, if they do not vary.
        width: Option<usize>,
    },
}

impl PartEncoding {
    /// The encoding of a type; `name` and `width` are for one of its own.
    pub const fn new(part_type: KeyPartType, name: &'static str, width: Option<usize>) -> Self {
        match part_type {
            KeyPartType::Custom => Self::Opaque { name: Cow::Borrowed(name), width },
            known => Self::Declared(known),
        }
    }
}

/// What is done to a value before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// Text in lower case: see [`lowercase`](super::lowercase()).
    Lower,
    /// The first so many characters (Unicode scalar values) of a text.
    Prefix(u32),
    /// The UTC day of a time.
    Date,
    /// The UTC hour of a time.
    Hour,
    /// In descending order: the largest number or the latest time first.
    Descending,
    /// The shard of a text among so many, in place of the text: see [`Shards`](crate::model::Shards).
    Shard(u16),
}

/// A part of a key template: a value of the entity and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplatePart {
    /// Where the value comes from.
    pub source: PartSource,
    /// Whether the value is a list, stored as JSON, with a key for each of its elements.
    pub each: bool,
    /// How the value is written.
    pub encoding: PartEncoding,
    /// What is done to it before, in this order.
    pub transforms: Cow<'static, [Transform]>,
    /// The digits of an unsigned integer, if the template chooses them.
    pub width: Option<usize>,
}

impl TemplatePart {
    /// A property, as it is stored.
    pub fn property(name: impl Into<Text>) -> Self {
        Self {
            source: PartSource::Property(name.into()),
            each: false,
            encoding: PartEncoding::Stored,
            transforms: Cow::Borrowed(&[]),
            width: None,
        }
    }

    /// Whether only a program that has the Rust type can evaluate it.
    pub const fn is_opaque(&self) -> bool {
        matches!(self.encoding, PartEncoding::Opaque { .. })
    }

    /// The shards that the value is divided among, where the part is its shard.
    pub fn shards(&self) -> Option<u16> {
        self.transforms.iter().find_map(|transform| match transform {
            Transform::Shard(count) => Some(*count),
            _ => None,
        })
    }

    /// The type of what is written, where the declaration tells.
    pub(super) fn written(&self) -> Option<KeyPartType> {
        let mut written = match self.encoding {
            PartEncoding::Declared(part_type) => Some(part_type),
            PartEncoding::Stored | PartEncoding::Opaque { .. } => None,
        };
        for transform in &*self.transforms {
            written = match transform {
                Transform::Lower | Transform::Prefix(_) => Some(KeyPartType::Text),
                Transform::Date => Some(KeyPartType::Day),
                Transform::Hour => Some(KeyPartType::Hour),
                Transform::Descending | Transform::Shard(_) => written,
            };
        }
        written
    }

    /// The characters that it takes in a key, if they do not vary.
    pub(super) fn key_width(&self) -> Option<usize> {
        if let Some(count) = self.shards() {
            return Some(usize::from(count - 1).to_string().len());
        }
        match (self.width, self.written(), &self.encoding) {
            (Some(width), ..) => Some(width),
            (None, Some(written), _) => written.width(),
            (None, None, PartEncoding::Opaque { width, .. }) => *width,
            (None, None, _) => None,
        }
    }

    /// What is wrong with it, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        let mut at = match self.encoding {
            PartEncoding::Declared(part_type) => Some(part_type),
            PartEncoding::Stored | PartEncoding::Opaque { .. } => None,
        };
        let mut transforms = self.transforms.iter().peekable();
        while let Some(transform) = transforms.next() {
            let needs = |wanted: KeyPartType| at.is_none_or(|found| found == wanted);
            let problem = match transform {
                Transform::Lower | Transform::Prefix(_) | Transform::Shard(_)
                    if !needs(KeyPartType::Text) =>
                {
                    "`lower`, `prefix` and a shard are of text"
                }
                Transform::Prefix(0) => "a prefix has at least one character",
                Transform::Date | Transform::Hour if !needs(KeyPartType::Time) => {
                    "`date` and `hour` are of a time"
                }
                Transform::Descending if !at.is_none_or(KeyPartType::has_descending) => {
                    "only numbers and times have a descending order"
                }
                Transform::Shard(_) | Transform::Descending if transforms.peek().is_some() => {
                    "`desc` and a shard come last"
                }
                _ => "",
            };
            if !problem.is_empty() {
                return Some(problem.to_owned());
            }
            at = match transform {
                Transform::Lower | Transform::Prefix(_) => Some(KeyPartType::Text),
                Transform::Date => Some(KeyPartType::Day),
                Transform::Hour => Some(KeyPartType::Hour),
                Transform::Descending | Transform::Shard(_) => at,
            };
        }
        if self.width.is_some() && (self.shards().is_some() || !at.is_none_or(KeyPartType::is_unsigned)) {
            return Some("only unsigned integers take a width".to_owned());
        }
        if self.each && !matches!(self.source, PartSource::Property(_)) {
            return Some("a key is no list".to_owned());
        }
        None
    }
}
