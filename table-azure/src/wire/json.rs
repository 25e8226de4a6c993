//! A JSON reader that does not copy strings without escapes.

mod text;

use std::borrow::Cow;
use std::fmt;

use table_core::Error;
use table_core::store::ErrorKind;

/// Maximum nesting of arrays and objects in a skipped value.
const MAX_DEPTH: usize = 64;

pub(super) type Result<T, E = Box<ParseError>> = std::result::Result<T, E>;

/// Why and where a document cannot be parsed.
#[derive(Debug)]
pub(super) struct ParseError {
    at: usize,
    reason: String,
}

impl ParseError {
    pub(super) fn of_property(mut self: Box<Self>, name: &str) -> Box<Self> {
        self.reason = format!("property '{name}': {}", self.reason);
        self
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// A value that is neither an array nor an object.
#[derive(Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Decimal(f64),
    Text(Cow<'a, str>),
}

/// A document and the position of the reader.
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
}

/// Reads a whole document. Its UTF-8 is checked once, which is cheaper than a check per string.
pub(super) fn read<'a, T>(
    json: &'a [u8],
    document: impl FnOnce(&mut Json<'a>) -> Result<T>,
) -> table_core::Result<T> {
    let text = std::str::from_utf8(json).map_err(unreadable)?;
    let mut json = Json { text, at: 0 };
    let value = document(&mut json).map_err(unreadable)?;
    match json.peek() {
        None => Ok(value),
        Some(_) => Err(unreadable(
            json.parse_error("unexpected bytes after the end of the document"),
        )),
    }
}

fn unreadable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Service(format!(
        "the answer is not valid JSON: {cause}"
    )))
    .with_source(cause)
}

impl<'a> Json<'a> {
    #[cold]
    pub(super) fn parse_error(&self, reason: impl Into<String>) -> Box<ParseError> {
        Box::new(ParseError {
            at: self.at,
            reason: reason.into(),
        })
    }

    /// Reads an object. `member` is called after each name and must read the value.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        if !self.next_name_from(false)? {
            return Ok(());
        }
        loop {
            let name = self.name()?;
            member(self, name)?;
            if !self.next_name()? {
                return Ok(());
            }
        }
    }

    /// Moves to the next name of an object. Returns whether there is a name. `within` says that the reader is after a value of
    /// the object; otherwise it is before the object.
    pub(super) fn next_name_from(&mut self, within: bool) -> Result<bool> {
        if within {
            return self.next_name();
        }
        self.expect(b'{')?;
        Ok(!self.take(b'}'))
    }

    /// Moves from a value of an object to the next name. Returns whether there is a name.
    #[inline]
    pub(super) fn next_name(&mut self) -> Result<bool> {
        if self.take(b',') {
            Ok(true)
        } else {
            self.expect(b'}').map(|()| false)
        }
    }

    /// Reads a name of an object. Its value follows.
    pub(super) fn name(&mut self) -> Result<Cow<'a, str>> {
        let name = self.text()?;
        self.expect(b':').map(|()| name)
    }

    /// Reads an array. `item` is called at the start of each item.
    pub(super) fn array(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(b'[')?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.take(b',') {
                return self.expect(b']');
            }
        }
    }

    /// The number of bytes read.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// The text read since the position `from`.
    pub(super) fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    /// Skips exactly this text, if it follows. Returns whether it did. The text ends at a character, so `at` stays within UTF-8.
    #[inline]
    pub(super) fn skip_exact(&mut self, text: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(text.as_bytes());
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// The number of bytes not yet read.
    pub(super) const fn bytes_left(&self) -> usize {
        self.text.len() - self.at
    }

    /// Reads a value that is neither an array nor an object.
    pub(super) fn scalar(&mut self) -> Result<Scalar<'a>> {
        match self.peek() {
            Some(b'"') => self.text().map(Scalar::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.skip_exact("null") => Ok(Scalar::Null),
            _ if self.skip_exact("true") => Ok(Scalar::Boolean(true)),
            _ if self.skip_exact("false") => Ok(Scalar::Boolean(false)),
            _ => Err(self.parse_error("expected a string, a number, a Boolean or null")),
        }
    }

    /// Skips a value of any kind.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_within(MAX_DEPTH)
    }

    fn skip_within(&mut self, depth: usize) -> Result<()> {
        // Each level is a call. Without a bound, an answer of opening brackets would exhaust the stack.
        let inner = || depth.checked_sub(1);
        match self.peek() {
            Some(b'{' | b'[') if inner().is_none() => {
                Err(self.parse_error("arrays and objects are nested too deeply"))
            }
            Some(b'{') => self.object(|json, _| json.skip_within(inner().unwrap_or_default())),
            Some(b'[') => self.array(|json| json.skip_within(inner().unwrap_or_default())),
            _ => self.scalar().map(drop),
        }
    }

    /// Reads a number. First finds its end, so that the parser sees no text of the next member.
    fn number(&mut self) -> Result<Scalar<'a>> {
        let rest = &self.text.as_bytes()[self.at..];
        let part = |b: &u8| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|b| !part(b)).unwrap_or(rest.len());
        let text = &self.text[self.at..self.at + length];
        let number = number(text).ok_or_else(|| self.parse_error("a malformed number"))?;
        self.at += length;
        Ok(number)
    }

    /// The next byte that is not white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at).copied() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                next => return next,
            }
        }
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(self.parse_error(format!("expected {:?}", char::from(byte))))
        }
    }
}

/// Parses a number; `-0` is a Double.
fn number<'a>(text: &str) -> Option<Scalar<'a>> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let whole = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    // The grammar of JSON (<https://www.rfc-editor.org/rfc/rfc8259#section-6>), which is stricter than Rust's parser
    // of numbers: no leading zeros, and digits before and after the point.
    if whole == 0 || (whole > 1 && digits[0] == b'0') {
        return None;
    }
    // An `i64` has no negative zero. A number that does not fit an `i64` goes on as a Double.
    let integer = if whole == digits.len() && text != "-0" {
        text.parse().ok()
    } else {
        None
    };
    if let Some(integer) = integer {
        return Some(Scalar::Integer(integer));
    }
    let decimals = match &digits[whole..] {
        [b'.', decimals @ ..] => decimals.first().is_some_and(u8::is_ascii_digit),
        _ => true,
    };
    let decimal = text
        .parse()
        .ok()
        .filter(|decimal: &f64| decimal.is_finite() && decimals);
    decimal.map(Scalar::Decimal)
}

#[cfg(test)]
mod tests;
