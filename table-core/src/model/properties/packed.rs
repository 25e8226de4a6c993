//! The packed bytes of properties: writing, splitting, reading.

use uuid::Uuid;

use super::PropertyRef;
use crate::model::{EdmType, Ticks, ValueRef};

/// Flag in a tag: the property must be stored encrypted.
pub(crate) const MARK: u8 = 0x80;

/// Bytes of a value by type number; 0 for types with a length prefix.
const FIXED: [u8; EdmType::ALL.len()] = {
    let (mut fixed, mut n) = ([0; EdmType::ALL.len()], 0);
    while n < fixed.len() {
        if let Some(bytes) = EdmType::ALL[n].packed_bytes() {
            fixed[n] = bytes as u8;
        }
        n += 1;
    }
    fixed
};

/// Returns the tag of a property.
#[inline]
pub(crate) const fn tag(edm_type: EdmType, encrypt: bool) -> u8 {
    edm_type as u8 | if encrypt { MARK } else { 0 }
}

/// Whether a tag has the mark.
#[inline]
pub(super) const fn is_marked(tag: u8) -> bool {
    tag & MARK != 0
}

/// Appends a property.
#[inline]
pub(super) fn push(out: &mut Vec<u8>, name: &str, value: ValueRef<'_>, encrypt: bool) {
    let name = storable_name(name).as_bytes();
    // The cast loses nothing: `storable_name` has cut the name.
    let [low, high] = (name.len() as u16).to_le_bytes();
    out.extend_from_slice(&[tag(value.edm_type(), encrypt), low, high]);
    out.extend_from_slice(name);
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

/// Returns the part of a name that fits the `u16` length, cut between characters. The limits refuse names
/// over 255 characters, but until then such a name must not make the rest of the buffer unreadable.
#[inline]
fn storable_name(name: &str) -> &str {
    const LONGEST: usize = u16::MAX as usize;
    if name.len() <= LONGEST {
        return name;
    }
    let end = (0..=LONGEST).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or_default()]
}

#[inline]
fn push_long(out: &mut Vec<u8>, bytes: &[u8]) {
    // A property that the limits allow has at most 64 KiB, so the cast loses nothing.
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Returns the offset at which the check stopped, or `None` if all bytes are valid. Invalid lengths and types stop it at the
/// start of their property; an invalid text or time stops it at the end of its property.
pub(super) fn first_invalid_offset(packed: &[u8]) -> Option<usize> {
    let mut rest = packed;
    while !rest.is_empty() {
        if PackedProperty::split(&mut rest)
            .and_then(PackedProperty::parse)
            .is_none()
        {
            return Some(packed.len() - rest.len());
        }
    }
    None
}

/// Finds the property with this name. Skips other properties without decoding them.
#[inline]
pub(crate) fn find<'a>(packed: &'a [u8], name: &str) -> Option<PackedProperty<'a>> {
    let mut rest = packed;
    // Every access is checked. A row from a disk is only known to be as it was written, and a mistake here must end the
    // search instead of the process.
    while let [tag, low, high, after @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        // The lengths first: most names of a type differ in length, so most are skipped without reading the name.
        if len == name.len() && after.get(..len)? == name.as_bytes() {
            return PackedProperty::split(&mut rest);
        }
        // The length of a value follows from its type. Behind an unknown type nothing can be found, so the search
        // ends.
        let value = match FIXED.get(usize::from(tag & !MARK))? {
            0 => {
                4usize.checked_add(u32::from_le_bytes(*after.get(len..)?.first_chunk()?) as usize)?
            }
            fixed => usize::from(*fixed),
        };
        rest = after.get(len.checked_add(value)?..)?;
    }
    None
}

/// Splits a value of a known type, with its length prefix, off the start of `bytes`; `None` if they are damaged.
#[inline(always)]
pub(crate) fn split_value(edm_type: EdmType, bytes: &[u8]) -> Option<(ValueRef<'_>, &[u8])> {
    let (start, len) = match FIXED[edm_type as usize] {
        0 => (4, u32::from_le_bytes(*bytes.first_chunk()?) as usize),
        fixed => (0, usize::from(fixed)),
    };
    let (value, after) = bytes.get(start..)?.split_at_checked(len)?;
    Some((decode_value(edm_type, value)?, after))
}

/// Decodes the bytes of a value, without a length prefix; `None` if they are damaged.
#[inline(always)]
pub(crate) fn decode_value(edm_type: EdmType, v: &[u8]) -> Option<ValueRef<'_>> {
    Some(match edm_type {
        EdmType::Binary => ValueRef::Binary(v),
        EdmType::Boolean => ValueRef::Boolean(*v.first()? != 0),
        EdmType::DateTime => {
            ValueRef::DateTime(Ticks::new(i64::from_le_bytes(v.try_into().ok()?))?)
        }
        EdmType::Double => ValueRef::Double(f64::from_le_bytes(v.try_into().ok()?)),
        EdmType::Guid => ValueRef::Guid(Uuid::from_bytes(v.try_into().ok()?)),
        EdmType::Int32 => ValueRef::Int32(i32::from_le_bytes(v.try_into().ok()?)),
        EdmType::Int64 => ValueRef::Int64(i64::from_le_bytes(v.try_into().ok()?)),
        EdmType::String => ValueRef::String(std::str::from_utf8(v).ok()?),
    })
}

/// The bytes of a packed property. The value is not decoded yet.
#[derive(Clone, Copy)]
pub struct PackedProperty<'a> {
    /// All bytes of the property.
    pub(crate) whole: &'a [u8],
    /// The type's number and the mark.
    tag: u8,
    /// The name, UTF-8.
    pub name: &'a [u8],
    /// The type of the value.
    pub edm_type: EdmType,
    /// The value without its length prefix; UTF-8 if it is a String.
    pub value: &'a [u8],
}

/// Does not show the value, which may be secret.
impl std::fmt::Debug for PackedProperty<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = String::from_utf8_lossy(self.name);
        f.debug_struct("PackedProperty")
            .field("name", &name)
            .field("edm_type", &self.edm_type)
            .finish_non_exhaustive()
    }
}

impl<'a> PackedProperty<'a> {
    /// Splits off the first property; `None` at the end and for damaged bytes.
    #[inline]
    pub(crate) fn split(rest: &mut &'a [u8]) -> Option<Self> {
        let bytes = *rest;
        let (&[tag, low, high], _) = bytes.split_first_chunk()?;
        // 3 bytes precede the name: tag and length.
        let name_end = 3 + usize::from(u16::from_le_bytes([low, high]));
        let edm_type = EdmType::from_tag(tag & !MARK)?;
        let (start, len) = match FIXED[edm_type as usize] {
            0 => {
                let (len, _) = bytes.get(name_end..)?.split_first_chunk()?;
                (name_end + 4, u32::from_le_bytes(*len) as usize)
            }
            fixed => (name_end, usize::from(fixed)),
        };
        let (whole, after) = bytes.split_at_checked(start.checked_add(len)?)?;
        // Last, so that `rest` still starts at the property if its bytes are damaged.
        *rest = after;
        Some(Self {
            whole,
            tag,
            name: whole.get(3..name_end)?,
            edm_type,
            value: &whole[start..],
        })
    }

    /// Returns the bytes before the value: tag, length of the name, name.
    #[inline]
    pub fn prefix(&self) -> &'a [u8] {
        &self.whole[..3 + self.name.len()]
    }

    pub(crate) fn parse(self) -> Option<PropertyRef<'a>> {
        let name = std::str::from_utf8(self.name).ok()?;
        Some(PropertyRef {
            name,
            value: self.decode()?,
            encrypted: self.is_encrypted(),
        })
    }

    #[inline]
    pub(crate) const fn is_encrypted(&self) -> bool {
        is_marked(self.tag)
    }

    /// Decodes the value; `None` if its bytes are damaged.
    #[inline]
    pub fn decode(&self) -> Option<ValueRef<'a>> {
        decode_value(self.edm_type, self.value)
    }
}
