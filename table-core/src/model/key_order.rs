//! The service's order of keys: ordinal by UTF-16 code unit, which is not Rust's order of `str`.
//!
//! Code points above U+FFFF are two surrogates (U+D800 to U+DFFF) in UTF-16, so they sort *before*
//! U+E000 to U+FFFF. In UTF-8 they start with `F0`…`F4`, after the `EE` and `EF` that start
//! U+E000…U+FFFF. Raising those two lead bytes to `FE` and `FF` gives bytes in the service's order,
//! of the same length, that can be mapped back.

use std::cmp::Ordering;

/// Compares two texts as the service orders keys.
///
/// ```
/// use table_core::model::key_order;
/// assert!("\u{1F600}" > "\u{E000}");
/// assert!(key_order::compare("\u{1F600}", "\u{E000}").is_lt());
/// ```
pub fn compare(a: &str, b: &str) -> Ordering {
    match a.bytes().zip(b.bytes()).find(|(a, b)| a != b) {
        Some((a, b)) => raise(a).cmp(&raise(b)),
        None => a.len().cmp(&b.len()),
    }
}

/// Appends the bytes of `text` in the service's order.
pub fn push_sortable(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend(text.bytes().map(raise));
    }
}

/// The text whose sortable bytes these are; `None` if they are not.
pub fn from_sortable(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len());
    push_text(&mut text, bytes)?;
    Some(text)
}

/// Appends the text whose sortable bytes these are, or nothing if they are not.
#[inline]
fn push_text(out: &mut String, bytes: &[u8]) -> Option<()> {
    if bytes.iter().all(|b| *b < LOWEST_RAISED) {
        out.push_str(std::str::from_utf8(bytes).ok()?);
    } else {
        let lowered: Vec<u8> = bytes.iter().map(|b| lower(*b)).collect();
        out.push_str(std::str::from_utf8(&lowered).ok()?);
    }
    Some(())
}

/// Appends both texts of the [`sortable_key`]; the length of the first. `None` if the bytes are no key,
/// with `out` as it was or with the first text.
#[inline]
pub(crate) fn push_key_text(out: &mut String, key: &[u8]) -> Option<u32> {
    let split = key.iter().position(|b| *b == 0)?;
    push_text(out, &key[..split])?;
    push_text(out, &key[split + 1..])?;
    u32::try_from(split).ok()
}

/// The sortable bytes of a whole key: partition, a zero byte, row.
///
/// Keys cannot contain U+0000, so the zero sorts a partition before every longer one.
pub fn sortable_key(partition: &str, row: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(partition.len() + row.len() + 1);
    push_sortable(&mut out, partition);
    out.push(0);
    push_sortable(&mut out, row);
    out
}

/// The smallest text greater than every text that starts with `prefix`; `None` for the empty
/// prefix and for one of nothing but U+FFFF, where there is no end.
///
/// The last character is stepped to its successor in the service's order.
pub fn prefix_end(prefix: &str) -> Option<String> {
    end(prefix, successor)
}

/// [`prefix_end`] among texts that are keys: the end holds no character that keys forbid.
///
/// ```
/// use table_core::model::key_order;
/// assert_eq!(key_order::prefix_end("a.").as_deref(), Some("a/"));
/// assert_eq!(key_order::key_prefix_end("a.").as_deref(), Some("a0"));
/// ```
pub fn key_prefix_end(prefix: &str) -> Option<String> {
    let next = |c| std::iter::successors(successor(c), |c| successor(*c));
    end(prefix, |c| next(c).find(|c| !super::key::is_forbidden(*c)))
}

fn end(prefix: &str, next: impl Fn(char) -> Option<char>) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = next(last) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// The next character in UTF-16 order.
fn successor(c: char) -> Option<char> {
    match c {
        '\u{D7FF}' => Some('\u{10000}'),
        '\u{10FFFF}' => Some('\u{E000}'),
        '\u{FFFF}' => None,
        _ => char::from_u32(u32::from(c) + 1),
    }
}

const LOWEST_RAISED: u8 = 0xFE;

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
