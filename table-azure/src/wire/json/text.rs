//! JSON strings and their escapes.

use std::borrow::Cow;

use super::{Json, Result};
use crate::wire::byte_scan::before_quote;

impl<'a> Json<'a> {
    /// Reads a string. A string without escapes borrows from the document.
    #[inline]
    pub(in crate::wire) fn text(&mut self) -> Result<Cow<'a, str>> {
        self.expect(b'"')?;
        // Control characters without an escape are accepted, although JSON forbids them
        // (<https://www.rfc-editor.org/rfc/rfc8259#section-7>): their meaning is clear, and the search for the quote
        // is one pass.
        let start = self.at;
        match self.find_stop(start)? {
            (end, b'"') => {
                self.at = end + 1;
                Ok(Cow::Borrowed(&self.text[start..end]))
            }
            (backslash, _) => self.escaped(start, backslash),
        }
    }

    /// Appends a string to `out`.
    pub(in crate::wire) fn text_into(&mut self, out: &mut String) -> Result<()> {
        self.expect(b'"')?;
        let start = self.at;
        let (end, stop) = self.find_stop(start)?;
        if stop != b'"' {
            return self.unescape(start, end, out);
        }
        out.push_str(&self.text[start..end]);
        self.at = end + 1;
        Ok(())
    }

    /// Finds the next quote or backslash.
    #[inline]
    fn find_stop(&self, from: usize) -> Result<(usize, u8)> {
        let bytes = self.text.as_bytes();
        let at = from + before_quote(&bytes[from..]);
        bytes
            .get(at)
            .map(|stop| (at, *stop))
            .ok_or_else(|| self.parse_error("unterminated string"))
    }

    /// Reads a string from its first backslash on.
    fn escaped(&mut self, start: usize, backslash: usize) -> Result<Cow<'a, str>> {
        let mut text = String::with_capacity(2 * (backslash - start) + 64);
        self.unescape(start, backslash, &mut text)?;
        Ok(Cow::Owned(text))
    }

    /// Appends the part of a string before its first backslash, and the rest with its escapes decoded.
    fn unescape(&mut self, start: usize, mut backslash: usize, text: &mut String) -> Result<()> {
        let (mut from, before) = (start, text.len());
        loop {
            let escape = self.text.as_bytes().get(backslash + 1).copied();
            // These escapes stand for themselves and are nearly all that occur: ETags contain quotes.
            let Some(escape @ (b'"' | b'\\' | b'/')) = escape else {
                // `serde_json` starts again at the opening quote, so the part that was appended is removed.
                text.truncate(before);
                text.push_str(&self.rarely_escaped(start)?);
                return Ok(());
            };
            // A quote and a backslash are ASCII, and no byte within a character of UTF-8 is: the slices end at characters.
            text.push_str(&self.text[from..backslash]);
            text.push(char::from(escape));
            from = backslash + 2;
            let (at, stop) = self.find_stop(from)?;
            if stop == b'"' {
                text.push_str(&self.text[from..at]);
                self.at = at + 1;
                return Ok(());
            }
            backslash = at;
        }
    }

    /// Reads a string with any kind of escape. It is rarely needed.
    fn rarely_escaped(&mut self, start: usize) -> Result<String> {
        // From the opening quote, at `start - 1`. The iterator stops after one value, so the rest of the document is
        // not read.
        let mut rest =
            serde_json::Deserializer::from_str(&self.text[start - 1..]).into_iter::<String>();
        let text = match rest.next() {
            Some(Ok(text)) => text,
            Some(Err(error)) => return Err(self.parse_error(error.to_string())),
            None => return Err(self.parse_error("unterminated string")),
        };
        self.at = start - 1 + rest.byte_offset();
        Ok(text)
    }
}
