use std::borrow::Cow;
use std::fmt;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Ticks;

/// The type of a property, with the service's names (`Edm.Int32`, …).
///
/// The numbers are part of the stored format: see `docs/embedded-format.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EdmType {
    /// Bytes, at most 64 KiB.
    Binary = 0,
    /// True or false.
    Boolean = 1,
    /// A time at 100 ns resolution, from 1601 to 9999.
    DateTime = 2,
    /// A 64-bit floating point number.
    Double = 3,
    /// A 128-bit identifier.
    Guid = 4,
    /// A 32-bit signed integer.
    Int32 = 5,
    /// A 64-bit signed integer.
    Int64 = 6,
    /// Text, at most 64 KiB as UTF-16.
    String = 7,
}

impl EdmType {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Binary,
        Self::Boolean,
        Self::DateTime,
        Self::Double,
        Self::Guid,
        Self::Int32,
        Self::Int64,
        Self::String,
    ];

    /// Returns the name in requests, for example `Edm.Int64`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Binary => "Edm.Binary",
            Self::Boolean => "Edm.Boolean",
            Self::DateTime => "Edm.DateTime",
            Self::Double => "Edm.Double",
            Self::Guid => "Edm.Guid",
            Self::Int32 => "Edm.Int32",
            Self::Int64 => "Edm.Int64",
            Self::String => "Edm.String",
        }
    }

    /// Returns the type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Returns the type with this number.
    #[inline]
    pub(crate) const fn from_tag(tag: u8) -> Option<Self> {
        if (tag as usize) < Self::ALL.len() {
            Some(Self::ALL[tag as usize])
        } else {
            None
        }
    }

    /// Returns the bytes of a packed value; `None` for text and bytes, which have a length prefix.
    #[inline]
    pub(crate) const fn packed_bytes(self) -> Option<usize> {
        match self {
            Self::Binary | Self::String => None,
            Self::Boolean => Some(1),
            Self::Int32 => Some(4),
            Self::DateTime | Self::Double | Self::Int64 => Some(8),
            Self::Guid => Some(16),
        }
    }
}

impl fmt::Display for EdmType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An owned property value. There is no null: a missing value is an absent property.
#[derive(Clone, PartialEq)]
pub enum EdmValue {
    /// See [`EdmType::Binary`].
    Binary(Vec<u8>),
    /// See [`EdmType::Boolean`].
    Boolean(bool),
    /// See [`EdmType::DateTime`].
    DateTime(Ticks),
    /// See [`EdmType::Double`].
    Double(f64),
    /// See [`EdmType::Guid`].
    Guid(Uuid),
    /// See [`EdmType::Int32`].
    Int32(i32),
    /// See [`EdmType::Int64`].
    Int64(i64),
    /// See [`EdmType::String`].
    String(String),
}

impl EdmValue {
    /// Borrows the value.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Binary(v) => ValueRef::Binary(v),
            Self::Boolean(v) => ValueRef::Boolean(*v),
            Self::DateTime(v) => ValueRef::DateTime(*v),
            Self::Double(v) => ValueRef::Double(*v),
            Self::Guid(v) => ValueRef::Guid(*v),
            Self::Int32(v) => ValueRef::Int32(*v),
            Self::Int64(v) => ValueRef::Int64(*v),
            Self::String(v) => ValueRef::String(v),
        }
    }

    /// Returns the type of the value.
    pub fn edm_type(&self) -> EdmType {
        self.as_ref().edm_type()
    }
}

impl fmt::Debug for EdmValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref(), f)
    }
}

/// A borrowed property value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// See [`EdmType::Binary`].
    Binary(&'a [u8]),
    /// See [`EdmType::Boolean`].
    Boolean(bool),
    /// See [`EdmType::DateTime`].
    DateTime(Ticks),
    /// See [`EdmType::Double`].
    Double(f64),
    /// See [`EdmType::Guid`].
    Guid(Uuid),
    /// See [`EdmType::Int32`].
    Int32(i32),
    /// See [`EdmType::Int64`].
    Int64(i64),
    /// See [`EdmType::String`].
    String(&'a str),
}

impl ValueRef<'_> {
    /// Returns the type of the value.
    pub const fn edm_type(&self) -> EdmType {
        match self {
            Self::Binary(_) => EdmType::Binary,
            Self::Boolean(_) => EdmType::Boolean,
            Self::DateTime(_) => EdmType::DateTime,
            Self::Double(_) => EdmType::Double,
            Self::Guid(_) => EdmType::Guid,
            Self::Int32(_) => EdmType::Int32,
            Self::Int64(_) => EdmType::Int64,
            Self::String(_) => EdmType::String,
        }
    }

    /// Returns an owned copy.
    pub fn to_owned(self) -> EdmValue {
        match self {
            Self::Binary(v) => EdmValue::Binary(v.to_vec()),
            Self::Boolean(v) => EdmValue::Boolean(v),
            Self::DateTime(v) => EdmValue::DateTime(v),
            Self::Double(v) => EdmValue::Double(v),
            Self::Guid(v) => EdmValue::Guid(v),
            Self::Int32(v) => EdmValue::Int32(v),
            Self::Int64(v) => EdmValue::Int64(v),
            Self::String(v) => EdmValue::String(v.to_owned()),
        }
    }
}

macro_rules! from {
    ($($source:ty => $variant:ident($value:ident) $convert:expr;)*) => {$(
        impl From<$source> for EdmValue {
            fn from($value: $source) -> Self {
                Self::$variant($convert)
            }
        }
    )*};
}

from! {
    Vec<u8> => Binary(v) v;
    &[u8] => Binary(v) v.to_vec();
    bool => Boolean(v) v;
    Ticks => DateTime(v) v;
    DateTime<Utc> => DateTime(v) v.into();
    f64 => Double(v) v;
    f32 => Double(v) v.into();
    Uuid => Guid(v) v;
    i32 => Int32(v) v;
    i16 => Int32(v) v.into();
    u16 => Int32(v) v.into();
    i8 => Int32(v) v.into();
    u8 => Int32(v) v.into();
    i64 => Int64(v) v;
    u32 => Int64(v) v.into();
    String => String(v) v;
    &str => String(v) v.to_owned();
}

/// A value that does not fit a key part or a property of a typed entity.
///
/// The caller that knows the entity and the property converts it to an [`Error`](crate::Error).
///
/// ```
/// use table_core::model::ValueError;
/// let error = ValueError::new("at most 6 digits", 1_000_000);
/// assert_eq!(error.to_string(), "expected at most 6 digits, found 1000000");
/// ```
pub struct ValueError(Box<Mismatch>);

/// Boxed, so that results stay small in the success case.
struct Mismatch {
    expected: Cow<'static, str>,
    found: String,
}

impl ValueError {
    /// Creates an error from the expectation and the value found instead.
    pub fn new(expected: impl Into<Cow<'static, str>>, found: impl fmt::Display) -> Self {
        Self(Box::new(Mismatch {
            expected: expected.into(),
            found: found.to_string(),
        }))
    }

    /// Returns the expectation.
    pub fn expected(&self) -> &str {
        &self.0.expected
    }

    /// Returns what was found: a type, a description or the value itself.
    pub fn found(&self) -> &str {
        &self.0.found
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.0.expected, self.0.found)
    }
}

impl fmt::Debug for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ValueError {}
