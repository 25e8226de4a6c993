use std::fmt;

use super::names::{continues_name, starts_name};

/// An error and its byte position in the text.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) at: usize,
    pub(super) reason: String,
}

/// A token and the byte where it starts.
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) at: usize,
    pub(super) kind: Kind<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    Open,
    Close,
    /// A property name or a keyword.
    Word(&'a str),
    /// `'text'`, with doubled quotes resolved.
    Quoted(String),
    /// `type'text'`.
    Typed(&'a str, String),
    /// A token that starts like a number; not validated yet.
    Number(&'a str),
    End,
}

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("'('"),
            Self::Close => f.write_str("')'"),
            Self::Word(text) | Self::Number(text) => write!(f, "'{text}'"),
            Self::Quoted(_) => f.write_str("a text"),
            Self::Typed(prefix, _) => write!(f, "a {prefix} literal"),
            Self::End => f.write_str("the end"),
        }
    }
}

/// Splits filter text into tokens.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, Problem> {
        self.take(|c| c.is_ascii_whitespace());
        let at = self.at;
        let Some(first) = self.rest().chars().next() else { return Ok(Token { at, kind: Kind::End }) };
        let kind = match first {
            '(' => self.single(Kind::Open),
            ')' => self.single(Kind::Close),
            '\'' => Kind::Quoted(self.quoted()?),
            '-' | '.' | '0'..='9' => Kind::Number(self.number()),
            c if starts_name(c) => self.word()?,
            c => return Err(Problem { at, reason: format!("unexpected character {c:?}") }),
        };
        Ok(Token { at, kind })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, mut wanted: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn single(&mut self, kind: Kind<'a>) -> Kind<'a> {
        self.at += 1;
        kind
    }

    fn word(&mut self) -> Result<Kind<'a>, Problem> {
        let word = self.take(continues_name);
        if self.rest().starts_with('\'') {
            return Ok(Kind::Typed(word, self.quoted()?));
        }
        Ok(Kind::Word(word))
    }

    /// Reads digits, letters and dots, and a sign at the start or after the `e` of an exponent.
    fn number(&mut self) -> &'a str {
        let mut sign_allowed = true;
        self.take(|c| {
            let part = c == '.' || c.is_ascii_alphanumeric() || (sign_allowed && matches!(c, '-' | '+'));
            sign_allowed = matches!(c, 'e' | 'E');
            part
        })
    }

    /// Reads text in quotes. A quote in the text is doubled.
    fn quoted(&mut self) -> Result<String, Problem> {
        let open = self.at;
        let mut out = String::new();
        loop {
            self.at += 1;
            out.push_str(self.take(|c| c != '\''));
            if self.rest().is_empty() {
                let reason = "the text that starts here has no closing quote".to_owned();
                return Err(Problem { at: open, reason });
            }
            self.at += 1;
            if !self.rest().starts_with('\'') {
                return Ok(out);
            }
            out.push('\'');
        }
    }
}
