//! Finds a property name that an entity has twice, in time in proportion to the bytes of its names.

use super::PackedProperty;

/// Words of a [`NameSet`].
const WORDS: usize = 16;

/// The names of an entity's properties, as a set that may contain more: one bit for each hash.
#[derive(Default)]
struct NameSet([u64; WORDS]);

impl NameSet {
    /// Adds a name. Returns whether the set may have contained it before.
    #[inline]
    fn add_may_have_contained(&mut self, name: &[u8]) -> bool {
        let hash = hash(name);
        let (word, bit) = ((hash >> 6) as usize % WORDS, 1 << (hash & 63));
        let known = self.0[word] & bit != 0;
        self.0[word] |= bit;
        known
    }
}

/// Hashes the length, the first eight and the last eight bytes of a name. Two names with one hash cost a sort, never a wrong answer.
#[inline]
fn hash(name: &[u8]) -> u64 {
    let eight = |bytes: Option<&[u8; 8]>| bytes.map(|bytes| u64::from_le_bytes(*bytes));
    let (first, last) = match (eight(name.first_chunk()), eight(name.last_chunk())) {
        (Some(first), Some(last)) => (first, last),
        _ => (
            name.iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
            0,
        ),
    };
    // The multiplier of the Fibonacci hash: 2^64 divided by the golden ratio. The high bits depend on all bits of the words.
    let mixed =
        (first ^ last.rotate_left(29) ^ name.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed >> 54
}

/// Returns a name that occurs twice.
pub(super) fn repeated_name(packed: &[u8]) -> Option<&[u8]> {
    let names = || {
        let mut rest = packed;
        std::iter::from_fn(move || PackedProperty::split(&mut rest)).map(|property| property.name)
    };
    let mut seen = NameSet::default();
    // Nearly all entities end here. Comparing each name with all others would be quadratic.
    if !names().fold(false, |any, name| seen.add_may_have_contained(name) | any) {
        return None;
    }
    let mut sorted: Vec<&[u8]> = names().collect();
    sorted.sort_unstable();
    sorted
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0])
}
