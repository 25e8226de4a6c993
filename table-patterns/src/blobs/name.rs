use std::fmt::Write as _;

use table_core::store::{Error, Result};

/// The longest segment of a name: local files take 255 bytes.
const SEGMENT: usize = 200;

/// Text as a part of a blob's name that every store takes and keeps: lower-case ASCII letters, digits,
/// `_` and `-`; every other byte as `=XX`.
///
/// Upper-case letters are escaped as well, since some file systems do not tell case.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => out.push(char::from(byte)),
            // A `String` takes everything.
            _ => drop(write!(out, "={byte:02x}")),
        }
    }
    out
}

/// Back from [`escape`]; `None` if it is no such text.
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

/// [`escape`] after a letter that says what it is, within the length that every store takes.
pub(crate) fn segment(kind: &str, what: &str, text: &str) -> Result<String> {
    let segment = format!("{kind}{}", escape(text));
    if segment.len() > SEGMENT {
        let what = format!("bytes of the {what} as it is escaped in a blob's name");
        return Err(Error::limit(what, SEGMENT, segment.len()));
    }
    Ok(segment)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq};

    use super::{escape, unescape};

    proptest::proptest! {
        #[test]
        fn every_text_comes_back(text in any::<String>()) {
            let escaped = escape(&text);
            let segment = format!("x{escaped}");
            prop_assert!(object_store::path::Path::parse(segment).is_ok());
            prop_assert_eq!(escaped.to_ascii_lowercase(), escaped.clone());
            prop_assert_eq!(unescape(&escaped), Some(text));
        }
    }
}
