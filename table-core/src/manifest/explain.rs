//! Which index holds all results of a query.
//!
//! An index may serve a query only if every entity that the query can find has an entry, and if that entry is among those that the lookup reads.
//! So the conditions of the query must imply the type of the index, its `where` filter, the presence of every property in its keys, and the values of
//! the leading parts of its keys. Conditions that the lookup does not settle are left to the reader of the results.

use super::evaluate::{read_field, write_part};
use super::value::PartValue;
use super::{
    Discriminator, IndexDefinition, IndexKeys, KeySegment, KeyTemplate, PartEncoding, PartSource,
    Payload, Placement, Shape, TemplatePart, Text, Transform,
};
use crate::model::{
    EdmValue, INDEX_NAME, Key, KeyBuilder, KeyPartType, PartFormat, Properties, ValueRef,
};
use crate::query::{AccessPath, Comparison, Explanation, Filter, FilterNode, KeyBounds, Query};

/// What a program knows of the entities because it has their Rust type.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct KnownType<'a> {
    /// The name of the Rust type.
    pub rust_name: &'a str,
    /// The schema version.
    pub version: u32,
    /// The properties that every stored entity has.
    pub required: Vec<&'a str>,
}

impl Explanation {
    /// Adds the best of these indexes that has all results of the query: most parts of its key are fixed, and then no entity is read.
    ///
    /// `query.select` has the properties that a result needs, and `query.top` is set if the query returns the first results only.
    #[doc(hidden)]
    #[must_use]
    pub fn with_indexes<'d>(
        mut self,
        query: &Query,
        definitions: impl IntoIterator<Item = &'d IndexDefinition>,
        known: Option<&KnownType<'_>>,
    ) -> Self {
        // No lookup costs less than a point query.
        if self.path != AccessPath::Point {
            let serving = definitions
                .into_iter()
                .filter_map(|definition| serving(definition, query, &self.keys, known));
            let best = serving.reduce(|best, next| if next.0 > best.0 { next } else { best });
            self.index = best.map(|(_, text)| text).or(self.index);
        }
        self
    }
}

/// Returns the rank and the description of an index that has all results of a query.
fn serving(
    definition: &IndexDefinition,
    query: &Query,
    keys: &KeyBounds,
    known: Option<&KnownType<'_>>,
) -> Option<((usize, bool), String)> {
    let IndexKeys::Templates {
        partition_key,
        row_key,
    } = &definition.keys
    else {
        return None;
    };
    // A list gives an entity several entries. A summary and a copy do not lead to entities.
    let leads_to_entities = matches!(
        definition.shape,
        Shape::Row | Shape::List { .. } | Shape::Blob
    );
    if !leads_to_entities || definition.parts().any(|part| part.each) {
        return None;
    }
    let mut search = Search::new(definition, query.filter.as_ref()?, keys, known)?;
    if !search.has_every_result() {
        return None;
    }
    let partition = match partition_key {
        None => {
            search.labels.push("PartitionKey".to_owned());
            keys.partition.as_single()?.to_owned()
        }
        Some(template) => search.fill(template).filter(|filled| filled.is_whole)?.text,
    };
    let row = search.fill(row_key)?;
    // Otherwise the keys of the entities lead to the results as well.
    if search.properties == 0 {
        return None;
    }
    let is_one = row.is_whole && definition.shape == Shape::Row;
    // The first entries are not the first entities.
    if query.top.is_some() && !is_one {
        return None;
    }
    search.settle_keys(partition_key.is_none());
    let left = search.left();
    let reads_entities = !has_needed(definition, query, left.as_ref(), known);
    let cost = match (row.is_whole, definition.shape.is_list(), reads_entities) {
        (true, false, false) => "1 request",
        (true, false, true) => "2 requests",
        (true, true, _) => "1 request or more for the list, and 1 for each entity",
        (false, _, false) => "1 request for each page of entries",
        (false, _, true) => "1 request for each page of entries, and 1 for each entity",
    };
    let name = &definition.name;
    let lookup = match known {
        Some(known) => format!("table.by({}::by_{name}(..))", known.rust_name),
        None => dynamic_lookup(definition, &partition, &row, reads_entities),
    };
    let mut text = format!(
        "index {name}: the query fixes {} of its key '{}{row_key}'; {lookup} costs {cost}",
        search.labels.join(", "),
        partition_key
            .iter()
            .map(|template| format!("{template} "))
            .collect::<String>(),
    );
    if let Some(left) = left {
        text.push_str(&format!("; keep the results that match {left}"));
    }
    if definition.placement != Placement::SamePartition {
        text.push_str("; its entries follow the writes of entities");
    }
    Some(((search.labels.len(), !reads_entities), text))
}

/// Returns the call that looks up entries without the Rust type.
fn dynamic_lookup(
    definition: &IndexDefinition,
    partition: &str,
    row: &Filled,
    reads_entities: bool,
) -> String {
    let (name, text) = (&definition.name, &row.text);
    let trust = if reads_entities { "Entity" } else { "Entry" };
    match (row.is_whole, definition.shape.is_list()) {
        (true, true) => format!("entities.list({name:?}, &Key::new({partition:?}, {text:?})?)"),
        (true, false) => {
            format!("entities.find({name:?}, &Key::new({partition:?}, {text:?})?, Trust::{trust})")
        }
        (false, _) => format!(
            "entities.all({name:?}, &IndexQuery::partition({partition:?}).prefix({text:?}), Trust::{trust})"
        ),
    }
}

/// Whether the entries have the properties that a result and its remaining conditions need.
fn has_needed(
    definition: &IndexDefinition,
    query: &Query,
    left: Option<&Filter>,
    known: Option<&KnownType<'_>>,
) -> bool {
    let mut compared = Vec::new();
    if let Some(left) = left {
        left.for_each_property(&mut |name| compared.push(name));
    }
    let discriminator = definition.entity.discriminator.property();
    let has = |stored: &[Text], name: &str| {
        stored.iter().any(|stored| stored == name)
            || discriminator == Some(name)
            || [Filter::PARTITION_KEY, Filter::ROW_KEY, INDEX_NAME].contains(&name)
    };
    let has_all = |stored: &[Text]| {
        query.select.as_ref().is_some_and(|select| {
            let mut needed = select.names().chain(compared.iter().copied());
            needed.all(|name| has(stored, name))
        })
    };
    match &definition.payload {
        // An entry is a copy of the properties: it has a Timestamp of its own.
        Payload::Full => !compared.contains(&Filter::TIMESTAMP),
        Payload::Fields(names) => has_all(names),
        // Only a row of the first version does not say its version.
        Payload::Reference => {
            definition.shape == Shape::Row
                && known.is_some_and(|known| known.version == 1)
                && has_all(&[])
        }
    }
}

/// A key of entries, as far as the query fixes it.
struct Filled {
    text: String,
    is_whole: bool,
}

/// The conditions of a query, compared with one index.
struct Search<'a> {
    definition: &'a IndexDefinition,
    keys: &'a KeyBounds,
    known: Option<&'a KnownType<'a>>,
    /// The conditions that every result satisfies, and whether every entity that the lookup finds satisfies them too.
    conditions: Vec<(&'a Filter, bool)>,
    /// The sources that have one value in all entities that the lookup finds.
    exact: Vec<&'a PartSource>,
    /// The parts that the query fixes, for the description.
    labels: Vec<String>,
    /// The number of these parts that are properties.
    properties: usize,
}

impl<'a> Search<'a> {
    fn new(
        definition: &'a IndexDefinition,
        filter: &'a Filter,
        keys: &'a KeyBounds,
        known: Option<&'a KnownType<'a>>,
    ) -> Option<Self> {
        let conditions = joined_by_and(filter)?;
        Some(Self {
            definition,
            keys,
            known,
            conditions: conditions.into_iter().map(|c| (c, false)).collect(),
            exact: Vec::new(),
            labels: Vec::new(),
            properties: 0,
        })
    }

    /// Whether every result has the type of the index, matches its `where` filter, and has all properties of its keys.
    fn has_every_result(&mut self) -> bool {
        let entity = &self.definition.entity;
        let has_type = match (
            &entity.discriminator,
            entity.discriminator.filter(&entity.name),
        ) {
            (Discriminator::Property(_), Some(filter)) => self.requires(&filter),
            (_, Some(filter)) => {
                let keys = Query::new().with_filter(filter.clone()).service_bounds();
                self.requires(&filter);
                self.keys.clone().intersect(keys) == *self.keys
            }
            (_, None) => true,
        };
        let has_condition = match self.definition.condition() {
            Ok(None) => true,
            Ok(Some(filter)) => self.requires(&filter),
            Err(_) => false,
        };
        let has_properties = self.definition.parts().all(|part| match &part.source {
            PartSource::Property(name) => {
                self.known
                    .is_some_and(|known| known.required.contains(&&**name))
                    || self
                        .conditions
                        .iter()
                        .any(|(c, _)| implies_presence(c, name))
            }
            _ => true,
        });
        has_type && has_condition && has_properties
    }

    /// Whether the conditions contain a filter of the index, which its entries then settle.
    fn requires(&mut self, filter: &Filter) -> bool {
        let Some(required) = joined_by_and(filter) else {
            return false;
        };
        for (condition, settled) in &mut self.conditions {
            *settled |= required.contains(&*condition);
        }
        required.iter().all(|one| {
            self.conditions
                .iter()
                .any(|(condition, _)| condition == one)
        })
    }

    /// Writes the leading parts of a key whose values the query fixes.
    fn fill(&mut self, template: &'a KeyTemplate) -> Option<Filled> {
        let mut key = KeyBuilder::new("key", "");
        for (at, segment) in template.segments().iter().enumerate() {
            let part = match segment {
                KeySegment::Literal(text) => {
                    key = key.literal(text);
                    continue;
                }
                KeySegment::Part(part) => part,
            };
            let format = PartFormat {
                width: part.width,
                separator: template.separator(at),
            };
            let Some(next) = self.write(&key, part, format) else {
                let is_last = at + 1 == template.segments().len();
                let text = self.start(key, part, format, is_last);
                return Some(Filled {
                    text,
                    is_whole: false,
                });
            };
            key = next;
        }
        Some(Filled {
            text: key.finish(),
            is_whole: true,
        })
    }

    /// Writes a part that has the same text in the entries of all results; `None` if the query does not fix it.
    fn write(
        &mut self,
        key: &KeyBuilder,
        part: &'a TemplatePart,
        format: PartFormat,
    ) -> Option<KeyBuilder> {
        let is_whole_value = part.transforms.iter().all(|t| *t == Transform::Descending);
        let PartSource::Property(name) = &part.source else {
            let written = write_all(key, part, format, [self.key_value(part)?])?;
            if is_whole_value {
                self.exact.push(&part.source);
            }
            return self.fixed(part, written);
        };
        for at in 0..self.conditions.len() {
            let condition = self.conditions[at].0;
            let Some(literals) = comparisons_of(condition, name) else {
                continue;
            };
            if literals.iter().any(|(c, _)| *c != Comparison::Equal) {
                continue;
            }
            // Only the Rust type writes such a part. It writes equal values as equal texts, and its lookups need no text here.
            if part.is_opaque() {
                self.known?;
                return self.fixed(part, key.clone());
            }
            let stored = literals.iter().flat_map(|(_, value)| equal_values(value));
            // A value that the type cannot have is in no entity.
            let values = stored.filter_map(|v| PartValue::from_stored(&part.encoding, v).ok());
            let Some(written) = write_all(key, part, format, values) else {
                continue;
            };
            if is_whole_value && is_exact(condition, name, &part.encoding) {
                self.conditions[at].1 = true;
            }
            return self.fixed(part, written);
        }
        None
    }

    fn fixed(&mut self, part: &TemplatePart, written: KeyBuilder) -> Option<KeyBuilder> {
        let label = match &part.source {
            PartSource::Property(name) => {
                self.properties += 1;
                name
            }
            PartSource::KeyField(name) => name,
            PartSource::PartitionKey => "PartitionKey",
            PartSource::RowKey => "RowKey",
        };
        // A shard and its value are two parts of one property.
        if !self.labels.iter().any(|known| known == label) {
            self.labels.push(label.to_owned());
        }
        Some(written)
    }

    /// Returns the value of a part of the entity's key.
    fn key_value(&self, part: &TemplatePart) -> Option<PartValue<'a>> {
        let (partition, row) = (self.keys.partition.as_single(), self.keys.row.as_single());
        let entity = &self.definition.entity;
        let name = match &part.source {
            PartSource::PartitionKey => return Some(PartValue::Text(partition?.into())),
            PartSource::RowKey => return Some(PartValue::Text(row?.into())),
            PartSource::KeyField(name) => name,
            PartSource::Property(_) => return None,
        };
        let templates = [
            (true, &entity.partition_key, partition),
            (false, &entity.row_key, row),
        ];
        let (of_partition, template, text) = templates
            .into_iter()
            .filter_map(|(which, template, text)| Some((which, template.as_ref()?, text?)))
            .find(|(_, template, _)| template.has(&part.source))?;
        let key = Key::new(partition.unwrap_or(text), row.unwrap_or(text)).ok()?;
        let value = read_field(template, of_partition, &key, name)?;
        value.with_declared_type(&part.encoding).ok()
    }

    /// Adds the start of a text, or says that the query has a range of the part, where the lookup can have it too.
    fn start(
        &mut self,
        key: KeyBuilder,
        part: &TemplatePart,
        format: PartFormat,
        is_last: bool,
    ) -> String {
        let (PartSource::Property(name), PartEncoding::Declared(part_type)) =
            (&part.source, &part.encoding)
        else {
            return key.finish();
        };
        if *part_type == KeyPartType::Text {
            let prefix = self.prefix_of(name).filter(|_| part.transforms.is_empty());
            let Some(prefix) = prefix else {
                return key.finish();
            };
            self.requires(&Filter::starts_with(name, prefix));
            self.labels.push(format!("the start of {name}"));
            self.properties += 1;
            return key.text_prefix(prefix, format).finish();
        }
        // The ends of a range are not written, so only a typed lookup, which writes them, can have it.
        let has_range = self.known.is_some()
            && part.transforms.iter().all(|t| *t == Transform::Descending)
            && (is_last || part.key_width().is_some());
        let mut ranges = 0;
        for (condition, settled) in self.conditions.iter_mut().filter(|_| has_range) {
            let literals = comparisons_of(condition, name).unwrap_or_default();
            let is_range = |(comparison, value): &(Comparison, &EdmValue)| {
                let fits = PartValue::from_stored(&part.encoding, value.as_ref()).is_ok();
                fits && ![Comparison::Equal, Comparison::NotEqual].contains(comparison)
            };
            if !literals.is_empty() && literals.iter().all(is_range) {
                *settled |= is_exact(condition, name, &part.encoding);
                ranges += 1;
            }
        }
        if ranges > 0 {
            self.labels.push(format!("a range of {name}"));
            self.properties += 1;
        }
        key.finish()
    }

    /// Returns the text with which every result starts in this property.
    fn prefix_of(&self, name: &str) -> Option<&'a str> {
        self.conditions.iter().find_map(|(condition, _)| {
            let FilterNode::Compare {
                property,
                comparison: Comparison::GreaterThanOrEqual,
                value: EdmValue::String(text),
            } = condition.node()
            else {
                return None;
            };
            let prefix = Filter::starts_with(property, text);
            let required = joined_by_and(&prefix)?;
            let has = |one: &&Filter| self.conditions.iter().any(|(c, _)| c == one);
            (&**property == name && required.iter().all(has)).then_some(&**text)
        })
    }

    /// Settles the conditions of complete keys that all entities of the lookup have.
    fn settle_keys(&mut self, in_partition_of_entity: bool) {
        let entity = &self.definition.entity;
        let has = |source: &PartSource| self.exact.contains(&source);
        // A template without parts fixes no key: the query may have another text.
        let has_all = |template: &KeyTemplate| {
            template.parts().next().is_some() && template.parts().all(|part| has(&part.source))
        };
        let is_fixed = |whole: &PartSource, template: &Option<KeyTemplate>| {
            has(whole) || template.as_ref().is_some_and(has_all)
        };
        let partition =
            in_partition_of_entity || is_fixed(&PartSource::PartitionKey, &entity.partition_key);
        let row = is_fixed(&PartSource::RowKey, &entity.row_key);
        for (condition, settled) in &mut self.conditions {
            if let FilterNode::Compare {
                property,
                comparison: Comparison::Equal,
                ..
            } = condition.node()
            {
                *settled |= (&**property == Filter::PARTITION_KEY && partition)
                    || (&**property == Filter::ROW_KEY && row);
            }
        }
    }

    /// Returns the conditions that entities of the lookup may not satisfy.
    fn left(&self) -> Option<Filter> {
        let left = self.conditions.iter().filter(|(_, settled)| !settled);
        left.map(|(condition, _)| (*condition).clone())
            .reduce(Filter::and)
    }
}

/// Returns the conditions that are joined by `and` at the top of a filter; `None` if it is too large for recursion.
fn joined_by_and(filter: &Filter) -> Option<Vec<&Filter>> {
    if !filter.is_bounded() {
        return None;
    }
    let (mut pending, mut conditions) = (vec![filter], Vec::new());
    while let Some(filter) = pending.pop() {
        match filter.node() {
            FilterNode::And(a, b) => pending.extend([b, a]),
            _ => conditions.push(filter),
        }
    }
    Some(conditions)
}

/// Whether an entity that matches has the property. No comparison matches an absent property, and `not` does.
fn implies_presence(filter: &Filter, name: &str) -> bool {
    match filter.node() {
        FilterNode::Compare { property, .. } => &**property == name,
        FilterNode::And(a, b) => implies_presence(a, name) || implies_presence(b, name),
        FilterNode::Or(a, b) => implies_presence(a, name) && implies_presence(b, name),
        FilterNode::Not(_) => false,
    }
}

/// Returns the comparisons of a filter that is one comparison of this property, or several joined by `or`: a typed field is compared
/// with literals of each type that it may be stored as.
fn comparisons_of<'f>(filter: &'f Filter, name: &str) -> Option<Vec<(Comparison, &'f EdmValue)>> {
    match filter.node() {
        FilterNode::Compare {
            property,
            comparison,
            value,
        } => (&**property == name).then(|| vec![(*comparison, value)]),
        FilterNode::Or(a, b) => {
            let mut all = comparisons_of(a, name)?;
            all.extend(comparisons_of(b, name)?);
            Some(all)
        }
        FilterNode::And(..) | FilterNode::Not(_) => None,
    }
}

/// Returns the stored values that equal a literal.
fn equal_values(literal: &EdmValue) -> Vec<ValueRef<'_>> {
    let mut values = vec![literal.as_ref()];
    match literal {
        EdmValue::Int32(n) => {
            values.extend([ValueRef::Int64((*n).into()), ValueRef::Double((*n).into())]);
        }
        EdmValue::Int64(n) => values.push(ValueRef::Double(*n as f64)),
        _ => {}
    }
    values
}

/// Appends a part with each of the values; `None` if there is no value, or if their texts differ.
fn write_all<'v>(
    key: &KeyBuilder,
    part: &TemplatePart,
    format: PartFormat,
    values: impl IntoIterator<Item = PartValue<'v>>,
) -> Option<KeyBuilder> {
    let mut written: Option<KeyBuilder> = None;
    for value in values {
        let mut next = key.clone();
        write_part(&mut next, part, value, format).ok()?;
        let differs = |first: &KeyBuilder| first.clone().finish() != next.clone().finish();
        if written.as_ref().is_some_and(differs) {
            return None;
        }
        written = Some(next);
    }
    written
}

/// Whether an entity that is found by the values of a condition matches the condition, as whatever type the property is stored.
fn is_exact(condition: &Filter, name: &str, encoding: &PartEncoding) -> bool {
    let (PartEncoding::Declared(part_type), Some(literals)) =
        (encoding, comparisons_of(condition, name))
    else {
        return false;
    };
    match part_type {
        // These types have one stored form.
        KeyPartType::Text
        | KeyPartType::Bool
        | KeyPartType::Time
        | KeyPartType::Day
        | KeyPartType::Uuid => literals.len() == 1,
        KeyPartType::F64 | KeyPartType::Hour | KeyPartType::Custom => false,
        _ => is_exact_of_integer(condition, name, encoding, &literals),
    }
}

/// As [`is_exact`], for integers, which are stored as Int32 or Int64. The result of a comparison changes only at its literal, so the numbers around
/// it show whether the condition finds both types.
fn is_exact_of_integer(
    condition: &Filter,
    name: &str,
    encoding: &PartEncoding,
    literals: &[(Comparison, &EdmValue)],
) -> bool {
    let integer = |value: &EdmValue| match value {
        EdmValue::Int32(n) => Some(i64::from(*n)),
        EdmValue::Int64(n) => Some(*n),
        _ => None,
    };
    let Some((comparison, Some(number))) = literals.first().map(|(c, v)| (*c, integer(v))) else {
        return false;
    };
    let is_same = |(c, v): &(Comparison, &EdmValue)| *c == comparison && integer(v) == Some(number);
    let around = [number.checked_sub(1), Some(number), number.checked_add(1)];
    let agrees = |n: i64| {
        let narrow = i32::try_from(n).ok().map(EdmValue::Int32);
        let stored = narrow.into_iter().chain([EdmValue::Int64(n)]);
        let mut readable = stored.filter(|v| PartValue::from_stored(encoding, v.as_ref()).is_ok());
        readable.all(|value| {
            let mut properties = Properties::new();
            properties.set(name, value);
            let expected = comparison.holds(Some(n.cmp(&number)));
            Key::new("", "")
                .is_ok_and(|key| condition.matches_parts(&key, None, &properties) == expected)
        })
    };
    literals.iter().all(is_same) && around.into_iter().flatten().all(agrees)
}
