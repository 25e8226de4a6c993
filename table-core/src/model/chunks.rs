use std::sync::Arc;

use super::chunk::{Chunk, Span};
use super::{Entity, Key, Properties};

/// Bytes of a chunk. The first of a page is smaller: most pages of a lookup hold few rows.
const CHUNK: usize = 48 << 10;
const FIRST_CHUNK: usize = 4 << 10;

/// The chunks of a page, filled one after another.
#[derive(Debug)]
pub(crate) struct Chunks {
    full: Vec<Arc<Chunk>>,
    current: Chunk,
}

/// Where a row is in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    chunk: u32,
    key: Span,
    split: u32,
    packed: Span,
}

impl Chunks {
    pub(crate) fn new() -> Self {
        Self { full: Vec::new(), current: chunk(FIRST_CHUNK) }
    }

    /// The chunk that is being filled.
    #[inline]
    pub(crate) const fn current(&self) -> &Chunk {
        &self.current
    }

    #[inline]
    pub(crate) const fn current_mut(&mut self) -> &mut Chunk {
        &mut self.current
    }

    /// Where a row is now that was appended to the current chunk: its key, whose first text ends after `split` bytes,
    /// and its properties from `packed` to the end.
    #[inline]
    pub(crate) const fn place(&self, key: Span, split: u32, packed: usize) -> Place {
        let packed = Span::new(packed, self.current.packed.len());
        Place { chunk: self.full.len() as u32, key, split, packed }
    }

    /// Starts another chunk, rather than let this one move as it grows, if it has no room for so many bytes of
    /// properties.
    #[inline]
    pub(crate) fn make_room(&mut self, bytes: usize) {
        if self.current.packed.len() + bytes > self.current.packed.capacity() {
            self.full.push(Arc::new(std::mem::replace(&mut self.current, chunk(CHUNK))));
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Arc<Chunk>> {
        self.current.packed.shrink_to_fit();
        self.current.keys.shrink_to_fit();
        self.full.push(Arc::new(self.current));
        self.full
    }
}

impl Place {
    /// The chunk of the row.
    #[inline]
    pub(crate) fn chunk(self, chunks: &[Arc<Chunk>]) -> &Arc<Chunk> {
        &chunks[self.chunk as usize]
    }

    /// The row as an entity.
    #[inline]
    pub(crate) fn entity(self, chunks: &[Arc<Chunk>]) -> Entity {
        let chunk = self.chunk(chunks);
        let key = Key::in_chunk(Arc::clone(chunk), self.key, self.split);
        Entity::from_parts(key, Properties::in_chunk(Arc::clone(chunk), self.packed))
    }
}

/// With room for so many bytes of properties, and for keys of an eighth of that.
fn chunk(bytes: usize) -> Chunk {
    Chunk { keys: String::with_capacity(bytes / 8), packed: Vec::with_capacity(bytes) }
}
