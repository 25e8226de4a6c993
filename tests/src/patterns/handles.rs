//! All typed handles behind one trait, with the requests of each verb. The behaviours of
//! [`verbs`](super::verbs) run on each handle.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::ObjectStore;
use serde::{Deserialize, Serialize, Serializer};
use table_core::model::{ETag, Entity, IfMatch, Key, PartitionKey, TableName, Ticks, ValueRef};
use table_core::query::{Continuation, Page};
use table_core::store::{BulkSummary, Operation, Result, TableStore, Written};
use table_core::typed::{EntityPatch as _, Serde, SerdeTable, Table, TableEntity, TableGroup};
use table_patterns::index::{IndexOptions, IndexedGroup, IndexedTable, Stored};
use table_patterns::journal::{Clearing, Committed};
use table_patterns::large::{LargeOptions, LargeTable};
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::{Wide, WideTable};

use crate::Harness;

/// The partition of every note.
pub(super) const BOOK: &str = "book";
/// A property that no type declares.
pub(super) const UNKNOWN: &str = "Unknown";

/// An entity in any layout.
pub(super) trait Note: TableEntity + Clone + Debug + PartialEq {
    fn new(number: u32, title: &str, text: Option<&str>) -> Self;
    fn with_etag(self, etag: Option<ETag>) -> Self;
    fn key_of(number: u32) -> Key;
    fn patch_of(title: Option<&str>) -> Self::Patch;
    fn number(&self) -> u32;
    fn title(&self) -> &str;
    fn text(&self) -> Option<&str>;
    fn set_title(&mut self, title: &str);
    fn set_number(&mut self, number: u32);
}

macro_rules! note {
    ($(#[$doc:meta])* $name:ident, [$($attribute:meta),*], [$key:meta], [$($text:meta)?]) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        $(#[$attribute])*
        pub(super) struct $name {
            #[$key]
            book: String,
            #[row_key(format = "{:06}")]
            number: u32,
            title: String,
            $(#[$text])?
            text: Option<String>,
            rank: u32,
            #[etag]
            etag: Option<ETag>,
        }

        impl Note for $name {
            fn new(number: u32, title: &str, text: Option<&str>) -> Self {
                let (title, text) = (title.to_owned(), text.map(str::to_owned));
                Self { book: BOOK.to_owned(), number, title, text, rank: 1, etag: None }
            }

            fn with_etag(self, etag: Option<ETag>) -> Self {
                Self { etag, ..self }
            }

            fn key_of(number: u32) -> Key {
                Self::key(BOOK, number).expect("a legal key").into_key()
            }

            fn patch_of(title: Option<&str>) -> Self::Patch {
                title.map_or_else(Self::patch, |title| Self::patch().title(title.to_owned()))
            }

            fn number(&self) -> u32 {
                self.number
            }

            fn title(&self) -> &str {
                &self.title
            }

            fn text(&self) -> Option<&str> {
                self.text.as_deref()
            }

            fn set_title(&mut self, title: &str) {
                self.title = title.to_owned();
            }

            fn set_number(&mut self, number: u32) {
                self.number = number;
            }
        }
    };
}

note!(
    /// The only type of its table.
    Untyped, [], [partition_key], []
);
note!(
    /// A type with a discriminator property: the table can hold other types.
    Typed, [entity(type = "Note")], [partition_key], []
);
note!(
    /// With a local entry.
    Indexed, [entity(type = "Note"), index(rank, row_key = "rank_{rank:04}_{number:06}")], [partition_key], []
);
note!(Wider, [entity(wide)], [partition_key], []);
note!(
    /// With its text in a blob.
    Large, [entity(type = "Note")], [partition_key], [large(over = 3)]
);
note!(
    /// With its text in a blob, and a local entry.
    LargeIndexed, [entity(type = "Note"), index(rank, row_key = "rank_{rank:04}_{number:06}")], [partition_key], [large(over = 3)]
);
note!(Spread, [], [partition_key(spread = 4)], []);

/// A type of serde. The suite needs the derived traits too; its handle uses serde alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TableEntity)]
#[entity(partition_key = "{book}", row_key = "{row}")]
pub(super) struct Plain {
    #[serde(rename = "PartitionKey")]
    book: String,
    #[serde(rename = "RowKey")]
    row: String,
    title: String,
    text: Option<String>,
    rank: u32,
    #[etag]
    #[serde(rename = "odata.etag")]
    etag: Option<ETag>,
}

fn row_of(number: u32) -> String {
    format!("{number:06}")
}

impl Note for Plain {
    fn new(number: u32, title: &str, text: Option<&str>) -> Self {
        let (title, text) = (title.to_owned(), text.map(str::to_owned));
        Self { book: BOOK.to_owned(), row: row_of(number), title, text, rank: 1, etag: None }
    }

    fn with_etag(self, etag: Option<ETag>) -> Self {
        Self { etag, ..self }
    }

    fn key_of(number: u32) -> Key {
        Key::new(BOOK, row_of(number)).expect("a legal key")
    }

    fn patch_of(title: Option<&str>) -> Self::Patch {
        title.map_or_else(Self::patch, |title| Self::patch().title(title.to_owned()))
    }

    fn number(&self) -> u32 {
        self.row.parse().expect("digits")
    }

    fn title(&self) -> &str {
        &self.title
    }

    fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    fn set_title(&mut self, title: &str) {
        self.title = title.to_owned();
    }

    fn set_number(&mut self, number: u32) {
        self.row = row_of(number);
    }
}

impl Serialize for PlainPatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_properties().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// The cost of a verb of a handle: requests to tables for an existing entity without concurrent writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Requests(u64),
    /// The handle does not have the verb, for this reason.
    Absent(&'static str),
}

pub(super) const fn n(requests: u64) -> Cell {
    Cell::Requests(requests)
}

const NO_READS: Cell = Cell::Absent("a group writes, and reads nothing for its caller");
const NO_SCHEMA: Cell =
    Cell::Absent("its query returns values of serde, and a set operation writes entities");
const READS_VALUES: Cell = Cell::Absent("it reads values, which do not keep their rows");
const NOT_BOUND: Cell = Cell::Absent("`replace` knows all that it needs");

/// The cost of each verb of a handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    pub(super) insert: Cell,
    pub(super) upsert: Cell,
    pub(super) insert_or_merge: Cell,
    pub(super) replace: Cell,
    /// `replace_if` with any version.
    pub(super) replace_any: Cell,
    pub(super) replace_stored: Cell,
    /// `merge` with the version that was read.
    pub(super) merge: Cell,
    pub(super) merge_any: Cell,
    pub(super) update: Cell,
    pub(super) delete: Cell,
    pub(super) delete_stored: Cell,
    pub(super) delete_if_exists: Cell,
    pub(super) get: Cell,
    pub(super) move_to: Cell,
    pub(super) query: Cell,
    /// The write of both entities that a query finds.
    pub(super) set_update: Cell,
    pub(super) set_delete: Cell,
}

#[cfg(test)]
impl Cells {
    /// Names and cells, in the order of the documented table.
    pub(super) fn all(self) -> [(&'static str, Cell); 17] {
        [
            ("insert", self.insert),
            ("upsert", self.upsert),
            ("insert_or_merge", self.insert_or_merge),
            ("replace", self.replace),
            ("replace_if, any", self.replace_any),
            ("replace_stored", self.replace_stored),
            ("merge", self.merge),
            ("merge, any", self.merge_any),
            ("update", self.update),
            ("delete", self.delete),
            ("delete_stored", self.delete_stored),
            ("delete_if_exists", self.delete_if_exists),
            ("get, get_existing", self.get),
            ("move_to", self.move_to),
            ("query, a page", self.query),
            ("query().update, 2 entities", self.set_update),
            ("query().delete, 2 entities", self.set_delete),
        ]
    }
}

/// The store and the tables of a handle.
pub(super) struct World {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) table: TableName,
    pub(super) blobs: Arc<dyn ObjectStore>,
}

impl World {
    pub(super) async fn new(harness: &Harness) -> Self {
        let (store, table) = (Arc::clone(harness.store()), harness.unused_name());
        for number in [0, 10, 20] {
            let slice = format!("{table}x201301{:02}", 1 + number / 10);
            harness.clean_up(&slice.parse().expect("a legal name"));
        }
        Self { store, table, blobs: harness.blobs().await }
    }

    /// The same tables through another store.
    pub(super) fn through(&self, store: Arc<dyn TableStore>) -> Self {
        Self { store, table: self.table.clone(), blobs: Arc::clone(&self.blobs) }
    }
}

/// A result that holds the version of a write.
pub(super) trait Version {
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
pub(super) trait Value<N> {
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
pub(super) trait Verbs: Send + Sync + 'static {
    type Of: Note;
    const NAME: &'static str;
    const CELLS: Cells;

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
        change: impl FnMut(&mut Self::Of) -> Result<()> + Send,
    ) -> Result<Self::Of>;
    async fn delete(&self, number: u32, version: IfMatch) -> Result<()>;
    async fn delete_if_exists(&self, number: u32) -> Result<bool>;
    async fn get(&self, number: u32) -> Result<Option<Self::Of>>;
    async fn get_existing(&self, number: u32) -> Result<Self::Of>;
    async fn move_to(&self, number: u32, target: &Self, to: u32) -> Result<bool>;

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
async fn opened<T>(handle: T, create: impl AsyncFn(&T) -> Result<bool>) -> T {
    create(&handle).await.expect("a new table");
    handle
}

async fn remove_in(store: &dyn TableStore, table: &TableName, key: Key) {
    store.write(table, Operation::Delete(key, IfMatch::Any)).await.expect("the row");
}

async fn set_unknown_in(store: &dyn TableStore, table: &TableName, key: Key, value: i32) {
    let unknown_value = Entity::from(key).with(UNKNOWN, value);
    store.write(table, Operation::Merge(unknown_value, IfMatch::Any)).await.expect("the row");
}

async fn unknown_value_in(store: &dyn TableStore, table: &TableName, key: Key) -> Option<i32> {
    let row = store.get(table, &key, None).await.expect("an answer");
    row.and_then(|row| unknown(&row))
}

fn unknown(entity: &Entity) -> Option<i32> {
    match entity.get(UNKNOWN) {
        Some(ValueRef::Int32(value)) => Some(value),
        found => {
            assert_eq!(found, None);
            None
        }
    }
}

fn book() -> PartitionKey {
    PartitionKey::new(BOOK).expect("a legal key")
}

/// The verbs that all handles call alike. `$key` is the key of the entity `$number` in the handle.
macro_rules! common {
    (|$number:ident| $($key:expr),+; |$handle:ident| $query:expr) => {
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
            change: impl FnMut(&mut Self::Of) -> Result<()> + Send,
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

        async fn move_to(&self, $number: u32, target: &Self, to: u32) -> Result<bool> {
            self.move_to($($key),+, target, Self::Of::key_of(to)).await
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
        async fn remove(&self, number: u32) {
            remove_in(&**self.store(), self.name(), Self::Of::key_of(number)).await;
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

/// No other type can be in the table: every write is one request.
const PLAIN: Cells = Cells {
    insert: n(1),
    upsert: n(1),
    insert_or_merge: n(1),
    replace: n(1),
    replace_any: n(1),
    replace_stored: NOT_BOUND,
    merge: n(1),
    merge_any: n(1),
    update: n(2),
    delete: n(1),
    delete_stored: Cell::Absent("`delete` knows all that it needs"),
    delete_if_exists: n(1),
    get: n(1),
    move_to: n(3),
    query: n(1),
    set_update: n(2),
    set_delete: n(2),
};

/// A read precedes each write that keeps or checks stored properties.
const READS: Cells = Cells {
    upsert: n(2),
    insert_or_merge: n(2),
    replace: n(2),
    replace_any: n(2),
    merge: n(2),
    merge_any: n(2),
    delete: n(2),
    delete_if_exists: n(2),
    move_to: n(4),
    ..PLAIN
};

impl Verbs for Table<Untyped> {
    type Of = Untyped;
    const NAME: &'static str = "`Table`";
    const CELLS: Cells = PLAIN;

    async fn open(world: &World) -> Self {
        let table = Self::new(Arc::clone(&world.store), world.table.clone()).expect("a table");
        opened(table, async |table| table.create_if_missing().await).await
    }

    common!(|number| Untyped::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));
    common!(@rows);
}

impl Verbs for SerdeTable<Plain> {
    type Of = Plain;
    const NAME: &'static str = "`SerdeTable`";
    const CELLS: Cells = Cells { set_update: NO_SCHEMA, set_delete: NO_SCHEMA, ..PLAIN };

    async fn open(world: &World) -> Self {
        let table = Self::new(Arc::clone(&world.store), world.table.clone()).expect("a table");
        opened(table, async |table| table.create_if_missing().await).await
    }

    common!(|number| Plain::key_of(number); |table| table.query().partition(book()));

    async fn set_update(&self, _: impl Fn(&mut Self::Of) -> Result<()> + Send + Sync) -> Result<BulkSummary> {
        unreachable!("a table of serde types has no set operations")
    }

    async fn set_delete(&self) -> Result<BulkSummary> {
        unreachable!("a table of serde types has no set operations")
    }
    common!(@rows);
}

impl Verbs for Table<Typed> {
    type Of = Typed;
    const NAME: &'static str = "`Table`, a type with `type` or `version`";
    const CELLS: Cells = Cells {
        upsert: n(2),
        insert_or_merge: n(2),
        replace_any: n(2),
        merge_any: n(2),
        move_to: n(4),
        ..PLAIN
    };

    async fn open(world: &World) -> Self {
        let table = Self::new(Arc::clone(&world.store), world.table.clone()).expect("a table");
        opened(table, async |table| table.create_if_missing().await).await
    }

    common!(|number| Typed::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));
    common!(@rows);
}

impl Verbs for IndexedTable<Indexed> {
    type Of = Indexed;
    const NAME: &'static str = "`IndexedTable`, entries in the partition";
    const CELLS: Cells =
        Cells { merge: n(1), replace_stored: n(1), delete_stored: n(1), move_to: n(3), ..READS };

    async fn open(world: &World) -> Self {
        let options = IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
        Self::open(Arc::clone(&world.store), world.table.clone(), options).await.expect("a new table")
    }

    async fn replace_stored(&self, read: u32, note: &Indexed) -> Result<Option<ETag>> {
        let read = self.get_existing(Indexed::key_of(read)).await?;
        Ok(self.replace_stored(&read, note).await?.version())
    }

    async fn delete_stored(&self, read: u32) -> Result<()> {
        let read = self.get_existing(Indexed::key_of(read)).await?;
        self.delete_stored(&read).await.map(drop)
    }

    common!(|number| Indexed::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));

    async fn remove(&self, number: u32) {
        self.delete(Indexed::key_of(number), IfMatch::Any).await.expect("the note");
    }

    async fn set_unknown(&self, number: u32, value: i32) {
        let of = self.entities();
        set_unknown_in(&**of.store(), of.table(), Indexed::key_of(number), value).await;
    }

    async fn unknown_value(&self, number: u32) -> Option<i32> {
        let of = self.entities();
        unknown_value_in(&**of.store(), of.table(), Indexed::key_of(number)).await
    }
}

impl Verbs for WideTable<Wider> {
    type Of = Wider;
    const NAME: &'static str = "`WideTable`";
    const CELLS: Cells =
        Cells { replace_stored: n(1), delete_stored: n(1), set_update: n(3), set_delete: n(3), ..READS };

    async fn open(world: &World) -> Self {
        let table = Self::new(Arc::clone(&world.store), world.table.clone()).expect("a table");
        opened(table, async |table| table.create_if_missing().await).await
    }

    async fn replace_stored(&self, read: u32, note: &Wider) -> Result<Option<ETag>> {
        let read = self.get_existing(Wider::key_of(read)).await?;
        Ok(self.replace_stored(&read, note).await?.version())
    }

    async fn delete_stored(&self, read: u32) -> Result<()> {
        let read = self.get_existing(Wider::key_of(read)).await?;
        self.delete_stored(&read).await
    }

    common!(|number| Wider::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));

    async fn remove(&self, number: u32) {
        self.delete(Wider::key_of(number), IfMatch::Any).await.expect("the note");
    }

    async fn set_unknown(&self, number: u32, value: i32) {
        let key = Wider::key_of(number);
        let unknown_value = self.entities().update(&key, |properties| {
            properties.set(UNKNOWN, value);
            Ok(())
        });
        unknown_value.await.expect("the entity");
    }

    async fn unknown_value(&self, number: u32) -> Option<i32> {
        let found = self.entities().get(&Wider::key_of(number)).await.expect("an answer");
        found.and_then(|found| unknown(&found.value))
    }
}

/// A read of the row precedes each write, because the row refers to blobs.
const LARGE: Cells =
    Cells { replace_stored: READS_VALUES, delete_stored: READS_VALUES, move_to: n(3), ..READS };

/// The note is removed with its blob. The undeclared property is set in the row.
macro_rules! large_rows {
    () => {
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

impl Verbs for LargeTable<Large> {
    type Of = Large;
    const NAME: &'static str = "`LargeTable`";
    const CELLS: Cells = LARGE;

    async fn open(world: &World) -> Self {
        let (store, blobs) = (Arc::clone(&world.store), Arc::clone(&world.blobs));
        let table = Self::new(store, world.table.clone(), blobs).expect("a table");
        opened(table, async |table| table.create_if_missing().await).await
    }

    common!(|number| Large::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));
    large_rows!();
}

impl Verbs for LargeTable<LargeIndexed> {
    type Of = LargeIndexed;
    const NAME: &'static str = "`LargeTable`, entries in the partition";
    const CELLS: Cells = LARGE;

    async fn open(world: &World) -> Self {
        let (store, blobs) = (Arc::clone(&world.store), Arc::clone(&world.blobs));
        let (large, indexes) =
            (LargeOptions::default(), IndexOptions::default().with_clearing(Clearing::BeforeAnswer));
        Self::open(store, world.table.clone(), blobs, large, indexes).await.expect("a new table")
    }

    common!(|number| LargeIndexed::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));
    large_rows!();
}

impl Verbs for SpreadTable<Spread> {
    type Of = Spread;
    const NAME: &'static str = "`SpreadTable`, 4 buckets";
    const CELLS: Cells = Cells { move_to: n(4), query: n(4), set_update: n(6), set_delete: n(6), ..PLAIN };

    async fn open(world: &World) -> Self {
        let table = Self::new(Arc::clone(&world.store), world.table.clone()).expect("a table");
        opened(table, async |table| table.create_if_missing().await).await
    }

    common!(|number| Spread::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));

    async fn remove(&self, number: u32) {
        let key = self.stored_key(Spread::key_of(number)).expect("a legal key");
        remove_in(&**self.store(), self.name(), key).await;
    }

    async fn set_unknown(&self, number: u32, value: i32) {
        let key = self.stored_key(Spread::key_of(number)).expect("a legal key");
        set_unknown_in(&**self.store(), self.name(), key, value).await;
    }

    async fn unknown_value(&self, number: u32) -> Option<i32> {
        let key = self.stored_key(Spread::key_of(number)).expect("a legal key");
        unknown_value_in(&**self.store(), self.name(), key).await
    }
}

/// Ten notes per day.
fn day(number: u32) -> Ticks {
    let day = 1 + number / 10;
    format!("2013-01-{day:02}T00:00:00Z").parse().expect("a time")
}

impl Verbs for TimeSlices<Untyped> {
    type Of = Untyped;
    const NAME: &'static str = "`TimeSlices`, slices that the handle knows";
    const CELLS: Cells = Cells {
        merge: n(2),
        merge_any: n(2),
        move_to: n(4),
        query: n(2),
        // A page of each of the three slices.
        set_update: n(5),
        set_delete: n(5),
        ..PLAIN
    };

    async fn open(world: &World) -> Self {
        let family = format!("{}x", world.table);
        let time = |note: &Untyped| day(note.number);
        let slices = Self::new(Arc::clone(&world.store), &family, Every::Day, time).expect("a family");
        for number in [0, 10, 20] {
            slices.table_for(day(number)).await.expect("a slice");
        }
        slices
    }

    common!(|number| day(number), Untyped::key_of(number); |slices| slices.query().narrow(|query| query.partition(book())));
    sets!(|slices| slices.query().narrow(|query| query.partition(book())));

    async fn remove(&self, number: u32) {
        let table = self.table_for(day(number)).await.expect("the slice");
        remove_in(&**table.store(), table.name(), Untyped::key_of(number)).await;
    }

    async fn set_unknown(&self, number: u32, value: i32) {
        let table = self.table_for(day(number)).await.expect("the slice");
        set_unknown_in(&**table.store(), table.name(), Untyped::key_of(number), value).await;
    }

    async fn unknown_value(&self, number: u32) -> Option<i32> {
        let table = self.table_for(day(number)).await.expect("the slice");
        unknown_value_in(&**table.store(), table.name(), Untyped::key_of(number)).await
    }
}

/// The verbs of a handle as groups of one operation, which `of` commits.
macro_rules! grouped {
    () => {
        async fn insert(&self, note: &Self::Of) -> Result<Option<ETag>> {
            self.of(|group| group.insert(note).map(drop)).await
        }

        async fn upsert(&self, note: &Self::Of) -> Result<Option<ETag>> {
            self.of(|group| group.upsert(note).map(drop)).await
        }

        async fn insert_or_merge(&self, note: &Self::Of) -> Result<Option<ETag>> {
            self.of(|group| group.insert_or_merge(note).map(drop)).await
        }

        async fn replace(&self, note: &Self::Of) -> Result<Option<ETag>> {
            self.of(|group| group.replace(note).map(drop)).await
        }

        async fn replace_if(&self, note: &Self::Of, version: IfMatch) -> Result<Option<ETag>> {
            self.of(|group| group.replace_if(note, version).map(drop)).await
        }

        async fn merge(
            &self,
            number: u32,
            patch: &<Self::Of as TableEntity>::Patch,
            version: IfMatch,
        ) -> Result<Option<ETag>> {
            self.of(|group| group.merge(Self::Of::key_of(number), patch, version).map(drop)).await
        }

        async fn update(
            &self,
            _: u32,
            _: impl FnMut(&mut Self::Of) -> Result<()> + Send,
        ) -> Result<Self::Of> {
            unreachable!("a group has no `update`")
        }

        async fn delete(&self, number: u32, version: IfMatch) -> Result<()> {
            self.of(|group| group.delete(Self::Of::key_of(number), version).map(drop)).await.map(drop)
        }

        async fn delete_if_exists(&self, _: u32) -> Result<bool> {
            unreachable!("a group has no `delete_if_exists`")
        }

        async fn get(&self, number: u32) -> Result<Option<Self::Of>> {
            Verbs::get(&self.0, number).await
        }

        async fn get_existing(&self, number: u32) -> Result<Self::Of> {
            Verbs::get_existing(&self.0, number).await
        }

        async fn move_to(&self, _: u32, _: &Self, _: u32) -> Result<bool> {
            unreachable!("a group has no `move_to`")
        }

        async fn all(&self, _: Option<usize>) -> Result<Vec<Self::Of>> {
            unreachable!("a group has no `query`")
        }

        async fn streamed(&self, _: Option<usize>) -> Result<Vec<Self::Of>> {
            unreachable!("a group has no `query`")
        }

        async fn first(&self) -> Result<Option<Self::Of>> {
            unreachable!("a group has no `query`")
        }

        async fn count(&self, _: Option<usize>) -> Result<usize> {
            unreachable!("a group has no `query`")
        }

        async fn page(&self, _: usize, _: Option<&Continuation>) -> Result<Page<Self::Of>> {
            unreachable!("a group has no `query`")
        }

        async fn set_update(
            &self,
            _: impl Fn(&mut Self::Of) -> Result<()> + Send + Sync,
        ) -> Result<BulkSummary> {
            unreachable!("a group has no `query`")
        }

        async fn set_delete(&self) -> Result<BulkSummary> {
            unreachable!("a group has no `query`")
        }

        fn with_attempts(self, _: u32) -> Self {
            unreachable!("a group has no `update`")
        }

        async fn remove(&self, number: u32) {
            self.0.remove(number).await;
        }

        async fn set_unknown(&self, number: u32, value: i32) {
            self.0.set_unknown(number, value).await;
        }

        async fn unknown_value(&self, number: u32) -> Option<i32> {
            self.0.unknown_value(number).await
        }
    };
}

/// A group reads nothing for its caller and returns only versions.
const fn of_group(cells: Cells) -> Cells {
    Cells {
        update: NO_READS,
        delete_if_exists: NO_READS,
        get: NO_READS,
        move_to: NO_READS,
        query: NO_READS,
        set_update: NO_READS,
        set_delete: NO_READS,
        ..cells
    }
}

/// Each verb as a group of one operation.
pub(super) struct Group(Table<Typed>);

impl Group {
    async fn of(&self, add: impl FnOnce(&mut TableGroup<Typed>) -> Result<()>) -> Result<Option<ETag>> {
        let mut group = self.0.group(book());
        add(&mut group)?;
        Ok(group.commit().await?.version())
    }
}

impl Verbs for Group {
    type Of = Typed;
    const NAME: &'static str = "`TableGroup`, a type with `type` or `version`";
    const CELLS: Cells = of_group(<Table<Typed> as Verbs>::CELLS);

    async fn open(world: &World) -> Self {
        Self(<Table<Typed> as Verbs>::open(world).await)
    }

    grouped!();
}

/// Each verb as a group of one operation, with its entries.
pub(super) struct WithEntries(IndexedTable<Indexed>);

impl WithEntries {
    async fn of(
        &self,
        add: impl FnOnce(&mut IndexedGroup<'_, Indexed>) -> Result<()>,
    ) -> Result<Option<ETag>> {
        let mut group = self.0.group(book());
        add(&mut group)?;
        Ok(group.commit().await?.version())
    }
}

impl Verbs for WithEntries {
    type Of = Indexed;
    const NAME: &'static str = "`IndexedGroup`, entries in the partition";
    const CELLS: Cells =
        of_group(Cells { merge: n(2), merge_any: n(2), ..<IndexedTable<Indexed> as Verbs>::CELLS });

    async fn open(world: &World) -> Self {
        Self(<IndexedTable<Indexed> as Verbs>::open(world).await)
    }

    async fn replace_stored(&self, read: u32, note: &Indexed) -> Result<Option<ETag>> {
        let read = self.0.get_existing(Indexed::key_of(read)).await?;
        self.of(|group| group.replace_stored(&read, note).map(drop)).await
    }

    async fn delete_stored(&self, read: u32) -> Result<()> {
        let read = self.0.get_existing(Indexed::key_of(read)).await?;
        self.of(|group| group.delete_stored(&read).map(drop)).await.map(drop)
    }

    grouped!();
}
