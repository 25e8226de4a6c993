use std::fmt;

use super::chunk::{Span, Texts};
use super::chunks::{ChunkBuilder, Chunks, System};
use super::{ETag, Entity, Key, Properties, Ticks};
use crate::error::Result;

/// Collects the entities of a page. They share buffers of about 64 KiB, so an entity needs no allocation of
/// its own. For stores that build entities from received data; see [`Entity::detached`].
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
    rows: Chunks<Received>,
}

/// The system properties of a received row: the place of its ETag in the texts, and its Timestamp.
struct Received(Option<Span>, Option<Ticks>);

impl System for Received {
    fn etag_and_timestamp(self, texts: &Texts) -> (Option<ETag>, Option<Ticks>) {
        (self.0.map(|span| ETag::in_chunk(texts, span)), self.1)
    }
}

impl PageEntities {
    /// Creates an empty page.
    pub fn new() -> Self {
        Self { rows: Chunks::new(0) }
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
        self.rows.expect(self.len() + additional);
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
        let ChunkBuilder { keys, properties: rows, .. } = self.rows.current_mut();
        let (from, packed) = (rows.len(), properties.as_packed());
        rows.extend_from_slice(packed);
        let key = append(keys, &[partition, row]);
        let etag = etag.map(|etag| append(keys, &[etag]));
        let received = Received(etag, timestamp);
        self.rows.end_row(key, partition.len() as u32, from, packed.len(), received);
        Ok(())
    }

    /// Returns the entities in the order in which they were added.
    pub fn into_entities(self) -> Vec<Entity> {
        self.rows.into_entities()
    }
}

#[inline]
fn append(out: &mut Vec<u8>, texts: &[&str]) -> Span {
    let from = out.len();
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
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
        f.debug_struct("PageEntities").field("len", &self.len()).finish_non_exhaustive()
    }
}
