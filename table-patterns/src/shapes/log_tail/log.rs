//! The handle of a log.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::{Stream, TryStreamExt};
use table_core::adapter::WRITE_ID_PROPERTY;
use table_core::model::{Entity, Key, PartitionKey, TableName, Ticks, ValueRef};
use table_core::query::{Comparison, Filter};
use table_core::store::{Error, Operation, Result, TableStore, TableStoreExt as _};
use table_core::typed::{PlainTable, Record, TableQuery};

use super::entry::{IdGenerator, inverted};
use super::{EntryId, Logged};
use crate::clock::Clock;
use crate::rows::plain;

/// A log of values of type `E` in one partition of a table, newest first. See the [module](super).
///
/// Clones are cheap. Use clones of one handle for all appends of a program: then their ids are in order.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::memory::MemoryStore;
/// use table_core::model::PartitionKey;
/// use table_core::typed::PropertyGroup;
/// use table_patterns::log_tail::LogTail;
///
/// #[derive(Debug, PartialEq, PropertyGroup)]
/// #[entity(rename_all = "PascalCase")]
/// struct Claim {
///     amount: i32,
/// }
///
/// let claims = LogTail::<Claim>::new(MemoryStore::new(), "Claims", PartitionKey::new("empid_000223")?)?;
/// claims.create_if_missing().await?; // 1 request
/// for amount in [10, 20, 30] {
///     claims.append(&Claim { amount }).await?; // 1 request
/// }
/// let latest = claims.latest(2).await?; // 1 request
/// assert_eq!(latest[0].value, Claim { amount: 30 });
/// let older = claims.page(Some(&latest[1].id), 2).await?;
/// assert_eq!(older[0].value, Claim { amount: 10 });
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogTail<E> {
    table: PlainTable<Entity>,
    partition: PartitionKey,
    prefix: String,
    ids: Arc<IdGenerator>,
    sorts: bool,
    of: PhantomData<fn() -> E>,
}

impl<E> Clone for LogTail<E> {
    fn clone(&self) -> Self {
        let (table, partition, prefix) = (
            self.table.clone(),
            self.partition.clone(),
            self.prefix.clone(),
        );
        Self {
            table,
            partition,
            prefix,
            ids: Arc::clone(&self.ids),
            sorts: self.sorts,
            of: PhantomData,
        }
    }
}

impl<E: Record> LogTail<E> {
    /// Opens a log. No request; the table must exist when the log is used.
    ///
    /// # Errors
    /// An invalid table name; `E` has encrypted properties and the store does not encrypt.
    pub fn new<S, N>(store: S, table: N, partition: PartitionKey) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let table = table.try_into().map_err(Into::into)?;
        store.check_encrypts(&table, &E::encrypted())?;
        let table = PlainTable::new(store, table)?;
        let (prefix, ids) = (String::new(), Arc::default());
        Ok(Self {
            table,
            partition,
            prefix,
            ids,
            sorts: false,
            of: PhantomData,
        })
    }

    /// Sets the prefix of the entries' row keys, so that the partition can hold other rows.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the clock that gives appends their times.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.ids = Arc::new(IdGenerator::new(clock));
        self
    }

    /// Reads whole ranges and sorts them in memory if the service does not sort, instead of an error.
    #[must_use]
    pub const fn sorted_on_client(mut self) -> Self {
        self.sorts = true;
        self
    }

    /// Creates the table if it is missing. Returns whether the table was created. 1 request.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.table.create_if_missing().await
    }

    /// A new id for an entry with the current time. No request.
    pub fn new_id(&self) -> EntryId {
        self.ids.next(self.ids.now())
    }

    /// A new id for an entry with this time. No request.
    pub fn new_id_at(&self, at: Ticks) -> EntryId {
        self.ids.next(at)
    }

    /// The row of an entry, for an entity group transaction with other rows of the partition. No request.
    ///
    /// # Errors
    /// A value that cannot be stored; a key that is too long.
    pub fn entity(&self, id: &EntryId, value: &E) -> Result<Entity> {
        let key = Key::new(&self.partition, format!("{}{id}", self.prefix))?;
        Ok(Entity::from_parts(key, value.to_properties()?))
    }

    /// Appends an entry with the current time. 1 request.
    ///
    /// # Errors
    /// Errors of the store. After an ambiguous outcome the entry may be stored. To repeat an append safely, use
    /// [`append_as`](Self::append_as).
    pub async fn append(&self, value: &E) -> Result<EntryId> {
        let id = self.new_id();
        self.append_as(&id, value).await?;
        Ok(id)
    }

    /// Appends an entry with this time, such as the time of an event. 1 request.
    ///
    /// ```
    /// # use table_core::{memory::MemoryStore, model::Ticks, prelude::*};
    /// # use table_patterns::log_tail::LogTail;
    /// # #[derive(Clone, Debug, PartialEq, PropertyGroup)]
    /// # struct Claim { amount: i32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let log = LogTail::<Claim>::new(MemoryStore::new(), "Claims", PartitionKey::new("ken")?)?;
    /// # log.create_if_missing().await?;
    /// log.append(&Claim { amount: 2 }).await?;
    /// // A claim of last year arrives late: it is behind the others.
    /// log.append_at("2013-01-01T00:00:00Z".parse::<Ticks>()?, &Claim { amount: 1 }).await?;
    /// assert_eq!(log.latest(10).await?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn append_at(&self, at: Ticks, value: &E) -> Result<EntryId> {
        let id = self.new_id_at(at);
        self.append_as(&id, value).await?;
        Ok(id)
    }

    /// Appends an entry with an id from [`new_id`](Self::new_id). 1 request. A repeated append with the same value changes
    /// nothing and takes 2 requests.
    ///
    /// # Errors
    /// Errors of the store; the entry exists with another value; the entry exists and its id is not unique, as an id of
    /// [`EntryId::of_guide`], which other writers may use too.
    pub async fn append_as(&self, id: &EntryId, value: &E) -> Result<()> {
        let entity = self.entity(id, value)?;
        let insert = Operation::Insert(entity.clone());
        match plain::write(&**self.table.store(), self.table.name(), insert).await {
            Err(error) if error.is_already_exists() && id.is_unique() => {
                self.check_repeated(&entity, error).await
            }
            written => written.map(drop),
        }
    }

    /// Succeeds if the stored entry has the same value, so the append was repeated. Otherwise the caller has used the id
    /// for two values.
    async fn check_repeated(&self, entity: &Entity, error: Error) -> Result<()> {
        let stored = self.table.get(entity.key()).await?;
        match stored.is_some_and(|stored| has_same_properties(stored, entity)) {
            true => Ok(()),
            false => Err(error.with_source(
                "an entry with this id has another value: use a new id for each entry",
            )),
        }
    }

    /// The newest `n` entries, newest first. 1 request for up to 1000 entries.
    ///
    /// # Errors
    /// Errors of the store; the store does not sort; a row in the log's range that is not an entry.
    pub async fn latest(&self, n: usize) -> Result<Vec<Logged<E>>> {
        self.page(None, n).await
    }

    /// The `n` entries that are older than `before`, newest first. 1 request for up to 1000 entries.
    ///
    /// A web client pages with the id of the last entry that it has. New entries do not shift the pages.
    ///
    /// # Errors
    /// As [`latest`](Self::latest).
    pub async fn page(&self, before: Option<&EntryId>, n: usize) -> Result<Vec<Logged<E>>> {
        let from = before.map(|id| self.bound(Comparison::GreaterThan, id.as_str()));
        self.read(self.rows(from, None).limit(n))
            .try_collect()
            .await
    }

    /// The entries of this time and all newer ones, newest first. 1 request per page.
    ///
    /// # Errors
    /// As [`latest`](Self::latest), in the stream.
    pub fn since(
        &self,
        moment: Ticks,
    ) -> impl Stream<Item = Result<Logged<E>>> + Send + Unpin + use<E> {
        self.read(self.rows(None, Some(self.until(moment))))
    }

    /// The entries from a time (included) to another (excluded), newest first. 1 request per page.
    ///
    /// # Errors
    /// As [`latest`](Self::latest), in the stream.
    pub fn between(
        &self,
        from: Ticks,
        before: Ticks,
    ) -> impl Stream<Item = Result<Logged<E>>> + Send + Unpin + use<E> {
        // RowKeys begin with inverted ticks: a later time is a smaller text, and one more is the tick before.
        let newest = self.bound(
            Comparison::GreaterThanOrEqual,
            &inverted(before.inverted() + 1),
        );
        self.read(self.rows(Some(newest), Some(self.until(from))))
    }

    /// Reads one entry; `None` if it does not exist. 1 request.
    ///
    /// # Errors
    /// Errors of the store; the row is not an entry.
    pub async fn get(&self, id: &EntryId) -> Result<Option<Logged<E>>> {
        let key = Key::new(&self.partition, format!("{}{id}", self.prefix))?;
        let entity = self.table.get(key).await?;
        entity
            .map(|entity| Logged::read(&entity, &self.prefix))
            .transpose()
    }

    /// The filter for the entries of this time and newer ones: an older entry has a larger key.
    fn until(&self, moment: Ticks) -> Filter {
        self.bound(Comparison::LessThan, &inverted(moment.inverted() + 1))
    }

    fn bound(&self, comparison: Comparison, text: &str) -> Filter {
        Filter::compare(
            Filter::ROW_KEY,
            comparison,
            format!("{}{text}", self.prefix),
        )
    }

    /// The rows between two bounds. Without a bound: all rows whose key has a digit after the prefix (`:` follows `9`).
    fn rows(&self, from: Option<Filter>, to: Option<Filter>) -> TableQuery<Entity> {
        let from = from.unwrap_or_else(|| self.bound(Comparison::GreaterThanOrEqual, "0"));
        let to = to.unwrap_or_else(|| self.bound(Comparison::LessThan, ":"));
        self.table
            .query()
            .partition(&self.partition)
            .raw_filter(from.and(to))
    }

    fn read(
        &self,
        query: TableQuery<Entity>,
    ) -> impl Stream<Item = Result<Logged<E>>> + Send + Unpin + use<E> {
        let query = if self.sorts {
            query.sorted_on_client()
        } else {
            query.require_order()
        };
        let prefix = self.prefix.clone();
        query
            .stream()
            .and_then(move |entity| std::future::ready(Logged::read(&entity, &prefix)))
    }
}

/// Whether two rows have the same properties in any order. The write id of an adapter is ignored.
fn has_same_properties(mut stored: Entity, expected: &Entity) -> bool {
    stored.properties_mut().remove(WRITE_ID_PROPERTY);
    let same = |name: &str| match (stored.get(name), expected.get(name)) {
        // So that NaN equals NaN.
        (Some(ValueRef::Double(a)), Some(ValueRef::Double(b))) => a.total_cmp(&b).is_eq(),
        (stored, expected) => stored == expected,
    };
    stored.properties().len() == expected.properties().len()
        && expected
            .properties()
            .iter()
            .all(|property| same(property.name()))
}
