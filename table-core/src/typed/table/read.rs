use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::load::load_point;
use super::write::stored_etag;
use super::{KeyOf, PlainTable, RowLoader};
use crate::model::{ETag, Entity, Key, Ticks};
use crate::query::{Filter, Select};
use crate::store::Result;
use crate::typed::{FromEntity, Requirements};

/// Point reads. They do not return index entries and system rows, unless
/// [`with_index_entries`](Self::with_index_entries) or [`with_system_rows`](Self::with_system_rows) is set.
impl<T: FromEntity> PlainTable<T> {
    /// Returns the entity with this key; `None` if there is none. 1 request.
    ///
    /// # Errors
    /// Fails if the row does not fit `T`. Returns the errors of the store, for example for a missing table.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<T>> {
        let found = self
            .read_whole::<T>(&key.into_key(), self.shared().select.as_ref())
            .await?;
        found.map(T::from_entity).transpose()
    }

    /// Returns the entity with this key. 1 request.
    ///
    /// # Errors
    /// Fails if there is no entity; also returns the errors of [`get`](Self::get).
    pub async fn get_existing(&self, key: impl KeyOf<T>) -> Result<T> {
        let key = key.into_key();
        let found = self.get(&key).await?;
        found.ok_or_else(|| self.shared().not_found(&key))
    }

    /// Returns the entity with its ETag and timestamp, for types without fields for them. 1 request.
    ///
    /// # Errors
    /// Returns the errors of [`get`](Self::get).
    pub async fn get_versioned(&self, key: impl KeyOf<T>) -> Result<Option<Versioned<T>>> {
        self.get_as(key).await
    }

    /// Returns the entity as another type. The service sends only the properties of that type. 1 request.
    ///
    /// # Errors
    /// Returns the errors of [`get`](Self::get).
    pub async fn get_as<P: FromEntity>(&self, key: impl KeyOf<T>) -> Result<Option<P>> {
        let found = self
            .read_whole::<P>(&key.into_key(), P::select().as_ref())
            .await?;
        found.map(P::from_entity).transpose()
    }

    /// Returns the entities with these keys, in the order of the keys; `None` for a key without an entity.
    ///
    /// 1 request per distinct key. [`with_concurrency`](Self::with_concurrency) limits the requests in flight;
    /// default 16. The result is not a snapshot.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (employees, ken) = (employees().await?, ken());
    /// # employees.insert(&ken).await?;
    /// let keys = [Employee::key("Sales", 223)?, Employee::key("Sales", 7)?];
    /// let read = employees.get_many(keys).await?;
    /// assert_eq!(read[0].as_ref().map(|e| e.name.as_str()), Some("Ken"));
    /// assert!(read[1].is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the first error of a read.
    pub async fn get_many<K: KeyOf<T>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<T>>> {
        let (distinct, places) = distinct(keys.into_iter().map(KeyOf::into_key));
        let found = self.read_all(distinct).await?;
        in_given_order(found, &places)
            .into_iter()
            .map(|found| found.map(T::from_entity).transpose())
            .collect()
    }

    async fn read_all(&self, keys: Vec<Key>) -> Result<Vec<Option<Entity>>> {
        let select = self.shared().select.as_ref();
        let loader = self.shared().loader_of::<T>();
        let reads = stream::iter(keys).map(|key| async move {
            // One value after another: several entities are read at the same time.
            self.read_by::<T>(&key, select, loader, 1).await
        });
        reads
            .buffered(self.shared().concurrency)
            .try_collect()
            .await
    }

    /// Reads a row with its values, several values at once.
    async fn read_whole<R: FromEntity>(
        &self,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let (loader, concurrency) = (self.shared().loader_of::<R>(), self.shared().concurrency);
        self.read_by::<R>(key, select, loader, concurrency).await
    }

    async fn read_by<R: FromEntity>(
        &self,
        key: &Key,
        select: Option<&Select>,
        loader: Option<&Arc<dyn RowLoader>>,
        concurrency: usize,
    ) -> Result<Option<Entity>> {
        let shared = self.shared();
        let row_filter = shared.row_filter::<R>(shared.extra_rows, select);
        let select = select.map(|select| row_filter.select(select));
        let found = self.store().get(self.name(), key, select.as_ref()).await?;
        let found = found.and_then(|row| row_filter.filter(row));
        match loader {
            None => Ok(found),
            Some(loader) => load_point(loader, found, concurrency, &row_filter).await,
        }
    }
}

/// Returns the distinct keys, and for each given key its position among them.
fn distinct(keys: impl Iterator<Item = Key>) -> (Vec<Key>, Vec<usize>) {
    let (mut places, mut distinct) = (HashMap::new(), Vec::new());
    let place = |key: Key| {
        *places.entry(key).or_insert_with_key(|key: &Key| {
            distinct.push(key.clone());
            distinct.len() - 1
        })
    };
    let order = keys.map(place).collect();
    (distinct, order)
}

/// Returns the results of the given keys from the results of the distinct keys.
fn in_given_order(found: Vec<Option<Entity>>, places: &[usize]) -> Vec<Option<Entity>> {
    if places.len() == found.len() {
        return found;
    }
    places.iter().map(|place| found[*place].clone()).collect()
}

/// A value with its ETag and timestamp, for types without fields for them.
///
/// Use it wherever `T` can be read: `table.view::<Versioned<T>>()`, `query.project::<Versioned<T>>()`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// The version that was read, for conditional writes such as `replace_if`.
    pub etag: ETag,
    /// The time of the last write by the store's clock, if the store returned it.
    pub timestamp: Option<Ticks>,
}

impl<T: FromEntity> FromEntity for Versioned<T> {
    fn select() -> Option<Select> {
        T::select()
    }

    fn type_filter() -> Option<Filter> {
        T::type_filter()
    }

    fn requirements() -> Requirements {
        T::requirements()
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        let etag = stored_etag(&entity)?;
        let timestamp = entity.timestamp();
        Ok(Self {
            value: T::from_entity(entity)?,
            etag,
            timestamp,
        })
    }
}

impl<T> Deref for Versioned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Versioned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
