use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::{ETag, Entity, Key, PackBuffer, Properties, PropertyDictionary, Ticks};
use crate::error::Result;

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
        Self {
            dictionary,
            unpacked: OnceLock::new(),
        }
    }

    pub(crate) const fn dictionary(&self) -> &Arc<PropertyDictionary> {
        &self.dictionary
    }

    /// Returns the packed properties of all rows. The length of every row was computed when it was added, so
    /// every row is valid.
    #[cold]
    fn unpack(&self, rows: &[u8]) -> Vec<u8> {
        let mut unpacked =
            PackBuffer::with_capacity(self.dictionary.unpacked_len(rows).unwrap_or_default());
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
            Some(numbered) => numbered
                .unpacked
                .get_or_init(|| numbered.unpack(&self.properties)),
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
        Self {
            from: from as u32,
            to: to as u32,
        }
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
            Self::Shared { chunk, row, .. } => (
                &chunk.properties[row.range()],
                chunk.numbered.as_ref().map(|n| &**n.dictionary()),
            ),
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

/// Maximum bytes of packed properties in a chunk. An entity that a program keeps holds its whole chunk in memory, so a
/// chunk is much smaller than a page (4 MiB).
const CHUNK_BYTES: usize = 48 << 10;
/// Like [`CHUNK_BYTES`], for the first chunk of a page. It is smaller, because most pages of a lookup hold few rows.
const FIRST_CHUNK_BYTES: usize = 4 << 10;

/// ETag and Timestamp of a row of a page, in the form that its store has.
pub(crate) trait SystemProperties {
    /// Returns the row's ETag and Timestamp. The text of the ETag may be in the chunk's texts.
    fn etag_and_timestamp(self, texts: &Texts) -> (Option<ETag>, Option<Ticks>);
}

/// Builds the entities of a page, chunk by chunk.
#[derive(Debug)]
pub(crate) struct PageBuilder<S> {
    /// The entities of the ended chunks.
    entities: Vec<Entity>,
    /// Maximum number of entities of the page.
    max_entities: usize,
    /// The chunk under construction. The bytes of a row are appended to it before [`end_row`](Self::end_row).
    pub(crate) current: ChunkBuilder,
    /// The rows of the current chunk.
    rows: Vec<(RowSpans, S)>,
    /// Bytes of the packed properties of the current chunk.
    packed_bytes: usize,
    /// Maximum of `packed_bytes`.
    max_packed_bytes: usize,
}

/// A chunk under construction.
#[derive(Debug, Default)]
pub(crate) struct ChunkBuilder {
    /// The concatenated texts.
    pub(crate) keys: Vec<u8>,
    pub(crate) properties: Vec<u8>,
    dictionary: Option<Arc<PropertyDictionary>>,
}

/// The ranges of a row in the buffers of its chunk.
#[derive(Clone, Copy, Debug)]
struct RowSpans {
    key: Span,
    /// Bytes of the PartitionKey, with which the key starts.
    split: u32,
    /// The properties as they were added, packed or numbered.
    row: Span,
    /// The properties in packed form.
    packed: Span,
}

impl<S: SystemProperties> PageBuilder<S> {
    /// Creates an empty page for at most `max_entities` rows.
    pub(crate) fn new(max_entities: usize) -> Self {
        Self {
            entities: Vec::new(),
            max_entities,
            current: ChunkBuilder::new(FIRST_CHUNK_BYTES, None),
            rows: Vec::new(),
            packed_bytes: 0,
            max_packed_bytes: FIRST_CHUNK_BYTES,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.entities.len() + self.rows.len()
    }

    /// Changes the maximum number of rows.
    pub(crate) const fn set_max_entities(&mut self, max_entities: usize) {
        self.max_entities = max_entities;
    }

    /// Sets the dictionary of numbered rows. Either all rows of a page are numbered or none.
    #[inline]
    pub(crate) fn set_dictionary(&mut self, dictionary: &Arc<PropertyDictionary>) {
        if self.current.dictionary.is_none() {
            self.current.dictionary = Some(Arc::clone(dictionary));
        }
    }

    /// Ends a row, which consists of the bytes appended to the current chunk: its key, whose PartitionKey
    /// ends after `split` bytes, and its properties from `from` on, which have `packed` bytes in packed form.
    #[inline]
    pub(crate) fn end_row(&mut self, key: Span, split: u32, from: usize, packed: usize, system: S) {
        let row = Span::new(from, self.current.properties.len());
        let end = self.packed_bytes + packed;
        // The range of the row in the packed bytes is fixed here, before these bytes exist. `Numbered::unpack`
        // converts the rows of a chunk in the same order, so a row starts where the lengths of the rows before it
        // end.
        let spans = RowSpans {
            key,
            split,
            row,
            packed: Span::new(self.packed_bytes, end),
        };
        self.packed_bytes = end;
        self.rows.push((spans, system));
        // The next row probably has the same length. A longer buffer would be allocated and copied, so the chunk ends
        // before such a row.
        let properties = &self.current.properties;
        let is_full = properties.len() + row.len() > properties.capacity();
        if is_full || end + packed > self.max_packed_bytes {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        // Not in `new`: a page that ends in its first chunk needs no memory for `max_entities` entities.
        if self.entities.is_empty() {
            self.entities.reserve_exact(self.max_entities);
        }
        let next = ChunkBuilder::new(CHUNK_BYTES, self.current.dictionary.clone());
        let ended = std::mem::replace(&mut self.current, next);
        (self.packed_bytes, self.max_packed_bytes) = (0, CHUNK_BYTES);
        self.take_rows(ended);
    }

    /// Converts the rows of a chunk to entities.
    fn take_rows(&mut self, chunk: ChunkBuilder) {
        let (texts, chunk) = chunk.end();
        self.entities
            .extend(self.rows.drain(..).map(|(spans, system)| {
                let key = Key::in_chunk(Texts::clone(&texts), spans.key, spans.split);
                let properties = Properties::in_chunk(Arc::clone(&chunk), spans.packed, spans.row);
                let (etag, timestamp) = system.etag_and_timestamp(&texts);
                Entity::from_parts(key, properties).with_system(etag, timestamp)
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

impl ChunkBuilder {
    /// Reserves memory for rows with `bytes` of packed properties. Keys and ETags of usual rows have less than an eighth of
    /// that, and numbered properties less than half.
    fn new(bytes: usize, dictionary: Option<Arc<PropertyDictionary>>) -> Self {
        let properties = if dictionary.is_some() {
            bytes / 2
        } else {
            bytes
        };
        Self {
            keys: Vec::with_capacity(bytes / 8),
            properties: Vec::with_capacity(properties),
            dictionary,
        }
    }

    fn end(self) -> (Texts, Arc<Chunk>) {
        // Each text was valid UTF-8 when it was added, so the concatenation is valid too.
        let texts = String::from_utf8(self.keys).unwrap_or_default();
        let chunk = Chunk {
            properties: self.properties,
            numbered: self.dictionary.map(Numbered::new),
        };
        (Arc::new(texts), Arc::new(chunk))
    }
}

/// Collects the entities of a page. They share buffers of about 48 KiB, so most entities need no allocation. For stores that build entities from received data; see [`Entity::detached`].
///
/// ```
/// use table_core::model::{ETag, PageEntities, Properties};
/// let mut page = PageEntities::new();
/// let mut properties = Properties::new();
/// properties.set("Name", "Ken");
/// page.push("Sales", "empid_000223", &properties, Some("W/\"1\""), None)?;
/// let entities = page.into_entities();
/// assert_eq!(entities[0].key().row(), "empid_000223");
/// assert_eq!(entities[0].etag(), Some(&ETag::from("W/\"1\"")));
/// # Ok::<(), table_core::Error>(())
/// ```
pub struct PageEntities {
    rows: PageBuilder<ReceivedSystem>,
}

/// The system properties of a row that a service has sent.
struct ReceivedSystem {
    /// The range of the ETag in the chunk's texts.
    etag: Option<Span>,
    timestamp: Option<Ticks>,
}

impl SystemProperties for ReceivedSystem {
    fn etag_and_timestamp(self, texts: &Texts) -> (Option<ETag>, Option<Ticks>) {
        (
            self.etag.map(|span| ETag::in_chunk(texts, span)),
            self.timestamp,
        )
    }
}

impl PageEntities {
    /// Creates an empty page.
    pub fn new() -> Self {
        Self {
            rows: PageBuilder::new(0),
        }
    }

    /// Returns the number of entities.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no entities.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reserves capacity for `additional` entities.
    pub fn reserve(&mut self, additional: usize) {
        self.rows.set_max_entities(self.len() + additional);
    }

    /// Adds an entity.
    ///
    /// # Errors
    /// Fails if a key is too long or has a forbidden character.
    pub fn push(
        &mut self,
        partition: &str,
        row: &str,
        properties: &Properties,
        etag: Option<&str>,
        timestamp: Option<Ticks>,
    ) -> Result<()> {
        Key::check(partition, row)?;
        let ChunkBuilder {
            keys,
            properties: rows,
            ..
        } = &mut self.rows.current;
        let (from, packed) = (rows.len(), properties.as_packed());
        rows.extend_from_slice(packed);
        let key = append(keys, &[partition, row]);
        let etag = etag.map(|etag| append(keys, &[etag]));
        let system = ReceivedSystem { etag, timestamp };
        // A key has at most 512 UTF-16 units, so its length fits a `u32`.
        self.rows
            .end_row(key, partition.len() as u32, from, packed.len(), system);
        Ok(())
    }

    /// Returns the entities in the order in which they were added.
    pub fn into_entities(self) -> Vec<Entity> {
        self.rows.into_entities()
    }
}

/// Appends texts and returns their common range.
#[inline]
fn append(out: &mut Vec<u8>, texts: &[&str]) -> Span {
    let from = out.len();
    texts
        .iter()
        .for_each(|text| out.extend_from_slice(text.as_bytes()));
    Span::new(from, out.len())
}

impl Default for PageEntities {
    fn default() -> Self {
        Self::new()
    }
}

/// Does not show the values, which may be secret.
impl fmt::Debug for PageEntities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageEntities")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
