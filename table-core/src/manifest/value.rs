use std::borrow::Cow;
use std::cmp::Reverse;

use chrono::NaiveDate;
use serde_json::{Number, Value as Json};
use uuid::Uuid;

use super::{PartEncoding, lowercase};
use crate::model::{
    Hour, KeyBuilder, KeyParser, KeyPart, KeyPartType, PartFormat, Property, ReverseKeyPart,
    Shards, Ticks, ValueError, ValueRef, property,
};

/// A value of a key part.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PartValue<'e> {
    Text(Cow<'e, str>),
    Bool(bool),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    F64(f64),
    Time(Ticks),
    Day(NaiveDate),
    Hour(Hour),
    Uuid(Uuid),
}

impl<'e> PartValue<'e> {
    /// Converts a stored value to the type that the encoding declares, by the rules of typed reads.
    pub(super) fn from_stored(
        encoding: &PartEncoding,
        value: ValueRef<'e>,
    ) -> Result<Self, ValueError> {
        match encoding {
            PartEncoding::Stored => Self::from_undeclared(value),
            PartEncoding::Declared(part_type) => Self::from_declared(*part_type, value),
            PartEncoding::Opaque { name, .. } => Err(opaque(name)),
        }
    }

    /// Takes a stored value as a value of its stored type.
    fn from_undeclared(value: ValueRef<'e>) -> Result<Self, ValueError> {
        Ok(match value {
            ValueRef::String(text) => Self::Text(Cow::Borrowed(text)),
            ValueRef::Boolean(value) => Self::Bool(value),
            // The same number has different keys as Int32 and as Int64.
            ValueRef::Int32(value) => Self::I32(value),
            ValueRef::Int64(value) => Self::I64(value),
            ValueRef::Double(value) => Self::F64(value),
            ValueRef::DateTime(value) => Self::Time(value),
            ValueRef::Guid(value) => Self::Uuid(value),
            ValueRef::Binary(_) => {
                return Err(ValueError::new(
                    "text, a number, a time or a GUID",
                    value.edm_type(),
                ));
            }
        })
    }

    /// Converts a stored value to a declared type.
    fn from_declared(part_type: KeyPartType, value: ValueRef<'e>) -> Result<Self, ValueError> {
        Ok(match part_type {
            KeyPartType::Text => Self::Text(Cow::Borrowed(property::text(value)?)),
            KeyPartType::Bool => Self::Bool(bool::read(value)?),
            KeyPartType::U8 => Self::U8(u8::read(value)?),
            KeyPartType::U16 => Self::U16(u16::read(value)?),
            KeyPartType::U32 => Self::U32(u32::read(value)?),
            KeyPartType::U64 => Self::U64(u64::read(value)?),
            KeyPartType::I8 => Self::I8(i8::read(value)?),
            KeyPartType::I16 => Self::I16(i16::read(value)?),
            KeyPartType::I32 => Self::I32(i32::read(value)?),
            KeyPartType::I64 => Self::I64(i64::read(value)?),
            KeyPartType::F64 => Self::F64(f64::read(value)?),
            KeyPartType::Time => Self::Time(Ticks::read(value)?),
            KeyPartType::Uuid => Self::Uuid(Uuid::read(value)?),
            KeyPartType::Day => Self::Day(NaiveDate::read(value)?),
            // No property has such a type: an hour is computed from a time, and only Rust code reads a custom type.
            KeyPartType::Hour | KeyPartType::Custom => {
                return Err(ValueError::new(
                    format!("a {part_type}, which only keys contain"),
                    value.edm_type(),
                ));
            }
        })
    }

    /// Parses the elements of a list that is stored as JSON.
    pub(super) fn parse_list(
        encoding: &PartEncoding,
        value: ValueRef<'_>,
    ) -> Result<Vec<Self>, ValueError> {
        const LIST: &str = "a list as JSON text";
        let ValueRef::String(text) = value else {
            return Err(ValueError::new(LIST, value.edm_type()));
        };
        let elements: Vec<Json> =
            serde_json::from_str(text).map_err(|e| ValueError::new(LIST, e))?;
        elements
            .into_iter()
            .map(|element| Self::element(encoding, element))
            .collect()
    }

    /// Converts an element of a list to a declared type, or to text, Boolean or Int64 without a declared type.
    fn element(encoding: &PartEncoding, element: Json) -> Result<Self, ValueError> {
        fn unsigned<N: TryFrom<u64>>(number: &Number) -> Option<N> {
            number.as_u64()?.try_into().ok()
        }
        fn signed<N: TryFrom<i64>>(number: &Number) -> Option<N> {
            number.as_i64()?.try_into().ok()
        }
        let part_type = match encoding {
            PartEncoding::Declared(part_type) => Some(*part_type),
            PartEncoding::Stored => None,
            PartEncoding::Opaque { name, .. } => return Err(opaque(name)),
        };
        let found = match &element {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number out of range",
            Json::String(_) => "text",
            Json::Array(_) => "a list",
            Json::Object(_) => "an object",
        };
        let value = match (part_type, element) {
            (None | Some(KeyPartType::Text), Json::String(text)) => {
                Some(Self::Text(Cow::Owned(text)))
            }
            (None | Some(KeyPartType::Bool), Json::Bool(value)) => Some(Self::Bool(value)),
            (Some(KeyPartType::U8), Json::Number(n)) => unsigned(&n).map(Self::U8),
            (Some(KeyPartType::U16), Json::Number(n)) => unsigned(&n).map(Self::U16),
            (Some(KeyPartType::U32), Json::Number(n)) => unsigned(&n).map(Self::U32),
            (Some(KeyPartType::U64), Json::Number(n)) => unsigned(&n).map(Self::U64),
            (Some(KeyPartType::I8), Json::Number(n)) => signed(&n).map(Self::I8),
            (Some(KeyPartType::I16), Json::Number(n)) => signed(&n).map(Self::I16),
            (Some(KeyPartType::I32), Json::Number(n)) => signed(&n).map(Self::I32),
            (None | Some(KeyPartType::I64), Json::Number(n)) => signed(&n).map(Self::I64),
            _ => None,
        };
        value.ok_or_else(|| {
            let expected = part_type.map_or("text, booleans or integers", KeyPartType::word);
            ValueError::new(format!("a list of {expected}"), found)
        })
    }

    /// Parses the next part of an entity's key; `None` if the key does not continue with such a part.
    pub(super) fn parse_key(
        part_type: KeyPartType,
        descending: bool,
        parser: &mut KeyParser<'_>,
        format: PartFormat,
    ) -> Option<Self> {
        fn part<P: KeyPart>(parser: &mut KeyParser<'_>, format: PartFormat) -> Option<P> {
            parser.part("", format).ok()
        }
        /// Parses a part of a type that has a descending order.
        fn ordered<P: ReverseKeyPart>(
            parser: &mut KeyParser<'_>,
            format: PartFormat,
            descending: bool,
        ) -> Option<P> {
            if descending {
                part::<Reverse<P>>(parser, format).map(|Reverse(value)| value)
            } else {
                part(parser, format)
            }
        }
        Some(match part_type {
            KeyPartType::Text => Self::Text(Cow::Owned(part(parser, format)?)),
            KeyPartType::Bool => Self::Bool(part(parser, format)?),
            KeyPartType::U8 => Self::U8(ordered(parser, format, descending)?),
            KeyPartType::U16 => Self::U16(ordered(parser, format, descending)?),
            KeyPartType::U32 => Self::U32(ordered(parser, format, descending)?),
            KeyPartType::U64 => Self::U64(ordered(parser, format, descending)?),
            KeyPartType::I8 => Self::I8(ordered(parser, format, descending)?),
            KeyPartType::I16 => Self::I16(ordered(parser, format, descending)?),
            KeyPartType::I32 => Self::I32(ordered(parser, format, descending)?),
            KeyPartType::I64 => Self::I64(ordered(parser, format, descending)?),
            KeyPartType::F64 => Self::F64(ordered(parser, format, descending)?),
            KeyPartType::Time => Self::Time(ordered(parser, format, descending)?),
            KeyPartType::Day => Self::Day(part(parser, format)?),
            KeyPartType::Hour => Self::Hour(part(parser, format)?),
            KeyPartType::Uuid => Self::Uuid(part(parser, format)?),
            KeyPartType::Custom => return None,
        })
    }

    /// Converts an unsigned number of the entity's key to the unsigned type that a part declares. With a width in the
    /// template, all unsigned types have the same keys.
    pub(super) fn with_declared_type(self, encoding: &PartEncoding) -> Result<Self, ValueError> {
        let PartEncoding::Declared(part_type) = encoding else {
            return Ok(self);
        };
        let number = match self {
            Self::U8(n) => u64::from(n),
            Self::U16(n) => u64::from(n),
            Self::U32(n) => u64::from(n),
            Self::U64(n) => n,
            other => return Ok(other),
        };
        let value = match part_type {
            KeyPartType::U8 => number.try_into().ok().map(Self::U8),
            KeyPartType::U16 => number.try_into().ok().map(Self::U16),
            KeyPartType::U32 => number.try_into().ok().map(Self::U32),
            KeyPartType::U64 => Some(Self::U64(number)),
            _ => None,
        };
        value.ok_or_else(|| ValueError::new(format!("a number of type {part_type}"), number))
    }

    /// Returns the lower case.
    pub(super) fn lower(self) -> Result<Self, ValueError> {
        match self {
            Self::Text(text) => Ok(Self::Text(Cow::Owned(lowercase(&text)))),
            other => Err(other.type_error("text, for `lower`")),
        }
    }

    /// Returns the first characters.
    pub(super) fn prefix(self, count: u32) -> Result<Self, ValueError> {
        match self {
            Self::Text(text) => Ok(Self::Text(Cow::Owned(first_chars(&text, count).to_owned()))),
            other => Err(other.type_error("text, for `prefix`")),
        }
    }

    /// Returns the day of a time.
    pub(super) fn date(self) -> Result<Self, ValueError> {
        match self {
            Self::Time(time) => Ok(Self::Day(time.to_datetime().date_naive())),
            other => Err(other.type_error("a time, for `date`")),
        }
    }

    /// Returns the hour of a time.
    pub(super) fn hour(self) -> Result<Self, ValueError> {
        match self {
            Self::Time(time) => Ok(Self::Hour(Hour::of(time))),
            other => Err(other.type_error("a time, for `hour`")),
        }
    }

    /// Appends the shard of a text to a key.
    pub(super) fn write_shard(&self, count: u16, key: &mut KeyBuilder) -> Result<(), ValueError> {
        let Self::Text(text) = self else {
            return Err(self.type_error("text, for a shard"));
        };
        let shards = Shards::new(count).map_err(|_| ValueError::new("1 to 1000 shards", count))?;
        key.push_text(&shards.partition("", text));
        Ok(())
    }

    /// Appends the value to a key.
    pub(super) fn write(
        self,
        key: &mut KeyBuilder,
        descending: bool,
        format: PartFormat,
    ) -> Result<(), ValueError> {
        /// Appends a value of a type that has a descending order.
        fn ordered<P: ReverseKeyPart>(
            key: &mut KeyBuilder,
            value: P,
            descending: bool,
            format: PartFormat,
        ) -> Result<(), ValueError> {
            if descending {
                key.push(&Reverse(value), format)
            } else {
                key.push(&value, format)
            }
        }
        // A number without a declared type may have a width, if it is not negative. An Int32 and an Int64 then have one key.
        let value = match self {
            Self::I32(n) if format.width.is_some() => Self::I64(n.into()),
            other => other,
        };
        match value {
            Self::I64(n) if format.width.is_some() => {
                let number = u64::try_from(n).map_err(|_| {
                    ValueError::new("a number that is not negative, for a width", n)
                })?;
                ordered(key, number, descending, format)
            }
            Self::U8(n) => ordered(key, n, descending, format),
            Self::U16(n) => ordered(key, n, descending, format),
            Self::U32(n) => ordered(key, n, descending, format),
            Self::U64(n) => ordered(key, n, descending, format),
            other if format.width.is_some() => Err(other.type_error("a whole number, for a width")),
            Self::I8(n) => ordered(key, n, descending, format),
            Self::I16(n) => ordered(key, n, descending, format),
            Self::I32(n) => ordered(key, n, descending, format),
            Self::I64(n) => ordered(key, n, descending, format),
            Self::F64(n) => ordered(key, n, descending, format),
            Self::Time(time) => ordered(key, time, descending, format),
            other if descending => Err(other.type_error("a number or a time, for `desc`")),
            Self::Text(text) => key.push(&text.into_owned(), format),
            Self::Bool(value) => key.push(&value, format),
            Self::Day(day) => key.push(&day, format),
            Self::Hour(hour) => key.push(&hour, format),
            Self::Uuid(id) => key.push(&id, format),
        }
    }

    fn type_error(&self, expected: &'static str) -> ValueError {
        let found = match self {
            Self::Text(_) => "text",
            Self::Bool(_) => "a boolean",
            Self::F64(_) => "a floating-point number",
            Self::Time(_) => "a time",
            Self::Day(_) => "a day",
            Self::Hour(_) => "an hour",
            Self::Uuid(_) => "a GUID",
            _ => "a whole number",
        };
        ValueError::new(expected, found)
    }
}

fn opaque(name: &str) -> ValueError {
    ValueError::new(
        "an encoding that the library knows",
        format_args!("`{name}` of a user-defined type"),
    )
}

/// Returns the first `count` characters of a text.
pub(crate) fn first_chars(text: &str, count: u32) -> &str {
    let end = usize::try_from(count)
        .ok()
        .and_then(|count| text.char_indices().nth(count));
    end.map_or(text, |(end, _)| &text[..end])
}
