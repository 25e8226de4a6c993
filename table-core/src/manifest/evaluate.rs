use std::borrow::Cow;
use std::collections::HashSet;

use super::value::PartValue;
use super::{
    IndexDefinition, IndexKeys, KeySegment, KeyTemplate, PartEncoding, PartSource, Placement,
    TemplatePart, Transform,
};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{Entity, Key, KeyBuilder, KeyParser, PartFormat, Ticks, ValueError, ValueRef};
use crate::query::Filter;

/// Evaluates an [`IndexDefinition`] on stored entities.
#[derive(Clone, Debug)]
pub struct Evaluator {
    definition: IndexDefinition,
    condition: Option<Filter>,
}

impl Evaluator {
    pub(super) fn new(definition: IndexDefinition) -> Result<Self> {
        definition.validate()?;
        let condition = definition.condition()?;
        Ok(Self {
            definition,
            condition,
        })
    }

    /// Returns the definition.
    pub const fn definition(&self) -> &IndexDefinition {
        &self.definition
    }

    /// Whether type and condition of the index admit an entity.
    ///
    /// # Errors
    /// Fails if the condition compares a property with the encrypt mark.
    pub fn admits(&self, entity: &Entity) -> Result<bool> {
        if !self.definition.entity.admits(entity) {
            return Ok(false);
        }
        let Some(condition) = &self.condition else {
            return Ok(true);
        };
        let mut marked = None;
        condition.for_each_property(&mut |name| {
            if entity
                .properties()
                .find(name)
                .is_some_and(|p| p.is_encrypted())
            {
                marked = Some(name);
            }
        });
        match marked {
            Some(name) => Err(Error::invalid_declaration(format!(
                "the index '{}': its condition compares '{name}' of {}, which must be encrypted; the existence of an entry would \
                 reveal the value",
                self.definition.name,
                entity.key()
            ))),
            None => Ok(condition.matches(entity)),
        }
    }

    /// Returns the distinct keys of an entity's entries. There are none if type or condition do not admit the entity, or if a
    /// property of the keys is absent.
    ///
    /// # Errors
    /// Fails if
    ///
    /// - the definition is opaque,
    /// - a stored value does not fit the declared type or width, or has the encrypt mark,
    /// - the entity's key does not fit the key templates of its type, or
    /// - a key of an entry is too long, or an entity could have the key.
    pub fn entry_keys(&self, entity: &Entity) -> Result<Vec<Key>> {
        let IndexDefinition {
            name,
            placement,
            keys,
            ..
        } = &self.definition;
        let IndexKeys::Templates {
            partition_key,
            row_key,
        } = keys
        else {
            return Err(self.opaque_error());
        };
        if !self.admits(entity)? {
            return Ok(Vec::new());
        }
        let (mut keys, mut seen) = (Vec::new(), HashSet::new());
        for element in self.elements(entity)? {
            let partition = match partition_key {
                None => Some(entity.key().partition().to_owned()),
                Some(template) => self.fill("PartitionKey", template, entity, element.as_ref())?,
            };
            let Some(partition) = partition else { continue };
            let Some(row) = self.fill("RowKey", row_key, entity, element.as_ref())? else {
                continue;
            };
            let key = Key::new(partition, row)?;
            // Such an entry would replace an entity, or be read as one. The derive refuses the templates that always
            // collide; here are those that collide for some values.
            if !matches!(placement, Placement::OtherTable(_)) && self.is_key_of_entity(&key) {
                return Err(entity_key_error(name, &self.definition.entity.name, &key));
            }
            // Two elements may have one key, such as `A` and `a` with `lower`. A group can write a row once only.
            if seen.insert(key.clone()) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// Returns the greatest number of entries that an entity can have, without their keys: the elements of the list in the keys,
    /// or one. A function of an opaque definition returns one key.
    ///
    /// # Errors
    /// Returns the errors of [`entry_keys`](Self::entry_keys) for the list.
    #[doc(hidden)]
    pub fn most_entries(&self, entity: &Entity) -> Result<usize> {
        Ok(self.elements(entity)?.len())
    }

    /// Returns the elements of the list in the keys, one key per element; a single `None` if there is no list.
    fn elements<'e>(&self, entity: &'e Entity) -> Result<Vec<Option<PartValue<'e>>>> {
        let Some(part) = self.definition.parts().find(|part| part.each) else {
            return Ok(vec![None]);
        };
        let PartSource::Property(name) = &part.source else {
            return Ok(Vec::new());
        };
        let Some(value) = self.property(name, entity)? else {
            return Ok(Vec::new());
        };
        let elements = PartValue::parse_list(&part.encoding, value)
            .map_err(|e| self.invalid_key(entity, name, &e))?;
        // Before any key is computed: a request of some kilobytes must not cost seconds.
        if elements.len() > limits::LIST_ELEMENTS {
            let (index, key, count, most) = (
                &self.definition.name,
                entity.key(),
                elements.len(),
                limits::LIST_ELEMENTS,
            );
            let quantity = format!(
                "elements of '{name}' of {key}, each with an entry of the index '{index}' (shorten the list, or drop the index)"
            );
            return Err(Error::limit(quantity, most, count));
        }
        Ok(elements.into_iter().map(Some).collect())
    }

    /// Computes a key of an entity by a template; `None` if a property is absent. `element` is the element of the list that the key
    /// is for.
    fn fill(
        &self,
        which: &'static str,
        template: &KeyTemplate,
        entity: &Entity,
        element: Option<&PartValue<'_>>,
    ) -> Result<Option<String>> {
        let mut key = KeyBuilder::new(which, "");
        for (at, segment) in template.segments().iter().enumerate() {
            let part = match segment {
                KeySegment::Literal(text) => {
                    key = key.literal(text);
                    continue;
                }
                KeySegment::Part(part) => part,
            };
            let value = match element {
                Some(element) if part.each => element.clone(),
                _ => match self.value(part, entity)? {
                    Some(value) => value,
                    None => return Ok(None),
                },
            };
            let format = PartFormat {
                width: part.width,
                separator: template.separator(at),
            };
            write_part(&mut key, part, value, format)
                .map_err(|e| self.invalid_key(entity, &part.to_string(), &e))?;
        }
        Ok(Some(key.finish()))
    }

    /// Returns the value of a part, before its transforms.
    fn value<'e>(&self, part: &TemplatePart, entity: &'e Entity) -> Result<Option<PartValue<'e>>> {
        let key = entity.key();
        let value = match &part.source {
            PartSource::PartitionKey => Ok(PartValue::Text(Cow::Borrowed(key.partition()))),
            PartSource::RowKey => Ok(PartValue::Text(Cow::Borrowed(key.row()))),
            PartSource::KeyField(name) => self
                .key_field(part, name, key)?
                .with_declared_type(&part.encoding),
            PartSource::Property(name) => {
                let Some(value) = self.property(name, entity)? else {
                    return Ok(None);
                };
                PartValue::from_stored(&part.encoding, value)
            }
        };
        value
            .map(Some)
            .map_err(|e| self.invalid_key(entity, &part.to_string(), &e))
    }

    /// Returns a property. Refuses a property with the encrypt mark.
    fn property<'e>(&self, name: &str, entity: &'e Entity) -> Result<Option<ValueRef<'e>>> {
        match entity.properties().find(name) {
            None => Ok(None),
            // Before anything else reads the value: no error and no key may show it.
            Some(p) if p.is_encrypted() => {
                let reason = "it must be encrypted, but keys are plaintext: use a blind index";
                Err(Error::invalid_key("index key", name, reason))
            }
            Some(p) => Ok(Some(p.value())),
        }
    }

    /// Reads a field from the entity's key, by the key templates of its type.
    fn key_field<'e>(
        &self,
        part: &TemplatePart,
        name: &str,
        key: &'e Key,
    ) -> Result<PartValue<'e>> {
        let entity = &self.definition.entity;
        // A field in both keys has the same value in both, so the first template with the field is enough.
        let templates = [(true, &entity.partition_key), (false, &entity.row_key)];
        for (of_partition, template) in templates {
            let Some(template) = template
                .as_ref()
                .filter(|template| template.has(&part.source))
            else {
                continue;
            };
            return read_field(template, of_partition, key, name).ok_or_else(|| {
                let which = if of_partition {
                    "PartitionKey"
                } else {
                    "RowKey"
                };
                Error::decode(
                    "entity of an index",
                    key,
                    which,
                    format!("a key like {template}"),
                    "another key",
                )
            });
        }
        Err(Error::invalid_declaration(format!(
            "the index '{}': '{name}' is in no key template of the entities",
            self.definition.name
        )))
    }

    /// Whether an entity of the type could have a key.
    fn is_key_of_entity(&self, key: &Key) -> bool {
        let entity = &self.definition.entity;
        match (&entity.partition_key, &entity.row_key) {
            (Some(partition), Some(row)) => fits_templates(partition, row, key),
            _ => false,
        }
    }

    fn opaque_error(&self) -> Error {
        Error::manifest_mismatch(format!(
            "the index '{}' is opaque: Rust code that this program does not have computes its keys",
            self.definition.name
        ))
    }

    fn invalid_key(&self, entity: &Entity, part: &str, error: &ValueError) -> Error {
        let reason = format!("{part} of {}: {error}", entity.key());
        Error::invalid_key("index key", &self.definition.name, reason)
    }
}

/// Returns the error for an entry whose key an entity could have.
pub(crate) fn entity_key_error(index: &str, entity: &str, key: &Key) -> Error {
    Error::invalid_declaration(format!(
        "the index '{index}' of {entity} gives an entry the key {key}, which an entity could have: start the key \
         template of the index with another text"
    ))
}

impl KeyTemplate {
    /// Returns the text with which the keys of a time begin, up to the first part, which is the time; `None` if the template does not begin
    /// with a literal and a part that a time can be.
    #[doc(hidden)]
    pub fn start_at(&self, time: Ticks) -> Option<String> {
        let [KeySegment::Literal(prefix), KeySegment::Part(part), ..] = self.segments() else {
            return None;
        };
        let mut key = KeyBuilder::new("index key", "").literal(prefix);
        let format = PartFormat {
            width: part.width,
            separator: self.separator(1),
        };
        write_part(&mut key, part, PartValue::Time(time), format).ok()?;
        Some(key.finish())
    }
}

/// Appends a value with the transforms and the encoding of its part.
pub(super) fn write_part(
    key: &mut KeyBuilder,
    part: &TemplatePart,
    mut value: PartValue<'_>,
    format: PartFormat,
) -> Result<(), ValueError> {
    let mut descending = false;
    for transform in &*part.transforms {
        match transform {
            Transform::Lower => value = value.lower()?,
            Transform::Prefix(count) => value = value.prefix(*count)?,
            Transform::Date => value = value.date()?,
            Transform::Hour => value = value.hour()?,
            Transform::Descending => descending = true,
            Transform::Shard(count) => return value.write_shard(*count, key),
        }
    }
    value.write(key, descending, format)
}

/// Returns the value of a field in a key; `None` if the key does not fit the template.
pub(super) fn read_field<'v>(
    template: &KeyTemplate,
    of_partition: bool,
    key: &Key,
    name: &str,
) -> Option<PartValue<'v>> {
    let mut parser = parser(of_partition, key);
    let mut found = None;
    for (at, segment) in template.segments().iter().enumerate() {
        match segment {
            KeySegment::Literal(text) => parser.literal(text).ok()?,
            KeySegment::Part(part) => {
                let value = read_part(&mut parser, part, template.separator(at))?;
                if matches!(&part.source, PartSource::KeyField(field) if field == name) {
                    found = found.or(Some(value));
                }
            }
        }
    }
    // A key that does not fit as a whole was not written by this type. Its parts mean nothing, also those that could
    // be read.
    parser.finish().ok()?;
    found
}

fn parser(of_partition: bool, key: &Key) -> KeyParser<'_> {
    if of_partition {
        KeyParser::partition("entity", "", key)
    } else {
        KeyParser::row("entity", "", key)
    }
}

/// Reads a part of an entity's key. Templates of entities have no transforms except descending order.
fn read_part<'e>(
    parser: &mut KeyParser<'_>,
    part: &TemplatePart,
    separator: Option<char>,
) -> Option<PartValue<'e>> {
    let PartEncoding::Declared(part_type) = part.encoding else {
        return None;
    };
    let descending = part.transforms.contains(&Transform::Descending);
    PartValue::parse_key(
        part_type,
        descending,
        parser,
        PartFormat {
            width: part.width,
            separator,
        },
    )
}

/// Whether a key fits both templates, and each field that occurs twice has one value.
fn fits_templates(partition: &KeyTemplate, row: &KeyTemplate, key: &Key) -> bool {
    let mut fields: Vec<(&str, PartValue<'_>)> = Vec::new();
    for (of_partition, template) in [(true, partition), (false, row)] {
        let mut parser = parser(of_partition, key);
        for (at, segment) in template.segments().iter().enumerate() {
            let part = match segment {
                KeySegment::Literal(text) if parser.literal(text).is_ok() => continue,
                KeySegment::Literal(_) => return false,
                KeySegment::Part(part) => part,
            };
            // Only Rust code can read an opaque part, so assume that the key fits.
            if part.is_opaque() {
                return true;
            }
            let (Some(value), PartSource::KeyField(name)) = (
                read_part(&mut parser, part, template.separator(at)),
                &part.source,
            ) else {
                return false;
            };
            match fields.iter().find(|(known, _)| *known == name) {
                Some((_, first)) if *first != value => return false,
                Some(_) => {}
                None => fields.push((name, value)),
            }
        }
        if parser.finish().is_err() {
            return false;
        }
    }
    true
}
