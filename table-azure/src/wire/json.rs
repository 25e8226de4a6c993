//! JSON, read from the front, without copies where it has no escapes.

mod text;

use std::borrow::Cow;
use std::fmt;

use table_core::Error;
use table_core::store::ErrorKind;

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
mod tests;
