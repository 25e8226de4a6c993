//! The store of a matrix cell, plain or encrypted, and the types and tables of each layout.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use conformance::{Backend, async_trait};
use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use object_store::memory::InMemory;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use table_core::model::{Entity, ValueRef};
use table_core::prelude::*;
use table_core::query::Query;
use table_core::store::Result;
use table_core::typed::TableEntity;
use table_encryption::{AesKeyWrap, EncryptedStore, EncryptedStoreBuilder, Keys};
use table_patterns::bulk::BulkSummary;
use table_patterns::eventual::Moves;
use table_patterns::index::{IndexOptions, ScrubMode};
use table_patterns::journal::Clearing;
use table_patterns::large::LargeOptions;
use table_patterns::spread::SpreadTable;
use table_patterns::wide::WideTable;
use table_patterns::{Database, Table};
use uuid::Uuid;

/// The table of the layout under test, within a [`World`].
pub(crate) const TABLE: &str = "Things";
/// The text that no stored row and no blob of an encrypted world contains.
pub(crate) const SECRET: &str = "SECRET";

/// An entity of every layout.
pub(crate) trait Thing: TableEntity + Clone + Debug + PartialEq {
    fn new(p: &str, r: u32) -> Self;
    fn key_of(p: &str, r: u32) -> Key;
    /// Gives the entity another name.
    fn rename(&mut self);
}

macro_rules! thing {
    ($name:ident, [$($attr:meta),*], $key:meta, [$($large:meta),*], [$($secret:meta),*]) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        $(#[$attr])*
        pub(crate) struct $name {
            #[$key]
            p: String,
            #[row_key]
            r: u32,
            pub(crate) name: String,
            $(#[$secret])*
            secret: String,
            $(#[$large])*
            text: String,
        }

        impl Thing for $name {
            fn new(p: &str, r: u32) -> Self {
                let secret = format!("{SECRET}{r}");
                Self { p: p.into(), r, name: format!("name{r}"), secret, text: "text".repeat(20) }
            }

            fn key_of(p: &str, r: u32) -> Key {
                Self::key(p, r).unwrap().into_key()
            }

            fn rename(&mut self) {
                self.name.push('2');
            }
        }
    };
}

/// A type of a layout, and the same type with an encrypted secret.
macro_rules! things {
    ($name:ident, $sealed:ident, [$($attr:meta),*], $key:meta, [$($large:meta),*]) => {
        thing!($name, [$($attr),*], $key, [$($large),*], []);
        thing!($sealed, [$($attr),*], $key, [$($large),*], [encrypt]);
    };
}

things!(Plain, SealedPlain, [entity(type = "Thing")], partition_key, []);
things!(Indexed, SealedIndexed, [
    entity(type = "Thing"),
    index(name, row_key = "name_{name}_{r}"),
    index(text, partition_key = "text_{text}", row_key = "{p}_{r}", payload = full)
], partition_key, []);
things!(Older, SealedOlder, [
    entity(type = "Thing"),
    index(name, row_key = "name_{name}_{r}")
], partition_key, []);
things!(Unique, SealedUnique, [
    entity(type = "Thing"),
    index(name, partition_key = "name_{name}", row_key = "x", unique = "table")
], partition_key, []);
things!(Large, SealedLarge, [entity(type = "Thing")], partition_key, [large(over = 16)]);
things!(LargeIndexed, SealedLargeIndexed, [
    entity(type = "Thing"),
    index(name, row_key = "name_{name}_{r}", payload = fields(secret)),
    index(elsewhere, partition_key = "name_{name}", row_key = "{p}_{r}")
], partition_key, [large(over = 16)]);
things!(Spread, SealedSpread, [entity(type = "Thing")], partition_key(spread = 4), []);
things!(Wide, SealedWide, [entity(type = "Thing", wide)], partition_key, []);

/// Large entities with encrypted blobs.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Thing")]
pub(crate) struct SealedBlobs {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
    name: String,
    #[encrypt]
    secret: String,
    #[encrypt]
    #[large(over = 16)]
    text: String,
}

impl Thing for SealedBlobs {
    fn new(p: &str, r: u32) -> Self {
        let SealedLarge {
            p,
            r,
            name,
            secret,
            text,
        } = SealedLarge::new(p, r);
        Self {
            p,
            r,
            name,
            secret,
            text: format!("{SECRET}{text}"),
        }
    }

    fn key_of(p: &str, r: u32) -> Key {
        Self::key(p, r).unwrap().into_key()
    }

    fn rename(&mut self) {
        self.name.push('2');
    }
}

/// The same type from before encryption.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Thing")]
pub(crate) struct OpenBlobs {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
    name: String,
    secret: String,
    #[large(over = 16)]
    text: String,
}

impl Thing for OpenBlobs {
    fn new(p: &str, r: u32) -> Self {
        let SealedBlobs {
            p,
            r,
            name,
            secret,
            text,
        } = SealedBlobs::new(p, r);
        Self {
            p,
            r,
            name,
            secret,
            text,
        }
    }

    fn key_of(p: &str, r: u32) -> Key {
        Self::key(p, r).unwrap().into_key()
    }

    fn rename(&mut self) {
        self.name.push('2');
    }
}

/// A key-encryption key.
pub(crate) fn kek(n: u8) -> Arc<AesKeyWrap> {
    Arc::new(AesKeyWrap::new(format!("KEK{n}"), &vec![n; 32].into()).unwrap())
}

pub(crate) type Encrypted = EncryptedStore<Arc<dyn TableStore>>;
pub(crate) type Builder = EncryptedStoreBuilder<Arc<dyn TableStore>>;

/// Makes the backend of a world.
pub(crate) type Backends = fn() -> Box<dyn Backend>;

/// The tables and blobs of one cell. The store encrypts if the world is sealed.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) blobs: Arc<InMemory>,
    pub(crate) encrypted: Option<Arc<Encrypted>>,
    /// Whether plaintext blobs are accepted.
    pub(crate) migrating: bool,
    /// The options of tables.
    pub(crate) options: IndexOptions,
    raw: Arc<dyn TableStore>,
    tag: String,
    _backend: Arc<dyn Backend>,
}

impl World {
    pub(crate) async fn new(backends: Backends, sealed: bool) -> Self {
        let backend: Arc<dyn Backend> = backends().into();
        let (raw, blobs) = (backend.store().await, Arc::new(InMemory::new()));
        let tag = format!("T{}", &Uuid::new_v4().simple().to_string()[..12]);
        let world = Self {
            store: raw.clone(),
            blobs,
            encrypted: None,
            migrating: false,
            options: IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
            raw,
            tag,
            _backend: backend,
        };
        if sealed {
            world.sealed(Keys::new(kek(1)), |builder, _| builder)
        } else {
            world
        }
    }

    /// Returns another world with empty tables of the same names.
    pub(crate) async fn twin(&self, backends: Backends) -> Self {
        let mut twin = Self::new(backends, false).await;
        twin.tag = self.tag.clone();
        if self.encrypted.is_some() {
            twin.sealed(Keys::new(kek(1)), |builder, _| builder)
        } else {
            twin
        }
    }

    /// Returns the same tables with other keys and rules.
    pub(crate) fn sealed(
        &self,
        keys: Keys,
        rules: impl FnOnce(Builder, &TableName) -> Builder,
    ) -> Self {
        let builder = rules(
            EncryptedStore::builder(self.raw.clone(), keys),
            &self.table(TABLE),
        );
        let encrypted = Arc::new(builder.build().unwrap());
        Self {
            store: encrypted.clone(),
            encrypted: Some(encrypted),
            ..self.clone()
        }
    }

    /// Returns the same tables through a store around the store.
    pub(crate) fn through(&self, store: Arc<dyn TableStore>) -> Self {
        Self {
            store,
            ..self.clone()
        }
    }

    /// Returns the same tables without decryption.
    pub(crate) fn raw(&self) -> Self {
        Self {
            store: self.raw.clone(),
            encrypted: None,
            ..self.clone()
        }
    }

    pub(crate) fn table(&self, table: &str) -> TableName {
        TableName::new(format!("{}{table}", self.tag)).unwrap()
    }

    /// Returns every stored row.
    async fn stored(&self) -> Vec<Entity> {
        let mut rows = Vec::new();
        for table in self.raw.all_tables(Some(&self.tag)).await.unwrap() {
            rows.extend(self.raw.query_all(&table, &Query::new()).await.unwrap());
        }
        rows
    }

    /// Returns every stored row, without the rows that handles and coordinators register for themselves, and
    /// every blob.
    pub(crate) async fn rows(&self) -> (Vec<Entity>, Vec<Vec<u8>>) {
        let mut rows = self.stored().await;
        rows.retain(|row| {
            !row.key().partition().starts_with("~~") && !row.key().partition().starts_with("queue")
        });
        (rows, self.stored_blobs().await)
    }

    pub(crate) async fn stored_blobs(&self) -> Vec<Vec<u8>> {
        let names: Vec<_> = self.blobs.list(None).try_collect().await.unwrap();
        let mut blobs = Vec::new();
        for name in names {
            blobs.push(
                self.blobs
                    .get(&name.location)
                    .await
                    .unwrap()
                    .bytes()
                    .await
                    .unwrap()
                    .to_vec(),
            );
        }
        blobs
    }

    /// Asserts that no row of any table and no blob contains the text.
    pub(crate) async fn assert_hidden(&self, what: &str, text: &str) {
        let has = |bytes: &[u8]| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        for row in self.stored().await {
            assert!(
                !has(row.key().to_string().as_bytes()),
                "{what}: {text} in the key of {}",
                row.key()
            );
            for property in row.properties().iter() {
                let shown = match property.value() {
                    ValueRef::Binary(bytes) => has(bytes),
                    other => has(format!("{other:?}").as_bytes()),
                };
                assert!(
                    !shown,
                    "{what}: {text} in '{}' of {}",
                    property.name(),
                    row.key()
                );
            }
        }
        assert!(
            !self.stored_blobs().await.iter().any(|blob| has(blob)),
            "{what}: {text} in a blob"
        );
    }

    /// Asserts, in a sealed world, that no stored row contains the secret.
    pub(crate) async fn check(&self, what: &str) {
        if self.encrypted.is_some() {
            self.assert_hidden(what, SECRET).await;
        }
    }

    /// The tables and blobs of the world.
    pub(crate) fn database(&self) -> Database {
        Database::with_options(self.store.clone(), self.options.clone())
            .with_blobs(self.blobs.clone())
            .with_large(self.large())
    }

    fn large(&self) -> LargeOptions {
        let options = LargeOptions::default();
        match &self.encrypted {
            Some(store) => {
                let options = options.with_codec(Arc::new(store.blob_cipher()));
                if self.migrating {
                    options.accept_plaintext()
                } else {
                    options
                }
            }
            None => options,
        }
    }
}

/// The table of a layout, as the matrix uses it.
pub(crate) trait Handle: Moves + Upkeep + Clone {
    type Of: Thing;

    fn open_in<'a>(world: &'a World, table: &'static str) -> BoxFuture<'a, Result<Self>>;
    fn put<'a>(&'a self, value: &'a Self::Of) -> BoxFuture<'a, Result<()>>;
    /// Returns the entity, after a [check](Upkeep::check).
    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Self::Of>>>;
    /// Deletes the entities of the partition `p` by a query.
    fn delete_set(&self) -> BoxFuture<'_, Result<BulkSummary>>;
    /// Renames the entities of the partition `p` by a query.
    fn update_set(&self) -> BoxFuture<'_, Result<BulkSummary>>;

    fn open(world: &World) -> BoxFuture<'_, Self> {
        Box::pin(async { Self::open_in(world, TABLE).await.unwrap() })
    }
}

/// The maintenance of a layout besides its rows.
pub(crate) trait Upkeep: Sync {
    /// Asserts that every index has exactly the entries of its entities.
    fn check(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Rewrites the blobs after a rotation or a migration. Returns the number of rewritten blobs.
    fn sweep_blobs(&self) -> BoxFuture<'_, u64> {
        Box::pin(async { 0 })
    }
}

impl<T: TableEntity> Upkeep for SpreadTable<T> {}
impl<T: TableEntity> Upkeep for WideTable<T> {}

impl<T: TableEntity> Upkeep for Table<T> {
    fn check(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if is_large::<T>() {
                assert_eq!(self.scrub_blobs().await.unwrap().missing, []);
            }
            for index in T::SCHEMA.indexes {
                let found = self
                    .entities()
                    .await
                    .expect("an open table")
                    .scrub(&index.name, ScrubMode::Report)
                    .await
                    .unwrap();
                assert_eq!(found.dangling, 0, "{}", index.name);
                assert_eq!(found.missing, 0, "{}", index.name);
                assert_eq!(found.taken_keys, 0, "{}", index.name);
                assert_eq!(found.entries, found.entities, "{}", index.name);
            }
        })
    }

    fn sweep_blobs(&self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            if !is_large::<T>() {
                return 0;
            }
            let mut sweep = self.rewrite_blobs();
            let found = sweep.run().await.unwrap();
            assert!(
                found.unreadable.is_empty() && found.skipped == 0,
                "{found:?}"
            );
            assert_eq!(found.plaintext, 0);
            found.rewritten
        })
    }
}

impl<H, D> Upkeep for Beside<H, D>
where
    H: Send + Sync,
    D: TableEntity,
{
    fn check(&self) -> BoxFuture<'_, ()> {
        self.declaring.check()
    }

    fn sweep_blobs(&self) -> BoxFuture<'_, u64> {
        self.declaring.sweep_blobs()
    }
}

/// The handle of a program that does not know every index of the table, together with the handle of the program that has declared them.
pub(crate) struct Beside<H, D> {
    own: H,
    pub(crate) declaring: Table<D>,
}

impl<H: Debug, D: TableEntity> Debug for Beside<H, D> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside")
            .field("own", &self.own)
            .field("declaring", &self.declaring)
            .finish()
    }
}

impl<H: Clone, D: TableEntity> Clone for Beside<H, D> {
    fn clone(&self) -> Self {
        Self {
            own: self.own.clone(),
            declaring: self.declaring.clone(),
        }
    }
}

#[async_trait]
impl<H: Moves, D: TableEntity> Moves for Beside<H, D> {
    async fn move_entity(&self, key: &Key, target: &Self, to: &Key) -> Result<bool> {
        self.own.move_entity(key, &target.own, to).await
    }

    async fn has(&self, key: &Key) -> Result<bool> {
        self.own.has(key).await
    }
}

/// A program whose type has no index comes first, and writes nothing before the other one declares its indexes. A program of an older version
/// comes to indexes that a later one has declared.
impl<T: Thing, D: TableEntity> Handle for Beside<Table<T>, D> {
    type Of = T;

    fn open_in<'a>(world: &'a World, table: &'static str) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async move {
            let own = async || Table::<T>::open_in(world, table).await;
            let declaring = async || declared(world, world.table(table)).await;
            let (own, declaring) = if T::SCHEMA.indexes.is_empty() {
                let own = own().await?;
                (own, declaring().await?)
            } else {
                let declaring = declaring().await?;
                (own().await?, declaring)
            };
            Ok(Self { own, declaring })
        })
    }

    fn put<'a>(&'a self, value: &'a T) -> BoxFuture<'a, Result<()>> {
        self.own.put(value)
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<T>>> {
        Box::pin(async move {
            self.check().await;
            self.own.read(key).await
        })
    }

    fn delete_set(&self) -> BoxFuture<'_, Result<BulkSummary>> {
        self.own.delete_set()
    }

    fn update_set(&self) -> BoxFuture<'_, Result<BulkSummary>> {
        self.own.update_set()
    }
}

/// Whether values of the type may be in blobs.
pub(crate) fn is_large<T: TableEntity>() -> bool {
    !T::requirements().large.is_empty()
}

/// A table that a program has declared.
pub(crate) async fn declared<T: TableEntity>(world: &World, name: TableName) -> Result<Table<T>> {
    let table = world.database().table(name)?;
    table.declare().await?;
    Ok(table)
}

macro_rules! handle {
    ($table:ident, |$world:ident, $name:ident| $open:expr, |$got:ident| $value:expr) => {
        impl<T: Thing> Handle for $table<T> {
            type Of = T;

            fn open_in<'a>($world: &'a World, table: &'static str) -> BoxFuture<'a, Result<Self>> {
                let $name = $world.table(table);
                Box::pin(async move { $open })
            }

            fn put<'a>(&'a self, value: &'a T) -> BoxFuture<'a, Result<()>> {
                Box::pin(async move { self.insert(value).await.map(drop) })
            }

            fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<T>>> {
                Box::pin(async move {
                    self.check().await;
                    Ok(self.get(key).await?.map(|$got| $value))
                })
            }

            fn delete_set(&self) -> BoxFuture<'_, Result<BulkSummary>> {
                Box::pin(async move {
                    self.query()
                        .partition(PartitionKey::new("p")?)
                        .delete()
                        .await
                })
            }

            fn update_set(&self) -> BoxFuture<'_, Result<BulkSummary>> {
                let rename = |thing: &mut T| {
                    thing.rename();
                    Ok(())
                };
                Box::pin(async move {
                    self.query()
                        .partition(PartitionKey::new("p")?)
                        .update(rename)
                        .await
                })
            }
        }
    };
}

/// Opens a handle and creates its table.
macro_rules! opened {
    ($open:expr) => {{
        let opened = $open?;
        opened.create_if_missing().await?;
        Ok(opened)
    }};
}

pub(crate) use opened;

handle!(Table, |w, name| declared(w, name).await, |got| got);
handle!(
    SpreadTable,
    |w, name| opened!(SpreadTable::new(w.store.clone(), name)),
    |got| got
);
handle!(
    WideTable,
    |w, name| opened!(WideTable::new(w.store.clone(), name)),
    |got| got.into_inner()
);
