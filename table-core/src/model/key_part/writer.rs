use super::PartFormat;
use crate::model::ValueError;
use crate::model::key::{is_forbidden, is_ordinary};

/// The output of [`KeyPart::encode`](super::KeyPart::encode).
#[derive(Clone, Debug)]
pub struct KeyWriter {
    pub(crate) out: String,
    pub(crate) format: PartFormat,
}

/// The text of one [`KeyPart`](super::KeyPart) in a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyText<'a> {
    pub(crate) text: &'a str,
    pub(crate) format: PartFormat,
}

/// Number of digits of the largest `u64`.
const MAX_DIGITS: usize = 20;

impl KeyWriter {
    /// Writes text. Escapes characters that are forbidden in keys, and the separator after the part. A prefix
    /// of the text gives a prefix of the output.
    pub fn text(&mut self, text: &str) {
        push_text(&mut self.out, text, self.format.separator);
    }

    /// Writes a number with leading zeros. The width is the template's, or `digits` by default.
    ///
    /// # Errors
    /// Fails if the number has more digits.
    pub fn number(&mut self, value: u64, digits: usize) -> Result<(), ValueError> {
        self.write_digits(value, digits, |d| d)
    }

    /// Like [`number`](Self::number), with every digit subtracted from nine, so that larger numbers sort
    /// first.
    ///
    /// # Errors
    /// Fails if the number has more digits.
    pub fn number_reversed(&mut self, value: u64, digits: usize) -> Result<(), ValueError> {
        self.write_digits(value, digits, |d| 9 - d)
    }

    #[inline]
    fn write_digits(
        &mut self,
        value: u64,
        digits: usize,
        map: impl Fn(u8) -> u8,
    ) -> Result<(), ValueError> {
        let width = self.format.width.unwrap_or(digits).min(MAX_DIGITS);
        let (mut text, mut rest) = ([0; MAX_DIGITS], value);
        for digit in text[..width].iter_mut().rev() {
            *digit = b'0' + map((rest % 10) as u8);
            rest /= 10;
        }
        // Digits are valid UTF-8. A rest means that the number needs more digits.
        let digits = std::str::from_utf8(&text[..width])
            .ok()
            .filter(|_| rest == 0);
        self.out.push_str(
            digits.ok_or_else(|| ValueError::new(format!("at most {width} digits"), value))?,
        );
        Ok(())
    }
}

impl<'a> KeyText<'a> {
    /// Returns the text as it is in the key.
    pub const fn as_str(&self) -> &'a str {
        self.text
    }

    /// Parses the text of [`KeyWriter::text`].
    ///
    /// # Errors
    /// Fails if the escapes differ from those that `text` writes.
    #[inline]
    pub fn text(&self) -> Result<String, ValueError> {
        parse_text(self.text, self.format.separator)
    }

    /// Parses the text of [`KeyWriter::number`].
    ///
    /// # Errors
    /// Fails if the text does not have that many digits, or exceeds a `u64`.
    #[inline]
    pub fn number(&self, digits: usize) -> Result<u64, ValueError> {
        self.parse_number(digits, |d| d)
    }

    /// Parses the text of [`KeyWriter::number_reversed`].
    ///
    /// # Errors
    /// Fails if the text does not have that many digits, or exceeds a `u64`.
    pub fn number_reversed(&self, digits: usize) -> Result<u64, ValueError> {
        self.parse_number(digits, |d| 9 - d)
    }

    /// Returns an error that shows this text and the text that was expected in its place.
    pub fn expected(&self, expected: impl Into<std::borrow::Cow<'static, str>>) -> ValueError {
        ValueError::new(expected, format_args!("{:?}", self.text))
    }

    #[inline]
    fn parse_number(&self, digits: usize, map: impl Fn(u8) -> u8) -> Result<u64, ValueError> {
        let width = self.format.width.unwrap_or(digits);
        let number = if self.text.len() == width {
            self.parse_digits(map)
        } else {
            None
        };
        number.ok_or_else(
            #[cold]
            || self.expected(format!("a number of {width} digits")),
        )
    }

    #[inline]
    fn parse_digits(&self, map: impl Fn(u8) -> u8) -> Option<u64> {
        let mut number = 0u64;
        for (place, byte) in self.text.bytes().enumerate() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            let digit = u64::from(map(digit));
            number = match place {
                // Any 19 digits fit a `u64`.
                0..19 => number * 10 + digit,
                _ => number.checked_mul(10)?.checked_add(digit)?,
            };
        }
        Some(number)
    }
}

// Escapes text in keys. A forbidden character, the escape character and the separator that ends the part are
// written as `~` and two upper-case hex digits; all of them are below U+0100.

const ESCAPE: char = '~';

/// Appends `text`, escaped for a part that ends at `separator`.
pub(super) fn push_text(out: &mut String, text: &str, separator: Option<char>) {
    if is_plain(text, separator) {
        return out.push_str(text);
    }
    for c in text.chars() {
        if must_escape(c, separator) {
            push_escaped(out, c);
        } else {
            out.push(c);
        }
    }
}

fn push_escaped(out: &mut String, c: char) {
    let digit = |n: u32| {
        char::from_digit(n, 16)
            .unwrap_or_default()
            .to_ascii_uppercase()
    };
    let code = u32::from(c);
    out.extend([ESCAPE, digit(code >> 4), digit(code & 0xF)]);
}

/// Reverses [`push_text`]. Accepts only texts that `push_text` writes.
pub(super) fn parse_text(text: &str, separator: Option<char>) -> Result<String, ValueError> {
    if is_plain(text, separator) {
        return Ok(text.to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c| must_escape(c, separator)) {
        out.push_str(&rest[..at]);
        // An escape of a character that needs none is refused too. Each text thus has one encoding, and a key has one row.
        let c = rest[at..]
            .strip_prefix(ESCAPE)
            .and_then(escaped)
            .filter(|c| must_escape(*c, separator));
        let wrong = || {
            ValueError::new(
                "text with forbidden characters escaped as `~` and two hex digits",
                text,
            )
        };
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
    let upper = digits
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
    upper.then(|| u8::from_str_radix(digits, 16).ok().map(char::from))?
}

fn must_escape(c: char, separator: Option<char>) -> bool {
    c == ESCAPE || Some(c) == separator || is_forbidden(c)
}

/// Whether the text certainly needs no escape.
#[inline]
fn is_plain(text: &str, separator: Option<char>) -> bool {
    is_ordinary(text, |byte| {
        char::from(byte) == ESCAPE || Some(char::from(byte)) == separator
    })
}
