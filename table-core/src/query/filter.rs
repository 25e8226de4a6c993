use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, LazyLock};

use super::parse::name_problem;
use crate::error::{Error, LimitKind, Result};
use crate::model::{EdmValue, Entity, Key, Properties, Ticks, ValueRef, as_text, find, key_order};

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
    /// Returns the operator in filter text, for example `ge`.
    const fn keyword(self) -> &'static str {
        match self {
            Self::Equal => "eq",
            Self::NotEqual => "ne",
            Self::GreaterThan => "gt",
            Self::GreaterThanOrEqual => "ge",
            Self::LessThan => "lt",
            Self::LessThanOrEqual => "le",
        }
    }

    /// Returns the operator with this keyword, which is case-sensitive.
    pub(crate) fn from_keyword(keyword: &str) -> Option<Self> {
        use Comparison::*;
        [
            Equal,
            NotEqual,
            GreaterThan,
            GreaterThanOrEqual,
            LessThan,
            LessThanOrEqual,
        ]
        .into_iter()
        .find(|c| c.keyword() == keyword)
    }

    /// Returns the operator for exchanged sides.
    pub(super) const fn mirrored(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::GreaterThan => Self::LessThan,
            Self::GreaterThanOrEqual => Self::LessThanOrEqual,
            Self::LessThan => Self::GreaterThan,
            Self::LessThanOrEqual => Self::GreaterThanOrEqual,
        }
    }

    /// Returns the opposite operator for values that have an order, such as keys. For a property that may be absent or of
    /// another type it is not the negation: there, neither `gt` nor `le` holds.
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

    /// Whether the operator holds for this order of property and literal; `None` if they are not comparable.
    pub(crate) fn holds(self, order: Option<Ordering>) -> bool {
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

/// A condition on entities, as in the service's `$filter`.
///
/// Build it from names, parse it from text ([`str::parse`]), or get it from typed fields. It prints as filter
/// text with the necessary parentheses only. [`matches`](Self::matches) documents the semantics for missing
/// properties and for other types.
///
/// A filter may have at most 1000 comparisons and 100 nested `not` and parentheses, whether parsed or built
/// by code. A larger filter can be built, cloned and dropped, but every store refuses it.
/// For thousands of keys use point reads.
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
    /// Number of comparisons.
    comparisons: u32,
    /// Maximum nesting of `not` and parentheses in its text.
    nesting: u32,
}

/// The structure of a [`Filter`].
#[derive(Debug)]
pub enum FilterNode {
    /// A property compared with a literal.
    Compare {
        /// The property's name, including `PartitionKey`, `RowKey` and `Timestamp`.
        property: Box<str>,
        /// The operator.
        comparison: Comparison,
        /// The literal.
        value: EdmValue,
    },
    /// Both operands hold.
    And(Filter, Filter),
    /// At least one operand holds.
    Or(Filter, Filter),
    /// The operand does not hold.
    Not(Filter),
}

/// Maximum nesting and number of comparisons of a filter that stores accept. Recursion over such a filter has at most 1,100
/// levels: each level has a `not` or at least one comparison less than the level above it.
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
    /// The name of the PartitionKey in a filter.
    pub const PARTITION_KEY: &'static str = "PartitionKey";
    /// The name of the RowKey in a filter.
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

    /// Creates a comparison with an operator value.
    pub fn compare(property: &str, comparison: Comparison, value: impl Into<EdmValue>) -> Self {
        let node = FilterNode::Compare {
            property: property.into(),
            comparison,
            value: value.into(),
        };
        Self {
            node: Arc::new(node),
            comparisons: 1,
            nesting: 0,
        }
    }

    /// Returns the structure of the filter.
    pub fn node(&self) -> &FilterNode {
        &self.node
    }

    /// The property's text starts with `prefix`. The service has no such operator, so this is a range of two
    /// comparisons (or one, if nothing sorts after the prefix).
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

    /// Both filters must hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (left_grouped, right_grouped) = (self.is_or(), other.is_or() || other.is_and());
        Self::joined(self, left_grouped, other, right_grouped, FilterNode::And)
    }

    /// At least one filter must hold.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let right_grouped = other.is_or();
        Self::joined(self, false, other, right_grouped, FilterNode::Or)
    }

    /// Joins two filters; each may need parentheses in the text.
    fn joined(
        left: Self,
        left_grouped: bool,
        right: Self,
        right_grouped: bool,
        node: fn(Self, Self) -> FilterNode,
    ) -> Self {
        // Counts the parentheses that `Display` writes, so that a filter within the limits can be parsed again from
        // its text.
        let nesting = |filter: &Self, grouped| filter.nesting.saturating_add(u32::from(grouped));
        let nesting = nesting(&left, left_grouped).max(nesting(&right, right_grouped));
        let comparisons = left.comparisons.saturating_add(right.comparisons);
        Self {
            node: Arc::new(node(left, right)),
            comparisons,
            nesting,
        }
    }

    pub(super) fn is_and(&self) -> bool {
        matches!(*self.node, FilterNode::And(..))
    }

    pub(super) fn is_or(&self) -> bool {
        matches!(*self.node, FilterNode::Or(..))
    }

    /// Joins optional filters by `and`.
    pub fn and_maybe(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        match (left, right) {
            (Some(left), Some(right)) => Some(left.and(right)),
            (left, right) => left.or(right),
        }
    }

    /// Returns the number of comparisons, which services limit.
    pub const fn comparisons(&self) -> usize {
        self.comparisons as usize
    }

    /// Whether the filter is small enough for recursion.
    pub(crate) const fn is_bounded(&self) -> bool {
        self.comparisons as usize <= MAX_COMPARISONS && self.nesting as usize <= MAX_NESTING
    }

    /// Refuses a filter that exceeds the limits.
    ///
    /// # Errors
    /// Fails for more than 1000 comparisons, or more than 100 nested `not` and parentheses.
    pub(crate) fn check_size(&self) -> Result<()> {
        if self.is_bounded() {
            return Ok(());
        }
        let (comparisons, nesting) = (self.comparisons(), self.nesting as usize);
        if comparisons > MAX_COMPARISONS {
            return Err(Error::limit_of_kind(
                LimitKind::FilterSize,
                "comparisons in a filter",
                MAX_COMPARISONS,
                comparisons,
            ));
        }
        Err(Error::limit_of_kind(
            LimitKind::FilterSize,
            "nested parentheses and 'not' in a filter",
            MAX_NESTING,
            nesting,
        ))
    }

    /// Refuses property names that cannot be written in filter text, because the text would have another
    /// meaning.
    ///
    /// # Errors
    /// Names the first property that is not an identifier, or is a word of the filter language.
    pub fn check_names(&self) -> Result<()> {
        let mut result = Ok(());
        self.for_each_property(&mut |name| {
            if let (Ok(()), Some(reason)) = (&result, name_problem(name)) {
                result = Err(Error::invalid_name(
                    "property name in a filter",
                    name,
                    reason,
                ));
            }
        });
        result
    }

    /// Calls `visit` with the name of every compared property, from left to right.
    pub fn for_each_property<'a>(&'a self, visit: &mut impl FnMut(&'a str)) {
        let mut pending = vec![self];
        while let Some(filter) = pending.pop() {
            match filter.node() {
                FilterNode::Compare { property, .. } => visit(property),
                FilterNode::And(a, b) | FilterNode::Or(a, b) => pending.extend([b, a]),
                FilterNode::Not(inner) => pending.push(inner),
            }
        }
    }
}

impl std::ops::Not for Filter {
    type Output = Self;

    fn not(self) -> Self {
        let (comparisons, nesting) = (self.comparisons, self.nesting.saturating_add(1));
        Self {
            node: Arc::new(FilterNode::Not(self)),
            comparisons,
            nesting,
        }
    }
}

as_text! {
    /// As `$filter` text.
    Filter, text => text.parse::<Self>();
}

/// Filters are equal if their comparisons are equal and joined in the same way.
impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        use FilterNode::{And, Compare, Not, Or};
        let mut pending = vec![(self, other)];
        while let Some((a, b)) = pending.pop() {
            match (a.node(), b.node()) {
                (And(a1, a2), And(b1, b2)) | (Or(a1, a2), Or(b1, b2)) => {
                    pending.extend([(a2, b2), (a1, b1)]);
                }
                (Not(a), Not(b)) => pending.push((a, b)),
                (
                    Compare {
                        property,
                        comparison,
                        value,
                    },
                    Compare {
                        property: property2,
                        comparison: comparison2,
                        value: value2,
                    },
                ) if (property, comparison, value) == (property2, comparison2, value2) => {}
                _ => return false,
            }
        }
        true
    }
}

/// Shows the structure, or only the size if the filter is too large for recursion.
impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_bounded() {
            self.node().fmt(f)
        } else {
            write!(f, "Filter({self})")
        }
    }
}

/// A filter that is too deep for recursion is taken apart step by step.
impl Drop for Filter {
    fn drop(&mut self) {
        // The parts of a filter within the limits are dropped by the compiler's code, which recurses.
        if self.is_bounded() {
            return;
        }
        let mut pending = vec![self.take()];
        while let Some(node) = pending.pop() {
            match Arc::into_inner(node) {
                Some(FilterNode::And(mut a, mut b) | FilterNode::Or(mut a, mut b)) => {
                    pending.extend([a.take(), b.take()]);
                }
                Some(FilterNode::Not(mut inner)) => pending.push(inner.take()),
                Some(FilterNode::Compare { .. }) | None => {}
            }
        }
    }
}

impl Filter {
    /// Takes the structure, to drop it.
    fn take(&mut self) -> Arc<FilterNode> {
        static NOTHING: LazyLock<Arc<FilterNode>> = LazyLock::new(|| {
            let (property, comparison) = (Box::default(), Comparison::Equal);
            Arc::new(FilterNode::Compare {
                property,
                comparison,
                value: EdmValue::Boolean(false),
            })
        });
        // The emptied filter is within the limits, so that dropping it does not come back here.
        (self.comparisons, self.nesting) = (1, 0);
        std::mem::replace(&mut self.node, Arc::clone(&NOTHING))
    }
}

// The semantics of filters.
//
// | a comparison of | with | `eq` | `ne` | `gt` `ge` `lt` `le` |
// |---|---|---|---|---|
// | a missing property | anything | no | no | no |
// | a property | a literal of the same type | by value | by value | by value |
// | an Int64 or Double property | an Int32 literal | as numbers | as numbers | as numbers |
// | a Double property | an Int64 literal | as numbers | as numbers | as numbers |
// | a property | a literal of any other type | no | yes | no |
// | NaN | NaN or a number | no | yes | no |
//
// `and`, `or` and `not` follow two-valued logic: `not` holds if its operand does not hold, also for an
// entity without the property.
//
// Text is compared by UTF-16 code unit, like keys; Binary byte by byte; Guid in the order of its text; false
// before true. Names are case-sensitive. `PartitionKey`, `RowKey` and `Timestamp` are properties like all
// others.
//
// Sources: the service's documentation only says that a literal must have the property's type for valid
// results. The service does not return entities without the property under `ne`
// (<https://github.com/Azure/Azurite/issues/1929>) and returns them under `not`
// (<https://github.com/Azure/azure-storage-net/issues/696>); a DateTime is `ne ''`
// (<https://github.com/Azure/azure-sdk-for-net/issues/38590>); an Int32 literal finds an Int64, and an Int64
// literal does not find an Int32 (<https://github.com/microsoft/AzureStorageExplorer/issues/5346>): the
// literal is widened, never the property. The rest is assumed to follow the same two rules, and the tests
// mark it as assumed, including that a Double literal finds no integer. Typed fields of `f64` do not rely on
// this: they compare integers with separate literals.

impl Filter {
    /// Whether an entity matches the filter, by the service's rules.
    ///
    /// No comparison holds for a missing property, not even `ne`; therefore `not` of a comparison does. A
    /// literal of another type than the property is `ne` to it and neither smaller nor larger. As an
    /// exception, an integer literal is widened to the property's Int64 or Double.
    ///
    /// ```
    /// use table_core::model::Entity;
    /// use table_core::query::Filter;
    /// let entity = Entity::new("Sales", "223")?.with("Age", 41);
    /// assert!(Filter::gt("Age", 40).matches(&entity));
    /// assert!(!Filter::ne("Name", "Ken").matches(&entity));
    /// assert!((!Filter::eq("Name", "Ken")).matches(&entity));
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn matches(&self, entity: &Entity) -> bool {
        self.matches_parts(entity.key(), entity.timestamp(), entity.properties())
    }

    /// Like [`matches`](Self::matches), on the parts of an entity. Allocates nothing.
    pub fn matches_parts(
        &self,
        key: &Key,
        timestamp: Option<Ticks>,
        properties: &Properties,
    ) -> bool {
        let (partition, row) = (key.partition(), key.row());
        self.holds(&RowRef {
            partition,
            row,
            timestamp,
            packed: properties.as_packed(),
        })
    }

    /// Like [`matches`](Self::matches), on a stored row.
    pub(crate) fn holds(&self, row: &RowRef<'_>) -> bool {
        if self.is_bounded() {
            self.holds_recursively(row)
        } else {
            self.holds_iteratively(row)
        }
    }

    fn holds_recursively(&self, row: &RowRef<'_>) -> bool {
        match self.node() {
            FilterNode::Compare {
                property,
                comparison,
                value,
            } => row.compares(property, *comparison, value),
            FilterNode::And(a, b) => a.holds_recursively(row) && b.holds_recursively(row),
            FilterNode::Or(a, b) => a.holds_recursively(row) || b.holds_recursively(row),
            FilterNode::Not(inner) => !inner.holds_recursively(row),
        }
    }

    /// Like [`holds`](Self::holds), for a filter that is too deep for recursion: evaluates every comparison
    /// and combines the results on an explicit stack.
    fn holds_iteratively(&self, row: &RowRef<'_>) -> bool {
        let (mut steps, mut results) = (vec![Step::Evaluate(self)], Vec::new());
        while let Some(step) = steps.pop() {
            let Step::Evaluate(filter) = step else {
                // Every step leaves one result, so the results that an operator takes are always there. Both operands
                // are evaluated, also where one decides: a comparison has no effect that could be noticed.
                let last = results.pop().unwrap_or_default();
                let joined = match step {
                    Step::And => results.pop().unwrap_or_default() && last,
                    Step::Or => results.pop().unwrap_or_default() || last,
                    _ => !last,
                };
                results.push(joined);
                continue;
            };
            match filter.node() {
                FilterNode::Compare {
                    property,
                    comparison,
                    value,
                } => {
                    results.push(row.compares(property, *comparison, value));
                }
                FilterNode::And(a, b) => {
                    steps.extend([Step::And, Step::Evaluate(b), Step::Evaluate(a)]);
                }
                FilterNode::Or(a, b) => {
                    steps.extend([Step::Or, Step::Evaluate(b), Step::Evaluate(a)]);
                }
                FilterNode::Not(inner) => steps.extend([Step::Not, Step::Evaluate(inner)]),
            }
        }
        results.pop().unwrap_or_default()
    }
}

/// A step of the evaluation without recursion: evaluate a filter, or join the last results.
enum Step<'f> {
    Evaluate(&'f Filter),
    And,
    Or,
    Not,
}

/// A stored row as filters see it.
pub(crate) struct RowRef<'a> {
    pub(crate) partition: &'a str,
    pub(crate) row: &'a str,
    pub(crate) timestamp: Option<Ticks>,
    pub(crate) packed: &'a [u8],
}

impl<'a> RowRef<'a> {
    #[inline]
    fn compares(&self, property: &str, comparison: Comparison, value: &EdmValue) -> bool {
        // A missing property fails every operator, also `ne`. A property of another type is different: `order`
        // returns `None`, for which `ne` holds.
        self.get(property)
            .is_some_and(|found| comparison.holds(order(found, value.as_ref())))
    }

    fn get(&self, name: &str) -> Option<ValueRef<'a>> {
        match name {
            // No property has one of these names: `check_operation` refuses them.
            Filter::PARTITION_KEY => Some(ValueRef::String(self.partition)),
            Filter::ROW_KEY => Some(ValueRef::String(self.row)),
            Filter::TIMESTAMP => self.timestamp.map(ValueRef::DateTime),
            _ => find(self.packed, name)?.decode(),
        }
    }
}

/// Returns the order of a property and a literal, if they are comparable.
fn order(property: ValueRef<'_>, literal: ValueRef<'_>) -> Option<Ordering> {
    use ValueRef::*;
    match (property, literal) {
        (String(a), String(b)) => Some(key_order::compare(a, b)),
        (Int32(a), Int32(b)) => Some(a.cmp(&b)),
        (Int64(a), Int64(b)) => Some(a.cmp(&b)),
        // Only the literal is widened. The opposite pair, an Int32 property and an Int64 literal, is not comparable.
        (Int64(a), Int32(b)) => Some(a.cmp(&i64::from(b))),
        // NaN has no order: `None`, so that only `ne` holds.
        (Double(a), Double(b)) => a.partial_cmp(&b),
        (Double(a), Int32(b)) => a.partial_cmp(&f64::from(b)),
        // Rounds integers of more than 53 bits. Assumed: the service does not document it.
        (Double(a), Int64(b)) => a.partial_cmp(&(b as f64)),
        (DateTime(a), DateTime(b)) => Some(a.cmp(&b)),
        (Boolean(a), Boolean(b)) => Some(a.cmp(&b)),
        (Guid(a), Guid(b)) => Some(a.cmp(&b)),
        (Binary(a), Binary(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// Prints the service's `$filter` text, without URL encoding. [`str::parse`] parses it.
///
/// Parentheses are printed where grouping needs them, and always after `not`, which OData binds tighter than
/// a comparison. A property name that filter text cannot contain is printed unchanged, and
/// [`check_names`](Filter::check_names) refuses it. A filter that is too large is printed as text
/// that is not a filter.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_bounded() {
            return write!(
                f,
                "<{} comparisons: too many or nested too deeply>",
                self.comparisons()
            );
        }
        match self.node() {
            FilterNode::Compare {
                property,
                comparison,
                value,
            } => {
                write!(f, "{property} {comparison} {}", Literal(value.as_ref()))
            }
            FilterNode::And(a, b) => {
                write_grouped(f, a, a.is_or())?;
                f.write_str(" and ")?;
                write_grouped(f, b, b.is_and() || b.is_or())
            }
            FilterNode::Or(a, b) => {
                write_grouped(f, a, false)?;
                f.write_str(" or ")?;
                write_grouped(f, b, b.is_or())
            }
            FilterNode::Not(inner) => {
                f.write_str("not ")?;
                write_grouped(f, inner, true)
            }
        }
    }
}

/// Prints an operand, in parentheses if its grouping needs them.
fn write_grouped(f: &mut fmt::Formatter<'_>, filter: &Filter, parentheses: bool) -> fmt::Result {
    if parentheses {
        write!(f, "({filter})")
    } else {
        write!(f, "{filter}")
    }
}

/// Prints a value as a literal of its own type.
struct Literal<'a>(ValueRef<'a>);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ValueRef::Binary(bytes) => write_binary(f, bytes),
            ValueRef::Boolean(v) => write!(f, "{v}"),
            ValueRef::DateTime(v) => write!(f, "datetime'{v}'"),
            ValueRef::Double(v) => write_double(f, v),
            ValueRef::Guid(v) => write!(f, "guid'{}'", v.as_hyphenated()),
            ValueRef::Int32(v) => write!(f, "{v}"),
            ValueRef::Int64(v) => write!(f, "{v}L"),
            ValueRef::String(v) => write!(f, "'{}'", v.replace('\'', "''")),
        }
    }
}

/// Prints the shortest digits that parse to the same number, always with a point or an exponent.
fn write_double(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    match value {
        f64::INFINITY => f.write_str("INF"),
        f64::NEG_INFINITY => f.write_str("-INF"),
        _ => write!(f, "{value:?}"),
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("X'")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
    f.write_str("'")
}
