use std::fmt;
use std::ops::Bound;

use super::range::compare_starts;
use super::residual::{Rest, within};
use super::{Filter, FilterNode, KeyBounds, Query, Range};
use crate::limits;
use crate::model::{Key, key_order};

/// Parts of a plan, at most: beyond, a scan is no longer the worst.
const MAX_PARTS: usize = 1000;
/// Parts that advice names.
const SHOWN: usize = 3;

/// Another way to the same answer, along cheaper access paths.
///
/// Its parts exclude each other and are in the order of keys: their answers, one after another, are
/// the query's answer, cut after `top` entities if it has one. They can run at the same time.
///
/// It prints as advice, with the first of its parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Point reads with the query's projection, one request each: the entities that exist are the
    /// answer. None at all if the filter contradicts itself.
    Points(Vec<Key>),
    /// Queries, each with what is left of the filter within its keys: one request or more each.
    Ranges(Vec<Query>),
}

impl Plan {
    /// How many requests it takes at least.
    pub fn requests(&self) -> usize {
        match self {
            Self::Points(keys) => keys.len(),
            Self::Ranges(queries) => queries.len(),
        }
    }

    /// Whether a service that takes so many comparisons takes its queries: ranges that were joined
    /// have a few more than the filter.
    fn is_accepted(&self, comparisons: usize) -> bool {
        match self {
            Self::Points(_) => true,
            Self::Ranges(queries) => {
                queries.iter().flat_map(|q| &q.filter).all(|f| f.comparisons() <= comparisons)
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Points(keys) if keys.is_empty() => f.write_str("no request, as nothing can match"),
            Self::Points(keys) => write_parts(f, ["point read", "point reads"], keys, Key::to_string),
            Self::Ranges(queries) => write_parts(f, ["query", "queries"], queries, |query| {
                query.filter.as_ref().map(ToString::to_string).unwrap_or_default()
            }),
        }
    }
}

fn write_parts<T>(
    f: &mut fmt::Formatter<'_>,
    [one, many]: [&str; 2],
    parts: &[T],
    text: impl FnMut(&T) -> String,
) -> fmt::Result {
    let shown: Vec<String> = parts.iter().take(SHOWN).map(text).collect();
    write!(f, "{} {}: {}", parts.len(), if parts.len() == 1 { one } else { many }, shown.join("; "))?;
    match parts.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => write!(f, "; and {more} more"),
    }
}

impl Query {
    /// A cheaper plan with the same answer, if there is one.
    ///
    /// An `or` of keys makes the service read the whole partition or table; asked for one by one,
    /// they are point reads or ranges. What the filter says beside is kept.
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
        let parts: Vec<_> = parts.iter().map(|part| (part, within(filter, part))).collect();
        let plan = points(&parts).unwrap_or_else(|| Plan::Ranges(self.ranges(&parts)));
        plan.is_accepted(filter.comparisons().max(limits::FILTER_COMPARISONS)).then_some(plan)
    }

    fn ranges(&self, parts: &[(&KeyBounds, Rest)]) -> Vec<Self> {
        let query = |(part, rest): &(&KeyBounds, Rest)| {
            let filter = match rest {
                Rest::Never => return None,
                Rest::Always => part.to_filter(),
                Rest::When(rest) => Filter::and_maybe(part.to_filter(), Some(rest.clone())),
            };
            Some(Self { filter, ..self.clone() })
        };
        parts.iter().filter_map(query).collect()
    }
}

/// The parts as keys, if each is one key and nothing else is asked of it.
fn points(parts: &[(&KeyBounds, Rest)]) -> Option<Plan> {
    let mut keys = Vec::with_capacity(parts.len());
    for (part, rest) in parts {
        let (partition, row) = (part.partition.as_single(), part.row.as_single());
        match rest {
            Rest::Never => {}
            Rest::When(_) => return None,
            // A text that cannot be a key is the key of nothing.
            Rest::Always => keys.extend(Key::new(partition?, row?)),
        }
    }
    Some(Plan::Points(keys))
}

/// Key bounds that cover every match, or what is no match if `negated`; `None` if they are too many.
fn regions(filter: &Filter, negated: bool) -> Option<Vec<KeyBounds>> {
    let both = filter.is_and() != negated;
    match filter.node() {
        _ if !filter.is_bounded() => None,
        FilterNode::Compare { property, comparison, value } => {
            let bounds = KeyBounds::of_comparison(property, *comparison, value, negated);
            Some(if bounds.is_empty() { Vec::new() } else { vec![bounds] })
        }
        FilterNode::Not(inner) => regions(inner, !negated),
        FilterNode::And(a, b) | FilterNode::Or(a, b) if both => {
            cross(&regions(a, negated)?, &regions(b, negated)?)
        }
        FilterNode::And(a, b) | FilterNode::Or(a, b) => union(regions(a, negated)?, regions(b, negated)?),
    }
}

fn cross(a: &[KeyBounds], b: &[KeyBounds]) -> Option<Vec<KeyBounds>> {
    if a.len() * b.len() > MAX_PARTS {
        return None;
    }
    let pairs = a.iter().flat_map(|x| b.iter().map(|y| x.clone().intersect(y.clone())));
    Some(pairs.filter(|bounds| !bounds.is_empty()).collect())
}

fn union(mut a: Vec<KeyBounds>, b: Vec<KeyBounds>) -> Option<Vec<KeyBounds>> {
    a.extend(b);
    if a.contains(&KeyBounds::ALL) {
        return Some(vec![KeyBounds::ALL]);
    }
    (a.len() <= MAX_PARTS).then_some(a)
}

/// Bounds around the same keys that exclude each other, in the order of keys; `None` where
/// partitions overlap without being the same.
fn disjoint(mut parts: Vec<KeyBounds>) -> Option<Vec<KeyBounds>> {
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
            Some(last) if overlap(&last.partition, &part.partition) => return None,
            _ => out.push(part),
        }
    }
    Some(out)
}

fn overlap(a: &Range, b: &Range) -> bool {
    !a.clone().intersect(b.clone()).is_empty()
}

/// Whether nothing lies between the end of a range and the start of a later one.
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
