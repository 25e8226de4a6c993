//! Keys from the columns of a file, by templates.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use table_core::manifest::{
    Evaluator, IndexDefinition, KeySegment, KeyTemplate, PartEncoding, PartSource, Placement,
    TemplatePart,
};
use table_core::model::{Entity, Key, KeyPartType, Properties, TableName, ValueRef};

use super::{PARTITION_KEY, ROW_KEY};
use crate::entity_text::value_text;
use crate::failure::{Failure, Result};

/// How keys are made from the columns of a file.
#[derive(Clone, Debug)]
pub(crate) struct KeyTemplates(Option<Arc<Templates>>);

#[derive(Debug)]
struct Templates {
    evaluator: Evaluator,
    values: Vec<TemplateValue>,
}

/// A value that the templates read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TemplateValue {
    column: String,
    /// The name under which the evaluator finds it. A column that is read in two forms has two.
    name: String,
    /// Whether a number is written as decimal text: a part without an encoding. The library's encoding, in which numbers sort, is
    /// written where the part asks for it (`{id:i64}`).
    is_plain: bool,
}

/// The text of each key that a file has itself.
#[derive(Clone, Debug, Default)]
pub(super) struct FileKey {
    pub(super) partition: Option<String>,
    pub(super) row: Option<String>,
}

impl KeyTemplates {
    /// Parses the templates of PartitionKey and RowKey. Both are given, or neither.
    pub(crate) fn new(partition: Option<&str>, row: Option<&str>) -> Result<Self> {
        let mut values = Vec::new();
        let (partition, row) = match (partition, row) {
            (None, None) => return Ok(Self(None)),
            (Some(partition), Some(row)) => (
                template(PARTITION_KEY, partition, &mut values)?,
                template(ROW_KEY, row, &mut values)?,
            ),
            _ => {
                return Err(Failure::misuse(
                    "give both --partition-key and --row-key, or neither",
                ));
            }
        };
        // The library evaluates templates as the keys of an index. In another table no key is an entity's own.
        let table = TableName::new("Keys").map_err(Failure::misuse)?;
        let definition =
            IndexDefinition::keyed("keys", Placement::OtherTable(table), Some(partition), row);
        let evaluator = definition.evaluator().map_err(Failure::misuse)?;
        Ok(Self(Some(Arc::new(Templates { evaluator, values }))))
    }

    /// The columns that the templates read; `None` without templates.
    pub(super) fn columns(&self) -> Option<BTreeSet<&str>> {
        let Self(templates) = self;
        Some(
            templates
                .as_ref()?
                .values
                .iter()
                .map(|value| &*value.column)
                .collect(),
        )
    }

    /// Makes the entity of a row: by the templates, or with the keys of the file.
    pub(super) fn entity(&self, key: FileKey, properties: Properties) -> Result<Entity, String> {
        let Some(templates) = &self.0 else {
            let FileKey { partition, row } = key;
            let absent = |name: &str| format!("the {name} is absent");
            let partition = partition.ok_or_else(|| absent(PARTITION_KEY))?;
            let row = row.ok_or_else(|| absent(ROW_KEY))?;
            let key = Key::new(partition, row).map_err(|error| error.to_string())?;
            return Ok(Entity::from_parts(key, properties));
        };
        let mut values = Properties::new();
        for TemplateValue {
            column,
            name,
            is_plain,
        } in &templates.values
        {
            let value = match &**column {
                PARTITION_KEY => key.partition.as_deref().map(ValueRef::String),
                ROW_KEY => key.row.as_deref().map(ValueRef::String),
                column => properties.get(column),
            };
            let value = value
                .filter(|value| *value != ValueRef::String(""))
                .ok_or_else(|| {
                    format!("the column '{column}', which a key template names, has no value")
                })?;
            let text;
            let value = match value {
                ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) if *is_plain => {
                    text = value_text(value);
                    ValueRef::String(&text)
                }
                value => value,
            };
            values.push(name, value, false);
        }
        let none = Key::new("", "").map_err(|error| error.to_string())?;
        let keys = templates
            .evaluator
            .entry_keys(&Entity::from_parts(none, values));
        let keys =
            keys.map_err(|error| format!("the key templates do not fit the row: {error}"))?;
        let key = keys
            .into_iter()
            .next()
            .ok_or("the key templates give no key")?;
        Ok(Entity::from_parts(key, properties))
    }
}

/// Parses a template. Its parts become values of their own names.
fn template(name: &str, text: &str, values: &mut Vec<TemplateValue>) -> Result<KeyTemplate> {
    let refused =
        |reason: String| Failure::misuse(format!("the template of the {name}, {text:?}: {reason}"));
    let parsed: KeyTemplate = text
        .parse()
        .map_err(|error: table_core::Error| refused(error.to_string()))?;
    let segments = parsed.segments().iter().map(|segment| match segment {
        KeySegment::Literal(literal) => Ok(KeySegment::Literal(literal.clone())),
        KeySegment::Part(part) => value_part(part, values)
            .map(KeySegment::Part)
            .map_err(&refused),
    });
    KeyTemplate::new(segments.collect::<Result<_>>()?).map_err(refused)
}

fn value_part(
    part: &TemplatePart,
    values: &mut Vec<TemplateValue>,
) -> Result<TemplatePart, String> {
    if part.each {
        return Err(format!(
            "`{part}`: a list has several values, and an entity has one key"
        ));
    }
    let (column, encoding) = match &part.source {
        PartSource::Property(name) => (name.to_string(), part.encoding.clone()),
        PartSource::PartitionKey => (
            PARTITION_KEY.to_owned(),
            PartEncoding::Declared(KeyPartType::Text),
        ),
        PartSource::RowKey => (
            ROW_KEY.to_owned(),
            PartEncoding::Declared(KeyPartType::Text),
        ),
        PartSource::KeyField(name) => {
            return Err(format!(
                "`{part}`: a file has columns and no fields of keys: write {{{name}}}"
            ));
        }
    };
    let is_plain =
        encoding == PartEncoding::Stored && part.transforms.is_empty() && part.width.is_none();
    let name = if is_plain {
        format!("{column} as text")
    } else {
        column.clone()
    };
    let value = TemplateValue {
        column,
        name: name.clone(),
        is_plain,
    };
    if !values.contains(&value) {
        values.push(value);
    }
    Ok(TemplatePart {
        source: PartSource::Property(Cow::Owned(name)),
        encoding,
        ..part.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(partition: &str, row: &str, properties: &Entity) -> Result<Key, String> {
        let keys = KeyTemplates::new(Some(partition), Some(row)).unwrap();
        let own = FileKey {
            partition: Some("own/p".to_owned()),
            row: None,
        };
        keys.entity(own, properties.properties().clone())
            .map(|entity| entity.key().clone())
    }

    #[test]
    fn keys_are_written_as_the_library_writes_key_parts() {
        let hour: table_core::model::Ticks = "2013-01-01T10:00:00Z".parse().unwrap();
        let row = Entity::new("", "")
            .unwrap()
            .with("origin", "EWR")
            .with("carrier", "UA")
            .with("flight", 15);
        let row = row.with("time_hour", hour);
        let made = key(
            "{origin}",
            "{time_hour:hour}_{carrier}_{flight:u32:04}",
            &row,
        )
        .unwrap();
        assert_eq!(
            (made.partition(), made.row()),
            ("EWR", "2013-01-01T10_UA_0015")
        );
        assert!(
            key("{origin}", "{tailnum}", &row)
                .unwrap_err()
                .contains("'tailnum'")
        );
    }

    #[test]
    fn a_number_is_decimal_text_unless_the_part_asks_for_an_encoding() {
        let row = Entity::new("", "")
            .unwrap()
            .with("id", 0)
            .with("long", -5_i64)
            .with("real", 2.5);
        let made = key("{id}_{long}", "{real}_{id:06}_{id:i32}", &row).unwrap();
        assert_eq!(
            (made.partition(), made.row()),
            ("0_-5", "2.5_000000_2147483648")
        );
    }

    #[test]
    fn the_key_of_the_file_is_a_column_of_templates() {
        let row = Entity::new("", "").unwrap().with("id", 1);
        assert_eq!(
            key("{PartitionKey}", "{id}", &row).unwrap().partition(),
            "own~2Fp"
        );
        assert!(
            key("{PartitionKey}", "{RowKey}_{id}", &row)
                .unwrap_err()
                .contains("'RowKey'")
        );
        for (template, reason) in [
            ("{id[]}", "a list"),
            ("{@id}", "write {id}"),
            ("{id", "not closed"),
        ] {
            let refused = KeyTemplates::new(Some("p"), Some(template))
                .unwrap_err()
                .to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        assert!(KeyTemplates::new(Some("{origin}"), None).is_err());
    }
}
