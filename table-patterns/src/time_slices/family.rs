use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::model::{TableName, Ticks};
use table_core::store::{Error, ErrorKind, Result, TableStore, TableStoreExt, Written};
use table_core::typed::{FromEntity, KeyOf, Table, TableEntity};
use tokio::sync::OnceCell;

use super::{Keep, Slice, SliceQuery, Slicing};

/// Requests in flight unless told otherwise.
const CONCURRENCY: usize = 8;
/// Generations that are tried before giving up.
const GENERATIONS: u32 = 100;
/// The first pause while a name cannot be used; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What an insert does while the name of its slice is still being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Asks again until the name can be used, at most so long.
    Wait(Duration),
    /// Uses the next name that can be: `…G1`, `…G2`.
    Generation,
}

/// Entities of type `T` in a family of tables by time. See the [module](super).
///
/// Cheap to clone; clones share what they know of the tables.
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
///     logins.insert(&Login { user: "ken".to_owned(), at }).await?; // 2 requests, then 1 for the same day
/// }
/// let dropped = logins.drop_before("2013-01-03T00:00:00Z".parse()?).await?; // 1 to list, 1 per day
/// assert_eq!(dropped.len(), 2);
/// assert_eq!(logins.query().all().await?.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct TimeSlices<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    store: Arc<dyn TableStore>,
    family: String,
    slicing: Arc<dyn Slicing>,
    time: TimeOf<T>,
    reuse: Reuse,
    concurrency: usize,
    known: Mutex<HashMap<String, Arc<OnceCell<Slice>>>>,
}

/// When an entity is.
pub(super) type TimeOf<T> = Arc<dyn Fn(&T) -> Ticks + Send + Sync>;

impl<T> Clone for TimeSlices<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> fmt::Debug for TimeSlices<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { store, family, slicing, .. } = &*self.shared;
        f.debug_struct("TimeSlices")
            .field("family", family)
            .field("slicing", slicing)
            .field("store", store)
            .finish()
    }
}

impl<T: FromEntity> TimeSlices<T> {
    /// Opens a family. No request. Waits up to two minutes for names that are being deleted, unless told otherwise.
    ///
    /// # Errors
    /// The family's name, with a slice's behind it, does not name a table; or it ends in a digit, so that nothing
    /// would tell where the slice starts.
    pub fn new(
        store: Arc<dyn TableStore>,
        family: &str,
        slicing: impl Slicing,
        time: impl Fn(&T) -> Ticks + Send + Sync + 'static,
    ) -> Result<Self> {
        TableName::new(format!("{family}{}G{GENERATIONS}", slicing.name(Ticks::MIN)))?;
        if family.ends_with(|c: char| c.is_ascii_digit()) {
            return Err(Error::invalid_name("family", family, "let it end in a letter: the slice follows"));
        }
        let (family, slicing, time) = (family.to_owned(), Arc::new(slicing), Arc::new(time));
        let (reuse, known) = (Reuse::Wait(Duration::from_secs(120)), Mutex::default());
        let shared = Shared { store, family, slicing, time, reuse, concurrency: CONCURRENCY, known };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What to do while a name is being deleted. Knows nothing of tables yet.
    #[must_use]
    pub fn with_reuse(self, reuse: Reuse) -> Self {
        Self { shared: Arc::new(Shared { reuse, ..self.shared.fresh() }) }
    }

    /// Another bound on the requests that one call has in flight; at least 1, and 8 unless told otherwise.
    #[must_use]
    pub fn with_concurrency(self, requests: usize) -> Self {
        Self { shared: Arc::new(Shared { concurrency: requests.max(1), ..self.shared.fresh() }) }
    }

    /// The tables of the family in the order of time. One request a page of 1000 tables.
    ///
    /// # Errors
    /// The store's.
    pub async fn slices(&self) -> Result<Vec<Slice>> {
        self.list("").await
    }

    async fn list(&self, name: &str) -> Result<Vec<Slice>> {
        let Shared { store, family, slicing, .. } = &*self.shared;
        let tables = store.all_tables(Some(&format!("{family}{name}"))).await?;
        let mut slices: Vec<_> =
            tables.iter().filter_map(|table| Slice::of_table(family, &**slicing, table)).collect();
        slices.sort_by_key(|slice| (slice.from, slice.generation));
        Ok(slices)
    }

    /// The table of a moment, made if it is missing, for all that a [`Table`] can do. No request if this handle knows
    /// it; else as the first insert.
    ///
    /// # Errors
    /// The store's; the name is still being deleted.
    pub async fn table_for(&self, at: Ticks) -> Result<Table<T>> {
        let slice = self.made(&self.shared.slicing.name(at)).await?;
        Table::new(Arc::clone(&self.shared.store), slice.table)
    }

    /// The name of a moment's first table, whether it is there or not: for rows that a bulk writer takes there. No
    /// request.
    ///
    /// # Errors
    /// None, unless the slicing's names grow.
    pub fn table_name(&self, at: Ticks) -> Result<TableName> {
        self.shared.table(&self.shared.slicing.name(at), 0)
    }

    /// The entity of a moment with this key. One request; with generations, one to list the slice's tables and one for
    /// each.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, at: Ticks, key: impl KeyOf<T>) -> Result<Option<T>> {
        let (name, key) = (self.shared.slicing.name(at), key.into_key());
        let tables = match self.shared.reuse {
            Reuse::Wait(_) => vec![self.shared.table(&name, 0)?],
            Reuse::Generation => {
                let of_name = self.list(&name).await?.into_iter().filter(|slice| slice.name == name);
                of_name.map(|slice| slice.table).rev().collect()
            }
        };
        for table in tables {
            match Table::<T>::new(Arc::clone(&self.shared.store), table)?.get(&key).await {
                Ok(None) => {}
                Err(error) if is_gone(&error) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    /// Everything in the family, until it is narrowed down.
    pub fn query(&self) -> SliceQuery<T> {
        SliceQuery::new(self.clone())
    }

    /// Drops every slice that ends by then. One request to list the tables, one for each slice. What was dropped, by
    /// this call or meanwhile by another.
    ///
    /// # Errors
    /// The store's: run it again for the rest.
    pub async fn drop_before(&self, before: Ticks) -> Result<Vec<Slice>> {
        let slices = self.slices().await?;
        self.drop_all(slices.into_iter().filter(|slice| slice.before <= before).collect()).await
    }

    /// What [`retain`](Self::retain) would drop: a dry run. One request.
    ///
    /// # Errors
    /// The store's.
    pub async fn expired(&self, keep: Keep, now: Ticks) -> Result<Vec<Slice>> {
        Ok(keep.expired(self.slices().await?, now))
    }

    /// Drops what a policy does not keep. One request to list the tables, one for each slice.
    ///
    /// # Errors
    /// As [`drop_before`](Self::drop_before).
    pub async fn retain(&self, keep: Keep, now: Ticks) -> Result<Vec<Slice>> {
        self.drop_all(self.expired(keep, now).await?).await
    }

    async fn drop_all(&self, slices: Vec<Slice>) -> Result<Vec<Slice>> {
        let drop = |slice: Slice| async move {
            self.forget(&slice.name);
            match self.shared.store.delete_table(&slice.table).await {
                Err(error) if !is_gone(&error) => Err(error),
                _ => Ok(slice),
            }
        };
        stream::iter(slices).map(drop).buffered(self.shared.concurrency).try_collect().await
    }

    /// The slice's table, made at most once however many ask.
    async fn made(&self, name: &str) -> Result<Slice> {
        let cell = Arc::clone(self.shared.known().entry(name.to_owned()).or_default());
        cell.get_or_try_init(|| self.make(name)).await.cloned()
    }

    async fn make(&self, name: &str) -> Result<Slice> {
        match self.shared.reuse {
            Reuse::Wait(at_most) => self.make_in_time(name, at_most).await,
            Reuse::Generation => match self.list(name).await?.into_iter().rfind(|slice| slice.name == name) {
                Some(latest) => Ok(latest),
                None => self.make_generation(name).await,
            },
        }
    }

    async fn make_in_time(&self, name: &str, at_most: Duration) -> Result<Slice> {
        let table = self.shared.table(name, 0)?;
        let (started, mut pause) = (tokio::time::Instant::now(), FIRST_PAUSE);
        loop {
            match self.shared.store.create_table_if_missing(&table).await {
                Err(error) if is_being_deleted(&error) && started.elapsed() + pause <= at_most => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                made => return made.and_then(|_| self.shared.slice(&table)),
            }
        }
    }

    async fn make_generation(&self, name: &str) -> Result<Slice> {
        let mut generation = 0;
        loop {
            let table = self.shared.table(name, generation)?;
            match self.shared.store.create_table_if_missing(&table).await {
                Err(error) if is_being_deleted(&error) && generation < GENERATIONS => generation += 1,
                made => return made.and_then(|_| self.shared.slice(&table)),
            }
        }
    }

    fn forget(&self, name: &str) {
        self.shared.known().remove(name);
    }

    pub(super) fn store(&self) -> &Arc<dyn TableStore> {
        &self.shared.store
    }

    pub(super) fn time(&self) -> &TimeOf<T> {
        &self.shared.time
    }

    pub(super) fn concurrency(&self) -> usize {
        self.shared.concurrency
    }
}

impl<T: TableEntity> TimeSlices<T> {
    /// Adds an entity to the slice of its time. One request; the first of a handle into a slice makes the table.
    ///
    /// # Errors
    /// Entity already exists; the store's; the name is still being deleted.
    pub async fn insert(&self, entity: &T) -> Result<Written> {
        self.write(entity, async |table: Table<T>| table.insert(entity).await).await
    }

    /// Writes an entity to the slice of its time, whatever was there. One request, as for [`insert`](Self::insert).
    ///
    /// # Errors
    /// The store's; the name is still being deleted.
    pub async fn insert_or_replace(&self, entity: &T) -> Result<Written> {
        self.write(entity, async |table: Table<T>| table.insert_or_replace(entity).await).await
    }

    /// Writes to a table that may have been dropped since it was made: then makes it again.
    async fn write(&self, entity: &T, write: impl AsyncFn(Table<T>) -> Result<Written>) -> Result<Written> {
        let at = (self.shared.time)(entity);
        match write(self.table_for(at).await?).await {
            Err(error) if is_gone(&error) => {
                self.forget(&self.shared.slicing.name(at));
                write(self.table_for(at).await?).await
            }
            written => written,
        }
    }
}

impl<T> Shared<T> {
    /// The same without what is known of tables.
    fn fresh(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            family: self.family.clone(),
            slicing: Arc::clone(&self.slicing),
            time: Arc::clone(&self.time),
            reuse: self.reuse,
            concurrency: self.concurrency,
            known: Mutex::default(),
        }
    }

    fn table(&self, name: &str, generation: u32) -> Result<TableName> {
        match generation {
            0 => TableName::new(format!("{}{name}", self.family)),
            _ => TableName::new(format!("{}{name}G{generation}", self.family)),
        }
    }

    fn slice(&self, table: &TableName) -> Result<Slice> {
        Slice::of_table(&self.family, &*self.slicing, table).ok_or_else(|| {
            Error::invalid_name(
                "table name",
                table.as_str(),
                "the slicing does not know the name that it gave",
            )
        })
    }

    // The map is whole after every statement: a panic elsewhere leaves nothing to repair.
    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<Slice>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_being_deleted(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TableBeingDeleted { .. })
}

/// Whether the table was dropped.
pub(super) fn is_gone(error: &Error) -> bool {
    error.is_table_not_found() || is_being_deleted(error)
}
