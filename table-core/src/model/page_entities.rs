use std::fmt;

use super::chunk::{Chunk, Span};
use super::chunks::{Chunks, Place};
use super::{ETag, Entity, Key, Properties, Ticks};
use crate::store::Result;

/// The entities of a page, while it is read: they share buffers of about 64 KiB, so that none costs an allocation of its
/// own. For stores that make entities of what they received; see [`Entity::detached`].
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
    chunks: Chunks,
    rows: Vec<Row>,
}

struct Row {
    place: Place,
    etag: Option<Span>,
    timestamp: Option<Ticks>,
}

impl PageEntities {
    /// No entities.
    pub fn new() -> Self {
        Self { chunks: Chunks::new(), rows: Vec::new() }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, additional: usize) {
        self.rows.reserve_exact(additional);
    }

    /// Adds an entity.
    ///
    /// # Errors
    /// One of the keys is too long or has a forbidden character.
    pub fn push(
        &mut self,
        partition: &str,
        row: &str,
        properties: &Properties,
        etag: Option<&str>,
        timestamp: Option<Ticks>,
    ) -> Result<()> {
        Key::check(partition, row)?;
        let Chunk { keys, packed } = self.chunks.current_mut();
        let (start, properties) = (packed.len(), properties.as_packed());
        packed.extend_from_slice(properties);
        let key = append(keys, &[partition, row]);
        let etag = etag.map(|etag| append(keys, &[etag]));
        let place = self.chunks.place(key, partition.len() as u32, start);
        self.rows.push(Row { place, etag, timestamp });
        // The next one is likely to be as long.
        self.chunks.make_room(properties.len());
        Ok(())
    }

    /// The entities, in the order in which they came.
    pub fn into_entities(self) -> Vec<Entity> {
        let chunks = self.chunks.finish();
        let entity = |Row { place, etag, timestamp }: Row| {
            let etag = etag.map(|span| ETag::in_chunk(place.chunk(&chunks), span));
            place.entity(&chunks).with_system(etag, timestamp)
        };
        self.rows.into_iter().map(entity).collect()
    }
}

#[inline]
fn append(out: &mut String, texts: &[&str]) -> Span {
    let from = out.len();
    texts.iter().for_each(|text| out.push_str(text));
    Span::new(from, out.len())
}

impl Default for PageEntities {
    fn default() -> Self {
        Self::new()
    }
}

/// Without the values, which may be secret.
impl fmt::Debug for PageEntities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageEntities").field("len", &self.len()).finish_non_exhaustive()
    }
}
