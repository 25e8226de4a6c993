use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::{Heads, Unpacked};

/// The texts of the keys and ETags of several rows of a page, one after another.
pub(crate) type Texts = Arc<String>;

/// The properties of several rows of a page, which their entities share, as they share [`Texts`]: a row then costs no
/// allocation. An entity keeps its chunk alive, so chunks are small.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Packed, or with numbers in place of heads.
    pub(crate) properties: Vec<u8>,
    pub(crate) numbered: Option<Numbered>,
}

/// What tells the heads of the properties in a chunk, and the properties with them, once somebody asks: a derived
/// struct is decoded without.
#[derive(Debug)]
pub(crate) struct Numbered {
    heads: Arc<Heads>,
    unpacked: OnceLock<Vec<u8>>,
}

impl Numbered {
    pub(crate) const fn new(heads: Arc<Heads>) -> Self {
        Self { heads, unpacked: OnceLock::new() }
    }

    pub(crate) const fn heads(&self) -> &Arc<Heads> {
        &self.heads
    }

    /// The properties of all rows, packed. Every row was measured when it came, so all of them are sound.
    #[cold]
    fn unpack(&self, rows: &[u8]) -> Vec<u8> {
        let mut unpacked = Unpacked::with_room(self.heads.unpacked_len(rows).unwrap_or_default());
        let sound = self.heads.unpack(rows, &mut unpacked);
        debug_assert!(sound.is_some(), "a row was not measured");
        unpacked.into_vec()
    }
}

impl Chunk {
    /// The packed properties of all rows.
    #[inline]
    fn packed(&self) -> &[u8] {
        match &self.numbered {
            None => &self.properties,
            Some(numbered) => numbered.unpacked.get_or_init(|| numbered.unpack(&self.properties)),
        }
    }
}

/// A range of one of a chunk's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Span {
    /// A chunk holds less than a page, which is far from the end of a `u32`.
    #[inline]
    pub(crate) const fn new(from: usize, to: usize) -> Self {
        Self { from: from as u32, to: to as u32 }
    }

    #[inline]
    pub(crate) const fn len(self) -> usize {
        (self.to - self.from) as usize
    }

    #[inline]
    const fn range(self) -> std::ops::Range<usize> {
        self.from as usize..self.to as usize
    }
}

/// The text of a key or of an ETag, of its own or in a chunk.
pub(crate) enum ChunkText {
    Own(Box<str>),
    Shared(Texts, Span),
}

impl ChunkText {
    /// The same of its own.
    pub(crate) fn detached(self) -> Self {
        match self {
            Self::Own(_) => self,
            Self::Shared(..) => self.clone(),
        }
    }
}

impl PartialEq for ChunkText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ChunkText {}

impl Hash for ChunkText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Deref for ChunkText {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Shared(texts, span) => &texts[span.range()],
        }
    }
}

/// A copy is always of its own: it does not keep the chunk alive.
impl Clone for ChunkText {
    fn clone(&self) -> Self {
        Self::Own((**self).into())
    }
}

/// Packed properties, of their own or in a chunk.
pub(crate) enum ChunkBytes {
    Own(Vec<u8>),
    /// Where they are among the packed ones of the chunk, and where in its rows if those have numbers.
    Shared {
        chunk: Arc<Chunk>,
        packed: Span,
        row: Span,
    },
}

impl ChunkBytes {
    /// The properties as they are at hand: with numbers in place of the heads if those are given too.
    #[inline]
    pub(crate) fn at_hand(&self) -> (&[u8], Option<&Heads>) {
        match self {
            Self::Own(bytes) => (bytes, None),
            Self::Shared { chunk, row, .. } => {
                (&chunk.properties[row.range()], chunk.numbered.as_ref().map(|n| &**n.heads()))
            }
        }
    }

    /// The bytes to change, which are then of their own.
    #[inline]
    pub(crate) fn to_mut(&mut self) -> &mut Vec<u8> {
        if let Self::Shared { .. } = self {
            *self = self.clone();
        }
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared { .. } => unreachable!("a clone owns its bytes"),
        }
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared { .. } => self.to_vec(),
        }
    }
}

impl Deref for ChunkBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared { chunk, packed, .. } => &chunk.packed()[packed.range()],
        }
    }
}

/// A copy is always of its own: it does not keep the chunk alive.
impl Clone for ChunkBytes {
    fn clone(&self) -> Self {
        Self::Own(self.to_vec())
    }
}

impl Default for ChunkBytes {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}
