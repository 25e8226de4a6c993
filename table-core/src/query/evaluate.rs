//! The semantics of filters.
//!
//! | a comparison of | with | `eq` | `ne` | `gt` `ge` `lt` `le` |
//! |---|---|---|---|---|
//! | a missing property | anything | no | no | no |
//! | a property | a literal of the same type | by value | by value | by value |
//! | an Int64 or Double property | an Int32 literal | as numbers | as numbers | as numbers |
//! | a Double property | an Int64 literal | as numbers | as numbers | as numbers |
//! | a property | a literal of any other type | no | yes | no |
//! | NaN | NaN or a number | no | yes | no |
//!
//! `and`, `or` and `not` follow two-valued logic: `not` holds if its operand does not hold, also for an
//! entity without the property.
//!
//! Text is compared by UTF-16 code unit, like keys; Binary byte by byte; Guid in the order of its text; false
//! before true. Names are case-sensitive. `PartitionKey`, `RowKey` and `Timestamp` are properties like all
//! others.
//!
//! Sources: the service's documentation only says that a literal must have the property's type for valid
//! results. The service does not return entities without the property under `ne`
//! (<https://github.com/Azure/Azurite/issues/1929>) and returns them under `not`
//! (<https://github.com/Azure/azure-storage-net/issues/696>); a DateTime is `ne ''`
//! (<https://github.com/Azure/azure-sdk-for-net/issues/38590>); an Int32 literal finds an Int64, and an Int64
//! literal does not find an Int32 (<https://github.com/microsoft/AzureStorageExplorer/issues/5346>): the
//! literal is widened, never the property. The rest is assumed to follow the same two rules, and the tests
//! mark it as assumed, including that a Double literal finds no integer. Typed fields of `f64` do not rely on
//! this: they compare integers with separate literals.

use std::cmp::Ordering;

use super::{Comparison, Filter, FilterNode};
use crate::model::{EdmValue, Entity, Key, Properties, Ticks, ValueRef, find, key_order};

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
    pub fn matches_parts(&self, key: &Key, timestamp: Option<Ticks>, properties: &Properties) -> bool {
        let (partition, row) = (key.partition(), key.row());
        self.holds(&RowRef { partition, row, timestamp, packed: properties.as_packed() })
    }

    /// Like [`matches`](Self::matches), on a stored row.
    pub(crate) fn holds(&self, row: &RowRef<'_>) -> bool {
        if self.is_bounded() { self.holds_by_calls(row) } else { self.holds_by_steps(row) }
    }

    fn holds_by_calls(&self, row: &RowRef<'_>) -> bool {
        match self.node() {
            FilterNode::Compare { property, comparison, value } => row.compares(property, *comparison, value),
            FilterNode::And(a, b) => a.holds_by_calls(row) && b.holds_by_calls(row),
            FilterNode::Or(a, b) => a.holds_by_calls(row) || b.holds_by_calls(row),
            FilterNode::Not(inner) => !inner.holds_by_calls(row),
        }
    }

    /// Like [`holds`](Self::holds), for a filter that is too deep for recursion: evaluates every comparison
    /// and combines the results on an explicit stack.
    fn holds_by_steps(&self, row: &RowRef<'_>) -> bool {
        let (mut steps, mut found) = (vec![Step::Evaluate(self)], Vec::new());
        while let Some(step) = steps.pop() {
            let Step::Evaluate(filter) = step else {
                // Every step leaves one result, so the results that an operator takes are always there. Both operands
                // are evaluated, also where one decides: a comparison has no effect that could be noticed.
                let last = found.pop().unwrap_or_default();
                let joined = match step {
                    Step::And => found.pop().unwrap_or_default() && last,
                    Step::Or => found.pop().unwrap_or_default() || last,
                    _ => !last,
                };
                found.push(joined);
                continue;
            };
            match filter.node() {
                FilterNode::Compare { property, comparison, value } => {
                    found.push(row.compares(property, *comparison, value));
                }
                FilterNode::And(a, b) => steps.extend([Step::And, Step::Evaluate(b), Step::Evaluate(a)]),
                FilterNode::Or(a, b) => steps.extend([Step::Or, Step::Evaluate(b), Step::Evaluate(a)]),
                FilterNode::Not(inner) => steps.extend([Step::Not, Step::Evaluate(inner)]),
            }
        }
        found.pop().unwrap_or_default()
    }
}

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
        self.get(property).is_some_and(|found| comparison.holds(order(found, value.as_ref())))
    }

    fn get(&self, name: &str) -> Option<ValueRef<'a>> {
        match name {
            // No property has one of these names: `check_operation` refuses them.
            Filter::PARTITION_KEY => Some(ValueRef::String(self.partition)),
            Filter::ROW_KEY => Some(ValueRef::String(self.row)),
            Filter::TIMESTAMP => self.timestamp.map(ValueRef::DateTime),
            _ => find(self.packed, name)?.value(),
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
