use std::collections::HashSet;

use crate::error::{Error, LimitKind, Result};
use crate::limits;
use crate::model::{
    EdmType, Entity, Key, PackedProperty, PartitionKey, Properties, PropertyRef, ValueRef,
};
use crate::operation::{GroupTransaction, Operation};
use crate::profile::ServiceProfile;
use crate::query::{Filter, Query, identifier_problem};

/// Refuses an operation that the service would refuse, or that would store a marked property in plaintext or a property name twice.
///
/// # Errors
/// Names the violated limit, name, value or mark.
pub fn check_operation(profile: &ServiceProfile, operation: &Operation) -> Result<()> {
    check_with(profile, operation, &mut CheckedNames::default())
}

/// Like [`check_operation`]. `names` are the names of the entities that were checked before.
fn check_with<'a>(
    profile: &ServiceProfile,
    operation: &'a Operation,
    names: &mut CheckedNames<'a>,
) -> Result<()> {
    check_key(profile, operation.key())?;
    if let Some(version) = operation.if_match() {
        version.check_form(operation.key())?;
    }
    let Some(entity) = operation.entity() else {
        return Ok(());
    };
    let (mut count, mut are_known, mut are_ordinary) = (0, true, true);
    for (place, property) in entity.properties().packed_properties().enumerate() {
        let name = names.check(profile, place, &property);
        are_known &= name == CheckedName::Known;
        are_ordinary &= name != CheckedName::Unusual;
        check_packed(profile, &property, name != CheckedName::Unusual)?;
        count = place + 1;
    }
    if !are_known {
        check_distinct(entity)?;
        if are_ordinary {
            names.add_distinct(count);
        }
    }
    check_size(profile, entity.key(), entity.properties())
}

/// Refuses an entity that has a property name twice: which of the values counts would depend on the reader.
fn check_distinct(entity: &Entity) -> Result<()> {
    let Some(name) = entity.properties().repeated_name() else {
        return Ok(());
    };
    let key = entity.key();
    Err(Error::invalid_value(
        name,
        format!(
            "it occurs twice in {key}, and an entity has each property once: remove one of the values"
        ),
    ))
}

/// Type, mark and name of properties that were checked, by their position. The entities of a group mostly have the same properties,
/// so most names are compared with one name and not checked again.
#[derive(Default)]
struct CheckedNames<'a> {
    names: Vec<&'a [u8]>,
    /// The first names of which no two are equal.
    distinct: usize,
    /// Whether further entities are checked. Otherwise no name is kept.
    is_group: bool,
}

/// What is known of a property name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckedName {
    /// It is the allowed name at this position of an earlier entity, and the names up to there differ from each other.
    Known,
    /// It is certainly allowed.
    Ordinary,
    Unusual,
}

impl<'a> CheckedNames<'a> {
    #[inline]
    fn check(
        &mut self,
        profile: &ServiceProfile,
        place: usize,
        property: &PackedProperty<'a>,
    ) -> CheckedName {
        let prefix = property.prefix();
        if self.names.get(place) == Some(&prefix) {
            return if place < self.distinct {
                CheckedName::Known
            } else {
                CheckedName::Ordinary
            };
        }
        if !is_ordinary_name(profile, property) {
            return CheckedName::Unusual;
        }
        if self.is_group {
            // From this position on, the entity differs from the one before, so the names that follow are not known
            // to be allowed.
            self.names.truncate(place);
            self.distinct = self.distinct.min(place);
            if place == self.names.len() {
                self.names.push(prefix);
            }
        }
        CheckedName::Ordinary
    }

    /// Notes that the first `count` names differ from each other: those of an entity whose names are all ordinary.
    fn add_distinct(&mut self, count: usize) {
        self.distinct = self.distinct.max(count.min(self.names.len()));
    }
}

/// Refuses an entity with too many properties or bytes. Counts them only if the upper bounds exceed the limits.
pub(crate) fn check_size(
    profile: &ServiceProfile,
    key: &Key,
    properties: &Properties,
) -> Result<()> {
    let bound = Tally::upper_bound(key, Some(properties));
    if bound.count <= profile.custom_properties && bound.bytes <= profile.entity_bytes {
        return Ok(());
    }
    let mut tally = Tally::of(key);
    properties
        .packed_properties()
        .for_each(|property| tally.add(&property));
    let Tally { count, bytes, .. } = tally;
    if count > profile.custom_properties {
        return Err(Error::limit_of_kind(
            LimitKind::PropertyCount,
            format!("properties of {key}"),
            profile.custom_properties,
            count,
        ));
    }
    if bytes > profile.entity_bytes {
        return Err(Error::limit_of_kind(
            LimitKind::EntitySize,
            format!("bytes of the entity {key}"),
            profile.entity_bytes,
            bytes,
        ));
    }
    Ok(())
}

/// Refuses a group that the service would refuse.
///
/// # Errors
/// Names the violated rule of groups, or returns a [`check_operation`] error with its index.
pub fn check_group(profile: &ServiceProfile, group: &GroupTransaction) -> Result<()> {
    if group.is_empty() {
        return Err(Error::misuse("the group transaction is empty"));
    }
    if group.len() > profile.group_operations {
        return Err(Error::limit_of_kind(
            LimitKind::GroupOperations,
            "operations in a group transaction",
            profile.group_operations,
            group.len(),
        ));
    }
    let (mut seen, mut names) = (
        HashSet::new(),
        CheckedNames {
            is_group: true,
            ..CheckedNames::default()
        },
    );
    for (index, operation) in group.operations().iter().enumerate() {
        // `push` has checked these rules; only an adapter that changed operations can have broken them.
        let member = if group.is_unchanged() {
            Ok(())
        } else {
            check_member(group.partition(), operation, &mut seen)
        };
        member
            .and_then(|()| check_with(profile, operation, &mut names))
            .map_err(|e| Error::in_transaction(index, e))?;
    }
    let bytes = group.payload_within(profile.group_bytes);
    bytes.map_err(|bytes| {
        Error::limit_of_kind(
            LimitKind::RequestSize,
            "bytes in a group transaction",
            profile.group_bytes,
            bytes,
        )
    })
}

/// Checks the rules of a group again, because its operations can be changed after they were pushed.
fn check_member<'a>(
    partition: &PartitionKey,
    operation: &'a Operation,
    seen: &mut HashSet<&'a Key>,
) -> Result<()> {
    let key = operation.key();
    if key.partition() != partition.as_str() {
        return Err(Error::misuse(format!(
            "{key} is not in the partition '{partition}'"
        )));
    }
    if !seen.insert(key) {
        return Err(Error::misuse(format!("{key} occurs twice")));
    }
    Ok(())
}

/// Refuses a query that the service would refuse.
///
/// # Errors
/// Fails if there are too many comparisons, if a name cannot be written in filter text, or if `top` is zero.
pub fn check_query(profile: &ServiceProfile, query: &Query) -> Result<()> {
    if query.top == Some(0) {
        return Err(Error::invalid_argument("top must be at least 1"));
    }
    let Some(filter) = &query.filter else {
        return Ok(());
    };
    filter.check_size()?;
    filter.check_names()?;
    let comparisons = filter.comparisons();
    match profile.filter_comparisons {
        Some(allowed) if comparisons > allowed => Err(Error::limit_of_kind(
            LimitKind::FilterSize,
            "comparisons in a filter",
            allowed,
            comparisons,
        )),
        _ => Ok(()),
    }
}

fn check_key(profile: &ServiceProfile, key: &Key) -> Result<()> {
    for (name, text) in [("PartitionKey", key.partition()), ("RowKey", key.row())] {
        let units = utf16(text);
        if units > profile.key_units {
            return Err(Error::limit_of_kind(
                LimitKind::KeyLength,
                format!("UTF-16 units in the {name}"),
                profile.key_units,
                units,
            ));
        }
    }
    match profile.row_key_bytes {
        Some(allowed) if key.row().len() > allowed => Err(Error::limit_of_kind(
            LimitKind::KeyLength,
            "bytes in the RowKey",
            allowed,
            key.row().len(),
        )),
        _ => Ok(()),
    }
}

/// Checks a property. A fast check accepts most properties.
#[inline]
fn check_packed(
    profile: &ServiceProfile,
    property: &PackedProperty<'_>,
    ordinary_name: bool,
) -> Result<()> {
    if ordinary_name && is_ordinary_value(profile, property) {
        return Ok(());
    }
    // The slow check decides, and names what is wrong. Bytes that cannot be parsed do not occur: `Properties` is
    // valid by construction.
    property
        .parse()
        .map_or(Ok(()), |property| check_property(profile, &property))
}

/// The bytes of ASCII identifiers. A table is several times faster than comparisons of each byte.
const IDENTIFIER: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < 256 {
        table[byte] = byte == b'_' as usize || (byte < 128 && (byte as u8).is_ascii_alphanumeric());
        byte += 1;
    }
    table
};

/// Whether name and mark of a property are certainly allowed.
#[inline]
fn is_ordinary_name(profile: &ServiceProfile, property: &PackedProperty<'_>) -> bool {
    let name = property.name;
    let identifier = name
        .iter()
        .fold(true, |all, byte| all & IDENTIFIER[usize::from(*byte)]);
    identifier
        && name.first().is_some_and(|first| !first.is_ascii_digit())
        && name.len() <= limits::PROPERTY_NAME_CHARS
        && !property.is_encrypted()
        // Two loops, because a chain of iterators takes several times as long.
        && !SYSTEM_PROPERTIES.iter().any(|taken| taken.as_bytes() == name)
        && !profile.reserved_properties.iter().any(|taken| taken.as_bytes() == name)
}

/// Whether a value is certainly allowed.
#[inline]
fn is_ordinary_value(profile: &ServiceProfile, property: &PackedProperty<'_>) -> bool {
    match property.edm_type {
        EdmType::Binary => property.value.len() <= limits::BINARY_BYTES,
        // Bytes in place of UTF-16 units: a character has at least as many bytes as units, so a text that passes here
        // is allowed.
        EdmType::String => property.value.len() <= limits::STRING_UNITS,
        EdmType::DateTime => {
            matches!(property.decode(), Some(ValueRef::DateTime(time)) if time.get() >= profile.datetime_min)
        }
        _ => true,
    }
}

fn check_property(profile: &ServiceProfile, property: &PropertyRef<'_>) -> Result<()> {
    let name = property.name();
    if let Some(reason) = name_problem(profile, name) {
        return Err(Error::invalid_name("property name", name, reason));
    }
    if utf16(name) > limits::PROPERTY_NAME_CHARS {
        return Err(Error::limit_of_kind(
            LimitKind::PropertyNameLength,
            format!("characters of the property name '{name}'"),
            limits::PROPERTY_NAME_CHARS,
            utf16(name),
        ));
    }
    if property.is_encrypted() && !profile.encrypts {
        let what = format!("the encrypted property '{name}'; put an encrypting store around it");
        return Err(Error::unsupported(profile.name, what));
    }
    check_value(profile, name, property.value())
}

/// The names of keys and system properties.
const SYSTEM_PROPERTIES: [&str; 3] = [Filter::PARTITION_KEY, Filter::ROW_KEY, Filter::TIMESTAMP];

fn name_problem(profile: &ServiceProfile, name: &str) -> Option<&'static str> {
    let reserved = || {
        profile
            .reserved_properties
            .contains(&name)
            .then_some("the service reserves it")
    };
    if SYSTEM_PROPERTIES.contains(&name) {
        return Some("the key or the store sets it; it cannot be a property");
    }
    identifier_problem(name).or_else(reserved)
}

fn check_value(profile: &ServiceProfile, name: &str, value: ValueRef<'_>) -> Result<()> {
    let too_long = |unit: &str, allowed, actual| {
        Err(Error::limit_of_kind(
            LimitKind::PropertyValueLength,
            format!("{unit} of the property '{name}'"),
            allowed,
            actual,
        ))
    };
    match value {
        ValueRef::Binary(v) if v.len() > limits::BINARY_BYTES => {
            too_long("bytes", limits::BINARY_BYTES, v.len())
        }
        ValueRef::String(v) if utf16(v) > limits::STRING_UNITS => {
            too_long("UTF-16 units", limits::STRING_UNITS, utf16(v))
        }
        ValueRef::DateTime(v) if v.get() < profile.datetime_min => Err(Error::invalid_value(
            name,
            format!("{v} is before 1601-01-01, the earliest DateTime"),
        )),
        _ => Ok(()),
    }
}

/// Returns the size of an entity by the service's formula: `4 + 2 * (PartitionKey + RowKey) + Σ (8 + 2 * name
/// + value)` in UTF-16 code units. A String takes `4 + 2 * units` and a Binary `4 + bytes`.
///
/// Measurements show that the service refuses entities that are less than 88 bytes below the limit by this
/// formula (<https://github.com/MicrosoftDocs/azure-docs/issues/68661>), so keep that distance.
///
/// <https://learn.microsoft.com/archive/blogs/avkashchauhan/how-the-size-of-an-entity-is-caclulated-in-windows-azure-table-storage>
pub fn entity_size(key: &Key, properties: &Properties) -> usize {
    let mut tally = Tally::of(key);
    properties
        .packed_properties()
        .for_each(|property| tally.add(&property));
    tally.bytes
}

/// The sizes of an entity that limits apply to, computed in one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// Number of properties.
    pub(super) count: usize,
    /// See [`entity_size`].
    pub(super) bytes: usize,
    /// See [`min_payload`].
    pub(crate) payload: usize,
}

/// No property has more bytes in [`entity_size`] or [`min_payload`] than this many times its packed bytes: a Boolean without
/// a name has 4 packed bytes and 9 by the service's formula, and a Guid 19 and 40 in a payload.
const MAX_PER_PACKED_BYTE: usize = 3;
/// Packed bytes of the smallest property: tag, length of the name, and a Boolean.
const MIN_PACKED: usize = 4;

impl Tally {
    /// Returns upper bounds of the sizes of an operation's entity or key, from lengths alone. Nearly all entities are far below the
    /// limits, so they need not be counted.
    #[inline]
    pub(crate) fn upper_bound(key: &Key, properties: Option<&Properties>) -> Self {
        let keys = key.partition().len() + key.row().len();
        let packed = properties.map_or(0, |properties| properties.as_packed().len());
        let properties = MAX_PER_PACKED_BYTE * packed;
        let (bytes, payload) = (4 + 2 * keys + properties, keys + properties);
        Self {
            count: packed / MIN_PACKED,
            bytes,
            payload,
        }
    }

    /// Like [`upper_bound`](Self::upper_bound), for an operation.
    #[inline]
    pub(crate) fn upper_bound_of(operation: &Operation) -> Self {
        Self::upper_bound(operation.key(), operation.entity().map(Entity::properties))
    }

    /// Returns the sizes of an entity without properties.
    pub(super) fn of(key: &Key) -> Self {
        let (partition, row) = (key.partition(), key.row());
        let bytes = 4 + 2 * (utf16(partition) + utf16(row));
        Self {
            count: 0,
            bytes,
            payload: partition.len() + row.len(),
        }
    }

    /// Returns the sizes of an operation's entity, or of the key that it deletes.
    pub(crate) fn of_operation(operation: &Operation) -> Self {
        let mut tally = Self::of(operation.key());
        operation
            .entity()
            .iter()
            .flat_map(|e| e.properties().packed_properties())
            .for_each(|property| tally.add(&property));
        tally
    }

    /// Adds a property.
    #[inline]
    pub(super) fn add(&mut self, property: &PackedProperty<'_>) {
        let value = property.value;
        let (size, payload) = match property.edm_type {
            EdmType::String => (4 + 2 * units(value), value.len()),
            // In JSON, bytes are base64: four characters for three bytes. A GUID has 36 characters, and the shortest
            // time 20.
            EdmType::Binary => (4 + value.len(), value.len().div_ceil(3) * 4),
            EdmType::Guid => (value.len(), 36),
            EdmType::DateTime => (value.len(), 20),
            EdmType::Boolean | EdmType::Double | EdmType::Int32 | EdmType::Int64 => {
                (value.len(), 1)
            }
        };
        self.count += 1;
        self.bytes += 8 + 2 * units(property.name) + size;
        // 4 bytes: two quotes, a colon, and a comma or brace.
        self.payload += property.name.len() + 4 + payload;
    }
}

/// Returns the bytes of one property by the formula of [`entity_size`].
pub fn property_size(name: &str, value: ValueRef<'_>) -> usize {
    let mut one = Properties::new();
    one.push(name, value, false);
    let mut tally = Tally {
        count: 0,
        bytes: 0,
        payload: 0,
    };
    one.packed_properties()
        .for_each(|property| tally.add(&property));
    tally.bytes
}

/// Returns the number of UTF-16 code units.
pub(crate) fn utf16(text: &str) -> usize {
    units(text.as_bytes())
}

/// Returns the number of UTF-16 code units of UTF-8 text: one per character, and one more per four-byte
/// character.
#[inline]
fn units(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.iter()
        .map(|byte| usize::from(byte & 0xC0 != 0x80) + usize::from(*byte >= 0xF0))
        .sum()
}

/// Returns a lower bound of an operation's bytes in a group transaction, for every JSON style: method, keys
/// twice and encoded at most once, names and values in their shortest form.
pub(super) fn min_payload(operation: &Operation) -> usize {
    Tally::of_operation(operation).payload
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::Ticks;

    /// Names that share a hash (length, first and last eight bytes) are told apart.
    #[test]
    fn a_repeated_name_is_found_among_similar_names() {
        let name = |n: usize| format!("Property{n:04}Of_Sensor");
        let mut properties = Properties::new();
        for n in 0..252 {
            properties.push(&name(n), ValueRef::Int32(1), false);
        }
        assert_eq!(properties.repeated_name(), None);
        for n in [0, 17, 251] {
            let mut twice = properties.clone();
            twice.push(&name(n), ValueRef::String("x"), true);
            assert_eq!(twice.repeated_name(), Some(&*name(n)));
            assert!(Properties::from_packed(twice.into_packed()).is_err());
        }
    }

    /// A name that was known from the entity before is compared with the other names of its own entity.
    #[test]
    fn names_of_a_group_are_compared_within_each_entity() {
        let profile = ServiceProfile::LOCAL;
        let entity = |row: &str, names: &[&str]| {
            let mut properties = Properties::new();
            names
                .iter()
                .for_each(|name| properties.push(name, ValueRef::Int32(1), false));
            Operation::Insert(Entity::from_parts(Key::new("p", row).unwrap(), properties))
        };
        let wrong = [
            vec![vec!["A", "A"]],
            vec![vec!["A", "B", "C"], vec!["A", "B", "A"]],
            vec![vec!["A", "B", "C"], vec!["A", "é", "C", "A"]],
            vec![vec!["A", "é", "C"], vec!["A", "B", "C", "B"]],
            vec![vec!["A", "B", "C"], vec!["A"], vec!["C", "B", "C"]],
        ];
        for entities in wrong {
            let partition = PartitionKey::new("p").unwrap();
            let mut group = GroupTransaction::new(partition, &profile);
            for (n, names) in entities.iter().enumerate() {
                group.push(entity(&n.to_string(), names)).unwrap();
            }
            let error = check_group(&profile, &group).unwrap_err();
            assert_eq!(
                error.failed_index(),
                Some(entities.len() - 1),
                "{entities:?}: {error}"
            );
        }
        let mut group = GroupTransaction::new(PartitionKey::new("p").unwrap(), &profile);
        for (n, names) in [vec!["A", "B"], vec!["A", "B", "C"], vec!["B", "A"], vec![]]
            .iter()
            .enumerate()
        {
            group.push(entity(&n.to_string(), names)).unwrap();
        }
        check_group(&profile, &group).unwrap();
    }

    #[test]
    fn upper_bounds_hold_for_every_type() {
        let (letters, umlauts, wide) = (
            "x".repeat(300),
            "\u{fc}".repeat(300),
            "\u{1F600}".repeat(300),
        );
        let texts = ["", "x", &letters, &umlauts, &wide];
        let mut values = vec![
            ValueRef::Boolean(true),
            ValueRef::Int32(7),
            ValueRef::Int64(7),
            ValueRef::Double(0.5),
            ValueRef::DateTime(Ticks::MIN),
            ValueRef::Guid(Uuid::nil()),
        ];
        values.extend(texts.map(ValueRef::String));
        values.extend(texts.map(|text| ValueRef::Binary(text.as_bytes())));
        for key in
            texts.map(|text| Key::new(text, text).unwrap_or_else(|_| Key::new("p", "r").unwrap()))
        {
            for value in &values {
                for name in texts {
                    let mut properties = Properties::new();
                    properties.push(name, *value, false);
                    let entity = Entity::from_parts(key.clone(), properties);
                    let operation = Operation::Insert(entity);
                    let (bound, exact) = (
                        Tally::upper_bound_of(&operation),
                        Tally::of_operation(&operation),
                    );
                    let fits = exact.count <= bound.count
                        && exact.bytes <= bound.bytes
                        && exact.payload <= bound.payload;
                    assert!(fits, "{exact:?} {bound:?} {operation:?}");
                }
            }
        }
    }
}
