//! Checks the filter of `where = "…"` without the library: its tokens, and whether their order forms a
//! filter.

// `table_core` re-exports this crate, so this crate cannot use its parser, `table_core::query`. This one checks the order of
// the tokens and finds the names. Literals are not checked: the library's parser does that when the index is opened.

/// Returns the names of the properties that a filter compares, or an error.
pub(super) fn names(text: &str) -> Result<Vec<String>, String> {
    let words = words(text)?;
    let mut parser = Parser {
        words: &words,
        names: Vec::new(),
    };
    parser.or()?;
    match parser.words.first() {
        None => Ok(parser.names),
        Some(word) => Err(format!(
            "expected `and`, `or` or the end of the filter, found `{}`",
            word.text()
        )),
    }
}

#[derive(Clone, PartialEq)]
enum Word {
    Name(String),
    Literal(String),
    Open,
    Close,
}

impl Word {
    fn text(&self) -> &str {
        match self {
            Self::Name(text) | Self::Literal(text) => text,
            Self::Open => "(",
            Self::Close => ")",
        }
    }
}

/// Splits a filter into names, literals and parentheses.
fn words(text: &str) -> Result<Vec<Word>, String> {
    let (mut words, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '(' => (Word::Open, &rest[1..]),
            ')' => (Word::Close, &rest[1..]),
            '\'' => quoted(rest)?,
            c if c == '_' || c.is_alphabetic() => {
                let end = rest
                    .find(|c: char| c != '_' && !c.is_alphanumeric())
                    .unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                match (name, after.starts_with('\'')) {
                    ("datetime" | "guid" | "X" | "binary", true) => quoted(after)?,
                    ("true" | "false" | "NaN" | "INF", _) => {
                        (Word::Literal(name.to_owned()), after)
                    }
                    _ => (Word::Name(name.to_owned()), after),
                }
            }
            c if c.is_ascii_digit() || matches!(c, '-' | '.') => {
                let is_of_number =
                    |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
                let end = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
                (Word::Literal(rest[..end].to_owned()), &rest[end..])
            }
            c => return Err(format!("`{c}` cannot be in a filter")),
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Parses the quoted text at the start of `rest`. Two quotes in it stand for one.
fn quoted(rest: &str) -> Result<(Word, &str), String> {
    let mut at = 1;
    while let Some(end) = rest[at..].find('\'') {
        let end = at + end;
        if !rest[end + 1..].starts_with('\'') {
            return Ok((Word::Literal(rest[..=end].to_owned()), &rest[end + 1..]));
        }
        at = end + 2;
    }
    Err("unterminated string in the filter; close it with `'`".to_owned())
}

struct Parser<'w> {
    words: &'w [Word],
    names: Vec<String>,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<(), String> {
        self.and()?;
        while self.take_keyword("or") {
            self.and()?;
        }
        Ok(())
    }

    fn and(&mut self) -> Result<(), String> {
        self.unary()?;
        while self.take_keyword("and") {
            self.unary()?;
        }
        Ok(())
    }

    fn unary(&mut self) -> Result<(), String> {
        if self.take_keyword("not") {
            return self.unary();
        }
        if self.words.first() != Some(&Word::Open) {
            return self.comparison();
        }
        self.words = &self.words[1..];
        self.or()?;
        match self.words.split_first() {
            Some((Word::Close, rest)) => {
                self.words = rest;
                Ok(())
            }
            _ => Err("a `(` of the filter is not closed".to_owned()),
        }
    }

    /// Parses a property, an operator and a literal, in either order, or a Boolean property.
    fn comparison(&mut self) -> Result<(), String> {
        let left_is_name = self.operand()?;
        let is_operator = |word: &Word| matches!(word, Word::Name(name) if ["eq", "ne", "gt", "ge", "lt", "le"].contains(&&**name));
        match self.words.split_first() {
            Some((word, rest)) if is_operator(word) => self.words = rest,
            _ if left_is_name => return Ok(()),
            _ => return Err("a value in the filter is not compared with a property".to_owned()),
        }
        match (left_is_name, self.operand()?) {
            (true, true) | (false, false) => {
                Err("a filter compares a property with a value".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the operand is a property.
    fn operand(&mut self) -> Result<bool, String> {
        let Some((word, rest)) = self.words.split_first() else {
            return Err("the filter ends where a property or a value is expected".to_owned());
        };
        self.words = rest;
        match word {
            Word::Name(name) => {
                self.names.push(name.clone());
                Ok(true)
            }
            Word::Literal(_) => Ok(false),
            Word::Open | Word::Close => Err(format!(
                "`{}` is found where a property is expected",
                word.text()
            )),
        }
    }

    /// Takes the next word if it is this keyword. Returns whether it was.
    fn take_keyword(&mut self, keyword: &str) -> bool {
        match self.words.split_first() {
            Some((Word::Name(name), rest)) if name == keyword => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn names_of_filters_are_found_and_errors_reported() {
        assert_eq!(
            names("Status eq 'o''pen' and (Age gt 3L or not IsOld)").unwrap(),
            ["Status", "Age", "IsOld"]
        );
        assert_eq!(
            names("datetime'2020-01-01T00:00:00Z' lt At").unwrap(),
            ["At"]
        );
        assert_eq!(
            names("A ge -1.5e3 and B eq true and C ne guid'x' and D lt X'00'").unwrap(),
            ["A", "B", "C", "D"]
        );
        for wrong in [
            "",
            "A eq",
            "A eq 'x",
            "A = 1",
            "A eq 1 or",
            "(A eq 1",
            "A eq 1)",
            "A eq B",
            "1 eq 1",
            "1",
            "A B",
        ] {
            assert!(names(wrong).is_err(), "{wrong}");
        }
    }
}
