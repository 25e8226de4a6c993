use std::sync::Arc;

use super::{RecordRef, Stamp};
use crate::model::{Chunk, ETag, Entity, Key, Properties, Raw, Span, key_order};
use crate::query::Select;

/// Bytes of a chunk. The first of a page is smaller: most pages of a lookup hold few rows.
const CHUNK: usize = 48 << 10;
const FIRST_CHUNK: usize = 4 << 10;

/// The rows of a page, in chunks that their entities share.
#[derive(Debug)]
pub(super) struct PageRows {
    full: Vec<Arc<Chunk>>,
    chunk: Chunk,
    rows: Vec<Row>,
    bytes: usize,
}

/// Where a row is.
#[derive(Debug)]
struct Row {
    chunk: usize,
    key: Span,
    split: u32,
    packed: Span,
    stamp: Stamp,
}

/// A row's key at the end of a chunk, not yet a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingKey {
    from: usize,
    split: u32,
}

impl PageRows {
    pub(super) fn new() -> Self {
        Self { full: Vec::new(), chunk: chunk(FIRST_CHUNK), rows: Vec::new(), bytes: 0 }
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
        let from = self.chunk.keys.len();
        let split = key_order::push_key_text(&mut self.chunk.keys, sortable)?;
        Some(PendingKey { from, split })
    }

    /// The two texts of the key.
    #[inline]
    pub(super) fn texts(&self, key: PendingKey) -> (&str, &str) {
        self.chunk.keys[key.from..].split_at(key.split as usize)
    }

    /// Forgets the key: its row does not match.
    #[inline]
    pub(super) fn drop_key(&mut self, key: PendingKey) {
        self.chunk.keys.truncate(key.from);
    }

    /// Takes the row of the key, with the selected properties.
    #[inline]
    pub(super) fn push(&mut self, key: PendingKey, record: RecordRef<'_>, select: Option<&Select>) {
        let from = self.chunk.packed.len();
        match select {
            None => self.chunk.packed.extend_from_slice(record.packed()),
            Some(select) => push_selected(&mut self.chunk.packed, record.packed(), select),
        }
        let (key_end, packed_end) = (self.chunk.keys.len(), self.chunk.packed.len());
        self.bytes += key_end - key.from + packed_end - from;
        self.rows.push(Row {
            chunk: self.full.len(),
            key: span(key.from, key_end),
            split: key.split,
            packed: span(from, packed_end),
            stamp: record.stamp,
        });
        if packed_end + record.packed().len() > self.chunk.packed.capacity() {
            self.seal();
        }
    }

    /// Starts another chunk, rather than let this one move as it grows.
    fn seal(&mut self) {
        self.full.push(Arc::new(std::mem::replace(&mut self.chunk, chunk(CHUNK))));
    }

    pub(super) fn into_entities(mut self) -> Vec<Entity> {
        self.chunk.packed.shrink_to_fit();
        self.chunk.keys.shrink_to_fit();
        self.full.push(Arc::new(self.chunk));
        let entity = |row: Row| {
            let chunk = &self.full[row.chunk];
            let key = Key::in_chunk(Arc::clone(chunk), row.key, row.split);
            let properties = Properties::in_chunk(Arc::clone(chunk), row.packed);
            let etag = ETag::from_version(row.stamp.version);
            Entity::from_parts(key, properties).with_system(Some(etag), Some(row.stamp.time))
        };
        self.rows.into_iter().map(entity).collect()
    }
}

/// With room for so many bytes of properties, and for keys of an eighth of that.
fn chunk(bytes: usize) -> Chunk {
    Chunk { keys: String::with_capacity(bytes / 8), packed: Vec::with_capacity(bytes) }
}

fn push_selected(out: &mut Vec<u8>, packed: &[u8], select: &Select) {
    let mut rest = packed;
    while let Some(raw) = Raw::split(&mut rest) {
        if select.names().any(|name| name.as_bytes() == raw.name) {
            out.extend_from_slice(raw.whole);
        }
    }
}

/// A chunk holds less than a page, which is far from the end of a `u32`.
#[inline]
const fn span(from: usize, to: usize) -> Span {
    Span { from: from as u32, to: to as u32 }
}
