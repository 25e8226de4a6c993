use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Text;
use crate::model::KeyPartType;

/// A template of a key, with literals and parts: `email_{Email:text:lower}`.
///
/// [`str::parse`] parses it, and [`Display`](std::fmt::Display) formats it. `docs/manifest.md` lists the words.
///
/// ```
/// use table_core::manifest::KeyTemplate;
/// let template: KeyTemplate = "{Placed:time:desc}_{RowKey}".parse()?;
/// assert_eq!(template.to_string(), "{Placed:time:desc}_{RowKey:text}"); // the type is always written
/// assert!("{Placed:text:desc}".parse::<KeyTemplate>().is_err());
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyTemplate {
    segments: Cow<'static, [KeySegment]>,
}

/// A segment of a [`KeyTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySegment {
    /// Literal text.
    Literal(Text),
    /// A value of the entity.
    Part(TemplatePart),
}

impl KeyTemplate {
    /// Creates a template from constant segments. The derive macro has checked the rules.
    #[doc(hidden)]
    pub const fn from_static(segments: &'static [KeySegment]) -> Self {
        Self {
            segments: Cow::Borrowed(segments),
        }
    }

    /// Creates a template from segments.
    ///
    /// # Errors
    /// Fails if the end of a part could not be recognized in a key, or if a transform does not fit its value.
    pub fn new(segments: Vec<KeySegment>) -> Result<Self, String> {
        let template = Self {
            segments: Cow::Owned(segments),
        };
        template.problem().map_or(Ok(template), Err)
    }

    /// Returns the segments.
    pub fn segments(&self) -> &[KeySegment] {
        &self.segments
    }

    /// Iterates over the parts.
    pub fn parts(&self) -> impl Iterator<Item = &TemplatePart> {
        self.segments.iter().filter_map(|segment| match segment {
            KeySegment::Part(part) => Some(part),
            KeySegment::Literal(_) => None,
        })
    }

    /// Whether a key has the literals of the template, in their order. The values between them are not checked.
    pub fn fits(&self, key: &str) -> bool {
        let (mut rest, mut follows_part) = (key, false);
        for (at, segment) in self.segments.iter().enumerate() {
            let KeySegment::Literal(literal) = segment else {
                follows_part = true;
                continue;
            };
            let is_last = at + 1 == self.segments.len();
            let behind = match (follows_part, is_last) {
                (false, _) => rest.strip_prefix(&**literal),
                (true, true) => return rest.ends_with(&**literal),
                (true, false) => rest.split_once(&**literal).map(|(_, behind)| behind),
            };
            let Some(behind) = behind else { return false };
            (rest, follows_part) = (behind, false);
        }
        follows_part || rest.is_empty()
    }

    /// Returns the first character of the literal after a segment. It ends the segment in a key.
    pub(super) fn separator(&self, at: usize) -> Option<char> {
        match self.segments.get(at + 1) {
            Some(KeySegment::Literal(text)) => text.chars().next(),
            _ => None,
        }
    }

    /// Returns the literal at the start of every key.
    pub(super) fn prefix(&self) -> &str {
        match self.segments.first() {
            Some(KeySegment::Literal(text)) => text,
            _ => "",
        }
    }

    /// Returns the literal at the end of every key.
    pub(super) fn suffix(&self) -> &str {
        match self.segments.last() {
            Some(KeySegment::Literal(text)) => text,
            _ => "",
        }
    }

    /// Returns the number of characters of every key, if it is fixed.
    pub(super) fn width(&self) -> Option<usize> {
        let widths = self.segments.iter().map(|segment| match segment {
            KeySegment::Literal(text) => Some(text.chars().count()),
            KeySegment::Part(part) => part.key_width(),
        });
        widths.sum()
    }

    /// Whether a part has this source.
    pub(super) fn has(&self, source: &PartSource) -> bool {
        self.parts().any(|part| part.source == *source)
    }

    fn problem(&self) -> Option<String> {
        for (at, segment) in self.segments.iter().enumerate() {
            let KeySegment::Part(part) = segment else {
                continue;
            };
            if let Some(problem) = part.problem() {
                return Some(format!("`{part}`: {problem}"));
            }
            if part.key_width().is_some() {
                continue;
            }
            let problem = match (self.segments.get(at + 1), self.separator(at)) {
                (None, _) => continue,
                // Nothing shows where the next part starts: ('ab', 'c') and ('a', 'bc') would have one key.
                (Some(KeySegment::Part(_)), _) => {
                    "has no fixed width: add a separator such as `_` after it"
                }
                // An escape is `~` and two digits of this set (`model/key_part/writer.rs`). The reader ends the part
                // at the first separator, which could be in the middle of an escape.
                (_, Some('0'..='9' | 'A'..='F' | '~')) => {
                    "may be text, and the separator after it can be part of an escape: use another separator, such as `_`"
                }
                (_, Some(separator)) if !separator.is_ascii() => {
                    "needs an ASCII separator after it, such as `_`"
                }
                _ => continue,
            };
            return Some(format!("`{part}` {problem}"));
        }
        let lists: Vec<_> = self
            .parts()
            .filter(|part| part.each)
            .map(|part| &part.source)
            .collect();
        lists
            .windows(2)
            .any(|two| two[0] != two[1])
            .then(|| "two lists in one key: use one list".to_owned())
    }
}

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
            KeyPartType::Custom => Self::Opaque {
                name: Cow::Borrowed(name),
                width,
            },
            known => Self::Declared(known),
        }
    }

    /// Returns the declared type, if there is one.
    const fn declared(&self) -> Option<KeyPartType> {
        match self {
            Self::Declared(part_type) => Some(*part_type),
            Self::Stored | Self::Opaque { .. } => None,
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

impl Transform {
    /// Returns the type of the transformed value of this type, if it is known.
    const fn apply_to_type(self, part_type: Option<KeyPartType>) -> Option<KeyPartType> {
        match self {
            Self::Lower | Self::Prefix(_) => Some(KeyPartType::Text),
            Self::Date => Some(KeyPartType::Day),
            Self::Hour => Some(KeyPartType::Hour),
            Self::Descending | Self::Shard(_) => part_type,
        }
    }
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
        self.transforms
            .iter()
            .find_map(|transform| match transform {
                Transform::Shard(count) => Some(*count),
                _ => None,
            })
    }

    /// Returns the type after the transforms, if it is known.
    fn transformed_type(&self) -> Option<KeyPartType> {
        let declared = self.encoding.declared();
        self.transforms
            .iter()
            .fold(declared, |part_type, transform| {
                transform.apply_to_type(part_type)
            })
    }

    /// Returns the number of characters in a key, if it is fixed.
    pub(super) fn key_width(&self) -> Option<usize> {
        if let Some(count) = self.shards() {
            return Some(usize::from(count.saturating_sub(1)).to_string().len());
        }
        match (self.width, self.transformed_type(), &self.encoding) {
            (Some(width), ..) => Some(width),
            (None, Some(part_type), _) => part_type.width(),
            (None, None, PartEncoding::Opaque { width, .. }) => *width,
            (None, None, _) => None,
        }
    }

    /// Returns the rule that the part breaks, if it breaks one.
    pub(super) fn problem(&self) -> Option<String> {
        // The type of the value before each transform. An unknown type may fit any transform.
        let mut part_type = self.encoding.declared();
        let mut transforms = self.transforms.iter().peekable();
        while let Some(transform) = transforms.next() {
            let can_be = |expected: KeyPartType| part_type.is_none_or(|known| known == expected);
            let problem = match transform {
                Transform::Lower | Transform::Prefix(_) | Transform::Shard(_)
                    if !can_be(KeyPartType::Text) =>
                {
                    "`lower`, `prefix` and a shard need text"
                }
                Transform::Prefix(0) => "the number of characters of a prefix must be at least 1",
                Transform::Shard(0) => "the number of shards must be at least 1",
                Transform::Date | Transform::Hour if !can_be(KeyPartType::Time) => {
                    "`date` and `hour` need a time"
                }
                Transform::Descending if !part_type.is_none_or(KeyPartType::has_descending) => {
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
            part_type = transform.apply_to_type(part_type);
        }
        if self.width.is_some()
            && (self.shards().is_some() || !part_type.is_none_or(KeyPartType::is_unsigned))
        {
            return Some("only unsigned integers have a width".to_owned());
        }
        if self.each && !matches!(self.source, PartSource::Property(_)) {
            return Some("only a property can be a list".to_owned());
        }
        None
    }
}
