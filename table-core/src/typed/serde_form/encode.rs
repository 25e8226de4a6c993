use std::fmt;

use serde::Serialize;
use serde::ser::{Impossible, SerializeMap, SerializeStruct, Serializer};
use serde_json::Value as Json;

use crate::model::{ETag, EdmValue, Properties, Ticks, ValueRef, serde_names};
use crate::store::{Error, Result};

/// The parts of an entity in a serialized value.
#[derive(Debug, Default)]
pub(in crate::typed) struct Encoded {
    pub(in crate::typed) partition: Option<String>,
    pub(in crate::typed) row: Option<String>,
    pub(in crate::typed) etag: Option<ETag>,
    pub(in crate::typed) properties: Properties,
}

/// Serializes a value: a struct or a map with a member for each property.
pub(in crate::typed) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Encoded> {
    value.serialize(EntitySerializer).map_err(|problem| {
        let (name, reason) = (
            std::any::type_name::<T>(),
            match problem {
                Problem::Message(message) => message,
                Problem::Compound => {
                    "it is not a struct or map with a member for each property".to_owned()
                }
            },
        );
        Error::invalid_argument(format!("a {name} cannot be stored: {reason}"))
    })
}

#[derive(Debug)]
pub(super) enum Problem {
    Message(String),
    /// The value is not one property: the caller stores it as JSON.
    Compound,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => f.write_str(message),
            Self::Compound => f.write_str("a value with parts"),
        }
    }
}

impl std::error::Error for Problem {}

impl serde::ser::Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Message(message.to_string())
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::Message(error.to_string())
    }
}

impl Encoded {
    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Problem> {
        let done = match name {
            serde_names::PARTITION_KEY => key_text(value).map(|text| self.partition = Some(text)),
            serde_names::ROW_KEY => key_text(value).map(|text| self.row = Some(text)),
            serde_names::ETAG => self.read_etag(value),
            // The store sets it.
            serde_names::TIMESTAMP => Ok(()),
            _ => self.property(name, value),
        };
        done.map_err(|problem| Problem::Message(format!("the member '{name}': {problem}")))
    }

    fn read_etag<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Problem> {
        self.etag = serde_json::from_value(serde_json::to_value(value)?)?;
        Ok(())
    }

    fn property<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Problem> {
        let value = match value.serialize(ValueSerializer) {
            Ok(None) => return Ok(()),
            Ok(Some(value)) => value,
            // Found out by trying: serde does not say beforehand whether a value has parts.
            Err(Problem::Compound) => EdmValue::String(serde_json::to_string(value)?),
            Err(problem) => return Err(problem),
        };
        if self.properties.get(name).is_some() {
            return Err(Problem::Message("it occurs twice".to_owned()));
        }
        self.properties.push(name, value.as_ref(), false);
        Ok(())
    }
}

fn key_text<T: Serialize + ?Sized>(value: &T) -> Result<String, Problem> {
    match serde_json::to_value(value)? {
        Json::String(text) => Ok(text),
        _ => Err(Problem::Message(
            "a key is text: give numbers a width by `format!(\"{id:06}\")`, or compute the keys by `with_keys`".to_owned(),
        )),
    }
}

/// Implements methods of a serializer that accept one kind of value only.
macro_rules! refused {
    ($($name:ident($($argument:ty),*) $(-> $compound:ident)?;)*) => {$(
        refused!(@one $name($($argument),*) $($compound)?);
    )*};
    (@one $name:ident($($argument:ty),*)) => {
        fn $name(self $(, _: $argument)*) -> Result<Self::Ok, Problem> {
            Err(Problem::Compound)
        }
    };
    (@one $name:ident($($argument:ty),*) $compound:ident) => {
        fn $name(self $(, _: $argument)*) -> Result<Self::$compound, Problem> {
            Err(Problem::Compound)
        }
    };
}

/// Serializes an entity.
struct EntitySerializer;

/// A struct or map in work.
pub(super) struct Members {
    encoded: Encoded,
    name: Option<String>,
}

impl Serializer for EntitySerializer {
    type Ok = Encoded;
    type Error = Problem;
    type SerializeSeq = Impossible<Encoded, Problem>;
    type SerializeTuple = Impossible<Encoded, Problem>;
    type SerializeTupleStruct = Impossible<Encoded, Problem>;
    type SerializeTupleVariant = Impossible<Encoded, Problem>;
    type SerializeMap = Members;
    type SerializeStruct = Members;
    type SerializeStructVariant = Impossible<Encoded, Problem>;

    refused! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Encoded, Problem> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Encoded, Problem> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Encoded, Problem> {
        Err(Problem::Compound)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members, Problem> {
        Ok(Members {
            encoded: Encoded::default(),
            name: None,
        })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members, Problem> {
        self.serialize_map(None)
    }
}

impl SerializeStruct for Members {
    type Ok = Encoded;
    type Error = Problem;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Problem> {
        self.encoded.member(name, value)
    }

    fn end(self) -> Result<Encoded, Problem> {
        Ok(self.encoded)
    }
}

impl SerializeMap for Members {
    type Ok = Encoded;
    type Error = Problem;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Problem> {
        match serde_json::to_value(key)? {
            Json::String(name) => self.name = Some(name),
            _ => {
                return Err(Problem::Message(
                    "the name of a property is text".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Problem> {
        let name = self.name.take().unwrap_or_default();
        self.encoded.member(&name, value)
    }

    fn end(self) -> Result<Encoded, Problem> {
        Ok(self.encoded)
    }
}

/// Serializes one property; `None` for an absent property.
struct ValueSerializer;

type Stored = Option<EdmValue>;

/// Implements the methods for values that are stored as one EDM type.
macro_rules! stored {
    ($($name:ident($argument:ty) => $variant:ident;)*) => {$(
        fn $name(self, value: $argument) -> Result<Stored, Problem> {
            Ok(Some(EdmValue::$variant(value.into())))
        }
    )*};
}

impl Serializer for ValueSerializer {
    type Ok = Stored;
    type Error = Problem;
    type SerializeSeq = Impossible<Stored, Problem>;
    type SerializeTuple = Impossible<Stored, Problem>;
    type SerializeTupleStruct = Impossible<Stored, Problem>;
    type SerializeTupleVariant = Impossible<Stored, Problem>;
    type SerializeMap = Impossible<Stored, Problem>;
    type SerializeStruct = Impossible<Stored, Problem>;
    type SerializeStructVariant = Impossible<Stored, Problem>;

    stored! {
        serialize_bool(bool) => Boolean;
        serialize_i8(i8) => Int32;
        serialize_i16(i16) => Int32;
        serialize_i32(i32) => Int32;
        serialize_i64(i64) => Int64;
        serialize_u8(u8) => Int32;
        serialize_u16(u16) => Int32;
        serialize_u32(u32) => Int64;
        serialize_f32(f32) => Double;
        serialize_f64(f64) => Double;
        serialize_char(char) => String;
        serialize_str(&str) => String;
        serialize_bytes(&[u8]) => Binary;
    }

    refused! {
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_map(Option<usize>) -> SerializeMap;
        serialize_struct(&'static str, usize) -> SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
    }

    fn serialize_u64(self, value: u64) -> Result<Stored, Problem> {
        let problem = || {
            Problem::Message(format!(
                "{value} is above 9223372036854775807, the largest Int64"
            ))
        };
        value
            .try_into()
            .map(|value| Some(EdmValue::Int64(value)))
            .map_err(|_| problem())
    }

    fn serialize_none(self) -> Result<Stored, Problem> {
        Ok(None)
    }

    fn serialize_unit(self) -> Result<Stored, Problem> {
        Ok(None)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Stored, Problem> {
        Ok(None)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Stored, Problem> {
        Ok(Some(EdmValue::from(variant)))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Stored, Problem> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Stored, Problem> {
        match name {
            // serde has no times. Types of this library serialize as newtypes with names of their own, so that this
            // serializer recognizes them; other formats ignore the names.
            serde_names::TICKS => {
                let time: Ticks = serde_json::from_value(serde_json::to_value(value)?)?;
                Ok(Some(ValueRef::DateTime(time).to_owned()))
            }
            serde_names::EDM_VALUE => {
                Ok(Some(serde_json::from_value(serde_json::to_value(value)?)?))
            }
            _ => value.serialize(self),
        }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Stored, Problem> {
        Err(Problem::Compound)
    }
}
