use std::fmt;
use std::ops::Bound;

use super::range::compare_starts;
use super::{Comparison, Filter, FilterNode, KeyBounds, Query, Range};
use crate::limits;
use crate::model::{EdmValue, Key, key_order};

/// Maximum number of parts in a plan. Each part costs a request, and a scan returns up to 1,000 entities per request: with more parts,
/// a scan is hardly more expensive.
const MAX_PARTS: usize = 1000;
/// Number of parts that the printed plan shows.
const SHOWN_PARTS: usize = 3;

/// Another way to the same result by cheaper access paths.
///
/// Its parts are disjoint and in key order: their concatenated results are the query's result, cut after
/// `top` entities if `top` is set. They can run concurrently.
///
/// It prints as advice that lists its first parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Point reads with the query's projection, one request each. The entities that exist are the result.
    /// Empty if the filter contradicts itself.
    Points(Vec<Key>),
    /// Queries, each with the rest of the filter within its keys. At least one request each.
    Ranges(Vec<Query>),
}

impl Plan {
    /// Returns the minimum number of requests.
    pub fn requests(&self) -> usize {
        match self {
            Self::Points(keys) => keys.len(),
            Self::Ranges(queries) => queries.len(),
        }
    }

    /// Whether a service with this limit of comparisons accepts the plan's queries. Merged ranges have a few
    /// more comparisons than the original filter.
    fn is_accepted(&self, comparisons: usize) -> bool {
        match self {
            Self::Points(_) => true,
            Self::Ranges(queries) => queries
                .iter()
                .flat_map(|q| &q.filter)
                .all(|f| f.comparisons() <= comparisons),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Points(keys) if keys.is_empty() => {
                f.write_str("no request, as nothing can match")
            }
            Self::Points(keys) => {
                write_parts(f, ["point read", "point reads"], keys, Key::to_string)
            }
            Self::Ranges(queries) => write_parts(f, ["query", "queries"], queries, |query| {
                query
                    .filter
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default()
            }),
        }
    }
}

/// Prints the number of parts and the first parts.
fn write_parts<T>(
    f: &mut fmt::Formatter<'_>,
    [one, many]: [&str; 2],
    parts: &[T],
    text: impl FnMut(&T) -> String,
) -> fmt::Result {
    let shown: Vec<String> = parts.iter().take(SHOWN_PARTS).map(text).collect();
    write!(
        f,
        "{} {}: {}",
        parts.len(),
        if parts.len() == 1 { one } else { many },
        shown.join("; ")
    )?;
    match parts.len().saturating_sub(SHOWN_PARTS) {
        0 => Ok(()),
        more => write!(f, "; and {more} more"),
    }
}

impl Query {
    /// Returns a cheaper plan with the same result, if there is one.
    ///
    /// For an `or` of keys the service reads the whole partition or table. The plan reads the keys by point
    /// reads or ranges instead. Other conditions of the filter are kept.
    ///
    /// ```
    /// use table_core::model::Key;
    /// use table_core::query::{Filter, Plan, Query};
    /// let filter = "PartitionKey eq 'Sales' and (RowKey eq '121' or RowKey eq '322')".parse()?;
    /// let plan = Query::new().with_filter(filter).cheaper_plan();
    /// let keys = vec![Key::new("Sales", "121")?, Key::new("Sales", "322")?];
    /// assert_eq!(plan, Some(Plan::Points(keys)));
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn cheaper_plan(&self) -> Option<Plan> {
        let filter = self.filter.as_ref()?;
        let path = self.access_path();
        let parts = disjoint(regions(filter, false)?)?;
        if !parts.iter().all(|part| part.access_path() < path) {
            return None;
        }
        let parts: Vec<_> = parts
            .iter()
            .map(|part| (part, filter.residual(part)))
            .collect();
        let plan = points(&parts).unwrap_or_else(|| Plan::Ranges(self.ranges(&parts)));
        plan.is_accepted(filter.comparisons().max(limits::FILTER_COMPARISONS))
            .then_some(plan)
    }

    /// Returns one query per part.
    fn ranges(&self, parts: &[(&KeyBounds, ResidualFilter)]) -> Vec<Self> {
        let query = |(part, residual): &(&KeyBounds, ResidualFilter)| {
            let filter = match residual {
                ResidualFilter::Never => return None,
                ResidualFilter::Always => part.to_filter(),
                ResidualFilter::When(filter) => {
                    Filter::and_maybe(part.to_filter(), Some(filter.clone()))
                }
            };
            Some(Self {
                filter,
                ..self.clone()
            })
        };
        parts.iter().filter_map(query).collect()
    }
}

/// Returns the parts as keys, if each part is one key without further conditions.
fn points(parts: &[(&KeyBounds, ResidualFilter)]) -> Option<Plan> {
    let mut keys = Vec::with_capacity(parts.len());
    for (part, residual) in parts {
        let (partition, row) = (part.partition.as_single(), part.row.as_single());
        match residual {
            ResidualFilter::Never => {}
            ResidualFilter::When(_) => return None,
            // A text that is not a valid key belongs to no entity, so the error is ignored.
            ResidualFilter::Always => keys.extend(Key::new(partition?, row?)),
        }
    }
    Some(Plan::Points(keys))
}

/// Returns key bounds that cover every match, or every non-match if `negated`; `None` if there would be too
/// many.
fn regions(filter: &Filter, negated: bool) -> Option<Vec<KeyBounds>> {
    // By De Morgan's laws a negated `or` needs both sides, like an `and`.
    let needs_both = filter.is_and() != negated;
    match filter.node() {
        _ if !filter.is_bounded() => None,
        FilterNode::Compare {
            property,
            comparison,
            value,
        } => {
            let bounds = KeyBounds::of_comparison(property, *comparison, value, negated);
            Some(if bounds.is_empty() {
                Vec::new()
            } else {
                vec![bounds]
            })
        }
        FilterNode::Not(inner) => regions(inner, !negated),
        FilterNode::And(a, b) | FilterNode::Or(a, b) if needs_both => {
            cross(&regions(a, negated)?, &regions(b, negated)?)
        }
        FilterNode::And(a, b) | FilterNode::Or(a, b) => {
            union(regions(a, negated)?, regions(b, negated)?)
        }
    }
}

/// Returns the intersections of each bounds in `a` with each bounds in `b`; `None` if there are too many.
fn cross(a: &[KeyBounds], b: &[KeyBounds]) -> Option<Vec<KeyBounds>> {
    // Checked before the pairs are built: a filter with n `or` of keys joined by `and` has exponentially many.
    if a.len() * b.len() > MAX_PARTS {
        return None;
    }
    let pairs = a
        .iter()
        .flat_map(|x| b.iter().map(|y| x.clone().intersect(y.clone())));
    Some(pairs.filter(|bounds| !bounds.is_empty()).collect())
}

/// Returns the bounds of both lists; `None` if there are too many.
fn union(mut a: Vec<KeyBounds>, b: Vec<KeyBounds>) -> Option<Vec<KeyBounds>> {
    a.extend(b);
    if a.contains(&KeyBounds::ALL) {
        return Some(vec![KeyBounds::ALL]);
    }
    (a.len() <= MAX_PARTS).then_some(a)
}

/// Returns disjoint bounds of the same keys in key order; `None` if two ranges of partitions overlap and differ.
fn disjoint(mut parts: Vec<KeyBounds>) -> Option<Vec<KeyBounds>> {
    // In this order a part can overlap only the last part kept: all others end before that one starts.
    parts.sort_by(|a, b| {
        compare_starts(&a.partition.from, &b.partition.from)
            .then_with(|| compare_starts(&a.row.from, &b.row.from))
    });
    let mut out: Vec<KeyBounds> = Vec::with_capacity(parts.len());
    for part in parts {
        match out.last_mut() {
            Some(last) if last.partition == part.partition => {
                if part.partition.as_single().is_none() {
                    // Several partitions are read one after another, each with all of its rows.
                    last.row = Range::ALL;
                } else if reaches(&last.row.to, &part.row.from) {
                    last.row = last.row.clone().hull(part.row);
                } else {
                    out.push(part);
                }
            }
            // To become disjoint, the two would be cut into three ranges with different rows. A filter that needs
            // this is rare, and a scan answers it too.
            Some(last) if overlap(&last.partition, &part.partition) => return None,
            _ => out.push(part),
        }
    }
    Some(out)
}

/// Whether a text may be in both ranges.
fn overlap(a: &Range, b: &Range) -> bool {
    !a.clone().intersect(b.clone()).is_empty()
}

/// Whether nothing lies between the end of a range and the start of a later range.
fn reaches(end: &Bound<String>, start: &Bound<String>) -> bool {
    use Bound::*;
    match (end, start) {
        (Unbounded, _) | (_, Unbounded) => true,
        (Excluded(end), Excluded(start)) => key_order::compare(end, start).is_gt(),
        (Included(end) | Excluded(end), Included(start) | Excluded(start)) => {
            key_order::compare(end, start).is_ge()
        }
    }
}

/// The part of a filter that must still be evaluated for entities whose keys are within bounds.
pub(crate) enum ResidualFilter {
    /// Every entity with such a key matches.
    Always,
    /// No entity with such a key matches.
    Never,
    /// The entities that match this filter too match.
    When(Filter),
}

impl Filter {
    /// Returns the part of the filter that must be evaluated for entities whose keys are within the bounds.
    pub(crate) fn residual(&self, bounds: &KeyBounds) -> ResidualFilter {
        match self.node() {
            // Too deep for recursion. Evaluating all of it for each row is right too, and only slower.
            _ if !self.is_bounded() => ResidualFilter::When(self.clone()),
            FilterNode::Compare {
                property,
                comparison,
                value,
            } => {
                let result = match &**property {
                    Filter::PARTITION_KEY => common_result(&bounds.partition, *comparison, value),
                    Filter::ROW_KEY => common_result(&bounds.row, *comparison, value),
                    _ => None,
                };
                result.map_or_else(
                    || ResidualFilter::When(self.clone()),
                    ResidualFilter::constant,
                )
            }
            FilterNode::And(a, b) => a.residual(bounds).and(|| b.residual(bounds)),
            FilterNode::Or(a, b) => a.residual(bounds).or(|| b.residual(bounds)),
            FilterNode::Not(inner) => inner.residual(bounds).not(),
        }
    }
}

impl ResidualFilter {
    const fn constant(holds: bool) -> Self {
        if holds { Self::Always } else { Self::Never }
    }

    fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Never => Self::Never,
            Self::Always => other(),
            Self::When(a) => match other() {
                Self::When(b) => Self::When(a.and(b)),
                Self::Always => Self::When(a),
                Self::Never => Self::Never,
            },
        }
    }

    fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Always => Self::Always,
            Self::Never => other(),
            Self::When(a) => match other() {
                Self::When(b) => Self::When(a.or(b)),
                Self::Never => Self::When(a),
                Self::Always => Self::Always,
            },
        }
    }

    fn not(self) -> Self {
        match self {
            Self::Always => Self::Never,
            Self::Never => Self::Always,
            // Within `When` are comparisons of properties too. The negation of the filter as a whole keeps their rule for absent
            // properties.
            Self::When(filter) => Self::When(!filter),
        }
    }
}

/// Whether a comparison holds for every key of the range or for none; `None` if it depends on the key.
fn common_result(range: &Range, comparison: Comparison, value: &EdmValue) -> Option<bool> {
    // Keys are text. A comparison with another type has one result for every key.
    let EdmValue::String(text) = value else {
        return Some(comparison.holds(None));
    };
    if let Some(key) = range.as_single() {
        return Some(comparison.holds(Some(key_order::compare(key, text))));
    }
    let overlaps = |comparison| {
        !range
            .clone()
            .intersect(Range::of_text(comparison, text))
            .is_empty()
    };
    // An empty overlap may not be recognized as empty. The result is then `None`, and the comparison is evaluated for
    // each row, which is always right.
    match (overlaps(comparison), overlaps(comparison.negated())) {
        (false, _) => Some(false),
        (_, false) => Some(true),
        _ => None,
    }
}
