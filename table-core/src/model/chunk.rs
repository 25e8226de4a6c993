use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::{PackBuffer, PropertyDictionary};

/// The concatenated texts of keys and ETags of several rows of a page.
pub(crate) type Texts = Arc<String>;

/// The properties of several rows of a page. Their entities share the chunk, as they share [`Texts`], so a
/// row needs no allocation. An entity keeps its chunk alive, so chunks are small.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Packed properties, or rows with dictionary numbers instead of names.
    pub(crate) properties: Vec<u8>,
    pub(crate) numbered: Option<Numbered>,
}

/// The dictionary of a chunk with numbered rows, and the packed properties, which are created on first use.
/// Decoding a derived struct does not need them.
#[derive(Debug)]
pub(crate) struct Numbered {
    dictionary: Arc<PropertyDictionary>,
    unpacked: OnceLock<Vec<u8>>,
}

impl Numbered {
    pub(crate) const fn new(dictionary: Arc<PropertyDictionary>) -> Self {
        Self { dictionary, unpacked: OnceLock::new() }
    }

    pub(crate) const fn dictionary(&self) -> &Arc<PropertyDictionary> {
        &self.dictionary
    }

    /// Returns the packed properties of all rows. The length of every row was computed when it was added, so
    /// every row is valid.
    #[cold]
    fn unpack(&self, rows: &[u8]) -> Vec<u8> {
        let mut unpacked = PackBuffer::with_capacity(self.dictionary.unpacked_len(rows).unwrap_or_default());
        let unpacks = self.dictionary.unpack(rows, &mut unpacked);
        debug_assert!(unpacks.is_some(), "a row was added without its length");
        unpacked.into_vec()
    }
}

impl Chunk {
    /// Returns the packed properties of all rows.
    #[inline]
    fn packed(&self) -> &[u8] {
        match &self.numbered {
            None => &self.properties,
            // All rows of the chunk at once: a program that reads one row by names mostly reads the others too.
            Some(numbered) => numbered.unpacked.get_or_init(|| numbered.unpack(&self.properties)),
        }
    }
}

/// A range in one of a chunk's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Span {
    /// A chunk holds less than a page, so its offsets fit a `u32`.
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

/// The text of a key or an ETag, owned or in a chunk.
pub(crate) enum ChunkText {
    Own(Box<str>),
    Shared(Texts, Span),
}

impl ChunkText {
    /// Returns an owned copy.
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

/// A clone is always owned, so that it does not keep the chunk alive.
impl Clone for ChunkText {
    fn clone(&self) -> Self {
        Self::Own((**self).into())
    }
}

/// Packed properties, owned or in a chunk.
pub(crate) enum ChunkBytes {
    Own(Vec<u8>),
    /// The range in the chunk's packed properties, and the range in its rows if they are numbered.
    Shared {
        chunk: Arc<Chunk>,
        packed: Span,
        row: Span,
    },
}

impl ChunkBytes {
    /// Returns the properties without conversion: packed, or numbered together with their dictionary.
    #[inline]
    pub(crate) fn raw_or_numbered(&self) -> (&[u8], Option<&PropertyDictionary>) {
        match self {
            Self::Own(bytes) => (bytes, None),
            // The row as it is stored: derived types decode numbered rows directly, and the chunk is not converted.
            Self::Shared { chunk, row, .. } => {
                (&chunk.properties[row.range()], chunk.numbered.as_ref().map(|n| &**n.dictionary()))
            }
        }
    }

    /// Returns the bytes for modification, converting them to owned bytes.
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

/// A clone is always owned, so that it does not keep the chunk alive.
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
