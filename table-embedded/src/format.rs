//! The file format. `docs/embedded-format.md` describes it and must change with this file.

use redb::TableDefinition;
use table_core::engine::Stamp;
use table_core::model::{Key, PackBuffer, PropertyDictionary, TableName};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Failure;

/// The format version that this code reads and writes.
pub(crate) const FORMAT: u64 = 2;

/// [`row_key`] -> [`push_row`].
pub(crate) const ROWS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("rows");
/// Identity of a table (its name in lower case) -> [`catalog_row`].
pub(crate) const CATALOG: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("catalog");
/// Number of an entry in the property [dictionary](PropertyDictionary) -> packed name and type.
pub(crate) const DICTIONARY: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("heads");
/// Ids of dropped tables whose rows are not removed yet.
pub(crate) const DROPPED: TableDefinition<'static, u64, ()> = TableDefinition::new("dropped");
/// Numbers that concern the whole store. The table's name identifies the file as a table store.
pub(crate) const META: TableDefinition<'static, &str, u64> = TableDefinition::new("table-embedded");

/// In [`META`]: the format version.
pub(crate) const META_FORMAT: &str = "format";
/// In [`META`]: the id of the next table.
pub(crate) const META_NEXT_TABLE: &str = "next-table";
/// In [`META`]: an upper bound of the versions assigned so far.
pub(crate) const META_VERSION_MARK: &str = "version-mark";

const ID_BYTES: usize = size_of::<u64>();

/// Returns the stored key of a row.
pub(crate) fn row_key(table: u64, key: &Key) -> Vec<u8> {
    let mut out = Vec::with_capacity(ID_BYTES + key.partition().len() + key.row().len() + 1);
    push_row_key(&mut out, table, key);
    out
}

/// Appends the stored key of a row; see [`row_key`].
pub(crate) fn push_row_key(out: &mut Vec<u8>, table: u64, key: &Key) {
    // Big-endian, so that ids sort as numbers: the rows of a table are one range, which ends before the next id.
    out.extend_from_slice(&table.to_be_bytes());
    key.push_sortable(out);
}

/// Appends the checksum of the row's key and bytes, little-endian, to the stored value.
pub(crate) fn seal_row(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(&checksum(key, out).to_le_bytes());
}

/// Returns the bytes of a stored value without its checksum: a [`Record`](table_core::engine::Record) with
/// dictionary numbers instead of property names and types.
///
/// # Errors
/// Fails if the row is damaged.
#[inline]
pub(crate) fn open_row<'v>(key: &[u8], value: &'v [u8]) -> Result<&'v [u8], Failure> {
    let sound = value
        .split_last_chunk()
        .filter(|(row, sum)| checksum(key, row).to_le_bytes() == **sum);
    sound.map(|(row, _)| row).ok_or_else(|| damaged(key))
}

/// Like [`open_row`], and writes the bytes of the record, with property names and types, to `record`.
///
/// # Errors
/// Fails if the row is damaged.
pub(crate) fn unpack_row(
    dictionary: &PropertyDictionary,
    key: &[u8],
    value: &[u8],
    record: &mut PackBuffer,
) -> Result<(), Failure> {
    record.clear();
    let row = open_row(key, value)?.split_first_chunk::<{ Stamp::BYTES }>();
    let unpacked = row.and_then(|(stamp, properties)| {
        record.push(stamp);
        dictionary.unpack(properties, record)
    });
    unpacked.ok_or_else(|| damaged(key))
}

#[cold]
fn damaged(key: &[u8]) -> Failure {
    Failure::DamagedRow(Key::from_sortable(sortable(key)))
}

/// Covers key and record, so that a row under another row's key counts as damaged.
fn checksum(key: &[u8], record: &[u8]) -> u32 {
    // Rotated, because without it equal bytes in key and record would cancel out. 32 bits are enough: pages have a checksum of
    // their own, and this one finds rows that are intact in a wrong place.
    (xxh3_64(key).rotate_left(32) ^ xxh3_64(record)) as u32
}

/// Returns a stored key, or a prefix of stored keys, from its sortable bytes.
pub(crate) fn prefixed(table: u64, sortable: &[u8]) -> Vec<u8> {
    [&table.to_be_bytes(), sortable].concat()
}

/// Returns the sortable bytes of a stored key.
pub(crate) fn sortable(stored: &[u8]) -> &[u8] {
    stored.get(ID_BYTES..).unwrap_or_default()
}

/// Returns the table id of a stored key.
pub(crate) fn table_of(stored: &[u8]) -> Option<u64> {
    stored.first_chunk().map(|id| u64::from_be_bytes(*id))
}

/// Returns a row of the catalog: id (little-endian), then the table name in its original case.
pub(crate) fn catalog_row(id: u64, name: &TableName) -> Vec<u8> {
    [&id.to_le_bytes(), name.as_str().as_bytes()].concat()
}

/// Parses a [`catalog_row`]; `None` if it is damaged.
pub(crate) fn parse_catalog_row(row: &[u8]) -> Option<(u64, TableName)> {
    let (id, name) = row.split_first_chunk()?;
    let name = TableName::new(std::str::from_utf8(name).ok()?).ok()?;
    Some((u64::from_le_bytes(*id), name))
}
