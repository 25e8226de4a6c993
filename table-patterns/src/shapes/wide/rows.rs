//! The rows of an entity: their keys, the head, and which rows belong together.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use table_core::model::{
    ETag, Entity, Key, Properties, RowKey, SYSTEM_PREFIX, TableName, Ticks, ValueRef, key_order,
};
use table_core::query::{Filter, Query, Select};
use table_core::store::{Error, Result, ServiceProfile, TableStore};
use uuid::Uuid;

/// The id of the write that made a row.
pub(super) const WRITE: &str = "WideWrite";
/// The head's list of chunks: `001:id,002:id`.
pub(super) const ROWS: &str = "WideRows";
/// The head's copy of the logical RowKey.
pub(super) const ROW: &str = "WideRow";

const PLAIN: &str = "w_";
const HASHED: &str = "wh_";
const END: &str = "~~";
/// The digits of a row's number, after [`END`].
const DIGITS: usize = 3;
pub(super) const HEAD: u16 = 0;
pub(super) const LAST: u16 = 999;

/// An entity as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) key: Key,
    /// The head's version.
    pub(super) etag: Option<ETag>,
    pub(super) timestamp: Option<Ticks>,
    pub(super) write: Box<str>,
    pub(super) chunks: BTreeMap<u16, Chunk>,
}

/// A row of properties.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) write: Box<str>,
    pub(super) properties: Properties,
}

/// What a read of all rows saw.
#[derive(Debug)]
pub(super) enum Seen {
    Nothing,
    Whole(Stored),
    /// Rows of different writes, of which the head is this one's.
    Torn(Option<Box<str>>),
}

pub(super) fn new_write() -> Box<str> {
    Uuid::new_v4().simple().to_string().into()
}

/// What the row keys of an entity start with.
pub(super) fn prefix(key: &Key, profile: &ServiceProfile) -> String {
    let plain = format!("{SYSTEM_PREFIX}{PLAIN}{}{END}", key.row().replace('~', "~7E"));
    let units = plain.encode_utf16().count() + DIGITS;
    let bytes = plain.len() + DIGITS;
    if units <= profile.key_units && profile.row_key_bytes.is_none_or(|most| bytes <= most) {
        return plain;
    }
    let hash: String = Sha256::digest(key.row().as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
    format!("{SYSTEM_PREFIX}{HASHED}{hash}{END}")
}

/// The prefix of the entity that a row belongs to, and the row's number.
pub(super) fn split(row: &str) -> Option<(&str, u16)> {
    let (prefix, number) = row.split_at_checked(row.len().checked_sub(DIGITS)?)?;
    let digits = number.bytes().all(|b| b.is_ascii_digit()) && prefix.ends_with(END);
    number.parse().ok().filter(|_| digits).map(|number| (prefix, number))
}

pub(super) fn row_key(partition: &str, prefix: &str, number: u16) -> Result<Key> {
    Key::new(partition, format!("{prefix}{number:0DIGITS$}"))
}

/// Whether a wide entity has this key. One request.
pub(crate) async fn is_there(store: &dyn TableStore, table: &TableName, key: &Key) -> Result<bool> {
    let head = row_key(key.partition(), &prefix(key, store.profile()), HEAD)?;
    Ok(store.get(table, &head, Some(&Select::new([WRITE]))).await?.is_some())
}

/// All rows of one entity.
pub(super) fn query(partition: &str, prefix: &str) -> Query {
    within(partition, &format!("{prefix}0"), &format!("{prefix}:"))
}

/// All rows of all entities, of a partition or of the table, after the one with this prefix.
pub(super) fn query_all(partition: Option<&str>, after: Option<&str>) -> Query {
    let start = format!("{SYSTEM_PREFIX}w");
    let end = key_order::key_prefix_end(&start).unwrap_or_default();
    // Behind the digits.
    let start = after.map_or(start, |after| format!("{after}:"));
    let partition = partition.map(|partition| Filter::eq(Filter::PARTITION_KEY, partition));
    let filter = Filter::and_maybe(partition, Some(rows(&start, &end)));
    Query { filter, ..Query::new() }
}

fn within(partition: &str, from: &str, before: &str) -> Query {
    Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, partition).and(rows(from, before)))
}

fn rows(from: &str, before: &str) -> Filter {
    Filter::ge(Filter::ROW_KEY, from).and(Filter::lt(Filter::ROW_KEY, before))
}

impl Stored {
    pub(super) fn head(&self, prefix: &str) -> Result<Entity> {
        let list = self.chunks.iter().map(|(number, chunk)| format!("{number:0DIGITS$}:{}", chunk.write));
        let list = list.collect::<Vec<_>>().join(",");
        let head = Entity::from(row_key(self.key.partition(), prefix, HEAD)?);
        Ok(head.with(WRITE, &*self.write).with(ROWS, list).with(ROW, self.key.row()))
    }

    /// The logical entity.
    pub(super) fn to_entity(&self) -> Entity {
        let bytes = self.chunks.values().map(|chunk| chunk.properties.as_packed().len()).sum();
        let mut all = Properties::with_capacity(bytes);
        for chunk in self.chunks.values() {
            chunk.properties.iter().for_each(|p| all.push(p.name(), p.value(), p.is_encrypted()));
        }
        Entity::from_parts(self.key.clone(), all).with_system(self.etag.clone(), self.timestamp)
    }
}

impl Chunk {
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

/// Puts together what was read, if it belongs together.
pub(super) fn assemble(rows: Vec<Entity>) -> Result<Seen> {
    let (mut head, mut chunks) = (None, BTreeMap::new());
    for row in rows {
        match split(row.key().row()) {
            Some((_, HEAD)) => head = Some(row),
            Some((_, number)) => drop(chunks.insert(number, Chunk::read(row)?)),
            None => return Err(damaged(&row, "RowKey", "a number of three digits at its end")),
        }
    }
    let Some(head) = head else {
        return Ok(if chunks.is_empty() { Seen::Nothing } else { Seen::Torn(None) });
    };
    let key = Key::new(head.key().partition(), RowKey::new(text(&head, ROW)?)?)?;
    let (etag, timestamp) = (head.etag().cloned(), head.timestamp());
    let stored = Stored { key, etag, timestamp, write: text(&head, WRITE)?.into(), chunks };
    let listed = stored.head("")?;
    let together = listed.get(ROWS) == head.get(ROWS);
    Ok(if together { Seen::Whole(stored) } else { Seen::Torn(Some(stored.write)) })
}

/// The key of the entity whose head a row is.
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
    Error::decode("wide entity", row.key(), property, expected, "something else")
}
