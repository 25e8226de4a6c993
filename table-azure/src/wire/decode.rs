//! Parses an entity from JSON.

use std::borrow::Cow;

use table_core::Result;
use table_core::model::{ETag, EdmType, Entity, Key, PageEntities, Properties, TableName, Ticks};
use table_core::store::limits;

use super::json;
use super::json::{Json, Scalar};
use super::value::{push_value, retype};

const TYPE: &str = "@odata.type";

/// Maximum number of properties, without keys and Timestamp. It bounds the comparisons per name, so that
/// parsing takes time in proportion to the bytes.
const MAX_PROPERTIES: usize = limits::CUSTOM_PROPERTIES;

/// Parses one entity.
///
/// A null is an absent property. A value without a type annotation becomes: a string a String; an integer an
/// Int32, or an Int64 if it needs 64 bits; a number with decimals or an exponent a Double.
///
/// # Errors
/// Fails if the bytes are not the JSON of an entity, if a property occurs twice, if there are more properties
/// than the service allows, or if a value does not have its annotated type.
///
/// ```
/// use table_azure::wire::decode_entity;
/// use table_core::model::ValueRef;
/// let json = br#"{"PartitionKey":"p","RowKey":"r","N@odata.type":"Edm.Int64","N":"5"}"#;
/// assert_eq!(decode_entity(json)?.get("N"), Some(ValueRef::Int64(5)));
/// # Ok::<(), table_core::Error>(())
/// ```
pub fn decode_entity(json: &[u8]) -> Result<Entity> {
    json::read(json, |document| {
        let mut reader = EntityReader::with_capacity(document.bytes_left());
        let EntityParts {
            partition,
            row,
            etag,
            timestamp,
            properties,
        } = reader.read(document)?;
        let key = Key::new(partition, row).map_err(|e| document.parse_error(e.to_string()))?;
        let entity = Entity::from_parts(key, std::mem::take(properties));
        Ok(entity.with_system(etag.map(ETag::from), timestamp))
    })
}

/// Parses entities one after another.
#[derive(Default)]
pub(super) struct EntityReader<'a> {
    shape: Shape<'a>,
    values: Values<'a>,
    annotations: Annotations<'a>,
    names: Names,
}

/// The names of an entity's properties, as a set that may contain more: one bit for each hash. A name that is not in it is new,
/// without a comparison with the others.
#[derive(Default)]
struct Names(u128);

impl Names {
    /// All names.
    const ALL: Self = Self(u128::MAX);

    /// Adds a name. Returns whether the set may have contained it before (the opposite of `HashSet::insert`).
    #[inline]
    fn add_may_have_contained(&mut self, name: &str) -> bool {
        // Length and three characters, in which the names of a type mostly differ. Two names with one bit cost a
        // search, never a wrong answer.
        let bytes = name.as_bytes();
        let at = |place: usize| bytes.get(place).copied().map_or(0, usize::from);
        let (first, middle, last) = (
            at(0),
            at(bytes.len() / 2),
            at(bytes.len().saturating_sub(1)),
        );
        let bit = 1 << ((bytes.len() + 5 * first + 11 * middle + 23 * last) % 128);
        let known = self.0 & bit != 0;
        self.0 |= bit;
        known
    }
}

/// The entity that was parsed last.
pub(super) struct EntityParts<'r> {
    pub(super) partition: &'r str,
    pub(super) row: &'r str,
    pub(super) etag: Option<&'r str>,
    pub(super) timestamp: Option<Ticks>,
    pub(super) properties: &'r mut Properties,
}

impl<'a> EntityReader<'a> {
    /// Reserves `bytes` for packed properties.
    fn with_capacity(bytes: usize) -> Self {
        let values = Values {
            properties: Properties::with_capacity(bytes),
            ..Values::default()
        };
        Self {
            values,
            ..Self::default()
        }
    }

    pub(super) fn read(&mut self, json: &mut Json<'a>) -> json::Result<EntityParts<'_>> {
        self.shape.start();
        self.values.clear();
        // First the members that are as in the previous entity, by one comparison each; then the others, by their
        // names. Most entities of a page have no others.
        while let Some(member) = self.shape.follow(json) {
            self.values.read(json, member)?;
        }
        self.read_others(json)?;
        let corrected = self.annotations.correct(&mut self.values.properties);
        corrected
            .and_then(|()| self.values.parts())
            .map_err(|reason| json.parse_error(reason))
    }

    /// Parses the members that differ from the previous entity's.
    fn read_others(&mut self, json: &mut Json<'a>) -> json::Result<()> {
        // `from` is where the last value ended, so that the text since then is all that precedes the next value:
        // separators, annotation and name. `Shape` keeps this text.
        let mut from = json.at();
        if !json.next_name_from(self.shape.is_followed())? {
            return Ok(());
        }
        // The followed members were not added to the set. With all names in it, each further name is searched.
        self.names = if self.shape.is_followed() {
            Names::ALL
        } else {
            Names::default()
        };
        self.shape.stop_prediction();
        loop {
            let name = json.name()?;
            if name.ends_with(TYPE) {
                self.annotations.read(json, name)?;
            } else {
                let (member, before) = (self.member(name), json.since(from));
                self.check_new(json, &member)?;
                self.values.read(json, &member)?;
                self.shape.keep(before, member, self.annotations.is_empty());
                from = json.at();
            }
            if !json.next_name()? {
                return Ok(());
            }
        }
    }

    /// A name may occur once in an entity: with two values it would be unclear which of them counts.
    #[inline]
    fn check_new(&mut self, json: &Json<'_>, member: &Member<'_>) -> json::Result<()> {
        let Member::Property(name, _) = member else {
            return Ok(());
        };
        if !self.names.add_may_have_contained(name) {
            return Ok(());
        }
        // A null is no property, but its name has occurred: `has_followed` knows it.
        if self.values.properties.find(name).is_none() && !self.shape.has_followed(name) {
            return Ok(());
        }
        Err(json
            .parse_error("the property occurs twice")
            .of_property(name))
    }

    fn member(&mut self, name: Cow<'a, str>) -> Member<'a> {
        match &*name {
            "PartitionKey" => Member::Partition,
            "RowKey" => Member::Row,
            "Timestamp" => Member::Timestamp,
            "odata.etag" => Member::ETag,
            other if other.starts_with("odata.") || other.bytes().any(|b| b == b'@') => {
                Member::Other
            }
            other => {
                let edm_type = self.annotations.take(other);
                Member::Property(name, edm_type)
            }
        }
    }
}

/// The values of an entity.
#[derive(Default)]
struct Values<'a> {
    partition: Option<Cow<'a, str>>,
    row: Option<Cow<'a, str>>,
    etag: String,
    has_etag: bool,
    timestamp: Option<Ticks>,
    /// Whether the entity had a Timestamp, or null in its place.
    has_timestamp: bool,
    properties: Properties,
    /// The number of properties that are not null.
    count: usize,
}

impl<'a> Values<'a> {
    fn clear(&mut self) {
        self.properties.clear();
        self.count = 0;
        (self.partition, self.row, self.timestamp) = (None, None, None);
        (self.has_etag, self.has_timestamp) = (false, false);
    }

    #[inline]
    fn read(&mut self, json: &mut Json<'a>, member: &Member<'a>) -> json::Result<()> {
        match member {
            Member::Property(name, edm_type) => {
                let value = json.scalar().map_err(|e| e.of_property(name))?;
                // A null stands for a selected property that the entity does not have. It takes no room, so it does
                // not count.
                self.count += usize::from(value != Scalar::Null);
                if self.count > MAX_PROPERTIES {
                    return Err(json.parse_error(format!("more than {MAX_PROPERTIES} properties")));
                }
                push_value(&mut self.properties, name, *edm_type, &value)
                    .map_err(|e| json.parse_error(e))?;
            }
            Member::Partition => {
                check_once(json, "PartitionKey", self.partition.is_some())?;
                self.partition = Some(json.text()?);
            }
            Member::Row => {
                check_once(json, "RowKey", self.row.is_some())?;
                self.row = Some(json.text()?);
            }
            Member::Timestamp => {
                check_once(json, "Timestamp", self.has_timestamp)?;
                (self.timestamp, self.has_timestamp) = (timestamp(json)?, true);
            }
            Member::ETag => {
                // Azurite can write the ETag twice (Azurite#1536). The last ETag counts: if it is wrong, the service refuses the next
                // write with a condition.
                // All entities of a page share this buffer: an ETag has escapes, so its text cannot be
                // borrowed from the JSON.
                self.etag.clear();
                json.text_into(&mut self.etag)?;
                self.has_etag = true;
            }
            Member::Other => json.skip()?,
        }
        Ok(())
    }

    fn parts(&mut self) -> Result<EntityParts<'_>, String> {
        Ok(EntityParts {
            partition: self
                .partition
                .as_deref()
                .ok_or("the entity has no PartitionKey")?,
            row: self.row.as_deref().ok_or("the entity has no RowKey")?,
            etag: self.has_etag.then_some(&*self.etag),
            timestamp: self.timestamp,
            properties: &mut self.properties,
        })
    }
}

/// Annotated types whose values have not been read yet.
#[derive(Default)]
struct Annotations<'a> {
    /// The last annotation: services write each annotation directly before its value.
    next: Option<(Cow<'a, str>, EdmType)>,
    other: Vec<(Cow<'a, str>, EdmType)>,
}

impl<'a> Annotations<'a> {
    const fn is_empty(&self) -> bool {
        self.next.is_none() && self.other.is_empty()
    }

    fn read(&mut self, json: &mut Json<'a>, annotation: Cow<'a, str>) -> json::Result<()> {
        let edm_type = type_name(json)?;
        let length = annotation.len() - TYPE.len();
        let name = match annotation {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..length]),
            Cow::Owned(mut text) => {
                text.truncate(length);
                Cow::Owned(text)
            }
        };
        if self.other.len() == MAX_PROPERTIES {
            return Err(json.parse_error(format!(
                "more than {MAX_PROPERTIES} type annotations without a value"
            )));
        }
        // The type of the Timestamp is fixed. Its annotation would wait for a value that does not ask for it.
        if name != "Timestamp" {
            let is_known = |known: &Cow<'_, str>| *known == name;
            let pending = self.next.iter().chain(&self.other);
            if pending.map(|(known, _)| known).any(is_known) {
                return Err(json
                    .parse_error("the type is annotated twice")
                    .of_property(&name));
            }
            self.other.extend(self.next.replace((name, edm_type)));
        }
        Ok(())
    }

    /// Takes the annotation of the value that follows.
    fn take(&mut self, name: &str) -> Option<EdmType> {
        if let Some((_, edm_type)) = self.next.take_if(|(next, _)| next == name) {
            return Some(edm_type);
        }
        // No service writes annotations in another order. Such JSON is read correctly, but slower.
        let at = self.other.iter().position(|(other, _)| other == name)?;
        Some(self.other.swap_remove(at).1)
    }

    /// Applies annotations to properties that preceded them.
    fn correct(&mut self, properties: &mut Properties) -> Result<(), String> {
        let late = self.other.drain(..).chain(self.next.take());
        late.into_iter()
            .try_for_each(|(name, edm_type)| retype(properties, &name, edm_type))
    }
}

/// Refuses a key or system property that occurs twice.
#[inline]
fn check_once(json: &Json<'_>, name: &str, is_known: bool) -> json::Result<()> {
    if is_known {
        Err(json
            .parse_error("the property occurs twice")
            .of_property(name))
    } else {
        Ok(())
    }
}

/// Parses a time or null.
fn timestamp(json: &mut Json<'_>) -> json::Result<Option<Ticks>> {
    match json.scalar()? {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => text
            .parse()
            .map(Some)
            .map_err(|_| json.parse_error("the Timestamp is not a time")),
        _ => Err(json.parse_error("the Timestamp is not a string")),
    }
}

fn type_name(json: &mut Json<'_>) -> json::Result<EdmType> {
    let name = json.text()?;
    EdmType::from_name(&name).ok_or_else(|| json.parse_error(format!("unknown type {name:?}")))
}

// Parses answers with many items: the entities of a query, the names of tables.

/// Parses the entities of a page. They share buffers: see [`Entity::detached`].
///
/// # Errors
/// Fails if the bytes are not the JSON of a page, or if a value does not have its annotated type.
pub fn decode_entities(json: &[u8]) -> Result<Vec<Entity>> {
    let (mut entities, mut reader) = (PageEntities::new(), EntityReader::default());
    json::read(json, |document| {
        listing(document, |json| {
            let left = json.bytes_left();
            let EntityParts {
                partition,
                row,
                etag,
                timestamp,
                properties,
            } = reader.read(json)?;
            let pushed = entities.push(partition, row, properties, etag, timestamp);
            pushed.map_err(|e| json.parse_error(e.to_string()))?;
            if entities.len() == 1 {
                // An estimate: the number of entities if all have the size of the first.
                entities.reserve(json.bytes_left() / (left - json.bytes_left()).max(1));
            }
            Ok(())
        })
    })?;
    Ok(entities.into_entities())
}

/// Parses a page of table names.
///
/// # Errors
/// Fails if the bytes are not the JSON of such a page, or if a name is not valid for a table.
pub fn decode_table_names(json: &[u8]) -> Result<Vec<TableName>> {
    let mut names = Vec::new();
    json::read(json, |document| {
        listing(document, |json| {
            names.push(table_name(json)?);
            Ok(())
        })
    })?;
    names.into_iter().map(TableName::new).collect()
}

/// `{"odata.metadata": …, "value": [item, …]}`.
fn listing<'a>(
    json: &mut Json<'a>,
    mut item: impl FnMut(&mut Json<'a>) -> json::Result<()>,
) -> json::Result<()> {
    let mut found = false;
    json.object(|json, name| {
        if name != "value" {
            return json.skip();
        }
        found = true;
        json.array(&mut item)
    })?;
    if found {
        Ok(())
    } else {
        Err(json.parse_error("the listing has no `value`"))
    }
}

/// Reads the `TableName` of an item of a listing.
fn table_name(json: &mut Json<'_>) -> json::Result<String> {
    let mut table = None;
    json.object(|json, name| {
        if name != "TableName" {
            return json.skip();
        }
        table = Some(json.text()?.into_owned());
        Ok(())
    })?;
    table.ok_or_else(|| json.parse_error("the table has no `TableName`"))
}

// Predicts the members of an entity from the previous entity. The entities of a page mostly have the same
// properties in the same order, so the text between two values is likely the same; then one comparison finds
// name and type.

/// A member of an entity's JSON object.
pub(super) enum Member<'a> {
    Partition,
    Row,
    Timestamp,
    ETag,
    /// A property and its annotated type.
    Property(Cow<'a, str>, Option<EdmType>),
    /// A member that is ignored.
    Other,
}

/// A member, and the text between the preceding value and its own value: separators, annotation, name.
struct Step<'a> {
    before: &'a str,
    member: Member<'a>,
}

/// The members of the previous entity.
#[derive(Default)]
pub(super) struct Shape<'a> {
    steps: Vec<Step<'a>>,
    /// How many members of the current entity equal the previous entity's so far.
    followed: usize,
    /// Whether each member so far is independent: its annotation, if any, is in the text directly before it.
    can_keep: bool,
}

/// Maximum number of members kept. Entities have fewer, except for nulls, which stand for selected properties
/// that the entity does not have.
const MAX_STEPS: usize = 2 * limits::CUSTOM_PROPERTIES;

/// Most entities have fewer members: the steps then need one allocation.
const FEW_STEPS: usize = 24;

impl<'a> Shape<'a> {
    /// Starts an entity.
    pub(super) const fn start(&mut self) {
        (self.followed, self.can_keep) = (0, true);
    }

    /// Returns the next member if it equals the previous entity's. Its value follows.
    #[inline]
    pub(super) fn follow(&mut self, json: &mut Json<'a>) -> Option<&Member<'a>> {
        let step = self.steps.get(self.followed)?;
        // `before` reaches from the previous value to this one. If it is the same text, then it is the same name with
        // the same annotation, and no other member is in between.
        json.skip_exact(step.before).then(|| {
            self.followed += 1;
            &step.member
        })
    }

    /// Whether a property with this name was followed or kept in the current entity.
    pub(super) fn has_followed(&self, name: &str) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(&step.member, Member::Property(known, _) if known == name))
    }

    /// Whether any member of the current entity was followed.
    pub(super) const fn is_followed(&self) -> bool {
        self.followed > 0
    }

    /// Stops the prediction: from here on the current entity differs from the previous one.
    pub(super) fn stop_prediction(&mut self) {
        // The steps that follow are of the previous entity; `keep` replaces them by those of this one.
        self.steps.truncate(self.followed);
    }

    /// Keeps a member for the next entity. `alone` says that no annotation is pending for another member.
    pub(super) fn keep(&mut self, before: &'a str, member: Member<'a>, alone: bool) {
        // An annotation that waits for a later value is not in the text before that value. Such an entity is not a
        // prediction for the next one, from this member on.
        self.can_keep &= alone && self.steps.len() < MAX_STEPS;
        if self.can_keep {
            if self.steps.is_empty() {
                self.steps.reserve(FEW_STEPS);
            }
            self.steps.push(Step { before, member });
        }
    }
}
