use super::{Comparison, Filter, FilterNode, KeyBounds, Range};
use crate::model::{EdmValue, key_order};

/// The part of a filter that must still be evaluated for entities whose keys are within bounds.
pub(super) enum ResidualFilter {
    Always,
    Never,
    When(Filter),
}

impl Filter {
    /// Returns the part of the filter to evaluate for entities whose keys are within the bounds, or an error
    /// if none of them can match.
    pub(crate) fn within(&self, bounds: &KeyBounds) -> Result<Option<Self>, ()> {
        match within(self, bounds) {
            ResidualFilter::Always => Ok(None),
            ResidualFilter::When(filter) => Ok(Some(filter)),
            ResidualFilter::Never => Err(()),
        }
    }
}

/// Returns the rest of a filter within bounds.
pub(super) fn within(filter: &Filter, part: &KeyBounds) -> ResidualFilter {
    match filter.node() {
        // Too deep for recursion. Evaluating all of it for each row is right too, and only slower.
        _ if !filter.is_bounded() => ResidualFilter::When(filter.clone()),
        FilterNode::Compare { property, comparison, value } => {
            let known = match &**property {
                Filter::PARTITION_KEY => known(&part.partition, *comparison, value),
                Filter::ROW_KEY => known(&part.row, *comparison, value),
                _ => None,
            };
            known.map_or_else(|| ResidualFilter::When(filter.clone()), ResidualFilter::of)
        }
        FilterNode::And(a, b) => within(a, part).and(|| within(b, part)),
        FilterNode::Or(a, b) => within(a, part).or(|| within(b, part)),
        FilterNode::Not(inner) => within(inner, part).not(),
    }
}

impl ResidualFilter {
    const fn of(holds: bool) -> Self {
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
fn known(range: &Range, comparison: Comparison, value: &EdmValue) -> Option<bool> {
    // Keys are text. A comparison with another type has one result for every key.
    let EdmValue::String(text) = value else { return Some(comparison.holds(None)) };
    if let Some(key) = range.as_single() {
        return Some(comparison.holds(Some(key_order::compare(key, text))));
    }
    let overlaps = |comparison| !range.clone().intersect(Range::of_text(comparison, text)).is_empty();
    // An empty overlap may not be recognized as empty. The result is then `None`, and the comparison is evaluated for
    // each row, which is always right.
    match (overlaps(comparison), overlaps(comparison.negated())) {
        (false, _) => Some(false),
        (_, false) => Some(true),
        _ => None,
    }
}
