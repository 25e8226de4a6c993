use std::fmt::Write as _;

use table_core::store::{Error, Result};

/// The maximal length of a segment of a name, in bytes. File systems allow 255.
const MAX_SEGMENT: usize = 200;

/// Escapes text for a blob's name, for all blob stores: lower-case ASCII letters, digits, `_` and `-` stay, every other
/// byte becomes `=XX`.
///
/// Upper-case letters are escaped because some file systems ignore case.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => out.push(char::from(byte)),
            // Writing to a `String` cannot fail.
            _ => drop(write!(out, "={byte:02x}")),
        }
    }
    out
}

/// Reverses [`escape`]; `None` for text that [`escape`] does not produce.
pub(crate) fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'=' {
            out.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(out).ok()
}

/// A segment of a blob's name: the letter `kind`, then the escaped text. `what` names the text in the error.
///
/// # Errors
/// A segment longer than all blob stores allow.
pub(crate) fn segment(kind: &str, what: &str, text: &str) -> Result<String> {
    let segment = format!("{kind}{}", escape(text));
    if segment.len() > MAX_SEGMENT {
        let what = format!("bytes of the {what}, escaped for a blob's name");
        return Err(Error::limit(what, MAX_SEGMENT, segment.len()));
    }
    Ok(segment)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq};

    use super::{escape, unescape};

    proptest::proptest! {
        #[test]
        fn escaped_text_round_trips(text in any::<String>()) {
            let escaped = escape(&text);
            let segment = format!("x{escaped}");
            prop_assert!(object_store::path::Path::parse(segment).is_ok());
            prop_assert_eq!(escaped.to_ascii_lowercase(), escaped.clone());
            prop_assert_eq!(unescape(&escaped), Some(text));
        }
    }
}
