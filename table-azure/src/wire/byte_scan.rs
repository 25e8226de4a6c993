//! Scans JSON strings eight bytes at a time. The strings are short; searches that are faster on long texts
//! take longer to start.

/// A word whose bytes are all 1: a product with a byte repeats the byte in all eight places.
const ONES: u64 = u64::from_ne_bytes([1; 8]);
/// The high bit of each byte. A scan marks a found byte there.
const HIGH: u64 = ONES << 7;

/// The number of bytes before the first quote or backslash.
#[inline]
pub(super) fn before_quote(bytes: &[u8]) -> usize {
    count_before(
        bytes,
        |word| bytes_equal(word, b'"') | bytes_equal(word, b'\\'),
        |byte| matches!(byte, b'"' | b'\\'),
    )
}

/// The number of bytes before the first byte that JSON escapes: a quote, a backslash, a control character.
#[inline]
pub(super) fn before_escape(bytes: &[u8]) -> usize {
    let stops = |byte| byte < b' ' || matches!(byte, b'"' | b'\\');
    count_before(
        bytes,
        |word| bytes_below(word, b' ') | bytes_equal(word, b'"') | bytes_equal(word, b'\\'),
        stops,
    )
}

#[inline]
fn count_before(bytes: &[u8], found: impl Fn(u64) -> u64, stops: impl Fn(u8) -> bool) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (n, word) in words.iter().enumerate() {
        // Little-endian on every machine: the first byte is the lowest, and `trailing_zeros` finds it.
        let found = found(u64::from_le_bytes(*word));
        if found != 0 {
            return n * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let within = rest.iter().position(|byte| stops(*byte));
    words.len() * 8 + within.unwrap_or(rest.len())
}

/// Sets the high bit of bytes equal to `byte`. Only the first marked byte is exact; later bits may be false
/// positives.
#[inline]
const fn bytes_equal(word: u64, byte: u8) -> u64 {
    bytes_below(word ^ (ONES * byte as u64), 1)
}

/// Sets the high bit of bytes below `end`, which is at most 128. Only the first marked byte is exact; later
/// bits may be false positives.
#[inline]
const fn bytes_below(word: u64, end: u8) -> u64 {
    // A byte below `end` borrows and so gets its high bit; `!word` removes bytes that had it before. The borrow may also mark
    // the bytes above it: <https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord>.
    word.wrapping_sub(ONES * end as u64) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_match_is_found(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x1F..=0x23_u8, Just(b'\\'), Just(b'a')], 0..40)) {
            let position = |stops: fn(u8) -> bool| bytes.iter().position(|b| stops(*b)).unwrap_or(bytes.len());
            prop_assert_eq!(before_quote(&bytes), position(|b| b == b'"' || b == b'\\'));
            prop_assert_eq!(before_escape(&bytes), position(|b| b < 0x20 || b == b'"' || b == b'\\'));
        }
    }
}
