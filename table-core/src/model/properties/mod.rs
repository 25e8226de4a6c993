mod packed;
mod repeated;

use std::fmt;
use std::sync::Arc;

use super::chunk::{Chunk, ChunkBytes, Span};
use super::{EdmValue, INDEX_NAME, PropertyDictionary, ValueRef};
use crate::error::{Error, Result};

pub use packed::PackedProperty;
pub(crate) use packed::{MARK, decode_value, find, split_value, tag};

/// The ordered properties of an entity, packed in one buffer.
///
/// A property is `tag, name length (u16), name, value`, little-endian. The tag is the
/// [`EdmType`](super::EdmType), with bit 7 set for the *encrypt* mark. A `u32` length precedes text and
/// bytes. Reading a row needs no allocation of its own: the rows of a page share buffers, and typed decoding
/// borrows from them. A clone has its own buffer. `docs/embedded-format.md` describes the bytes and which of
/// them are on disk.
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
/// A property that must be stored encrypted has a mark. The mark belongs to the name: setting or merging
/// another value keeps it. [`set_plain`](Self::set_plain) and [`remove`](Self::remove) remove it.
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
    /// Creates an empty set of properties.
    pub const fn new() -> Self {
        Self {
            packed: ChunkBytes::Own(Vec::new()),
        }
    }

    /// Creates an empty set with capacity for `bytes` of packed data.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            packed: ChunkBytes::Own(Vec::with_capacity(bytes)),
        }
    }

    /// Creates properties from their packed form.
    ///
    /// # Errors
    /// Fails if the bytes are damaged, or if a name occurs twice. The error has the offset or the name.
    pub fn from_packed(packed: Vec<u8>) -> Result<Self> {
        if let Some(offset) = packed::first_invalid_offset(&packed) {
            return Err(Error::corrupt(format!(
                "properties are damaged before byte {offset}"
            )));
        }
        let properties = Self {
            packed: ChunkBytes::Own(packed),
        };
        match properties.repeated_name() {
            Some(name) => Err(Error::corrupt(format!(
                "the property '{name}' occurs twice"
            ))),
            None => Ok(properties),
        }
    }

    /// Creates properties from a packed form that is known to be valid: this type wrote it, and its storage
    /// either keeps it intact or reports damage.
    pub(crate) fn from_trusted(packed: Vec<u8>) -> Self {
        Self::debug_assert_valid(&packed);
        Self {
            packed: ChunkBytes::Own(packed),
        }
    }

    /// Like [`from_trusted`](Self::from_trusted), for properties in a chunk.
    #[inline]
    pub(crate) fn in_chunk(chunk: Arc<Chunk>, packed: Span, row: Span) -> Self {
        let packed = ChunkBytes::Shared { chunk, packed, row };
        // Only properties that are packed already: the check of a numbered row would unpack the whole chunk.
        if let (bytes, None) = packed.raw_or_numbered() {
            Self::debug_assert_valid(bytes);
        }
        Self { packed }
    }

    /// Returns the properties without conversion: packed, or numbered together with their dictionary.
    #[inline]
    pub(crate) fn raw_or_numbered(&self) -> (&[u8], Option<&PropertyDictionary>) {
        self.packed.raw_or_numbered()
    }

    fn debug_assert_valid(packed: &[u8]) {
        debug_assert_eq!(
            packed::first_invalid_offset(packed),
            None,
            "packed properties are damaged"
        );
    }

    /// Returns the packed form.
    #[inline]
    pub fn as_packed(&self) -> &[u8] {
        &self.packed
    }

    /// Returns the packed form. Copies only if the properties are shared with a page.
    pub fn into_packed(self) -> Vec<u8> {
        self.packed.into_vec()
    }

    /// Whether there are no properties.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Returns the number of properties.
    pub fn len(&self) -> usize {
        self.packed_properties().count()
    }

    /// Iterates over the properties in order.
    pub fn iter(&self) -> PropertiesIter<'_> {
        PropertiesIter { rest: &self.packed }
    }

    /// Iterates over the properties in order, without decoding the values.
    #[doc(hidden)]
    #[inline]
    pub fn packed_properties(&self) -> impl Iterator<Item = PackedProperty<'_>> {
        let mut rest = &*self.packed;
        std::iter::from_fn(move || PackedProperty::split(&mut rest))
    }

    /// Returns the value of a property.
    pub fn get(&self, name: &str) -> Option<ValueRef<'_>> {
        find(&self.packed, name)?.decode()
    }

    /// Returns the text of the property [`INDEX_NAME`] if it is a String. Numbered properties are not converted.
    #[inline]
    pub(crate) fn index_name(&self) -> Option<&str> {
        let value = match self.raw_or_numbered() {
            (packed, None) => find(packed, INDEX_NAME)?.decode(),
            (row, Some(dictionary)) => dictionary.index_name(row),
        };
        match value {
            Some(ValueRef::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a property with its mark.
    pub fn find(&self, name: &str) -> Option<PropertyRef<'_>> {
        find(&self.packed, name)?.parse()
    }

    /// Sets a property: in place if it exists, otherwise at the end. A marked property stays marked.
    pub fn set(&mut self, name: &str, value: impl Into<EdmValue>) {
        self.put(name, value.into().as_ref(), false);
    }

    /// Sets a property that must be stored encrypted.
    pub fn set_encrypted(&mut self, name: &str, value: impl Into<EdmValue>) {
        self.put(name, value.into().as_ref(), true);
    }

    /// Sets a property that may be stored in plaintext, and removes an existing mark.
    pub fn set_plain(&mut self, name: &str, value: impl Into<EdmValue>) {
        self.write(name, value.into().as_ref(), |_| false);
    }

    /// Like [`set`](Self::set) or [`set_encrypted`](Self::set_encrypted), with a borrowed value.
    pub fn put(&mut self, name: &str, value: ValueRef<'_>, encrypt: bool) {
        self.write(name, value, |was_marked| encrypt || was_marked);
    }

    fn write(&mut self, name: &str, value: ValueRef<'_>, mark: impl FnOnce(bool) -> bool) {
        let Some((start, end)) = self.span(name) else {
            return self.push(name, value, mark(false));
        };
        let packed = self.packed.to_mut();
        // The property keeps its place: a derived type decodes fastest if its properties are stored in the order in which it
        // writes them (`typed::derived::InOrder`).
        let tail = packed.split_off(end);
        let mark = mark(packed::is_marked(packed[start]));
        packed.truncate(start);
        packed::push(packed, name, value, mark);
        packed.extend_from_slice(&tail);
    }

    /// Appends a new property, without a search for the name: the caller must ensure that it does not exist yet. Stores refuse
    /// properties in which a name occurs twice ([`repeated_name`](Self::repeated_name)).
    #[inline]
    pub fn push(&mut self, name: &str, value: ValueRef<'_>, encrypt: bool) {
        packed::push(self.packed.to_mut(), name, value, encrypt);
    }

    /// Returns a name that occurs twice: in a row of an earlier release, which did not check this, or after a wrong
    /// [`push`](Self::push). Readers take the first value.
    ///
    /// ```
    /// use table_core::model::{Properties, ValueRef};
    /// let mut properties = Properties::new();
    /// properties.push("Age", ValueRef::Int32(41), false);
    /// assert_eq!(properties.repeated_name(), None);
    /// properties.push("Age", ValueRef::Int32(42), false);
    /// assert_eq!(properties.repeated_name(), Some("Age"));
    /// ```
    pub fn repeated_name(&self) -> Option<&str> {
        std::str::from_utf8(repeated::repeated_name(&self.packed)?).ok()
    }

    /// Removes a property. Returns whether it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some((start, end)) = self.span(name) else {
            return false;
        };
        self.packed.to_mut().drain(start..end);
        true
    }

    /// Overwrites and adds the properties of `patch` and keeps the others, like the service's merge. A
    /// property that is marked in either stays marked.
    pub fn merge(&mut self, patch: &Self) {
        for p in patch.iter() {
            self.put(p.name(), p.value(), p.is_encrypted());
        }
    }

    /// Keeps the properties for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&PropertyRef<'_>) -> bool) {
        let mut kept = Vec::with_capacity(self.packed.len());
        for property in self.packed_properties() {
            if property.parse().is_some_and(|p| keep(&p)) {
                kept.extend_from_slice(property.whole);
            }
        }
        self.packed = ChunkBytes::Own(kept);
    }

    /// Removes all properties and keeps the buffer.
    pub fn clear(&mut self) {
        self.packed.to_mut().clear();
    }

    /// Converts to an owned buffer, if the buffer is shared with a page.
    pub(crate) fn detached(self) -> Self {
        Self {
            packed: ChunkBytes::Own(self.packed.into_vec()),
        }
    }

    /// Returns start and end of a property in the packed bytes.
    fn span(&self, name: &str) -> Option<(usize, usize)> {
        let mut rest = &*self.packed;
        loop {
            let start = self.packed.len() - rest.len();
            let property = PackedProperty::split(&mut rest)?;
            if property.name == name.as_bytes() {
                return Some((start, start + property.whole.len()));
            }
        }
    }
}

/// Compares properties in order, including marks.
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
        iter.into_iter()
            .for_each(|(name, value)| properties.set(name.as_ref(), value));
        properties
    }
}

/// Does not show marked values.
impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for p in self {
            if p.is_encrypted() {
                map.entry(
                    &p.name(),
                    &format_args!("<{} to encrypt>", p.value().edm_type()),
                );
            } else {
                map.entry(&p.name(), &p.value());
            }
        }
        map.finish()
    }
}

/// A property in its [`Properties`].
#[derive(Clone, Copy, PartialEq)]
pub struct PropertyRef<'a> {
    name: &'a str,
    value: ValueRef<'a>,
    encrypted: bool,
}

impl<'a> PropertyRef<'a> {
    /// Returns the name.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the value.
    pub const fn value(&self) -> ValueRef<'a> {
        self.value
    }

    /// Whether the property must be stored encrypted.
    pub const fn is_encrypted(&self) -> bool {
        self.encrypted
    }
}

impl fmt::Debug for PropertyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("PropertyRef");
        out.field("name", &self.name);
        if self.encrypted {
            out.field("value", &"<to encrypt>").finish()
        } else {
            out.field("value", &self.value).finish()
        }
    }
}

/// An iterator over properties; see [`Properties::iter`].
#[derive(Clone)]
pub struct PropertiesIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for PropertiesIter<'a> {
    type Item = PropertyRef<'a>;

    fn next(&mut self) -> Option<PropertyRef<'a>> {
        PackedProperty::split(&mut self.rest).and_then(PackedProperty::parse)
    }
}

impl fmt::Debug for PropertiesIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
