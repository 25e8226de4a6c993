use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use table_core::model::{Entity, Key, Properties, TableName};
use table_core::query::{Query, Select};
use table_core::store::{Error, GroupTransaction, Operation, Result, TableStore, TableStoreExt};
use table_core::typed::{Plain, Property};

use super::layout::Layout;
use super::{Series, SlotCodec, SlotSet};
use crate::rows::conflict::{ATTEMPTS, Conflicts, told_of, version_of};
use crate::rows::plain;

/// Series of values of type `V` in the slots `S`, stored by the codec `C`. See the [module](super).
///
/// One handle serves all series of a table that have these slots; a key names the series.
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
    pub(super) store: Arc<dyn TableStore>,
    pub(super) table: TableName,
    pub(super) layout: Arc<Layout<S>>,
    pub(super) attempts: u32,
    of: PhantomData<fn() -> (V, C)>,
}

impl<S, V, C> Clone for DataSeries<S, V, C> {
    fn clone(&self) -> Self {
        let (store, table) = (Arc::clone(&self.store), self.table.clone());
        Self { store, table, layout: Arc::clone(&self.layout), attempts: self.attempts, of: PhantomData }
    }
}

impl<S: SlotSet, V: Property> DataSeries<S, V> {
    /// Opens the series of a table. No request: the table must exist when it is used.
    ///
    /// # Errors
    /// The name is not legal; two slots would share a property; more rows than a series has.
    pub fn new<T, N>(store: T, table: N, slots: S) -> Result<Self>
    where
        T: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        Self::with_codec(store, table, slots)
    }
}

impl<S: SlotSet, V: Send + Sync, C: SlotCodec<V>> DataSeries<S, V, C> {
    /// [`new`](DataSeries::new) with a codec that the type names: `DataSeries::<Hours, Wind, Grouped>::with_codec`.
    ///
    /// # Errors
    /// As [`new`](DataSeries::new); a slot has no property, or can be larger than a row; a field is to be encrypted
    /// and the store does not encrypt.
    pub fn with_codec<T, N>(store: T, table: N, slots: S) -> Result<Self>
    where
        T: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let (store, table) = (store.into_shared(), table.try_into().map_err(Into::into)?);
        let encrypted = encrypted::<S, V, C>(&slots);
        store.check_encrypts(&table, &encrypted.iter().map(String::as_str).collect::<Vec<_>>())?;
        let layout = Arc::new(Layout::new::<V, C>(slots)?);
        Ok(Self { store, table, layout, attempts: ATTEMPTS, of: PhantomData })
    }

    /// Creates the table unless it is there; whether it was created. One request.
    ///
    /// # Errors
    /// The store's.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.store.create_table_if_missing(&self.table).await
    }

    /// Puts so many slots into a row instead of as many as fit with the largest values: for texts that are known
    /// to be short, or to spread writers over rows. It decides where values are: never change it once there
    /// are some.
    ///
    /// That so many *values* fit a row of 1 MiB is for the caller to know: a slot is refused by the service when its
    /// row is full.
    ///
    /// # Errors
    /// Slots of more properties than an entity has room for, or more rows than a series has.
    pub fn with_slots_per_row(self, slots: usize) -> Result<Self> {
        let layout = Arc::try_unwrap(self.layout);
        let layout = layout.map_err(|_| Error::invalid_request("set the slots per row before cloning"))?;
        Ok(Self { layout: Arc::new(layout.with_slots_per_row(slots)?), ..self })
    }

    /// Another bound on the attempts of an update that loses against other writers; at least 1, and 10 unless told
    /// otherwise.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// The slots.
    pub fn slots(&self) -> &S {
        &self.layout.slots
    }

    /// Sets a slot. One request, without reading: the last writer of a slot wins.
    ///
    /// # Errors
    /// No such slot; a value that cannot be stored; the store's.
    pub async fn set(&self, series: &Key, slot: S::Slot, value: &V) -> Result<()> {
        let (row, patch) = self.patch(&slot, value)?;
        let merge = Operation::InsertOrMerge(Entity::from_parts(self.layout.key(series, row)?, patch));
        plain::write(&*self.store, &self.table, merge).await.map(drop)
    }

    /// Sets several slots, all or none. One request, none for nothing. Of a slot that comes twice, the last.
    ///
    /// # Errors
    /// As [`set`](Self::set); more than a group transaction takes.
    pub async fn set_many(&self, series: &Key, values: impl IntoIterator<Item = (S::Slot, V)>) -> Result<()> {
        let mut group = GroupTransaction::new(series.partition_key(), self.store.profile());
        for (row, patch) in self.patches(values)? {
            let key = self.layout.key(series, row)?;
            group.push(Operation::InsertOrMerge(Entity::from_parts(key, patch)))?;
        }
        match group.len() {
            0 => Ok(()),
            1 => plain::write(&*self.store, &self.table, group.into_operations().remove(0)).await.map(drop),
            _ => plain::transact(&*self.store, &self.table, group).await.map(drop),
        }
    }

    /// The whole series; without any value where nothing was ever set. One request a page: a page holds 1000 rows.
    ///
    /// # Errors
    /// The store's; a value of another type.
    pub async fn get(&self, series: &Key) -> Result<Series<S, V>> {
        let mut values: Vec<Option<V>> = Vec::new();
        values.resize_with(self.slots().count(), || None);
        for (row, entity) in self.stored(series).await? {
            for index in self.layout.slots_of(row) {
                values[index] = C::read(&self.slots().name(index), &entity)?;
            }
        }
        Ok(Series { layout: Arc::clone(&self.layout), values })
    }

    /// One slot. One request.
    ///
    /// # Errors
    /// As [`get`](Self::get); no such slot.
    pub async fn get_slot(&self, series: &Key, slot: S::Slot) -> Result<Option<V>> {
        let name = self.slots().name(self.layout.index(&slot)?);
        let entity = self.row(series, &slot).await?;
        entity.map_or(Ok(None), |entity| C::read(&name, &entity))
    }

    /// Reads a slot, lets `change` decide on its new value, and merges that under the row's ETag; from the start
    /// if another writer was quicker. Two requests, and two more for each conflict.
    ///
    /// # Errors
    /// Of `change`, with nothing written; precondition failed after the last attempt; as [`set`](Self::set).
    pub async fn modify(
        &self,
        series: &Key,
        slot: S::Slot,
        mut change: impl FnMut(Option<V>) -> Result<V>,
    ) -> Result<V> {
        let name = self.slots().name(self.layout.index(&slot)?);
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let read = self.row(series, &slot).await?;
            let value = change(read.as_ref().map_or(Ok(None), |entity| C::read(&name, entity))?)?;
            let (row, patch) = self.patch(&slot, &value)?;
            let patch = Entity::from_parts(self.layout.key(series, row)?, patch);
            let operation = match read {
                Some(entity) => Operation::Merge(patch, version_of(&entity)?),
                None => Operation::Insert(patch),
            };
            match plain::write(&*self.store, &self.table, operation).await {
                Err(error) => conflicts.wait(told_of(series, error)).await?,
                Ok(_) => return Ok(value),
            }
        }
    }

    fn patch(&self, slot: &S::Slot, value: &V) -> Result<(usize, Properties)> {
        let index = self.layout.index(slot)?;
        let mut patch = Properties::new();
        C::write(&self.slots().name(index), value, &mut patch)?;
        Ok((self.layout.row_of(index), patch))
    }

    fn patches(&self, values: impl IntoIterator<Item = (S::Slot, V)>) -> Result<BTreeMap<usize, Properties>> {
        let mut rows = BTreeMap::<usize, Properties>::new();
        for (slot, value) in values {
            let (row, patch) = self.patch(&slot, &value)?;
            rows.entry(row).or_default().merge(&patch);
        }
        Ok(rows)
    }

    /// The slot's properties, in their row.
    async fn row(&self, series: &Key, slot: &S::Slot) -> Result<Option<Entity>> {
        let index = self.layout.index(slot)?;
        let name = self.slots().name(index);
        let select = Select::new(C::suffixes().iter().map(|suffix| format!("{name}{suffix}")));
        self.store.get(&self.table, &self.layout.key(series, self.layout.row_of(index))?, Some(&select)).await
    }

    /// The rows there are.
    pub(super) async fn stored(&self, series: &Key) -> Result<Vec<(usize, Entity)>> {
        if self.layout.rows() <= 1 {
            let entity = self.store.get(&self.table, series, None).await?;
            return Ok(entity.map(|entity| (0, entity)).into_iter().collect());
        }
        let query = Query::new().with_filter(self.layout.range(series)?);
        let rows = self.store.query_all(&self.table, &query).await?.into_iter();
        Ok(rows.filter_map(|row| Some((self.layout.row_at(series, row.key())?, row))).collect())
    }
}

/// The properties of all slots that must be encrypted.
fn encrypted<S: SlotSet, V, C: SlotCodec<V>>(slots: &S) -> Vec<String> {
    let of_slot = |index| {
        let slot = slots.name(index);
        C::encrypted().into_iter().map(move |suffix| format!("{slot}{suffix}"))
    };
    (0..slots.count()).flat_map(of_slot).collect()
}
