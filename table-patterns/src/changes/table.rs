//! The handle of a table with a change feed: each write also writes its change.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use table_core::model::{ETag, Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::store::{
    Conflicts, Error, Operation, Outcome, Result, TableStore, TableStoreExt as _, Written,
};
use table_core::typed::set::{RowChange, SetWriter};
use table_core::typed::{KeyOf, PlainGroup, PlainTable, TableEntity, TableQuery, Versioned};

use super::Changes;
use super::rows::{
    ChangeKind, change, counter, counter_key, following, foreign_change, next_number,
};
use crate::rows::{existed, written_value};

/// The maximal number of partitions whose counters a handle remembers.
const MAX_KNOWN: usize = 1024;

/// A table whose writes emit changes. See the [module](super).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
/// use table_patterns::changes::{ChangeKind, ChangeTable};
/// # #[derive(Clone, Debug, PartialEq, TableEntity)]
/// # struct Order { #[partition_key] customer: String, #[row_key] number: u32, paid: bool }
/// let orders = ChangeTable::<Order>::new(MemoryStore::new(), "Orders")?;
/// orders.create_if_missing().await?;
/// orders.insert(&Order { customer: "ann".into(), number: 1, paid: false }).await?; // 2 requests: counter, group
/// let pay = |order: &mut Order| {
///     order.paid = true;
///     Ok(())
/// };
/// orders.update(Order::key("ann", 1u32)?, pay).await?; // 2 requests, as without the feed
///
/// let changes = orders.changes().after(Order::partition("ann")?.partition_key(), 0).await?;
/// assert_eq!(changes.iter().map(|change| change.number).collect::<Vec<_>>(), [1, 2]);
/// assert_eq!(changes[1].kind, ChangeKind::Updated);
/// # Ok(())
/// # }
/// ```
pub struct ChangeTable<T> {
    table: PlainTable<T>,
    attempts: u32,
    /// The number of the next change and the version of the counter, as this handle has last written them.
    known: Arc<Mutex<HashMap<PartitionKey, (i64, ETag)>>>,
}

/// What the group of a write reads before it commits, for types whose stored schema must be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// Nothing that another writer could change: the caller gave the version, or the entity must not exist.
    Nothing,
    /// The stored entity, for a write that accepts any version.
    Entity,
}

impl Reads {
    /// What a write under this condition reads.
    fn before(version: &IfMatch) -> Self {
        if *version == IfMatch::Any {
            Self::Entity
        } else {
            Self::Nothing
        }
    }
}

impl<T: TableEntity> ChangeTable<T> {
    /// Opens a table. No request.
    ///
    /// # Errors
    /// An invalid name; a type with indexes, large values, several rows or spread keys; a type with encrypted properties over a
    /// store that does not encrypt.
    pub fn new<S, N>(store: S, name: N) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        if let Some(index) = T::SCHEMA.indexes.first() {
            return Err(Error::invalid_declaration(format!(
                "{} has the index '{}', and a change feed does not maintain indexes: remove one of them",
                T::SCHEMA.rust_name,
                index.name
            )));
        }
        if T::SCHEMA.expiry.is_some() {
            return Err(Error::invalid_declaration(format!(
                "the entities of {} expire or are deleted softly, and a sweep would remove them without a change in the feed: leave out \
                 `#[expires]` and `#[deleted_at]`",
                T::SCHEMA.rust_name
            )));
        }
        let table = PlainTable::new(store, name)?;
        Ok(Self {
            table,
            attempts: Conflicts::ATTEMPTS,
            known: Arc::default(),
        })
    }

    /// Sets the number of attempts of a write when other writers write the partition; the default is 10.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Creates the table if it is missing. Returns whether it was created. 1 request.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.table.create_if_missing().await
    }

    /// The table, for reads. Its writes emit no changes.
    pub const fn table(&self) -> &PlainTable<T> {
        &self.table
    }

    /// The changes of the table, for consumers.
    pub fn changes(&self) -> Changes {
        Changes::new(Arc::clone(self.table.store()), self.table.name().clone())
    }

    /// A query of the entities. See [`Table::query`](crate::Table::query). Its `update` and `delete` emit a change for each entity that they write,
    /// in groups of up to 49 entities of a partition.
    pub fn query(&self) -> TableQuery<T> {
        let table = self.clone();
        self.table
            .query()
            .written_by(move |_| Arc::new(table.clone()))
    }

    /// Reads the entity; `None` if it does not exist. 1 request.
    ///
    /// # Errors
    /// As [`Table::get`](crate::Table::get).
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<T>> {
        self.table.get(key).await
    }

    /// Reads the entity, which must exist. 1 request.
    ///
    /// # Errors
    /// As [`Table::get_existing`](crate::Table::get_existing).
    pub async fn get_existing(&self, key: impl KeyOf<T>) -> Result<T> {
        self.table.get_existing(key).await
    }

    /// Reads the entity with its version, for types without an `#[etag]` field. 1 request.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_versioned(&self, key: impl KeyOf<T>) -> Result<Option<Versioned<T>>> {
        self.table.get_versioned(key).await
    }

    /// Inserts an entity that must not exist.
    ///
    /// # Errors
    /// The entity exists; the write conflicts with other writers of the partition after all attempts.
    pub async fn insert(&self, entity: &T) -> Result<Written> {
        let key = entity.entity_key()?.into_key();
        self.write(&key, ChangeKind::Inserted, Reads::Nothing, |group| {
            group.insert(entity).map(drop)
        })
        .await
    }

    /// Inserts or replaces an entity. 1 request more for a type with a `type` or a `version`.
    ///
    /// # Errors
    /// As [`Table::upsert`](crate::Table::upsert); the write conflicts with other writers of the partition after all attempts.
    pub async fn upsert(&self, entity: &T) -> Result<Written> {
        let key = entity.entity_key()?.into_key();
        self.write(&key, ChangeKind::Written, Reads::Entity, |group| {
            group.upsert(entity).map(drop)
        })
        .await
    }

    /// Inserts the entity, or merges its properties into the stored entity. A field that is `None` keeps its stored value. 1
    /// request more for a type with a `type` or a `version`.
    ///
    /// # Errors
    /// As [`Table::insert_or_merge`](crate::Table::insert_or_merge); the write conflicts with other writers of the partition after all attempts.
    pub async fn insert_or_merge(&self, entity: &T) -> Result<Written> {
        let key = entity.entity_key()?.into_key();
        self.write(&key, ChangeKind::Written, Reads::Entity, |group| {
            group.insert_or_merge(entity).map(drop)
        })
        .await
    }

    /// Replaces the entity in the version of its `#[etag]` field.
    ///
    /// # Errors
    /// As [`Table::replace`](crate::Table::replace); the write conflicts with other writers of the partition after all attempts.
    pub async fn replace(&self, entity: &T) -> Result<Written> {
        self.replace_if(entity, entity.own_version()?).await
    }

    /// Replaces the entity if it has this version; [`IfMatch::Any`] accepts any version.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn replace_if(&self, entity: &T, version: impl Into<IfMatch>) -> Result<Written> {
        let (key, version) = (entity.entity_key()?.into_key(), version.into());
        self.write(
            &key,
            ChangeKind::Updated,
            Reads::before(&version),
            |group| group.replace_if(entity, version.clone()).map(drop),
        )
        .await
    }

    /// Merges the fields of a patch into the entity if it has this version.
    ///
    /// # Errors
    /// As [`Table::merge`](crate::Table::merge); the write conflicts with other writers of the partition after all attempts.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (key, version) = (key.into_key(), version.into());
        self.write(
            &key,
            ChangeKind::Updated,
            Reads::before(&version),
            |group| group.merge(&key, patch, version.clone()).map(drop),
        )
        .await
    }

    /// Reads the entity, calls `update`, and replaces the entity in the version that was read; starts again after a conflict.
    /// Returns the stored entity. Properties that `T` does not know stay. 1 request more than a write.
    ///
    /// # Errors
    /// The entity does not exist; an error of `update`; `update` changed the key; the last attempt conflicts with another
    /// writer.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut update: impl FnMut(&mut T) -> Result<()> + Send,
    ) -> Result<T> {
        let (key, mut conflicts) = (key.into_key(), Conflicts::new(self.attempts));
        loop {
            let store = self.table.store();
            let old = store.get_existing(self.table.name(), &key).await?;
            let version = old.version()?;
            let mut value = T::from_entity(old.clone())?;
            update(&mut value)?;
            let mut new = value.to_entity()?;
            if *new.key() != key {
                let (name, other) = (T::SCHEMA.rust_name, new.key());
                return Err(Error::misuse(format!(
                    "the update of the {name} {key} changes its key to {other}: insert the new entity and delete the old"
                )));
            }
            T::SCHEMA.keep_unknown(&old, &mut new)?;
            let replace = Operation::Replace(new.clone(), version);
            match self
                .write(&key, ChangeKind::Updated, Reads::Nothing, |group| {
                    group.push(replace.clone()).map(drop)
                })
                .await
            {
                Err(error) => conflicts.wait(error).await?,
                Ok(written) => return written_value(new, written),
            }
        }
    }

    /// Deletes the entity if it has this version; [`IfMatch::Any`] accepts any version.
    ///
    /// # Errors
    /// As [`Table::delete`](crate::Table::delete); the write conflicts with other writers of the partition after all attempts.
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<()> {
        let (key, version) = (key.into_key(), version.into());
        let delete =
            |group: &mut PlainGroup<T>| group.delete(key.clone(), version.clone()).map(drop);
        self.write(&key, ChangeKind::Deleted, Reads::Nothing, delete)
            .await
            .map(drop)
    }

    /// Deletes the entity if it exists. Returns whether it existed.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        existed(self.delete(key, IfMatch::Any).await)
    }

    /// Writes an entity with its change and the counter in one group.
    async fn write(
        &self,
        key: &Key,
        kind: ChangeKind,
        reads: Reads,
        add: impl Fn(&mut PlainGroup<T>) -> Result<()> + Send + Sync,
    ) -> Result<Written> {
        let written = self
            .write_all(&key.partition_key(), &[(kind, key)], reads, add)
            .await;
        let written =
            written.map_err(|error| error.root().clone().with_outcome(error.outcome()))?;
        Ok(written.into_iter().next().unwrap_or_default())
    }

    /// Writes entities of a partition, which `add` adds to the group, with their changes and the counter.
    async fn write_all(
        &self,
        partition: &PartitionKey,
        changes: &[(ChangeKind, &Key)],
        reads: Reads,
        add: impl Fn(&mut PlainGroup<T>) -> Result<()> + Send + Sync,
    ) -> Result<Vec<Written>> {
        let mut conflicts = Conflicts::new(self.attempts);
        // The last number under which a change existed already.
        let mut taken = None;
        loop {
            // The counter is taken out of the cache, for two reasons: another task must not use the same number, and if this future is
            // dropped, the next write must read the counter.
            let known = self.known().remove(partition);
            let (first, version) = match known {
                Some((next, version)) => (next, Some(version)),
                None => {
                    let counter = self.read_counter(partition).await?;
                    // The writer of the change that exists has raised the counter in the same transaction.
                    if let Some(taken) = taken.filter(|taken| *taken >= counter.0) {
                        return Err(foreign_change(partition, taken));
                    }
                    counter
                }
            };
            let mut group = self.table.group(partition);
            add(&mut group)?;
            let mut next = first;
            for (kind, key) in changes {
                group.push(Operation::Insert(change(key, next, *kind)?))?;
                next = following(partition, next)?;
            }
            // Last in the group, under its version: of two writers that took the same number, one fails here,
            // and the feed has neither a gap nor a number twice.
            let counter = counter(partition, next)?;
            group.push(match &version {
                Some(version) => Operation::Replace(counter, version.clone().into()),
                None => Operation::Insert(counter),
            })?;
            let error = match group.commit().await {
                Ok(mut written) => {
                    if let Some(version) = written.pop().and_then(|counter| counter.etag) {
                        self.remember(partition.clone(), next, version);
                    }
                    written.truncate(changes.len());
                    return Ok(written);
                }
                Err(error) => error,
            };
            // The changes and the counter come after the entities: another writer has taken the number.
            let lost_number = error
                .failed_index()
                .is_some_and(|index| index >= changes.len());
            if lost_number && error.is_already_exists() && !error.is_ambiguous() {
                let change = error
                    .failed_index()
                    .and_then(|index| index.checked_sub(changes.len()));
                taken = change
                    .filter(|change| *change < changes.len())
                    .map(|change| first + change as i64);
            }
            if !lost_number {
                // Nothing has taken the number, as far as this handle knows.
                if let Some(version) = version.filter(|_| error.outcome() == Outcome::NotApplied) {
                    self.remember(partition.clone(), first, version);
                }
                // The group accepts any version and has read one, which another writer has changed: `add` reads again.
                let is_outdated = reads == Reads::Entity
                    && error.outcome() == Outcome::NotApplied
                    && (error.is_precondition_failed() || error.is_already_exists());
                if !is_outdated {
                    return Err(error);
                }
            }
            conflicts.wait(error.root().clone()).await?;
        }
    }

    /// Reads the number of the next change and the version of the counter; `None` if the partition has no change yet.
    async fn read_counter(&self, partition: &PartitionKey) -> Result<(i64, Option<ETag>)> {
        let key = counter_key(partition)?;
        match self
            .table
            .store()
            .get(self.table.name(), &key, None)
            .await?
        {
            None => Ok((1, None)),
            Some(counter) => {
                let version = counter
                    .etag()
                    .cloned()
                    .ok_or_else(|| Error::missing_etag(&key))?;
                Ok((next_number(&counter)?, Some(version)))
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PartitionKey, (i64, ETag)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, partition: PartitionKey, next: i64, version: ETag) {
        let mut known = self.known();
        // A forgotten counter is read again: 1 request.
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(partition, (next, version));
    }
}

/// Set operations emit a change for each entity.
impl<T: TableEntity> SetWriter for ChangeTable<T> {
    fn check<'a>(&'a self, _: &'a Key) -> BoxFuture<'a, Result<()>> {
        // Each group is checked when it is committed.
        ready(Ok(())).boxed()
    }

    /// The entity and its change.
    fn operations(&self, _: &RowChange) -> usize {
        2
    }

    /// One operation is the counter's.
    fn most_operations(&self) -> usize {
        self.table
            .store()
            .profile()
            .group_operations
            .saturating_sub(1)
    }

    fn write<'a>(
        &'a self,
        changes: &'a [RowChange],
    ) -> BoxFuture<'a, Result<(Vec<Written>, bool)>> {
        async move {
            let Some(first) = changes.first() else {
                return Ok((Vec::new(), false));
            };
            let kind = |change: &RowChange| match change.new {
                Some(_) => ChangeKind::Updated,
                None => ChangeKind::Deleted,
            };
            let emitted: Vec<_> = changes
                .iter()
                .map(|change| (kind(change), change.old.key()))
                .collect();
            let add = |group: &mut PlainGroup<T>| {
                changes
                    .iter()
                    .try_for_each(|change| group.push(change.operation()?).map(drop))
            };
            let written = self
                .write_all(
                    &first.old.key().partition_key(),
                    &emitted,
                    Reads::Nothing,
                    add,
                )
                .await?;
            Ok((written, false))
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>> {
        async move { self.table.store().get(self.table.name(), key, None).await }.boxed()
    }

    fn failed(&self, error: &Error) -> Option<usize> {
        error.failed_index()
    }
}

impl<T> Clone for ChangeTable<T> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            attempts: self.attempts,
            known: Arc::clone(&self.known),
        }
    }
}

impl<T> fmt::Debug for ChangeTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeTable")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}
