use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::{
    ETag, Entity, Key, PackedProperty, PageBuilder, Properties, PropertyDictionary, Span, SystemProperties,
    TableName, Texts, Ticks, key_order,
};
use crate::profile::ServiceProfile;
use crate::query::{Continuation, Page, Position, Select};

/// The version and time of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The number in the ETag. It is never reused in a store.
    pub version: u64,
    /// The time of the write, which is the Timestamp.
    pub time: Ticks,
}

/// A stored row without its key.
///
/// Its bytes: version (`u64`), time (ticks, `i64`), packed properties; little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Version and time of the last write.
    pub stamp: Stamp,
    /// The properties.
    pub properties: Properties,
}

impl Stamp {
    /// Bytes of a stamp. A [`Record`] starts with them.
    pub const BYTES: usize = 16;

    /// Appends the stored bytes.
    pub fn push_bytes(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.time.get().to_le_bytes());
    }
}

impl Record {
    /// Returns the stored bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Stamp::BYTES + self.properties.as_packed().len());
        self.push_bytes(&mut out);
        out
    }

    /// Appends the stored bytes.
    pub fn push_bytes(&self, out: &mut Vec<u8>) {
        self.stamp.push_bytes(out);
        out.extend_from_slice(self.properties.as_packed());
    }

    /// Parses the bytes of [`to_bytes`](Self::to_bytes) and checks all of them.
    ///
    /// # Errors
    /// Fails if the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let RecordRef { stamp, packed } = RecordRef::parse(bytes)?;
        Ok(Self { stamp, properties: Properties::from_packed(packed.to_vec())? })
    }

    /// Converts the row to an entity.
    pub fn into_entity(self, key: Key) -> Entity {
        let etag = ETag::from_version(self.stamp.version);
        Entity::from_parts(key, self.properties).with_system(Some(etag), Some(self.stamp.time))
    }
}

/// A [`Record`] in its stored bytes. The stamp is decoded; the properties are not checked.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    /// Version and time of the last write.
    pub stamp: Stamp,
    packed: &'a [u8],
}

impl<'a> RecordRef<'a> {
    /// Parses the header of [`Record::to_bytes`].
    ///
    /// # Errors
    /// Fails if the header is damaged.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let damaged = || Error::corrupt("the header of a stored row is damaged");
        let (version, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        let (time, packed) = rest.split_first_chunk().ok_or_else(damaged)?;
        let time = Ticks::new(i64::from_le_bytes(*time)).ok_or_else(damaged)?;
        Ok(Self { stamp: Stamp { version: u64::from_le_bytes(*version), time }, packed })
    }

    /// Returns the packed properties, or the numbered properties of a row.
    #[inline]
    pub(crate) const fn packed(&self) -> &'a [u8] {
        self.packed
    }

    /// Returns the record with packed properties in place of its numbered properties.
    pub(crate) const fn with_packed<'b>(&self, packed: &'b [u8]) -> RecordRef<'b> {
        RecordRef { stamp: self.stamp, packed }
    }

    /// Returns an owned copy. The properties are trusted to be valid; see [`Rows`](super::Rows).
    pub(super) fn to_record(self) -> Record {
        Record { stamp: self.stamp, properties: Properties::from_trusted(self.packed.to_vec()) }
    }
}

/// Does not show the values, which may be secret.
impl fmt::Debug for RecordRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordRef").field("stamp", &self.stamp).finish_non_exhaustive()
    }
}

/// The rows of one table as a backend stores them: bytes of a [`Record`] by bytes of a key.
///
/// The engine trusts these bytes, here and in a [`Scan`](super::Scan). A backend whose storage can be damaged
/// must detect damage, for example by a checksum.
pub trait Rows {
    /// Returns the stored form of a key. It must sort like [`Key::to_sortable`].
    fn key(&self, key: &Key) -> Vec<u8> {
        key.to_sortable()
    }

    /// Calls `decide` with a row's bytes, or with `None` if the row does not exist, and returns its result. A backend can thus
    /// lend the bytes of its buffer.
    ///
    /// # Errors
    /// Returns the backend's errors and the errors of `decide`.
    fn with_row<R>(&self, key: &[u8], decide: impl FnOnce(Option<&[u8]>) -> Result<R>) -> Result<R>;
}

/// The rows of a page, in chunks that their entities share.
#[derive(Debug)]
pub(super) struct PageRows {
    rows: PageBuilder<Stamp>,
    bytes: usize,
    /// Bytes of the last PartitionKey. The next row probably has the same PartitionKey.
    split: u32,
}

/// A key at the end of a chunk that does not belong to a row yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingKey {
    /// The offset in the texts of the chunk.
    from: usize,
    /// Bytes of the PartitionKey.
    split: u32,
}

impl SystemProperties for Stamp {
    #[inline]
    fn etag_and_timestamp(self, _: &Texts) -> (Option<ETag>, Option<Ticks>) {
        (Some(ETag::from_version(self.version)), Some(self.time))
    }
}

impl PageRows {
    /// Creates a page for at most `max_rows` rows.
    pub(super) fn new(max_rows: usize) -> Self {
        Self { rows: PageBuilder::new(max_rows), bytes: 0, split: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the bytes of keys and packed properties.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends the key of a candidate row; `None` if the bytes are not a key.
    #[inline]
    pub(super) fn push_key(&mut self, sortable: &[u8]) -> Option<PendingKey> {
        // The key is appended before the filter has decided, because the filter reads its text there. `drop_key`
        // removes it if the row does not match, so no key is copied twice.
        let keys = &mut self.rows.current.keys;
        let from = keys.len();
        let Some(split) = key_order::push_key_text(keys, sortable, self.split) else {
            keys.truncate(from);
            return None;
        };
        self.split = split;
        Some(PendingKey { from, split })
    }

    /// Returns PartitionKey and RowKey of a pending key.
    pub(super) fn texts(&self, key: PendingKey) -> Option<(&str, &str)> {
        let texts = std::str::from_utf8(&self.rows.current.keys[key.from..]).ok()?;
        texts.split_at_checked(key.split as usize)
    }

    /// Removes a key whose row does not match.
    #[inline]
    pub(super) fn drop_key(&mut self, key: PendingKey) {
        self.rows.current.keys.truncate(key.from);
    }

    /// Adds the row of the key with the selected properties.
    #[inline]
    pub(super) fn push(&mut self, key: PendingKey, record: RecordRef<'_>, select: Option<&Select>) {
        let row = &mut self.rows.current.properties;
        let from = row.len();
        match select {
            None => row.extend_from_slice(record.packed()),
            Some(select) => push_selected(row, record.packed(), select),
        }
        let packed = row.len() - from;
        self.end_row(key, from, packed, record.stamp);
    }

    /// Adds a numbered row of the key without conversion. `packed` is its number of bytes in packed form.
    #[inline]
    pub(super) fn push_numbered(
        &mut self,
        key: PendingKey,
        record: RecordRef<'_>,
        dictionary: &Arc<PropertyDictionary>,
        packed: usize,
    ) {
        self.rows.set_dictionary(dictionary);
        let row = &mut self.rows.current.properties;
        let from = row.len();
        row.extend_from_slice(record.packed());
        self.end_row(key, from, packed, record.stamp);
    }

    #[inline]
    fn end_row(&mut self, key: PendingKey, from: usize, packed: usize, stamp: Stamp) {
        let span = Span::new(key.from, self.rows.current.keys.len());
        self.bytes += span.len() + packed;
        self.rows.end_row(span, key.split, from, packed, stamp);
    }

    pub(super) fn into_entities(self) -> Vec<Entity> {
        self.rows.into_entities()
    }
}

/// Appends the packed properties that are selected.
fn push_selected(out: &mut Vec<u8>, packed: &[u8], select: &Select) {
    let mut rest = packed;
    while let Some(property) = PackedProperty::split(&mut rest) {
        if select.names().any(|name| name.as_bytes() == property.name) {
            out.extend_from_slice(property.whole);
        }
    }
}

/// Builds a page of a listing of tables from `(identity, name)` pairs in the order of identities.
///
/// The prefix is compared with the identity: without case if the profile ignores case.
pub fn list_page<'a>(
    profile: &ServiceProfile,
    prefix: Option<&str>,
    names: impl Iterator<Item = (&'a str, &'a TableName)>,
) -> Page<TableName> {
    let wanted = prefix.unwrap_or_default();
    let wanted = if profile.case_sensitive_tables { wanted.to_owned() } else { wanted.to_ascii_lowercase() };
    // The identities are sorted, so the names with the prefix follow each other.
    let mut matching =
        names.skip_while(|(id, _)| *id < wanted.as_str()).take_while(|(id, _)| id.starts_with(&wanted));
    let items = matching.by_ref().take(profile.page_size).map(|(_, name)| name.clone()).collect();
    let position = |id: &str| Position { first: id.to_owned(), second: None };
    let continuation = matching.next().map(|(id, _)| Continuation::of_tables(prefix, position(id)));
    Page { items, continuation }
}
