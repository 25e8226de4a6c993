mod packed;
mod property_ref;

use std::fmt;
use std::sync::Arc;

use super::chunk::{Chunk, ChunkBytes, Span};
use super::{EdmValue, Heads, ValueRef};
use crate::error::{Error, Result};

pub use packed::PackedPart;
pub(crate) use packed::{MARK, Raw, find, read, split_value, tag};
pub use property_ref::{PropertiesIter, PropertyRef};

/// The ordered properties of an entity, packed in one buffer.
///
/// A property is `tag, name length (u16), name, value`, little-endian; the tag is the
/// [`EdmType`](super::EdmType) with bit 7 for the *encrypt* mark; text and bytes are preceded by a `u32` length.
/// Reading a row therefore costs no allocation of its own: the rows of a page share buffers, from which
/// typed decoding borrows. A clone has its own.
/// `docs/embedded-format.md` describes the bytes, and what of them is on disk.
///
/// ```
/// use table_core::model::{Properties, ValueRef};
/// let mut p = Properties::new();
/// p.set("Dest", "IAH");
/// p.set("DepDelay", 2);
/// assert_eq!(p.get("DepDelay"), Some(ValueRef::Int32(2)));
/// assert_eq!(p.iter().map(|p| p.name()).collect::<Vec<_>>(), ["Dest", "DepDelay"]);
/// ```
///
/// # Marks
/// A property that must not leave in the clear carries a mark. It belongs to the name: setting another value,
/// or merging one, keeps it. [`set_plain`](Self::set_plain) and [`remove`](Self::remove) take it away.
///
/// ```
/// # use table_core::model::Properties;
/// let mut p = Properties::new();
/// p.set_encrypted("NationalId", "760519-1234");
/// p.set("NationalId", "790122-4321");
/// assert!(p.find("NationalId").is_some_and(|p| p.is_encrypted()));
/// p.set_plain("NationalId", "none");
/// assert!(p.find("NationalId").is_some_and(|p| !p.is_encrypted()));
/// ```
#[derive(Clone, Default)]
pub struct Properties {
    packed: ChunkBytes,
}

impl Properties {
    /// No properties.
    pub const fn new() -> Self {
        Self { packed: ChunkBytes::Own(Vec::new()) }
    }

    /// No properties, with room for `bytes` of packed data.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { packed: ChunkBytes::Own(Vec::with_capacity(bytes)) }
    }

    /// Properties from their packed form.
    ///
    /// # Errors
    /// The bytes are not well formed (a decode error naming the offset).
    pub fn from_packed(packed: Vec<u8>) -> Result<Self> {
        if let Some(offset) = packed::damage(&packed) {
            return Err(Error::corrupt(format!("properties are damaged before byte {offset}")));
        }
        Ok(Self { packed: ChunkBytes::Own(packed) })
    }

    /// Properties from a packed form that is known to be sound: it was made by this type, and what it was
    /// kept in does not damage it, or would have told.
    pub(crate) fn from_sound(packed: Vec<u8>) -> Self {
        Self::assert_sound(&packed);
        Self { packed: ChunkBytes::Own(packed) }
    }

    /// [`from_sound`](Self::from_sound) for properties in a chunk.
    #[inline]
    pub(crate) fn in_chunk(chunk: Arc<Chunk>, packed: Span, row: Span) -> Self {
        let packed = ChunkBytes::Shared { chunk, packed, row };
        if let (bytes, None) = packed.at_hand() {
            Self::assert_sound(bytes);
        }
        Self { packed }
    }

    /// The properties as they are at hand: with numbers in place of the heads if those are given too.
    #[inline]
    pub(crate) fn at_hand(&self) -> (&[u8], Option<&Heads>) {
        self.packed.at_hand()
    }

    fn assert_sound(packed: &[u8]) {
        debug_assert_eq!(packed::damage(packed), None, "packed properties are damaged");
    }

    /// The packed form.
    #[inline]
    pub fn as_packed(&self) -> &[u8] {
        &self.packed
    }

    /// The packed form; without a copy, unless the properties are those of a page.
    pub fn into_packed(self) -> Vec<u8> {
        self.packed.into_vec()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.raw().count()
    }

    /// The properties in their order.
    pub fn iter(&self) -> PropertiesIter<'_> {
        PropertiesIter { rest: &self.packed }
    }

    /// The properties in their order, not yet interpreted.
    #[inline]
    pub(crate) fn raw(&self) -> impl Iterator<Item = Raw<'_>> {
        let mut rest = &*self.packed;
        std::iter::from_fn(move || Raw::split(&mut rest))
    }

    /// The properties in their order, cut apart but not read.
    #[inline]
    pub fn packed_parts(&self) -> impl Iterator<Item = PackedPart<'_>> {
        self.raw().map(|raw| raw.part())
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<ValueRef<'_>> {
        find(&self.packed, name)?.value()
    }

    /// The text of a property, if it is one. Properties with numbers in place of their heads stay so.
    pub(crate) fn text_at_hand(&self, name: &str) -> Option<&str> {
        let value = match self.at_hand() {
            (packed, None) => find(packed, name)?.value(),
            (row, Some(heads)) => heads.value_of(row, name),
        };
        match value {
            Some(ValueRef::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The property, with its mark.
    pub fn find(&self, name: &str) -> Option<PropertyRef<'_>> {
        find(&self.packed, name)?.parse()
    }

    /// Sets a property, in place if it exists, at the end otherwise. One that was marked stays marked.
    pub fn set(&mut self, name: &str, value: impl Into<EdmValue>) {
        self.put(name, value.into().as_ref(), false);
    }

    /// Sets a property that must not leave in the clear.
    pub fn set_encrypted(&mut self, name: &str, value: impl Into<EdmValue>) {
        self.put(name, value.into().as_ref(), true);
    }

    /// Sets a property that may leave in the clear, whatever was there.
    pub fn set_plain(&mut self, name: &str, value: impl Into<EdmValue>) {
        self.write(name, value.into().as_ref(), |_| false);
    }

    /// [`set`](Self::set) or [`set_encrypted`](Self::set_encrypted) with a borrowed value.
    pub fn put(&mut self, name: &str, value: ValueRef<'_>, encrypt: bool) {
        self.write(name, value, |was_marked| encrypt || was_marked);
    }

    fn write(&mut self, name: &str, value: ValueRef<'_>, mark: impl FnOnce(bool) -> bool) {
        let Some((start, end)) = self.span(name) else { return self.push(name, value, mark(false)) };
        let packed = self.packed.to_mut();
        let tail = packed.split_off(end);
        let mark = mark(packed::is_marked(packed[start]));
        packed.truncate(start);
        packed::push(packed, name, value, mark);
        packed.extend_from_slice(&tail);
    }

    /// Appends a property that is known to be new: the caller answers for the name's uniqueness.
    #[inline]
    pub fn push(&mut self, name: &str, value: ValueRef<'_>, encrypt: bool) {
        packed::push(self.packed.to_mut(), name, value, encrypt);
    }

    /// Removes a property; whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some((start, end)) = self.span(name) else { return false };
        self.packed.to_mut().drain(start..end);
        true
    }

    /// Overwrites and adds the properties of `patch`, keeping the others: the service's merge. What was marked here or
    /// is marked there is marked.
    pub fn merge(&mut self, patch: &Self) {
        for p in patch.iter() {
            self.put(p.name(), p.value(), p.is_encrypted());
        }
    }

    /// Keeps the properties for which `keep` answers true.
    pub fn retain(&mut self, mut keep: impl FnMut(&PropertyRef<'_>) -> bool) {
        let mut kept = Vec::with_capacity(self.packed.len());
        let mut rest = &*self.packed;
        while let Some(raw) = Raw::split(&mut rest) {
            if raw.parse().is_some_and(|p| keep(&p)) {
                kept.extend_from_slice(raw.whole);
            }
        }
        self.packed = ChunkBytes::Own(kept);
    }

    /// Removes every property, keeping the buffer.
    pub fn clear(&mut self) {
        self.packed.to_mut().clear();
    }

    /// The same in a buffer of their own, if they share that of a page.
    pub(crate) fn detached(self) -> Self {
        Self { packed: ChunkBytes::Own(self.packed.into_vec()) }
    }

    fn span(&self, name: &str) -> Option<(usize, usize)> {
        let mut rest = &*self.packed;
        loop {
            let start = self.packed.len() - rest.len();
            let raw = Raw::split(&mut rest)?;
            if raw.name == name.as_bytes() {
                return Some((start, start + raw.whole.len()));
            }
        }
    }
}

/// Equal properties in the same order, marks included.
impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> IntoIterator for &'a Properties {
    type Item = PropertyRef<'a>;
    type IntoIter = PropertiesIter<'a>;

    fn into_iter(self) -> PropertiesIter<'a> {
        self.iter()
    }
}

impl<N: AsRef<str>, V: Into<EdmValue>> FromIterator<(N, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(iter: I) -> Self {
        let mut properties = Self::new();
        iter.into_iter().for_each(|(name, value)| properties.set(name.as_ref(), value));
        properties
    }
}

/// Marked values are not shown.
impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for p in self {
            if p.is_encrypted() {
                map.entry(&p.name(), &format_args!("<{} to encrypt>", p.value().edm_type()));
            } else {
                map.entry(&p.name(), &p.value());
            }
        }
        map.finish()
    }
}
