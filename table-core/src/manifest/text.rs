//! The text form of templates.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::{KeySegment, KeyTemplate, PartEncoding, PartSource, TemplatePart, Text, Transform};
use crate::error::{Error, Result};
use crate::model::{KeyPartType, Shards};

/// The number of digits of the largest `u64`.
const MAX_DIGITS: usize = 20;

impl fmt::Display for TemplatePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            PartSource::Property(name) => write!(f, "{{{name}")?,
            PartSource::KeyField(name) => write!(f, "{{@{name}")?,
            PartSource::PartitionKey => f.write_str("{PartitionKey")?,
            PartSource::RowKey => f.write_str("{RowKey")?,
        }
        if self.each {
            f.write_str("[]")?;
        }
        match &self.encoding {
            PartEncoding::Stored => {}
            PartEncoding::Declared(part_type) => write!(f, ":{part_type}")?,
            PartEncoding::Opaque { name, width: None } => write!(f, ":custom({name})")?,
            PartEncoding::Opaque {
                name,
                width: Some(width),
            } => write!(f, ":custom({name},{width})")?,
        }
        for transform in &*self.transforms {
            match transform {
                Transform::Lower => f.write_str(":lower")?,
                Transform::Prefix(count) => write!(f, ":prefix({count})")?,
                Transform::Date => f.write_str(":date")?,
                Transform::Hour => f.write_str(":hour")?,
                Transform::Descending => f.write_str(":desc")?,
                Transform::Shard(count) => write!(f, "#{count}")?,
            }
        }
        // `parse_part` accepts the width between other words too. It is always printed last, because the fingerprint of a
        // definition depends on the text.
        if let Some(width) = self.width {
            write!(f, ":0{width}")?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for KeyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in self.segments() {
            match segment {
                KeySegment::Literal(text) => {
                    f.write_str(&text.replace('{', "{{").replace('}', "}}"))?;
                }
                KeySegment::Part(part) => part.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl From<KeyTemplate> for String {
    fn from(template: KeyTemplate) -> Self {
        template.to_string()
    }
}

impl TryFrom<String> for KeyTemplate {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for KeyTemplate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = |reason: String| Error::invalid_key("key template", text, reason);
        Self::new(parse_segments(text).map_err(refused)?).map_err(refused)
    }
}

fn parse_segments(text: &str) -> Result<Vec<KeySegment>, String> {
    let (mut segments, mut literal, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let brace = &rest[at..];
        if let Some(after) = brace
            .strip_prefix("{{")
            .or_else(|| brace.strip_prefix("}}"))
        {
            literal.push_str(&brace[..1]);
            rest = after;
            continue;
        }
        let inner = brace
            .strip_prefix('{')
            .ok_or("a '}' without '{': write '}}' for a literal brace")?;
        let (inner, after) = inner
            .split_once('}')
            .ok_or("a '{' is not closed: write '{{' for a literal brace")?;
        push_literal(&mut segments, std::mem::take(&mut literal));
        segments.push(KeySegment::Part(parse_part(inner)?));
        rest = after;
    }
    literal.push_str(rest);
    push_literal(&mut segments, literal);
    Ok(segments)
}

fn push_literal(segments: &mut Vec<KeySegment>, text: String) {
    if !text.is_empty() {
        segments.push(KeySegment::Literal(Text::Owned(text)));
    }
}

/// Parses the text of a part, without its braces.
fn parse_part(text: &str) -> Result<TemplatePart, String> {
    // The same grammar as in the derive (`table-derive/src/template.rs`), with the type of the value in addition.
    let (text, shards) = match text.rsplit_once('#') {
        Some((text, count)) => (text, Some(parse_shards(count)?)),
        None => (text, None),
    };
    let mut words = text.split(':');
    let name = words.next().unwrap_or_default();
    let (name, each) = name
        .strip_suffix("[]")
        .map_or((name, false), |name| (name, true));
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c == '_' || c.is_alphanumeric());
    let source = match name {
        "PartitionKey" => PartSource::PartitionKey,
        "RowKey" => PartSource::RowKey,
        _ => match name.strip_prefix('@') {
            Some(field) if is_name(field) => PartSource::KeyField(Text::Owned(field.to_owned())),
            None if is_name(name) => PartSource::Property(Text::Owned(name.to_owned())),
            _ => {
                return Err(format!(
                    "`{name}` is not a name: write {{Name}}, {{Name:06}} for digits, or {{Name#16}} for a shard"
                ));
            }
        },
    };
    let encoding = match source {
        PartSource::PartitionKey | PartSource::RowKey => PartEncoding::Declared(KeyPartType::Text),
        PartSource::Property(_) | PartSource::KeyField(_) => PartEncoding::Stored,
    };
    let (mut part, mut transforms) = (
        TemplatePart {
            source,
            each,
            encoding,
            transforms: Cow::Borrowed(&[]),
            width: None,
        },
        Vec::new(),
    );
    for (at, word) in words.enumerate() {
        match word {
            "lower" => transforms.push(Transform::Lower),
            "date" => transforms.push(Transform::Date),
            "hour" => transforms.push(Transform::Hour),
            "desc" => transforms.push(Transform::Descending),
            _ => match (
                argument(word, "prefix"),
                parse_encoding(word),
                parse_width(word),
            ) {
                (Some(count), ..) => {
                    transforms.push(Transform::Prefix(count.parse().map_err(|_| {
                        format!("`{word}`: write `prefix(3)` for three characters")
                    })?));
                }
                (_, Some(encoding), _) if at == 0 => part.encoding = encoding,
                (.., Some(width)) if part.width.is_none() => part.width = Some(width),
                _ => {
                    return Err(format!(
                        "`{word}` is not a word of templates: write {{Name}}, {{Name:06}} for digits, {{Name#16}} for a \
                         shard (1 to 1000), {{Name[]}} for a list, or `lower`, `prefix(3)`, `date`, `hour`, `desc` after a colon"
                    ));
                }
            },
        }
    }
    transforms.extend(shards.map(Transform::Shard));
    part.transforms = Cow::Owned(transforms);
    Ok(part)
}

/// Returns the argument of `name(…)`.
fn argument<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    word.strip_prefix(name)?
        .strip_prefix('(')?
        .strip_suffix(')')
}

fn parse_encoding(word: &str) -> Option<PartEncoding> {
    if let Some(part_type) = KeyPartType::from_word(word) {
        return Some(PartEncoding::Declared(part_type));
    }
    let inner = argument(word, "custom")?;
    let (name, width) = match inner.rsplit_once(',') {
        Some((name, width)) => (name, Some(width.parse().ok()?)),
        None => (inner, None),
    };
    Some(PartEncoding::Opaque {
        name: Text::Owned(name.to_owned()),
        width,
    })
}

fn parse_width(word: &str) -> Option<usize> {
    let digits = word.strip_prefix('0')?;
    let width = digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())??;
    (1..=MAX_DIGITS).contains(&width).then_some(width)
}

fn parse_shards(count: &str) -> Result<u16, String> {
    let shards = count
        .parse()
        .ok()
        .filter(|count| Shards::new(*count).is_ok());
    shards.ok_or_else(|| {
        format!("`#{count}` is not a number of shards: write a number from 1 to 1000, such as #16")
    })
}
