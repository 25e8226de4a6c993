//! Reads the form of rows: whole rows, or one property after another.

use super::dictionary_entry::{DictionaryEntry, width};
use super::{Heads, Unpacked};
use crate::model::properties::{MARK, read};
use crate::model::{EdmType, ValueRef};

/// Values up to this length are copied as one block.
const VALUE: usize = 16;

/// The dictionary entry before a value.
enum Next<'a> {
    Known(&'a DictionaryEntry),
    /// In the row itself.
    Inline(&'a [u8]),
}

impl Heads {
    /// Converts a row to packed properties and appends them. Returns `None` if the row is damaged.
    #[inline]
    pub fn unpack(&self, mut row: &[u8], out: &mut Unpacked) -> Option<()> {
        while !row.is_empty() {
            let width = match self.next(&mut row)? {
                Next::Known(head) => {
                    head.push(out);
                    head.width()
                }
                Next::Inline(head) => {
                    out.push(head);
                    width(head)?
                }
            };
            let length = match width {
                Some(width) => width,
                None => {
                    let length = take_length(&mut row)?;
                    out.push_block(&length.to_le_bytes(), size_of::<u32>());
                    length as usize
                }
            };
            out.push_start::<VALUE>(row, length)?;
            row = &row[length..];
        }
        Some(())
    }

    /// Returns the number of bytes that [`unpack`](Self::unpack) appends; `None` if the row is damaged.
    #[inline]
    pub fn unpacked_len(&self, row: &[u8]) -> Option<usize> {
        let (mut bytes, mut at) = (0, 0);
        while let Some(number) = row.get(at) {
            let size = self.sizes.get(usize::from(*number)).filter(|size| size.head > 0);
            let Some(size) = size.filter(|_| *number < 0x80) else {
                return Some(bytes + self.unpacked_len_of_any(&row[at..])?);
            };
            let (prefix, length, value) = match size.value {
                Some(width) => (0, 1, width),
                None => match row.get(at + 1) {
                    Some(short @ ..0x80) => (size_of::<u32>(), 2, usize::from(*short)),
                    _ => return Some(bytes + self.unpacked_len_of_any(&row[at..])?),
                },
            };
            bytes += size.head + prefix + value;
            at += length + value;
        }
        (at == row.len()).then_some(bytes)
    }

    /// Like [`unpacked_len`](Self::unpacked_len), for rows with multi-byte numbers or lengths, or with
    /// entries without a number.
    fn unpacked_len_of_any(&self, mut row: &[u8]) -> Option<usize> {
        let mut bytes = 0;
        while !row.is_empty() {
            let (head, width) = match self.next(&mut row)? {
                Next::Known(head) => (head.packed(), head.width()),
                Next::Inline(head) => (head, width(head)?),
            };
            let length = match width {
                Some(width) => width,
                None => {
                    bytes += size_of::<u32>();
                    take_length(&mut row)? as usize
                }
            };
            row = row.get(length..)?;
            bytes += head.len() + length;
        }
        Some(bytes)
    }

    /// Returns the value of the first property with this name, and skips the others.
    pub(crate) fn value_of<'r>(&self, mut row: &'r [u8], name: &str) -> Option<ValueRef<'r>> {
        while !row.is_empty() {
            let head = match self.next(&mut row)? {
                Next::Known(head) => head.packed(),
                Next::Inline(head) => head,
            };
            if DictionaryEntry::name_in(head) == name.as_bytes() {
                return Some(split_row_value(EdmType::from_tag(head.first()? & !MARK)?, row)?.0);
            }
            let length = match width(head)? {
                Some(width) => width,
                None => take_length(&mut row)? as usize,
            };
            row = row.get(length..)?;
        }
        None
    }

    /// If the next property has this name, given with its length in front, returns its tag and the row from
    /// the value on.
    #[inline(always)]
    pub(crate) fn named<'r, const N: usize>(&self, row: &'r [u8], name: &[u8; N]) -> Option<(u8, &'r [u8])> {
        let (first, rest) = row.split_first()?;
        let (number, value) = match first {
            0x80.. => two_bytes(*first, rest)?,
            _ => (u16::from(*first), rest),
        };
        match self.get(number) {
            Some(head) => head.is_named(name).then_some((head.tag(), value)),
            None => named_inline(value, name),
        }
    }

    #[inline]
    fn next<'a, 'r: 'a>(&'a self, row: &mut &'r [u8]) -> Option<Next<'a>> {
        let (first, rest) = row.split_first()?;
        let number;
        (number, *row) = match first {
            0x80.. => two_bytes(*first, rest)?,
            _ => (u16::from(*first), rest),
        };
        match self.get(number) {
            Some(head) => Some(Next::Known(head)),
            None if number == Self::INLINE => next_inline(row),
            None => None,
        }
    }
}

#[cold]
fn next_inline<'r>(row: &mut &'r [u8]) -> Option<Next<'r>> {
    let (head, rest) = DictionaryEntry::split(row)?;
    *row = rest;
    Some(Next::Inline(head))
}

#[cold]
fn named_inline<'r>(row: &'r [u8], name: &[u8]) -> Option<(u8, &'r [u8])> {
    let (tag, rest) = row.split_first()?;
    Some((*tag, rest.strip_prefix(name)?))
}

/// Splits a value of a known type off the start of a row; `None` if the row is damaged.
#[inline(always)]
pub(crate) fn split_row_value(edm_type: EdmType, mut row: &[u8]) -> Option<(ValueRef<'_>, &[u8])> {
    let length = match edm_type.packed_bytes() {
        Some(width) => width,
        None => take_length(&mut row)? as usize,
    };
    let (value, rest) = row.split_at_checked(length)?;
    Some((read(edm_type, value)?, rest))
}

#[inline]
fn two_bytes(low: u8, rest: &[u8]) -> Option<(u16, &[u8])> {
    let (high, rest) = rest.split_first()?;
    Some((u16::from(low & 0x7F) | u16::from(*high) << 7, rest))
}

#[inline]
fn take_length(row: &mut &[u8]) -> Option<u32> {
    let (first, rest) = row.split_first()?;
    if *first < 0x80 {
        *row = rest;
        return Some((*first).into());
    }
    take_long_length(row)
}

fn take_long_length(row: &mut &[u8]) -> Option<u32> {
    let mut length = 0;
    for shift in (0..u32::BITS).step_by(7) {
        let (byte, rest) = row.split_first()?;
        *row = rest;
        length |= u32::from(byte & 0x7F).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some(length);
        }
    }
    None
}
