use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use table_core::model::{TableName, Ticks};
use table_core::store::{Error, Result, TableStore, TableStoreExt as _, Written};
use table_core::typed::{FromEntity, Table, TableEntity};
use tokio::sync::OnceCell;

use super::tables::{GENERATIONS, is_gone};
use super::{Slice, SliceQuery, Slicing};
use crate::rows::conflict::ATTEMPTS;

/// Requests in flight unless told otherwise.
const CONCURRENCY: usize = 8;

/// Times that a write makes a table which others drop before the row is in it.
const MAKES: u32 = 10;

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
    /// would tell where the slice starts. `T` declares indexes, large fields or spread keys, which a family does not
    /// keep, or encrypted ones and the store does not encrypt, or one in plaintext that a rule of the store encrypts in a table of
    /// the family's name: mark the field.
    pub fn new(
        store: impl TableStore,
        family: &str,
        slicing: impl Slicing,
        time: impl Fn(&T) -> Ticks + Send + Sync + 'static,
    ) -> Result<Self> {
        let slice = TableName::new(format!("{family}{}G{GENERATIONS}", slicing.name(Ticks::MIN)))?;
        let store = store.into_shared();
        Table::<T>::new(Arc::clone(&store), slice)?;
        // A rule for the family's name reaches none of its tables, and is meant for all of them.
        if let Ok(all) = TableName::new(family) {
            store.check_unencrypted(&all, &T::unencrypted())?;
        }
        if let Some(index) = T::indexes().first() {
            return Err(Error::invalid_request(format!(
                "a family of tables does not maintain the index '{}': leave it out, or keep the entities in one table, \
                 an `IndexedTable`",
                index.name
            )));
        }
        if family.ends_with(|c: char| c.is_ascii_digit()) {
            return Err(Error::invalid_name("family", family, "let it end in a letter: the slice follows"));
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
            attempts: ATTEMPTS,
            known,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What to do while a name is being deleted. Knows nothing of tables yet. Handles that chose differently read and
    /// write the same entities: each writes to the latest table of a slice that is there when it first asks.
    #[must_use]
    pub fn with_reuse(self, reuse: Reuse) -> Self {
        Self { shared: Arc::new(Shared { reuse, ..self.shared.fresh() }) }
    }

    /// Another bound on the requests that one call has in flight; at least 1, and 8 unless told otherwise.
    #[must_use]
    pub fn with_concurrency(self, requests: usize) -> Self {
        Self { shared: Arc::new(Shared { concurrency: requests.max(1), ..self.shared.fresh() }) }
    }

    /// Another bound on the attempts of a write that loses against other writers; at least 1, and 10 unless told otherwise.
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self { shared: Arc::new(Shared { attempts: attempts.max(1), ..self.shared.fresh() }) }
    }

    /// The table of a moment, made if it is missing, for all that a [`Table`] can do. No request if this handle knows
    /// it; else as the first insert.
    ///
    /// # Errors
    /// The store's; the name is still being deleted.
    pub async fn table_for(&self, at: Ticks) -> Result<Table<T>> {
        let slice = self.made(&self.shared.slicing.name(at)).await?;
        self.table_of(slice.table)
    }

    /// The name of a moment's first table, whether it is there or not: for rows that a bulk writer takes there. No
    /// request.
    ///
    /// # Errors
    /// None, unless the slicing's names grow.
    pub fn table_name(&self, at: Ticks) -> Result<TableName> {
        self.shared.table(&self.shared.slicing.name(at), 0)
    }

    pub(super) fn table_of(&self, name: TableName) -> Result<Table<T>> {
        let Shared { store, concurrency, attempts, .. } = &*self.shared;
        Ok(Table::new(Arc::clone(store), name)?.with_concurrency(*concurrency).with_attempts(*attempts))
    }

    /// Everything in the family, until it is narrowed down.
    pub fn query(&self) -> SliceQuery<T> {
        SliceQuery::new(self.clone())
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
    /// Adds an entity to the slice of its time. One request; the first of a handle into a slice looks for its tables,
    /// and makes one.
    ///
    /// # Errors
    /// Entity already exists; the store's; the name is still being deleted, or was dropped ten times as soon as it was made.
    pub async fn insert(&self, entity: &T) -> Result<Written> {
        self.write(entity, Verb::Insert).await
    }

    /// Writes an entity to the slice of its time, whatever was there. One request, as for [`insert`](Self::insert); two for a
    /// type that has a `type` or a `version`, which may be stored in a later one.
    ///
    /// # Errors
    /// The store's; the name is still being deleted, or was dropped as for [`insert`](Self::insert).
    pub async fn upsert(&self, entity: &T) -> Result<Written> {
        self.write(entity, Verb::Upsert).await
    }

    /// Adds an entity to the slice of its time, or writes its properties over those of the one that is there. A field that is
    /// `None` keeps what is stored, and so do properties that `T` does not know. Requests as for [`upsert`](Self::upsert).
    ///
    /// # Errors
    /// As for [`upsert`](Self::upsert). The entity that is there is of another type, or stored in another version of the schema:
    /// [`update`](Self::update) it.
    pub async fn insert_or_merge(&self, entity: &T) -> Result<Written> {
        self.write(entity, Verb::InsertOrMerge).await
    }

    /// Rewrites every entity of every slice that is stored in an older version of its schema; how many there were. A slice that is
    /// dropped meanwhile is passed over. See [`Table::upgrade_all`].
    ///
    /// One request to list the tables, one for each page of rows of each slice, one after another, and one for each older entity, as many at
    /// once as [`with_concurrency`](Self::with_concurrency) allows.
    ///
    /// # Errors
    /// As [`Table::upgrade_all`].
    pub async fn upgrade_all(&self) -> Result<u64> {
        let mut upgraded = 0;
        for slice in self.slices().await? {
            let table = Table::<T>::new(Arc::clone(&self.shared.store), slice.table)?;
            match table.with_concurrency(self.shared.concurrency).upgrade_all().await {
                Err(error) if is_gone(&error) => {}
                done => upgraded += done?,
            }
        }
        Ok(upgraded)
    }

    /// Writes to a table that may have been dropped since it was made: then makes it again, unless it is dropped as often
    /// as it is made.
    async fn write(&self, entity: &T, verb: Verb) -> Result<Written> {
        let at = (self.shared.time)(entity);
        let mut left = MAKES;
        loop {
            let table = self.table_for(at).await?;
            let written = match verb {
                Verb::Insert => table.insert(entity).await,
                Verb::Upsert => table.upsert(entity).await,
                Verb::InsertOrMerge => table.insert_or_merge(entity).await,
            };
            left -= 1;
            match written {
                Err(error) if is_gone(&error) && left > 0 => self.forget(&self.shared.slicing.name(at)),
                written => return written,
            }
        }
    }
}

/// A write of one entity to a slice that is made for it.
#[derive(Clone, Copy)]
enum Verb {
    Insert,
    Upsert,
    InsertOrMerge,
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
            attempts: self.attempts,
            known: Mutex::default(),
        }
    }

    pub(super) fn table(&self, name: &str, generation: u32) -> Result<TableName> {
        match generation {
            0 => TableName::new(format!("{}{name}", self.family)),
            _ => TableName::new(format!("{}{name}G{generation}", self.family)),
        }
    }

    pub(super) fn slice(&self, table: &TableName) -> Result<Slice> {
        Slice::of_table(&self.family, &*self.slicing, table).ok_or_else(|| {
            Error::invalid_name(
                "table name",
                table.as_str(),
                "the slicing does not know the name that it gave",
            )
        })
    }

    // The map is whole after every statement: a panic elsewhere leaves nothing to repair.
    pub(super) fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<Slice>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
