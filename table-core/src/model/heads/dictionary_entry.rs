use std::sync::Arc;

use super::Unpacked;
use crate::model::EdmType;
use crate::model::properties::MARK;

/// Bytes of a packed property before the name: tag and length of the name.
const BEFORE_NAME: usize = 3;
/// Dictionary entries up to this length are copied and compared as one block.
const BLOCK: usize = 32;

/// A dictionary entry: type, mark and name of a property.
#[derive(Clone, Debug)]
pub(super) struct DictionaryEntry {
    packed: Arc<[u8]>,
    block: [u8; BLOCK],
    /// Bytes of a value, if all values of the type have the same length.
    width: Option<usize>,
}

/// Bytes of a dictionary entry, and of its values if all have the same length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) head: usize,
    pub(super) value: Option<usize>,
}

impl Size {
    /// The size of a number without an entry.
    pub(super) const UNKNOWN: Self = Self { head: 0, value: None };
}

impl DictionaryEntry {
    /// Returns `None` if the bytes are not exactly one dictionary entry.
    pub(super) fn new(packed: &[u8]) -> Option<Self> {
        let (head, rest) = Self::split(packed)?;
        let mut block = [0; BLOCK];
        block.iter_mut().zip(head).for_each(|(to, from)| *to = *from);
        rest.is_empty().then_some(Self { packed: head.into(), block, width: width(head)? })
    }

    /// Splits a dictionary entry off the start of the bytes.
    pub(super) fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let [_, low, high] = *bytes.first_chunk::<BEFORE_NAME>()?;
        let (head, rest) =
            bytes.split_at_checked(BEFORE_NAME + usize::from(u16::from_le_bytes([low, high])))?;
        std::str::from_utf8(&head[BEFORE_NAME..]).ok()?;
        Some((head, rest))
    }

    /// The name in a packed head.
    pub(super) fn name_in(packed: &[u8]) -> &[u8] {
        packed.get(BEFORE_NAME..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn packed(&self) -> &[u8] {
        &self.packed
    }

    pub(super) fn shared(&self) -> Arc<[u8]> {
        Arc::clone(&self.packed)
    }

    /// Bytes of a value, if all values of the type have the same length.
    #[inline]
    pub(super) const fn width(&self) -> Option<usize> {
        self.width
    }

    #[inline]
    pub(super) const fn tag(&self) -> u8 {
        self.block[0]
    }

    /// Whether the entry has this name, given with its length in front.
    #[inline(always)]
    pub(super) fn is_named<const N: usize>(&self, name: &[u8; N]) -> bool {
        // A longer name would have a different length in front.
        if N < BLOCK { self.block[1..].first_chunk() == Some(name) } else { self.packed[1..] == *name }
    }

    #[inline]
    pub(super) fn push(&self, out: &mut Unpacked) {
        if self.packed.len() <= BLOCK {
            out.push_block(&self.block, self.packed.len());
        } else {
            out.push(&self.packed);
        }
    }
}

/// Bytes of the values of an entry, if all have the same length. `None` if its type is unknown.
pub(super) fn width(packed: &[u8]) -> Option<Option<usize>> {
    Some(EdmType::from_tag(packed.first()? & !MARK)?.packed_bytes())
}
