//! The handle of a family of tables: it lists, creates and drops the tables, and inserts into them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::model::{TableName, Ticks};
use table_core::store::{Conflicts, Error, ErrorKind, Result, TableStore, TableStoreExt, Written};
use table_core::typed::{Expires, FromEntity, PlainTable, TableEntity, Upgrade};
use tokio::sync::OnceCell;

use super::upgrade::SliceRows;
use super::{Keep, Slice, SliceQuery, Slicing};
use crate::rows::before_write;
use crate::{Database, Table};

/// The default number of requests in flight.
const CONCURRENCY: usize = 8;

/// The maximal number of times that one write creates its table, when another program drops the table before the row is written.
const MAX_CREATIONS: u32 = 10;

/// What an insert does while the table of its slice is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Repeats the creation until the name can be used, for at most this time.
    Wait(Duration),
    /// Uses the first name that can be used: `…G1`, `…G2`.
    Generation,
}

/// Entities of type `T` in a family of tables, one per period. See the [module](super).
///
/// Clones are cheap and share the list of known tables.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use table_core::prelude::*;
/// use table_patterns::time_slices::{Every, TimeSlices};
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// struct Login {
///     #[partition_key]
///     user: String,
///     #[row_key]
///     at: Ticks,
/// }
///
/// let store = Arc::new(MemoryStore::new());
/// let logins = TimeSlices::new(store, "Logins", Every::Day, |login: &Login| login.at)?;
/// for day in ["2013-01-01", "2013-01-02", "2013-01-03"] {
///     let at = format!("{day}T08:00:00Z").parse()?;
///     logins.insert(&Login { user: "ken".to_owned(), at }).await?; // 3 requests, then 1 for the same day
/// }
/// let dropped = logins.drop_before("2013-01-03T00:00:00Z".parse()?).await?; // 1 to list, 1 per day
/// assert_eq!(dropped.len(), 2);
/// assert_eq!(logins.query().all().await?.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct TimeSlices<T> {
    pub(super) shared: Arc<Shared<T>>,
}

pub(super) struct Shared<T> {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) family: String,
    pub(super) slicing: Arc<dyn Slicing>,
    time: TimeOf<T>,
    pub(super) reuse: Reuse,
    pub(super) concurrency: usize,
    pub(super) attempts: u32,
    /// Whether reads return entities that have expired or are deleted.
    shows_hidden: bool,
    /// Whether the time of an entity is that of its expiry.
    is_by_expiry: bool,
    /// The tables that exist, by slice name. A cell is empty while its table is being created.
    known: Mutex<HashMap<String, Arc<OnceCell<Slice>>>>,
}

/// Returns the time of an entity.
pub(super) type TimeOf<T> = Arc<dyn Fn(&T) -> Ticks + Send + Sync>;

impl<T> Clone for TimeSlices<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> fmt::Debug for TimeSlices<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared {
            store,
            family,
            slicing,
            ..
        } = &*self.shared;
        f.debug_struct("TimeSlices")
            .field("family", family)
            .field("slicing", slicing)
            .field("store", store)
            .finish()
    }
}

impl<T: FromEntity> TimeSlices<T> {
    /// Opens a family of tables. `time` returns the time of an entity. No request.
    ///
    /// By default, an insert waits for at most 2 minutes while the table of its slice is being deleted.
    ///
    /// # Errors
    /// - A family name that does not form a table name with the name of a slice, or that ends in a digit: then the start
    ///   of the slice name would be unclear.
    /// - `T` declares indexes, large fields or spread keys.
    /// - `T` has encrypted properties and the store does not encrypt.
    /// - `T` has a plaintext property that a rule of the store encrypts in a table with the family's name: mark the field.
    pub fn new(
        store: impl TableStore,
        family: &str,
        slicing: impl Slicing,
        time: impl Fn(&T) -> Ticks + Send + Sync + 'static,
    ) -> Result<Self> {
        // The longest name of a table: a family whose names do not fit is refused before the first write.
        let slice = TableName::new(format!(
            "{family}{}G{GENERATIONS}",
            slicing.name(Ticks::MIN)
        ))?;
        let store = store.into_shared();
        PlainTable::<T>::new(Arc::clone(&store), slice)?;
        // The family's tables have longer names, so a rule for the family's name does not reach them. It is meant for them.
        if let Ok(all) = TableName::new(family) {
            let required = T::requirements();
            store.check_times(&all, &required.times())?;
            store.check_unencrypted(&all, &required.unencrypted)?;
        }
        if let Some(index) = T::requirements().indexes.first() {
            let what = if index.is_feed() {
                "record changes in a feed: remove the feed".to_owned()
            } else {
                format!("maintain the index '{}': remove the index", index.name)
            };
            return Err(Error::invalid_declaration(format!(
                "a family of tables does not {what}, or keep the entities in one `Table`"
            )));
        }
        if family.ends_with(|c: char| c.is_ascii_digit()) {
            return Err(Error::invalid_name(
                "family",
                family,
                "it ends in a digit, and the name of a slice follows: end it in a letter",
            ));
        }
        let (family, slicing, time) = (family.to_owned(), Arc::new(slicing), Arc::new(time));
        let (reuse, known) = (Reuse::Wait(Duration::from_secs(120)), Mutex::default());
        let shared = Shared {
            store,
            family,
            slicing,
            time,
            reuse,
            concurrency: CONCURRENCY,
            attempts: Conflicts::ATTEMPTS,
            shows_hidden: false,
            is_by_expiry: false,
            known,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Sets what an insert does while the table of its slice is being deleted. The new handle knows no tables: its first insert into a
    /// slice costs 2 requests more.
    ///
    /// Handles with different settings share the entities: each handle writes to the latest table of a slice that exists
    /// when the handle first uses the slice.
    #[must_use]
    pub fn with_reuse(self, reuse: Reuse) -> Self {
        self.with(|shared| shared.reuse = reuse)
    }

    /// Makes all reads return hidden entities too: those that have expired or are deleted and kept. `update` and `merge` then change them.
    /// The new handle knows no tables: see [`with_reuse`](Self::with_reuse).
    #[must_use]
    pub fn with_hidden(self) -> Self {
        self.with(|shared| shared.shows_hidden = true)
    }

    /// Sets how many requests one call has in flight; at least 1, by default 8. The new handle knows no tables: see
    /// [`with_reuse`](Self::with_reuse).
    #[must_use]
    pub fn with_concurrency(self, requests: usize) -> Self {
        self.with(|shared| shared.concurrency = requests.max(1))
    }

    /// Sets how often a write is attempted if other writers change the entity first; at least 1, by default 10. The new
    /// handle knows no tables: see [`with_reuse`](Self::with_reuse).
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        self.with(|shared| shared.attempts = attempts.max(1))
    }

    /// A handle with other settings. Clones of this handle keep theirs, so the new handle has its own list of known tables.
    fn with(self, set: impl FnOnce(&mut Shared<T>)) -> Self {
        let mut shared = self.shared.without_known_tables();
        set(&mut shared);
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The table of a time, which is created if it is missing. No request if this handle knows the table; otherwise the
    /// requests of the first insert.
    ///
    /// # Errors
    /// Errors of the store; a table that is still being deleted.
    pub async fn table_for(&self, at: Ticks) -> Result<Table<T>> {
        let slice = self.existing_table(&self.shared.slicing.name(at)).await?;
        let table = Database::new(Arc::clone(&self.shared.store)).view(slice.table)?;
        Ok(table
            .with_concurrency(self.shared.concurrency)
            .with_attempts(self.shared.attempts))
    }

    /// The name of the first table of a time, whether or not the table exists: for rows that a bulk writer writes. No
    /// request.
    ///
    /// # Errors
    /// A slicing whose name is too long for a table.
    pub fn table_name(&self, at: Ticks) -> Result<TableName> {
        self.shared.table(&self.shared.slicing.name(at), 0)
    }

    /// The table of the first generation of an entity's slice.
    pub(crate) fn table_of_entity(&self, entity: &T) -> Result<TableName> {
        self.table_name((self.time())(entity))
    }

    pub(super) fn table_of(&self, name: TableName) -> Result<PlainTable<T>> {
        let Shared {
            store,
            concurrency,
            attempts,
            shows_hidden,
            ..
        } = &*self.shared;
        let table = PlainTable::new(Arc::clone(store), name)?;
        let table = if *shows_hidden {
            table.with_hidden()
        } else {
            table
        };
        Ok(table
            .with_concurrency(*concurrency)
            .with_attempts(*attempts))
    }

    /// A query for all entities of the family, which the caller can narrow. No request.
    pub fn query(&self) -> SliceQuery<T> {
        SliceQuery::new(self.clone())
    }

    pub(crate) fn store(&self) -> &Arc<dyn TableStore> {
        &self.shared.store
    }

    pub(super) fn time(&self) -> &TimeOf<T> {
        &self.shared.time
    }

    pub(super) fn concurrency(&self) -> usize {
        self.shared.concurrency
    }
}

impl<T: Expires> TimeSlices<T> {
    /// Opens a family of tables by the time at which entities expire: `#[expires]`. [`drop_expired`](Self::drop_expired) then removes
    /// expired entities with whole tables. Entities that never expire are in the slice of [`Ticks::MAX`]. No request.
    ///
    /// ```
    /// # use table_core::prelude::*;
    /// # use table_patterns::time_slices::{Every, TimeSlices};
    /// #[derive(Debug, TableEntity)]
    /// #[entity(type = "Session")]
    /// struct Session {
    ///     #[partition_key]
    ///     user: String,
    ///     #[row_key]
    ///     id: u32,
    ///     #[expires]
    ///     until: Ticks,
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// let sessions = TimeSlices::<Session>::by_expiry(MemoryStore::new(), "Sessions", Every::Day)?;
    /// let until: Ticks = "2013-01-01T08:00:00Z".parse()?; // a day long ago
    /// sessions.insert(&Session { user: "ann".into(), id: 1, until }).await?;
    /// assert!(sessions.get(until, Session::key("ann", 1)?).await?.is_none());
    /// assert_eq!(sessions.drop_expired().await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn by_expiry(store: impl TableStore, family: &str, slicing: impl Slicing) -> Result<Self> {
        let time = |entity: &T| entity.expires_at().unwrap_or(Ticks::MAX);
        Ok(Self::new(store, family, slicing, time)?.with(|shared| shared.is_by_expiry = true))
    }

    /// Drops the slices in which every entity has expired by the store's clock
    /// ([`StoreContext::now`](table_core::store::StoreContext::now)). Returns the dropped slices. 1 request
    /// to list the tables and 1 per slice, whatever the number of entities.
    ///
    /// # Errors
    /// As [`drop_before`](Self::drop_before); the family was not opened by [`by_expiry`](Self::by_expiry), so that its slices do not tell what has
    /// expired.
    pub async fn drop_expired(&self) -> Result<Vec<Slice>> {
        if !self.shared.is_by_expiry {
            return Err(Error::misuse(format!(
                "the slices of '{}' are not by the time of expiry: open the family by `TimeSlices::by_expiry`",
                self.shared.family
            )));
        }
        self.drop_before(self.shared.store.context().now()).await
    }
}

impl<T: TableEntity> TimeSlices<T> {
    /// Inserts an entity into the slice of its time. 1 request; the first insert of a handle into a slice also lists the
    /// tables and creates one.
    ///
    /// # Errors
    /// Entity already exists; errors of the store; a table that is still being deleted, or that was dropped 10 times right
    /// after its creation.
    pub async fn insert(&self, entity: &T) -> Result<Written> {
        self.write(entity, Verb::Insert).await
    }

    /// Inserts or replaces an entity in the slice of its time. Requests as for [`insert`](Self::insert); 1 more for a type
    /// with a `type` or a `version`, because the stored entity may have a later version.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), except that the entity may exist.
    pub async fn upsert(&self, entity: &T) -> Result<Written> {
        self.write(entity, Verb::Upsert).await
    }

    /// Inserts an entity into the slice of its time, or merges its properties into the stored entity. A field that is
    /// `None` keeps its stored value, as do properties that `T` does not know. Requests as for [`upsert`](Self::upsert).
    ///
    /// # Errors
    /// As [`upsert`](Self::upsert). The stored entity has another type, or another schema version: use
    /// [`update`](Self::update).
    pub async fn insert_or_merge(&self, entity: &T) -> Result<Written> {
        self.write(entity, Verb::InsertOrMerge).await
    }

    /// Rewrites every entity of an older schema version in the current one. Returns the number of entities rewritten. A
    /// slice that is dropped during the call is skipped. See [`Table::upgrade_all`](crate::Table::upgrade_all).
    ///
    /// 1 request to list the tables, 1 per page of each slice, and 1 per older entity, several at once
    /// ([`with_concurrency`](Self::with_concurrency)).
    ///
    /// # Errors
    /// As [`Table::upgrade_all`](crate::Table::upgrade_all).
    pub async fn upgrade_all(&self) -> Result<u64> {
        self.upgrade().run().await?.into_result()
    }

    /// Creates the same upgrade to be planned, watched or resumed: see [`Upgrade`]. Sends no request.
    pub fn upgrade(&self) -> Upgrade<T> {
        Upgrade::new(SliceRows::new(self.clone()), self.shared.concurrency)
    }

    /// Writes an entity. If the table was dropped since this handle saw it, creates the table again. The table is created at most
    /// [`MAX_CREATIONS`] times.
    async fn write(&self, entity: &T, verb: Verb) -> Result<Written> {
        let at = (self.shared.time)(entity);
        let mut creations_left = MAX_CREATIONS;
        loop {
            let slice = self.existing_table(&self.shared.slicing.name(at)).await?;
            let table = self.table_of(slice.table)?;
            let written = match verb {
                Verb::Insert => table.insert(entity).await,
                Verb::Upsert => table.upsert(entity).await,
                Verb::InsertOrMerge => table.insert_or_merge(entity).await,
            };
            creations_left -= 1;
            match written {
                Err(error) if is_table_dropped(&error) && creations_left > 0 => {
                    self.forget(&self.shared.slicing.name(at));
                }
                written => return written,
            }
        }
    }
}

/// A write that creates the slice of its entity.
#[derive(Clone, Copy)]
enum Verb {
    Insert,
    Upsert,
    InsertOrMerge,
}

impl<T> Shared<T> {
    /// A copy without known tables.
    fn without_known_tables(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            family: self.family.clone(),
            slicing: Arc::clone(&self.slicing),
            time: Arc::clone(&self.time),
            reuse: self.reuse,
            concurrency: self.concurrency,
            attempts: self.attempts,
            shows_hidden: self.shows_hidden,
            is_by_expiry: self.is_by_expiry,
            known: Mutex::default(),
        }
    }

    /// The name of the table of a slice and generation.
    pub(super) fn table(&self, name: &str, generation: u32) -> Result<TableName> {
        match generation {
            0 => TableName::new(format!("{}{name}", self.family)),
            _ => TableName::new(format!("{}{name}G{generation}", self.family)),
        }
    }

    /// The slice of a table that this handle has named.
    pub(super) fn slice(&self, table: &TableName) -> Result<Slice> {
        Slice::of_table(&self.family, &*self.slicing, table).ok_or_else(|| {
            Error::invalid_name(
                "table name",
                table.as_str(),
                "`Slicing::span` returns `None` for a name that `Slicing::name` returned",
            )
        })
    }

    // A poisoned lock is safe to use: the map is consistent after every statement.
    pub(super) fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<Slice>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The maximal number of generations of a slice.
pub(super) const GENERATIONS: u32 = 100;
/// The first pause while a name cannot be used. Each following pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The maximal number of slices that a handle remembers. Only wrong clocks or wrong data lead to more slices.
const MAX_KNOWN: usize = 10_000;

impl<T: FromEntity> TimeSlices<T> {
    /// The tables of the family in the order of time. 1 request per 1000 tables.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn slices(&self) -> Result<Vec<Slice>> {
        self.list("").await
    }

    /// The tables whose slice names start with this text, in the order of time.
    async fn list(&self, name: &str) -> Result<Vec<Slice>> {
        let Shared {
            store,
            family,
            slicing,
            ..
        } = &*self.shared;
        let tables = store.all_tables(Some(&format!("{family}{name}"))).await?;
        let mut slices: Vec<_> = tables
            .iter()
            .filter_map(|table| Slice::of_table(family, &**slicing, table))
            .collect();
        slices.sort_by_key(|slice| (slice.from, slice.generation));
        Ok(slices)
    }

    /// The tables of a slice, in the order of generations.
    pub(super) async fn of_name(&self, name: &str) -> Result<Vec<Slice>> {
        let mut slices = self.list(name).await?;
        slices.retain(|slice| slice.name == name);
        Ok(slices)
    }

    /// The latest table of a slice, which is created if it is missing. Concurrent callers share one creation.
    pub(super) async fn existing_table(&self, name: &str) -> Result<Slice> {
        let cell = self.known_cell(name);
        // After a failure the cell stays empty, and the next call tries again.
        let slice = cell.get_or_try_init(|| self.find_or_create(name)).await;
        // The outcome of the creation of a table is not that of the write for which the table is created.
        before_write(slice.cloned())
    }

    /// The cell of a slice among the known tables; empty if no table of the slice is known.
    fn known_cell(&self, name: &str) -> Arc<OnceCell<Slice>> {
        let mut known = self.shared.known();
        if known.len() >= MAX_KNOWN && !known.contains_key(name) {
            // A forgotten table costs the requests of a first insert, and changes no result.
            known.clear();
        }
        Arc::clone(known.entry(name.to_owned()).or_default())
    }

    /// The latest table of a slice, which is created if it is missing, or if it may be in deletion and the handle waits for its name.
    async fn find_or_create(&self, name: &str) -> Result<Slice> {
        let latest = self.of_name(name).await?.pop();
        match (self.shared.reuse, latest) {
            (Reuse::Wait(max_wait), latest) => {
                self.create_and_wait(name, latest.map_or(0, |slice| slice.generation), max_wait)
                    .await
            }
            (Reuse::Generation, Some(latest)) => Ok(latest),
            (Reuse::Generation, None) => self.create_generation(name).await,
        }
    }

    /// Creates the table, also if the list has it: the service lists a table that is being deleted. Repeats this while the
    /// name cannot be used.
    async fn create_and_wait(
        &self,
        name: &str,
        generation: u32,
        max_wait: Duration,
    ) -> Result<Slice> {
        let table = self.shared.table(name, generation)?;
        let (started, mut pause) = (tokio::time::Instant::now(), FIRST_PAUSE);
        loop {
            match self.shared.store.create_table_if_missing(&table).await {
                // Azure deletes a table for at least 40 seconds, in which its name cannot be used
                // (<https://learn.microsoft.com/rest/api/storageservices/delete-table>).
                Err(error) if is_being_deleted(&error) && started.elapsed() + pause <= max_wait => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                created => return created.and_then(|_| self.shared.slice(&table)),
            }
        }
    }

    /// Creates the first generation whose name can be used.
    async fn create_generation(&self, name: &str) -> Result<Slice> {
        let mut generation = 0;
        loop {
            let table = self.shared.table(name, generation)?;
            match self.shared.store.create_table_if_missing(&table).await {
                Err(error) if is_being_deleted(&error) && generation < GENERATIONS => {
                    generation += 1;
                }
                created => return created.and_then(|_| self.shared.slice(&table)),
            }
        }
    }

    /// Removes a dropped table from the known tables.
    pub(super) fn forget(&self, name: &str) {
        self.shared.known().remove(name);
    }
}

fn is_being_deleted(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TableBeingDeleted { .. })
}

/// Whether the error says that the table was dropped or is being deleted.
pub(super) fn is_table_dropped(error: &Error) -> bool {
    error.is_table_not_found() || is_being_deleted(error)
}

impl<T: FromEntity> TimeSlices<T> {
    /// Drops every slice that ends by the given time. Returns the slices that were dropped, by this call or another at the
    /// same time. 1 request to list the tables and 1 per slice.
    ///
    /// # Errors
    /// Errors of the store: repeat the call to drop the remaining slices.
    pub async fn drop_before(&self, before: Ticks) -> Result<Vec<Slice>> {
        let slices = self.slices().await?;
        self.drop_all(
            slices
                .into_iter()
                .filter(|slice| slice.before <= before)
                .collect(),
        )
        .await
    }

    /// The slices that [`retain`](Self::retain) would drop: a dry run. 1 request.
    ///
    /// # Errors
    /// Errors of the store; a negative age.
    pub async fn expired(&self, keep: Keep, now: Ticks) -> Result<Vec<Slice>> {
        keep.expired(self.slices().await?, now)
    }

    /// Drops the slices that a policy does not keep. Returns the dropped slices. 1 request to list the tables and 1 per
    /// slice.
    ///
    /// # Errors
    /// As [`drop_before`](Self::drop_before) and [`expired`](Self::expired).
    pub async fn retain(&self, keep: Keep, now: Ticks) -> Result<Vec<Slice>> {
        self.drop_all(self.expired(keep, now).await?).await
    }

    async fn drop_all(&self, slices: Vec<Slice>) -> Result<Vec<Slice>> {
        let drop = |slice: Slice| async move {
            // Forgotten before the deletion, so that the next insert lists the tables. An insert between the two may remember the
            // table again: its write then finds no table, and creates one.
            self.forget(&slice.name);
            match self.shared.store.delete_table(&slice.table).await {
                Err(error) if !is_table_dropped(&error) => Err(error),
                _ => Ok(slice),
            }
        };
        stream::iter(slices)
            .map(drop)
            .buffered(self.shared.concurrency)
            .try_collect()
            .await
    }
}

#[cfg(test)]
mod tests {
    use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
    use table_core::memory::MemoryStore;
    use table_core::prelude::TableEntity;
    use table_core::store::{OperationKind, Outcome};

    use super::*;
    use crate::time_slices::Every;

    #[derive(Debug, TableEntity)]
    #[entity(crate = table_core, type = "Login", rename_all = "PascalCase")]
    struct Login {
        #[partition_key]
        user: String,
        #[row_key]
        at: Ticks,
    }

    /// The table may be there afterwards. The entity is not.
    #[tokio::test]
    async fn the_outcome_of_the_creation_of_a_table_is_not_that_of_the_write() {
        for fault in [Fault::LoseRequest, Fault::LoseAnswer, Fault::BreakAnswer] {
            let faults = FaultInjector::new(1);
            let store = Faulty::new(MemoryStore::new(), faults.clone());
            let logins =
                TimeSlices::<Login>::new(store, "Logins", Every::Day, |login| login.at).unwrap();
            let login = Login {
                user: "ken".to_owned(),
                at: Ticks::now(),
            };
            // Also the repetition of the creation.
            faults.add(FaultRule::new(fault).on(OperationKind::CreateTable));
            let error = logins.insert(&login).await.unwrap_err();
            assert_eq!(error.outcome(), Outcome::NotApplied, "{fault:?}: {error}");
        }
    }
}
