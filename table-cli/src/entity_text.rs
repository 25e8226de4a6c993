//! Entities as text: values, lines of JSON, and CSV.

use std::collections::HashMap;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use table_azure::wire::encode_entity;
use table_core::model::{Entity, ValueRef};

use crate::failure::{Failure, Result};
use crate::spool::Spool;

/// Returns a value as text without its type, as in the JSON of the service.
pub(crate) fn value_text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Binary(bytes) => STANDARD.encode(bytes),
        ValueRef::Boolean(value) => value.to_string(),
        ValueRef::DateTime(time) => time.to_string(),
        ValueRef::Double(value) if value.is_nan() => "NaN".to_owned(),
        ValueRef::Double(value) if value.is_infinite() => {
            if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        // `Debug` writes 1.0 for 1, so that a reader takes the number for a Double and not for an integer.
        ValueRef::Double(value) => format!("{value:?}"),
        ValueRef::Guid(value) => value.to_string(),
        ValueRef::Int32(value) => value.to_string(),
        ValueRef::Int64(value) => value.to_string(),
        ValueRef::String(value) => value.to_owned(),
    }
}

/// Returns the entity as a line of JSON with its types, its Timestamp and its ETag.
pub(crate) fn entity_json(entity: &Entity) -> String {
    let json = String::from_utf8_lossy(&encode_entity(entity)).into_owned();
    let mut out = String::with_capacity(json.len() + 128);
    out.push('{');
    if let Some(etag) = entity.etag() {
        let text = serde_json::Value::from(etag.to_string());
        out.push_str(&format!("\"odata.etag\":{text},"));
    }
    if let Some(time) = entity.timestamp() {
        out.push_str(&format!("\"Timestamp\":\"{time}\","));
    }
    // The brace is written already. The keys follow in any case, so the comma before them is right.
    out.push_str(&json[1..]);
    out.push('\n');
    out
}

/// The end of the name of a column with types, as in the files of Azure Storage Explorer.
pub(crate) const TYPE_COLUMN: &str = "@type";

/// Whether CSV has columns with types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Types {
    Written,
    Omitted,
}

/// The columns of properties, in the order of their first occurrence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    names: Vec<String>,
    /// The place of each name.
    places: HashMap<String, usize>,
}

impl Columns {
    /// Starts with these names. A repeated name is one column.
    pub(crate) fn new(names: &[String]) -> Self {
        let mut columns = Self::default();
        names.iter().for_each(|name| columns.add(name));
        columns
    }

    fn add(&mut self, name: &str) {
        if !self.places.contains_key(name) {
            self.places.insert(name.to_owned(), self.names.len());
            self.names.push(name.to_owned());
        }
    }

    /// Whether there are no columns.
    pub(crate) const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Adds the properties of an entity to the columns.
pub(crate) fn add_columns(columns: &mut Columns, entity: &Entity) {
    entity
        .properties()
        .iter()
        .for_each(|property| columns.add(property.name()));
}

/// Returns the names of the columns, keys first.
pub(crate) fn header(columns: &Columns, types: Types) -> Vec<String> {
    let keys = ["PartitionKey", "RowKey"].map(str::to_owned);
    let names = columns.names.iter().flat_map(|name| {
        let types = (types == Types::Written).then(|| format!("{name}{TYPE_COLUMN}"));
        std::iter::once(name.clone()).chain(types)
    });
    keys.into_iter().chain(names).collect()
}

/// Returns the cells of an entity. An absent property has empty cells.
pub(crate) fn cells(entity: &Entity, columns: &Columns, types: Types) -> Vec<String> {
    let width = if types == Types::Written { 2 } else { 1 };
    let mut cells = vec![String::new(); 2 + width * columns.names.len()];
    entity.key().partition().clone_into(&mut cells[0]);
    entity.key().row().clone_into(&mut cells[1]);
    // One search for each property and not for each column: a table may have thousands of columns.
    for property in entity.properties().iter() {
        let Some(at) = columns.places.get(property.name()) else {
            continue;
        };
        cells[2 + width * at] = value_text(property.value());
        if types == Types::Written {
            // The type tells an empty text from an absent value, whose cells are both empty, when the file is imported.
            property
                .value()
                .edm_type()
                .name()
                .clone_into(&mut cells[3 + width * at]);
        }
    }
    cells
}

/// Returns a line of CSV.
pub(crate) fn csv_line(cells: &[String]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.write_record(cells).map_err(Failure::failed);
    written.and_then(|()| writer.into_inner().map_err(Failure::failed))
}

/// Entities that are written as CSV when all of them are known: the header has the properties of every entity.
#[derive(Debug)]
pub(crate) struct CsvRows {
    entities: Spool,
    columns: Columns,
}

impl CsvRows {
    /// Starts without entities.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            entities: Spool::new()?,
            columns: Columns::default(),
        })
    }

    /// Adds an entity.
    pub(crate) fn add(&mut self, entity: &Entity) -> Result<()> {
        add_columns(&mut self.columns, entity);
        self.entities.add(entity)
    }

    /// Writes header and entities.
    pub(crate) fn write_to(self, out: &mut dyn Write, types: Types) -> Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        writer
            .write_record(header(&self.columns, types))
            .map_err(written)?;
        for entity in self.entities.read()? {
            writer
                .write_record(cells(&entity?, &self.columns, types))
                .map_err(written)?;
        }
        Ok(writer.flush()?)
    }
}

fn written(error: csv::Error) -> Failure {
    // An error of the output keeps its kind: a closed pipe is no failure.
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        other => Failure::failed(format!("the CSV cannot be written: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use table_core::model::ETag;

    use super::*;

    #[test]
    fn values_are_printed_as_the_service_prints_them() {
        let texts = [
            (ValueRef::Double(1.0), "1.0"),
            (ValueRef::Double(f64::NEG_INFINITY), "-Infinity"),
            (ValueRef::Binary(&[0, 255]), "AP8="),
            (ValueRef::Int64(-7), "-7"),
        ];
        for (value, text) in texts {
            assert_eq!(value_text(value), text);
        }
    }

    #[test]
    fn a_line_of_json_can_be_read_back() {
        let entity = Entity::new("p", "r\"")
            .unwrap()
            .with("N", 5_i64)
            .with_system(
                Some(ETag::from("W/\"x\"")),
                Some("2013-01-01T00:00:00Z".parse().unwrap()),
            );
        let json = entity_json(&entity);
        assert_eq!(
            table_azure::wire::decode_entity(json.trim().as_bytes()).unwrap(),
            entity
        );
    }
}
