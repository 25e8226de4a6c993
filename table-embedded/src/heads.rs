mod unpacked;

use std::collections::HashMap;
use std::sync::Arc;

use table_core::model::{EdmType, PackedPart, Properties};

pub(crate) use self::unpacked::Unpacked;

/// In a tag: the property must not leave in the clear.
const MARK: u8 = 0x80;
/// Bytes of a packed head before the name: tag and length of the name.
const BEFORE_NAME: usize = 3;
/// Heads up to this length are copied as one block of it.
const BLOCK: usize = 32;
/// So are values.
const VALUE: usize = 16;

/// The heads of properties, type and mark and name, that rows name by a number.
///
/// A number is given once and never to another head: the readers of earlier moments share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads {
    known: Vec<Head>,
    numbers: HashMap<Arc<[u8]>, u16>,
}

#[derive(Clone, Debug)]
struct Head {
    packed: Arc<[u8]>,
    block: [u8; BLOCK],
    /// Bytes of a value, if all have as many.
    width: Option<usize>,
}

impl Heads {
    /// How many heads get a number. Those that come later are written into each row.
    pub(crate) const MOST: usize = 4096;
    /// In a row: the head itself follows.
    const INLINE: u16 = 0;

    pub(crate) fn number(&self, packed: &[u8]) -> Option<u16> {
        self.numbers.get(packed).copied()
    }

    /// Whether a head has this number.
    #[inline]
    pub(crate) fn is(&self, number: u16, packed: &[u8]) -> bool {
        self.get(number).is_some_and(|head| *head.packed == *packed)
    }

    /// Whether no other head gets a number.
    pub(crate) fn is_full(&self) -> bool {
        self.known.len() == Self::MOST
    }

    /// Gives a new head the next number; `None` if it is none, or there are enough.
    pub(crate) fn add(&mut self, packed: &[u8]) -> Option<u16> {
        if self.is_full() {
            return None;
        }
        let (head, rest) = Head::split(packed)?;
        let packed: Arc<[u8]> = head.into();
        let mut block = [0; BLOCK];
        block.iter_mut().zip(&*packed).for_each(|(to, from)| *to = *from);
        let width = head_type(head)?.packed_bytes();
        let number = u16::try_from(self.known.len() + 1).ok().filter(|_| rest.is_empty())?;
        self.numbers.insert(Arc::clone(&packed), number);
        self.known.push(Head { packed, block, width });
        Some(number)
    }

    /// Numbers and heads, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (1..).zip(self.known.iter().map(|head| &*head.packed))
    }

    #[inline]
    fn get(&self, number: u16) -> Option<&Head> {
        self.known.get(usize::from(number).checked_sub(1)?)
    }

    /// Appends packed properties from the form that a row has; `None` if that is damaged.
    #[inline]
    pub(crate) fn unpack(&self, mut row: &[u8], out: &mut Unpacked) -> Option<()> {
        while let [first, ..] = row {
            let number = if *first < 0x80 { take::<1>(&mut row)?[0].into() } else { two_bytes(&mut row)? };
            let width = match self.get(number) {
                Some(head) => head.push(out),
                None if number == Self::INLINE => push_inline(&mut row, out)?,
                None => return None,
            };
            let length = match width {
                Some(width) => width,
                None => push_length_of_value(&mut row, out)?,
            };
            out.push_start::<VALUE>(row, length)?;
            row = &row[length..];
        }
        Some(())
    }
}

impl Head {
    /// The head that bytes start with.
    fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let [_, low, high] = *bytes.first_chunk::<BEFORE_NAME>()?;
        let (head, rest) =
            bytes.split_at_checked(BEFORE_NAME + usize::from(u16::from_le_bytes([low, high])))?;
        std::str::from_utf8(&head[BEFORE_NAME..]).ok()?;
        Some((head, rest))
    }

    #[inline]
    fn push(&self, out: &mut Unpacked) -> Option<usize> {
        if self.packed.len() <= BLOCK {
            out.push_block(&self.block, self.packed.len());
        } else {
            out.push(&self.packed);
        }
        self.width
    }
}

fn head_type(packed: &[u8]) -> Option<EdmType> {
    EdmType::from_tag(packed.first()? & !MARK)
}

#[cold]
fn push_inline(row: &mut &[u8], out: &mut Unpacked) -> Option<Option<usize>> {
    let (head, rest) = Head::split(row)?;
    out.push(head);
    *row = rest;
    Some(head_type(head)?.packed_bytes())
}

#[inline]
fn push_length_of_value(row: &mut &[u8], out: &mut Unpacked) -> Option<usize> {
    let length = take_length(row)?;
    out.push_block(&length.to_le_bytes(), size_of::<u32>());
    Some(length as usize)
}

/// Appends properties in the form that a row has; `number` tells the number of a head, if it has one.
pub(crate) fn pack<E>(
    properties: &Properties,
    out: &mut Vec<u8>,
    mut number: impl FnMut(&[u8]) -> Result<Option<u16>, E>,
) -> Result<(), E> {
    for PackedPart { head, edm_type, value, .. } in properties.packed_parts() {
        match number(head)? {
            Some(number @ 0x80..) => out.extend_from_slice(&[number as u8 | 0x80, (number >> 7) as u8]),
            Some(number) => out.push(number as u8),
            None => {
                out.push(Heads::INLINE as u8);
                out.extend_from_slice(head);
            }
        }
        if edm_type.packed_bytes().is_none() {
            push_length(value.len() as u32, out);
        }
        out.extend_from_slice(value);
    }
    Ok(())
}

#[inline]
fn take<'a, const N: usize>(row: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = row.split_first_chunk()?;
    *row = rest;
    Some(taken)
}

fn two_bytes(row: &mut &[u8]) -> Option<u16> {
    let [low, high] = take::<2>(row)?;
    Some(u16::from(low & 0x7F) | u16::from(*high) << 7)
}

/// Seven bits in a byte, the lowest first; all but the last have their high bit set.
fn push_length(mut length: u32, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

#[inline]
fn take_length(row: &mut &[u8]) -> Option<u32> {
    let mut length = 0;
    for shift in (0..u32::BITS).step_by(7) {
        let [byte] = *take::<1>(row)?;
        length |= u32::from(byte & 0x7F).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(length);
        }
    }
    None
}

#[cfg(test)]
mod tests;
