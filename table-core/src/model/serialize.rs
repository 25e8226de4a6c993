//! `Serialize` and `Deserialize` of the data model.
//!
//! Human-readable formats get the JSON form of the service: entities with `odata.etag`, `PartitionKey`, `RowKey`, `Timestamp` and
//! annotations such as `"Count@odata.type": "Edm.Int64"`. Binary formats get the same values without names of types.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::{
    ETag, EdmType, EdmValue, Entity, Hour, IfMatch, Key, PartitionKey, Properties, RowKey,
    TableName, Ticks, ValueRef,
};

/// The annotation with the type of a property.
const TYPE: &str = "@odata.type";
/// The annotation of a property that must be stored encrypted. The service does not have it.
const ENCRYPT: &str = "@table.encrypt";

/// Names in the serialized form of entities.
pub(crate) mod names {
    pub(crate) const ETAG: &str = "odata.etag";
    pub(crate) const PARTITION_KEY: &str = "PartitionKey";
    pub(crate) const ROW_KEY: &str = "RowKey";
    pub(crate) const TIMESTAMP: &str = "Timestamp";
    /// The name under which [`Ticks`](crate::model::Ticks) serialize as a newtype, so that a table stores them as a DateTime.
    pub(crate) const TICKS: &str = "$table_core::Ticks";
    /// The name under which an [`EdmValue`](crate::model::EdmValue) serializes as a newtype, so that a table stores it in its type.
    pub(crate) const EDM_VALUE: &str = "$table_core::EdmValue";
}
use names::{ETAG, PARTITION_KEY, ROW_KEY, TIMESTAMP};

/// Implements `Serialize` and `Deserialize` by the text form of a type.
macro_rules! as_text {
    ($($(#[$doc:meta])* $name:ty, $text:ident => $parse:expr;)*) => {$(
        $(#[$doc])*
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let $text = <std::borrow::Cow<'_, str> as serde::Deserialize>::deserialize(deserializer)?;
                $parse.map_err(serde::de::Error::custom)
            }
        }
    )*};
}

pub(crate) use as_text;

as_text! {
    /// As text.
    ETag, text => text.parse::<Self>();
    /// As text. Deserializing validates the name.
    TableName, text => Self::new(text);
    /// As text. Deserializing validates the key.
    PartitionKey, text => Self::new(text);
    /// As text. Deserializing validates the key.
    RowKey, text => Self::new(text);
    /// As the name of the type, such as `Edm.Int64`.
    EdmType, text => Self::from_name(&text).ok_or_else(|| unknown_type(&text));
    /// As text, such as `2013-01-01T05`.
    Hour, text => text.parse::<Self>();
}

fn unknown_type(found: &str) -> String {
    let names = EdmType::ALL.map(EdmType::name).join(", ");
    format!("{found:?} is not the name of a type; the names are {names}")
}

/// As `*` for any version, and otherwise as the text of the ETag.
impl Serialize for IfMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str("*"),
            Self::Exactly(etag) => etag.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for IfMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Ok(if text == "*" {
            Self::Any
        } else {
            Self::Exactly(ETag::from(&*text))
        })
    }
}

/// As text in RFC 3339, such as `2013-01-01T05:15:00.0000000Z`; in binary formats as the number of ticks.
impl Serialize for Ticks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            // JSON ignores the name of the newtype; the serializer of tables recognizes it (`typed/serde_form`).
            return serializer.serialize_newtype_struct(names::TICKS, &self.to_string());
        }
        serializer.serialize_i64(self.get())
    }
}

impl<'de> Deserialize<'de> for Ticks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return Cow::<str>::deserialize(deserializer)?
                .parse()
                .map_err(D::Error::custom);
        }
        ticks(i64::deserialize(deserializer)?)
    }
}

fn ticks<E: serde::de::Error>(number: i64) -> Result<Ticks, E> {
    Ticks::new(number).ok_or_else(|| {
        E::custom(format!(
            "{number} is not a number of ticks from year 1 to 9999"
        ))
    })
}

/// The form of a [`Key`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct KeyForm<'a> {
    partition_key: Cow<'a, str>,
    row_key: Cow<'a, str>,
}

/// As `{"PartitionKey": …, "RowKey": …}`.
impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        KeyForm {
            partition_key: self.partition().into(),
            row_key: self.row().into(),
        }
        .serialize(serializer)
    }
}

/// Validates the key.
impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let KeyForm {
            partition_key,
            row_key,
        } = KeyForm::deserialize(deserializer)?;
        Self::new(partition_key, row_key).map_err(D::Error::custom)
    }
}

/// A value in a binary format.
#[derive(Serialize, Deserialize)]
enum BinaryValue<'a> {
    Binary(Cow<'a, [u8]>),
    Boolean(bool),
    DateTime(i64),
    Double(f64),
    Guid([u8; 16]),
    Int32(i32),
    Int64(i64),
    String(Cow<'a, str>),
}

impl<'a> From<ValueRef<'a>> for BinaryValue<'a> {
    fn from(value: ValueRef<'a>) -> Self {
        match value {
            ValueRef::Binary(v) => Self::Binary(v.into()),
            ValueRef::Boolean(v) => Self::Boolean(v),
            ValueRef::DateTime(v) => Self::DateTime(v.get()),
            ValueRef::Double(v) => Self::Double(v),
            ValueRef::Guid(v) => Self::Guid(v.into_bytes()),
            ValueRef::Int32(v) => Self::Int32(v),
            ValueRef::Int64(v) => Self::Int64(v),
            ValueRef::String(v) => Self::String(v.into()),
        }
    }
}

impl BinaryValue<'_> {
    fn into_value<E: serde::de::Error>(self) -> Result<EdmValue, E> {
        Ok(match self {
            Self::Binary(v) => EdmValue::Binary(v.into_owned()),
            Self::Boolean(v) => EdmValue::Boolean(v),
            Self::DateTime(v) => EdmValue::DateTime(ticks(v)?),
            Self::Double(v) => EdmValue::Double(v),
            Self::Guid(v) => EdmValue::Guid(Uuid::from_bytes(v)),
            Self::Int32(v) => EdmValue::Int32(v),
            Self::Int64(v) => EdmValue::Int64(v),
            Self::String(v) => EdmValue::String(v.into_owned()),
        })
    }
}

/// Serializes a value as JSON, without an annotation of its type.
struct Bare<'a>(ValueRef<'a>);

impl Serialize for Bare<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ValueRef::Binary(v) => serializer.serialize_str(&STANDARD.encode(v)),
            ValueRef::Boolean(v) => serializer.serialize_bool(v),
            ValueRef::DateTime(v) => serializer.collect_str(&v),
            ValueRef::Double(v) if v.is_nan() => serializer.serialize_str("NaN"),
            ValueRef::Double(f64::INFINITY) => serializer.serialize_str("Infinity"),
            ValueRef::Double(f64::NEG_INFINITY) => serializer.serialize_str("-Infinity"),
            ValueRef::Double(v) => serializer.serialize_f64(v),
            ValueRef::Guid(v) => serializer.collect_str(&v),
            ValueRef::Int32(v) => serializer.serialize_i32(v),
            ValueRef::Int64(v) => serializer.collect_str(&v),
            ValueRef::String(v) => serializer.serialize_str(v),
        }
    }
}

/// Whether the JSON of a value does not show its type. A Double without decimals does not: JavaScript writes `1.0` as `1`.
fn needs_type(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Boolean(_) | ValueRef::Int32(_) | ValueRef::String(_) => false,
        ValueRef::Double(v) => !v.is_finite() || v.fract() == 0.0,
        _ => true,
    }
}

/// A JSON value before its type is known.
enum Scalar {
    Null,
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

struct ScalarVisitor;

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, a boolean, a number or text")
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Integer(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Scalar, E> {
        value
            .try_into()
            .map(Scalar::Integer)
            .map_err(|_| E::custom(format!("{value} does not fit 64 bits with a sign")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_owned()))
    }
}

impl Scalar {
    /// Converts to the annotated type; without an annotation an integer is an Int32, or an Int64 if it needs 64 bits.
    fn into_value(self, edm_type: Option<EdmType>) -> Result<Option<EdmValue>, String> {
        let Some(edm_type) = edm_type else {
            return Ok(match self {
                Self::Null => None,
                Self::Bool(v) => Some(EdmValue::Boolean(v)),
                Self::Integer(v) => {
                    Some(i32::try_from(v).map_or(EdmValue::Int64(v), EdmValue::Int32))
                }
                Self::Number(v) => Some(EdmValue::Double(v)),
                Self::Text(v) => Some(EdmValue::String(v)),
            });
        };
        if matches!(self, Self::Null) {
            return Ok(None);
        }
        let found = self.describe();
        let value = match (edm_type, self) {
            (EdmType::Binary, Self::Text(v)) => STANDARD.decode(v).ok().map(EdmValue::Binary),
            (EdmType::Boolean, Self::Bool(v)) => Some(EdmValue::Boolean(v)),
            (EdmType::DateTime, Self::Text(v)) => v.parse().ok().map(EdmValue::DateTime),
            (EdmType::Double, Self::Number(v)) => Some(EdmValue::Double(v)),
            (EdmType::Double, Self::Integer(v)) => {
                // Refuses an integer that a Double does not hold exactly: the conversion back must give the same.
                let double = v as f64;
                (double as i128 == i128::from(v)).then_some(EdmValue::Double(double))
            }
            (EdmType::Double, Self::Text(v)) => match &*v {
                "NaN" => Some(EdmValue::Double(f64::NAN)),
                "Infinity" => Some(EdmValue::Double(f64::INFINITY)),
                "-Infinity" => Some(EdmValue::Double(f64::NEG_INFINITY)),
                _ => None,
            },
            (EdmType::Guid, Self::Text(v)) => v.parse().ok().map(EdmValue::Guid),
            (EdmType::Int32, Self::Integer(v)) => v.try_into().ok().map(EdmValue::Int32),
            (EdmType::Int64, Self::Integer(v)) => Some(EdmValue::Int64(v)),
            (EdmType::Int64, Self::Text(v)) => v.parse().ok().map(EdmValue::Int64),
            (EdmType::String, Self::Text(v)) => Some(EdmValue::String(v)),
            _ => None,
        };
        value
            .map(Some)
            .ok_or_else(|| format!("expected the JSON of an {edm_type}, found {found}"))
    }

    /// Names the kind of value and not the value, which may be secret.
    const fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text that does not have this form",
        }
    }
}

/// The form of a value whose JSON does not show its type.
#[derive(Serialize)]
struct TypedValue<'a> {
    #[serde(rename = "@odata.type")]
    edm_type: EdmType,
    value: Bare<'a>,
}

/// As JSON, if the JSON shows the type: text, booleans, Int32, and Doubles with decimals. Otherwise as
/// `{"@odata.type": "Edm.Int64", "value": "5"}`.
impl Serialize for EdmValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.as_ref();
        if !serializer.is_human_readable() {
            return BinaryValue::from(value).serialize(serializer);
        }
        if needs_type(value) {
            let typed = TypedValue {
                edm_type: value.edm_type(),
                value: Bare(value),
            };
            return serializer.serialize_newtype_struct(names::EDM_VALUE, &typed);
        }
        serializer.serialize_newtype_struct(names::EDM_VALUE, &Bare(value))
    }
}

impl<'de> Deserialize<'de> for EdmValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return BinaryValue::deserialize(deserializer)?.into_value();
        }
        deserializer.deserialize_newtype_struct(names::EDM_VALUE, ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = EdmValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or an object with `@odata.type` and `value`")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<EdmValue, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Typed {
                #[serde(rename = "@odata.type")]
                edm_type: EdmType,
                value: Scalar,
            },
            Bare(Scalar),
        }
        let (edm_type, scalar) = match Form::deserialize(deserializer)? {
            Form::Typed { edm_type, value } => (Some(edm_type), value),
            Form::Bare(scalar) => (None, scalar),
        };
        let value = scalar.into_value(edm_type).map_err(D::Error::custom)?;
        value.ok_or_else(|| {
            D::Error::custom("null is not a value: a missing value is an absent property")
        })
    }
}

/// An entity or properties in a binary format.
#[derive(Serialize, Deserialize)]
struct BinaryEntity<'a> {
    partition: Cow<'a, str>,
    row: Cow<'a, str>,
    etag: Option<ETag>,
    timestamp: Option<Ticks>,
    properties: Vec<BinaryProperty<'a>>,
}

/// A name, whether the property must be stored encrypted, and the value.
type BinaryProperty<'a> = (Cow<'a, str>, bool, BinaryValue<'a>);

fn to_binary(properties: &Properties) -> Vec<BinaryProperty<'_>> {
    properties
        .iter()
        .map(|p| (p.name().into(), p.is_encrypted(), p.value().into()))
        .collect()
}

fn from_binary<E: serde::de::Error>(stored: Vec<BinaryProperty<'_>>) -> Result<Properties, E> {
    let mut properties = PropertiesBuilder::default();
    for (name, encrypt, value) in stored {
        let value = value.into_value()?;
        properties
            .push(name.into_owned(), value.as_ref(), encrypt)
            .map_err(E::custom)?;
    }
    Ok(properties.properties)
}

/// Collects properties with distinct names.
#[derive(Default)]
struct PropertiesBuilder {
    properties: Properties,
    names: HashSet<String>,
}

impl PropertiesBuilder {
    fn push(&mut self, name: String, value: ValueRef<'_>, encrypt: bool) -> Result<(), String> {
        // The packed form has two bytes for the length of a name.
        if name.len() > usize::from(u16::MAX) {
            return Err(format!(
                "a property name has {} bytes, more than {}",
                name.len(),
                u16::MAX
            ));
        }
        // A property has one value, and which of two values the writer meant is not known.
        if self.names.contains(&name) {
            return Err(format!("the property {name:?} occurs twice"));
        }
        self.properties.push(&name, value, encrypt);
        self.names.insert(name);
        Ok(())
    }
}

/// Whether the JSON of an entity uses this name for something other than a property.
fn is_reserved(name: &str) -> bool {
    [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name)
        || name.starts_with("odata.")
        || name.contains('@')
}

fn write_properties<M: serde::ser::SerializeMap>(
    map: &mut M,
    properties: &Properties,
) -> Result<(), M::Error> {
    for property in properties {
        let (name, value) = (property.name(), property.value());
        if is_reserved(name) {
            let reason =
                format!("{name:?} cannot be the name of a property in the JSON of an entity");
            return Err(M::Error::custom(reason));
        }
        // Annotations come before their value: a reader that goes through the members once knows the type when it
        // reads the value.
        if needs_type(value) {
            map.serialize_entry(&format!("{name}{TYPE}"), &value.edm_type())?;
        }
        if property.is_encrypted() {
            map.serialize_entry(&format!("{name}{ENCRYPT}"), &true)?;
        }
        map.serialize_entry(name, &Bare(value))?;
    }
    Ok(())
}

/// The members of a JSON object.
#[derive(Default)]
struct Members {
    partition: Option<String>,
    row: Option<String>,
    etag: Option<ETag>,
    timestamp: Option<Ticks>,
    types: BTreeMap<String, EdmType>,
    encrypted: HashSet<String>,
    values: Vec<(String, Scalar)>,
}

impl Members {
    fn properties(&mut self) -> Result<Properties, String> {
        let mut properties = PropertiesBuilder::default();
        for (name, scalar) in std::mem::take(&mut self.values) {
            // Only now, after all members: serde's maps have no order, so an annotation may come after its value.
            let value = scalar.into_value(self.types.get(&name).copied());
            let value = value.map_err(|reason| format!("the property {name:?}: {reason}"))?;
            let encrypt = self.encrypted.contains(&name);
            if let Some(value) = value {
                properties.push(name, value.as_ref(), encrypt)?;
            }
        }
        Ok(properties.properties)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with properties")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Members::default();
        while let Some(name) = map.next_key::<String>()? {
            if let Some(property) = name.strip_suffix(TYPE).filter(|name| !name.is_empty()) {
                members.types.insert(property.to_owned(), map.next_value()?);
            } else if let Some(property) = name.strip_suffix(ENCRYPT) {
                if map.next_value()? {
                    members.encrypted.insert(property.to_owned());
                }
            } else {
                match &*name {
                    PARTITION_KEY => members.partition = Some(map.next_value()?),
                    ROW_KEY => members.row = Some(map.next_value()?),
                    ETAG => members.etag = map.next_value()?,
                    TIMESTAMP => members.timestamp = map.next_value()?,
                    _ if is_reserved(&name) => drop(map.next_value::<IgnoredAny>()?),
                    _ => {
                        let scalar = map.next_value();
                        let scalar = scalar.map_err(|error| {
                            A::Error::custom(format!("the property {name:?}: {error}"))
                        })?;
                        members.values.push((name, scalar));
                    }
                }
            }
        }
        Ok(members)
    }
}

/// As the JSON of the service, without keys: values with annotations such as `"Count@odata.type": "Edm.Int64"` where the JSON does
/// not show the type. Properties with the *encrypt* mark are in plaintext, with the annotation `"Name@table.encrypt": true`.
impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return to_binary(self).serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        write_properties(&mut map, self)?;
        map.end()
    }
}

/// Reads the JSON of the service. Ignores keys, and annotations that do not say how a value is stored.
impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return from_binary(Vec::deserialize(deserializer)?);
        }
        deserializer
            .deserialize_map(MembersVisitor)?
            .properties()
            .map_err(D::Error::custom)
    }
}

/// As the JSON of the service: `odata.etag`, `PartitionKey`, `RowKey`, `Timestamp` and the properties, with annotations such as
/// `"Count@odata.type": "Edm.Int64"` where the JSON does not show the type.
///
/// Properties with the *encrypt* mark are in plaintext, with the annotation `"Name@table.encrypt": true`: the mark survives, and the
/// text must be kept as secret as the value.
///
/// ```
/// use table_core::model::Entity;
/// let entity = Entity::new("Sales", "empid_000223")?.with("Age", 41).with("Salary", 90_000_i64);
/// let json = serde_json::to_string(&entity).unwrap();
/// assert_eq!(
///     json,
///     r#"{"PartitionKey":"Sales","RowKey":"empid_000223","Age":41,"Salary@odata.type":"Edm.Int64","Salary":"90000"}"#,
/// );
/// assert_eq!(serde_json::from_str::<Entity>(&json).unwrap(), entity);
/// # Ok::<(), table_core::Error>(())
/// ```
impl Serialize for Entity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (partition, row) = (self.key().partition(), self.key().row());
        if !serializer.is_human_readable() {
            let (etag, timestamp) = (self.etag().cloned(), self.timestamp());
            let properties = to_binary(self.properties());
            let (partition, row) = (partition.into(), row.into());
            return BinaryEntity {
                partition,
                row,
                etag,
                timestamp,
                properties,
            }
            .serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        if let Some(etag) = self.etag() {
            map.serialize_entry(ETAG, etag)?;
        }
        map.serialize_entry(PARTITION_KEY, partition)?;
        map.serialize_entry(ROW_KEY, row)?;
        if let Some(timestamp) = self.timestamp() {
            map.serialize_entry(TIMESTAMP, &timestamp)?;
        }
        write_properties(&mut map, self.properties())?;
        map.end()
    }
}

/// Reads the JSON of the service, in any order of the members. Ignores other annotations, such as `odata.metadata`. A null is an absent property; an
/// integer without annotation is an Int32, or an Int64 if it needs 64 bits.
impl<'de> Deserialize<'de> for Entity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            let stored = BinaryEntity::deserialize(deserializer)?;
            let key = Key::new(stored.partition, stored.row).map_err(D::Error::custom)?;
            let properties = from_binary(stored.properties)?;
            return Ok(Self::from_parts(key, properties).with_system(stored.etag, stored.timestamp));
        }
        let mut members = deserializer.deserialize_map(MembersVisitor)?;
        let missing = |name: &str| D::Error::custom(format!("the entity has no {name}"));
        let partition = members
            .partition
            .take()
            .ok_or_else(|| missing(PARTITION_KEY))?;
        let row = members.row.take().ok_or_else(|| missing(ROW_KEY))?;
        let key = Key::new(partition, row).map_err(D::Error::custom)?;
        let properties = members.properties().map_err(D::Error::custom)?;
        Ok(Self::from_parts(key, properties).with_system(members.etag, members.timestamp))
    }
}
