use super::Filter;

/// The properties a query returns. Keys, ETag and timestamp always come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Select(Box<[Box<str>]>);

impl Select {
    /// A projection on these properties, in this order, without repetition.
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut unique: Vec<Box<str>> = Vec::new();
        for name in names {
            if !unique.iter().any(|u| **u == *name.as_ref()) {
                unique.push(name.as_ref().into());
            }
        }
        Self(unique.into())
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|n| &**n)
    }

    /// Whether the property is asked for.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|n| **n == *name)
    }

    /// A projection on both sets.
    #[must_use]
    pub fn union<N: AsRef<str>>(&self, more: impl IntoIterator<Item = N>) -> Self {
        let more: Vec<Box<str>> = more.into_iter().map(|n| n.as_ref().into()).collect();
        Self::new(self.0.iter().chain(&more))
    }
}

/// What to read from a table.
///
/// ```
/// use table_core::query::{Filter, Query};
/// let query = Query::new().with_filter(Filter::eq("PartitionKey", "UA")).with_top(10);
/// assert_eq!(query.access_path().to_string(), "partition scan");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Which entities; all without a filter.
    pub filter: Option<Filter>,
    /// Which properties; all without a projection.
    pub select: Option<Select>,
    /// At most this many entities in the page.
    pub top: Option<usize>,
}

impl Query {
    /// Everything in the table.
    pub const fn new() -> Self {
        Self { filter: None, select: None, top: None }
    }

    /// Adds a condition to those there are.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filter = Filter::and_maybe(self.filter.take(), Some(filter));
        self
    }

    /// Returns only these properties.
    #[must_use]
    pub fn with_select(mut self, select: Select) -> Self {
        self.select = Some(select);
        self
    }

    /// Returns at most this many entities.
    #[must_use]
    pub const fn with_top(mut self, top: usize) -> Self {
        self.top = Some(top);
        self
    }
}
