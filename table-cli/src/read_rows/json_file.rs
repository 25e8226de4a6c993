//! Reads entities from JSON: a line for each entity, an array of entities, an answer of the service, as AzCopy 7 keeps them, or the
//! output of the Azure CLI.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::ControlFlow;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use table_core::limits;
use table_core::model::{EdmType, EdmValue, Entity, Properties};

use super::columns::{METADATA, Repeats, Role, TIMESTAMP, roles};
use super::json_texts::{Form, JsonTexts};
use super::template::FileKey;
use super::value::{Evidence, parse_value};
use super::{
    BadRow, Facts, LeftOut, PARTITION_KEY, ROW_KEY, ReadOptions, Row, SAMPLE_BYTES, SAMPLE_ROWS,
};
use crate::failure::{Failure, Result};
use crate::text_input::TextInput;

/// The end of the name of a type annotation.
const TYPE: &str = "@odata.type";
/// The ETag in the output of the Azure CLI.
const CLI_ETAG: &str = "etag";
/// The most members of an entity: each property, its annotation, and as many columns that are left out.
const MAX_MEMBERS: usize = 4 * limits::CUSTOM_PROPERTIES;

/// Reads JSON.
pub(super) struct JsonReader {
    texts: JsonTexts,
    /// The first entities with their places.
    sample: VecDeque<(String, Vec<u8>)>,
    options: ReadOptions,
    /// What members become. Names after the sample are added when they occur.
    roles: HashMap<String, Result<Role, String>>,
    /// The types of numbers without annotation, by the name of the member.
    numbers: HashMap<String, EdmType>,
}

/// What the sampled entities of all files have.
#[derive(Debug, Default)]
pub(super) struct JsonFacts {
    /// The number of sampled entities.
    pub(super) entities: usize,
    /// The names of members, without annotations and metadata, in the order of their occurrence.
    names: Vec<String>,
    /// Members with numbers without annotation: the types of all, and whether a number has another type by itself.
    numbers: BTreeMap<String, (Evidence, bool)>,
    /// The place of the first Timestamp that is no time.
    no_time: Option<String>,
    roles: HashMap<String, Result<Role, String>>,
}

/// A name or a text.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A value with its type, as the Azure CLI prints it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypedValue<'a> {
    #[serde(borrow)]
    value: &'a RawValue,
    #[serde(borrow, alias = "edmType", alias = "type")]
    edm_type: Text<'a>,
}

/// The members of an object, with the text of each value.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap;

        impl<'de> Visitor<'de> for OfMap {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with the properties of an entity")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Text(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(OfMap)
    }
}

impl<'a> Members<'a> {
    fn parse(text: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| "the text is not UTF-8".to_owned())?;
        let Self(members) = serde_json::from_str(text.trim())
            .map_err(|error| format!("it is no entity: {error}"))?;
        if members.len() > MAX_MEMBERS {
            return Err(format!(
                "it has {} members, and an entity has at most {} properties",
                members.len(),
                limits::CUSTOM_PROPERTIES
            ));
        }
        let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        // Azurite can write the ETag twice.
        match names
            .windows(2)
            .find(|two| two[0] == two[1] && !two[0].starts_with(METADATA))
        {
            Some(two) => Err(format!("the member {:?} occurs twice", two[0])),
            None => Ok(Self(members)),
        }
    }

    /// The annotated type of a member.
    fn annotation(&self, name: &str) -> Result<Option<EdmType>, String> {
        let Self(members) = self;
        let is_of =
            |(other, _): &&(Cow<'a, str>, &RawValue)| other.strip_suffix(TYPE) == Some(name);
        let Some((_, value)) = members.iter().find(is_of) else {
            return Ok(None);
        };
        let unknown = || format!("the property '{name}' has the unknown type {}", value.get());
        let Ok(Text(type_name)) = serde_json::from_str(value.get()) else {
            return Err(unknown());
        };
        EdmType::from_name(&type_name).map(Some).ok_or_else(unknown)
    }

    /// Whether any member has an annotation.
    fn has_annotations(&self) -> bool {
        self.0.iter().any(|(name, _)| name.ends_with(TYPE))
    }

    /// The members that are no annotations and no metadata.
    fn values(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        let is_value = |name: &str| !(name.ends_with(TYPE) || name.starts_with(METADATA));
        self.0
            .iter()
            .map(|(name, value)| (&**name, *value))
            .filter(move |(name, _)| is_value(name))
    }
}

/// A value of JSON that a property can have.
enum Scalar<'a> {
    Null,
    Boolean(bool),
    /// A number as it is written.
    Number(&'a str),
    Text(Cow<'a, str>),
    /// A value with its own type.
    Typed(Cow<'a, str>, EdmType),
}

impl<'a> Scalar<'a> {
    fn parse(value: &'a RawValue) -> Result<Self, String> {
        let text = value.get();
        let unescaped = |text: &'a str| {
            let parsed: Result<Text<'a>, _> = serde_json::from_str(text);
            parsed
                .map(|Text(text)| text)
                .map_err(|error| format!("the text is no JSON: {error}"))
        };
        match text.as_bytes().first() {
            Some(b'n') => Ok(Self::Null),
            Some(b't') => Ok(Self::Boolean(true)),
            Some(b'f') => Ok(Self::Boolean(false)),
            Some(b'"') => unescaped(text).map(Self::Text),
            Some(b'{') => {
                const OTHER: &str = "it is an object, and a property has one value: keep it as text, or leave it out with --ignore";
                let TypedValue { value, edm_type: Text(name) } = serde_json::from_str(text).map_err(|_| OTHER.to_owned())?;
                let edm_type = EdmType::from_name(&name).ok_or_else(|| OTHER.to_owned())?;
                match Self::parse(value)? {
                    Self::Null => Ok(Self::Null),
                    Self::Boolean(value) => Ok(Self::Typed(value.to_string().into(), edm_type)),
                    Self::Number(number) => Ok(Self::Typed(number.into(), edm_type)),
                    Self::Text(text) => Ok(Self::Typed(text, edm_type)),
                    Self::Typed(..) => Err(OTHER.to_owned()),
                }
            }
            Some(b'[') => {
                Err("it is an array, and a property has one value: keep it as text, or leave it out with --ignore".to_owned())
            }
            _ => Ok(Self::Number(text)),
        }
    }
}

impl JsonReader {
    /// Reads the first entities, and adds their evidence to `facts`.
    pub(super) fn new(
        input: TextInput,
        is_lines: bool,
        options: &ReadOptions,
        facts: &mut Facts,
    ) -> Result<Self> {
        input
            .remarks
            .into_iter()
            .for_each(|remark| facts.add_remark(remark));
        let texts = if is_lines {
            JsonTexts::lines(input.text)
        } else {
            JsonTexts::document(input.text)?
        };
        let mut reader = Self {
            texts,
            sample: VecDeque::new(),
            options: options.clone(),
            roles: HashMap::new(),
            numbers: HashMap::new(),
        };
        let (mut bytes, mut text) = (0, Vec::new());
        while reader.sample.len() < SAMPLE_ROWS
            && bytes < SAMPLE_BYTES
            && reader.texts.read(&mut text)?
        {
            bytes += text.len();
            let place = reader.texts.place();
            // A value that is no entity is a bad row later.
            if let Ok(members) = Members::parse(&text) {
                facts.json.add(&members, &place, reader.texts.form, options);
            }
            reader.sample.push_back((place, std::mem::take(&mut text)));
        }
        Ok(reader)
    }

    /// Decides what the members of all files become.
    pub(super) fn settle(facts: &mut Facts, options: &ReadOptions) -> Result<()> {
        let json = std::mem::take(&mut facts.json);
        // Nothing to decide, and nothing that could be lost.
        if json.entities == 0 {
            return Ok(());
        }
        let (decided, remarks) =
            roles(&json.names, &options.rules, &options.keys, Repeats::Refused)?;
        remarks
            .into_iter()
            .for_each(|remark| facts.add_remark(remark));
        let mut all = json.roles;
        for (name, role) in json.names.into_iter().zip(decided) {
            if let Role::Property(property) = &role {
                facts.add_column(name.clone(), property.clone());
                if let Some((evidence, is_reported)) = json.numbers.get(&name) {
                    let is_reported = *is_reported || evidence.narrowest() == EdmType::String;
                    facts.add_values(property, Some(*evidence), is_reported);
                }
            }
            if role == Role::Timestamp
                && let Some(place) = &json.no_time
            {
                return Err(Failure::misuse(super::own_timestamp(place)));
            }
            all.insert(name, Ok(role));
        }
        facts.json = JsonFacts {
            entities: json.entities,
            roles: all,
            ..JsonFacts::default()
        };
        Ok(())
    }

    /// Sets what the first entities of all files show. A number that does not fit later is a skipped row and never of another type:
    /// filters would miss values of one property with two types.
    pub(super) fn set_types(&mut self, facts: &Facts) {
        self.roles.clone_from(&facts.json.roles);
        for (name, role) in &self.roles {
            if let Ok(Role::Property(property)) = role
                && let Some(edm_type) = facts.type_of(property)
            {
                self.numbers.insert(name.clone(), edm_type);
            }
        }
    }

    /// Hands every entity to `take`, until it breaks. An error ends the file.
    pub(super) fn read(
        mut self,
        left_out: &LeftOut,
        take: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut text = Vec::new();
        loop {
            let place = match self.sample.pop_front() {
                Some((place, sampled)) => {
                    text = sampled;
                    place
                }
                None if self.texts.read(&mut text)? => self.texts.place(),
                None => return Ok(()),
            };
            let row = self.entity(&text, left_out);
            if take(row.map_err(|reason| BadRow { place, reason })).is_break() {
                return Ok(());
            }
        }
    }

    fn entity(&mut self, text: &[u8], left_out: &LeftOut) -> Result<Entity, String> {
        let members = Members::parse(text)?;
        let has_annotations = members.has_annotations();
        let (mut key, mut properties) = (FileKey::default(), Properties::new());
        for (name, value) in members.values() {
            if !self.roles.contains_key(name) {
                self.roles
                    .insert(name.to_owned(), self.options.rules.role(name));
            }
            let role = match &self.roles[name] {
                Ok(Role::LeftOut) => continue,
                Ok(role) => role,
                Err(problem) => {
                    return Err(format!(
                        "no property can be called {name:?} ({problem}): --rename and --ignore take such a member"
                    ));
                }
            };
            let of_property = |reason: String| format!("the value of '{name}': {reason}");
            let scalar = Scalar::parse(value).map_err(of_property)?;
            match role {
                Role::PartitionKey => key.partition = key_text(scalar, PARTITION_KEY)?,
                Role::RowKey => key.row = key_text(scalar, ROW_KEY)?,
                Role::Timestamp if matches!(scalar, Scalar::Null) => {}
                Role::Timestamp => left_out.add_timestamp(),
                Role::LeftOut => {}
                Role::Property(property) => {
                    let annotated = if has_annotations {
                        members.annotation(name)?
                    } else {
                        None
                    };
                    let typed = annotated.or_else(|| self.options.given_type(name, property));
                    // Answers of the service have no annotation for the Timestamp.
                    let kept_time = match &scalar {
                        Scalar::Text(text)
                            if name == TIMESTAMP
                                && parse_value(text, EdmType::DateTime).is_ok() =>
                        {
                            Some(EdmType::DateTime)
                        }
                        _ => None,
                    };
                    let value =
                        value_of(scalar, typed.or(kept_time), self.numbers.get(name).copied());
                    let Some(value) = value.map_err(of_property)? else {
                        continue;
                    };
                    // The first number of a member that the sample does not have decides.
                    if typed.is_none()
                        && matches!(
                            value,
                            EdmValue::Int32(_) | EdmValue::Int64(_) | EdmValue::Double(_)
                        )
                    {
                        self.numbers
                            .entry(name.to_owned())
                            .or_insert(value.edm_type());
                    }
                    properties.push(property, value.as_ref(), false);
                }
            }
        }
        self.options.keys.entity(key, properties)
    }
}

impl JsonFacts {
    fn add(&mut self, members: &Members<'_>, place: &str, form: Form, options: &ReadOptions) {
        self.entities += 1;
        for (name, value) in members.values() {
            if !self.roles.contains_key(name) {
                // The Azure CLI adds the ETag as a member.
                let is_etag = form == Form::Items
                    && name == CLI_ETAG
                    && !options.rules.rename.contains_key(name);
                self.roles.insert(
                    name.to_owned(),
                    if is_etag {
                        Ok(Role::LeftOut)
                    } else {
                        options.rules.role(name)
                    },
                );
                if !is_etag {
                    self.names.push(name.to_owned());
                }
            }
            let scalar = Scalar::parse(value);
            if name == TIMESTAMP && self.no_time.is_none() {
                let is_time = match &scalar {
                    Ok(Scalar::Null) => true,
                    Ok(Scalar::Text(text)) => parse_value(text, EdmType::DateTime).is_ok(),
                    _ => false,
                };
                self.no_time = (!is_time).then(|| place.to_owned());
            }
            if let Ok(Scalar::Number(number)) = scalar
                && options.given_type(name, name).is_none()
                && members.annotation(name) == Ok(None)
            {
                let new = Evidence::of_literal(number);
                let known = self.numbers.entry(name.to_owned()).or_insert((new, false));
                known.1 |= known.0.narrowest() != new.narrowest();
                known.0 = known.0.and(new);
            }
        }
    }
}

/// The text of a key; `None` for null. A whole number is its digits.
fn key_text(scalar: Scalar<'_>, name: &str) -> Result<Option<String>, String> {
    match scalar {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => Ok(Some(text.into_owned())),
        Scalar::Number(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Some(digits.to_owned()))
        }
        _ => Err(format!("the {name} is not text")),
    }
}

/// The value of a property; `None` for null. `typed` is the type that an annotation or the command line gives, and `number` the type
/// of the numbers of the property.
fn value_of(
    scalar: Scalar<'_>,
    typed: Option<EdmType>,
    number: Option<EdmType>,
) -> Result<Option<EdmValue>, String> {
    let parse = |text: &str, edm_type: EdmType, advice: &str| {
        let value = parse_value(text, edm_type);
        value.map(Some).map_err(|reason| {
            format!(
                "it is not of the type {}: {reason}{advice}",
                edm_type.name()
            )
        })
    };
    match (scalar, typed) {
        (Scalar::Null, _) => Ok(None),
        (Scalar::Typed(text, edm_type), _) => parse(&text, edm_type, ""),
        (Scalar::Boolean(value), None) => Ok(Some(EdmValue::Boolean(value))),
        (Scalar::Boolean(value), Some(edm_type)) => {
            parse(if value { "true" } else { "false" }, edm_type, "")
        }
        (Scalar::Text(text), typed) => parse(&text, typed.unwrap_or(EdmType::String), ""),
        (Scalar::Number(literal), Some(edm_type)) => parse(literal, edm_type, ""),
        (Scalar::Number(literal), None) => match number {
            None => parse(literal, Evidence::of_literal(literal).narrowest(), ""),
            Some(edm_type)
                if edm_type == EdmType::Double
                    && Evidence::of_literal(literal).narrowest() == EdmType::String =>
            {
                Err(
                    "a Double would change the number; --type NAME=String keeps any number as text"
                        .to_owned(),
                )
            }
            Some(EdmType::Int32 | EdmType::Int64) if literal == "-0" => {
                Err("an integer has no -0; --type NAME=Double keeps it in all of them".to_owned())
            }
            Some(edm_type) => parse(
                literal,
                edm_type,
                "; --type NAME=TYPE gives another type to all of them, and String keeps any number",
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::read_rows::{ColumnRules, KeyTemplates};

    fn read(text: &str, is_lines: bool, options: &ReadOptions) -> Result<(Vec<Row>, Facts)> {
        let input = TextInput::new(Cursor::new(text.as_bytes().to_vec()), None).unwrap();
        let mut facts = Facts::default();
        let mut reader = JsonReader::new(input, is_lines, options, &mut facts)?;
        JsonReader::settle(&mut facts, options)?;
        reader.set_types(&facts);
        let mut rows = Vec::new();
        reader.read(&LeftOut::default(), &mut |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        Ok((rows, facts))
    }

    fn plain() -> ReadOptions {
        ReadOptions {
            keys: KeyTemplates::new(None, None).unwrap(),
            rules: ColumnRules::default(),
            types: BTreeMap::new(),
            null: None,
        }
    }

    fn new(row: &str) -> Entity {
        Entity::new("p", row).unwrap()
    }

    #[test]
    fn every_document_has_the_same_entities() {
        let answer = concat!(
            "\u{feff}{\"odata.metadata\":\"https://a.table.core.windows.net/$metadata#T\",\"value\":[",
            r#"{"odata.etag":"W/\"x\"","PartitionKey":"p","RowKey":"1","Timestamp":"2014-01-03T11:20:20Z","N@odata.type":"Edm.Int64","N":"5"},"#,
            r#"{"PartitionKey":"p"}]}"#
        );
        let expected = new("1").with("N", 5_i64);
        let (rows, _) = read(answer, false, &plain()).unwrap();
        assert_eq!(rows[0].as_ref().unwrap(), &expected);
        assert_eq!(rows[1].as_ref().unwrap_err().place, "entity 2");
        for text in [
            r#"[{"PartitionKey":"p","RowKey":"1","N":"5","N@odata.type":"Edm.Int64"}]"#,
            r#"{"items":[{"PartitionKey":"p","RowKey":"1","etag":"W/\"x\"","N":{"edm_type":"Edm.Int64","value":5}}],"nextMarker":{}}"#,
            r#"{"items":[{"PartitionKey":"p","RowKey":"1","etag":"W/\"x\"","N":{"type":"Edm.Int64","value":"5"}}]}"#,
        ] {
            let (rows, _) = read(text, false, &plain()).unwrap();
            assert_eq!(rows[0].as_ref().unwrap(), &expected, "{text}");
        }
    }

    fn lines(values: &[&str]) -> String {
        let line = |(at, value): (usize, &&str)| {
            format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{at}\",\"N\":{value}}}\n")
        };
        values.iter().enumerate().map(line).collect()
    }

    #[test]
    fn the_numbers_of_a_property_have_one_type() {
        let types = |values: &[&str]| {
            let (rows, facts) = read(&lines(values), true, &plain()).unwrap();
            let values: Vec<_> = rows
                .into_iter()
                .map(|row| row.unwrap().get("N").unwrap().to_owned())
                .collect();
            (values, facts.reported_types())
        };
        let reported = |of| vec![("N".to_owned(), of)];
        assert_eq!(
            types(&["1", "2"]),
            (vec![EdmValue::Int32(1), EdmValue::Int32(2)], Vec::new())
        );
        assert_eq!(
            types(&["1", "3000000000"]),
            (
                vec![EdmValue::Int64(1), EdmValue::Int64(3_000_000_000)],
                reported(EdmType::Int64)
            )
        );
        assert_eq!(
            types(&["1", "12e5"]),
            (
                vec![EdmValue::Double(1.0), EdmValue::Double(12e5)],
                reported(EdmType::Double)
            )
        );
        let texts = ["89310860123456789012", "89310860123456789013", "1e400", "5"];
        let kept = texts
            .iter()
            .map(|text| EdmValue::String((*text).to_owned()))
            .collect();
        assert_eq!(types(&texts), (kept, reported(EdmType::String)));
        // Values with a type keep it: an export has a property of several types so.
        let (rows, facts) = read(
            &format!(
                "{}{}",
                lines(&["1", "\"one\""]),
                r#"{"PartitionKey":"p","RowKey":"3","N":"7","N@odata.type":"Edm.Int64"}"#
            ),
            true,
            &plain(),
        )
        .unwrap();
        let values: Vec<_> = rows
            .into_iter()
            .map(|row| row.unwrap().get("N").unwrap().to_owned())
            .collect();
        assert_eq!(
            values,
            [
                EdmValue::Int32(1),
                EdmValue::String("one".to_owned()),
                EdmValue::Int64(7)
            ]
        );
        assert_eq!(facts.reported_types(), []);
    }

    #[test]
    fn a_number_that_does_not_fit_later_is_a_bad_row() {
        let mut values = vec!["1"; SAMPLE_ROWS];
        values.extend(["3000000000", "2.5", "7"]);
        let (rows, _) = read(&lines(&values), true, &plain()).unwrap();
        assert!(
            rows[SAMPLE_ROWS]
                .as_ref()
                .unwrap_err()
                .reason
                .contains("'N'")
        );
        assert!(rows[SAMPLE_ROWS + 1].is_err());
        assert!(rows[SAMPLE_ROWS + 2].is_ok());
        let options = ReadOptions {
            types: BTreeMap::from([("N".to_owned(), EdmType::Double)]),
            ..plain()
        };
        let (rows, _) = read(&lines(&values), true, &options).unwrap();
        assert!(
            rows.iter()
                .all(|row| row.as_ref().unwrap().get("N").unwrap().edm_type() == EdmType::Double)
        );
    }

    #[test]
    fn bad_entities_are_bad_rows() {
        let rows = [
            (
                r#"{"PartitionKey":"p","RowKey":"1","a":1,"a":2}"#,
                "\"a\" occurs twice",
            ),
            (r#"{"PartitionKey":"p","RowKey":"1","a":[1]}"#, "an array"),
            (
                r#"{"PartitionKey":"p","RowKey":"1","a":{"value":1,"edm_type":"Int"}}"#,
                "an object",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"1","a@odata.type":"Edm.Int32","a":"x"}"#,
                "'a'",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"1","a@odata.type":"Edm.Int","a":"x"}"#,
                "unknown type",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":1.5}"#,
                "the RowKey is not text",
            ),
            (r#"{"PartitionKey":"p"}"#, "the RowKey is absent"),
            (r#"{"PartitionKey":"p","RowKey":"1""#, "no entity"),
            ("7", "no entity"),
        ];
        let text = rows.map(|(text, _)| text).join("\n");
        let (read, _) = read(&text, true, &plain()).unwrap();
        for (row, (text, reason)) in read.iter().zip(rows) {
            let bad = row.as_ref().unwrap_err();
            assert!(bad.reason.contains(reason), "{text}: {}", bad.reason);
        }
    }
}
