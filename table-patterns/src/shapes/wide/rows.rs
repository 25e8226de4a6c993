//! The rows of a wide entity: their keys, the head row, the chunks, and which rows belong to one write.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};
use table_core::engine::property_size;
use table_core::model::{
    ETag, Entity, IfMatch, Key, Properties, PropertyRef, RowKey, SYSTEM_PREFIX, TableName, Ticks,
    ValueRef, key_order,
};
use table_core::query::{Filter, Query, Select};
use table_core::store::limits::{CUSTOM_PROPERTIES, ENTITY_BYTES};
use table_core::store::{Error, Result, ServiceProfile, TableStore};
use uuid::Uuid;

/// The property with the id of the write that wrote a row.
const WRITE: &str = "WideWrite";
/// The property of the head row with the list of chunks: `001:id,002:id`.
const ROWS: &str = "WideRows";
/// The property of the head row with the logical RowKey.
const ROW: &str = "WideRow";

/// The start of row keys that contain the logical RowKey.
const PLAIN: &str = "w_";
/// The start of row keys that contain a hash of the logical RowKey.
const HASHED: &str = "wh_";
/// Separates the logical RowKey from the row number.
const END: &str = "~~";
/// The number of digits of a row number.
const DIGITS: usize = 3;
/// The row number of the head row.
pub(super) const HEAD: u16 = 0;
/// The largest row number.
const MAX_CHUNK: u16 = 999;

/// An entity as it is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredWide {
    pub(super) key: Key,
    /// The version of the head row.
    pub(super) etag: Option<ETag>,
    pub(super) timestamp: Option<Ticks>,
    /// The id of the last write.
    pub(super) write: Box<str>,
    pub(super) chunks: BTreeMap<u16, Chunk>,
}

/// A row with properties of the entity.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) write: Box<str>,
    pub(super) properties: Properties,
}

/// The result of reading all rows of an entity.
#[derive(Debug)]
pub(super) enum ReadRows {
    Nothing,
    Whole(StoredWide),
    /// Rows of different writes. The id is that of the head row; `None` without a head row.
    Torn(Option<Box<str>>),
}

pub(super) fn new_write() -> Box<str> {
    Uuid::new_v4().simple().to_string().into()
}

/// Whether a row belongs to a wide entity.
pub(crate) fn is_wide_row(row: &Entity) -> bool {
    row.key().row().starts_with(SYSTEM_PREFIX) && row.get(WRITE).is_some()
}

/// Whether a row is the first row of a wide entity.
pub(crate) fn is_head_row(row: &Entity) -> bool {
    is_wide_row(row) && row.get(ROWS).is_some()
}

/// The common prefix of an entity's row keys.
pub(super) fn prefix(key: &Key, profile: &ServiceProfile) -> String {
    // The logical key is escaped and so has no tilde: the first `~~` behind it is the end mark, and no entity's prefix is the start of
    // another's. A range of row keys therefore holds the rows of one entity only.
    let plain = format!(
        "{SYSTEM_PREFIX}{PLAIN}{}{END}",
        key.row().replace('~', "~7E")
    );
    let units = plain.encode_utf16().count() + DIGITS;
    let bytes = plain.len() + DIGITS;
    if units <= profile.key_units && profile.row_key_bytes.is_none_or(|most| bytes <= most) {
        return plain;
    }
    let hash: String = Sha256::digest(key.row().as_bytes())
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    format!("{SYSTEM_PREFIX}{HASHED}{hash}{END}")
}

/// Splits a RowKey into the prefix of its entity and the row number; `None` for other rows.
pub(super) fn split(row: &str) -> Option<(&str, u16)> {
    let (prefix, number) = row.split_at_checked(row.len().checked_sub(DIGITS)?)?;
    let digits = number.bytes().all(|b| b.is_ascii_digit()) && prefix.ends_with(END);
    number
        .parse()
        .ok()
        .filter(|_| digits)
        .map(|number| (prefix, number))
}

/// The key of a row.
fn row_key(partition: &str, prefix: &str, number: u16) -> Result<Key> {
    Key::new(partition, format!("{prefix}{number:0DIGITS$}"))
}

/// Whether a wide entity with this key exists. 1 request.
pub(crate) async fn is_there(store: &dyn TableStore, table: &TableName, key: &Key) -> Result<bool> {
    let head = row_key(key.partition(), &prefix(key, store.profile()), HEAD)?;
    Ok(store
        .get(table, &head, Some(&Select::new([WRITE])))
        .await?
        .is_some())
}

/// The query for all rows of one entity.
pub(super) fn query(partition: &str, prefix: &str) -> Query {
    within(partition, &format!("{prefix}0"), &format!("{prefix}:"))
}

/// The query for all rows of all entities in a partition or the table, after the entity with this prefix.
pub(super) fn query_all(partition: Option<&str>, after: Option<&str>) -> Query {
    let start = format!("{SYSTEM_PREFIX}w");
    let end = key_order::key_prefix_end(&start).unwrap_or_default();
    // `:` follows the digits, so the range starts after the rows of this entity.
    let start = after.map_or(start, |after| format!("{after}:"));
    let partition = partition.map(|partition| Filter::eq(Filter::PARTITION_KEY, partition));
    let filter = Filter::and_maybe(partition, Some(rows(&start, &end)));
    Query {
        filter,
        ..Query::new()
    }
}

/// The query for all rows of all entities in the table, after the entity with this partition and prefix.
pub(super) fn query_table(after: Option<(&str, &str)>) -> Query {
    let Some((partition, after)) = after else {
        return query_all(None, None);
    };
    let later = Filter::gt(Filter::PARTITION_KEY, partition);
    let (here, later) = match (
        query_all(Some(partition), Some(after)).filter,
        query_all(None, None).filter,
    ) {
        (Some(here), Some(rows)) => (here, later.and(rows)),
        (here, _) => (here.unwrap_or_else(|| later.clone()), later),
    };
    // The disjunction says which rows are meant. The first condition repeats its lower bound outside of the `or`, so that the service reads
    // the table from there and not from its start.
    Query::new().with_filter(Filter::ge(Filter::PARTITION_KEY, partition).and(here.or(later)))
}

fn within(partition: &str, from: &str, before: &str) -> Query {
    Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, partition).and(rows(from, before)))
}

fn rows(from: &str, before: &str) -> Filter {
    Filter::ge(Filter::ROW_KEY, from).and(Filter::lt(Filter::ROW_KEY, before))
}

impl StoredWide {
    /// The key of one of the entity's rows.
    pub(super) fn row_key(&self, prefix: &str, number: u16) -> Result<Key> {
        row_key(self.key.partition(), prefix, number)
    }

    /// The condition that the head row has the version that was read.
    pub(super) fn version(&self) -> Result<IfMatch> {
        let etag = self.etag.clone().map(IfMatch::Exactly);
        etag.ok_or_else(|| Error::missing_etag(&self.key))
    }

    /// The head row.
    pub(super) fn head(&self, prefix: &str) -> Result<Entity> {
        let list = self
            .chunks
            .iter()
            .map(|(number, chunk)| format!("{number:0DIGITS$}:{}", chunk.write));
        let list = list.collect::<Vec<_>>().join(",");
        let head = Entity::from(self.row_key(prefix, HEAD)?);
        Ok(head
            .with(WRITE, &*self.write)
            .with(ROWS, list)
            .with(ROW, self.key.row()))
    }

    /// The logical entity.
    pub(super) fn to_entity(&self) -> Entity {
        let bytes = self
            .chunks
            .values()
            .map(|chunk| chunk.properties.as_packed().len())
            .sum();
        let mut all = Properties::with_capacity(bytes);
        for chunk in self.chunks.values() {
            chunk
                .properties
                .iter()
                .for_each(|p| all.push(p.name(), p.value(), p.is_encrypted()));
        }
        Entity::from_parts(self.key.clone(), all).with_system(self.etag.clone(), self.timestamp)
    }
}

impl Chunk {
    /// The row of the chunk.
    pub(super) fn to_entity(&self, key: Key) -> Entity {
        let mut properties = self.properties.clone();
        properties.push(WRITE, ValueRef::String(&self.write), false);
        Entity::from_parts(key, properties)
    }

    fn read(entity: Entity) -> Result<Self> {
        let write = text(&entity, WRITE)?.into();
        let (_, mut properties) = entity.into_parts();
        properties.remove(WRITE);
        Ok(Self { write, properties })
    }
}

/// Assembles the entity, if all rows belong to one state: the list in the head row names exactly the chunks that were read,
/// with the ids of their writes.
pub(super) fn assemble(rows: Vec<Entity>) -> Result<ReadRows> {
    let (mut head, mut chunks) = (None, BTreeMap::new());
    for row in rows {
        match split(row.key().row()) {
            Some((_, HEAD)) => head = Some(row),
            Some((_, number)) => drop(chunks.insert(number, Chunk::read(row)?)),
            None => {
                return Err(damaged(
                    &row,
                    "RowKey",
                    "a row number of three digits at the end",
                ));
            }
        }
    }
    let Some(head) = head else {
        return Ok(if chunks.is_empty() {
            ReadRows::Nothing
        } else {
            ReadRows::Torn(None)
        });
    };
    let key = Key::new(head.key().partition(), RowKey::new(text(&head, ROW)?)?)?;
    let (etag, timestamp) = (head.etag().cloned(), head.timestamp());
    let stored = StoredWide {
        key,
        etag,
        timestamp,
        write: text(&head, WRITE)?.into(),
        chunks,
    };
    // The rows are read by several requests, so a write in between may mix old and new rows. The head row lists the write id of every chunk,
    // and is written in the same group: the rows are of one state if the chunks that were read give the same list.
    let listed = stored.head("")?;
    let is_consistent = listed.get(ROWS) == head.get(ROWS);
    Ok(if is_consistent {
        ReadRows::Whole(stored)
    } else {
        ReadRows::Torn(Some(stored.write))
    })
}

/// The logical key, which the head row contains; `None` for other rows.
pub(super) fn logical(row: &Entity) -> Option<Key> {
    Key::new(row.key().partition(), text(row, ROW).ok()?).ok()
}

fn text<'a>(row: &'a Entity, name: &str) -> Result<&'a str> {
    match row.get(name) {
        Some(ValueRef::String(text)) => Ok(text),
        _ => Err(damaged(row, name, "Edm.String")),
    }
}

fn damaged(row: &Entity, property: &str, expected: &str) -> Error {
    Error::decode(
        "wide entity",
        row.key(),
        property,
        expected,
        "something else",
    )
}

/// The maximal number of properties of a chunk: the service's limit, less the write id and four for adapters.
const CHUNK_PROPERTIES: usize = CUSTOM_PROPERTIES - 5;
/// The maximal size of a chunk's properties, in bytes. Its keys, the write id and adapters need the rest of the row.
pub(super) const CHUNK_BYTES: usize = ENTITY_BYTES - 8 * 1024;

/// A chunk that is being filled.
#[derive(Default)]
struct ChunkBuilder {
    properties: Properties,
    count: usize,
    bytes: usize,
}

impl ChunkBuilder {
    /// Whether a property of `size` bytes fits into the chunk, which has at most `most` bytes.
    fn fits(&self, size: usize, most: usize) -> bool {
        self.count < CHUNK_PROPERTIES && self.bytes + size <= most
    }

    fn push(&mut self, p: &PropertyRef<'_>, size: usize) {
        self.properties.push(p.name(), p.value(), p.is_encrypted());
        self.count += 1;
        self.bytes += size;
    }
}

/// Distributes an entity's properties over chunks of at most `most` bytes. A property stays in its chunk of `old` if it still
/// fits there.
///
/// # Errors
/// A property with a reserved name, or larger than a chunk.
pub(super) fn distribute(
    old: Option<&StoredWide>,
    properties: &Properties,
    most: usize,
) -> Result<BTreeMap<u16, Properties>> {
    let old_chunks = chunk_of_each_property(old);
    let mut rows = BTreeMap::<u16, ChunkBuilder>::new();
    let mut unplaced = Vec::new();
    for p in properties {
        let size = checked_size(&p, most)?;
        let row = old_chunks
            .get(p.name())
            .map(|number| rows.entry(*number).or_default());
        // A property stays in its chunk, so that a small change writes few rows.
        match row.filter(|row| row.fits(size, most)) {
            Some(row) => row.push(&p, size),
            None => unplaced.push((p, size)),
        }
    }
    for (p, size) in unplaced {
        add_to_any(&mut rows, &p, size, most);
    }
    Ok(rows
        .into_iter()
        .map(|(number, row)| (number, row.properties))
        .collect())
}

fn chunk_of_each_property(old: Option<&StoredWide>) -> HashMap<&str, u16> {
    let chunks = old.into_iter().flat_map(|stored| &stored.chunks);
    chunks
        .flat_map(|(number, chunk)| chunk.properties.iter().map(|p| (p.name(), *number)))
        .collect()
}

/// Adds a property to the last chunk, otherwise to the first chunk with room, otherwise to a new chunk.
fn add_to_any(
    rows: &mut BTreeMap<u16, ChunkBuilder>,
    p: &PropertyRef<'_>,
    size: usize,
    most: usize,
) {
    let has_room = |(_, row): &(&u16, &mut ChunkBuilder)| row.fits(size, most);
    if let Some(mut last) = rows.last_entry().filter(|last| last.get().fits(size, most)) {
        return last.get_mut().push(p, size);
    }
    if let Some((_, row)) = rows.iter_mut().find(has_room) {
        return row.push(p, size);
    }
    // Numbers of emptied chunks are used again. 999 chunks are never reached: `check_whole` refuses an entity of more rows than one group has.
    let number = (1..=MAX_CHUNK)
        .find(|number| !rows.contains_key(number))
        .unwrap_or(MAX_CHUNK);
    rows.entry(number).or_default().push(p, size);
}

fn checked_size(p: &PropertyRef<'_>, most: usize) -> Result<usize> {
    if [WRITE, ROWS, ROW].contains(&p.name()) {
        return Err(Error::invalid_name(
            "property name",
            p.name(),
            "wide entities reserve the name: use another",
        ));
    }
    let size = property_size(p.name(), p.value());
    if size > most {
        return Err(Error::limit(
            format!("bytes of the property '{}'", p.name()),
            most,
            size,
        ));
    }
    Ok(size)
}
