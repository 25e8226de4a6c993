//! JSON, read from the front, without copies where it has no escapes.

use std::borrow::Cow;
use std::fmt;

use table_core::Error;
use table_core::store::ErrorKind;

use super::words::before_quote;

/// How deep arrays and objects may lie in each other where they are skipped.
const DEPTH: usize = 64;

pub(super) type Result<T, E = Box<Broken>> = std::result::Result<T, E>;

/// Why a document cannot be read, and where.
#[derive(Debug)]
pub(super) struct Broken {
    at: usize,
    reason: String,
}

impl Broken {
    pub(super) fn of_property(mut self: Box<Self>, name: &str) -> Box<Self> {
        self.reason = format!("property '{name}': {}", self.reason);
        self
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.reason)
    }
}

impl std::error::Error for Broken {}

/// A value that is neither an array nor an object.
#[derive(Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Decimal(f64),
    Text(Cow<'a, str>),
}

/// A document, and how far it has been read.
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
}

/// Reads a whole document. Its UTF-8 is checked once, which is cheaper than for every text in it.
pub(super) fn read<'a, T>(
    json: &'a [u8],
    document: impl FnOnce(&mut Json<'a>) -> Result<T>,
) -> table_core::Result<T> {
    let text = std::str::from_utf8(json).map_err(unreadable)?;
    let mut json = Json { text, at: 0 };
    let value = document(&mut json).map_err(unreadable)?;
    match json.peek() {
        None => Ok(value),
        Some(_) => Err(unreadable(json.broken("more after the end"))),
    }
}

fn unreadable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Service(format!("JSON that cannot be read: {cause}"))).with_source(cause)
}

impl<'a> Json<'a> {
    #[cold]
    pub(super) fn broken(&self, reason: impl Into<String>) -> Box<Broken> {
        Box::new(Broken { at: self.at, reason: reason.into() })
    }

    /// Reads an object; `member` is called after each name, to read its value.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        if !self.enters(false)? {
            return Ok(());
        }
        loop {
            let name = self.name()?;
            member(self, name)?;
            if !self.goes_on()? {
                return Ok(());
            }
        }
    }

    /// Goes to the next name of an object, from its start or from the value `within` it; whether there is one.
    pub(super) fn enters(&mut self, within: bool) -> Result<bool> {
        if within {
            return self.goes_on();
        }
        self.expect(b'{')?;
        Ok(!self.take(b'}'))
    }

    /// Goes from a value of an object to the next name; whether there is one.
    #[inline]
    pub(super) fn goes_on(&mut self) -> Result<bool> {
        if self.take(b',') { Ok(true) } else { self.expect(b'}').map(|()| false) }
    }

    /// Reads a name of an object; its value comes next.
    pub(super) fn name(&mut self) -> Result<Cow<'a, str>> {
        let name = self.text()?;
        self.expect(b':').map(|()| name)
    }

    /// Reads an array; `item` is called where each begins.
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

    #[inline]
    pub(super) fn text(&mut self) -> Result<Cow<'a, str>> {
        self.expect(b'"')?;
        let start = self.at;
        match self.stop(start)? {
            (end, b'"') => {
                self.at = end + 1;
                Ok(Cow::Borrowed(&self.text[start..end]))
            }
            (backslash, _) => self.escaped(start, backslash),
        }
    }

    /// Appends a text to `out`.
    pub(super) fn text_into(&mut self, out: &mut String) -> Result<()> {
        self.expect(b'"')?;
        let start = self.at;
        let (end, stop) = self.stop(start)?;
        if stop != b'"' {
            return self.unescape(start, end, out);
        }
        out.push_str(&self.text[start..end]);
        self.at = end + 1;
        Ok(())
    }

    /// How far it has been read.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// What has been read since.
    pub(super) fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    /// Passes over exactly this text, if it comes now.
    #[inline]
    pub(super) fn passes(&mut self, text: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(text.as_bytes());
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// How many bytes are not yet read.
    pub(super) const fn left(&self) -> usize {
        self.text.len() - self.at
    }

    pub(super) fn scalar(&mut self) -> Result<Scalar<'a>> {
        match self.peek() {
            Some(b'"') => self.text().map(Scalar::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.passes("null") => Ok(Scalar::Null),
            _ if self.passes("true") => Ok(Scalar::Boolean(true)),
            _ if self.passes("false") => Ok(Scalar::Boolean(false)),
            _ => Err(self.broken("expected a text, a number, a Boolean or null")),
        }
    }

    /// Passes over a value of any kind.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_within(DEPTH)
    }

    fn skip_within(&mut self, depth: usize) -> Result<()> {
        let inner = || depth.checked_sub(1);
        match self.peek() {
            Some(b'{' | b'[') if inner().is_none() => Err(self.broken("too many values within each other")),
            Some(b'{') => self.object(|json, _| json.skip_within(inner().unwrap_or_default())),
            Some(b'[') => self.array(|json| json.skip_within(inner().unwrap_or_default())),
            _ => self.scalar().map(drop),
        }
    }

    /// The next quote or backslash.
    #[inline]
    fn stop(&self, from: usize) -> Result<(usize, u8)> {
        let bytes = self.text.as_bytes();
        let at = from + before_quote(&bytes[from..]);
        bytes.get(at).map(|stop| (at, *stop)).ok_or_else(|| self.broken("a text without end"))
    }

    /// A text from its first backslash on.
    fn escaped(&mut self, start: usize, backslash: usize) -> Result<Cow<'a, str>> {
        let mut text = String::with_capacity(2 * (backslash - start) + 64);
        self.unescape(start, backslash, &mut text)?;
        Ok(Cow::Owned(text))
    }

    /// Appends a text from its first backslash on, and what came before that.
    fn unescape(&mut self, start: usize, mut backslash: usize, text: &mut String) -> Result<()> {
        let (mut from, before) = (start, text.len());
        loop {
            let escape = self.text.as_bytes().get(backslash + 1).copied();
            let Some(escape @ (b'"' | b'\\' | b'/')) = escape else {
                text.truncate(before);
                text.push_str(&self.rarely_escaped(start)?);
                return Ok(());
            };
            text.push_str(&self.text[from..backslash]);
            text.push(char::from(escape));
            from = backslash + 2;
            let (at, stop) = self.stop(from)?;
            if stop == b'"' {
                text.push_str(&self.text[from..at]);
                self.at = at + 1;
                return Ok(());
            }
            backslash = at;
        }
    }

    /// A text with escapes of every kind.
    fn rarely_escaped(&mut self, start: usize) -> Result<String> {
        let mut rest = serde_json::Deserializer::from_str(&self.text[start - 1..]).into_iter::<String>();
        let text = match rest.next() {
            Some(Ok(text)) => text,
            Some(Err(error)) => return Err(self.broken(error.to_string())),
            None => return Err(self.broken("a text without end")),
        };
        self.at = start - 1 + rest.byte_offset();
        Ok(text)
    }

    fn number(&mut self) -> Result<Scalar<'a>> {
        let rest = &self.text.as_bytes()[self.at..];
        let part = |b: &u8| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|b| !part(b)).unwrap_or(rest.len());
        let text = &self.text[self.at..self.at + length];
        let number = number(text).ok_or_else(|| self.broken("a malformed number"))?;
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
        if self.take(byte) { Ok(()) } else { Err(self.broken(format!("expected {:?}", char::from(byte)))) }
    }
}

/// A number; `-0` is the Double.
fn number<'a>(text: &str) -> Option<Scalar<'a>> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let whole = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if whole == 0 || (whole > 1 && digits[0] == b'0') {
        return None;
    }
    let integer = if whole == digits.len() && text != "-0" { text.parse().ok() } else { None };
    if let Some(integer) = integer {
        return Some(Scalar::Integer(integer));
    }
    let decimals = match &digits[whole..] {
        [b'.', decimals @ ..] => decimals.first().is_some_and(u8::is_ascii_digit),
        _ => true,
    };
    let decimal = text.parse().ok().filter(|decimal: &f64| decimal.is_finite() && decimals);
    decimal.map(Scalar::Decimal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn scalar(json: &str) -> Option<Scalar<'_>> {
        read(json.as_bytes(), Json::scalar).ok()
    }

    fn as_serde_has_it(json: &str) -> Option<Scalar<'_>> {
        Some(match serde_json::from_str(json).ok()? {
            Value::Null => Scalar::Null,
            Value::Bool(value) => Scalar::Boolean(value),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Scalar::Integer(integer),
                None => Scalar::Decimal(number.as_f64()?),
            },
            Value::String(text) => Scalar::Text(Cow::Owned(text)),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_serde_json(json in "-?[0-9]{0,20}(\\.[0-9]{0,6})?([eE][+-]?[0-9]{0,3})?|[-+.eE0-9]{1,6}") {
            prop_assert_eq!(scalar(&json), as_serde_has_it(&json), "{}", json);
        }

        #[test]
        fn texts_are_those_of_serde_json(text in any::<String>(), broken in "\"[a\\\\\"/bfnrtu0d8]{0,12}\"?") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(scalar(&json), Some(Scalar::Text(Cow::Owned(text))));
            prop_assert_eq!(scalar(&broken), as_serde_has_it(&broken), "{}", broken);
        }

        #[test]
        fn what_is_skipped_is_json(json in "[\\[\\]{},:\" 01tnrulfase.-]{0,16}") {
            let skipped = read(json.as_bytes(), Json::skip).is_ok();
            prop_assert_eq!(skipped, serde_json::from_str::<Value>(&json).is_ok(), "{}", json);
        }
    }

    #[test]
    fn depth_has_an_end() {
        let nested = |depth| ["[".repeat(depth), "]".repeat(depth)].concat();
        assert!(read(nested(DEPTH).as_bytes(), Json::skip).is_ok());
        assert!(read(nested(DEPTH + 1).as_bytes(), Json::skip).is_err());
        assert!(read("[".repeat(1 << 20).as_bytes(), Json::skip).is_err());
    }

    #[test]
    fn errors_say_where() {
        let error = read(b"{\"a\" 1}", Json::skip).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "byte 5: expected ':'");
    }
}
