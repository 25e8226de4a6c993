use std::cmp::Ordering;
use std::fmt;

use super::names::name_problem;
use crate::model::{EdmValue, key_order};
use crate::store::{Error, Result};

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `eq`
    Equal,
    /// `ne`
    NotEqual,
    /// `gt`
    GreaterThan,
    /// `ge`
    GreaterThanOrEqual,
    /// `lt`
    LessThan,
    /// `le`
    LessThanOrEqual,
}

impl Comparison {
    /// The operator in filter text, for example `ge`.
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Equal => "eq",
            Self::NotEqual => "ne",
            Self::GreaterThan => "gt",
            Self::GreaterThanOrEqual => "ge",
            Self::LessThan => "lt",
            Self::LessThanOrEqual => "le",
        }
    }

    /// The operator with this keyword, which is case-sensitive.
    pub fn from_keyword(keyword: &str) -> Option<Self> {
        use Comparison::*;
        [Equal, NotEqual, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
            .into_iter()
            .find(|c| c.keyword() == keyword)
    }

    /// The operator after its sides are exchanged.
    pub(super) const fn mirrored(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::GreaterThan => Self::LessThan,
            Self::GreaterThanOrEqual => Self::LessThanOrEqual,
            Self::LessThan => Self::GreaterThan,
            Self::LessThanOrEqual => Self::GreaterThanOrEqual,
        }
    }

    /// The operator that holds exactly where this one does not, between values that have an order.
    pub(super) const fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::GreaterThan => Self::LessThanOrEqual,
            Self::GreaterThanOrEqual => Self::LessThan,
            Self::LessThan => Self::GreaterThanOrEqual,
            Self::LessThanOrEqual => Self::GreaterThan,
        }
    }

    /// Whether it holds, given the order of the property and the literal; `None` where they have none.
    pub(super) fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::GreaterThan => order == Some(Ordering::Greater),
            Self::GreaterThanOrEqual => order.is_some_and(Ordering::is_ge),
            Self::LessThan => order == Some(Ordering::Less),
            Self::LessThanOrEqual => order.is_some_and(Ordering::is_le),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.keyword())
    }
}

/// A condition on entities, as the service's `$filter` expresses it.
///
/// Build it from names, parse it from text ([`str::parse`]), or take it from typed fields. It
/// prints back to the text it is parsed from, with parentheses only where they are needed.
/// [`matches`](Self::matches) says what it means where a property is missing or of another type.
///
/// A chain of `and` or `or` is as deep as it is long, and is walked recursively: parsed text is
/// bounded, and for thousands of keys there are point reads.
///
/// ```
/// use table_core::query::Filter;
/// let filter = Filter::eq("Origin", "LGA").and(Filter::gt("ArrDelay", 120));
/// assert_eq!(filter.to_string(), "Origin eq 'LGA' and ArrDelay gt 120");
/// assert_eq!(filter.to_string().parse::<Filter>()?, filter);
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// A property compared with a literal.
    Compare {
        /// The property's name: `PartitionKey`, `RowKey` and `Timestamp` included.
        property: Box<str>,
        /// The operator.
        comparison: Comparison,
        /// The literal.
        value: EdmValue,
    },
    /// Both hold.
    And(Box<Self>, Box<Self>),
    /// One of them holds.
    Or(Box<Self>, Box<Self>),
    /// It does not hold.
    Not(Box<Self>),
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident $comparison:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(property: &str, value: impl Into<EdmValue>) -> Self {
            Self::compare(property, Comparison::$comparison, value)
        }
    )*};
}

impl Filter {
    /// The name of the partition key in a filter.
    pub const PARTITION_KEY: &'static str = "PartitionKey";
    /// The name of the row key in a filter.
    pub const ROW_KEY: &'static str = "RowKey";
    /// The name of the time of the last write in a filter.
    pub const TIMESTAMP: &'static str = "Timestamp";

    comparisons! {
        /// `property eq value`
        eq Equal;
        /// `property ne value`
        ne NotEqual;
        /// `property gt value`
        gt GreaterThan;
        /// `property ge value`
        ge GreaterThanOrEqual;
        /// `property lt value`
        lt LessThan;
        /// `property le value`
        le LessThanOrEqual;
    }

    /// A comparison with the operator as a value.
    pub fn compare(property: &str, comparison: Comparison, value: impl Into<EdmValue>) -> Self {
        Self::Compare { property: property.into(), comparison, value: value.into() }
    }

    /// The property's text starts with `prefix`, as a range of two comparisons (one where nothing
    /// sorts after the prefix): the service has no other way to ask.
    pub fn starts_with(property: &str, prefix: &str) -> Self {
        let from = Self::ge(property, prefix);
        let end = match property {
            Self::PARTITION_KEY | Self::ROW_KEY => key_order::key_prefix_end(prefix),
            _ => key_order::prefix_end(prefix),
        };
        match end {
            Some(end) => from.and(Self::lt(property, end)),
            None => from,
        }
    }

    /// Both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::And(Box::new(self), Box::new(other))
    }

    /// One of them holds.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::Or(Box::new(self), Box::new(other))
    }

    /// Both hold, where there may be nothing yet.
    pub fn and_maybe(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        match (left, right) {
            (Some(left), Some(right)) => Some(left.and(right)),
            (left, right) => left.or(right),
        }
    }

    /// How many comparisons it has: services limit them.
    pub fn comparisons(&self) -> usize {
        match self {
            Self::Compare { .. } => 1,
            Self::And(a, b) | Self::Or(a, b) => a.comparisons() + b.comparisons(),
            Self::Not(inner) => inner.comparisons(),
        }
    }

    /// Refuses a name that filter text cannot hold: printed, it would mean something else.
    ///
    /// # Errors
    /// The first name that is no identifier, or is a word of the filter language.
    pub fn check_names(&self) -> Result<()> {
        let mut result = Ok(());
        self.for_each_property(&mut |name| {
            if let (Ok(()), Some(reason)) = (&result, name_problem(name)) {
                result = Err(Error::invalid_name("property name in a filter", name, reason));
            }
        });
        result
    }

    /// Calls `visit` with the name of every property compared, from left to right.
    pub fn for_each_property<'a>(&'a self, visit: &mut impl FnMut(&'a str)) {
        match self {
            Self::Compare { property, .. } => visit(property),
            Self::And(a, b) | Self::Or(a, b) => {
                a.for_each_property(visit);
                b.for_each_property(visit);
            }
            Self::Not(inner) => inner.for_each_property(visit),
        }
    }
}

impl std::ops::Not for Filter {
    type Output = Self;

    fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}
