//! Parses JSON from clients: flat objects, without a tree of values.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use table_core::model::{EdmType, EdmValue, Properties, Ticks};
use uuid::Uuid;

use crate::errors::{Failure, Result};

/// Maximum number of members of an object: twice the members of the largest entity with an annotation per property.
const MAX_MEMBERS: usize = 1024;
const TYPE: &str = "@odata.type";

/// The body of an insert or update.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) partition: Option<String>,
    pub(crate) row: Option<String>,
    pub(crate) properties: Properties,
}

/// Parses an entity. Nulls are absent properties; `Timestamp` and OData members are ignored.
pub(crate) fn read_fields(json: &[u8]) -> Result<Fields> {
    let members = members(json)?;
    check_names(&members)?;
    let mut fields = Fields {
        partition: None,
        row: None,
        properties: Properties::with_capacity(json.len()),
    };
    for (name, value) in &members {
        match &**name {
            "PartitionKey" => fields.partition = key(name, annotated(&members, name)?, value)?,
            "RowKey" => fields.row = key(name, annotated(&members, name)?, value)?,
            "Timestamp" => {}
            name if name.starts_with("odata.") || name.contains("@odata.") => {}
            name => {
                if let Some(value) = property(name, annotated(&members, name)?, value)? {
                    fields.properties.push(name, value.as_ref(), false);
                }
            }
        }
    }
    Ok(fields)
}

/// Parses the name in the body of a table creation.
pub(crate) fn read_table_name(json: &[u8]) -> Result<String> {
    let members = members(json)?;
    check_names(&members)?;
    match members.into_iter().find(|(name, _)| name == "TableName") {
        Some((_, Scalar::Text(name))) => Ok(name.into_owned()),
        _ => Err(needs_value("TableName")),
    }
}

type Members<'a> = Vec<(Cow<'a, str>, Scalar<'a>)>;

fn members(json: &[u8]) -> Result<Members<'_>> {
    let text = std::str::from_utf8(json).map_err(|_| malformed(&"the body is not UTF-8"))?;
    let Object(mut members) =
        serde_json::from_str::<Object<'_, Scalar<'_>>>(text).map_err(|e| malformed(&e))?;
    mark_rounded(text, &mut members)?;
    if members.len() > MAX_MEMBERS {
        return Err(Failure::new(
            StatusCode::BAD_REQUEST,
            "TooManyProperties",
            "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data.",
        ));
    }
    Ok(members)
}

/// Refuses a name that occurs twice, because readers could disagree about which value counts.
fn check_names(members: &Members<'_>) -> Result<()> {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    // Sorted, because a comparison of each with each would take a million steps for a thousand members.
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(twice) => Err(Failure::new(
            StatusCode::BAD_REQUEST,
            "DuplicatePropertiesSpecified",
            format!(
                "The property '{}' is specified more than one time.",
                twice[0]
            ),
        )),
    }
}

/// A Double of at least this size can be a whole number that the parser has rounded: smaller ones fit an `i64` or a `u64`.
const MAY_BE_ROUNDED: f64 = 9.2e18;

/// Marks the whole numbers that the parser has rounded: `serde_json` gives a number of more than 64 bits as a Double, so its digits are read
/// again.
fn mark_rounded<'a>(text: &'a str, members: &mut Members<'a>) -> Result<()> {
    let is_large = |value: &Scalar<'_>| matches!(value, Scalar::Decimal(number) if number.abs() >= MAY_BE_ROUNDED);
    if !members.iter().any(|(_, value)| is_large(value)) {
        return Ok(());
    }
    let Object(digits) =
        serde_json::from_str::<Object<'_, &RawValue>>(text).map_err(|e| malformed(&e))?;
    for ((_, value), (_, digits)) in members.iter_mut().zip(digits) {
        if let Scalar::Decimal(number) = value {
            let digits = digits.get();
            let is_whole = digits
                .trim_start_matches('-')
                .bytes()
                .all(|b| b.is_ascii_digit());
            // Without decimals, every digit of the Double is written.
            if is_whole && format!("{number:.0}") != digits {
                *value = Scalar::Rounded;
            }
        }
    }
    Ok(())
}

fn key(name: &str, edm_type: Option<EdmType>, value: &Scalar<'_>) -> Result<Option<String>> {
    if edm_type.is_some_and(|edm_type| edm_type != EdmType::String) {
        return Err(invalid(
            name,
            "a key must be a string, and another type is annotated",
        ));
    }
    match value {
        Scalar::Text(text) => Ok(Some(text.clone().into_owned())),
        Scalar::Null => Err(needs_value(name)),
        _ => Err(invalid(name, "a key must be a string")),
    }
}

/// Returns the annotated type of a property; the annotation may precede or follow it.
fn annotated(members: &Members<'_>, name: &str) -> Result<Option<EdmType>> {
    let is_of = |other: &str| other.strip_suffix(TYPE) == Some(name);
    match members.iter().find(|(other, _)| is_of(other)) {
        None => Ok(None),
        Some((_, Scalar::Text(text))) if text == "Edm.Null" => Ok(None),
        Some((_, Scalar::Text(text))) => {
            let known = EdmType::from_name(text);
            known
                .map(Some)
                .ok_or_else(|| invalid(name, &format!("the type '{text}' is not known")))
        }
        Some(_) => Err(invalid(name, "its type is not a string")),
    }
}

pub(crate) fn needs_value(name: &str) -> Failure {
    let message = format!("The values are not specified for all properties in the entity: {name}.");
    Failure::new(StatusCode::BAD_REQUEST, "PropertiesNeedValue", message)
}

fn malformed(reason: &dyn fmt::Display) -> Failure {
    Failure::invalid_input(format!("The request body is not a JSON object: {reason}."))
}

/// The members of an object in order, at most one more than allowed.
struct Object<'a, V>(Vec<(Cow<'a, str>, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Object<'de, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
            type Value = Object<'de, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de, V>, A::Error> {
                let mut members = Vec::new();
                // The rest is skipped without memory: a body of 4 MiB could have a million members.
                while members.len() <= MAX_MEMBERS {
                    let Some(Text(name)) = map.next_key()? else {
                        return Ok(Object(members));
                    };
                    members.push((name, map.next_value()?));
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Object(members))
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// A string that borrows from the document if it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => Ok(Self(text)),
            _ => Err(serde::de::Error::custom("a name must be a string")),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Scalars)
    }
}

struct Scalars;

impl<'de> Visitor<'de> for Scalars {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Decimal(value))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar<'de>, A::Error> {
        // Skipped without memory. No property can have such a value, so its name is all that the error needs.
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested)
    }
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
enum Scalar<'a> {
    Null,
    Boolean(bool),
    /// A whole number of at most 64 bits.
    Integer(i128),
    Decimal(f64),
    /// A whole number that no integer and no Double holds.
    Rounded,
    Text(Cow<'a, str>),
    /// An array or an object.
    Nested,
}

/// Returns a property's value; `None` for null, which is an absent property.
fn property(name: &str, edm_type: Option<EdmType>, value: &Scalar<'_>) -> Result<Option<EdmValue>> {
    let of = |wanted, value: EdmValue| {
        edm_type
            .is_none_or(|found| found == wanted)
            .then_some(value)
    };
    let read = match value {
        Scalar::Null => return Ok(None),
        Scalar::Boolean(value) => of(EdmType::Boolean, (*value).into()),
        Scalar::Decimal(value) => of(EdmType::Double, (*value).into()),
        Scalar::Integer(value) => integer(*value, edm_type),
        Scalar::Text(text) => from_text(text, edm_type.unwrap_or(EdmType::String)),
        Scalar::Rounded | Scalar::Nested => None,
    };
    let is_whole = matches!(value, Scalar::Rounded | Scalar::Integer(_));
    if read.is_none() && is_whole && edm_type.is_none_or(|edm_type| edm_type == EdmType::Double) {
        let reason =
            "a Double would round this number; annotate Edm.Int64, or write the number as a string";
        return Err(invalid(name, reason));
    }
    let expected = edm_type.map_or("a string, a number or a Boolean", EdmType::name);
    read.map(Some)
        .ok_or_else(|| invalid(name, &format!("it is not {expected}")))
}

fn integer(value: i128, edm_type: Option<EdmType>) -> Option<EdmValue> {
    let double = value as f64;
    match (edm_type, i32::try_from(value)) {
        (None | Some(EdmType::Int32), Ok(value)) => Some(value.into()),
        (Some(EdmType::Int64), _) => i64::try_from(value).ok().map(EdmValue::Int64),
        // A number that a Double would round is refused instead of being stored as another number.
        (None | Some(EdmType::Double), _) if double as i128 == value => {
            Some(EdmValue::Double(double))
        }
        _ => None,
    }
}

fn from_text(text: &str, edm_type: EdmType) -> Option<EdmValue> {
    Some(match edm_type {
        EdmType::String => text.into(),
        EdmType::Int64 => EdmValue::Int64(text.parse().ok()?),
        EdmType::Int32 => EdmValue::Int32(text.parse().ok()?),
        EdmType::DateTime => EdmValue::DateTime(time(text)?),
        // `try_parse` also takes forms without hyphens and with braces, which are no Edm.Guid.
        EdmType::Guid if text.len() == 36 => EdmValue::Guid(Uuid::try_parse(text).ok()?),
        EdmType::Guid => return None,
        EdmType::Double => EdmValue::Double(double(text)?),
        EdmType::Boolean if text.eq_ignore_ascii_case("true") => EdmValue::Boolean(true),
        EdmType::Boolean if text.eq_ignore_ascii_case("false") => EdmValue::Boolean(false),
        EdmType::Boolean => return None,
        EdmType::Binary => EdmValue::Binary(STANDARD.decode(text).ok()?),
    })
}

/// Parses a time as filters do: without an offset it is UTC, and seconds may be left out.
fn time(text: &str) -> Option<Ticks> {
    let seconds = if text.len() == 16 { ":00Z" } else { "Z" };
    text.parse()
        .or_else(|_| format!("{text}{seconds}").parse())
        .ok()
}

fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn invalid(name: &str, reason: &str) -> Failure {
    let name: String = name.chars().take(256).collect();
    Failure::invalid_input(format!(
        "An error occurred while processing this request: property '{name}': {reason}."
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use table_core::model::{EdmValue, Ticks, ValueRef};

    use super::*;

    fn read(json: &str) -> Properties {
        read_fields(json.as_bytes()).unwrap().properties
    }

    fn code(json: &str) -> &'static str {
        read_fields(json.as_bytes()).unwrap_err().code
    }

    #[test]
    fn every_type_is_read() {
        let properties = read(
            r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"ignored","odata.etag":"x","odata.type":"a.T",
            "S":"te\nxt","B":true,"I":-5,"D":1.5,"W":1.0,"N":null,
            "L@odata.type":"Edm.Int64","L":"9007199254740993",
            "T":"2013-01-01T05:15:00.1234567Z","T@odata.type":"Edm.DateTime",
            "G@odata.type":"Edm.Guid","G":"c9da6455-213d-42c9-9a79-3e9149a57833",
            "X@odata.type":"Edm.Binary","X":"AQID","F@odata.type":"Edm.Double","F":"-Infinity",
            "P@odata.type":"Edm.Double","P":3}"#,
        );
        let time: Ticks = "2013-01-01T05:15:00.1234567Z".parse().unwrap();
        let guid = "c9da6455-213d-42c9-9a79-3e9149a57833".parse().unwrap();
        for (name, expected) in [
            ("S", EdmValue::from("te\nxt")),
            ("B", true.into()),
            ("I", (-5).into()),
            ("D", 1.5.into()),
            ("W", 1.0.into()),
            ("L", 9_007_199_254_740_993_i64.into()),
            ("T", time.into()),
            ("G", EdmValue::Guid(guid)),
            ("X", vec![1u8, 2, 3].into()),
            ("F", f64::NEG_INFINITY.into()),
            ("P", 3.0.into()),
        ] {
            assert_eq!(
                properties.get(name).map(ValueRef::to_owned),
                Some(expected),
                "{name}"
            );
        }
        assert_eq!(properties.len(), 11);
    }

    #[test]
    fn errors_name_the_property() {
        for (json, expected) in [
            ("", "InvalidInput"),
            ("[]", "InvalidInput"),
            ("{\"A\":1", "InvalidInput"),
            ("{\"A\":1}x", "InvalidInput"),
            ("{\"A\":{\"B\":1}}", "InvalidInput"),
            ("{\"A\":[1]}", "InvalidInput"),
            ("{\"A\":1,\"A\":2}", "DuplicatePropertiesSpecified"),
            ("{\"A\\u0042\":1,\"AB\":2}", "DuplicatePropertiesSpecified"),
            ("{\"A\":null,\"A\":2}", "DuplicatePropertiesSpecified"),
            (
                "{\"PartitionKey\":\"a\",\"PartitionKey\":\"b\"}",
                "DuplicatePropertiesSpecified",
            ),
            (
                "{\"RowKey\":\"a\",\"B\":1,\"RowKey\":\"a\"}",
                "DuplicatePropertiesSpecified",
            ),
            (
                "{\"Timestamp\":1,\"Timestamp\":2}",
                "DuplicatePropertiesSpecified",
            ),
            (
                "{\"A@odata.type\":\"Edm.Int64\",\"A\":\"1\",\"A@odata.type\":\"Edm.String\"}",
                "DuplicatePropertiesSpecified",
            ),
            ("{\"PartitionKey\":null}", "PropertiesNeedValue"),
            ("{\"RowKey\":5}", "InvalidInput"),
            (
                "{\"A@odata.type\":\"Edm.Int64\",\"A\":\"x\"}",
                "InvalidInput",
            ),
            (
                "{\"A@odata.type\":\"Edm.Guid\",\"A\":\"c9da6455213d42c99a793e9149a57833\"}",
                "InvalidInput",
            ),
            (
                "{\"A@odata.type\":\"Edm.Stream\",\"A\":\"x\"}",
                "InvalidInput",
            ),
            ("{\"A@odata.type\":7,\"A\":\"x\"}", "InvalidInput"),
            (
                "{\"A@odata.type\":\"Edm.Int32\",\"A\":2147483648}",
                "InvalidInput",
            ),
            ("{\"A\":9007199254740993}", "InvalidInput"),
            ("{\"A\":9999999999999999999}", "InvalidInput"),
            ("{\"A\":99999000039722400001}", "InvalidInput"),
            ("{\"A\":-99999000039722400001}", "InvalidInput"),
            (
                "{\"A@odata.type\":\"Edm.Double\",\"A\":99999000039722400001}",
                "InvalidInput",
            ),
            (
                "{\"A@odata.type\":\"Edm.Int64\",\"A\":9223372036854775808}",
                "InvalidInput",
            ),
            (
                "{\"A@odata.type\":\"Edm.Int64\",\"A\":99999000039722400001}",
                "InvalidInput",
            ),
            ("{\"A\":1e400}", "InvalidInput"),
            (
                "{\"PartitionKey@odata.type\":\"Edm.Binary\",\"PartitionKey\":\"YQ==\"}",
                "InvalidInput",
            ),
            (
                "{\"RowKey\":\"1\",\"RowKey@odata.type\":\"Edm.Int32\"}",
                "InvalidInput",
            ),
            (
                "{\"B@odata.type\":\"Edm.Boolean\",\"B\":\"yes\"}",
                "InvalidInput",
            ),
            (
                "{\"B@odata.type\":\"Edm.Boolean\",\"B\":\"1\"}",
                "InvalidInput",
            ),
        ] {
            assert_eq!(code(json), expected, "{json}");
        }
    }

    /// As `JsonReader` of the service's OData library: an Int32 if it fits, otherwise a Double. A number that
    /// a Double cannot represent exactly is refused here.
    #[test]
    fn whole_numbers_beyond_an_int32_are_doubles_if_exact() {
        assert_eq!(
            read("{\"A\":2147483647}").get("A"),
            Some(ValueRef::Int32(i32::MAX))
        );
        assert_eq!(
            read("{\"A\":5000000000}").get("A"),
            Some(ValueRef::Double(5e9))
        );
        for (text, expected) in [
            ("9007199254740992", 9_007_199_254_740_992.0),
            ("9223372036854775808", 9_223_372_036_854_775_808.0),
            // Recorded from the service, which answers 9.2233720368547758E+21.
            ("9223372036854775808000", 9_223_372_036_854_775_808_000.0),
            ("-100000000000000000000", -1e20),
            ("99999000039722400001.0", 99_999_000_039_722_400_001.0),
            ("9.9999000039722400001e19", 99_999_000_039_722_400_001.0),
        ] {
            let properties = read(&format!("{{\"A\":{text},\"B\":\"x\"}}"));
            assert_eq!(
                properties.get("A"),
                Some(ValueRef::Double(expected)),
                "{text}"
            );
        }
    }

    #[test]
    fn the_case_of_boolean_text_does_not_count() {
        for (text, expected) in [
            ("true", true),
            ("True", true),
            ("False", false),
            ("FALSE", false),
        ] {
            let properties = read(&format!(
                "{{\"B@odata.type\":\"Edm.Boolean\",\"B\":\"{text}\"}}"
            ));
            assert_eq!(
                properties.get("B"),
                Some(ValueRef::Boolean(expected)),
                "{text}"
            );
        }
    }

    #[test]
    fn times_without_an_offset_are_utc() {
        let time: Ticks = "2013-01-01T05:15:00Z".parse().unwrap();
        for text in [
            "2013-01-01T05:15:00Z",
            "2013-01-01T05:15:00",
            "2013-01-01T05:15",
            "2013-01-01T06:15:00+01:00",
        ] {
            let properties = read(&format!(
                "{{\"T@odata.type\":\"Edm.DateTime\",\"T\":\"{text}\"}}"
            ));
            assert_eq!(
                properties.get("T"),
                Some(ValueRef::DateTime(time)),
                "{text}"
            );
        }
        for text in [
            "",
            "2013-01-01",
            "05:15",
            "2013-01-01T05:15:00+01:00Z",
            "2013-01-01T05:15+1",
        ] {
            assert_eq!(
                code(&format!(
                    "{{\"T@odata.type\":\"Edm.DateTime\",\"T\":\"{text}\"}}"
                )),
                "InvalidInput"
            );
        }
    }

    #[test]
    fn an_excessive_number_of_members_is_refused_early() {
        let many: Vec<String> = (0..100_000).map(|n| format!("\"P{n}\":1")).collect();
        assert_eq!(
            code(&format!("{{{}}}", many.join(","))),
            "TooManyProperties"
        );
        let deep = "[".repeat(200_000);
        assert_eq!(code(&format!("{{\"A\":{deep}")), "InvalidInput");
    }

    #[test]
    fn names_of_tables_are_read() {
        assert_eq!(
            read_table_name(b"{\"TableName\":\"abc\",\"odata.type\":\"x\"}").unwrap(),
            "abc"
        );
        assert!(read_table_name(b"{\"TableName\":1}").is_err() && read_table_name(b"{}").is_err());
        let twice = read_table_name(b"{\"TableName\":\"abc\",\"TableName\":\"abd\"}");
        assert_eq!(twice.unwrap_err().code, "DuplicatePropertiesSpecified");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in "[{}\\[\\]\",:a@1.e\\\\u-]{0,40}") {
            let _ = read_fields(&bytes);
            let _ = read_fields(text.as_bytes());
            let _ = read_table_name(&bytes);
        }
    }
}
