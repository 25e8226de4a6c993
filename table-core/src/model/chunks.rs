use std::sync::Arc;

use super::chunk::{Chunk, Numbered, Span, Texts};
use super::{ETag, Entity, Heads, Key, Properties, Ticks};

/// Bytes of packed properties in a chunk. The first of a page is smaller: most pages of a lookup hold few rows.
const CHUNK: usize = 48 << 10;
const FIRST_CHUNK: usize = 4 << 10;

/// What only a store knows of a row of a page.
pub(crate) trait System {
    /// Its ETag and Timestamp; the text of the ETag may be among those of its chunk.
    fn etag_and_timestamp(self, texts: &Texts) -> (Option<ETag>, Option<Ticks>);
}

/// The entities of a page, in chunks that are filled one after another.
#[derive(Debug)]
pub(crate) struct Chunks<S> {
    entities: Vec<Entity>,
    /// Entities of the page, at most.
    most: usize,
    current: Filling,
    /// The rows of the current chunk.
    rows: Vec<(Place, S)>,
    /// Bytes of their packed properties, and how many may be.
    packed: usize,
    room: usize,
}

/// A chunk that is being filled.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    /// Whole texts, one after another.
    pub(crate) keys: Vec<u8>,
    pub(crate) properties: Vec<u8>,
    heads: Option<Arc<Heads>>,
}

/// Where a row is in its chunk.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: Span,
    split: u32,
    row: Span,
    packed: Span,
}

impl<S: System> Chunks<S> {
    /// No rows, of which so many may come.
    pub(crate) fn new(most: usize) -> Self {
        let current = Filling::new(FIRST_CHUNK, None);
        Self { entities: Vec::new(), most, current, rows: Vec::new(), packed: 0, room: FIRST_CHUNK }
    }

    pub(crate) const fn len(&self) -> usize {
        self.entities.len() + self.rows.len()
    }

    /// Changes how many rows may come.
    pub(crate) const fn expect(&mut self, most: usize) {
        self.most = most;
    }

    /// The chunk that is being filled.
    #[inline]
    pub(crate) const fn current(&self) -> &Filling {
        &self.current
    }

    #[inline]
    pub(crate) const fn current_mut(&mut self) -> &mut Filling {
        &mut self.current
    }

    /// Rows come with numbers in place of these heads: all rows, if one does.
    #[inline]
    pub(crate) fn number(&mut self, heads: &Arc<Heads>) {
        if self.current.heads.is_none() {
            self.current.heads = Some(Arc::clone(heads));
        }
    }

    /// Makes a row of what was appended to the current chunk: its key, whose first text ends after `split` bytes, and
    /// its properties from `from` on, which are so many bytes when they are packed.
    #[inline]
    pub(crate) fn end_row(&mut self, key: Span, split: u32, from: usize, packed: usize, system: S) {
        let row = Span::new(from, self.current.properties.len());
        let end = self.packed + packed;
        let place = Place { key, split, row, packed: Span::new(self.packed, end) };
        self.packed = end;
        self.rows.push((place, system));
        // The next one is likely to be as long.
        let properties = &self.current.properties;
        if end + packed > self.room || properties.len() + row.len() > properties.capacity() {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        if self.entities.is_empty() {
            self.entities.reserve_exact(self.most);
        }
        let next = Filling::new(CHUNK, self.current.heads.clone());
        let ended = std::mem::replace(&mut self.current, next);
        (self.packed, self.room) = (0, CHUNK);
        self.take_rows(ended);
    }

    fn take_rows(&mut self, chunk: Filling) {
        let (texts, chunk) = chunk.end();
        self.entities.extend(self.rows.drain(..).map(|(place, system)| {
            let (etag, timestamp) = system.etag_and_timestamp(&texts);
            place.entity(&texts, &chunk).with_system(etag, timestamp)
        }));
    }

    pub(crate) fn into_entities(mut self) -> Vec<Entity> {
        let mut last = std::mem::take(&mut self.current);
        last.properties.shrink_to_fit();
        last.keys.shrink_to_fit();
        self.take_rows(last);
        self.entities
    }
}

impl Place {
    /// The row as an entity.
    #[inline]
    fn entity(self, texts: &Texts, chunk: &Arc<Chunk>) -> Entity {
        let key = Key::in_chunk(Texts::clone(texts), self.key, self.split);
        Entity::from_parts(key, Properties::in_chunk(Arc::clone(chunk), self.packed, self.row))
    }
}

impl Filling {
    /// With room for so many bytes of packed properties, and for keys of an eighth of that. With numbers in place of
    /// heads properties are less than half as long.
    fn new(bytes: usize, heads: Option<Arc<Heads>>) -> Self {
        let properties = if heads.is_some() { bytes / 2 } else { bytes };
        Self { keys: Vec::with_capacity(bytes / 8), properties: Vec::with_capacity(properties), heads }
    }

    fn end(self) -> (Texts, Arc<Chunk>) {
        // Each text was UTF-8 when it came, so they are all.
        let texts = String::from_utf8(self.keys).unwrap_or_default();
        let chunk = Chunk { properties: self.properties, numbered: self.heads.map(Numbered::new) };
        (Arc::new(texts), Arc::new(chunk))
    }
}
