use std::sync::Arc;

use super::chunk::{Chunk, Numbered, Span, Texts};
use super::{ETag, Entity, Key, Properties, PropertyDictionary, Ticks};

/// Bytes of packed properties in a chunk. The first chunk of a page is smaller, because most pages of a
/// lookup hold few rows.
const CHUNK: usize = 48 << 10;
const FIRST_CHUNK: usize = 4 << 10;

/// The system properties of a row of a page.
pub(crate) trait System {
    /// Returns the row's ETag and Timestamp. The text of the ETag may be in the chunk's texts.
    fn etag_and_timestamp(self, texts: &Texts) -> (Option<ETag>, Option<Ticks>);
}

/// Builds the entities of a page, chunk by chunk.
#[derive(Debug)]
pub(crate) struct Chunks<S> {
    entities: Vec<Entity>,
    /// Maximum number of entities of the page.
    most: usize,
    current: ChunkBuilder,
    /// The rows of the current chunk.
    rows: Vec<(Place, S)>,
    /// The bytes of their packed properties, and the maximum.
    packed: usize,
    room: usize,
}

/// A chunk under construction.
#[derive(Debug, Default)]
pub(crate) struct ChunkBuilder {
    /// The concatenated texts.
    pub(crate) keys: Vec<u8>,
    pub(crate) properties: Vec<u8>,
    dictionary: Option<Arc<PropertyDictionary>>,
}

/// The position of a row in its chunk.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: Span,
    split: u32,
    row: Span,
    packed: Span,
}

impl<S: System> Chunks<S> {
    /// Creates an empty page for at most `most` rows.
    pub(crate) fn new(most: usize) -> Self {
        let current = ChunkBuilder::new(FIRST_CHUNK, None);
        Self { entities: Vec::new(), most, current, rows: Vec::new(), packed: 0, room: FIRST_CHUNK }
    }

    pub(crate) const fn len(&self) -> usize {
        self.entities.len() + self.rows.len()
    }

    /// Changes the maximum number of rows.
    pub(crate) const fn expect(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns the chunk under construction.
    #[inline]
    pub(crate) const fn current(&self) -> &ChunkBuilder {
        &self.current
    }

    #[inline]
    pub(crate) const fn current_mut(&mut self) -> &mut ChunkBuilder {
        &mut self.current
    }

    /// Sets the dictionary of numbered rows. Either all rows of a page are numbered or none.
    #[inline]
    pub(crate) fn number(&mut self, dictionary: &Arc<PropertyDictionary>) {
        if self.current.dictionary.is_none() {
            self.current.dictionary = Some(Arc::clone(dictionary));
        }
    }

    /// Ends a row, which consists of the bytes appended to the current chunk: its key, whose PartitionKey
    /// ends after `split` bytes, and its properties from `from` on, which have `packed` bytes in packed form.
    #[inline]
    pub(crate) fn end_row(&mut self, key: Span, split: u32, from: usize, packed: usize, system: S) {
        let row = Span::new(from, self.current.properties.len());
        let end = self.packed + packed;
        // The place of the row among the packed bytes is fixed here, before these bytes exist. `Numbered::unpack`
        // converts the rows of a chunk in the same order, so a row starts where the lengths of the rows before it
        // end.
        let place = Place { key, split, row, packed: Span::new(self.packed, end) };
        self.packed = end;
        self.rows.push((place, system));
        // The next row probably has the same length.
        let properties = &self.current.properties;
        // A longer buffer would be allocated and copied, so the chunk ends before.
        if end + packed > self.room || properties.len() + row.len() > properties.capacity() {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        // Not in `new`: a page that ends in its first chunk needs no memory for `most` entities.
        if self.entities.is_empty() {
            self.entities.reserve_exact(self.most);
        }
        let next = ChunkBuilder::new(CHUNK, self.current.dictionary.clone());
        let ended = std::mem::replace(&mut self.current, next);
        (self.packed, self.room) = (0, CHUNK);
        self.take_rows(ended);
    }

    fn take_rows(&mut self, chunk: ChunkBuilder) {
        let (texts, chunk) = chunk.end();
        self.entities.extend(self.rows.drain(..).map(|(place, system)| {
            let (etag, timestamp) = system.etag_and_timestamp(&texts);
            place.entity(&texts, &chunk).with_system(etag, timestamp)
        }));
    }

    pub(crate) fn into_entities(mut self) -> Vec<Entity> {
        let mut last = std::mem::take(&mut self.current);
        // Entities keep their chunk for as long as they live, and with it its unused capacity.
        last.properties.shrink_to_fit();
        last.keys.shrink_to_fit();
        self.take_rows(last);
        self.entities
    }
}

impl Place {
    /// Converts the row to an entity.
    #[inline]
    fn entity(self, texts: &Texts, chunk: &Arc<Chunk>) -> Entity {
        let key = Key::in_chunk(Texts::clone(texts), self.key, self.split);
        Entity::from_parts(key, Properties::in_chunk(Arc::clone(chunk), self.packed, self.row))
    }
}

impl ChunkBuilder {
    /// Reserves `bytes` for packed properties and an eighth of that for keys. Numbered properties need less
    /// than half of the packed size.
    fn new(bytes: usize, dictionary: Option<Arc<PropertyDictionary>>) -> Self {
        let properties = if dictionary.is_some() { bytes / 2 } else { bytes };
        Self { keys: Vec::with_capacity(bytes / 8), properties: Vec::with_capacity(properties), dictionary }
    }

    fn end(self) -> (Texts, Arc<Chunk>) {
        // Each text was valid UTF-8 when it was added, so the concatenation is valid too.
        let texts = String::from_utf8(self.keys).unwrap_or_default();
        let chunk = Chunk { properties: self.properties, numbered: self.dictionary.map(Numbered::new) };
        (Arc::new(texts), Arc::new(chunk))
    }
}
