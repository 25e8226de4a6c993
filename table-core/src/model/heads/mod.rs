//! Properties with numbers in place of their heads: names are most of an entity, and the same in all entities
//! of a type.

mod head;
mod read;
#[cfg(test)]
mod tests;
mod unpacked;

use std::collections::HashMap;
use std::sync::Arc;

use super::{PackedPart, Properties};
use head::{Head, Size};

pub(crate) use read::split_row_value;
pub use unpacked::Unpacked;

/// The heads of properties, type and mark and name, that rows name by a number: for stores that keep them beside
/// their rows. `docs/embedded-format.md` describes the bytes.
///
/// A number is given once and never to another head: the readers of earlier moments share it.
///
/// ```
/// use table_core::model::{Heads, Properties, Unpacked};
/// let mut properties = Properties::new();
/// properties.set("Dest", "IAH");
/// let (mut heads, mut row, mut unpacked) = (Heads::default(), Vec::new(), Unpacked::default());
/// Heads::pack(&properties, &mut row, |head| Ok::<_, ()>(heads.number(head).or_else(|| heads.add(head)))).unwrap();
/// assert_eq!(row, b"\x01\x03IAH");
/// heads.unpack(&row, &mut unpacked).unwrap();
/// assert_eq!(unpacked.as_bytes(), properties.as_packed());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Heads {
    known: Vec<Head>,
    /// By number, what a property has beside its value: all that [`unpacked_len`](Self::unpacked_len) needs.
    sizes: Vec<Size>,
    numbers: HashMap<Arc<[u8]>, u16>,
}

impl Heads {
    /// How many heads get a number. Those that come later are written into each row.
    pub const MOST: usize = 4096;
    /// In a row: the head itself follows.
    const INLINE: u16 = 0;

    /// The number of a packed head, if it has one.
    pub fn number(&self, packed: &[u8]) -> Option<u16> {
        self.numbers.get(packed).copied()
    }

    /// Whether a head has this number.
    #[inline]
    pub fn is(&self, number: u16, packed: &[u8]) -> bool {
        self.get(number).is_some_and(|head| head.packed() == packed)
    }

    /// Whether no other head gets a number.
    pub fn is_full(&self) -> bool {
        self.known.len() == Self::MOST
    }

    /// Gives a new head the next number, from 1 on; `None` if it is none, or there are enough.
    pub fn add(&mut self, packed: &[u8]) -> Option<u16> {
        if self.is_full() {
            return None;
        }
        let head = Head::new(packed)?;
        let number = u16::try_from(self.known.len() + 1).ok()?;
        self.numbers.insert(head.shared(), number);
        self.sizes.resize(usize::from(number), Size::UNKNOWN);
        self.sizes.push(Size { head: head.packed().len(), value: head.width() });
        self.known.push(head);
        Some(number)
    }

    /// Numbers and heads, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (1..).zip(self.known.iter().map(Head::packed))
    }

    #[inline]
    fn get(&self, number: u16) -> Option<&Head> {
        self.known.get(usize::from(number).checked_sub(1)?)
    }

    /// Appends properties in the form that a row has; `number` tells the number of a head, if it has one.
    ///
    /// # Errors
    /// Those of `number`.
    pub fn pack<E>(
        properties: &Properties,
        out: &mut Vec<u8>,
        mut number: impl FnMut(&[u8]) -> Result<Option<u16>, E>,
    ) -> Result<(), E> {
        for PackedPart { head, edm_type, value, .. } in properties.packed_parts() {
            match number(head)? {
                Some(number @ 0x80..) => {
                    out.extend_from_slice(&[number as u8 | 0x80, (number >> 7) as u8]);
                }
                Some(number) => out.push(number as u8),
                None => {
                    out.push(Self::INLINE as u8);
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
}

/// Seven bits in a byte, the lowest first; all but the last have their high bit set.
fn push_length(mut length: u32, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}
