//! The parser of `$filter` text.
//!
//! ```text
//! filter     = and { "or" and }
//! and        = unary { "and" unary }
//! unary      = "not" unary | "(" filter ")" | comparison
//! comparison = property operator literal | literal operator property | property | boolean
//! operator   = "eq" | "ne" | "gt" | "ge" | "lt" | "le"
//! property   = ( letter | "_" ) { letter | digit | "_" }          (* no word of this grammar *)
//! literal    = text | boolean | int32 | int64 | double | datetime | guid | binary
//! text       = "'" { any character but "'" | "''" } "'"
//! boolean    = "true" | "false"
//! int32      = [ "-" ] digits
//! int64      = [ "-" ] digits "L"
//! double     = [ "-" ] decimal [ exponent ] [ "d" | "D" ] | "NaN" | "INF" | "-INF"
//!                                        (* with at least a ".", an exponent or a suffix *)
//! decimal    = digits [ "." [ digits ] ] | "." digits
//! exponent   = ( "e" | "E" ) [ "-" | "+" ] digits
//! datetime   = "datetime'" date "T" hh ":" mm [ ":" ss [ "." 1 to 7 digits ] ] [ "Z" | offset ] "'"
//! guid       = "guid'" 8 hex "-" 4 hex "-" 4 hex "-" 4 hex "-" 12 hex "'"
//! binary     = ( "X" | "binary" ) "'" { hex hex } "'"
//! ```
//!
//! Words are separated by white space and are case-sensitive, as the service documents for all parts of a
//! filter ("Constructing Filter Strings" in
//! <https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities>). Literals follow
//! [MS-ODATA] 2.2.2
//! (<https://learn.microsoft.com/openspecs/windows_protocols/ms-odata/61934eae-311a-4af4-b8f8-82c112248651>).
//!
//! A property alone means `property eq true`: `not isAvailable` is an example in the service's documentation
//! (<https://learn.microsoft.com/visualstudio/azure/vs-azure-tools-table-designer-construct-filter-strings>).
//! `true` and `false` alone mean every entity and none; builders of filters start with them (`true and Age gt 40`).
//! `not` applies to the whole comparison that follows. It is printed with parentheses, because OData itself
//! binds `not` tighter. There is no `null`: the service refuses it
//! (<https://github.com/Azure/Azurite/issues/2471>).
//!
//! Text is limited like filters built by code: [`MAX_NESTING`] nested parentheses and `not`, and
//! [`MAX_COMPARISONS`] comparisons, so that neither parsing nor processing the filter can exhaust the stack.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::filter::{MAX_COMPARISONS, MAX_NESTING};
use super::{Comparison, Filter};
use crate::error::{Error, Result};
use crate::model::{EdmValue, Ticks};

impl FromStr for Filter {
    type Err = Error;

    /// Parses the service's `$filter` text.
    ///
    /// # Errors
    /// Names the character at which parsing failed, and what was expected there.
    ///
    /// ```
    /// use table_core::query::Filter;
    /// let filter: Filter = "2 lt Age and not (Name eq 'O''Hara')".parse()?;
    /// assert_eq!(filter, Filter::gt("Age", 2).and(!Filter::eq("Name", "O'Hara")));
    /// let error = "Age = 2".parse::<Filter>().unwrap_err();
    /// assert_eq!(error.to_string(), "invalid filter at character 4: unexpected character '='");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        parse(text).map_err(|Problem { at, reason }| {
            Error::invalid_filter(text.get(..at).unwrap_or(text).chars().count(), reason)
        })
    }
}

fn parse(text: &str) -> Result<Filter, Problem> {
    let mut lexer = Lexer::new(text);
    let next = lexer.next()?;
    let mut parser = Parser {
        lexer,
        next,
        nesting: 0,
        comparisons: 0,
    };
    let filter = parser.filter()?;
    match parser.next.kind {
        TokenKind::End => Ok(filter),
        _ => Err(parser.expected("'and', 'or' or the end")),
    }
}

/// A parser by recursive descent: one method for each rule of the grammar.
struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token, which is not consumed yet.
    next: Token<'a>,
    /// Number of parentheses and `not` that are open.
    nesting: usize,
    /// Number of comparisons up to here.
    comparisons: usize,
}

/// A side of a comparison.
enum Operand<'a> {
    Property(&'a str),
    Literal(EdmValue),
}

impl<'a> Parser<'a> {
    fn filter(&mut self) -> Result<Filter, Problem> {
        let mut left = self.and()?;
        while self.skip_word("or")? {
            left = left.or(self.and()?);
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Filter, Problem> {
        let mut left = self.unary()?;
        while self.skip_word("and")? {
            left = left.and(self.unary()?);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Filter, Problem> {
        if self.skip_word("not")? {
            // A `not` with its parentheses counts once, so that parsed text is not too deep after printing.
            let inner = if self.next.kind == TokenKind::Open {
                Self::group
            } else {
                Self::unary
            };
            return Ok(!self.nested(inner)?);
        }
        if self.next.kind == TokenKind::Open {
            self.nested(Self::group)
        } else {
            self.comparison()
        }
    }

    fn group(&mut self) -> Result<Filter, Problem> {
        self.advance()?;
        let inner = self.filter()?;
        if self.next.kind != TokenKind::Close {
            return Err(self.expected("')'"));
        }
        self.advance()?;
        Ok(inner)
    }

    /// Parses with `inner`, one level deeper.
    fn nested(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Filter, Problem>,
    ) -> Result<Filter, Problem> {
        if self.nesting == MAX_NESTING {
            return Err(self.problem(format!(
                "more than {MAX_NESTING} nested parentheses and 'not'"
            )));
        }
        self.nesting += 1;
        let filter = inner(self)?;
        self.nesting -= 1;
        Ok(filter)
    }

    fn comparison(&mut self) -> Result<Filter, Problem> {
        self.comparisons += 1;
        if self.comparisons > MAX_COMPARISONS {
            return Err(self.problem(format!("more than {MAX_COMPARISONS} comparisons")));
        }
        let left = self.operand("a property, a literal, 'not' or '('")?;
        let Some(comparison) = self.operator() else {
            return self.without_operator(left);
        };
        self.advance()?;
        let right_at = self.next.at;
        match (left, self.operand("a property or a literal")?) {
            (Operand::Property(name), Operand::Literal(value)) => {
                Ok(Filter::compare(name, comparison, value))
            }
            (Operand::Literal(value), Operand::Property(name)) => {
                Ok(Filter::compare(name, comparison.mirrored(), value))
            }
            _ => {
                let reason = "a comparison needs a property on one side and a literal on the other"
                    .to_owned();
                Err(Problem {
                    at: right_at,
                    reason,
                })
            }
        }
    }

    /// Handles an operand without an operator: a Boolean property, a Boolean, or an error.
    fn without_operator(&self, operand: Operand<'a>) -> Result<Filter, Problem> {
        match (operand, &self.next.kind) {
            // Every entity has a PartitionKey, and the empty text comes before all others.
            (
                Operand::Literal(EdmValue::Boolean(value)),
                TokenKind::Close | TokenKind::End | TokenKind::Word("and" | "or"),
            ) => {
                let comparison = if value { Comparison::GreaterThanOrEqual } else { Comparison::LessThan };
                Ok(Filter::compare("PartitionKey", comparison, ""))
            }
            (Operand::Property(name), TokenKind::Open) => Err(self.problem(format!(
                "the service has no functions such as '{name}'; a prefix is a range of 'ge' and 'lt'"
            ))),
            (Operand::Property(name), TokenKind::Close | TokenKind::End | TokenKind::Word("and" | "or")) => {
                Ok(Filter::eq(name, true))
            }
            _ => Err(self.expected("an operator (eq, ne, gt, ge, lt, le)")),
        }
    }

    fn operator(&self) -> Option<Comparison> {
        match self.next.kind {
            TokenKind::Word(word) => Comparison::from_keyword(word),
            _ => None,
        }
    }

    fn operand(&mut self, expected: &str) -> Result<Operand<'a>, Problem> {
        let operand = match &self.next.kind {
            TokenKind::Word("true") => Operand::Literal(EdmValue::Boolean(true)),
            TokenKind::Word("false") => Operand::Literal(EdmValue::Boolean(false)),
            TokenKind::Word("NaN") => Operand::Literal(EdmValue::Double(f64::NAN)),
            TokenKind::Word("INF") => Operand::Literal(EdmValue::Double(f64::INFINITY)),
            TokenKind::Word("null") => {
                return Err(
                    self.problem("there is no null: no comparison holds for a missing property")
                );
            }
            TokenKind::Word(word) if !is_reserved(word) => Operand::Property(word),
            TokenKind::Quoted(text) => Operand::Literal(EdmValue::String(text.clone())),
            TokenKind::Typed(prefix, text) => Operand::Literal(self.checked(typed(prefix, text))?),
            TokenKind::Number(text) => Operand::Literal(self.checked(number(text))?),
            _ => return Err(self.expected(expected)),
        };
        self.advance()?;
        Ok(operand)
    }

    fn skip_word(&mut self, word: &str) -> Result<bool, Problem> {
        let found = self.next.kind == TokenKind::Word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn advance(&mut self) -> Result<(), Problem> {
        self.next = self.lexer.next()?;
        Ok(())
    }

    fn checked<T>(&self, result: Result<T, String>) -> Result<T, Problem> {
        result.map_err(|reason| self.problem(reason))
    }

    fn expected(&self, expected: &str) -> Problem {
        self.problem(format!("expected {expected}, found {}", self.next.kind))
    }

    fn problem(&self, reason: impl Into<String>) -> Problem {
        Problem {
            at: self.next.at,
            reason: reason.into(),
        }
    }
}

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
    pub(super) kind: TokenKind<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind<'a> {
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

impl fmt::Display for TokenKind<'_> {
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
        self.take_while(|c| c.is_ascii_whitespace());
        let at = self.at;
        let Some(first) = self.rest().chars().next() else {
            return Ok(Token {
                at,
                kind: TokenKind::End,
            });
        };
        let kind = match first {
            '(' => self.single(TokenKind::Open),
            ')' => self.single(TokenKind::Close),
            '\'' => TokenKind::Quoted(self.quoted()?),
            '-' | '.' | '0'..='9' => TokenKind::Number(self.number()),
            c if starts_name(c) => self.word()?,
            c => {
                return Err(Problem {
                    at,
                    reason: format!("unexpected character {c:?}"),
                });
            }
        };
        Ok(Token { at, kind })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Consumes the characters up to the first for which `belongs` is false.
    fn take_while(&mut self, mut belongs: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn single(&mut self, kind: TokenKind<'a>) -> TokenKind<'a> {
        self.at += 1;
        kind
    }

    fn word(&mut self) -> Result<TokenKind<'a>, Problem> {
        let word = self.take_while(continues_name);
        if self.rest().starts_with('\'') {
            return Ok(TokenKind::Typed(word, self.quoted()?));
        }
        Ok(TokenKind::Word(word))
    }

    /// Reads digits, letters and dots, and a sign at the start or after the `e` of an exponent.
    fn number(&mut self) -> &'a str {
        let mut sign_allowed = true;
        self.take_while(|c| {
            let belongs =
                c == '.' || c.is_ascii_alphanumeric() || (sign_allowed && matches!(c, '-' | '+'));
            sign_allowed = matches!(c, 'e' | 'E');
            belongs
        })
    }

    /// Reads text in quotes. A quote in the text is doubled.
    fn quoted(&mut self) -> Result<String, Problem> {
        let open = self.at;
        let mut out = String::new();
        loop {
            self.at += 1;
            out.push_str(self.take_while(|c| c != '\''));
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

/// Parses a number: `1` is an Int32, `1L` an Int64; `1.0`, `1e3` and `1d` are Doubles.
///
/// The service does not widen a large integer automatically: it returns 400, "Unrecognized 'Edm.Int32'
/// literal" (<https://github.com/microsoft/AzureStorageExplorer/issues/1382>).
pub(super) fn number(text: &str) -> Result<EdmValue, String> {
    if text == "-INF" {
        return Ok(EdmValue::Double(f64::NEG_INFINITY));
    }
    if let Some(digits) = text.strip_suffix('L') {
        return integer(digits, "Edm.Int64").map(EdmValue::Int64);
    }
    let digits = text.strip_suffix(['d', 'D']).unwrap_or(text);
    if digits.len() < text.len() || digits.contains(['.', 'e', 'E']) {
        return double(digits).map(EdmValue::Double);
    }
    let value = integer(text, "Edm.Int32")?;
    let too_long = format!("{text} does not fit an Edm.Int32; write {text}L for an Edm.Int64");
    i32::try_from(value)
        .map(EdmValue::Int32)
        .map_err(|_| too_long)
}

fn integer(text: &str, edm_type: &str) -> Result<i64, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!(
            "'{text}' is not a number; write for example 1, 1L, 1.0 or 1e3"
        ));
    }
    text.parse()
        .map_err(|_| format!("{text} does not fit an {edm_type}"))
}

fn double(text: &str) -> Result<f64, String> {
    // Rust parses more forms than the service writes, for example `inf`.
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    match text.parse::<f64>() {
        Ok(value) if plain && value.is_finite() => Ok(value),
        Ok(_) if plain => Err(format!(
            "{text} does not fit an Edm.Double; write INF or -INF"
        )),
        _ => Err(format!(
            "'{text}' is not a number; write for example 1.5 or 1.5e-3"
        )),
    }
}

/// Parses a literal with a type prefix, as in `guid'…'`.
pub(super) fn typed(prefix: &str, text: &str) -> Result<EdmValue, String> {
    match prefix {
        "datetime" => datetime(text).map(EdmValue::DateTime),
        "guid" => guid(text).map(EdmValue::Guid),
        "X" | "binary" => binary(text).map(EdmValue::Binary),
        other => Err(format!(
            "unknown literal type '{other}'; expected datetime, guid, X or binary"
        )),
    }
}

/// Parses ISO 8601 with up to 7 decimals. The default time zone is UTC.
fn datetime(text: &str) -> Result<Ticks, String> {
    let decimals = text
        .split_once('.')
        .map_or(0, |(_, t)| t.bytes().take_while(u8::is_ascii_digit).count());
    // The date has hyphens too, so the zone is looked for behind it.
    let zone = text
        .get(10..)
        .and_then(|time| time.find(['Z', '+', '-']))
        .map(|at| 10 + at);
    let (time, zone) = zone.map_or((text, "Z"), |at| text.split_at(at));
    // `2013-01-01T05:15`, without seconds.
    let seconds = if time.len() == 16 { ":00" } else { "" };
    Some(format!("{time}{seconds}{zone}"))
        .filter(|zoned| decimals <= 7 && zoned.as_bytes().get(10) == Some(&b'T'))
        .and_then(|zoned| zoned.parse().ok())
        .ok_or_else(|| {
            format!("'{text}' is not a DateTime; write for example 2013-01-01T05:15:00.1234567Z")
        })
}

fn guid(text: &str) -> Result<Uuid, String> {
    let problem = || format!("'{text}' is not a Guid; write 32 hexadecimal digits as 8-4-4-4-12");
    // Of the forms that the crate parses, only the hyphenated one has this length.
    Some(text)
        .filter(|t| t.len() == 36)
        .and_then(|t| Uuid::try_parse(t).ok())
        .ok_or_else(problem)
}

fn binary(text: &str) -> Result<Vec<u8>, String> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| "write a Binary as pairs of hexadecimal digits".to_owned())
}

/// Words of the filter language, which cannot be property names in a filter.
const RESERVED: [&str; 8] = ["and", "or", "not", "true", "false", "null", "NaN", "INF"];

/// Returns why the service does not allow a property with this name; `None` if it allows the property.
pub(crate) fn identifier_problem(name: &str) -> Option<&'static str> {
    let mut chars = name.chars();
    let is_identifier = chars.next().is_some_and(starts_name) && chars.all(continues_name);
    (!is_identifier)
        .then_some("it must be an identifier: a letter or '_', then letters, digits or '_'")
}

/// Returns why a property with this name cannot be in a filter; `None` if it can.
pub(super) fn name_problem(name: &str) -> Option<&'static str> {
    let is_word = || is_reserved(name).then_some("it is a word of the filter language");
    identifier_problem(name).or_else(is_word)
}

fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || Comparison::from_keyword(word).is_some()
}

fn starts_name(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn continues_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
