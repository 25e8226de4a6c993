//! The handle of a spread table: its settings, and where the row of an entity is.

use std::fmt;
use std::sync::Arc;

use table_core::model::{Key, PartitionKey, TableName};
use table_core::store::{Conflicts, Error, Result, TableStore};
use table_core::typed::{Discriminator, KeyOf, PartitionIn, PlainTable, Spread, TableEntity};

use super::SpreadRow;
use super::place::{stored_key, stored_partition};

/// The default number of requests in flight.
const CONCURRENCY: usize = 16;

/// A table whose logical partitions are spread over buckets. See the [module](super).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::spread::SpreadTable;
///
/// #[derive(Debug, TableEntity)]
/// struct Event {
///     #[partition_key(spread = 16)]
///     day: String,
///     #[row_key(format = "{:06}")]
///     number: u32,
/// }
///
/// let events = SpreadTable::<Event>::new(Arc::new(MemoryStore::new()), "Events")?;
/// events.create_if_missing().await?;
/// for number in 0..100 {
///     events.insert(&Event { day: "2013-01-01".into(), number }).await?;
/// }
/// assert!(events.get(Event::key("2013-01-01", 7u32)?).await?.is_some());
///
/// let all: Vec<Event> = events.query().partition(Event::partition("2013-01-01")?).all().await?;
/// assert!(all.iter().map(|event| event.number).eq(0..100));
/// # Ok(())
/// # }
/// ```
pub struct SpreadTable<T> {
    pub(super) table: PlainTable<SpreadRow<T>>,
    /// The table with rows that have expired or are deleted, for writes.
    pub(super) rows: PlainTable<SpreadRow<T>>,
    pub(super) spread: Spread,
    pub(super) previous: Option<Spread>,
    pub(super) attempts: u32,
    pub(super) concurrency: usize,
}

impl<T: TableEntity> SpreadTable<T> {
    /// Opens a table. No request.
    ///
    /// # Errors
    /// An invalid table name; `T` does not declare `spread`, or declares indexes, large fields, or a discriminator in the
    /// partition key.
    pub fn new<S, N>(store: S, name: N) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let schema = T::SCHEMA;
        let refuse = |reason: &str| {
            Err(Error::invalid_declaration(format!(
                "{}: {reason}",
                schema.rust_name
            )))
        };
        let Some(spread) = schema.spread else {
            return refuse("its keys are not spread: add `#[partition_key(spread = 16)]`");
        };
        if matches!(schema.discriminator, Discriminator::PartitionPrefix(_)) {
            return refuse(
                "its discriminator is a prefix of the PartitionKey, which starts with the bucket: use a property",
            );
        }
        if !schema.indexes.is_empty() {
            return refuse(
                "it declares indexes, which a spread table does not maintain: remove them",
            );
        }
        let table: PlainTable<SpreadRow<T>> = PlainTable::new(store, name)?;
        Ok(Self {
            rows: table.clone().with_hidden(),
            table,
            spread,
            previous: None,
            attempts: Conflicts::ATTEMPTS,
            concurrency: CONCURRENCY,
        })
    }

    /// Also looks for entities in the buckets of an earlier declaration, until [`migrate`](Self::migrate) has moved them.
    /// A number alone means an empty salt.
    #[must_use]
    pub fn with_previous(mut self, previous: impl Into<Spread>) -> Self {
        self.previous = Some(previous.into()).filter(|previous| *previous != self.spread);
        self
    }

    /// Sets how often a write is attempted if other writers or a migration change the entity first; by default 10. The
    /// pauses between attempts are random, at most half a second each, and about a second in all with 10 attempts.
    #[must_use]
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Makes all reads return hidden entities too: those that have expired or are deleted and kept. `update` and `merge` then change them.
    #[must_use]
    pub fn with_hidden(self) -> Self {
        Self {
            table: self.rows.clone(),
            ..self
        }
    }

    /// Sets how many requests one call has in flight: first pages of buckets, entities that are
    /// [migrated](Self::migrate). At least 1, by default 16.
    #[must_use]
    pub const fn with_concurrency(mut self, requests: usize) -> Self {
        self.concurrency = if requests == 0 { 1 } else { requests };
        self
    }

    /// Creates the table if it is missing. Returns whether the table was created. 1 request.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.table.create_if_missing().await
    }

    /// Reads the entity; `None` if it does not exist. 1 request; more with previous buckets: see the [module](super).
    ///
    /// # Errors
    /// Errors of the store; the row is not a `T`.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<T>> {
        self.visible_row(&key.into_key())
            .await?
            .map(SpreadRow::decode)
            .transpose()
    }

    /// Reads the entity, which must exist. Requests as for [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get), and entity not found.
    pub async fn get_existing(&self, key: impl KeyOf<T>) -> Result<T> {
        self.existing_visible_row(&key.into_key()).await?.decode()
    }

    /// The stored key of an entity, for other programs.
    ///
    /// # Errors
    /// The key with its bucket is too long.
    pub fn stored_key(&self, key: impl KeyOf<T>) -> Result<Key> {
        stored_key(&key.into_key(), self.spread)
    }

    /// The stored partitions of a logical partition: its buckets, including previous ones. For functions that work on
    /// whole partitions, such as [`delete_partition`](crate::bulk::delete_partition).
    ///
    /// # Errors
    /// The key with its bucket is too long.
    pub fn stored_partitions(&self, of: impl PartitionIn<T>) -> Result<Vec<PartitionKey>> {
        self.buckets()
            .map(|bucket| PartitionKey::new(stored_partition(of.partition_key().as_str(), bucket)))
            .collect()
    }

    /// The numbers of all buckets. The previous ones are among them: they have rows until the migration has ended.
    pub(super) fn buckets(&self) -> std::ops::Range<u32> {
        0..self
            .previous
            .map_or(0, |previous| previous.buckets)
            .max(self.spread.buckets)
    }

    /// The table's name.
    pub fn name(&self) -> &TableName {
        self.table.name()
    }

    /// The table's store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        self.table.store()
    }

    /// Finds the row of an entity, in its new or its old bucket.
    ///
    /// The new bucket is read again after the old one, because a migration may have moved the row between the two reads.
    pub(super) async fn locate(&self, key: &Key) -> Result<Option<SpreadRow<T>>> {
        let current = stored_key(key, self.spread)?;
        let found = self.rows.get(&current).await?;
        let Some(previous) = self.previous_key(key)?.filter(|_| found.is_none()) else {
            return Ok(found);
        };
        match self.rows.get(previous).await? {
            None => self.rows.get(current).await,
            found => Ok(found),
        }
    }

    pub(super) async fn existing(&self, key: &Key) -> Result<SpreadRow<T>> {
        self.locate(key)
            .await?
            .ok_or_else(|| Error::entity_not_found(self.name(), key))
    }

    /// Finds the row of an entity, unless the entity is hidden from this handle.
    async fn visible_row(&self, key: &Key) -> Result<Option<SpreadRow<T>>> {
        Ok(self.locate(key).await?.filter(|row| !self.hides(row)))
    }

    /// Finds the row of an entity, which must exist and not be hidden.
    pub(super) async fn existing_visible_row(&self, key: &Key) -> Result<SpreadRow<T>> {
        self.visible_row(key)
            .await?
            .ok_or_else(|| Error::entity_not_found(self.name(), key))
    }

    /// Whether an entity is hidden from this handle.
    pub(super) fn hides(&self, row: &SpreadRow<T>) -> bool {
        self.table.hides(&row.entity)
    }

    /// The key of the entity in the previous buckets, if it differs.
    pub(super) fn previous_key(&self, key: &Key) -> Result<Option<Key>> {
        let Some(previous) = self.previous else {
            return Ok(None);
        };
        let (now, before) = (stored_key(key, self.spread)?, stored_key(key, previous)?);
        Ok((now != before).then_some(before))
    }
}

impl<T> Clone for SpreadTable<T> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            rows: self.rows.clone(),
            ..*self
        }
    }
}

impl<T> fmt::Debug for SpreadTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpreadTable")
            .field("table", &self.table)
            .field("buckets", &self.spread.buckets)
            .field("previous", &self.previous.map(|previous| previous.buckets))
            .finish()
    }
}
