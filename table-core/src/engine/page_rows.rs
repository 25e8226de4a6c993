//! The rows of a page while it is read.

use std::sync::Arc;

use super::record::{RecordRef, Stamp};
use crate::model::{Entity, PackedProperty, PageBuilder, PropertyDictionary, Span, key_order};
use crate::query::Select;

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

impl PageRows {
    /// Creates a page for at most `max_rows` rows.
    pub(super) fn new(max_rows: usize) -> Self {
        Self {
            rows: PageBuilder::new(max_rows),
            bytes: 0,
            split: 0,
        }
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
        // The key is appended before the filter has decided, because the filter reads its text there. `remove_key`
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
    pub(super) fn remove_key(&mut self, key: PendingKey) {
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
    if select.is_all() {
        return out.extend_from_slice(packed);
    }
    let mut rest = packed;
    while let Some(property) = PackedProperty::split(&mut rest) {
        if select.names().any(|name| name.as_bytes() == property.name) {
            out.extend_from_slice(property.whole);
        }
    }
}
