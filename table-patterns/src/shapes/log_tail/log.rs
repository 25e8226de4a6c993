use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::{Stream, TryStreamExt};
use table_core::adapter::WRITE_ID_PROPERTY;
use table_core::model::{Entity, Key, PartitionKey, TableName, Ticks, ValueRef};
use table_core::query::{Comparison, Filter};
use table_core::store::{Error, Operation, Result, TableStore, TableStoreExt as _};
use table_core::typed::{Record, Table, TableQuery};

use super::entry::inverted;
use super::ids::Ids;
use super::{EntryId, Logged};
use crate::clock::Clock;
use crate::rows::plain;

/// A log of `E`, newest first, in one partition of a table. See the [module](super).
///
/// Cheap to clone. Keep one handle and clone it: its appends stay in order.
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
    table: Table<Entity>,
    partition: PartitionKey,
    prefix: String,
    ids: Arc<Ids>,
    sorts: bool,
    of: PhantomData<fn() -> E>,
}

impl<E> Clone for LogTail<E> {
    fn clone(&self) -> Self {
        let (table, partition, prefix) = (self.table.clone(), self.partition.clone(), self.prefix.clone());
        Self { table, partition, prefix, ids: Arc::clone(&self.ids), sorts: self.sorts, of: PhantomData }
    }
}

impl<E: Record> LogTail<E> {
    /// Opens a log. No request: the table must exist when the log is used.
    ///
    /// # Errors
    /// The name is not legal; `E` has encrypted properties and the store does not encrypt. What else the store does not
    /// allow is refused when the log is used.
    pub fn new<S, N>(store: S, table: N, partition: PartitionKey) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let table = table.try_into().map_err(Into::into)?;
        store.check_encrypts(&table, &E::encrypted())?;
        let table = Table::new(store, table)?;
        let (prefix, ids) = (String::new(), Arc::default());
        Ok(Self { table, partition, prefix, ids, sorts: false, of: PhantomData })
    }

    /// Starts the entries' row keys with a text, so that the partition can hold other rows.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Takes the time of appends from another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.ids = Arc::new(Ids::new(clock));
        self
    }

    /// On a service without order, reads everything that is asked for and sorts it here, instead of refusing.
    #[must_use]
    pub const fn sorted_on_client(mut self) -> Self {
        self.sorts = true;
        self
    }

    /// Creates the table unless it is there; whether it was created. One request.
    ///
    /// # Errors
    /// The store's.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.table.create_if_missing().await
    }

    /// A name for an entry that is appended now. No request.
    pub fn new_id(&self) -> EntryId {
        self.ids.next(self.ids.now())
    }

    /// A name for an entry of a certain time. No request.
    pub fn new_id_at(&self, at: Ticks) -> EntryId {
        self.ids.next(at)
    }

    /// The row of an entry, for an entity group transaction with other rows of the partition. No request.
    ///
    /// # Errors
    /// A value cannot be stored, or the key is too long.
    pub fn entity(&self, id: &EntryId, value: &E) -> Result<Entity> {
        let key = Key::new(&self.partition, format!("{}{id}", self.prefix))?;
        Ok(Entity::from_parts(key, value.to_properties()?))
    }

    /// Appends an entry. One request.
    ///
    /// # Errors
    /// The store's. If the outcome is ambiguous and the entry must not be there twice, append it by
    /// [`append_as`](Self::append_as), which can be repeated.
    pub async fn append(&self, value: &E) -> Result<EntryId> {
        let id = self.new_id();
        self.append_as(&id, value).await?;
        Ok(id)
    }

    /// Appends an entry of a certain time: an event that was recorded elsewhere. One request.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn append_at(&self, at: Ticks, value: &E) -> Result<EntryId> {
        let id = self.new_id_at(at);
        self.append_as(&id, value).await?;
        Ok(id)
    }

    /// Appends an entry under a name from [`new_id`](Self::new_id). One request. Repeating it with the same value changes
    /// nothing, and costs one more.
    ///
    /// # Errors
    /// The store's; the entity exists already, with another value, or under a name that was not made here: others can
    /// have it too.
    pub async fn append_as(&self, id: &EntryId, value: &E) -> Result<()> {
        let entity = self.entity(id, value)?;
        match plain::write(&**self.table.store(), self.table.name(), Operation::Insert(entity.clone())).await
        {
            Err(error) if error.is_already_exists() && id.is_unique() => {
                self.check_same(&entity, error).await
            }
            written => written.map(drop),
        }
    }

    /// Nobody else has this name, but its owner may have used it for another value.
    async fn check_same(&self, entity: &Entity, error: Error) -> Result<()> {
        let stored = self.table.get(entity.key()).await?;
        match stored.is_some_and(|stored| holds_the_same(stored, entity)) {
            true => Ok(()),
            false => {
                Err(error.with_source("an entry with this id holds another value: take a new id for each"))
            }
        }
    }

    /// The newest `n` entries, newest first. One request for up to 1000.
    ///
    /// # Errors
    /// The store's; it does not sort; a row in the log's range is no entry.
    pub async fn latest(&self, n: usize) -> Result<Vec<Logged<E>>> {
        self.page(None, n).await
    }

    /// The `n` entries before (older than) one, newest first: pages that a web client walks by the id of the last entry it
    /// has. One request for up to 1000. Entries that are appended meanwhile do not shift it.
    ///
    /// # Errors
    /// As [`latest`](Self::latest).
    pub async fn page(&self, before: Option<&EntryId>, n: usize) -> Result<Vec<Logged<E>>> {
        let from = before.map(|id| self.bound(Comparison::GreaterThan, id.as_str()));
        self.read(self.rows(from, None).limit(n)).try_collect().await
    }

    /// The entries of a moment and all newer ones, newest first. One request a page.
    ///
    /// # Errors
    /// As [`latest`](Self::latest), in the stream.
    pub fn since(&self, moment: Ticks) -> impl Stream<Item = Result<Logged<E>>> + Send + Unpin + use<E> {
        self.read(self.rows(None, Some(self.until(moment))))
    }

    /// The entries from a moment on and before another, newest first. One request a page.
    ///
    /// # Errors
    /// As [`latest`](Self::latest), in the stream.
    pub fn between(
        &self,
        from: Ticks,
        before: Ticks,
    ) -> impl Stream<Item = Result<Logged<E>>> + Send + Unpin + use<E> {
        let newest = self.bound(Comparison::GreaterThanOrEqual, &inverted(before.inverted() + 1));
        self.read(self.rows(Some(newest), Some(self.until(from))))
    }

    /// One entry. One request.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, id: &EntryId) -> Result<Option<Logged<E>>> {
        let key = Key::new(&self.partition, format!("{}{id}", self.prefix))?;
        let entity = self.table.get(key).await?;
        entity.map(|entity| Logged::read(&entity, &self.prefix)).transpose()
    }

    /// Up to and including the entries of a moment, which is where keys end: older is larger.
    fn until(&self, moment: Ticks) -> Filter {
        self.bound(Comparison::LessThan, &inverted(moment.inverted() + 1))
    }

    fn bound(&self, comparison: Comparison, text: &str) -> Filter {
        Filter::compare(Filter::ROW_KEY, comparison, format!("{}{text}", self.prefix))
    }

    /// Rows between two bounds: by default, those that go on with a digit.
    fn rows(&self, from: Option<Filter>, to: Option<Filter>) -> TableQuery<Entity> {
        let from = from.unwrap_or_else(|| self.bound(Comparison::GreaterThanOrEqual, "0"));
        let to = to.unwrap_or_else(|| self.bound(Comparison::LessThan, ":"));
        self.table.query().partition(&self.partition).raw_filter(from.and(to))
    }

    fn read(
        &self,
        query: TableQuery<Entity>,
    ) -> impl Stream<Item = Result<Logged<E>>> + Send + Unpin + use<E> {
        let query = if self.sorts { query.sorted_on_client() } else { query.require_order() };
        let prefix = self.prefix.clone();
        query.stream().and_then(move |entity| std::future::ready(Logged::read(&entity, &prefix)))
    }
}

/// Whether two rows have the same properties, in whichever order; that of a write id is an adapter's.
fn holds_the_same(mut stored: Entity, wanted: &Entity) -> bool {
    stored.properties_mut().remove(WRITE_ID_PROPERTY);
    let same = |name: &str| match (stored.get(name), wanted.get(name)) {
        (Some(ValueRef::Double(a)), Some(ValueRef::Double(b))) => a.total_cmp(&b).is_eq(),
        (stored, wanted) => stored == wanted,
    };
    stored.properties().len() == wanted.properties().len()
        && wanted.properties().iter().all(|property| same(property.name()))
}
