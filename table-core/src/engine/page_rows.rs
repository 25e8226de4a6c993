use std::sync::Arc;

use super::{RecordRef, Stamp};
use crate::model::{Chunks, ETag, Entity, PropertyDictionary, Raw, Span, System, Texts, Ticks, key_order};
use crate::query::Select;

/// The rows of a page, in chunks that their entities share.
#[derive(Debug)]
pub(super) struct PageRows {
    rows: Chunks<Stamp>,
    bytes: usize,
    /// The length of the last PartitionKey.
    split: u32,
}

/// A key at the end of a chunk that does not belong to a row yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingKey {
    from: usize,
    split: u32,
}

impl System for Stamp {
    #[inline]
    fn etag_and_timestamp(self, _: &Texts) -> (Option<ETag>, Option<Ticks>) {
        (Some(ETag::from_version(self.version)), Some(self.time))
    }
}

impl PageRows {
    /// Creates a page for at most `most` rows.
    pub(super) fn new(most: usize) -> Self {
        Self { rows: Chunks::new(most), bytes: 0, split: 0 }
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
    pub(super) fn key(&mut self, sortable: &[u8]) -> Option<PendingKey> {
        // The key is appended before the filter has decided, because the filter reads its text there. `drop_key`
        // removes it if the row does not match, so no key is copied twice.
        let keys = &mut self.rows.current_mut().keys;
        let from = keys.len();
        let Some(split) = key_order::push_key_text(keys, sortable, self.split) else {
            keys.truncate(from);
            return None;
        };
        self.split = split;
        Some(PendingKey { from, split })
    }

    /// Returns PartitionKey and RowKey.
    pub(super) fn texts(&self, key: PendingKey) -> Option<(&str, &str)> {
        let texts = std::str::from_utf8(&self.rows.current().keys[key.from..]).ok()?;
        texts.split_at_checked(key.split as usize)
    }

    /// Removes a key whose row does not match.
    #[inline]
    pub(super) fn drop_key(&mut self, key: PendingKey) {
        self.rows.current_mut().keys.truncate(key.from);
    }

    /// Adds the row of the key with the selected properties.
    #[inline]
    pub(super) fn push(&mut self, key: PendingKey, record: RecordRef<'_>, select: Option<&Select>) {
        let row = &mut self.rows.current_mut().properties;
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
        self.rows.number(dictionary);
        let row = &mut self.rows.current_mut().properties;
        let from = row.len();
        row.extend_from_slice(record.packed());
        self.end_row(key, from, packed, record.stamp);
    }

    #[inline]
    fn end_row(&mut self, key: PendingKey, from: usize, packed: usize, stamp: Stamp) {
        let span = Span::new(key.from, self.rows.current().keys.len());
        self.bytes += span.len() + packed;
        self.rows.end_row(span, key.split, from, packed, stamp);
    }

    pub(super) fn into_entities(self) -> Vec<Entity> {
        self.rows.into_entities()
    }
}

fn push_selected(out: &mut Vec<u8>, packed: &[u8], select: &Select) {
    let mut rest = packed;
    while let Some(raw) = Raw::split(&mut rest) {
        if select.names().any(|name| name.as_bytes() == raw.name) {
            out.extend_from_slice(raw.whole);
        }
    }
}
