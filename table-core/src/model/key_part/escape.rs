//! Escapes text in keys. A forbidden character, the escape character and the separator that ends the part are
//! written as `~` and two upper-case hex digits; all of them are below U+0100.

use crate::model::ValueError;
use crate::model::key::{is_forbidden, is_ordinary};

const ESCAPE: char = '~';

/// Appends `text`, escaped for a part that ends at `stop`.
pub(super) fn push(out: &mut String, text: &str, stop: Option<char>) {
    if is_plain(text, stop) {
        return out.push_str(text);
    }
    for c in text.chars() {
        if must_escape(c, stop) { push_escaped(out, c) } else { out.push(c) }
    }
}

fn push_escaped(out: &mut String, c: char) {
    let digit = |n: u32| char::from_digit(n, 16).unwrap_or_default().to_ascii_uppercase();
    let code = u32::from(c);
    out.extend([ESCAPE, digit(code >> 4), digit(code & 0xF)]);
}

/// Reverses [`push`]. Accepts only texts that `push` writes.
pub(super) fn read(text: &str, stop: Option<char>) -> Result<String, ValueError> {
    if is_plain(text, stop) {
        return Ok(text.to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c| must_escape(c, stop)) {
        out.push_str(&rest[..at]);
        // An escape of a character that needs none is refused too. Each text thus has one encoding, and a key has one row.
        let c = rest[at..].strip_prefix(ESCAPE).and_then(escaped).filter(|c| must_escape(*c, stop));
        let wrong =
            || ValueError::new("text with forbidden characters escaped as `~` and two hex digits", text);
        out.push(c.ok_or_else(wrong)?);
        // `~` and two digits: three bytes of ASCII, so this is a character boundary.
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the character for two upper-case hex digits.
fn escaped(text: &str) -> Option<char> {
    let digits = text.get(..2)?;
    let upper = digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
    upper.then(|| u8::from_str_radix(digits, 16).ok().map(char::from))?
}

fn must_escape(c: char, stop: Option<char>) -> bool {
    c == ESCAPE || Some(c) == stop || is_forbidden(c)
}

/// Whether the text certainly needs no escape.
#[inline]
fn is_plain(text: &str, stop: Option<char>) -> bool {
    is_ordinary(text, |byte| char::from(byte) == ESCAPE || Some(char::from(byte)) == stop)
}
