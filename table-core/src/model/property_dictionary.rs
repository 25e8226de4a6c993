//! The property dictionary: rows contain numbers instead of property names. Names are most of an entity's
//! bytes and are the same in all entities of a type.

use std::collections::HashMap;
use std::sync::Arc;

use super::properties::{MARK, decode_value};
use super::{EdmType, INDEX_NAME, PackedProperty, ValueRef};

/// Bytes of a packed property before the name: tag and length of the name.
const BEFORE_NAME: usize = 3;
/// Dictionary entries up to this number of bytes are copied and compared as one block, in one or two vector instructions. Most
/// names of properties are shorter.
const ENTRY_BLOCK: usize = 32;
/// Values up to this number of bytes are copied as one block. All values of a fixed length have at most 16 bytes.
const VALUE_BLOCK: usize = 16;

/// A dictionary of property names with type and mark, for stores that keep it in addition to their rows. Rows
/// refer to its entries by number. `docs/embedded-format.md` describes the bytes.
///
/// A number is never reassigned, because readers of earlier snapshots share the dictionary.
///
/// ```
/// use table_core::model::{PackBuffer, Properties, PropertyDictionary};
/// let mut properties = Properties::new();
/// properties.set("Dest", "IAH");
/// let mut dictionary = PropertyDictionary::default();
/// let mut row = Vec::new();
/// let mut number = |entry: &[u8]| Ok::<_, ()>(dictionary.number(entry).or_else(|| dictionary.add(entry)));
/// let mut rest = properties.as_packed();
/// while PropertyDictionary::pack_next(&mut rest, &mut row, &mut number).unwrap() {}
/// // Entry 1, the length of the text, the text.
/// assert_eq!(row, b"\x01\x03IAH");
/// let mut unpacked = PackBuffer::default();
/// dictionary.unpack(&row, &mut unpacked).unwrap();
/// assert_eq!(unpacked.as_bytes(), properties.as_packed());
/// ```
#[derive(Clone, Debug, Default)]
pub struct PropertyDictionary {
    entries: Vec<DictionaryEntry>,
    /// For each number, the bytes of a property without its value. [`unpacked_len`](Self::unpacked_len) needs
    /// only these.
    sizes: Vec<Size>,
    /// The number of each entry.
    numbers: HashMap<Arc<[u8]>, u16>,
    /// Whether an entry has the name [`INDEX_NAME`], which typed reads look for in each row.
    has_index_name: bool,
}

impl PropertyDictionary {
    /// Maximum number of entries. Later names are written into each row.
    pub const MAX_ENTRIES: usize = 4096;
    /// In a row: the entry itself follows.
    const INLINE: u16 = 0;

    /// Returns the number of an entry, if it is in the dictionary.
    pub fn number(&self, packed: &[u8]) -> Option<u16> {
        self.numbers.get(packed).copied()
    }

    /// Whether the dictionary is full.
    pub fn is_full(&self) -> bool {
        self.entries.len() == Self::MAX_ENTRIES
    }

    /// Adds a new entry with the next number, from 1 on. Returns `None` if the bytes are not an entry or the
    /// dictionary is full.
    pub fn add(&mut self, packed: &[u8]) -> Option<u16> {
        if self.is_full() {
            return None;
        }
        let entry = DictionaryEntry::new(packed)?;
        let number = u16::try_from(self.entries.len() + 1).ok()?;
        self.numbers.insert(Arc::clone(&entry.packed), number);
        self.has_index_name |= DictionaryEntry::name_in(packed) == INDEX_NAME.as_bytes();
        // `sizes` is indexed by the number itself, so its first place, that of `INLINE`, has no entry.
        self.sizes.resize(usize::from(number), Size::UNKNOWN);
        self.sizes.push(Size {
            entry: entry.packed.len(),
            value: entry.width,
        });
        self.entries.push(entry);
        Some(number)
    }

    /// Iterates over numbers and entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (1..).zip(self.entries.iter().map(|entry| &*entry.packed))
    }

    #[inline]
    fn get(&self, number: u16) -> Option<&DictionaryEntry> {
        self.entries.get(usize::from(number).checked_sub(1)?)
    }

    /// Splits off the first of the packed properties and appends it in the form of a row. `number` returns the number of an entry,
    /// if it has one. Returns whether there was a property.
    ///
    /// # Errors
    /// Returns the errors of `number`.
    pub fn pack_next<E>(
        packed: &mut &[u8],
        out: &mut Vec<u8>,
        number: impl FnOnce(&[u8]) -> Result<Option<u16>, E>,
    ) -> Result<bool, E> {
        let Some(property) = PackedProperty::split(packed) else {
            return Ok(false);
        };
        match number(property.prefix())? {
            Some(number) => push_number(number, out),
            None => {
                out.push(Self::INLINE as u8);
                out.extend_from_slice(property.prefix());
            }
        }
        if property.edm_type.packed_bytes().is_none() {
            push_length(property.value.len() as u32, out);
        }
        out.extend_from_slice(property.value);
        Ok(true)
    }
}

impl PropertyDictionary {
    /// Like [`pack_next`](Self::pack_next), if the first property has the entry with this number. Otherwise appends nothing and
    /// returns `false`. Faster, because it searches no entry: for callers that expect the properties of the row before.
    #[inline]
    pub fn pack_as(&self, number: u16, packed: &mut &[u8], out: &mut Vec<u8>) -> bool {
        self.pack_one(number, packed, out).is_some()
    }

    #[inline]
    fn pack_one(&self, number: u16, packed: &mut &[u8], out: &mut Vec<u8>) -> Option<()> {
        let entry = self.get(number)?;
        // Compares tag, mark and name. A property of the same name with another type or mark has another entry.
        let value = entry.strip(packed)?;
        let length = match entry.width {
            Some(width) => width,
            None => u32::from_le_bytes(*value.first_chunk()?) as usize,
        };
        let value = if entry.width.is_none() {
            &value[size_of::<u32>()..]
        } else {
            value
        };
        let (value, rest) = value.split_at_checked(length)?;
        push_number(number, out);
        // Copies of a length that the compiler knows need no call.
        match (entry.width, value.len()) {
            (None, length) => {
                push_length(length as u32, out);
                out.extend_from_slice(value);
            }
            (_, 4) => out.extend_from_slice(value.first_chunk::<4>()?),
            (_, 8) => out.extend_from_slice(value.first_chunk::<8>()?),
            _ => out.extend_from_slice(value),
        }
        *packed = rest;
        Some(())
    }

    /// Converts a row to packed properties and appends them. Returns `None` if the row is damaged.
    #[inline]
    pub fn unpack(&self, mut row: &[u8], out: &mut PackBuffer) -> Option<()> {
        while !row.is_empty() {
            let width = match self.next_entry(&mut row)? {
                NextEntry::Known(entry) => {
                    entry.push(out);
                    entry.width
                }
                NextEntry::Inline(entry) => {
                    out.push(entry);
                    width(entry)?
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
            // Copies a block of a constant length, although the value may be shorter: a few instructions instead of a call of
            // `memcpy` for each short value. The next property overwrites the surplus bytes.
            out.push_start::<VALUE_BLOCK>(row, length)?;
            // `push_start` has found this number of bytes, so the slice cannot panic.
            row = &row[length..];
        }
        Some(())
    }

    /// Returns the number of bytes that [`unpack`](Self::unpack) appends; `None` if the row is damaged.
    #[inline]
    pub(crate) fn unpacked_len(&self, row: &[u8]) -> Option<usize> {
        let (mut bytes, mut at) = (0, 0);
        while at < row.len() {
            // At the first unusual property, the slower function takes the rest of the row.
            let Some(Lengths {
                entry,
                before,
                value,
            }) = self.short_lengths(row, at)
            else {
                return Some(bytes + self.unpacked_len_of_any(&row[at..])?);
            };
            bytes += entry + if before == 1 { 0 } else { size_of::<u32>() } + value;
            at += before + value;
        }
        (at == row.len()).then_some(bytes)
    }

    /// Returns the lengths of the property at offset `at`, if its number and its length have one byte each. That is so for nearly all
    /// properties. `sizes` is indexed by the byte, so that no entry is read.
    #[inline(always)]
    fn short_lengths(&self, row: &[u8], at: usize) -> Option<Lengths> {
        let number = *row.get(at)?;
        let size = self
            .sizes
            .get(usize::from(number))
            .filter(|size| size.entry > 0 && number < 0x80)?;
        let (before, value) = match size.value {
            Some(width) => (1, width),
            None => (
                2,
                usize::from(*row.get(at + 1).filter(|length| **length < 0x80)?),
            ),
        };
        Some(Lengths {
            entry: size.entry,
            before,
            value,
        })
    }

    /// Like [`unpacked_len`](Self::unpacked_len), for rows with multi-byte numbers or lengths, or with
    /// entries without a number.
    fn unpacked_len_of_any(&self, mut row: &[u8]) -> Option<usize> {
        let mut bytes = 0;
        while !row.is_empty() {
            let (entry, width) = match self.next_entry(&mut row)? {
                NextEntry::Known(entry) => (&*entry.packed, entry.width),
                NextEntry::Inline(entry) => (entry, width(entry)?),
            };
            let length = match width {
                Some(width) => width,
                None => {
                    bytes += size_of::<u32>();
                    take_length(&mut row)? as usize
                }
            };
            row = row.get(length..)?;
            bytes += entry.len() + length;
        }
        Some(bytes)
    }

    /// Returns the value of the first property with the name [`INDEX_NAME`].
    #[inline]
    pub(crate) fn index_name<'r>(&self, row: &'r [u8]) -> Option<ValueRef<'r>> {
        // A row has names that are not in the dictionary only if the dictionary is full.
        if self.has_index_name || self.is_full() {
            self.value_of(row, INDEX_NAME)
        } else {
            None
        }
    }

    /// Returns the value of the first property with this name, and skips the others.
    pub(super) fn value_of<'r>(&self, mut row: &'r [u8], name: &str) -> Option<ValueRef<'r>> {
        loop {
            let mut at = 0;
            // Skips entries of another length.
            while let Some(Lengths {
                entry,
                before,
                value,
            }) = self.short_lengths(row, at)
                && entry != BEFORE_NAME + name.len()
            {
                at += before + value;
            }
            row = row.get(at..)?;
            let entry = match self.next_entry(&mut row)? {
                NextEntry::Known(entry) => &entry.packed,
                NextEntry::Inline(entry) => entry,
            };
            if DictionaryEntry::name_in(entry) == name.as_bytes() {
                return Some(split_row_value(EdmType::from_tag(entry.first()? & !MARK)?, row)?.0);
            }
            let length = match width(entry)? {
                Some(width) => width,
                None => take_length(&mut row)? as usize,
            };
            row = row.get(length..)?;
        }
    }

    /// Returns the tag of the next property and the row from its value on, if the property has this name. `name` starts with its
    /// length (`u16`), as in a packed property.
    #[inline(always)]
    pub(crate) fn named<'r, const N: usize>(
        &self,
        row: &'r [u8],
        name: &[u8; N],
    ) -> Option<(u8, &'r [u8])> {
        let (first, rest) = row.split_first()?;
        let (number, value) = match first {
            0x80.. => two_bytes(*first, rest)?,
            _ => (u16::from(*first), rest),
        };
        // Any other number is `INLINE`, whose entry follows, or damage.
        match self.get(number) {
            Some(entry) => entry.is_named(name).then_some((entry.tag(), value)),
            None => named_inline(value, name),
        }
    }

    #[inline]
    fn next_entry<'a, 'r: 'a>(&'a self, row: &mut &'r [u8]) -> Option<NextEntry<'a>> {
        let (first, rest) = row.split_first()?;
        let number;
        (number, *row) = match first {
            0x80.. => two_bytes(*first, rest)?,
            _ => (u16::from(*first), rest),
        };
        match self.get(number) {
            // An entry is stored in the commit of the first row that refers to it, so a number without an entry is
            // damage.
            Some(entry) => Some(NextEntry::Known(entry)),
            None if number == Self::INLINE => next_inline(row),
            None => None,
        }
    }
}

/// The dictionary entry before a value.
enum NextEntry<'a> {
    Known(&'a DictionaryEntry),
    /// The entry is in the row itself, after the number 0.
    Inline(&'a [u8]),
}

#[cold]
fn next_inline<'r>(row: &mut &'r [u8]) -> Option<NextEntry<'r>> {
    let (entry, rest) = DictionaryEntry::split(row)?;
    *row = rest;
    Some(NextEntry::Inline(entry))
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
    Some((decode_value(edm_type, value)?, rest))
}

/// Returns the number with this first byte, and the row after it: see [`push_number`].
#[inline]
fn two_bytes(low: u8, rest: &[u8]) -> Option<(u16, &[u8])> {
    let (high, rest) = rest.split_first()?;
    Some((u16::from(low & 0x7F) | u16::from(*high) << 7, rest))
}

/// Splits a length off the start of a row: see [`push_length`].
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
    // At most five bytes. A sixth means damage, not a longer value.
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

/// Appends the number of an entry: one byte up to 127. Larger numbers take two bytes: the low seven bits with bit 7 set, then the
/// rest. `MAX_ENTRIES` is below 2^15.
#[inline]
fn push_number(number: u16, out: &mut Vec<u8>) {
    match number {
        0x80.. => out.extend_from_slice(&[number as u8 | 0x80, (number >> 7) as u8]),
        _ => out.push(number as u8),
    }
}

/// Appends a length: seven bits per byte, lowest first. All bytes but the last have the high bit set.
fn push_length(mut length: u32, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// A dictionary entry: type, mark and name of a property.
#[derive(Clone, Debug)]
struct DictionaryEntry {
    packed: Arc<[u8]>,
    /// The first bytes; zeros after a shorter entry.
    block: [u8; ENTRY_BLOCK],
    /// Ones where `block` has bytes of the entry.
    mask: [u8; ENTRY_BLOCK],
    /// Bytes of a value, if all values of the type have the same length.
    width: Option<usize>,
}

/// Bytes of a dictionary entry, and of its values if all have the same length.
#[derive(Clone, Copy, Debug)]
struct Size {
    entry: usize,
    value: Option<usize>,
}

/// Bytes of a property in a row.
struct Lengths {
    /// Bytes of its entry in packed form.
    entry: usize,
    /// Bytes in the row before the value: the number, and the length if the value has one.
    before: usize,
    /// Bytes of the value.
    value: usize,
}

impl Size {
    /// The size of a number without an entry.
    const UNKNOWN: Self = Self {
        entry: 0,
        value: None,
    };
}

impl DictionaryEntry {
    /// Returns `None` if the bytes are not exactly one dictionary entry.
    fn new(packed: &[u8]) -> Option<Self> {
        let (entry, rest) = Self::split(packed)?;
        let (mut block, mut mask) = ([0; ENTRY_BLOCK], [0; ENTRY_BLOCK]);
        block
            .iter_mut()
            .zip(entry)
            .for_each(|(to, from)| *to = *from);
        mask.iter_mut().zip(entry).for_each(|(to, _)| *to = u8::MAX);
        rest.is_empty().then_some(Self {
            packed: entry.into(),
            block,
            mask,
            width: width(entry)?,
        })
    }

    /// Returns the bytes after the entry, if `bytes` starts with the entry. Most entries are compared as one block.
    #[inline]
    fn strip<'p>(&self, bytes: &'p [u8]) -> Option<&'p [u8]> {
        let length = self.packed.len();
        match bytes.first_chunk::<ENTRY_BLOCK>() {
            Some(found) if length <= ENTRY_BLOCK => {
                // Compares all bytes of the block and never stops early, so that the compiler can use vector
                // instructions; with indices, because an iterator of pairs is not inlined. Behind the entry, the mask
                // sets the bytes of the value to zero, as they are in `block`.
                let differ = (0..ENTRY_BLOCK).fold(0, |differ, at| {
                    differ | ((found[at] & self.mask[at]) ^ self.block[at])
                });
                (differ == 0).then(|| &bytes[length..])
            }
            _ => bytes.strip_prefix(&*self.packed),
        }
    }

    /// Splits a dictionary entry off the start of the bytes.
    fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let [_, low, high] = *bytes.first_chunk::<BEFORE_NAME>()?;
        let (entry, rest) =
            bytes.split_at_checked(BEFORE_NAME + usize::from(u16::from_le_bytes([low, high])))?;
        std::str::from_utf8(&entry[BEFORE_NAME..]).ok()?;
        Some((entry, rest))
    }

    /// Returns the name in the bytes of an entry.
    fn name_in(packed: &[u8]) -> &[u8] {
        packed.get(BEFORE_NAME..).unwrap_or_default()
    }

    #[inline]
    const fn tag(&self) -> u8 {
        self.block[0]
    }

    /// Whether the entry has this name. `name` starts with its length.
    #[inline(always)]
    fn is_named<const N: usize>(&self, name: &[u8; N]) -> bool {
        // The first two bytes compare the lengths, so a longer name that starts with `name` is different.
        if N < ENTRY_BLOCK {
            self.block[1..].first_chunk() == Some(name)
        } else {
            self.packed[1..] == *name
        }
    }

    #[inline]
    fn push(&self, out: &mut PackBuffer) {
        if self.packed.len() <= ENTRY_BLOCK {
            out.push_block(&self.block, self.packed.len());
        } else {
            out.push(&self.packed);
        }
    }
}

/// Bytes of the values of an entry, if all have the same length. `None` if its type is unknown.
fn width(packed: &[u8]) -> Option<Option<usize>> {
    Some(EdmType::from_tag(packed.first()? & !MARK)?.packed_bytes())
}

/// A buffer for the packed properties of rows. Most writes are a few bytes. They are copied in blocks of a
/// fixed size, which is several times faster than copying exact lengths.
#[derive(Default)]
pub struct PackBuffer {
    /// The appended bytes, and unused bytes after `end`.
    bytes: Vec<u8>,
    end: usize,
}

impl PackBuffer {
    /// Reserves this many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        // The last block may end after the expected bytes. With space for it, the buffer does not grow.
        Self {
            bytes: vec![0; bytes + ENTRY_BLOCK],
            end: 0,
        }
    }

    /// Returns the appended bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes
    }

    /// Removes all bytes and keeps the memory.
    pub const fn clear(&mut self) {
        self.end = 0;
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        if self.bytes.len() < end {
            self.grow(end);
        }
        self.bytes[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }

    /// Appends the first bytes of a block.
    #[inline(always)]
    fn push_block<const N: usize>(&mut self, block: &[u8; N], length: usize) {
        match self
            .bytes
            .get_mut(self.end..)
            .and_then(|free| free.first_chunk_mut())
        {
            Some(target) => {
                // Writes N bytes and counts `length` of them. The next append overwrites the rest.
                *target = *block;
                self.end += length;
            }
            None => self.push(&block[..length]),
        }
    }

    /// Appends the first bytes of a row; `None` if the row is shorter.
    #[inline(always)]
    fn push_start<const N: usize>(&mut self, row: &[u8], length: usize) -> Option<()> {
        match row.first_chunk::<N>() {
            // Near the end of a row there is no whole block, so that only the bytes of the value are copied.
            Some(block) if length <= N => self.push_block(block, length),
            _ => self.push(row.get(..length)?),
        }
        Some(())
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        // To a power of two, so that a buffer of many small appends is copied a few times only. The zeros are never
        // read.
        self.bytes.resize((end + (1 << 10)).next_power_of_two(), 0);
    }
}

/// Does not show the values, which may be secret.
impl std::fmt::Debug for PackBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackBuffer")
            .field("len", &self.end)
            .finish_non_exhaustive()
    }
}
