use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, LazyLock};

use super::names::name_problem;
use crate::error::{Error, Result};
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
/// A filter has at most 1000 comparisons, and 100 `not` and parentheses in each other, whether it is parsed or built by
/// code. One that has more can be built, copied and dropped; every store refuses it
/// ([`check_size`](Self::check_size)). For thousands of keys there are point reads.
///
/// ```
/// use table_core::query::Filter;
/// let filter = Filter::eq("Origin", "LGA").and(Filter::gt("ArrDelay", 120));
/// assert_eq!(filter.to_string(), "Origin eq 'LGA' and ArrDelay gt 120");
/// assert_eq!(filter.to_string().parse::<Filter>()?, filter);
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Filter {
    node: Arc<FilterNode>,
    /// How many comparisons there are.
    comparisons: u32,
    /// How many `not` and parentheses lie in each other where it is printed.
    nesting: u32,
}

/// What a [`Filter`] is made of.
#[derive(Debug)]
pub enum FilterNode {
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
    And(Filter, Filter),
    /// One of them holds.
    Or(Filter, Filter),
    /// It does not hold.
    Not(Filter),
}

/// `not` and parentheses in each other, and comparisons, of a filter that stores take. Within them a filter can be walked
/// recursively.
pub(super) const MAX_NESTING: usize = 100;
pub(super) const MAX_COMPARISONS: usize = 1000;

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
        let node = FilterNode::Compare { property: property.into(), comparison, value: value.into() };
        Self { node: Arc::new(node), comparisons: 1, nesting: 0 }
    }

    /// What it is made of.
    pub fn node(&self) -> &FilterNode {
        &self.node
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
        let (left, right) = (self.is_or(), other.is_or() || other.is_and());
        Self::joined(self, left, other, right, FilterNode::And)
    }

    /// One of them holds.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let right = other.is_or();
        Self::joined(self, false, other, right, FilterNode::Or)
    }

    /// Two filters as one; each is printed in parentheses or not.
    fn joined(
        left: Self,
        left_grouped: bool,
        right: Self,
        right_grouped: bool,
        node: fn(Self, Self) -> FilterNode,
    ) -> Self {
        let nesting = |filter: &Self, grouped| filter.nesting.saturating_add(u32::from(grouped));
        let nesting = nesting(&left, left_grouped).max(nesting(&right, right_grouped));
        let comparisons = left.comparisons.saturating_add(right.comparisons);
        Self { node: Arc::new(node(left, right)), comparisons, nesting }
    }

    pub(super) fn is_and(&self) -> bool {
        matches!(*self.node, FilterNode::And(..))
    }

    pub(super) fn is_or(&self) -> bool {
        matches!(*self.node, FilterNode::Or(..))
    }

    /// Both hold, where there may be nothing yet.
    pub fn and_maybe(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        match (left, right) {
            (Some(left), Some(right)) => Some(left.and(right)),
            (left, right) => left.or(right),
        }
    }

    /// How many comparisons it has: services limit them.
    pub const fn comparisons(&self) -> usize {
        self.comparisons as usize
    }

    /// Whether it is small enough to be walked recursively.
    pub(crate) const fn is_bounded(&self) -> bool {
        self.comparisons as usize <= MAX_COMPARISONS && self.nesting as usize <= MAX_NESTING
    }

    /// Refuses a filter that is larger than filter text may be.
    ///
    /// # Errors
    /// More than 1000 comparisons, or more than 100 `not` and parentheses in each other.
    pub fn check_size(&self) -> Result<()> {
        if self.is_bounded() {
            return Ok(());
        }
        let (comparisons, nesting) = (self.comparisons(), self.nesting as usize);
        if comparisons > MAX_COMPARISONS {
            return Err(Error::limit("comparisons in a filter", MAX_COMPARISONS, comparisons));
        }
        Err(Error::limit("parentheses and 'not' in each other in a filter", MAX_NESTING, nesting))
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
        let mut left = vec![self];
        while let Some(filter) = left.pop() {
            match filter.node() {
                FilterNode::Compare { property, .. } => visit(property),
                FilterNode::And(a, b) | FilterNode::Or(a, b) => left.extend([b, a]),
                FilterNode::Not(inner) => left.push(inner),
            }
        }
    }
}

impl std::ops::Not for Filter {
    type Output = Self;

    fn not(self) -> Self {
        let (comparisons, nesting) = (self.comparisons, self.nesting.saturating_add(1));
        Self { node: Arc::new(FilterNode::Not(self)), comparisons, nesting }
    }
}

/// Equal comparisons, joined in the same way.
impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        use FilterNode::{And, Compare, Not, Or};
        let mut left = vec![(self, other)];
        while let Some((a, b)) = left.pop() {
            match (a.node(), b.node()) {
                (And(a1, a2), And(b1, b2)) | (Or(a1, a2), Or(b1, b2)) => left.extend([(a2, b2), (a1, b1)]),
                (Not(a), Not(b)) => left.push((a, b)),
                (
                    Compare { property, comparison, value },
                    Compare { property: property2, comparison: comparison2, value: value2 },
                ) if (property, comparison, value) == (property2, comparison2, value2) => {}
                _ => return false,
            }
        }
        true
    }
}

/// What it is made of, or its size where it is too large to be walked.
impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_bounded() { self.node().fmt(f) } else { write!(f, "Filter({self})") }
    }
}

/// A filter that is too deep to be dropped recursively is taken apart.
impl Drop for Filter {
    fn drop(&mut self) {
        if self.is_bounded() {
            return;
        }
        let mut left = vec![self.take()];
        while let Some(node) = left.pop() {
            match Arc::into_inner(node) {
                Some(FilterNode::And(mut a, mut b) | FilterNode::Or(mut a, mut b)) => {
                    left.extend([a.take(), b.take()]);
                }
                Some(FilterNode::Not(mut inner)) => left.push(inner.take()),
                Some(FilterNode::Compare { .. }) | None => {}
            }
        }
    }
}

impl Filter {
    /// Takes what it is made of, to drop it.
    fn take(&mut self) -> Arc<FilterNode> {
        static NOTHING: LazyLock<Arc<FilterNode>> = LazyLock::new(|| {
            let (property, comparison) = (Box::default(), Comparison::Equal);
            Arc::new(FilterNode::Compare { property, comparison, value: EdmValue::Boolean(false) })
        });
        (self.comparisons, self.nesting) = (1, 0);
        std::mem::replace(&mut self.node, Arc::clone(&NOTHING))
    }
}
