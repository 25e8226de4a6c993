use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use super::conditions::Conditions;
use super::handle::Shown;
use super::row_bounds::end_of;
use super::{PartitionIn, RowBounds, Table};
use crate::model::{Entity, INDEX_NAME};
use crate::query::{AccessPath, Explanation, Filter, Query, Range, Select};
use crate::store::{Error, Hidden, KeyOrder, Result};
use crate::typed::{Condition, FromEntity};

/// A query on a table of `T` that returns `R`: made by [`Table::query`], narrowed down, then run.
///
/// What cannot be encoded is reported when the query is run. A query can be run more than once. The
/// rows that patterns keep for themselves ([`Key::is_system`](crate::model::Key::is_system)) and the entries of indexes
/// ([`Entity::is_index_entry`]) are not returned: see [`with_index_entries`](Self::with_index_entries).
///
/// ```
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, PartitionKey};
/// use table_core::query::AccessPath;
/// use table_core::typed::{RowPrefix, Table};
/// # fn main() -> table_core::Result<()> {
/// let employees = Table::<Entity>::new(MemoryStore::new(), "Employees")?;
/// let query = employees.query().partition(PartitionKey::new("Sales")?).rows(RowPrefix::new("empid_"));
/// assert_eq!(query.access_path()?, AccessPath::RowRange);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
/// One request a page, of at most 1000 entities on Azure Table Storage; fewer where the service has
/// to read much to find a match. See [`access_path`](Self::access_path) for what it has to read.
///
/// # Cancellation
/// Dropping a running query leaves nothing behind.
#[must_use = "a query does nothing until it is run"]
pub struct TableQuery<T, R = T> {
    pub(super) table: Table<T>,
    pub(super) options: Options,
    conditions: Result<Conditions>,
    select: Option<Select>,
    of: PhantomData<fn() -> R>,
}

/// How a query is run.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) limit: Option<usize>,
    pub(super) page_size: Option<usize>,
    pub(super) order: Order,
    pub(super) prefetch: bool,
    pub(super) cheaper_plan: bool,
    pub(super) shown: Shown,
}

/// What is asked of the order of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// The store's, which must be that of keys where the results are cut.
    #[default]
    Given,
    /// Any.
    Any,
    /// By key, or an error.
    Required,
    /// By key, at the price of reading everything.
    OnClient,
}

impl<T: FromEntity> TableQuery<T> {
    pub(super) fn new(table: Table<T>) -> Self {
        let select = table.shared().select.clone();
        let conditions = Ok(Conditions::NONE);
        let options = Options { shown: table.shared().shown, ..Options::default() };
        Self { table, options, conditions, select, of: PhantomData }
    }
}

/// Which entities.
impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// Only those in this partition.
    pub fn partition(self, partition: impl PartitionIn<T>) -> Self {
        let range = Range::single(partition.partition_key().as_str());
        self.and(|conditions| conditions.partitions(range))
    }

    /// Only those in a range of partitions, in the service's order: by UTF-16 code unit.
    pub fn partition_range<P: PartitionIn<T>>(self, partitions: impl RangeBounds<P>) -> Self {
        let text = |bound: Bound<&P>| bound.map(|p| p.partition_key().as_str().to_owned());
        let range = Range { from: text(partitions.start_bound()), to: text(partitions.end_bound()) };
        self.and(|conditions| conditions.partitions(range))
    }

    /// Only those in partitions that start with this text.
    pub fn partition_prefix(self, prefix: &str) -> Self {
        let range = Range { from: Bound::Included(prefix.to_owned()), to: end_of(prefix) };
        self.and(|conditions| conditions.partitions(range))
    }

    /// Only those with these row keys: under a [`RowPrefix`](crate::typed::RowPrefix), or in a range of
    /// them.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::ETag;
    /// # use table_core::typed::{Table, TableEntity};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(rename_all = "PascalCase")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     name: String,
    /// #     age: Option<i32>,
    /// #     #[etag] etag: Option<ETag>,
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// # let ken = Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None };
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

    /// Only those that match. The service reads the others too: a filter saves traffic, not work.
    pub fn filter(self, condition: Condition<T>) -> Self {
        self.try_and(|conditions| condition.into_filter().map(|filter| conditions.filter(filter)))
    }

    /// Only those that match a filter on names. One that compares a property which `T` or the result has encrypted
    /// is refused when the query is run: the service would compare ciphertext.
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

/// What is returned, how much, and in which order.
impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// Returns another type: only the properties that it needs are sent.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::ETag;
    /// # use table_core::typed::{Table, TableEntity};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(rename_all = "PascalCase")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     name: String,
    /// #     age: Option<i32>,
    /// #     #[etag] etag: Option<ETag>,
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// # let ken = Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None };
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
    ///
    /// The entities must be both a `T` and a `P`.
    pub fn project<P: FromEntity>(self) -> TableQuery<T, P> {
        let Self { table, options, conditions, .. } = self;
        TableQuery { table, options, conditions, select: P::select(), of: PhantomData }
    }

    /// Returns at most this many: the first by key. It bounds a [`page`](Self::page), which goes on.
    ///
    /// A store that does not sort, such as Cosmos DB for Table, has no first ones: running the query fails there before
    /// anything is sent, unless it is [`sorted_on_client`](Self::sorted_on_client), any results will do
    /// ([`in_any_order`](Self::in_any_order)), or one entity is asked for by its keys.
    pub fn limit(mut self, limit: usize) -> Self {
        self.options.limit = Some(limit);
        self
    }

    /// At most so many entities, and no more than an earlier [`limit`](Self::limit) allows.
    pub fn limit_to(self, limit: usize) -> Self {
        let limit = self.options.limit.map_or(limit, |earlier| earlier.min(limit));
        self.limit(limit)
    }

    /// Asks for at most this many in a page. A service has a bound of its own.
    pub fn page_size(mut self, entities: usize) -> Self {
        self.options.page_size = Some(entities);
        self
    }

    /// Asks for the next page while the present one is consumed; at most one ahead.
    ///
    /// A consumer that stops early has then paid for a page that it did not use. Where a
    /// [`limit`](Self::limit) ends the query, no page too many is asked for.
    pub fn prefetch(mut self) -> Self {
        self.options.prefetch = true;
        self
    }

    /// Relies on results in the order of keys: running it fails on a store that does not sort, such
    /// as Cosmos DB for Table, before anything is sent.
    pub fn require_order(mut self) -> Self {
        self.options.order = Order::Required;
        self
    }

    /// Takes results in whatever order the store gives them: a [`limit`](Self::limit) then returns any that match, from a
    /// store that does not sort.
    pub fn in_any_order(mut self) -> Self {
        self.options.order = Order::Any;
        self
    }

    /// Returns results in the order of keys from every store.
    ///
    /// From a store that does not sort, *everything* that matches is read and held in memory, whatever
    /// the [`limit`](Self::limit), before the first result. From any other it changes nothing.
    pub fn sorted_on_client(mut self) -> Self {
        self.options.order = Order::OnClient;
        self
    }

    /// Returns index entries too, of whatever indexes.
    ///
    /// Otherwise a query leaves them out. A type that is told by a discriminator is asked of the service by that, and no entry is
    /// one. Where any row will do ([`Entity`], a resolver's `other`, a type without a discriminator), the service sends the entries and they are dropped
    /// here: pages come shorter, even empty, and a projection reads [`INDEX_NAME`](crate::model::INDEX_NAME) beside what was
    /// asked for. A [`raw_filter`](Self::raw_filter) that names that property asks for entries, too.
    pub const fn with_index_entries(mut self) -> Self {
        self.options.shown.index_entries = true;
        self
    }

    /// Returns the rows that patterns keep for themselves too: the table's manifest, journals, parts of long lists. See
    /// [`Key::is_system`](crate::model::Key::is_system).
    pub const fn with_system_rows(mut self) -> Self {
        self.options.shown.system_rows = true;
        self
    }

    /// Runs the cheaper [`Plan`](crate::query::Plan) with the same answer where there is one: an `or`
    /// of keys as one request each, as many at once as [`Table::with_concurrency`] allows, or an `or`
    /// of ranges one after another.
    ///
    /// [`explain`](Self::explain) shows it. It cannot be read by [`page`](Self::page).
    pub fn use_cheaper_plan(mut self) -> Self {
        self.options.cheaper_plan = true;
        self
    }
}

impl<T: FromEntity> TableQuery<T, Entity> {
    /// Returns only these properties, beside keys, ETag and time: names, or fields of one type.
    ///
    /// A [`project`](Self::project)ion reads them into a struct instead.
    pub fn select<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.select = Some(Select::new(names));
        self
    }
}

/// What it will cost.
impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// How the store finds the entities. No request.
    ///
    /// # Errors
    /// A key part or a compared value cannot be encoded.
    pub fn access_path(&self) -> Result<AccessPath> {
        self.to_query().map(|query| query.access_path())
    }

    /// How the query will run, and what would be cheaper. No request.
    ///
    /// # Errors
    /// As [`access_path`](Self::access_path).
    pub fn explain(&self) -> Result<Explanation> {
        self.to_query().map(|query| query.explain(self.table.store().profile()))
    }

    /// The query that is sent, with the conditions of the types; without a `top`. No request.
    ///
    /// # Errors
    /// As [`access_path`](Self::access_path).
    pub fn to_query(&self) -> Result<Query> {
        let mut conditions = self.conditions.clone()?;
        let (of_table, of_result) = (self.table.shared().type_filter.clone(), R::type_filter());
        let of_result = of_result.filter(|filter| of_table.as_ref() != Some(filter));
        of_table.into_iter().chain(of_result).for_each(|filter| conditions.of_type(filter));
        let filter = conditions.into_filter();
        filter.iter().try_for_each(|filter| self.check_comparable(filter))?;
        let hidden = self.hidden();
        let select = self.select.as_ref().map(|select| hidden.select(select));
        Ok(Query { filter, select, top: None })
    }

    /// What is left out of the results.
    pub(super) fn hidden(&self) -> Hidden {
        let mut shown = self.options.shown;
        if let Ok(conditions) = &self.conditions {
            shown.index_entries |= conditions.name(INDEX_NAME);
        }
        self.table.shared().hidden::<R>(shown, self.select.as_ref())
    }

    /// Refuses a filter that compares what is encrypted.
    fn check_comparable(&self, filter: &Filter) -> Result<()> {
        let (of_table, of_result) = (T::encrypted(), R::encrypted());
        let mut refused = None;
        filter.for_each_property(&mut |name| {
            refused =
                refused.or(Some(name).filter(|name| of_table.contains(name) || of_result.contains(name)));
        });
        refused.map_or(Ok(()), |name| {
            Err(Error::invalid_request(format!(
                "the filter compares '{name}' of the table '{}', which is encrypted: look it up through a blind index",
                self.table.name()
            )))
        })
    }

    /// Whether the results are cut, so that it matters which ones come first.
    fn is_cut(&self, query: &Query) -> bool {
        self.options.limit.is_some_and(|limit| limit > 0) && query.access_path() != AccessPath::Point
    }

    pub(super) fn check(&self, query: &Query) -> Result<()> {
        if self.options.page_size == Some(0) {
            return Err(Error::invalid_request("a page of 0 entities: ask for at least 1"));
        }
        let profile = self.table.store().profile();
        let needs_order = match self.options.order {
            Order::Given => self.is_cut(query),
            Order::Required => true,
            Order::Any | Order::OnClient => false,
        };
        if needs_order && profile.order == KeyOrder::Unsorted {
            let what = "results in the order of keys, and so no first ones; `sorted_on_client` reads and sorts them all, \
                `in_any_order` takes any";
            return Err(Error::unsupported(profile.name, what));
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
