use std::collections::HashMap;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{KeyOf, Table, Versioned};
use crate::model::{Entity, Key};
use crate::query::Select;
use crate::store::Result;
use crate::typed::FromEntity;

/// Point reads. They find entities: where there is an index entry, or a row that patterns keep for themselves, they find
/// nothing, unless the table is asked for it by [`with_index_entries`](Self::with_index_entries) and
/// [`with_system_rows`](Self::with_system_rows).
impl<T: FromEntity> Table<T> {
    /// The entity, or `None`. One request.
    ///
    /// # Errors
    /// The store's, a missing table among them; the row is not a `T`.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<T>> {
        let found = self.read::<T>(&key.into_key(), self.shared().select.as_ref()).await?;
        found.map(T::from_entity).transpose()
    }

    /// The entity, or an error if there is none. One request.
    ///
    /// # Errors
    /// As [`get`](Self::get), and entity not found.
    pub async fn get_existing(&self, key: impl KeyOf<T>) -> Result<T> {
        let key = key.into_key();
        let found = self.get(&key).await?;
        found.ok_or_else(|| self.shared().not_found(&key))
    }

    /// The entity with its ETag and time, where `T` has no fields for them. One request.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_versioned(&self, key: impl KeyOf<T>) -> Result<Option<Versioned<T>>> {
        self.get_as(key).await
    }

    /// The entity read as another type: only the properties that it needs are sent. One request.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_as<P: FromEntity>(&self, key: impl KeyOf<T>) -> Result<Option<P>> {
        let found = self.read::<P>(&key.into_key(), P::select().as_ref()).await?;
        found.map(P::from_entity).transpose()
    }

    /// The entities with these keys, in the order of the keys, `None` where there is none.
    ///
    /// One request for each distinct key, so many at once as
    /// [`with_concurrency`](Self::with_concurrency) allows: 16 unless told otherwise. It is not a
    /// snapshot.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::ETag;
    /// # use table_core::typed::{Table, TableEntity};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(rename_all = "PascalCase")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     name: String,
    /// #     age: Option<i32>,
    /// #     #[etag] etag: Option<ETag>,
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// # let ken = Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None };
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
    /// The first that one of the reads has; the others' results are dropped.
    pub async fn get_many<K: KeyOf<T>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<T>>> {
        let (distinct, places) = distinct(keys.into_iter().map(KeyOf::into_key));
        let found = self.read_all(distinct).await?;
        spread(found, &places).into_iter().map(|found| found.map(T::from_entity).transpose()).collect()
    }

    async fn read_all(&self, keys: Vec<Key>) -> Result<Vec<Option<Entity>>> {
        let select = self.shared().select.as_ref();
        let reads = stream::iter(keys).map(|key| async move { self.read::<T>(&key, select).await });
        reads.buffered(self.shared().concurrency).try_collect().await
    }

    async fn read<R: FromEntity>(&self, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        let shared = self.shared();
        let hidden = shared.hidden::<R>(shared.shown, select);
        let select = select.map(|select| hidden.select(select));
        let found = self.store().get(self.name(), key, select.as_ref()).await?;
        Ok(found.and_then(|row| hidden.show(row)))
    }
}

/// The keys without repetition, and for each key its place among them.
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

/// What was found for the distinct keys, for all of them.
fn spread(found: Vec<Option<Entity>>, places: &[usize]) -> Vec<Option<Entity>> {
    if places.len() == found.len() {
        return found;
    }
    places.iter().map(|place| found[*place].clone()).collect()
}
