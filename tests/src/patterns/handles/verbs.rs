//! The verbs of a handle, as the behaviours of the suite call them.

use std::sync::Arc;

use object_store::ObjectStore;
use table_core::model::{ETag, Entity, IfMatch, Key, TableName, ValueRef};
use table_core::query::{Continuation, Page};
use table_core::store::{BulkSummary, Operation, Result, TableStore, Written};
use table_core::typed::{Serde, TableEntity};
use table_patterns::index::Stored;
use table_patterns::journal::Committed;
use table_patterns::wide::Wide;

use super::costs::Cells;
use super::notes::{Note, UNKNOWN};
use crate::Harness;

/// The store and the tables of a handle.
pub(crate) struct World {
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) table: TableName,
    pub(crate) blobs: Arc<dyn ObjectStore>,
}

impl World {
    pub(crate) async fn new(harness: &Harness) -> Self {
        let (store, table) = (Arc::clone(harness.store()), harness.unused_name());
        for number in [0, 10, 20] {
            let slice = format!("{table}x201301{:02}", 1 + number / 10);
            harness.clean_up(&slice.parse().expect("a legal name"));
        }
        Self {
            store,
            table,
            blobs: harness.blobs().await,
        }
    }

    /// The same tables through another store.
    pub(crate) fn through(&self, store: Arc<dyn TableStore>) -> Self {
        Self {
            store,
            table: self.table.clone(),
            blobs: Arc::clone(&self.blobs),
        }
    }
}

/// A result that holds the version of a write.
pub(crate) trait Version {
    fn version(self) -> Option<ETag>;
}

impl Version for Written {
    fn version(self) -> Option<ETag> {
        self.etag
    }
}

impl Version for Committed {
    fn version(self) -> Option<ETag> {
        self.etag().cloned()
    }
}

impl<T> Version for Wide<T> {
    fn version(self) -> Option<ETag> {
        self.etag().cloned()
    }
}

impl Version for Vec<Written> {
    fn version(self) -> Option<ETag> {
        let [written] = <[Written; 1]>::try_from(self).expect("a group of one");
        written.etag
    }
}

/// A result that holds the value of a read.
pub(crate) trait Value<N> {
    fn value(self) -> N;
}

impl<N: Note> Value<N> for N {
    fn value(self) -> N {
        self
    }
}

impl<N: Note> Value<N> for Stored<N> {
    fn value(self) -> N {
        self.into_inner()
    }
}

impl<N: Note> Value<N> for Serde<N> {
    fn value(self) -> N {
        self.into_inner()
    }
}

impl<N: Note> Value<N> for Wide<N> {
    fn value(self) -> N {
        self.into_inner()
    }
}

/// A typed handle.
#[allow(async_fn_in_trait, reason = "the behaviours run on one task")]
pub(crate) trait Verbs: Send + Sync + 'static {
    type Of: Note;
    const NAME: &'static str;
    const CELLS: Cells;
    /// Whether an update makes another attempt after a conflict.
    const REPEATS_UPDATES: bool = true;

    async fn open(world: &World) -> Self;
    async fn insert(&self, note: &Self::Of) -> Result<Option<ETag>>;
    async fn upsert(&self, note: &Self::Of) -> Result<Option<ETag>>;
    async fn insert_or_merge(&self, note: &Self::Of) -> Result<Option<ETag>>;
    async fn replace(&self, note: &Self::Of) -> Result<Option<ETag>>;
    async fn replace_if(&self, note: &Self::Of, version: IfMatch) -> Result<Option<ETag>>;
    async fn merge(
        &self,
        number: u32,
        patch: &<Self::Of as TableEntity>::Patch,
        version: IfMatch,
    ) -> Result<Option<ETag>>;
    async fn update(
        &self,
        number: u32,
        change: impl FnMut(&mut Self::Of) -> Result<()> + Send + 'static,
    ) -> Result<Self::Of>;
    async fn delete(&self, number: u32, version: IfMatch) -> Result<()>;
    async fn delete_if_exists(&self, number: u32) -> Result<bool>;
    async fn get(&self, number: u32) -> Result<Option<Self::Of>>;
    async fn get_existing(&self, number: u32) -> Result<Self::Of>;
    async fn move_to(&self, number: u32, target: &Self, to: u32) -> Result<()>;

    /// Reads an entity and replaces it. The cost of the verb is the requests after the read.
    async fn replace_stored(&self, _read: u32, _note: &Self::Of) -> Result<Option<ETag>> {
        unreachable!("{} has no `replace_stored`", Self::NAME)
    }

    async fn delete_stored(&self, _read: u32) -> Result<()> {
        unreachable!("{} has no `delete_stored`", Self::NAME)
    }

    async fn all(&self, limit: Option<usize>) -> Result<Vec<Self::Of>>;
    async fn streamed(&self, limit: Option<usize>) -> Result<Vec<Self::Of>>;
    async fn first(&self) -> Result<Option<Self::Of>>;
    async fn count(&self, limit: Option<usize>) -> Result<usize>;
    async fn page(&self, limit: usize, from: Option<&Continuation>) -> Result<Page<Self::Of>>;
    async fn set_update(
        &self,
        change: impl Fn(&mut Self::Of) -> Result<()> + Send + Sync,
    ) -> Result<BulkSummary>;
    async fn set_delete(&self) -> Result<BulkSummary>;

    /// The same handle with this number of attempts per write.
    fn with_attempts(self, attempts: u32) -> Self;

    /// Removes the note as another writer.
    fn remove(&self, number: u32) -> impl Future<Output = ()> + Send;

    /// Sets the property that the type does not declare, as another writer.
    fn set_unknown(&self, number: u32, value: i32) -> impl Future<Output = ()> + Send;

    /// Reads the property that the type does not declare.
    async fn unknown_value(&self, number: u32) -> Option<i32>;
}

/// Creates the table of a handle.
pub(super) async fn opened<T>(handle: T, create: impl AsyncFn(&T) -> Result<bool>) -> T {
    create(&handle).await.expect("a new table");
    handle
}

pub(super) async fn remove_in(store: &dyn TableStore, table: &TableName, key: Key) {
    store
        .write(table, Operation::Delete(key, IfMatch::Any))
        .await
        .expect("the row");
}

pub(super) async fn set_unknown_in(
    store: &dyn TableStore,
    table: &TableName,
    key: Key,
    value: i32,
) {
    let unknown_value = Entity::from(key).with(UNKNOWN, value);
    store
        .write(table, Operation::Merge(unknown_value, IfMatch::Any))
        .await
        .expect("the row");
}

pub(super) async fn unknown_value_in(
    store: &dyn TableStore,
    table: &TableName,
    key: Key,
) -> Option<i32> {
    let row = store.get(table, &key, None).await.expect("an answer");
    row.and_then(|row| unknown(&row))
}

pub(super) fn unknown(entity: &Entity) -> Option<i32> {
    match entity.get(UNKNOWN) {
        Some(ValueRef::Int32(value)) => Some(value),
        found => {
            assert_eq!(found, None);
            None
        }
    }
}

/// The verbs that all handles call alike. `$key` is the key of the entity `$number` in the handle.
macro_rules! common {
    (|$number:ident| $($key:expr),+; |$handle:ident| $query:expr) => {
        common!(@verbs |$number| $($key),+; |$handle| $query);

        async fn move_to(&self, $number: u32, target: &Self, to: u32) -> Result<()> {
            self.move_to($($key),+, target, Self::Of::key_of(to)).await
        }
    };
    (@verbs |$number:ident| $($key:expr),+; |$handle:ident| $query:expr) => {
        async fn insert(&self, note: &Self::Of) -> Result<Option<ETag>> {
            Ok(self.insert(note).await?.version())
        }

        async fn upsert(&self, note: &Self::Of) -> Result<Option<ETag>> {
            Ok(self.upsert(note).await?.version())
        }

        async fn insert_or_merge(&self, note: &Self::Of) -> Result<Option<ETag>> {
            Ok(self.insert_or_merge(note).await?.version())
        }

        async fn replace(&self, note: &Self::Of) -> Result<Option<ETag>> {
            Ok(self.replace(note).await?.version())
        }

        async fn replace_if(&self, note: &Self::Of, version: IfMatch) -> Result<Option<ETag>> {
            Ok(self.replace_if(note, version).await?.version())
        }

        async fn merge(
            &self,
            $number: u32,
            patch: &<Self::Of as TableEntity>::Patch,
            version: IfMatch,
        ) -> Result<Option<ETag>> {
            Ok(self.merge($($key),+, patch, version).await?.version())
        }

        async fn update(
            &self,
            $number: u32,
            change: impl FnMut(&mut Self::Of) -> Result<()> + Send + 'static,
        ) -> Result<Self::Of> {
            Ok(self.update($($key),+, change).await?.value())
        }

        async fn delete(&self, $number: u32, version: IfMatch) -> Result<()> {
            self.delete($($key),+, version).await.map(drop)
        }

        async fn delete_if_exists(&self, $number: u32) -> Result<bool> {
            self.delete_if_exists($($key),+).await
        }

        async fn get(&self, $number: u32) -> Result<Option<Self::Of>> {
            Ok(self.get($($key),+).await?.map(Value::value))
        }

        async fn get_existing(&self, $number: u32) -> Result<Self::Of> {
            Ok(self.get_existing($($key),+).await?.value())
        }

        fn with_attempts(self, attempts: u32) -> Self {
            Self::with_attempts(self, attempts)
        }

        async fn all(&self, limit: Option<usize>) -> Result<Vec<Self::Of>> {
            let $handle = self;
            let query = $query;
            let found = match limit {
                Some(limit) => query.limit(limit).all().await,
                None => query.all().await,
            };
            Ok(found?.into_iter().map(Value::value).collect())
        }

        async fn streamed(&self, limit: Option<usize>) -> Result<Vec<Self::Of>> {
            let $handle = self;
            let query = $query;
            let query = if let Some(limit) = limit { query.limit(limit) } else { query };
            query.stream().map_ok(Value::value).try_collect().await
        }

        async fn first(&self) -> Result<Option<Self::Of>> {
            let $handle = self;
            Ok($query.first().await?.map(Value::value))
        }

        async fn count(&self, limit: Option<usize>) -> Result<usize> {
            let $handle = self;
            let query = $query;
            let query = if let Some(limit) = limit { query.limit(limit) } else { query };
            query.count().await
        }

        async fn page(&self, limit: usize, from: Option<&Continuation>) -> Result<Page<Self::Of>> {
            let $handle = self;
            Ok($query.limit(limit).page(from).await?.map(Value::value))
        }
    };
    (@rows) => {
        /// Also removes the entries and the blobs.
        async fn remove(&self, number: u32) {
            self.delete(Self::Of::key_of(number), IfMatch::Any).await.expect("the note");
        }

        async fn set_unknown(&self, number: u32, value: i32) {
            set_unknown_in(&**self.store(), self.name(), Self::Of::key_of(number), value).await;
        }

        async fn unknown_value(&self, number: u32) -> Option<i32> {
            unknown_value_in(&**self.store(), self.name(), Self::Of::key_of(number)).await
        }
    };
}

/// The set operations of a query.
macro_rules! sets {
    (|$handle:ident| $query:expr) => {
        async fn set_update(
            &self,
            change: impl Fn(&mut Self::Of) -> Result<()> + Send + Sync,
        ) -> Result<BulkSummary> {
            let $handle = self;
            $query.update(change).await
        }

        async fn set_delete(&self) -> Result<BulkSummary> {
            let $handle = self;
            $query.delete().await
        }
    };
}

pub(super) use {common, sets};
