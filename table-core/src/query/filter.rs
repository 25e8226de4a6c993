use crate::model::{EdmValue, key_order};

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

/// A condition on entities, as the service's `$filter` expresses it.
///
/// Build it from names, parse it from text ([`str::parse`]), or take it from typed fields. It
/// prints back to the text it is parsed from, with parentheses only where they are needed.
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
        match key_order::prefix_end(prefix) {
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
