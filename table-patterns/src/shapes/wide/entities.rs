//! Reads and writes of wide entities with any properties.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::Stream;
use table_core::model::{ETag, EdmValue, Entity, IfMatch, Key, Properties, TableName, Ticks};
use table_core::store::{
    Conflicts, Error, ErrorKind, GroupTransaction, KeyOrder, MovedCopy, Operation, Result,
    ServiceProfile, TableStore, TableStoreExt, Written,
};
use table_core::typed::Schema;

use super::reader::{Reader, Scanned};
use super::rows::{CHUNK_BYTES, Chunk, HEAD, StoredWide, distribute, new_write, prefix};
use crate::rows::encrypted::marked_by_rule;
use crate::rows::plain::permit_whole;
use crate::rows::{insert_over_due, own_key_error, with_entity_key};

/// The least size of a row: one property can take almost as much.
const LEAST_ROW_BYTES: usize = 66 * 1024;

/// Wide entities with any properties. See the [module](super); [`WideTable`](super::WideTable) has the same operations for
/// structs.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::{memory::MemoryStore, model::Entity};
/// use table_patterns::wide::WideEntities;
///
/// let wide = WideEntities::new(MemoryStore::new(), "Wide".parse()?);
/// wide.create_if_missing().await?; // 1 request
///
/// let mut year = Entity::new("JFK", "2013")?;
/// for day in 1..=365 {
///     year = year.with(&format!("D{day:03}"), day);
/// }
/// wide.insert(&year).await?; // 1 request
/// let read = wide.get(year.key()).await?.expect("an entity"); // 1 request
/// assert_eq!(read.properties().len(), 365);
/// let read = wide.set(&read, "D001", 0).await?; // 1 request, which writes two rows
/// assert!(wide.delete_stored(&read).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WideEntities {
    pub(super) reader: Reader,
    /// The type of the entities, if the program has one.
    pub(super) schema: Option<&'static Schema>,
    /// The maximal size of a chunk's properties.
    pub(super) row_bytes: usize,
}

/// A value with the state of its rows, which a later write needs to check the version and to find the chunks.
#[derive(Clone, Debug)]
pub struct Wide<T> {
    /// The value.
    pub value: T,
    pub(super) stored: Arc<StoredWide>,
}

impl<T> std::ops::Deref for Wide<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Wide<T> {
    /// The logical key.
    pub fn key(&self) -> &Key {
        &self.stored.key
    }

    /// The version that was read or written.
    pub fn etag(&self) -> Option<&ETag> {
        self.stored.etag.as_ref()
    }

    /// Returns the value without the state of its rows.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The number of rows, including the head row.
    pub fn rows(&self) -> usize {
        self.stored.chunks.len() + 1
    }

    pub(super) fn map<U>(self, map: impl FnOnce(T) -> Result<U>) -> Result<Wide<U>> {
        Ok(Wide {
            value: map(self.value)?,
            stored: self.stored,
        })
    }
}

impl From<StoredWide> for Wide<Entity> {
    fn from(stored: StoredWide) -> Self {
        Self {
            value: stored.to_entity(),
            stored: Arc::new(stored),
        }
    }
}

impl WideEntities {
    /// Opens the wide entities of a table. No request; the table must exist when it is used.
    pub fn new(store: impl TableStore, table: TableName) -> Self {
        Self {
            reader: Reader {
                store: store.into_shared(),
                table,
                attempts: Conflicts::ATTEMPTS,
            },
            schema: None,
            row_bytes: CHUNK_BYTES,
        }
    }

    /// Creates the table if it is missing. Returns whether the table was created. 1 request.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.reader
            .store
            .create_table_if_missing(&self.reader.table)
            .await
    }

    /// Sets how often a read that meets rows of different writes, and an update after a conflict, is attempted; at least 1,
    /// by default 10.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.reader.attempts = attempts.max(1);
        self
    }

    /// Sets the maximal size of the properties in one row, in bytes by the service's formula: between 66 KiB and the default, which is 8
    /// KiB less than the service's 1 MiB. Set it for a service that takes smaller rows. The emulator Azurite takes 767 KiB of Binary: there
    /// 700 KiB is safe. Programs with different sizes can write the same entities.
    #[must_use]
    pub fn with_row_bytes(mut self, bytes: usize) -> Self {
        self.row_bytes = bytes.clamp(LEAST_ROW_BYTES, CHUNK_BYTES);
        self
    }

    /// Reads the entity; `None` if it does not exist. 1 request, for a range of rows; again after a concurrent write.
    ///
    /// # Errors
    /// Errors of the store; precondition failed: other writers changed the entity during every attempt.
    pub async fn get(&self, key: &Key) -> Result<Option<Wide<Entity>>> {
        Ok(self.reader.read(key).await?.map(Wide::from))
    }

    /// Reads the entity, which must exist. Requests as for [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get), and entity not found.
    pub async fn get_existing(&self, key: &Key) -> Result<Wide<Entity>> {
        Ok(Wide::from(self.existing(key).await?))
    }

    /// The entities of all partitions, in the order of their rows, after the entity with this partition and prefix.
    pub(super) fn scan_all(
        &self,
        after: Option<(&str, &str)>,
    ) -> Result<impl Stream<Item = Result<Scanned>> + Send + use<>> {
        if self.profile().order == KeyOrder::Unsorted {
            let what = "a scan of wide entities, whose rows come together only in order";
            return Err(Error::unsupported(self.profile().name, what));
        }
        Ok(self.reader.scan_table(after))
    }

    /// Inserts an entity that must not exist. 1 request.
    ///
    /// # Errors
    /// Entity already exists; an entity that is too large for one group transaction; errors of the store.
    pub async fn insert(&self, entity: &Entity) -> Result<Wide<Entity>> {
        self.write(None, entity.key(), entity.properties()).await
    }

    /// Inserts an entity; an entity of the type that is due is replaced in the version that was read. 1 request; 3 over a due entity.
    pub(super) async fn insert_over_due(
        &self,
        schema: &Schema,
        entity: &Entity,
    ) -> Result<Wide<Entity>> {
        let key = entity.key();
        insert_over_due(
            schema,
            self.reader.attempts,
            || self.insert(entity),
            || self.reader.read(key),
            |old: &StoredWide| schema.is_due(&old.to_entity(), self.now()),
            |old| async move { self.write(Some(&old), key, entity.properties()).await },
        )
        .await
    }

    /// The time by which entities expire.
    pub(super) fn now(&self) -> Ticks {
        self.reader.store.context().now()
    }

    /// Replaces the entity in the version of its ETag. 2 requests: the rows are read first.
    /// [`replace_stored`](Self::replace_stored) does not need to read them.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found. The entity has no ETag, or is too large
    /// for one group transaction.
    pub async fn replace(&self, entity: &Entity) -> Result<Wide<Entity>> {
        let key = entity.key();
        let version = entity.etag().cloned().ok_or_else(|| {
            Error::misuse(format!(
                "{key} carries no ETag: read the entity first, or give the version (`replace_if`)"
            ))
        })?;
        self.replace_if(entity, version).await
    }

    /// Replaces the entity if it has this version; [`IfMatch::Any`] accepts any version. 2 requests; with any version, again
    /// after a conflict.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn replace_if(
        &self,
        entity: &Entity,
        version: impl Into<IfMatch>,
    ) -> Result<Wide<Entity>> {
        self.change_if(entity.key(), &version.into(), |_| {
            Ok(entity.properties().clone())
        })
        .await
    }

    /// Reads the entity, and writes the properties that `change` returns if the entity has this version. With any version,
    /// repeats after a conflict.
    pub(super) async fn change_if(
        &self,
        key: &Key,
        version: &IfMatch,
        change: impl Fn(&StoredWide) -> Result<Properties>,
    ) -> Result<Wide<Entity>> {
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let old = self.existing_version(key, version).await?;
            match self.write(Some(&old), key, &change(&old)?).await {
                Err(error) if *version == IfMatch::Any => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Reads the rows of an entity, which must exist and have this version.
    async fn existing_version(&self, key: &Key, version: &IfMatch) -> Result<StoredWide> {
        version.check_form(key)?;
        let old = self.existing(key).await?;
        match version {
            IfMatch::Exactly(wanted) if old.etag.as_ref() != Some(wanted) => {
                Err(Error::precondition_failed(&self.reader.table, key))
            }
            _ => Ok(old),
        }
    }

    async fn existing(&self, key: &Key) -> Result<StoredWide> {
        self.reader
            .read(key)
            .await?
            .ok_or_else(|| self.missing(key))
    }

    /// Replaces the entity in the version that was read. 1 request, which writes only the rows that change.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found. The entity has another key, or is too
    /// large for one group transaction.
    pub async fn replace_stored<T>(&self, read: &Wide<T>, entity: &Entity) -> Result<Wide<Entity>> {
        if entity.key() != read.key() {
            return Err(Error::misuse(format!(
                "{} cannot replace {}, because the keys differ: use `move_to`, or insert the new entity and delete the old",
                entity.key(),
                read.key()
            )));
        }
        self.write(Some(&read.stored), entity.key(), entity.properties())
            .await
    }

    /// Sets one property of the entity in the version that was read. 1 request, which writes a chunk and the head row.
    ///
    /// # Errors
    /// As [`replace_stored`](Self::replace_stored).
    pub async fn set(
        &self,
        read: &Wide<Entity>,
        name: &str,
        value: impl Into<EdmValue>,
    ) -> Result<Wide<Entity>> {
        let entity = read.value.clone().with(name, value);
        self.replace_stored(read, &entity).await
    }

    /// Inserts or replaces the entity: the last writer wins. 2 requests, and again after a conflict.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); precondition failed, after the last attempt.
    pub async fn upsert(&self, entity: &Entity) -> Result<Wide<Entity>> {
        self.upsert_if(entity, |_| Ok(())).await
    }

    /// Inserts or replaces the entity, unless `check` refuses the stored entity.
    pub(super) async fn upsert_if(
        &self,
        entity: &Entity,
        check: impl Fn(&StoredWide) -> Result<()>,
    ) -> Result<Wide<Entity>> {
        let replace = |old: Option<&StoredWide>| {
            old.map_or(Ok(()), &check)?;
            Ok(entity.properties().clone())
        };
        self.write_over(entity.key(), replace).await
    }

    /// Writes the properties that `change` returns for the stored entity. Repeats after a conflict.
    pub(super) async fn write_over(
        &self,
        key: &Key,
        change: impl Fn(Option<&StoredWide>) -> Result<Properties>,
    ) -> Result<Wide<Entity>> {
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let old = self.reader.read(key).await?;
            match self.write(old.as_ref(), key, &change(old.as_ref())?).await {
                Err(error) => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Reads the entity, calls `change`, and replaces the entity in the version that was read; after a conflict, starts
    /// again. 2 requests, and again after a conflict.
    ///
    /// # Errors
    /// Entity not found; the error of `change`, with nothing written; as [`upsert`](Self::upsert).
    pub async fn update(
        &self,
        key: &Key,
        mut change: impl FnMut(&mut Properties) -> Result<()>,
    ) -> Result<Wide<Entity>> {
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let old = self.existing(key).await?;
            let (_, mut properties) = old.to_entity().into_parts();
            change(&mut properties)?;
            match self.write(Some(&old), key, &properties).await {
                Err(error) => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Deletes the entity if it has this version; [`IfMatch::Any`] accepts any version. 2 requests: the rows are read first;
    /// with any version, again after a conflict. [`delete_stored`](Self::delete_stored) does not need to read them.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found.
    pub async fn delete(&self, key: &Key, version: impl Into<IfMatch>) -> Result<()> {
        let (version, mut conflicts) = (version.into(), Conflicts::new(self.reader.attempts));
        loop {
            let read = Wide::from(self.existing_version(key, &version).await?);
            match self.delete_stored(&read).await {
                Err(error) if version == IfMatch::Any => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// Deletes the entity in the version that was read. 1 request.
    ///
    /// # Errors
    /// Precondition failed or entity not found: another writer has changed or deleted the entity.
    pub async fn delete_stored<T>(&self, read: &Wide<T>) -> Result<()> {
        let old = &read.stored;
        let prefix = prefix(&old.key, self.profile());
        let mut group = GroupTransaction::new(old.key.partition_key(), self.profile());
        group.push(Operation::Delete(
            old.row_key(&prefix, HEAD)?,
            old.version()?,
        ))?;
        // As in `group`, the condition of the head row is enough.
        for number in old.chunks.keys() {
            group.push(Operation::Delete(
                old.row_key(&prefix, *number)?,
                IfMatch::Any,
            ))?;
        }
        let (store, table) = (&*self.reader.store, &self.reader.table);
        let _permitted =
            permit_whole(store, table, self.schema, &old.key, || old.to_entity()).await?;
        let deleted = store.transact(table, group).await;
        deleted
            .map(drop)
            .map_err(|error| with_entity_key(&old.key, error))
    }

    /// Deletes the entity if it exists. Returns whether it existed. 2 requests, and again after a conflict.
    ///
    /// # Errors
    /// Errors of the store; precondition failed, after the last attempt.
    pub async fn delete_if_exists(&self, key: &Key) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let Some(read) = self.get(key).await? else {
                return Ok(false);
            };
            match self.delete_stored(&read).await {
                Err(error) => conflicts.wait(error).await?,
                Ok(()) => return Ok(true),
            }
        }
    }

    /// Moves an entity to a key of this or another table, and replaces an entity with that key. A
    /// concurrent change of another writer is moved too. A process that dies during the move leaves both
    /// entities: repeat the move. A move that fails after it has written the target removes its copy: see
    /// [`IndexedEntities::move_to`](crate::index::IndexedEntities::move_to). 4 requests, and again after a conflict.
    ///
    /// # Errors
    /// Entity not found; as [`upsert`](Self::upsert) and [`delete_stored`](Self::delete_stored); source and target are the same.
    pub async fn move_to(&self, key: &Key, target: &Self, to: &Key) -> Result<()> {
        self.move_if(key, target, to, |_| Ok(())).await
    }

    /// Moves an entity, unless `check` refuses the entity at the target.
    pub(super) async fn move_if(
        &self,
        key: &Key,
        target: &Self,
        to: &Key,
        check: impl Fn(&StoredWide) -> Result<()> + Send + Sync,
    ) -> Result<()> {
        let (here, there) = (&self.reader, &target.reader);
        let is_same = here
            .store
            .is_same_table(&here.table, &*there.store, &there.table);
        if is_same && key == to {
            return Err(own_key_error(key));
        }
        let mut conflicts = Conflicts::new(self.reader.attempts);
        let mut copy = None;
        loop {
            let read = match self.get_existing(key).await {
                Ok(read) => read,
                Err(error) => return Err(target.without_copy(copy, error).await),
            };
            let error = match self.try_move(&read, target, to, &check, &mut copy).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if let Err(error) = conflicts.wait_to_move_again(error).await {
                return Err(target.without_copy(copy, error).await);
            }
        }
    }

    async fn try_move(
        &self,
        read: &Wide<Entity>,
        target: &Self,
        to: &Key,
        check: &(impl Fn(&StoredWide) -> Result<()> + Send + Sync),
        copy: &mut Option<(MovedCopy, Wide<Entity>)>,
    ) -> Result<()> {
        let moved = read
            .value
            .clone()
            .with_system(None, None)
            .with_key(to.clone());
        // The version that the copy replaces, which the closure sees. A mutex, because `check` may be called again after a conflict.
        let replaced = Mutex::new(None);
        let written = target.upsert_if(&moved, |old| {
            *replaced.lock().unwrap_or_else(PoisonError::into_inner) = old.etag.clone();
            check(old)
        });
        let written = match written.await {
            // A conflict at the target must not look like a missing source, which ends the move.
            Err(error) if error.is_conflict() => return Err(target.changed(to)),
            written => written?,
        };
        let replaced = replaced
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let earlier = copy.as_ref().map(|(copy, _)| copy);
        let made = MovedCopy::over(replaced.as_ref(), written.etag().cloned(), earlier);
        *copy = Some((made, written));
        self.delete_stored(read).await
    }

    /// Removes the copy of a move that has failed. Returns the error of the move.
    async fn without_copy(&self, copy: Option<(MovedCopy, Wide<Entity>)>, error: Error) -> Error {
        let Some((copy, written)) = copy else {
            return error;
        };
        copy.remove_after(error, |_| self.delete_stored(&written))
            .await
    }

    /// The name of the table.
    pub(crate) const fn table_name(&self) -> &TableName {
        &self.reader.table
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<dyn TableStore> {
        &self.reader.store
    }

    pub(super) fn profile(&self) -> &ServiceProfile {
        self.reader.store.profile()
    }

    pub(super) fn missing(&self, key: &Key) -> Error {
        Error::entity_not_found(&self.reader.table, key)
    }

    fn changed(&self, key: &Key) -> Error {
        Error::precondition_failed(&self.reader.table, key)
    }
}

impl WideEntities {
    /// Writes the entity's properties over the state that was read, in one group transaction: the head row, and the chunks
    /// that change.
    pub(super) async fn write(
        &self,
        old: Option<&StoredWide>,
        key: &Key,
        properties: &Properties,
    ) -> Result<Wide<Entity>> {
        let prefix = prefix(key, self.profile());
        // A rule that depends on the key expects the logical key, so apply the rules before the keys of rows are used.
        let properties = &*marked_by_rule(&*self.reader.store, &self.reader.table, key, properties);
        let mut new = next_state(old, key, distribute(old, properties, self.row_bytes)?);
        if old.is_some() && self.check_whole(&new, &prefix).is_err() {
            // The chunks may have gaps, because properties stay in their chunks: distributed again, the properties may fit.
            new = next_state(old, key, distribute(None, properties, self.row_bytes)?);
        }
        self.check_whole(&new, &prefix)?;
        let group = self.group(old, &new, &prefix)?;
        let (store, table) = (&*self.reader.store, &self.reader.table);
        let _permitted = permit_whole(store, table, self.schema, key, || new.to_entity()).await?;
        let written = store.transact(table, group).await;
        let written = written.map_err(|error| too_large(key, with_entity_key(key, error)))?;
        new.etag = written
            .into_iter()
            .next()
            .and_then(|head: Written| head.etag);
        match new.etag {
            Some(_) => Ok(Wide::from(new)),
            // The store gave no ETag for the group, and a later write needs one.
            None => self.get(key).await?.ok_or_else(|| self.missing(key)),
        }
    }

    /// The operations of a write. The head row is first: its condition fails the whole group after a concurrent write, so
    /// the chunks need no conditions.
    fn group(
        &self,
        old: Option<&StoredWide>,
        new: &StoredWide,
        prefix: &str,
    ) -> Result<GroupTransaction> {
        let mut group = GroupTransaction::new(new.key.partition_key(), self.profile());
        let head = new.head(prefix)?;
        group.push(match old {
            Some(old) => Operation::Replace(head, old.version()?),
            None => Operation::Insert(head),
        })?;
        for (number, chunk) in new
            .chunks
            .iter()
            .filter(|(_, chunk)| chunk.write == new.write)
        {
            group.push(Operation::InsertOrReplace(
                chunk.to_entity(new.row_key(prefix, *number)?),
            ))?;
        }
        for (number, _) in old.into_iter().flat_map(|old| &old.chunks) {
            if !new.chunks.contains_key(number) {
                group.push(Operation::Delete(
                    new.row_key(prefix, *number)?,
                    IfMatch::Any,
                ))?;
            }
        }
        Ok(group)
    }

    /// Refuses an entity that one group transaction cannot write as a whole: it could not be moved or restored.
    fn check_whole(&self, new: &StoredWide, prefix: &str) -> Result<()> {
        let mut whole = GroupTransaction::new(new.key.partition_key(), self.profile());
        whole.push(Operation::Insert(new.head(prefix)?))?;
        for (number, chunk) in &new.chunks {
            let row = chunk.to_entity(new.row_key(prefix, *number)?);
            whole
                .push(Operation::Insert(row))
                .map_err(|error| too_large(&new.key, error))?;
        }
        Ok(())
    }
}

/// The state after a write. A chunk that does not change keeps the id of its write.
fn next_state(old: Option<&StoredWide>, key: &Key, rows: BTreeMap<u16, Properties>) -> StoredWide {
    let write = new_write();
    let chunk = |(number, properties): (u16, Properties)| {
        let same = old
            .and_then(|old| old.chunks.get(&number))
            .filter(|chunk| chunk.properties == properties);
        let write = same.map_or_else(|| write.clone(), |chunk| chunk.write.clone());
        (number, Chunk { write, properties })
    };
    let chunks = rows.into_iter().map(chunk).collect();
    StoredWide {
        key: key.clone(),
        etag: None,
        timestamp: None,
        write,
        chunks,
    }
}

fn too_large(key: &Key, error: Error) -> Error {
    let ErrorKind::LimitExceeded {
        kind,
        quantity,
        allowed,
        actual,
    } = error.kind()
    else {
        return error;
    };
    let quantity = format!(
        "the wide entity {key} must fit into one group transaction, and its {quantity} exceed the limit: keep large values in \
         blobs (large entities)"
    );
    Error::limit_of_kind(*kind, quantity, *allowed, *actual)
}
