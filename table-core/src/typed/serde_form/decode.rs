use std::any::type_name;
use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::model::{EdmValue, Entity, PropertiesIter, PropertyRef, Ticks, ValueRef, serde_names};
use crate::store::{Error, Result};

/// Deserializes a value from an entity: from its keys, ETag, Timestamp and properties.
pub(in crate::typed) fn decode<T: DeserializeOwned>(entity: &Entity) -> Result<T> {
    T::deserialize(EntityDeserializer(entity)).map_err(|mut problem| {
        let property = problem
            .property
            .take()
            .or_else(|| property_of::<T>(entity, &problem.message));
        let is_secret = |p: PropertyRef<'_>| p.is_encrypted();
        // serde's messages contain the value, which may be of any property if none is known.
        let has_secret = match &property {
            Some(name) => entity.properties().find(name).is_some_and(is_secret),
            None => entity.properties().iter().any(is_secret),
        };
        let found = if has_secret {
            "another value (secret)".to_owned()
        } else {
            problem.message
        };
        let property = property.as_deref().unwrap_or(UNKNOWN);
        Error::decode(
            type_name::<T>(),
            entity.key(),
            property,
            "a value of the type",
            found,
        )
    })
}

/// Stands for the property of a problem that may be of several.
const UNKNOWN: &str = "?";

/// Returns the property that a problem is about, if serde does not say it: it reads the values of a `#[serde(flatten)]` struct before it
/// converts them. Each value is changed in turn, because the messages of serde contain the value.
fn property_of<T: DeserializeOwned>(entity: &Entity, message: &str) -> Option<String> {
    let mut changed = entity.clone();
    for property in entity.properties() {
        let name = property.name();
        let other = match property.value() {
            ValueRef::Binary(v) => EdmValue::Binary([v, b"x"].concat()),
            ValueRef::Boolean(v) => EdmValue::Boolean(!v),
            ValueRef::Double(v) => EdmValue::Double(v + 1.5),
            ValueRef::Int32(v) => EdmValue::Int32(v ^ 1),
            ValueRef::Int64(v) => EdmValue::Int64(v ^ 1),
            ValueRef::String(v) => EdmValue::String(format!("{v}x")),
            // Read as text, which is in the message.
            ValueRef::DateTime(v) => EdmValue::String(format!("{v}x")),
            ValueRef::Guid(v) => EdmValue::String(format!("{v}x")),
        };
        changed.properties_mut().set(name, other);
        let is_other = match T::deserialize(EntityDeserializer(&changed)) {
            Err(problem) => problem.property.is_none() && problem.message != message,
            Ok(_) => true,
        };
        if is_other {
            return Some(name.to_owned());
        }
        changed
            .properties_mut()
            .set(name, property.value().to_owned());
    }
    None
}

#[derive(Debug)]
pub(super) struct Problem {
    property: Option<String>,
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl serde::de::Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            property: None,
            message: message.to_string(),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        let message = "no such property; if older rows do not have it, make the field an `Option` or give it `#[serde(default)]`";
        Self {
            property: Some(field.to_owned()),
            message: message.to_owned(),
        }
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        serde::de::Error::custom(format_args!("JSON with an error: {error}"))
    }
}

/// Reads every type by `deserialize_any`; an option and a newtype are read like their value.
macro_rules! like_any {
    () => {
        fn deserialize_option<V: Visitor<'e>>(self, visitor: V) -> Result<V::Value, Problem> {
            visitor.visit_some(self)
        }

        fn deserialize_newtype_struct<V: Visitor<'e>>(
            self,
            _: &'static str,
            visitor: V,
        ) -> Result<V::Value, Problem> {
            visitor.visit_newtype_struct(self)
        }

        forward_to_deserialize_any! {
            <V: Visitor<'e>>
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
            tuple_struct map struct enum identifier ignored_any
        }
    };
}

struct EntityDeserializer<'e>(&'e Entity);

impl<'e> Deserializer<'e> for EntityDeserializer<'e> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'e>>(self, visitor: V) -> Result<V::Value, Problem> {
        let key = self.0.key();
        let mut system = Vec::with_capacity(4);
        if let Some(timestamp) = self.0.timestamp() {
            system.push((serde_names::TIMESTAMP, System::Time(timestamp)));
        }
        if let Some(etag) = self.0.etag() {
            system.push((serde_names::ETAG, System::Text(etag.to_string())));
        }
        system.push((serde_names::ROW_KEY, System::Key(key.row())));
        system.push((serde_names::PARTITION_KEY, System::Key(key.partition())));
        let properties = self.0.properties().iter();
        visitor.visit_map(Members {
            system,
            properties,
            next: None,
        })
    }

    like_any!();
}

/// A system property.
enum System<'e> {
    Key(&'e str),
    Text(String),
    Time(Ticks),
}

/// The members of an entity: system properties from the end of the list, then the properties.
struct Members<'e> {
    system: Vec<(&'static str, System<'e>)>,
    properties: PropertiesIter<'e>,
    next: Option<Next<'e>>,
}

/// The value of the member whose name was read.
enum Next<'e> {
    System(&'static str, System<'e>),
    Property {
        name: &'e str,
        value: ValueRef<'e>,
        is_secret: bool,
    },
}

impl<'e> MapAccess<'e> for Members<'e> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'e>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Problem> {
        // Keys, ETag and Timestamp first, from the end of the list: PartitionKey is the first member.
        if let Some((name, value)) = self.system.pop() {
            self.next = Some(Next::System(name, value));
            return seed.deserialize(StrDeserializer::new(name)).map(Some);
        }
        let Some(property) = self.properties.next() else {
            return Ok(None);
        };
        let (name, value, is_secret) = (property.name(), property.value(), property.is_encrypted());
        self.next = Some(Next::Property {
            name,
            value,
            is_secret,
        });
        seed.deserialize(BorrowedStrDeserializer::new(name))
            .map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'e>>(&mut self, seed: S) -> Result<S::Value, Problem> {
        let of = |name: &str, problem: Problem| Problem {
            property: Some(name.to_owned()),
            ..problem
        };
        match self.next.take() {
            Some(Next::System(name, System::Key(text))) => seed
                .deserialize(ValueDeserializer(ValueRef::String(text)))
                .map_err(|e| of(name, e)),
            Some(Next::System(name, System::Text(text))) => {
                seed.deserialize(SomeText(text)).map_err(|e| of(name, e))
            }
            Some(Next::System(name, System::Time(time))) => seed
                .deserialize(ValueDeserializer(ValueRef::DateTime(time)))
                .map_err(|e| of(name, e)),
            Some(Next::Property {
                name,
                value,
                is_secret,
            }) => {
                // serde's messages contain the value. For a property with the mark, the message is replaced.
                seed.deserialize(ValueDeserializer(value))
                    .map_err(|problem| match is_secret {
                        true => of(
                            name,
                            Problem {
                                property: None,
                                message: "another value (secret)".to_owned(),
                            },
                        ),
                        false => of(name, problem),
                    })
            }
            None => Err(serde::de::Error::custom("a value without a name")),
        }
    }
}

/// A text for a field that may be an `Option`.
struct SomeText(String);

impl<'e> Deserializer<'e> for SomeText {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'e>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_string(self.0)
    }

    like_any!();
}

/// One property. A text is JSON if the type has parts.
struct ValueDeserializer<'e>(ValueRef<'e>);

/// Reads a type with parts from JSON text.
macro_rules! from_json {
    ($($name:ident($($argument:ident: $ty:ty),*);)*) => {$(
        fn $name<V: Visitor<'e>>(self, $($argument: $ty,)* visitor: V) -> Result<V::Value, Problem> {
            // The type asks for a list, a map or a struct. `encode` has stored such a value as JSON text.
            let ValueRef::String(text) = self.0 else { return self.deserialize_any(visitor) };
            let mut json = serde_json::Deserializer::from_str(text);
            let value = (&mut json).$name($($argument,)* visitor)?;
            json.end()?;
            Ok(value)
        }
    )*};
}

impl<'e> Deserializer<'e> for ValueDeserializer<'e> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'e>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0 {
            ValueRef::Binary(v) => visitor.visit_borrowed_bytes(v),
            ValueRef::Boolean(v) => visitor.visit_bool(v),
            ValueRef::DateTime(v) => visitor.visit_string(v.to_string()),
            ValueRef::Double(v) => visitor.visit_f64(v),
            ValueRef::Guid(v) => visitor.visit_string(v.to_string()),
            ValueRef::Int32(v) => visitor.visit_i32(v),
            ValueRef::Int64(v) => visitor.visit_i64(v),
            ValueRef::String(v) => visitor.visit_borrowed_str(v),
        }
    }

    fn deserialize_option<V: Visitor<'e>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'e>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        if name != serde_names::EDM_VALUE {
            return visitor.visit_newtype_struct(self);
        }
        let json = serde_json::to_value(self.0.to_owned())?;
        visitor.visit_newtype_struct(json).map_err(Problem::from)
    }

    fn deserialize_seq<V: Visitor<'e>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0 {
            ValueRef::Binary(bytes) => {
                visitor.visit_seq(SeqDeserializer::new(bytes.iter().copied()))
            }
            ValueRef::String(text) => {
                let mut json = serde_json::Deserializer::from_str(text);
                let value = (&mut json).deserialize_seq(visitor)?;
                json.end()?;
                Ok(value)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    from_json! {
        deserialize_map();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
    }

    /// The name of a variant, or JSON of a variant with fields.
    fn deserialize_enum<V: Visitor<'e>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.0 {
            ValueRef::String(text) if text.starts_with('{') && !variants.contains(&text) => {
                let mut json = serde_json::Deserializer::from_str(text);
                let value = (&mut json).deserialize_enum(name, variants, visitor)?;
                json.end()?;
                Ok(value)
            }
            ValueRef::String(text) => visitor.visit_enum(text.into_deserializer()),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        <V: Visitor<'e>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct identifier
        ignored_any
    }
}
