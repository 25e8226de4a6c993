use std::sync::Arc;

use futures_util::Stream;
use table_core::model::{ETag, EdmValue, Entity, IfMatch, Key, Properties, TableName};
use table_core::store::{
    Error, ErrorKind, GroupTransaction, KeyOrder, Operation, Result, ServiceProfile, TableStore,
    TableStoreExt as _,
};

use super::WideQuery;
use super::read::Reader;
use super::rows::{HEAD, Stored, prefix};
use super::write::version;
use crate::rows::conflict::{ATTEMPTS, Conflicts, told_of};
use crate::rows::plain::permit_whole;

/// Entities of any number of properties, as bags. See the [module](super); [`WideTable`](super::WideTable) is
/// the same for structs.
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
/// let read = wide.get(year.key()).await?.expect("it is there"); // 1 request
/// assert_eq!(read.properties().len(), 365);
/// let read = wide.set(&read, "D001", 0).await?; // 1 request, which writes two of the rows
/// assert!(wide.delete_stored(&read).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WideEntities {
    pub(super) reader: Reader,
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

    /// The version that was read or written.
    pub fn etag(&self) -> Option<&ETag> {
        self.stored.etag.as_ref()
    }

    /// The value, to change and to keep.
    pub fn into_inner(self) -> T {
        self.value
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
    pub fn new(store: impl TableStore, table: TableName) -> Self {
        Self { reader: Reader { store: store.into_shared(), table, attempts: ATTEMPTS } }
    }

    /// Creates the table unless it is there; whether it was created. One request.
    ///
    /// # Errors
    /// The store's.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.reader.store.create_table_if_missing(&self.reader.table).await
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

    /// The entity, or an error if there is none. As [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get), and entity not found.
    pub async fn get_existing(&self, key: &Key) -> Result<Wide<Entity>> {
        Ok(Wide::from(self.existing(key).await?))
    }

    /// Everything of a partition. See [`WideQuery`].
    pub fn query(&self) -> WideQuery<Entity> {
        WideQuery::new(self.reader.clone())
    }

    /// The entities of all partitions, in the order of their rows.
    pub(super) fn scan_all(&self) -> Result<impl Stream<Item = Result<Stored>> + Send + use<>> {
        if self.profile().order == KeyOrder::Unsorted {
            let what = "a scan of wide entities, whose rows come together only in order";
            return Err(Error::unsupported(self.profile().name, what));
        }
        Ok(self.reader.scan(None, None))
    }

    /// Adds an entity that must not exist. One request.
    ///
    /// # Errors
    /// Entity already exists; it is too large for one group transaction; the store's.
    pub async fn insert(&self, entity: &Entity) -> Result<Wide<Entity>> {
        self.write(None, entity.key(), entity.properties()).await
    }

    /// Replaces the entity in the version it was read in: that of its ETag. Its rows are read first: two requests.
    /// [`replace_stored`](Self::replace_stored) knows them.
    ///
    /// # Errors
    /// Precondition failed: another writer was quicker. Entity not found. The entity carries no ETag. It is too large for one
    /// group transaction.
    pub async fn replace(&self, entity: &Entity) -> Result<Wide<Entity>> {
        let key = entity.key();
        let version = entity.etag().cloned().ok_or_else(|| {
            Error::invalid_request(format!("{key} carries no ETag: name the version (`replace_if`)"))
        })?;
        self.replace_if(entity, version).await
    }

    /// Replaces the entity if it is in this version; [`IfMatch::Any`] asks for any. Two requests; with any version, again
    /// where another writer was in between.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn replace_if(&self, entity: &Entity, version: impl Into<IfMatch>) -> Result<Wide<Entity>> {
        self.change_if(entity.key(), &version.into(), |_| Ok(entity.properties().clone())).await
    }

    /// Reads the entity, and writes what `change` makes of it if it is in this version; again where another writer was in
    /// between and any version will do.
    pub(super) async fn change_if(
        &self,
        key: &Key,
        version: &IfMatch,
        change: impl Fn(&Stored) -> Result<Properties>,
    ) -> Result<Wide<Entity>> {
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let old = self.wanted(key, version).await?;
            match self.write(Some(&old), key, &change(&old)?).await {
                Err(error) if *version == IfMatch::Any => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// The rows of the entity, if it is there in the version that is asked for.
    async fn wanted(&self, key: &Key, version: &IfMatch) -> Result<Stored> {
        let old = self.existing(key).await?;
        match version {
            IfMatch::Exactly(wanted) if old.etag.as_ref() != Some(wanted) => {
                let (table, key) = (self.reader.table.to_string(), key.to_string());
                Err(ErrorKind::PreconditionFailed { table, key }.into())
            }
            _ => Ok(old),
        }
    }

    async fn existing(&self, key: &Key) -> Result<Stored> {
        self.reader.read(key).await?.ok_or_else(|| self.missing(key))
    }

    /// Replaces what was read, in the version that was read. One request, which writes the rows that change.
    ///
    /// # Errors
    /// Precondition failed: another writer was quicker. Entity not found: it was deleted. The key is another's.
    /// It is too large for one group transaction.
    pub async fn replace_stored<T>(&self, read: &Wide<T>, entity: &Entity) -> Result<Wide<Entity>> {
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

    /// Writes the entity, whatever was there: the last writer wins. Two requests, again where another writer was
    /// in between.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); precondition failed, after the last attempt.
    pub async fn upsert(&self, entity: &Entity) -> Result<Wide<Entity>> {
        self.upsert_if(entity, |_| Ok(())).await
    }

    /// The same, unless what is there is refused.
    pub(super) async fn upsert_if(
        &self,
        entity: &Entity,
        check: impl Fn(&Stored) -> Result<()>,
    ) -> Result<Wide<Entity>> {
        let replace = |old: Option<&Stored>| {
            old.map_or(Ok(()), &check)?;
            Ok(entity.properties().clone())
        };
        self.write_over(entity.key(), replace).await
    }

    /// Writes what `change` makes of what is there, again where another writer was in between.
    pub(super) async fn write_over(
        &self,
        key: &Key,
        change: impl Fn(Option<&Stored>) -> Result<Properties>,
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

    /// Reads the entity, lets `change` change its properties, and replaces it in the version that was read; from
    /// the start if another writer was quicker. Two requests, again on conflict.
    ///
    /// # Errors
    /// Entity not found; of `change`, with nothing written; as [`upsert`](Self::upsert).
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

    /// Deletes the entity if it is in this version; [`IfMatch::Any`] asks for any. Its rows are read first: two requests; with
    /// any version, again where another writer was in between. [`delete_stored`](Self::delete_stored) knows them.
    ///
    /// # Errors
    /// Precondition failed: another writer was quicker. Entity not found.
    pub async fn delete(&self, key: &Key, version: impl Into<IfMatch>) -> Result<()> {
        let (version, mut conflicts) = (version.into(), Conflicts::new(self.reader.attempts));
        loop {
            let read = Wide::from(self.wanted(key, &version).await?);
            match self.delete_stored(&read).await {
                Err(error) if version == IfMatch::Any => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// Deletes what was read, in the version that was read. One request.
    ///
    /// # Errors
    /// Precondition failed or entity not found: another writer was quicker.
    pub async fn delete_stored<T>(&self, read: &Wide<T>) -> Result<()> {
        let old = &read.stored;
        let (prefix, profile) = (prefix(&old.key, self.profile()), self.profile());
        let mut group = GroupTransaction::new(old.key.partition_key(), profile);
        group.push(Operation::Delete(self.row(old, &prefix, HEAD)?, version(old)?))?;
        for number in old.chunks.keys() {
            group.push(Operation::Delete(self.row(old, &prefix, *number)?, IfMatch::Any))?;
        }
        let (store, table) = (&*self.reader.store, &self.reader.table);
        let _permitted = permit_whole(store, table, || old.to_entity()).await?;
        let deleted = store.transact(table, group).await;
        deleted.map(drop).map_err(|error| told_of(&old.key, error))
    }

    /// Deletes the entity if it is there; whether it was. Two requests, again on conflict.
    ///
    /// # Errors
    /// The store's; precondition failed, after the last attempt.
    pub async fn delete_if_exists(&self, key: &Key) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let Some(read) = self.get(key).await? else { return Ok(false) };
            match self.delete_stored(&read).await {
                Err(error) => conflicts.wait(error).await?,
                Ok(()) => return Ok(true),
            }
        }
    }

    /// Moves an entity to a key of this or another table, whatever is there; whether there was one. A change that another
    /// writer makes meanwhile is moved as well. A move that dies in between leaves both, and is to be run again. Four requests,
    /// again on conflict.
    ///
    /// # Errors
    /// As [`upsert`](Self::upsert) and [`delete_stored`](Self::delete_stored); the place is the same.
    pub async fn move_to(&self, key: &Key, target: &Self, to: &Key) -> Result<bool> {
        self.move_if(key, target, to, |_| Ok(())).await
    }

    /// The same, unless what is at the target is refused.
    pub(super) async fn move_if(
        &self,
        key: &Key,
        target: &Self,
        to: &Key,
        check: impl Fn(&Stored) -> Result<()>,
    ) -> Result<bool> {
        let (here, there) = (&self.reader, &target.reader);
        if Arc::ptr_eq(&here.store, &there.store) && here.table == there.table && key == to {
            return Err(Error::invalid_request(format!("{key} would be moved to where it is")));
        }
        let mut conflicts = Conflicts::new(self.reader.attempts);
        loop {
            let Some(read) = self.get(key).await? else { return Ok(false) };
            let moved = read.value.clone().with_system(None, None).with_key(to.clone());
            target.upsert_if(&moved, &check).await?;
            match self.delete_stored(&read).await {
                Err(error) => conflicts.wait(error).await?,
                Ok(()) => return Ok(true),
            }
        }
    }

    pub(super) fn profile(&self) -> &ServiceProfile {
        self.reader.store.profile()
    }

    pub(super) fn missing(&self, key: &Key) -> Error {
        let (table, key) = (self.reader.table.to_string(), key.to_string());
        ErrorKind::EntityNotFound { table, key }.into()
    }
}
