//! The handle of data series: reads and writes of slots.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Index;
use std::sync::Arc;

use table_core::model::{Entity, IfMatch, Key, Properties, TableName};
use table_core::query::{Query, Select};
use table_core::store::limits::GROUP_OPERATIONS;
use table_core::store::{Conflicts, Error, Operation, Result, TableStore, TableStoreExt};
use table_core::typed::{Plain, Property};

use super::layout::Layout;
use super::{SlotCodec, SlotSet};
use crate::rows::{plain, with_entity_key};

/// The series of a table: values of type `V` in slots of the set `S`, stored by the codec `C`. See the [module](super).
///
/// One handle serves all series of the table with these slots. The key of the first row identifies a series.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::{memory::MemoryStore, model::Key};
/// use table_patterns::series::{DataSeries, Hours};
///
/// let messages = DataSeries::<Hours, i64>::new(MemoryStore::new(), "Messages", Hours)?;
/// messages.create_if_missing().await?; // 1 request
///
/// let today = Key::new("Sales", "empid_000223_2013-01-15")?;
/// messages.set(&today, 9, &12).await?; // 1 request, without reading
/// messages.add(&today, 10, 3).await?; // 2 requests
/// let day = messages.get(&today).await?; // 1 request
/// assert_eq!((day[9], day[10], day[11]), (Some(12), Some(3), None));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DataSeries<S, V, C = Plain> {
    store: Arc<dyn TableStore>,
    table: TableName,
    layout: Arc<Layout<S>>,
    attempts: u32,
    of: PhantomData<fn() -> (V, C)>,
}

impl<S, V, C> Clone for DataSeries<S, V, C> {
    fn clone(&self) -> Self {
        let (store, table) = (Arc::clone(&self.store), self.table.clone());
        Self {
            store,
            table,
            layout: Arc::clone(&self.layout),
            attempts: self.attempts,
            of: PhantomData,
        }
    }
}

impl<S: SlotSet, V: Property> DataSeries<S, V> {
    /// Opens the series of a table. No request; the table must exist when the series are used.
    ///
    /// # Errors
    /// An invalid table name; two slots with one property name; more than a million rows.
    pub fn new<T, N>(store: T, table: N, slots: S) -> Result<Self>
    where
        T: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        Self::with_codec(store, table, slots)
    }
}

impl<S: SlotSet, V: Send + Sync, C: SlotCodec<V>> DataSeries<S, V, C> {
    /// Opens the series of a table with the codec `C`: `DataSeries::<Hours, Wind, Grouped>::with_codec`. No request.
    ///
    /// # Errors
    /// As [`new`](DataSeries::new); a value type without fields, or whose largest value does not fit into a row; a field
    /// that must be encrypted and a store that does not encrypt.
    pub fn with_codec<T, N>(store: T, table: N, slots: S) -> Result<Self>
    where
        T: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let (store, table) = (store.into_shared(), table.try_into().map_err(Into::into)?);
        let encrypted = encrypted_properties::<S, V, C>(&slots);
        store.check_encrypts(
            &table,
            &encrypted.iter().map(String::as_str).collect::<Vec<_>>(),
        )?;
        let layout = Arc::new(Layout::new::<V, C>(slots)?);
        Ok(Self {
            store,
            table,
            layout,
            attempts: Conflicts::ATTEMPTS,
            of: PhantomData,
        })
    }

    /// Creates the table if it is missing. Returns whether the table was created. 1 request.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.store.create_table_if_missing(&self.table).await
    }

    /// Sets the number of slots in a row. The default is as many as fit with the largest values.
    ///
    /// More slots per row suit strings that are short; fewer slots per row spread writers over rows. The number
    /// determines the row of each value: do not change it once values are stored. The service refuses a value whose row
    /// would be larger than 1 MiB.
    ///
    /// # Errors
    /// More slots than an entity has room for; more than a million rows; a handle that was cloned before.
    pub fn with_slots_per_row(self, slots: usize) -> Result<Self> {
        let layout = Arc::try_unwrap(self.layout);
        let layout = layout.map_err(|_| {
            Error::misuse("the handle was cloned: set the slots per row before the first clone")
        })?;
        Ok(Self {
            layout: Arc::new(layout.with_slots_per_row(slots)?),
            ..self
        })
    }

    /// Sets how often an update is attempted if other writers change the row first; at least 1, by default 10.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// The set of slots.
    pub fn slots(&self) -> &S {
        &self.layout.slots
    }

    /// Sets a slot without reading it. 1 request. Of several writers of one slot, the last one wins.
    ///
    /// # Errors
    /// A slot that is not in the set; a value that cannot be stored; errors of the store.
    pub async fn set(&self, series: &Key, slot: S::Slot, value: &V) -> Result<()> {
        let (row, patch) = self.patch(&slot, value)?;
        let merge =
            Operation::InsertOrMerge(Entity::from_parts(self.layout.key(series, row)?, patch));
        plain::write(&*self.store, &self.table, merge)
            .await
            .map(drop)
    }

    /// Sets several slots atomically. 1 request; 0 for no values. If a slot comes twice, the last value counts.
    ///
    /// # Errors
    /// As [`set`](Self::set); more rows or bytes than a group transaction takes.
    pub async fn set_many(
        &self,
        series: &Key,
        values: impl IntoIterator<Item = (S::Slot, V)>,
    ) -> Result<()> {
        let mut merges = Vec::new();
        for (row, patch) in self.patches(values)? {
            let key = self.layout.key(series, row)?;
            merges.push(Operation::InsertOrMerge(Entity::from_parts(key, patch)));
        }
        plain::write_together(&*self.store, &self.table, &merges)
            .await
            .map(drop)
    }

    /// Reads the whole series. A series that was never written is empty. 1 request per 1000 rows.
    ///
    /// # Errors
    /// Errors of the store; a stored value of another type.
    pub async fn get(&self, series: &Key) -> Result<Series<S, V>> {
        let mut values: Vec<Option<V>> = Vec::new();
        values.resize_with(self.slots().count(), || None);
        for (row, entity) in self.stored_rows(series).await? {
            for index in self.layout.slots_of(row) {
                values[index] = C::read(&self.slots().name(index), &entity)?;
            }
        }
        Ok(Series {
            layout: Arc::clone(&self.layout),
            values,
        })
    }

    /// Reads one slot; `None` if it is missing. 1 request.
    ///
    /// # Errors
    /// As [`get`](Self::get); a slot that is not in the set.
    pub async fn get_slot(&self, series: &Key, slot: S::Slot) -> Result<Option<V>> {
        let index = self.layout.index(&slot)?;
        let row = self.row_of(series, index).await?;
        row.map_or(Ok(None), |row| C::read(&self.slots().name(index), &row))
    }

    /// Reads a slot, calls `change` for the new value, and merges the value under the row's ETag. After a conflict the
    /// update starts again. Returns the new value. 2 requests, and 2 per conflict.
    ///
    /// # Errors
    /// The error of `change`, with nothing written; precondition failed, after the last attempt; as [`set`](Self::set).
    pub async fn modify(
        &self,
        series: &Key,
        slot: S::Slot,
        mut change: impl FnMut(Option<V>) -> Result<V>,
    ) -> Result<V> {
        let index = self.layout.index(&slot)?;
        let name = self.slots().name(index);
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let stored = self.row_of(series, index).await?;
            let value = change(
                stored
                    .as_ref()
                    .map_or(Ok(None), |row| C::read(&name, row))?,
            )?;
            let (row, patch) = self.patch(&slot, &value)?;
            let patch = Entity::from_parts(self.layout.key(series, row)?, patch);
            let operation = match stored {
                Some(row) => Operation::Merge(patch, row.version()?),
                // Not insert-or-merge: a writer that has set the slot since the read must win over this
                // value.
                None => Operation::Insert(patch),
            };
            match plain::write(&*self.store, &self.table, operation).await {
                Err(error) => conflicts.wait(with_entity_key(series, error)).await?,
                Ok(_) => return Ok(value),
            }
        }
    }

    /// The row of a slot, and the properties that set its value.
    fn patch(&self, slot: &S::Slot, value: &V) -> Result<(usize, Properties)> {
        let index = self.layout.index(slot)?;
        let mut patch = Properties::new();
        C::write(&self.slots().name(index), value, &mut patch)?;
        Ok((self.layout.row_of(index), patch))
    }

    /// The properties that set several slots, by row.
    fn patches(
        &self,
        values: impl IntoIterator<Item = (S::Slot, V)>,
    ) -> Result<BTreeMap<usize, Properties>> {
        let mut rows = BTreeMap::<usize, Properties>::new();
        for (slot, value) in values {
            let (row, patch) = self.patch(&slot, &value)?;
            rows.entry(row).or_default().merge(&patch);
        }
        Ok(rows)
    }

    /// Reads the row of a slot, with the properties of this slot alone. 1 request.
    async fn row_of(&self, series: &Key, index: usize) -> Result<Option<Entity>> {
        let name = self.slots().name(index);
        let select = Select::new(C::suffixes().iter().map(|suffix| format!("{name}{suffix}")));
        self.store
            .get(
                &self.table,
                &self.layout.key(series, self.layout.row_of(index))?,
                Some(&select),
            )
            .await
    }

    /// Reads the stored rows with their numbers. 1 request per 1000 rows.
    async fn stored_rows(&self, series: &Key) -> Result<Vec<(usize, Entity)>> {
        if self.layout.rows() <= 1 {
            let entity = self.store.get(&self.table, series, None).await?;
            return Ok(entity.map(|entity| (0, entity)).into_iter().collect());
        }
        let query = Query::new().with_filter(self.layout.range(series)?);
        let rows = self.store.query_all(&self.table, &query).await?.into_iter();
        Ok(rows
            .filter_map(|row| Some((self.layout.row_at(series, row.key())?, row)))
            .collect())
    }

    /// Removes the value of a slot. Returns whether the slot had a value. 2 requests, and 2 per conflict.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    pub async fn clear(&self, series: &Key, slot: S::Slot) -> Result<bool> {
        let index = self.layout.index(&slot)?;
        let key = self.layout.key(series, self.layout.row_of(index))?;
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let Some(entity) = self.store.get(&self.table, &key, None).await? else {
                return Ok(false);
            };
            let Some(operation) = self.remove_slot(entity, index)? else {
                return Ok(false);
            };
            match plain::write(&*self.store, &self.table, operation).await {
                Err(error) => conflicts.wait(with_entity_key(series, error)).await?,
                Ok(_) => return Ok(true),
            }
        }
    }

    /// Deletes a series. Returns whether the series existed. 1 request; if a series can have several rows, 1 per 1000 rows
    /// and 1 per 100 rows, and again after a conflict.
    ///
    /// The deletion of more than 100 rows is not atomic: repeat a deletion that failed.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn delete(&self, series: &Key) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            match self.delete_rows(series).await {
                // Another process has deleted some of the rows. The rest is read again.
                Err(error) if error.is_conflict() && self.layout.rows() > 1 => {
                    conflicts.wait(error).await?;
                }
                // After a lost answer, a missing row may be the row that this call has deleted: that error stays ambiguous.
                Err(error) if error.is_certainly_missing() => return Ok(false),
                deleted => return deleted,
            }
        }
    }

    async fn delete_rows(&self, series: &Key) -> Result<bool> {
        if self.layout.rows() <= 1 {
            let delete = Operation::Delete(series.clone(), IfMatch::Any);
            return plain::write(&*self.store, &self.table, delete)
                .await
                .map(|_| true);
        }
        let rows = self.stored_rows(series).await?;
        // A crash between two groups leaves the later rows, which are still rows of the series: a repeated call deletes them.
        for chunk in rows.chunks(GROUP_OPERATIONS) {
            let delete =
                |(_, entity): &(_, Entity)| Operation::Delete(entity.key().clone(), IfMatch::Any);
            let deletions: Vec<_> = chunk.iter().map(delete).collect();
            plain::write_together(&*self.store, &self.table, &deletions).await?;
        }
        Ok(!rows.is_empty())
    }

    /// The operation that removes a slot from a row; `None` if the slot has no value.
    fn remove_slot(&self, mut entity: Entity, index: usize) -> Result<Option<Operation>> {
        let (version, slot) = (entity.version()?, self.slots().name(index));
        let before = entity.properties().len();
        for suffix in C::suffixes() {
            entity.properties_mut().remove(&format!("{slot}{suffix}"));
        }
        let removed = entity.properties().len() < before;
        // A merge cannot remove a property, so the row is replaced.
        Ok(removed.then(|| match entity.properties().is_empty() {
            true => Operation::Delete(entity.key().clone(), version),
            false => Operation::Replace(entity, version),
        }))
    }
}

/// The names of all properties that must be encrypted.
fn encrypted_properties<S: SlotSet, V, C: SlotCodec<V>>(slots: &S) -> Vec<String> {
    let of_slot = |index| {
        let slot = slots.name(index);
        C::encrypted()
            .into_iter()
            .map(move |suffix| format!("{slot}{suffix}"))
    };
    (0..slots.count()).flat_map(of_slot).collect()
}

impl<S: SlotSet, V: Counter, C: SlotCodec<V>> DataSeries<S, V, C> {
    /// Adds to the value of a slot; a missing slot counts as zero. Returns the sum. No update is lost. 2 requests, and 2
    /// per conflict.
    ///
    /// # Errors
    /// As [`modify`](Self::modify); a sum that is out of the type's range.
    pub async fn add(&self, series: &Key, slot: S::Slot, amount: V) -> Result<V> {
        let name = self.slots().name(self.layout.index(&slot)?);
        let add = |value: Option<V>| {
            let sum = value.unwrap_or_default().plus(amount);
            sum.ok_or_else(|| Error::invalid_value(&*name, "the sum is out of the type's range"))
        };
        self.modify(series, slot, add).await
    }
}

/// A number type whose addition detects overflow.
pub trait Counter: Copy + Default + Send + Sync {
    /// The sum; `None` if the sum is out of range.
    fn plus(self, other: Self) -> Option<Self>;
}

macro_rules! counters {
    ($($number:ty)*) => {$(
        impl Counter for $number {
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
        }
    )*};
}

counters! { i8 i16 i32 i64 u8 u16 u32 u64 }

impl Counter for f64 {
    fn plus(self, other: Self) -> Option<Self> {
        Some(self + other)
    }
}

/// The values of a series, as a read returned them.
#[derive(Debug)]
pub struct Series<S, V> {
    layout: Arc<Layout<S>>,
    values: Vec<Option<V>>,
}

impl<S: SlotSet, V> Series<S, V> {
    /// The value of a slot; `None` if the slot is missing or not in the set.
    pub fn get(&self, slot: &S::Slot) -> Option<&V> {
        self.values.get(self.layout.slots.index(slot)?)?.as_ref()
    }

    /// The values in the order of slots; `None` for missing values.
    pub fn values(&self) -> &[Option<V>] {
        &self.values
    }

    /// The slots with a value, each with its value.
    pub fn iter(&self) -> impl Iterator<Item = (S::Slot, &V)> {
        let slots = self.values.iter().enumerate();
        slots.filter_map(|(index, value)| Some((self.layout.slots.slot(index), value.as_ref()?)))
    }

    /// Whether no slot has a value.
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }
}

/// Indexes by the number of a slot, from 0.
impl<S, V> Index<usize> for Series<S, V> {
    type Output = Option<V>;

    fn index(&self, index: usize) -> &Option<V> {
        &self.values[index]
    }
}
