use std::borrow::Cow;

use super::Text;
use crate::model::KeyPartType;

/// The source of a key part's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartSource {
    /// A property of the entity.
    Property(Text),
    /// A field in the entity's keys, by its name in the key templates of the entity's type.
    KeyField(Text),
    /// The complete PartitionKey of the entity.
    PartitionKey,
    /// The complete RowKey of the entity.
    RowKey,
}

/// The encoding of a key part's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartEncoding {
    /// The encoding of the property's stored type. Dynamic indexes use it, because they declare no types.
    Stored,
    /// The encoding of this type, also if the property is stored as another integer or number type.
    Declared(KeyPartType),
    /// The encoding of a user-defined Rust type. Programs without the type cannot evaluate the template.
    Opaque {
        /// The name of the encoding.
        name: Text,
        /// The number of characters, if it is fixed.
        width: Option<usize>,
    },
}

impl PartEncoding {
    /// Returns the encoding of a type. `name` and `width` are used for a user-defined type.
    pub const fn new(part_type: KeyPartType, name: &'static str, width: Option<usize>) -> Self {
        match part_type {
            KeyPartType::Custom => Self::Opaque { name: Cow::Borrowed(name), width },
            known => Self::Declared(known),
        }
    }
}

/// A transform of a value before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// The lower case of a text: see [`lowercase`](super::lowercase()).
    Lower,
    /// This number of first characters (Unicode scalar values) of a text.
    Prefix(u32),
    /// The UTC day of a time.
    Date,
    /// The UTC hour of a time.
    Hour,
    /// Descending order: the largest number or the latest time is first.
    Descending,
    /// The shard of a text, one of this number of shards: see [`Shards`](crate::model::Shards).
    Shard(u16),
}

/// A part of a key template: a value of the entity and its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplatePart {
    /// The source of the value.
    pub source: PartSource,
    /// Whether the value is a list, stored as JSON, with one key per element.
    pub each: bool,
    /// The encoding of the value.
    pub encoding: PartEncoding,
    /// The transforms before the encoding, in this order.
    pub transforms: Cow<'static, [Transform]>,
    /// The number of digits of an unsigned integer, if the template sets it.
    pub width: Option<usize>,
}

impl TemplatePart {
    /// Creates a part with the stored value of a property.
    pub fn property(name: impl Into<Text>) -> Self {
        Self {
            source: PartSource::Property(name.into()),
            each: false,
            encoding: PartEncoding::Stored,
            transforms: Cow::Borrowed(&[]),
            width: None,
        }
    }

    /// Whether only programs with the Rust type can evaluate the part.
    pub const fn is_opaque(&self) -> bool {
        matches!(self.encoding, PartEncoding::Opaque { .. })
    }

    /// Returns the number of shards, if the part is a shard.
    pub fn shards(&self) -> Option<u16> {
        self.transforms.iter().find_map(|transform| match transform {
            Transform::Shard(count) => Some(*count),
            _ => None,
        })
    }

    /// Returns the type after the transforms, if it is known.
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

    /// Returns the number of characters in a key, if it is fixed.
    pub(super) fn key_width(&self) -> Option<usize> {
        if let Some(count) = self.shards() {
            return Some(usize::from(count.saturating_sub(1)).to_string().len());
        }
        match (self.width, self.written(), &self.encoding) {
            (Some(width), ..) => Some(width),
            (None, Some(written), _) => written.width(),
            (None, None, PartEncoding::Opaque { width, .. }) => *width,
            (None, None, _) => None,
        }
    }

    /// Returns the rule that the part breaks, if it breaks one.
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
                Transform::Shard(0) => "there is at least one shard",
                Transform::Date | Transform::Hour if !needs(KeyPartType::Time) => {
                    "`date` and `hour` need a time"
                }
                Transform::Descending if !at.is_none_or(KeyPartType::has_descending) => {
                    "only numbers and times have a descending order"
                }
                Transform::Shard(_) | Transform::Descending if transforms.peek().is_some() => {
                    "`desc` and a shard must be the last transform"
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
            return Some("only unsigned integers have a width".to_owned());
        }
        if self.each && !matches!(self.source, PartSource::Property(_)) {
            return Some("a key is not a list".to_owned());
        }
        None
    }
}
