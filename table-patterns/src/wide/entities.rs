use std::sync::Arc;

use futures_util::{Stream, TryStreamExt};
use table_core::model::{EdmValue, Entity, IfMatch, Key, PartitionKey, Properties, TableName};
use table_core::store::{
    Error, ErrorKind, GroupTransaction, Operation, Result, ServiceProfile, TableStore, Written,
};

use super::chunk::place;
use super::read::Reader;
use super::rows::{Chunk, HEAD, Stored, new_write, prefix, row_key};
use crate::conflict::{ATTEMPTS, Conflicts};

/// Entities of any number of properties, as bags. See the [module](super); [`WideTable`](super::WideTable) is
/// the same for structs.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use table_core::{memory::MemoryStore, model::Entity, store::TableStore};
/// use table_patterns::wide::WideEntities;
///
/// let store = Arc::new(MemoryStore::new());
/// store.create_table(&"Wide".parse()?).await?;
/// let wide = WideEntities::new(store, "Wide".parse()?);
///
/// let mut year = Entity::new("JFK", "2013")?;
/// for day in 1..=365 {
///     year = year.with(&format!("D{day:03}"), day);
/// }
/// wide.insert(&year).await?; // 1 request
/// let read = wide.get(year.key()).await?.expect("it is there"); // 1 request
/// assert_eq!(read.properties().len(), 365);
/// let read = wide.set(&read, "D001", 0).await?; // 1 request, which writes two of the rows
/// assert!(wide.delete(&read).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WideEntities {
    reader: Reader,
}

/// A value with the rows that it was read from or written to, whose version a later write requires.
#[derive(Clone, Debug)]
pub struct Wide<T> {
    /// The value.
    pub value: T,
    pub(super) stored: Arc<Stored>,
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

    /// How many rows it takes, the head included.
    pub fn rows(&self) -> usize {
        self.stored.chunks.len() + 1
    }

    pub(super) fn map<U>(self, map: impl FnOnce(T) -> Result<U>) -> Result<Wide<U>> {
        Ok(Wide { value: map(self.value)?, stored: self.stored })
    }
}

impl From<Stored> for Wide<Entity> {
    fn from(stored: Stored) -> Self {
        Self { value: stored.to_entity(), stored: Arc::new(stored) }
    }
}

impl WideEntities {
    /// Opens the wide entities of a table. No request: the table must exist when it is used.
    pub fn new(store: Arc<dyn TableStore>, table: TableName) -> Self {
        Self { reader: Reader { store, table, attempts: ATTEMPTS } }
    }

    /// Another bound on the attempts of a read that finds rows of different writes, and of an update that loses
    /// against other writers; at least 1, and 10 unless told otherwise.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.reader.attempts = attempts.max(1);
        self
    }

    /// The entity. One request, a row range; again where another writer was in between.
    ///
    /// # Errors
    /// The store's; precondition failed: it was being changed at every attempt.
    pub async fn get(&self, key: &Key) -> Result<Option<Wide<Entity>>> {
        Ok(self.reader.read(key).await?.map(Wide::from))
    }

    /// The entities of a partition, in the order of their RowKeys (by hash, where those are too long). One request a
    /// page. A store without order is refused.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn scan(
        &self,
        partition: &PartitionKey,
    ) -> Result<impl Stream<Item = Result<Wide<Entity>>> + Send + use<>> {
        if self.profile().order == table_core::store::KeyOrder::Unsorted {
            let what = "a scan of wide entities, whose rows come together only in order: read them by key";
            return Err(Error::unsupported(self.profile().name, what));
        }
        Ok(self.reader.scan(partition.as_str()).map_ok(Wide::from))
    }

    /// Adds an entity that must not exist. One request.
    ///
    /// # Errors
    /// Entity already exists; it is too large for one group transaction; the store's.
    pub async fn insert(&self, entity: &Entity) -> Result<Wide<Entity>> {
        self.write(None, entity.key(), entity.properties()).await
    }

    /// Replaces what was read, in the version that was read. One request, which writes the rows that change.
    ///
    /// # Errors
    /// Precondition failed: another writer was quicker. Entity not found: it was deleted. The key is another's.
    /// It is too large for one group transaction.
    pub async fn replace<T>(&self, read: &Wide<T>, entity: &Entity) -> Result<Wide<Entity>> {
        if entity.key() != read.key() {
            return Err(Error::invalid_request(format!(
                "{} cannot replace {}: insert the new one and delete the old",
                entity.key(),
                read.key()
            )));
        }
        self.write(Some(&read.stored), entity.key(), entity.properties()).await
    }

    /// Sets one property of what was read. One request, which writes its row and the head.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn set(
        &self,
        read: &Wide<Entity>,
        name: &str,
        value: impl Into<EdmValue>,
    ) -> Result<Wide<Entity>> {
        let entity = read.value.clone().with(name, value);
        self.replace(read, &entity).await
    }

    /// Writes the entity, whatever was there: the last writer wins. Two requests, again where another writer was
    /// in between.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); precondition failed, after the last attempt.
    pub async fn put(&self, entity: &Entity) -> Result<Wide<Entity>> {
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let old = self.reader.read(entity.key()).await?;
            match self.write(old.as_ref(), entity.key(), entity.properties()).await {
                Err(error) => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Reads the entity, lets `change` change its properties, and replaces it in the version that was read; from
    /// the start if another writer was quicker. Two requests, again on conflict.
    ///
    /// # Errors
    /// Entity not found; of `change`, with nothing written; as [`put`](Self::put).
    pub async fn update(
        &self,
        key: &Key,
        mut change: impl FnMut(&mut Properties) -> Result<()>,
    ) -> Result<Wide<Entity>> {
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let old = self.reader.read(key).await?.ok_or_else(|| self.missing(key))?;
            let (_, mut properties) = old.to_entity().into_parts();
            change(&mut properties)?;
            match self.write(Some(&old), key, &properties).await {
                Err(error) => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Deletes what was read, in the version that was read. One request.
    ///
    /// # Errors
    /// Precondition failed or entity not found: another writer was quicker.
    pub async fn delete<T>(&self, read: &Wide<T>) -> Result<()> {
        let old = &read.stored;
        let (prefix, profile) = (prefix(&old.key, self.profile()), self.profile());
        let mut group = GroupTransaction::new(old.key.partition_key(), profile);
        group.push(Operation::Delete(self.row(old, &prefix, HEAD)?, version(old)))?;
        for number in old.chunks.keys() {
            group.push(Operation::Delete(self.row(old, &prefix, *number)?, IfMatch::Any))?;
        }
        self.reader.store.transact(&self.reader.table, group).await.map(drop)
    }

    /// Deletes the entity if it is there; whether it was. Two requests, again on conflict.
    ///
    /// # Errors
    /// The store's; precondition failed, after the last attempt.
    pub async fn remove(&self, key: &Key) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let Some(read) = self.get(key).await? else { return Ok(false) };
            match self.delete(&read).await {
                Err(error) => conflicts.wait(error).await?,
                Ok(()) => return Ok(true),
            }
        }
    }

    /// Makes `properties` the entity's, from the state that was read, in one group transaction.
    async fn write(&self, old: Option<&Stored>, key: &Key, properties: &Properties) -> Result<Wide<Entity>> {
        let prefix = prefix(key, self.profile());
        let mut new = renewed(old, key, place(old, properties)?);
        if old.is_some() && self.check_whole(&new, &prefix).is_err() {
            // Where properties stayed in their rows, there may be room: packed anew they may fit.
            new = renewed(old, key, place(None, properties)?);
        }
        self.check_whole(&new, &prefix)?;
        let group = self.group(old, &new, &prefix)?;
        let written = self.reader.store.transact(&self.reader.table, group).await?;
        new.etag = written.into_iter().next().and_then(|head: Written| head.etag);
        match new.etag {
            Some(_) => Ok(Wide::from(new)),
            None => self.get(key).await?.ok_or_else(|| self.missing(key)),
        }
    }

    /// What changes: the head first, whose version decides, then the chunks.
    fn group(&self, old: Option<&Stored>, new: &Stored, prefix: &str) -> Result<GroupTransaction> {
        let mut group = GroupTransaction::new(new.key.partition_key(), self.profile());
        let head = new.head(prefix)?;
        group.push(match old {
            Some(old) => Operation::Replace(head, version(old)),
            None => Operation::Insert(head),
        })?;
        for (number, chunk) in new.chunks.iter().filter(|(_, chunk)| chunk.write == new.write) {
            group.push(Operation::InsertOrReplace(chunk.to_entity(self.row(new, prefix, *number)?)))?;
        }
        for (number, _) in old.into_iter().flat_map(|old| &old.chunks) {
            if !new.chunks.contains_key(number) {
                group.push(Operation::Delete(self.row(new, prefix, *number)?, IfMatch::Any))?;
            }
        }
        Ok(group)
    }

    /// Refuses what one group could not write as a whole: it could never be moved, or restored, in one piece.
    fn check_whole(&self, new: &Stored, prefix: &str) -> Result<()> {
        let mut whole = GroupTransaction::new(new.key.partition_key(), self.profile());
        whole.push(Operation::Insert(new.head(prefix)?))?;
        for (number, chunk) in &new.chunks {
            let row = chunk.to_entity(self.row(new, prefix, *number)?);
            whole.push(Operation::Insert(row)).map_err(|error| too_large(&new.key, error))?;
        }
        Ok(())
    }

    fn row(&self, stored: &Stored, prefix: &str, number: u16) -> Result<Key> {
        row_key(stored.key.partition(), prefix, number)
    }

    fn profile(&self) -> &ServiceProfile {
        self.reader.store.profile()
    }

    fn missing(&self, key: &Key) -> Error {
        let (table, key) = (self.reader.table.to_string(), key.to_string());
        ErrorKind::EntityNotFound { table, key }.into()
    }
}

/// The state after a write: chunks that stay as they are keep the write that made them.
fn renewed(old: Option<&Stored>, key: &Key, rows: std::collections::BTreeMap<u16, Properties>) -> Stored {
    let write = new_write();
    let chunk = |(number, properties): (u16, Properties)| {
        let same = old.and_then(|old| old.chunks.get(&number)).filter(|chunk| chunk.properties == properties);
        let write = same.map_or_else(|| write.clone(), |chunk| chunk.write.clone());
        (number, Chunk { write, properties })
    };
    let chunks = rows.into_iter().map(chunk).collect();
    Stored { key: key.clone(), etag: None, timestamp: None, write, chunks }
}

fn version(stored: &Stored) -> IfMatch {
    stored.etag.clone().map_or(IfMatch::Any, IfMatch::Exactly)
}

fn too_large(key: &Key, error: Error) -> Error {
    let ErrorKind::LimitExceeded { what, allowed, actual } = error.kind() else { return error };
    let what = format!(
        "the wide entity {key} is written in one piece, and {what} are limited; keep its large values in blobs, by \
         the large entities pattern"
    );
    Error::limit(what, *allowed, *actual)
}
