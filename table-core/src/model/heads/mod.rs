//! The property dictionary: rows contain numbers instead of property names. Names are most of an entity's
//! bytes and are the same in all entities of a type.

mod dictionary_entry;
mod read;
#[cfg(test)]
mod tests;
mod unpacked;

use std::collections::HashMap;
use std::sync::Arc;

use super::{PackedPart, Properties};
use dictionary_entry::{DictionaryEntry, Size};

pub(crate) use read::split_row_value;
pub use unpacked::Unpacked;

/// A dictionary of property names with type and mark, for stores that keep it in addition to their rows. Rows
/// refer to its entries by number. `docs/embedded-format.md` describes the bytes.
///
/// A number is never reassigned, because readers of earlier snapshots share the dictionary.
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
    known: Vec<DictionaryEntry>,
    /// For each number, the bytes of a property without its value. [`unpacked_len`](Self::unpacked_len) needs
    /// only these.
    sizes: Vec<Size>,
    numbers: HashMap<Arc<[u8]>, u16>,
}

impl Heads {
    /// Maximum number of entries. Later names are written into each row.
    pub const MOST: usize = 4096;
    /// In a row: the entry itself follows.
    const INLINE: u16 = 0;

    /// Returns the number of an entry, if it is in the dictionary.
    pub fn number(&self, packed: &[u8]) -> Option<u16> {
        self.numbers.get(packed).copied()
    }

    /// Whether the entry has this number.
    #[inline]
    pub fn is(&self, number: u16, packed: &[u8]) -> bool {
        self.get(number).is_some_and(|head| head.packed() == packed)
    }

    /// Whether the dictionary is full.
    pub fn is_full(&self) -> bool {
        self.known.len() == Self::MOST
    }

    /// Adds a new entry with the next number, from 1 on. Returns `None` if the bytes are not an entry or the
    /// dictionary is full.
    pub fn add(&mut self, packed: &[u8]) -> Option<u16> {
        if self.is_full() {
            return None;
        }
        let head = DictionaryEntry::new(packed)?;
        let number = u16::try_from(self.known.len() + 1).ok()?;
        self.numbers.insert(head.shared(), number);
        self.sizes.resize(usize::from(number), Size::UNKNOWN);
        self.sizes.push(Size { head: head.packed().len(), value: head.width() });
        self.known.push(head);
        Some(number)
    }

    /// Iterates over numbers and entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (1..).zip(self.known.iter().map(DictionaryEntry::packed))
    }

    #[inline]
    fn get(&self, number: u16) -> Option<&DictionaryEntry> {
        self.known.get(usize::from(number).checked_sub(1)?)
    }

    /// Appends properties in the form of a row. `number` returns the number of an entry, if it has one.
    ///
    /// # Errors
    /// Returns the errors of `number`.
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

/// Seven bits per byte, lowest first. All bytes but the last have the high bit set.
fn push_length(mut length: u32, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}
