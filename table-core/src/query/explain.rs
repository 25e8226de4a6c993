use std::collections::BTreeSet;
use std::fmt;

use super::{AccessPath, Filter, FilterNode, KeyBounds, Plan, Query};
use crate::profile::ServiceProfile;

/// How a query runs on a service, and whether a cheaper query exists. Prints as a few lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The service's access path.
    pub path: AccessPath,
    /// The keys that the service reads.
    pub keys: KeyBounds,
    /// The properties compared in each entity, other than keys.
    pub compares: BTreeSet<String>,
    /// Number of comparisons in the filter.
    pub comparisons: usize,
    /// Maximum number of comparisons that the service accepts; `None` for any number.
    pub limit: Option<usize>,
    /// A cheaper way to the same result.
    pub plan: Option<Plan>,
    /// The declared index that has all results: its name, the part of its key that the query fixes, the lookup to write in place of the query,
    /// its cost in requests, and the conditions that remain for the results. `None` if no index is known to have all results.
    pub index: Option<String>,
}

impl Explanation {
    /// Whether the service accepts the number of comparisons. Otherwise it refuses the query.
    pub fn is_within_limit(&self) -> bool {
        self.limit.is_none_or(|limit| self.comparisons <= limit)
    }
}

impl Query {
    /// Explains how the query runs on a service with this profile. Sends no request.
    ///
    /// ```
    /// use table_core::query::Query;
    /// use table_core::store::ServiceProfile;
    /// let filter = "PartitionKey eq 'Sales' and Age gt 30 and (RowKey eq '1' or RowKey lt '0')".parse()?;
    /// let explanation = Query::new().with_filter(filter).explain(&ServiceProfile::AZURE_TABLES);
    /// assert_eq!(explanation.to_string(), "\
    /// partition scan of PartitionKey 'Sales', RowKey any
    /// compares Age in each entity read
    /// 4 comparisons of 15
    /// cheaper: 2 queries: PartitionKey eq 'Sales' and RowKey lt '0' and Age gt 30; \
    /// PartitionKey eq 'Sales' and RowKey eq '1' and Age gt 30");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn explain(&self, profile: &ServiceProfile) -> Explanation {
        let mut compares = BTreeSet::new();
        if let Some(filter) = &self.filter {
            filter.for_each_property(&mut |name| {
                if ![Filter::PARTITION_KEY, Filter::ROW_KEY].contains(&name) {
                    compares.insert(name.to_owned());
                }
            });
        }
        Explanation {
            path: self.access_path(),
            keys: self.service_bounds(),
            compares,
            comparisons: self.filter.as_ref().map_or(0, Filter::comparisons),
            limit: profile.filter_comparisons,
            plan: self.cheaper_plan(),
            index: None,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.path, self.keys)?;
        if !self.compares.is_empty() {
            let names: Vec<&str> = self.compares.iter().map(String::as_str).collect();
            write!(f, "\ncompares {} in each entity read", names.join(", "))?;
        }
        write!(f, "\n{} comparisons", self.comparisons)?;
        if let Some(limit) = self.limit {
            write!(
                f,
                " of {limit}{}",
                if self.is_within_limit() {
                    ""
                } else {
                    ": too many, refused"
                }
            )?;
        }
        if let Some(plan) = &self.plan {
            write!(f, "\ncheaper: {plan}")?;
        }
        match &self.index {
            Some(index) => write!(f, "\n{index}"),
            None => Ok(()),
        }
    }
}

impl Query {
    /// Returns how the query finds its entities.
    ///
    /// Only conditions that every match must satisfy restrict the keys: those joined by `and`. For an `or` of
    /// keys the service reads the whole partition or table, and this classification says so.
    /// [`bounds`](Self::bounds) may be narrower, which makes a local scan shorter.
    pub fn access_path(&self) -> AccessPath {
        self.service_bounds().access_path()
    }

    /// Returns the keys that the service reads.
    pub(crate) fn service_bounds(&self) -> KeyBounds {
        self.filter.as_ref().map_or(KeyBounds::ALL, keys_by_and)
    }
}

/// Returns the keys that satisfy the conditions that are joined by `and` at the top of a filter.
fn keys_by_and(filter: &Filter) -> KeyBounds {
    match filter.node() {
        _ if !filter.is_bounded() => KeyBounds::ALL,
        FilterNode::And(a, b) => keys_by_and(a).intersect(keys_by_and(b)),
        FilterNode::Compare {
            property,
            comparison,
            value,
        } => KeyBounds::of_comparison(property, *comparison, value, false),
        // The design guide says of `or` that the service does not treat it as a range of keys
        // (<https://learn.microsoft.com/azure/storage/tables/table-storage-design-for-query>). It does not mention
        // `not`: assumed.
        FilterNode::Or(..) | FilterNode::Not(_) => KeyBounds::ALL,
    }
}
