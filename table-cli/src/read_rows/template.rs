//! Keys from the columns of a file, by templates.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use table_core::manifest::{
    Evaluator, IndexDefinition, KeySegment, KeyTemplate, PartEncoding, PartSource, Placement,
    TemplatePart,
};
use table_core::model::{Entity, Key, KeyPartType, Properties, TableName, ValueRef};
use table_core::store::ErrorKind;

use super::{PARTITION_KEY, ROW_KEY};
use crate::entity_text::value_text;
use crate::failure::{Failure, Result};

/// How keys are made from the columns of a file.
#[derive(Clone, Debug)]
pub(crate) struct KeyTemplates(Option<Result<Arc<Templates>, String>>);

#[derive(Debug)]
struct Templates {
    evaluator: Evaluator,
    values: Vec<TemplateValue>,
    /// Parts that need a value of some type.
    typed: Vec<TypedPart>,
}

/// A part that needs a value of a type, such as `{age:u32}`.
#[derive(Clone, Debug)]
struct TypedPart {
    part: String,
    column: String,
    /// The needed value, for an error.
    needed: &'static str,
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
    /// Parses the templates of PartitionKey and RowKey. Both are given, or neither. A template that cannot be parsed is a
    /// [problem](Self::problem), which is told with the columns of the file.
    pub(crate) fn new(partition: Option<&str>, row: Option<&str>) -> Result<Self> {
        match (partition, row) {
            (None, None) => Ok(Self(None)),
            (Some(partition), Some(row)) => {
                Ok(Self(Some(Templates::parse(partition, row).map(Arc::new))))
            }
            _ => Err(Failure::misuse(
                "give both --partition-key and --row-key, or neither",
            )),
        }
    }

    /// Why the templates are refused.
    pub(super) fn problem(&self) -> Option<&str> {
        self.0.as_ref()?.as_ref().err().map(String::as_str)
    }

    fn templates(&self) -> Option<&Templates> {
        self.0.as_ref()?.as_deref().ok()
    }

    /// The columns that the templates read; `None` without templates.
    pub(super) fn columns(&self) -> Option<BTreeSet<&str>> {
        let values = self.templates()?.values.iter();
        Some(values.map(|value| &*value.column).collect())
    }

    /// Makes the entity of a row: by the templates, or with the keys of the file.
    pub(super) fn entity(&self, key: FileKey, properties: Properties) -> Result<Entity, String> {
        let Some(templates) = self.templates() else {
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
        let row = Entity::from_parts(none, values);
        let keys = templates
            .evaluator
            .entry_keys(&row)
            .map_err(|error| templates.unfit(&row, &error))?;
        let key = keys
            .into_iter()
            .next()
            .ok_or("the key templates give no key")?;
        Ok(Entity::from_parts(key, properties))
    }
}

impl Templates {
    fn parse(partition: &str, row: &str) -> Result<Self, String> {
        let (mut values, mut typed) = (Vec::new(), Vec::new());
        let partition = template(PARTITION_KEY, partition, &mut values, &mut typed)?;
        let row = template(ROW_KEY, row, &mut values, &mut typed)?;
        let text = |error: table_core::Error| error.to_string();
        // The library evaluates templates as the keys of an index. In another table no key is an entity's own.
        let table = TableName::new("Keys").map_err(text)?;
        let definition =
            IndexDefinition::keyed("keys", Placement::OtherTable(table), Some(partition), row);
        Ok(Self {
            evaluator: definition.evaluator().map_err(text)?,
            values,
            typed,
        })
    }

    /// Why the templates give no key for a row.
    fn unfit(&self, row: &Entity, error: &table_core::Error) -> String {
        for TypedPart {
            part,
            column,
            needed,
        } in &self.typed
        {
            if let Some(ValueRef::String(text)) = row.get(column) {
                return format!(
                    "the part {part} of a key template needs {needed}, and the column '{column}' has the text {text:?}: give \
                     --type COLUMN=TYPE, or write {{{column}}} for the text"
                );
            }
        }
        let reason = match error.root().kind() {
            // Without the name of the index and the key of the entity: an import has neither.
            ErrorKind::InvalidKey { reason, .. } => {
                reason.replace(&format!(" of {}", row.key()), "")
            }
            _ => error.to_string(),
        };
        format!("the key templates do not fit the row: {reason}")
    }
}

/// Parses a template. Its parts become values of their own names.
fn template(
    name: &str,
    text: &str,
    values: &mut Vec<TemplateValue>,
    typed: &mut Vec<TypedPart>,
) -> Result<KeyTemplate, String> {
    let refused = |reason: String| format!("the template of the {name}, {text:?}: {reason}");
    let parsed: KeyTemplate = text.parse().map_err(|error: table_core::Error| {
        let reason = match error.kind() {
            ErrorKind::InvalidKey { reason, .. } => reason.clone(),
            _ => error.to_string(),
        };
        refused(format!(
            "{reason}; a column with another name is read with --rename 'COLUMN=Name'"
        ))
    })?;
    let segments = parsed.segments().iter().map(|segment| match segment {
        KeySegment::Literal(literal) => Ok(KeySegment::Literal(literal.clone())),
        KeySegment::Part(part) => {
            let part = value_part(part, values).map_err(&refused)?;
            typed.extend(typed_part(&part));
            Ok(KeySegment::Part(part))
        }
    });
    KeyTemplate::new(segments.collect::<Result<_, String>>()?).map_err(refused)
}

/// The part, if it needs a value of a type.
fn typed_part(part: &TemplatePart) -> Option<TypedPart> {
    let (PartSource::Property(column), PartEncoding::Declared(declared)) =
        (&part.source, &part.encoding)
    else {
        return None;
    };
    let needed = match declared {
        KeyPartType::Text | KeyPartType::Custom => return None,
        KeyPartType::Bool => "true or false",
        KeyPartType::Time | KeyPartType::Day | KeyPartType::Hour => "a time",
        KeyPartType::Uuid => "a Guid",
        _ => "a number",
    };
    Some(TypedPart {
        part: part.to_string(),
        column: column.to_string(),
        needed,
    })
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
    fn a_part_that_needs_another_value_is_named() {
        let row = Entity::new("", "")
            .unwrap()
            .with("name", "ann")
            .with("n", -1);
        for (template, reason) in [
            (
                "{name:u32}",
                "the part {name:u32} of a key template needs a number, and the column 'name' has the text \"ann\"",
            ),
            ("{n}_{name:day}", "needs a time"),
            ("{n:u32}", "the key templates do not fit the row: {n:u32}: "),
        ] {
            let unfit = key("p", template, &row).unwrap_err();
            assert!(unfit.contains(reason), "{unfit}");
        }
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
            let templates = KeyTemplates::new(Some("p"), Some(template)).unwrap();
            let refused = templates.problem().unwrap();
            assert!(refused.contains(reason), "{refused}");
        }
        assert!(KeyTemplates::new(Some("{origin}"), None).is_err());
    }
}
