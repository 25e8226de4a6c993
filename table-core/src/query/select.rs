use super::Filter;

/// The properties that a query returns. Keys, ETag and Timestamp are always returned. The name `*` selects all properties, as in the
/// service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Select(Box<[Box<str>]>);

impl Select {
    /// The name that selects all properties.
    const ALL: &'static str = "*";

    /// Creates a projection on these properties, in this order, without duplicates. With the name `*`, it is a projection on all properties.
    ///
    /// ```
    /// use table_core::query::Select;
    /// assert!(Select::new(["*"]).contains("Age"));
    /// assert_eq!(Select::new(["Name", "*"]), Select::new(["*"]));
    /// ```
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut unique: Vec<Box<str>> = Vec::new();
        for name in names {
            if name.as_ref() == Self::ALL {
                return Self([Self::ALL.into()].into());
            }
            if !unique.iter().any(|u| **u == *name.as_ref()) {
                unique.push(name.as_ref().into());
            }
        }
        Self(unique.into())
    }

    /// Whether all properties are selected, by the name `*`.
    pub fn is_all(&self) -> bool {
        self.0.first().is_some_and(|name| **name == *Self::ALL)
    }

    /// Returns the names; `*` for all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|n| &**n)
    }

    /// Whether the property is selected.
    pub fn contains(&self, name: &str) -> bool {
        self.is_all() || self.0.iter().any(|n| **n == *name)
    }

    /// Returns a projection on both sets.
    #[must_use]
    pub fn union<N: AsRef<str>>(&self, more: impl IntoIterator<Item = N>) -> Self {
        let more: Vec<Box<str>> = more.into_iter().map(|n| n.as_ref().into()).collect();
        Self::new(self.0.iter().chain(&more))
    }
}

/// As a list of names.
impl serde::Serialize for Select {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

impl<'de> serde::Deserialize<'de> for Select {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <Vec<String> as serde::Deserialize>::deserialize(deserializer).map(Self::new)
    }
}

/// A query of a table: filter, projection and page size.
///
/// ```
/// use table_core::query::{Filter, Query};
/// let query = Query::new().with_filter(Filter::eq("PartitionKey", "UA")).with_top(10);
/// assert_eq!(query.access_path().to_string(), "partition scan");
/// ```
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Query {
    /// The condition on entities. `None` selects all entities.
    pub filter: Option<Filter>,
    /// The properties to return. `None` selects all properties.
    pub select: Option<Select>,
    /// Maximum number of entities in the page.
    pub top: Option<usize>,
    /// Whether the entities that cannot be read are listed. Otherwise the first of them fails the page.
    #[serde(default)]
    pub lists_unreadable: bool,
}

impl Query {
    /// Creates a query for the whole table.
    pub const fn new() -> Self {
        Self {
            filter: None,
            select: None,
            top: None,
            lists_unreadable: false,
        }
    }

    /// Adds a condition, joined by `and`.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filter = Filter::and_maybe(self.filter.take(), Some(filter));
        self
    }

    /// Sets the properties to return.
    #[must_use]
    pub fn with_select(mut self, select: Select) -> Self {
        self.select = Some(select);
        self
    }

    /// Sets the maximum number of entities in the page.
    #[must_use]
    pub const fn with_top(mut self, top: usize) -> Self {
        self.top = Some(top);
        self
    }

    /// Lists the entities that cannot be read, instead of failing the page. A store that decrypts then asks for the key of each entity, also
    /// for keys that somebody has made up.
    #[must_use]
    pub const fn with_unreadable(mut self) -> Self {
        self.lists_unreadable = true;
        self
    }
}
