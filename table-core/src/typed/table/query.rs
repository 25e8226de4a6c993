use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::handle::ExtraRows;
use super::keys::end_of;
use super::{PartitionIn, PlainTable, RowBounds, WritePath};
use crate::manifest::KnownType;
use crate::model::{EdmValue, Entity, INDEX_NAME, TableName};
use crate::query::{
    AccessPath, Comparison, Explanation, Filter, FilterNode, KeyBounds, Query, Range, Select,
};
use crate::store::{Error, KeyOrder, Result, RowFilter, TableStore};
use crate::typed::{FromEntity, IntoCondition, PartitionPrefix, Schema};

/// A query of a table of `T` that returns `R`. `query` of the table creates it. Add conditions and options, then run it; it can
/// be run several times.
///
/// If a value in a condition cannot be encoded, running the query fails. A query does not return system rows
/// ([`Key::is_system`](crate::model::Key::is_system)) and index entries ([`Entity::is_index_entry`]), unless
/// [`with_system_rows`](Self::with_system_rows) or [`with_index_entries`](Self::with_index_entries) is set.
///
/// ```
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, PartitionKey};
/// use table_core::query::AccessPath;
/// use table_core::typed::{RowPrefix, PlainTable};
/// # fn main() -> table_core::Result<()> {
/// let employees = PlainTable::<Entity>::new(MemoryStore::new(), "Employees")?;
/// let query = employees.query().partition(PartitionKey::new("Sales")?).rows(RowPrefix::escaped("empid_"));
/// assert_eq!(query.access_path()?, AccessPath::RowRange);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
/// 1 request per page. A page has at most 1,000 entities on Azure Table Storage, and fewer if the service reads many
/// entities that do not match. [`access_path`](Self::access_path) says which entities the service has to read.
#[must_use = "a query does nothing until it is run"]
pub struct TableQuery<T, R = T> {
    pub(super) table: PlainTable<T>,
    pub(super) options: Options,
    conditions: Result<Conditions>,
    select: Option<Select>,
    /// The write path of set operations; `None` for the write path of the table.
    pub(super) writer: Option<Arc<WritePath>>,
    of: PhantomData<fn() -> R>,
}

/// The options of a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) limit: Option<usize>,
    pub(super) page_size: Option<usize>,
    pub(super) order: Order,
    pub(super) prefetch: bool,
    pub(super) cheaper_plan: bool,
    pub(super) extra_rows: ExtraRows,
}

/// The required order of the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// The order of the store. A query with a limit fails on a store that does not sort.
    #[default]
    Store,
    /// Any order.
    Any,
    /// By key; fails on a store that does not sort.
    ByKey,
    /// By key; on a store that does not sort, the client reads and sorts all results.
    SortedOnClient,
}

impl<T: FromEntity> TableQuery<T> {
    pub(super) fn new(table: PlainTable<T>) -> Self {
        let select = table.shared().select.clone();
        let conditions = Ok(Conditions::NONE);
        let options = Options {
            extra_rows: table.shared().extra_rows,
            ..Options::default()
        };
        Self {
            table,
            options,
            conditions,
            select,
            writer: None,
            of: PhantomData,
        }
    }
}

/// Conditions.
impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// Restricts the query to one partition.
    pub fn partition(self, partition: impl PartitionIn<T>) -> Self {
        let range = Range::single(partition.partition_key().as_str());
        self.and(|conditions| conditions.partitions(range))
    }

    /// Restricts the query to a range of partitions, in the service's order: by UTF-16 code unit.
    pub fn partition_range<P: PartitionIn<T>>(self, partitions: impl RangeBounds<P>) -> Self {
        let text = |bound: Bound<&P>| bound.map(|p| p.partition_key().as_str().to_owned());
        let range = Range {
            from: text(partitions.start_bound()),
            to: text(partitions.end_bound()),
        };
        self.and(|conditions| conditions.partitions(range))
    }

    /// Restricts the query to partitions whose keys start with a prefix. `T::partition_prefix()` builds one from values.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::typed::{PartitionPrefix, PlainTable, TableEntity};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(partition_key = "{tenant}_{region}", row_key = "{id}")]
    /// # struct Order { tenant: String, region: String, id: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let orders = PlainTable::<Order>::new(MemoryStore::new(), "Orders")?;
    /// # orders.create_if_missing().await?;
    /// # for tenant in ["a/b", "a"] { orders.insert(&Order { tenant: tenant.into(), region: "north".into(), id: 1 }).await?; }
    /// // The `/` is stored as `~2F`.
    /// assert_eq!(orders.query().partition_prefix(Order::partition_prefix().tenant("a/b")).count().await?, 1);
    /// assert_eq!(orders.query().partition_prefix(Order::partition_prefix().tenant_starting("a")).count().await?, 2);
    /// assert_eq!(orders.query().partition_prefix(PartitionPrefix::escaped("a~2Fb_")).count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn partition_prefix(self, prefix: impl Into<PartitionPrefix<T>>) -> Self {
        self.try_and(|conditions| {
            let text = prefix.into().into_text()?;
            let to = end_of(&text);
            conditions.partitions(Range {
                from: Bound::Included(text),
                to,
            });
            Ok(())
        })
    }

    /// Restricts the query to a range of RowKeys: a [`RowPrefix`](crate::typed::RowPrefix), or a Rust range of prefixes.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (employees, ken) = (employees().await?, ken());
    /// # employees.insert(&ken).await?;
    /// use table_core::query::AccessPath;
    /// let sales = employees.query().partition(Employee::partition("Sales")?);
    /// let hundreds = sales.clone().rows(Employee::row_prefix().id(100)..Employee::row_prefix().id(300));
    /// assert_eq!(hundreds.access_path()?, AccessPath::RowRange);
    /// assert_eq!(hundreds.count().await?, 1);
    /// assert_eq!(sales.rows(Employee::row_prefix()).count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rows(self, rows: impl RowBounds<T>) -> Self {
        self.try_and(|conditions| rows.into_range().map(|range| conditions.rows(range)))
    }

    /// Restricts the query to entities that match. The service still reads the other entities, so a filter saves
    /// traffic but not time at the service.
    pub fn filter(self, condition: impl IntoCondition<T>) -> Self {
        self.try_and(|conditions| {
            condition
                .into_condition()
                .into_filter()
                .map(|filter| conditions.filter(filter))
        })
    }

    /// Restricts the query to entities that match a filter, which names properties by text. Running the query fails if
    /// the filter compares a property that `T` or `R` encrypts: the service would compare ciphertext.
    pub fn raw_filter(self, filter: Filter) -> Self {
        self.and(|conditions| conditions.filter(filter))
    }

    fn and(self, narrow: impl FnOnce(&mut Conditions)) -> Self {
        self.try_and(|conditions| {
            narrow(conditions);
            Ok(())
        })
    }

    /// Keeps the first error.
    fn try_and(mut self, narrow: impl FnOnce(&mut Conditions) -> Result<()>) -> Self {
        self.conditions = self.conditions.and_then(|mut conditions| {
            narrow(&mut conditions)?;
            Ok(conditions)
        });
        self
    }
}

/// Options.
impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// Makes the query return another type `P`. The service sends only its properties. The entities must be both a `T`
    /// and a `P`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (employees, ken) = (employees().await?, ken());
    /// # employees.insert(&ken).await?;
    /// #[derive(TableEntity)]
    /// #[entity(projection_of = Employee, rename_all = "PascalCase")]
    /// struct Name {
    ///     name: String,
    /// }
    /// let names = employees.query().project::<Name>().all().await?;
    /// assert_eq!(names[0].name, "Ken");
    /// # Ok(())
    /// # }
    /// ```
    pub fn project<P: FromEntity>(self) -> TableQuery<T, P> {
        let Self {
            table,
            options,
            conditions,
            ..
        } = self;
        TableQuery {
            table,
            options,
            conditions,
            select: P::select(),
            writer: None,
            of: PhantomData,
        }
    }

    /// Limits the number of results: the query returns the first entities by key. For a [`page`](Self::page) it limits
    /// the page; the continuation leads to further results.
    ///
    /// On a store that does not sort, such as Cosmos DB for Table, running the query fails without a request, unless
    /// [`sorted_on_client`](Self::sorted_on_client) or [`in_any_order`](Self::in_any_order) is set, or the query has both
    /// keys of one entity.
    pub fn limit(mut self, limit: usize) -> Self {
        self.options.limit = Some(limit);
        self
    }

    /// Lowers the [`limit`](Self::limit) to this number, if it is higher or not set.
    pub fn limit_to(self, limit: usize) -> Self {
        let limit = self
            .options
            .limit
            .map_or(limit, |earlier| earlier.min(limit));
        self.limit(limit)
    }

    /// Sets the maximum number of entities in a page. The service may return fewer.
    pub fn page_size(mut self, entities: usize) -> Self {
        self.options.page_size = Some(entities);
        self
    }

    /// Makes [`stream`](Self::stream) read one page ahead while a page is consumed.
    ///
    /// If the consumer stops early, the request for the next page was unnecessary. A [`limit`](Self::limit) prevents
    /// requests beyond the last result.
    pub fn prefetch(mut self) -> Self {
        self.options.prefetch = true;
        self
    }

    /// Requires results in key order. On a store that does not sort, such as Cosmos DB for Table, running the query fails
    /// without a request.
    pub fn require_order(mut self) -> Self {
        self.options.order = Order::ByKey;
        self
    }

    /// Accepts results in any order. On a store that does not sort, a [`limit`](Self::limit) then returns any entities
    /// that match.
    pub fn in_any_order(mut self) -> Self {
        self.options.order = Order::Any;
        self
    }

    /// Returns results in key order from every store.
    ///
    /// On a store that does not sort, the client first reads *all* entities that match into memory, whatever the
    /// [`limit`](Self::limit) is. On a store that sorts, the option has no effect.
    pub fn sorted_on_client(mut self) -> Self {
        self.options.order = Order::SortedOnClient;
        self
    }

    /// Makes the query return index entries too, of all indexes.
    ///
    /// For a type with a discriminator the service selects the type, and entries do not have the discriminator. For
    /// a type without one ([`Entity`], a resolver's `other`), the service sends entries and the client removes them:
    /// pages then have fewer entities, or none. A projection then also reads the property
    /// [`INDEX_NAME`](crate::model::INDEX_NAME). A [`raw_filter`](Self::raw_filter) that compares this property
    /// also makes the query return entries.
    pub const fn with_index_entries(mut self) -> Self {
        self.options.extra_rows.index_entries = true;
        self
    }

    /// Makes the query return system rows too: the rows that patterns use internally, such as the table's manifest and
    /// journal rows. See [`Key::is_system`](crate::model::Key::is_system).
    pub const fn with_system_rows(mut self) -> Self {
        self.options.extra_rows.system_rows = true;
        self
    }

    /// Makes the query return hidden entities too: those that have expired (`#[expires]`), and those that were deleted and are kept
    /// (`#[deleted_at]`), until a sweep removes them. By default the client removes them from each page, so that pages may have fewer
    /// entities, or none; a projection then also reads the properties with the times. What a query hides is decided by the time at which it
    /// starts: [`StoreContext::now`](crate::store::StoreContext::now).
    ///
    /// To have the service filter, add a condition: `.filter(Session::EXPIRES.gt(now))`. It leaves out entities without the property.
    pub const fn with_hidden(mut self) -> Self {
        self.options.extra_rows.hidden = true;
        self
    }

    /// Uses a cheaper [`Plan`](crate::query::Plan) with the same results, if there is one. An `or` of keys becomes one
    /// point read per key, with at most as many requests in flight as the table's `with_concurrency`. An `or` of key ranges becomes
    /// one query per range, one after another.
    ///
    /// [`explain`](Self::explain) shows the plan. [`page`](Self::page) does not support it.
    pub fn use_cheaper_plan(mut self) -> Self {
        self.options.cheaper_plan = true;
        self
    }
}

impl<T: FromEntity> TableQuery<T, Entity> {
    /// Makes the service send only these properties, in addition to keys, ETag and timestamp. Give names, or fields of one
    /// type. [`project`](Self::project) reads properties into a struct instead.
    pub fn select<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.select = Some(Select::new(names));
        self
    }
}

/// Cost.
impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// Returns how the store finds the entities. Sends no request.
    ///
    /// # Errors
    /// Fails if a key part or a compared value cannot be encoded, or if the filter compares an encrypted property.
    pub fn access_path(&self) -> Result<AccessPath> {
        self.to_query().map(|query| query.access_path())
    }

    /// Returns how the query will run, and a cheaper plan if there is one. Also names the declared index of `T` that has all results, if there is
    /// one, with the lookup and its cost; the table refuses the lookup until the index is readable. Sends no request.
    ///
    /// # Errors
    /// Returns the errors of [`access_path`](Self::access_path).
    pub fn explain(&self) -> Result<Explanation> {
        let query = self.to_query()?;
        let mut explanation = query.explain(self.table.store().profile());
        if !self.returns_what_lookups_do() {
            return Ok(explanation);
        }
        let (required, select) = (T::requirements(), R::select());
        let times = if self.options.extra_rows.hidden {
            Vec::new()
        } else {
            required.times()
        };
        let versions = [Schema::VERSION_PROPERTY, Schema::READER_PROPERTY];
        let wanted = Query {
            // A lookup knows these properties of every entry.
            select: select.map(|select| {
                Select::new(
                    select
                        .names()
                        .filter(|name| !versions.contains(name))
                        .chain(times),
                )
            }),
            top: self.first_in_order(),
            ..query
        };
        for schema in &required.schemas {
            let known = KnownType {
                rust_name: schema.rust_name,
                version: schema.version,
                required: schema.required_in_rows(),
            };
            explanation = explanation.with_indexes(&wanted, schema.indexes, Some(&known));
        }
        Ok(explanation)
    }

    /// Whether the query returns the same kinds of rows as a lookup of the table: no index entries and no system rows.
    fn returns_what_lookups_do(&self) -> bool {
        let (extra, of_table) = (
            self.options.extra_rows,
            self.table.shared().extra_rows.hidden,
        );
        let names_entries =
            matches!(&self.conditions, Ok(conditions) if conditions.compares(INDEX_NAME));
        !(extra.index_entries || extra.system_rows || names_entries) && extra.hidden == of_table
    }

    /// Returns the limit if the order of the keys decides which entities are results or where they are.
    fn first_in_order(&self) -> Option<usize> {
        match self.options.order {
            Order::Any => None,
            Order::Store => self.options.limit,
            Order::ByKey | Order::SortedOnClient => self.options.limit.or(Some(usize::MAX)),
        }
    }

    /// Returns the store and the table that the query reads.
    pub fn target(&self) -> (&Arc<dyn TableStore>, &TableName) {
        (self.table.store(), self.table.name())
    }

    /// Returns the query that is sent to the store, with the conditions that select the types, and without `top`. Sends no
    /// request.
    ///
    /// # Errors
    /// Returns the errors of [`access_path`](Self::access_path).
    pub fn to_query(&self) -> Result<Query> {
        let mut conditions = self.conditions.clone()?;
        let (of_table, of_result) = (self.table.shared().type_filter.clone(), R::type_filter());
        // The same condition twice would count twice in the limit of comparisons.
        let of_result = of_result.filter(|filter| of_table.as_ref() != Some(filter));
        of_table
            .into_iter()
            .chain(of_result)
            .for_each(|filter| conditions.of_type(filter));
        let filter = conditions.into_filter();
        filter.iter().try_for_each(|filter| {
            self.check_in_rows(filter)?;
            self.check_comparable(filter)
        })?;
        let row_filter = self.row_filter();
        let select = self.select.as_ref().map(|select| row_filter.select(select));
        Ok(Query {
            filter,
            select,
            top: None,
            ..Query::new()
        })
    }

    /// Returns the rows to remove from the results.
    pub(super) fn row_filter(&self) -> RowFilter {
        let mut extra_rows = self.options.extra_rows;
        if let Ok(conditions) = &self.conditions {
            // A filter that names this property asks for entries; to remove them would always give an empty result.
            extra_rows.index_entries |= conditions.compares(INDEX_NAME);
        }
        self.table
            .shared()
            .row_filter::<R>(extra_rows, self.select.as_ref())
    }

    /// Refuses a filter that compares an encrypted property.
    fn check_comparable(&self, filter: &Filter) -> Result<()> {
        let (of_table, of_result) = (T::requirements().encrypted, R::requirements().encrypted);
        let mut refused = None;
        filter.for_each_property(&mut |name| {
            refused = refused
                .or(Some(name).filter(|name| of_table.contains(name) || of_result.contains(name)));
        });
        refused.map_or(Ok(()), |name| {
            Err(Error::invalid_argument(format!(
                "the filter compares the property '{name}' of '{}', which is encrypted: look the value up in a blind index",
                self.table.name()
            )))
        })
    }

    /// Whether the limit may leave out results, so that their order matters.
    fn may_be_cut(&self, query: &Query) -> bool {
        // Without an order, the first results are any results. A point query has one result at most, so its order is
        // known.
        self.options.limit.is_some_and(|limit| limit > 0)
            && query.access_path() != AccessPath::Point
    }

    pub(super) fn check(&self, query: &Query) -> Result<()> {
        if self.options.page_size == Some(0) {
            return Err(Error::invalid_argument(
                "the page size is 0; it must be at least 1",
            ));
        }
        let profile = self.table.store().profile();
        let needs_order = match self.options.order {
            Order::Store => self.may_be_cut(query),
            Order::ByKey => true,
            Order::Any | Order::SortedOnClient => false,
        };
        if needs_order && profile.order == KeyOrder::Unsorted {
            let requirement = "results in key order, which a limit needs; `sorted_on_client` reads and sorts all results, \
                `in_any_order` accepts any results";
            return Err(Error::unsupported(profile.name, requirement));
        }
        Ok(())
    }
}

impl<T, R> Clone for TableQuery<T, R> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            options: self.options.clone(),
            conditions: self.conditions.clone(),
            select: self.select.clone(),
            writer: self.writer.clone(),
            of: PhantomData,
        }
    }
}

impl<T, R> fmt::Debug for TableQuery<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableQuery")
            .field("table", self.table.name())
            .field("conditions", &self.conditions)
            .field("select", &self.select)
            .field("options", &self.options)
            .finish()
    }
}

/// The conditions of a query: bounds of the keys, and a filter for everything else.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    keys: KeyBounds,
    filter: Option<Filter>,
}

impl Conditions {
    pub(super) const NONE: Self = Self {
        keys: KeyBounds::ALL,
        filter: None,
    };

    pub(super) fn partitions(&mut self, partition: Range) {
        self.within(KeyBounds {
            partition,
            row: Range::ALL,
        });
    }

    pub(super) fn rows(&mut self, row: Range) {
        self.within(KeyBounds {
            partition: Range::ALL,
            row,
        });
    }

    pub(super) fn filter(&mut self, filter: Filter) {
        self.filter = Filter::and_maybe(self.filter.take(), Some(filter));
    }

    /// Adds the condition that selects a type. Comparisons of keys go into the key bounds, so that a query that is already
    /// within these bounds needs no further comparisons.
    pub(super) fn of_type(&mut self, filter: Filter) {
        match filter.node() {
            // The filter of a type by a prefix is two comparisons of a key. As bounds, they narrow the bounds of the
            // query, and one comparison of each end is sent instead of two.
            FilterNode::And(a, b) if filter.is_bounded() => {
                self.of_type(a.clone());
                self.of_type(b.clone());
            }
            FilterNode::Compare {
                property,
                comparison,
                value,
            } if is_key_range(property, *comparison, value) => {
                self.within(KeyBounds::of_comparison(
                    property,
                    *comparison,
                    value,
                    false,
                ));
            }
            _ => self.filter(filter),
        }
    }

    /// Whether the filter compares a property.
    pub(super) fn compares(&self, property: &str) -> bool {
        let mut found = false;
        if let Some(filter) = &self.filter {
            filter.for_each_property(&mut |name| found |= name == property);
        }
        found
    }

    pub(super) fn into_filter(self) -> Option<Filter> {
        Filter::and_maybe(self.keys.to_filter(), self.filter)
    }

    fn within(&mut self, bounds: KeyBounds) {
        self.keys = std::mem::replace(&mut self.keys, KeyBounds::ALL).intersect(bounds);
    }
}

/// Whether a comparison means the same as a range of keys.
fn is_key_range(property: &str, comparison: Comparison, value: &EdmValue) -> bool {
    matches!(property, Filter::PARTITION_KEY | Filter::ROW_KEY)
        && comparison != Comparison::NotEqual
        && matches!(value, EdmValue::String(_))
}
