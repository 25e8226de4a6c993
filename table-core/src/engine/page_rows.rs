use super::{RecordRef, Stamp};
use crate::model::{Chunks, ETag, Entity, Place, Raw, Span, key_order};
use crate::query::Select;

/// The rows of a page, in chunks that their entities share.
#[derive(Debug)]
pub(super) struct PageRows {
    chunks: Chunks,
    rows: Vec<(Place, Stamp)>,
    bytes: usize,
}

/// A row's key at the end of a chunk, not yet a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingKey {
    from: usize,
    split: u32,
}

impl PageRows {
    pub(super) fn new() -> Self {
        Self { chunks: Chunks::new(), rows: Vec::new(), bytes: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of keys and properties.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the key of a row that may come; `None` if the bytes are no key.
    #[inline]
    pub(super) fn key(&mut self, sortable: &[u8]) -> Option<PendingKey> {
        let keys = &mut self.chunks.current_mut().keys;
        let from = keys.len();
        let split = key_order::push_key_text(keys, sortable)?;
        Some(PendingKey { from, split })
    }

    /// The two texts of the key.
    #[inline]
    pub(super) fn texts(&self, key: PendingKey) -> (&str, &str) {
        self.chunks.current().keys[key.from..].split_at(key.split as usize)
    }

    /// Forgets the key: its row does not match.
    #[inline]
    pub(super) fn drop_key(&mut self, key: PendingKey) {
        self.chunks.current_mut().keys.truncate(key.from);
    }

    /// Takes the row of the key, with the selected properties.
    #[inline]
    pub(super) fn push(&mut self, key: PendingKey, record: RecordRef<'_>, select: Option<&Select>) {
        let chunk = self.chunks.current_mut();
        let from = chunk.packed.len();
        match select {
            None => chunk.packed.extend_from_slice(record.packed()),
            Some(select) => push_selected(&mut chunk.packed, record.packed(), select),
        }
        let (key_end, packed_end) = (chunk.keys.len(), chunk.packed.len());
        self.bytes += key_end - key.from + packed_end - from;
        let place = self.chunks.place(Span::new(key.from, key_end), key.split, from);
        self.rows.push((place, record.stamp));
        self.chunks.make_room(record.packed().len());
    }

    pub(super) fn into_entities(self) -> Vec<Entity> {
        let chunks = self.chunks.finish();
        let entity = |(place, stamp): (Place, Stamp)| {
            let etag = ETag::from_version(stamp.version);
            place.entity(&chunks).with_system(Some(etag), Some(stamp.time))
        };
        self.rows.into_iter().map(entity).collect()
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
