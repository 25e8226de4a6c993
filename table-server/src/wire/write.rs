//! Writes JSON for clients.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use table_core::model::{EdmType, Entity, TableName, ValueRef};
use table_core::query::{Filter, Select};

use super::Metadata;
use crate::address::entity_path;

/// The characters of a projection that are encoded in the URL of the metadata.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b',');

/// The expected JSON of an entity, so that the buffer of a page is seldom copied.
const ENTITY_BYTES: usize = 300;

/// The metadata of a response, and the parts of the URLs in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonFormat<'a> {
    pub(crate) level: Metadata,
    pub(crate) account: &'a str,
    /// The account's URL, with a slash at the end.
    pub(crate) root: &'a str,
    /// The projection as the client wrote it.
    pub(crate) select: Option<&'a str>,
}

impl JsonFormat<'_> {
    /// Returns the URL of a path below the account.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }

    /// Returns the part of the URL of the metadata that names the projection.
    fn projection(&self, select: Option<&Select>) -> String {
        match self.select.filter(|_| select.is_some()) {
            Some(select) => format!("&$select={}", utf8_percent_encode(select, ENCODED)),
            None => String::new(),
        }
    }
}

/// Returns one entity as a document.
pub(crate) fn entity_document(
    format: JsonFormat<'_>,
    table: &TableName,
    entity: &Entity,
    select: Option<&Select>,
) -> Vec<u8> {
    let projection = format.projection(select);
    Writer::document(format, table.as_str(), &projection, |out| {
        out.entity(table, entity, select);
    })
}

/// Returns a page of entities.
pub(crate) fn entities_page(
    format: JsonFormat<'_>,
    table: &TableName,
    entities: &[Entity],
    select: Option<&Select>,
) -> Vec<u8> {
    let mut out = Writer::new(format);
    out.bytes.reserve(ENTITY_BYTES * entities.len());
    let set = format!("{table}{}", format.projection(select));
    out.page(&set, entities, |out, entity| {
        out.entity(table, entity, select);
    });
    out.bytes
}

/// Returns one table as a document.
pub(crate) fn table_document(format: JsonFormat<'_>, table: &TableName) -> Vec<u8> {
    Writer::document(format, "Tables", "", |out| out.table(table))
}

/// Returns a page of tables.
pub(crate) fn tables_page(format: JsonFormat<'_>, tables: &[TableName]) -> Vec<u8> {
    let mut out = Writer::new(format);
    out.page("Tables", tables, Writer::table);
    out.bytes
}

struct Writer<'a> {
    bytes: Vec<u8>,
    format: JsonFormat<'a>,
    /// Whether the current object or array is still empty.
    empty: bool,
}

impl<'a> Writer<'a> {
    const fn new(format: JsonFormat<'a>) -> Self {
        Self {
            bytes: Vec::new(),
            format,
            empty: true,
        }
    }

    /// Writes a document with one item. `set` is the OData set in its metadata: the entity's table, or `Tables`.
    fn document(
        format: JsonFormat<'a>,
        set: &str,
        projection: &str,
        item: impl FnOnce(&mut Self),
    ) -> Vec<u8> {
        let mut out = Self::new(format);
        out.open(b'{');
        out.metadata(&format!("{set}/@Element{projection}"));
        item(&mut out);
        out.close(b'}');
        out.bytes
    }

    fn metadata(&mut self, fragment: &str) {
        if self.format.level != Metadata::None {
            self.member(
                "odata.metadata",
                &self.format.url(&format!("$metadata#{fragment}")),
            );
        }
    }

    fn open(&mut self, bracket: u8) {
        self.bytes.push(bracket);
        self.empty = true;
    }

    fn close(&mut self, bracket: u8) {
        self.bytes.push(bracket);
        self.empty = false;
    }

    fn separate(&mut self) {
        if !self.empty {
            self.bytes.push(b',');
        }
        self.empty = false;
    }

    /// Writes a name and the separator before it.
    fn name(&mut self, name: &str) {
        self.separate();
        json(&mut self.bytes, name);
        self.bytes.push(b':');
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.name(name);
        json(&mut self.bytes, value);
    }

    fn page<T>(&mut self, set: &str, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.open(b'{');
        self.metadata(set);
        self.name("value");
        self.open(b'[');
        for each in items {
            self.separate();
            self.open(b'{');
            item(self, each);
            self.close(b'}');
        }
        self.close(b']');
        self.close(b'}');
    }

    fn table(&mut self, table: &TableName) {
        if self.format.level == Metadata::Full {
            let path = format!("Tables('{table}')");
            self.member("odata.type", &format!("{}.Tables", self.format.account));
            self.member("odata.id", &self.format.url(&path));
            self.member("odata.editLink", &path);
        }
        self.member("TableName", table.as_str());
    }

    fn entity(&mut self, table: &TableName, entity: &Entity, select: Option<&Select>) {
        if self.format.level == Metadata::Full {
            let path = entity_path(table, entity.key());
            self.member("odata.type", &format!("{}.{table}", self.format.account));
            self.member("odata.id", &self.format.url(&path));
            self.etag(entity);
            self.member("odata.editLink", &path);
        } else if self.format.level == Metadata::Minimal {
            self.etag(entity);
        }
        let wanted = |name: &str| select.is_none_or(|select| select.contains(name));
        if wanted(Filter::PARTITION_KEY) {
            self.member(Filter::PARTITION_KEY, entity.key().partition());
        }
        if wanted(Filter::ROW_KEY) {
            self.member(Filter::ROW_KEY, entity.key().row());
        }
        if let Some(time) = entity.timestamp().filter(|_| wanted(Filter::TIMESTAMP)) {
            if self.format.level == Metadata::Full {
                self.member("Timestamp@odata.type", EdmType::DateTime.name());
            }
            self.member(Filter::TIMESTAMP, &shown_time(&time.to_string()));
        }
        for property in entity
            .properties()
            .iter()
            .filter(|property| wanted(property.name()))
        {
            self.property(property.name(), property.value());
        }
        self.missing(entity, select);
    }

    fn etag(&mut self, entity: &Entity) {
        if let Some(etag) = entity.etag() {
            self.member("odata.etag", &etag.to_string());
        }
    }

    /// Writes null for selected properties that the entity does not have.
    /// <https://learn.microsoft.com/rest/api/storageservices/writing-linq-queries-against-the-table-service#server-side-projection>
    fn missing(&mut self, entity: &Entity, select: Option<&Select>) {
        const SYSTEM: [&str; 3] = [Filter::PARTITION_KEY, Filter::ROW_KEY, Filter::TIMESTAMP];
        // The names of metadata are no properties: the level of metadata decides whether they are written.
        let is_metadata = |name: &str| name.starts_with("odata.") || name.contains('@');
        for name in select.into_iter().flat_map(Select::names) {
            if !SYSTEM.contains(&name) && !is_metadata(name) && entity.get(name).is_none() {
                self.member(name, &());
            }
        }
    }

    fn property(&mut self, name: &str, value: ValueRef<'_>) {
        // The types that JSON itself shows have no annotation; a Double has one where it is not a number of
        // JSON:
        // <https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations>.
        let annotated = match value {
            ValueRef::Boolean(_) | ValueRef::Int32(_) | ValueRef::String(_) => false,
            ValueRef::Double(number) => !number.is_finite(),
            _ => true,
        };
        if annotated && self.format.level != Metadata::None {
            self.member(&format!("{name}@odata.type"), value.edm_type().name());
        }
        match value {
            ValueRef::String(v) => self.member(name, v),
            ValueRef::Boolean(v) => self.member(name, &v),
            ValueRef::Int32(v) => self.member(name, &v),
            // As text, because many readers of JSON turn numbers into Doubles, which are exact only up to
            // 2^53.
            ValueRef::Int64(v) => self.member(name, &v.to_string()),
            ValueRef::Double(v) if v.is_finite() => self.member(name, &v),
            ValueRef::Double(v) if v.is_nan() => self.member(name, "NaN"),
            ValueRef::Double(v) => {
                self.member(name, if v > 0.0 { "Infinity" } else { "-Infinity" });
            }
            ValueRef::DateTime(v) => self.member(name, &shown_time(&v.to_string())),
            ValueRef::Guid(v) => self.member(name, &v.to_string()),
            ValueRef::Binary(v) => self.member(name, &STANDARD.encode(v)),
        }
    }
}

/// Returns a time without zeros at the end of its decimals, as the service writes it. `text` has seven decimals.
fn shown_time(text: &str) -> Cow<'_, str> {
    let short = text
        .trim_end_matches('Z')
        .trim_end_matches('0')
        .trim_end_matches('.');
    if short.len() + 1 == text.len() {
        text.into()
    } else {
        format!("{short}Z").into()
    }
}

/// Cannot fail: a `Vec` accepts every write, and these values have a JSON form.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use table_core::model::{ETag, Key};

    use super::*;
    use crate::wire::read_fields;

    const fn format(level: Metadata) -> JsonFormat<'static> {
        JsonFormat {
            level,
            account: "acc",
            root: "http://h/acc/",
            select: None,
        }
    }

    fn entity() -> Entity {
        Entity::new("p", "it's")
            .unwrap()
            .with("S", "a\"b")
            .with("N", 5)
            .with("D", 1.0)
            .with("L", 5_i64)
            .with("X", f64::NAN)
            .with_system(
                Some(ETag::from("W/\"1\"")),
                "2013-01-01T05:15:00Z".parse().ok(),
            )
    }

    fn written(level: Metadata, select: Option<&Select>) -> String {
        let table = TableName::new("Orders").unwrap();
        String::from_utf8(entity_document(format(level), &table, &entity(), select)).unwrap()
    }

    /// The documentation's examples of each level.
    #[test]
    fn every_level_has_its_annotations() {
        let keys = r#""PartitionKey":"p","RowKey":"it's","Timestamp":"2013-01-01T05:15:00Z""#;
        let none = format!(r#"{{{keys},"S":"a\"b","N":5,"D":1.0,"L":"5","X":"NaN"}}"#);
        assert_eq!(written(Metadata::None, None), none);
        let typed = r#""S":"a\"b","N":5,"D":1.0,"L@odata.type":"Edm.Int64","L":"5","X@odata.type":"Edm.Double","X":"NaN""#;
        let head = r#""odata.metadata":"http://h/acc/$metadata#Orders/@Element""#;
        let minimal = format!(r#"{{{head},"odata.etag":"W/\"1\"",{keys},{typed}}}"#);
        assert_eq!(written(Metadata::Minimal, None), minimal);
        let path = "Orders(PartitionKey='p',RowKey='it%27%27s')";
        let full = format!(
            r#"{{{head},"odata.type":"acc.Orders","odata.id":"http://h/acc/{path}","odata.etag":"W/\"1\"","odata.editLink":"{path}","PartitionKey":"p","RowKey":"it's","Timestamp@odata.type":"Edm.DateTime","Timestamp":"2013-01-01T05:15:00Z",{typed}}}"#
        );
        assert_eq!(written(Metadata::Full, None), full);
    }

    #[test]
    fn a_projection_has_only_selected_properties_and_null_for_missing_ones() {
        let select = Select::new(["N", "RowKey", "Gone"]);
        assert_eq!(
            written(Metadata::None, Some(&select)),
            r#"{"RowKey":"it's","N":5,"Gone":null}"#
        );
    }

    #[test]
    fn the_url_of_the_metadata_names_the_projection() {
        let (table, select) = (TableName::new("Orders").unwrap(), Select::new(["N", "S"]));
        let format = JsonFormat {
            select: Some("N, S"),
            ..format(Metadata::Minimal)
        };
        let page = String::from_utf8(entities_page(format, &table, &[], Some(&select))).unwrap();
        assert_eq!(
            page,
            r#"{"odata.metadata":"http://h/acc/$metadata#Orders&$select=N,%20S","value":[]}"#
        );
        let one =
            String::from_utf8(entity_document(format, &table, &entity(), Some(&select))).unwrap();
        let expected = r#"{"odata.metadata":"http://h/acc/$metadata#Orders/@Element&$select=N,%20S","odata.etag":"#;
        assert!(one.starts_with(expected), "{one}");
    }

    #[test]
    fn names_of_metadata_in_a_projection_are_not_properties() {
        let select = Select::new(["odata.etag", "L@odata.type", "L"]);
        let expected = r#""odata.etag":"W/\"1\"","L@odata.type":"Edm.Int64","L":"5"}"#;
        let written = written(Metadata::Minimal, Some(&select));
        assert!(written.ends_with(expected), "{written}");
    }

    #[test]
    fn times_have_no_zeros_at_their_end() {
        for (text, expected) in [
            ("2013-01-01T05:15:00.0000000Z", "2013-01-01T05:15:00Z"),
            ("2013-01-01T05:15:10.5000000Z", "2013-01-01T05:15:10.5Z"),
            (
                "2013-01-01T05:15:00.1234567Z",
                "2013-01-01T05:15:00.1234567Z",
            ),
            (
                "2013-01-01T05:15:00.0000010Z",
                "2013-01-01T05:15:00.000001Z",
            ),
        ] {
            assert_eq!(shown_time(text), expected);
        }
    }

    #[test]
    fn pages_are_written_as_listings() {
        let table = TableName::new("Orders").unwrap();
        let page = entities_page(format(Metadata::None), &table, &[], None);
        assert_eq!(page, br#"{"value":[]}"#);
        let tables = [table.clone(), TableName::new("abc").unwrap()];
        let page = String::from_utf8(tables_page(format(Metadata::Minimal), &tables)).unwrap();
        let expected = r#"{"odata.metadata":"http://h/acc/$metadata#Tables","value":[{"TableName":"Orders"},{"TableName":"abc"}]}"#;
        assert_eq!(page, expected);
        let two = [entity(), Entity::from(Key::new("a", "b").unwrap())];
        let page = entities_page(format(Metadata::Full), &table, &two, None);
        let read: serde_json::Value = serde_json::from_slice(&page).unwrap();
        assert_eq!(read["value"].as_array().map(Vec::len), Some(2));
        let one = String::from_utf8(table_document(format(Metadata::Full), &table)).unwrap();
        assert!(
            one.contains(r#""odata.id":"http://h/acc/Tables('Orders')""#),
            "{one}"
        );
    }

    #[test]
    fn written_entities_are_read_back() {
        let written = written(Metadata::Minimal, None);
        let read = read_fields(written.as_bytes()).unwrap();
        assert_eq!(read.partition.as_deref(), Some("p"));
        assert_eq!(read.row.as_deref(), Some("it's"));
        let names: Vec<_> = read.properties.iter().map(|p| p.name()).collect();
        assert_eq!(names, ["S", "N", "D", "L", "X"]);
        assert_eq!(read.properties.get("D"), Some(ValueRef::Double(1.0)));
    }
}
