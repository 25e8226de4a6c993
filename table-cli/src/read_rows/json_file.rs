//! Reads entities from JSON: a line for each entity, an array of entities, or an answer of the service, as AzCopy 7 keeps them.

use std::fmt;
use std::io::BufRead;
use std::ops::ControlFlow;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use table_azure::wire::decode_entity;
use table_core::model::Entity;

use super::{BadRow, KeyTemplates, PARTITION_KEY, ROW_KEY, Row};
use crate::failure::{Failure, Result};

/// The mark that some programs write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Hands the entity of every line to `take`, until it breaks.
pub(crate) fn read_lines(
    mut lines: Box<dyn BufRead + Send>,
    keys: &KeyTemplates,
    take: &mut dyn FnMut(Row) -> ControlFlow<()>,
) -> Result<()> {
    skip_mark(&mut *lines)?;
    let (mut text, mut line) = (String::new(), 0_u64);
    loop {
        text.clear();
        line += 1;
        match lines.read_line(&mut text) {
            Ok(0) => return Ok(()),
            Ok(_) if text.trim().is_empty() => {}
            Ok(_) => {
                let entity = entity_of(text.trim(), keys);
                if take(entity.map_err(|reason| BadRow { place: format!("line {line}"), reason })).is_break()
                {
                    return Ok(());
                }
            }
            Err(error) => return Err(Failure::failed(format!("line {line} cannot be read: {error}"))),
        }
    }
}

/// Hands every entity of an array, or of the member `value` of an answer of the service, to `take`, until it breaks.
/// <https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations>
pub(crate) fn read_json(
    mut file: Box<dyn BufRead + Send>,
    keys: &KeyTemplates,
    take: &mut dyn FnMut(Row) -> ControlFlow<()>,
) -> Result<()> {
    skip_mark(&mut *file)?;
    let mut document = serde_json::Deserializer::from_reader(file);
    let (mut number, mut is_stopped) = (0, false);
    let entities = Entities { keys, take, number: &mut number, is_stopped: &mut is_stopped };
    // More text after the document may be rows, which would be lost: so the end is checked.
    let read = entities.deserialize(&mut document).and_then(|()| document.end());
    match read {
        Err(error) if !is_stopped => {
            Err(Failure::failed(format!("the JSON cannot be read after entity {number}: {error}")))
        }
        _ => Ok(()),
    }
}

/// Reads an entity. Text without keys gets keys by the templates.
pub(crate) fn entity_of(json: &str, keys: &KeyTemplates) -> Result<Entity, String> {
    let members = json.strip_prefix('{').map(str::trim_start);
    let read = match (decode_entity(json.as_bytes()), members) {
        (Err(_), Some(members)) if keys.are_given() => {
            // Empty keys in front, so that the text parses as an entity; the templates replace them.
            let comma = if members.starts_with('}') { "" } else { "," };
            let json = format!("{{\"{PARTITION_KEY}\":\"\",\"{ROW_KEY}\":\"\"{comma}{members}");
            decode_entity(json.as_bytes())
        }
        (read, _) => read,
    };
    // ETag and Timestamp are from another store.
    let entity = read.map_err(|error| error.to_string())?.with_system(None, None);
    keys.apply(entity)
}

fn skip_mark(file: &mut dyn BufRead) -> Result<()> {
    let failed = |error| Failure::failed(format!("the file cannot be read: {error}"));
    if file.fill_buf().map_err(failed)?.starts_with(BYTE_ORDER_MARK) {
        file.consume(BYTE_ORDER_MARK.len());
    }
    Ok(())
}

/// Takes entities while the document is parsed: a file may be larger than memory.
struct Entities<'a> {
    keys: &'a KeyTemplates,
    take: &'a mut dyn FnMut(Row) -> ControlFlow<()>,
    number: &'a mut u64,
    is_stopped: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for Entities<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Entities<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of entities, or an object with such an array as `value`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entities: A) -> Result<(), A::Error> {
        // Each entity as text: one that is no entity is a bad row, and the document goes on.
        while let Some(json) = entities.next_element::<Box<RawValue>>()? {
            *self.number += 1;
            let row = entity_of(json.get(), self.keys);
            let row = row.map_err(|reason| BadRow { place: format!("entity {}", self.number), reason });
            if (self.take)(row).is_break() {
                // An error is the only way out of a document. The mark tells this one from errors of the
                // file.
                *self.is_stopped = true;
                return Err(de::Error::custom("stopped"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { keys, take, number, is_stopped } = self;
        let mut has_entities = false;
        while let Some(name) = members.next_key::<String>()? {
            if name == "value" {
                has_entities = true;
                members.next_value_seed(Entities { keys, take, number, is_stopped })?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        match has_entities {
            true => Ok(()),
            false => Err(de::Error::custom(
                "the object has no array `value` of entities; for a file with a line for each entity, give --format jsonl",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(text: &'static str) -> (Vec<Row>, Result<()>) {
        let mut rows = Vec::new();
        let keys = KeyTemplates::new(None, None).unwrap();
        let done = read_json(Box::new(Cursor::new(text)), &keys, &mut |row| {
            rows.push(row);
            ControlFlow::Continue(())
        });
        (rows, done)
    }

    #[test]
    fn an_array_and_an_answer_of_the_service_have_the_same_entities() {
        let answer = concat!(
            "\u{feff}{\"odata.metadata\":\"https://a.table.core.windows.net/$metadata#T\",\"value\":[",
            r#"{"odata.etag":"W/\"x\"","PartitionKey":"p","RowKey":"1","Timestamp":"2014-01-03T11:20:20Z","N@odata.type":"Edm.Int64","N":"5"},"#,
            r#"{"PartitionKey":"p"}]}"#
        );
        let (rows, done) = read(answer);
        done.unwrap();
        let entity = Entity::new("p", "1").unwrap().with("N", 5_i64);
        assert_eq!(rows[0].as_ref().unwrap(), &entity);
        assert_eq!(rows[1].as_ref().unwrap_err().place, "entity 2");
        let (rows, done) = read(r#"[{"PartitionKey":"p","RowKey":"1","N@odata.type":"Edm.Int64","N":"5"}]"#);
        done.unwrap();
        assert_eq!(rows[0].as_ref().unwrap(), &entity);
    }

    #[test]
    fn other_json_is_refused() {
        for (text, reason) in [
            (r#"{"PartitionKey":"p","RowKey":"1"}"#, "--format jsonl"),
            ("7", "an array of entities"),
            (r#"{"value":[{"PartitionKey":"p","RowKey":"1"}"#, "after entity 1"),
            ("[] []", "trailing characters"),
        ] {
            let error = read(text).1.unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
