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

use std::str::FromStr;

use super::filter::{MAX_COMPARISONS, MAX_NESTING};
use super::lex::{Kind, Lexer, Problem, Token};
use super::{Comparison, Filter, literal, names};
use crate::error::{Error, Result};
use crate::model::EdmValue;

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
    let mut parser = Parser { lexer, next, nesting: 0, comparisons: 0 };
    let filter = parser.filter()?;
    match parser.next.kind {
        Kind::End => Ok(filter),
        _ => Err(parser.expected("'and', 'or' or the end")),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    next: Token<'a>,
    nesting: usize,
    comparisons: usize,
}

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
            let inner = if self.next.kind == Kind::Open { Self::group } else { Self::unary };
            return Ok(!self.nested(inner)?);
        }
        if self.next.kind == Kind::Open { self.nested(Self::group) } else { self.comparison() }
    }

    fn group(&mut self) -> Result<Filter, Problem> {
        self.advance()?;
        let inner = self.filter()?;
        if self.next.kind != Kind::Close {
            return Err(self.expected("')'"));
        }
        self.advance()?;
        Ok(inner)
    }

    fn nested(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Filter, Problem>,
    ) -> Result<Filter, Problem> {
        if self.nesting == MAX_NESTING {
            return Err(self.problem(format!("more than {MAX_NESTING} nested parentheses and 'not'")));
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
        let Some(comparison) = self.operator() else { return self.alone(left) };
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
                let reason =
                    "a comparison needs a property on one side and a literal on the other".to_owned();
                Err(Problem { at: right_at, reason })
            }
        }
    }

    /// Handles an operand without an operator: a Boolean property, a Boolean, or an error.
    fn alone(&self, operand: Operand<'a>) -> Result<Filter, Problem> {
        match (operand, &self.next.kind) {
            // Every entity has a PartitionKey, and the empty text comes before all others.
            (
                Operand::Literal(EdmValue::Boolean(value)),
                Kind::Close | Kind::End | Kind::Word("and" | "or"),
            ) => {
                let comparison = if value { Comparison::GreaterThanOrEqual } else { Comparison::LessThan };
                Ok(Filter::compare("PartitionKey", comparison, ""))
            }
            (Operand::Property(name), Kind::Open) => Err(self.problem(format!(
                "the service has no functions such as '{name}'; a prefix is a range of 'ge' and 'lt'"
            ))),
            (Operand::Property(name), Kind::Close | Kind::End | Kind::Word("and" | "or")) => {
                Ok(Filter::eq(name, true))
            }
            _ => Err(self.expected("an operator (eq, ne, gt, ge, lt, le)")),
        }
    }

    fn operator(&self) -> Option<Comparison> {
        match self.next.kind {
            Kind::Word(word) => Comparison::from_keyword(word),
            _ => None,
        }
    }

    fn operand(&mut self, expected: &str) -> Result<Operand<'a>, Problem> {
        let operand = match &self.next.kind {
            Kind::Word("true") => Operand::Literal(EdmValue::Boolean(true)),
            Kind::Word("false") => Operand::Literal(EdmValue::Boolean(false)),
            Kind::Word("NaN") => Operand::Literal(EdmValue::Double(f64::NAN)),
            Kind::Word("INF") => Operand::Literal(EdmValue::Double(f64::INFINITY)),
            Kind::Word("null") => {
                return Err(self.problem("there is no null: no comparison holds for a missing property"));
            }
            Kind::Word(word) if !names::is_reserved(word) => Operand::Property(word),
            Kind::Quoted(text) => Operand::Literal(EdmValue::String(text.clone())),
            Kind::Typed(prefix, text) => Operand::Literal(self.checked(literal::typed(prefix, text))?),
            Kind::Number(text) => Operand::Literal(self.checked(literal::number(text))?),
            _ => return Err(self.expected(expected)),
        };
        self.advance()?;
        Ok(operand)
    }

    fn skip_word(&mut self, word: &str) -> Result<bool, Problem> {
        let found = self.next.kind == Kind::Word(word);
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

    fn expected(&self, what: &str) -> Problem {
        self.problem(format!("expected {what}, found {}", self.next.kind))
    }

    fn problem(&self, reason: impl Into<String>) -> Problem {
        Problem { at: self.next.at, reason: reason.into() }
    }
}
