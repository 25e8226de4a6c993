use std::fmt;

use super::{Filter, FilterNode};
use crate::model::ValueRef;

/// Prints the service's `$filter` text, without URL encoding. [`str::parse`] parses it.
///
/// Parentheses are printed where grouping needs them, and always after `not`, which OData binds tighter than
/// a comparison. A property name that filter text cannot contain is printed unchanged, and
/// [`check_names`](Filter::check_names) refuses it. A filter that [`check_size`](Filter::check_size) refuses
/// is printed as text that is not a filter.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_bounded() {
            return write!(f, "<{} comparisons: too many or nested too deeply>", self.comparisons());
        }
        match self.node() {
            FilterNode::Compare { property, comparison, value } => {
                write!(f, "{property} {comparison} {}", Literal(value.as_ref()))
            }
            FilterNode::And(a, b) => {
                grouped(f, a, a.is_or())?;
                f.write_str(" and ")?;
                grouped(f, b, b.is_and() || b.is_or())
            }
            FilterNode::Or(a, b) => {
                grouped(f, a, false)?;
                f.write_str(" or ")?;
                grouped(f, b, b.is_or())
            }
            FilterNode::Not(inner) => {
                f.write_str("not ")?;
                grouped(f, inner, true)
            }
        }
    }
}

fn grouped(f: &mut fmt::Formatter<'_>, filter: &Filter, parentheses: bool) -> fmt::Result {
    if parentheses { write!(f, "({filter})") } else { write!(f, "{filter}") }
}

/// Prints a value as a literal of its own type.
struct Literal<'a>(ValueRef<'a>);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ValueRef::Binary(bytes) => binary(f, bytes),
            ValueRef::Boolean(v) => write!(f, "{v}"),
            ValueRef::DateTime(v) => write!(f, "datetime'{v}'"),
            ValueRef::Double(v) => double(f, v),
            ValueRef::Guid(v) => write!(f, "guid'{}'", v.as_hyphenated()),
            ValueRef::Int32(v) => write!(f, "{v}"),
            ValueRef::Int64(v) => write!(f, "{v}L"),
            ValueRef::String(v) => write!(f, "'{}'", v.replace('\'', "''")),
        }
    }
}

/// Prints the shortest digits that parse to the same number, always with a point or an exponent.
fn double(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    match value {
        f64::INFINITY => f.write_str("INF"),
        f64::NEG_INFINITY => f.write_str("-INF"),
        _ => write!(f, "{value:?}"),
    }
}

fn binary(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("X'")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
    f.write_str("'")
}
