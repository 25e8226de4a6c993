use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Keys and packed properties of several rows of a page, which their entities share: a row then costs no
/// allocation. An entity keeps its chunk alive, so chunks are small.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) keys: String,
    pub(crate) packed: Vec<u8>,
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

    const fn range(self) -> std::ops::Range<usize> {
        self.from as usize..self.to as usize
    }
}

/// The text of a key or of an ETag, of its own or in a chunk.
pub(crate) enum ChunkText {
    Own(Box<str>),
    Shared(Arc<Chunk>, Span),
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
            Self::Shared(chunk, span) => &chunk.keys[span.range()],
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
    Shared(Arc<Chunk>, Span),
}

impl ChunkBytes {
    /// The bytes to change, which are then of their own.
    #[inline]
    pub(crate) fn to_mut(&mut self) -> &mut Vec<u8> {
        if let Self::Shared(..) = self {
            *self = self.clone();
        }
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(..) => unreachable!("a clone owns its bytes"),
        }
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(..) => self.to_vec(),
        }
    }
}

impl Deref for ChunkBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(chunk, span) => &chunk.packed[span.range()],
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
