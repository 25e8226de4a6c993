//! The service's order of keys: ordinal by UTF-16 code unit, which differs from Rust's order of `str`.
//!
//! Code points above U+FFFF are two surrogates (U+D800 to U+DFFF) in UTF-16, so they sort *before*
//! U+E000 to U+FFFF. In UTF-8 they start with `F0`…`F4`, after the `EE` and `EF` that start
//! U+E000…U+FFFF. Raising those two lead bytes to `FE` and `FF` gives bytes in the service's order,
//! of the same length, that can be mapped back.

use std::cmp::Ordering;

/// Compares two texts in the service's order of keys.
///
/// ```
/// use table_core::model::key_order;
/// assert!("\u{1F600}" > "\u{E000}");
/// assert!(key_order::compare("\u{1F600}", "\u{E000}").is_lt());
/// ```
pub fn compare(a: &str, b: &str) -> Ordering {
    match a.bytes().zip(b.bytes()).find(|(a, b)| a != b) {
        // The first bytes that differ decide: two characters with different lengths in UTF-8 differ in their first bytes.
        Some((a, b)) => raise(a).cmp(&raise(b)),
        None => a.len().cmp(&b.len()),
    }
}

/// Appends bytes for `text` that sort in the service's order.
pub(crate) fn push_sortable(out: &mut Vec<u8>, text: &str) {
    // `raise` changes no byte of an ASCII text, and a copy of all bytes is much faster than a loop.
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend(text.bytes().map(raise));
    }
}

/// Appends the text of sortable bytes; appends nothing if they are invalid.
fn push_text(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    let from = out.len();
    out.extend(bytes.iter().map(|b| lower(*b)));
    std::str::from_utf8(&out[from..]).ok().map(|_| ())
}

/// Appends both texts of a [`sortable_key`] in UTF-8 and returns the bytes of the first. `likely` is a guess of this number, which
/// saves a search. Returns `None` if the bytes are not a key; then `out` may have additional bytes.
#[inline]
pub(crate) fn push_key_text(out: &mut Vec<u8>, key: &[u8], likely: u32) -> Option<u32> {
    // The rows of a page mostly have one PartitionKey, so the zero byte is where it was in the row before. A zero byte at
    // this place is the separator in any case, because keys contain no other.
    let is_likely = key.get(likely as usize) == Some(&0);
    let split = if is_likely {
        likely as usize
    } else {
        key.iter().position(|b| *b == 0)?
    };
    let (partition, row) = (&key[..split], &key[split + 1..]);
    if key.is_ascii() {
        out.extend_from_slice(partition);
        out.extend_from_slice(row);
    } else {
        push_text(out, partition)?;
        push_text(out, row)?;
    }
    u32::try_from(split).ok()
}

/// Returns the sortable bytes of a key: PartitionKey, a zero byte, RowKey.
///
/// Keys cannot contain U+0000, so the zero byte sorts a PartitionKey before every longer one with the same
/// prefix.
pub(crate) fn sortable_key(partition: &str, row: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(partition.len() + row.len() + 1);
    push_sortable(&mut out, partition);
    out.push(0);
    push_sortable(&mut out, row);
    out
}

/// Returns the smallest text that is greater than every text with this prefix. Returns `None` for the empty
/// prefix and for a prefix of U+FFFF only, because these have no end.
///
/// The last character is replaced by its successor in the service's order.
pub fn prefix_end(prefix: &str) -> Option<String> {
    raise_last(prefix, successor)
}

/// Like [`prefix_end`], for keys: the end contains no character that is forbidden in keys.
///
/// ```
/// use table_core::model::key_order;
/// assert_eq!(key_order::prefix_end("a.").as_deref(), Some("a/"));
/// assert_eq!(key_order::key_prefix_end("a.").as_deref(), Some("a0"));
/// ```
pub fn key_prefix_end(prefix: &str) -> Option<String> {
    let next = |c| std::iter::successors(successor(c), |c| successor(*c));
    raise_last(prefix, |c| next(c).find(|c| !super::key::is_forbidden(*c)))
}

/// Replaces the last character by the next one; `None` if no character has a next one.
fn raise_last(prefix: &str, next: impl Fn(char) -> Option<char>) -> Option<String> {
    let mut end = prefix.to_owned();
    // A last character without a successor is dropped, and the character before it is raised, like a carry in an
    // addition: after 'a\u{FFFF}' comes 'b'.
    while let Some(last) = end.pop() {
        if let Some(next) = next(last) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// Returns the next character in UTF-16 order.
fn successor(c: char) -> Option<char> {
    match c {
        // The order by UTF-16: U+0000 to U+D7FF, then all characters above U+FFFF, whose surrogates start at U+D800,
        // then U+E000 to U+FFFF.
        '\u{D7FF}' => Some('\u{10000}'),
        '\u{10FFFF}' => Some('\u{E000}'),
        '\u{FFFF}' => None,
        _ => char::from_u32(u32::from(c) + 1),
    }
}

/// Returns a key text before `end`; `None` for the empty text. Between the two are only key texts that start with the returned text and go on
/// after its U+FFFF.
#[doc(hidden)]
pub fn key_text_before(end: &str) -> Option<String> {
    let mut text = end.to_owned();
    let last = text.pop()?;
    let mut before = std::iter::successors(predecessor(last), |c| predecessor(*c));
    if let Some(before) = before.find(|c| !super::key::is_forbidden(*c)) {
        // With U+FFFF behind it, the text follows nearly every text that starts with the preceding character.
        text.extend([before, '\u{FFFF}']);
    }
    Some(text)
}

/// Returns the preceding character in UTF-16 order.
fn predecessor(c: char) -> Option<char> {
    match c {
        '\u{10000}' => Some('\u{D7FF}'),
        '\u{E000}' => Some('\u{10FFFF}'),
        _ => char::from_u32(u32::from(c).checked_sub(1)?),
    }
}

// UTF-8 sorts the characters from U+E000 to U+FFFF, which begin with `EE` or `EF`, before those above U+FFFF, which begin with `F0` and more;
// UTF-16 sorts them behind. Raised, they sort as in UTF-16.
// `FE` and `FF` occur in no UTF-8 text (RFC 3629, section 3: <https://www.rfc-editor.org/rfc/rfc3629#section-3>), so the
// mapping can be reversed.
const fn raise(byte: u8) -> u8 {
    match byte {
        0xEE => 0xFE,
        0xEF => 0xFF,
        other => other,
    }
}

const fn lower(byte: u8) -> u8 {
    match byte {
        0xFE => 0xEE,
        0xFF => 0xEF,
        other => other,
    }
}
