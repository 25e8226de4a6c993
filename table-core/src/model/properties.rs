use std::fmt;

use uuid::Uuid;

use super::{EdmType, EdmValue, Ticks, ValueRef};
use crate::store::{Error, Result};

/// The ordered properties of an entity, packed in one buffer.
///
/// A property is `tag, name length (u16), name, value`, little-endian; the tag is the
/// [`EdmType`] with bit 7 for the *encrypt* mark; text and bytes are preceded by a `u32` length.
/// Reading a row therefore costs one allocation, and typed decoding borrows from it.
/// `docs/embedded-format.md` describes the same bytes on disk.
///
/// ```
/// use table_core::model::{Properties, ValueRef};
/// let mut p = Properties::new();
/// p.set("Dest", "IAH");
/// p.set("DepDelay", 2);
/// assert_eq!(p.get("DepDelay"), Some(ValueRef::Int32(2)));
/// assert_eq!(p.iter().map(|p| p.name()).collect::<Vec<_>>(), ["Dest", "DepDelay"]);
/// ```
#[derive(Clone, Default)]
pub struct Properties {
    packed: Vec<u8>,
}

const MARK: u8 = 0x80;

impl Properties {
    /// No properties.
    pub const fn new() -> Self {
        Self { packed: Vec::new() }
    }

    /// No properties, with room for `bytes` of packed data.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { packed: Vec::with_capacity(bytes) }
    }

    /// Properties from their packed form.
    ///
    /// # Errors
    /// The bytes are not well formed (a decode error naming the offset).
    pub fn from_packed(packed: Vec<u8>) -> Result<Self> {
        let mut rest = packed.as_slice();
        while !rest.is_empty() {
            if Raw::split(&mut rest).and_then(Raw::parse).is_none() {
                let offset = packed.len() - rest.len();
                return Err(Error::corrupt(format!("properties are damaged before byte {offset}")));
            }
        }
        Ok(Self { packed })
    }

    /// Properties from a packed form that is known to be sound: it was made by this type, and what it was
    /// kept in does not damage it, or would have told.
    pub(crate) fn from_sound(packed: Vec<u8>) -> Self {
        debug_assert!(Self::from_packed(packed.clone()).is_ok(), "packed properties are damaged");
        Self { packed }
    }

    /// The packed form.
    #[inline]
    pub fn as_packed(&self) -> &[u8] {
        &self.packed
    }

    /// The packed form, without a copy.
    pub fn into_packed(self) -> Vec<u8> {
        self.packed
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The properties in their order.
    pub fn iter(&self) -> PropertiesIter<'_> {
        PropertiesIter { rest: &self.packed }
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<ValueRef<'_>> {
        self.find(name).map(|p| p.value())
    }

    /// The property, with its mark.
    pub fn find(&self, name: &str) -> Option<PropertyRef<'_>> {
        let mut rest = self.packed.as_slice();
        std::iter::from_fn(|| Raw::split(&mut rest)).find(|raw| raw.name == name.as_bytes())?.parse()
    }

    /// Sets a property, in place if it exists, at the end otherwise. A set property is not marked.
    pub fn set(&mut self, name: &str, value: impl Into<EdmValue>) {
        self.put(name, value.into().as_ref(), false);
    }

    /// Sets a property that must not leave in the clear.
    pub fn set_encrypted(&mut self, name: &str, value: impl Into<EdmValue>) {
        self.put(name, value.into().as_ref(), true);
    }

    /// [`set`](Self::set) or [`set_encrypted`](Self::set_encrypted) with a borrowed value.
    pub fn put(&mut self, name: &str, value: ValueRef<'_>, encrypt: bool) {
        let Some((start, end)) = self.span(name) else { return self.push(name, value, encrypt) };
        let tail = self.packed.split_off(end);
        self.packed.truncate(start);
        self.push(name, value, encrypt);
        self.packed.extend_from_slice(&tail);
    }

    /// Appends a property that is known to be new: the caller answers for the name's uniqueness.
    #[inline]
    pub fn push(&mut self, name: &str, value: ValueRef<'_>, encrypt: bool) {
        let mark = if encrypt { MARK } else { 0 };
        self.packed.push(value.edm_type() as u8 | mark);
        let name = storable_name(name).as_bytes();
        self.packed.extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.packed.extend_from_slice(name);
        self.push_value(value);
    }

    /// Removes a property; whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some((start, end)) = self.span(name) else { return false };
        self.packed.drain(start..end);
        true
    }

    /// Overwrites and adds the properties of `patch`, keeping the others: the service's merge.
    pub fn merge(&mut self, patch: &Self) {
        for p in patch.iter() {
            self.put(p.name(), p.value(), p.is_encrypted());
        }
    }

    /// Keeps the properties for which `keep` answers true.
    pub fn retain(&mut self, mut keep: impl FnMut(&PropertyRef<'_>) -> bool) {
        let mut kept = Vec::with_capacity(self.packed.len());
        let mut rest = self.packed.as_slice();
        while let Some(raw) = Raw::split(&mut rest) {
            if raw.parse().is_some_and(|p| keep(&p)) {
                kept.extend_from_slice(raw.whole);
            }
        }
        self.packed = kept;
    }

    /// Removes every property, keeping the buffer.
    pub fn clear(&mut self) {
        self.packed.clear();
    }

    #[inline]
    fn push_value(&mut self, value: ValueRef<'_>) {
        let out = &mut self.packed;
        match value {
            ValueRef::Binary(v) => push_long(out, v),
            ValueRef::String(v) => push_long(out, v.as_bytes()),
            ValueRef::Boolean(v) => out.push(u8::from(v)),
            ValueRef::DateTime(v) => out.extend_from_slice(&v.get().to_le_bytes()),
            ValueRef::Double(v) => out.extend_from_slice(&v.to_le_bytes()),
            ValueRef::Guid(v) => out.extend_from_slice(v.as_bytes()),
            ValueRef::Int32(v) => out.extend_from_slice(&v.to_le_bytes()),
            ValueRef::Int64(v) => out.extend_from_slice(&v.to_le_bytes()),
        }
    }

    fn span(&self, name: &str) -> Option<(usize, usize)> {
        let mut rest = self.packed.as_slice();
        loop {
            let start = self.packed.len() - rest.len();
            let raw = Raw::split(&mut rest)?;
            if raw.name == name.as_bytes() {
                return Some((start, start + raw.whole.len()));
            }
        }
    }
}

/// What of a name fits the `u16` of its length, cut between characters: a name over 255 characters
/// is refused by the limits, but must not make the rest of the buffer unreadable before that.
fn storable_name(name: &str) -> &str {
    let longest = usize::from(u16::MAX).min(name.len());
    let end = (0..=longest).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or_default()]
}

#[inline]
fn push_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
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

/// A property in its [`Properties`].
#[derive(Clone, Copy, PartialEq)]
pub struct PropertyRef<'a> {
    name: &'a str,
    value: ValueRef<'a>,
    encrypted: bool,
}

impl<'a> PropertyRef<'a> {
    /// The name.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// The value.
    pub const fn value(&self) -> ValueRef<'a> {
        self.value
    }

    /// Whether the property must not leave in the clear.
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

/// See [`Properties::iter`].
#[derive(Clone)]
pub struct PropertiesIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for PropertiesIter<'a> {
    type Item = PropertyRef<'a>;

    fn next(&mut self) -> Option<PropertyRef<'a>> {
        Raw::split(&mut self.rest).and_then(Raw::parse)
    }
}

impl fmt::Debug for PropertiesIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// One packed property, cut out but not yet interpreted.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a> {
    whole: &'a [u8],
    tag: u8,
    pub(crate) name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Raw<'a> {
    /// Cuts the first property off `rest`; `None` at the end and for damaged bytes.
    #[inline]
    pub(crate) fn split(rest: &mut &'a [u8]) -> Option<Self> {
        let bytes = *rest;
        let (&[tag, low, high], _) = bytes.split_first_chunk()?;
        let name_end = 3 + usize::from(u16::from_le_bytes([low, high]));
        let (start, len) = match EdmType::from_tag(tag & !MARK)? {
            EdmType::Binary | EdmType::String => {
                let (len, _) = bytes.get(name_end..)?.split_first_chunk()?;
                (name_end + 4, u32::from_le_bytes(*len) as usize)
            }
            EdmType::Boolean => (name_end, 1),
            EdmType::Int32 => (name_end, 4),
            EdmType::DateTime | EdmType::Double | EdmType::Int64 => (name_end, 8),
            EdmType::Guid => (name_end, 16),
        };
        let (whole, after) = bytes.split_at_checked(start.checked_add(len)?)?;
        *rest = after;
        Some(Self { whole, tag, name: whole.get(3..name_end)?, value: &whole[start..] })
    }

    pub(crate) fn parse(self) -> Option<PropertyRef<'a>> {
        let name = std::str::from_utf8(self.name).ok()?;
        Some(PropertyRef { name, value: self.value()?, encrypted: self.is_encrypted() })
    }

    #[inline]
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.tag & MARK != 0
    }

    #[inline]
    pub(crate) fn value(&self) -> Option<ValueRef<'a>> {
        let v = self.value;
        Some(match EdmType::from_tag(self.tag & !MARK)? {
            EdmType::Binary => ValueRef::Binary(v),
            EdmType::Boolean => ValueRef::Boolean(*v.first()? != 0),
            EdmType::DateTime => ValueRef::DateTime(Ticks::new(i64::from_le_bytes(v.try_into().ok()?))?),
            EdmType::Double => ValueRef::Double(f64::from_le_bytes(v.try_into().ok()?)),
            EdmType::Guid => ValueRef::Guid(Uuid::from_bytes(v.try_into().ok()?)),
            EdmType::Int32 => ValueRef::Int32(i32::from_le_bytes(v.try_into().ok()?)),
            EdmType::Int64 => ValueRef::Int64(i64::from_le_bytes(v.try_into().ok()?)),
            EdmType::String => ValueRef::String(std::str::from_utf8(v).ok()?),
        })
    }
}
