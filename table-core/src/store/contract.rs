use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::{
    EncryptedNames, GroupTransaction, LocalWriters, Operation, Result, ServiceProfile, Written,
};
use crate::forward_to_store;
use crate::model::{Entity, Key, TableName, Ticks};
use crate::query::{Continuation, Page, Query, ReadablePage, Select};
use crate::store::ManifestCache;

/// A store of tables. Backends and adapters implement this trait; programs use it through
/// [`TableStoreExt`](super::TableStoreExt) and [`Table`](crate::typed::Table).
///
/// # Atomicity
/// A write or group transaction takes effect as a whole or not at all. No operation writes several partitions.
///
/// # Ordering
/// A page's entities are sorted if the profile's [`KeyOrder`](super::KeyOrder) is `Sorted`. A read that starts after a
/// write was answered sees the write, unless [`has_stale_reads`](ServiceProfile::has_stale_reads) is set. A query is
/// not a snapshot: each page is read separately, and an entity that is written during the query is returned in its
/// old or its new state.
///
/// # Pages
/// A page may be short or empty and still have a continuation. A query ends with the page that has no continuation.
///
/// # Errors
/// Every error says whether the operation took effect ([`Outcome`](super::Outcome)). For a missing entity,
/// [`get`](Self::get) returns `None`; a missing table is an error. A request that exceeds the limits of the profile is
/// refused before it is sent.
///
/// # Encryption
/// A store whose profile does not encrypt refuses marked properties. Typed tables call
/// [`declare_encrypted`](Self::declare_encrypted) with the names that they mark, before the first request. A store that
/// encrypts returns the names that it encrypts from [`encrypted_names`](Self::encrypted_names), so that the layers above
/// do not copy the plaintext of these properties into keys, index entries or messages.
///
/// # Cancellation
/// If a future is dropped, its operation may or may not have taken effect.
///
/// # Ownership
/// Handles own their store, because streams and background work may outlive the call: give them a store, an `Arc` of one
/// or an `Arc<dyn TableStore>`, which they share without another wrapper. A reference is not a store.
///
/// # Wrappers
/// Adapters forward every method that they do not change: [`forward_to_store!`](crate::forward_to_store).
#[async_trait]
pub trait TableStore: Debug + Send + Sync + 'static {
    /// Returns what the store can do: limits, order, encryption. Sends no request.
    fn profile(&self) -> &ServiceProfile;

    /// Creates a table. 1 request.
    async fn create_table(&self, table: &TableName) -> Result<()>;

    /// Deletes a table with its entities. 1 request.
    ///
    /// The name may stay reserved for a time, on Azure Table Storage for at least 40 seconds. Until then requests fail
    /// with [`TableBeingDeleted`](crate::store::ErrorKind::TableBeingDeleted).
    async fn delete_table(&self, table: &TableName) -> Result<()>;

    /// Returns a page of the tables whose names start with `prefix`, sorted by name. 1 request.
    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>>;

    /// Returns the entity with this key; `None` if there is none. 1 request.
    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>>;

    /// Returns a page of the entities that match. 1 request.
    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>>;

    /// Returns a page of the entities that match and can be decrypted, and a list of the entities that cannot. 1 request.
    ///
    /// A store that decrypts refuses a whole page of [`query`](Self::query) if one entity in it is damaged or forged, or if
    /// its key is not available. This method returns the other entities: to serve them, to process them, or to
    /// measure the damage. An entity that is not in the page may still exist. For a store that does not decrypt,
    /// the method is the same as `query`.
    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        self.query(table, query, from).await.map(ReadablePage::from)
    }

    /// Writes one entity. 1 request.
    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written>;

    /// Writes several entities of one partition, all or none. 1 request. Returns the answers in the group's order.
    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>>;

    /// Declares that entities of the table have these properties encrypted. Typed tables call it when they are opened.
    /// Sends no request. A store that encrypts then refuses filters on these properties and plaintext in them. Other
    /// stores ignore the call.
    fn declare_encrypted(&self, _table: &TableName, _names: &[&str]) {}

    /// Returns the names of the properties that the store encrypts in a table, by its rules and by the marks that it
    /// knows. Sends no request. Empty for a store that does not encrypt.
    ///
    /// Code that derives rows, keys, messages or blobs from an entity must call this first. It marks these
    /// properties, or refuses to derive from them.
    fn encrypted_names(&self, _table: &TableName) -> EncryptedNames {
        EncryptedNames::default()
    }

    /// Returns the register of this process's writes, if no other process can write the store; `None` for every service.
    /// Sends no request.
    ///
    /// With a register, a change of an index state waits only for the writes in flight. Without one it waits for
    /// the longest time that a write of any process can take. A store returns the same register to all handles. If it
    /// continues an operation after its future was dropped, it holds a [permit](LocalWriters::enter) for it.
    fn local_writers(&self) -> Option<Arc<LocalWriters>> {
        None
    }

    /// Returns this process's cache of the manifests of the store's tables. Sends no request.
    ///
    /// A backend owns the cache and informs it of tables that it [creates](ManifestCache::new_table) and deletes, and
    /// of manifest rows that it [writes](ManifestCache::change_of). Without a shared cache each handle has its own.
    /// It then learns of manifest writes by the same process no earlier than of writes by other processes.
    fn manifests(&self) -> Option<Arc<ManifestCache>> {
        None
    }

    /// Returns the time by which entities of a type with `#[expires]` expire. Sends no request. Default: the clock of this machine.
    ///
    /// [`WithClock`](crate::adapter::WithClock) sets another clock, for tests.
    fn now(&self) -> Ticks {
        Ticks::now()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore + ?Sized> TableStore for Arc<S> {
    forward_to_store!(self => (**self);
        profile, create_table, delete_table, list_tables, get, query, query_readable, write, transact,
        declare_encrypted, encrypted_names, local_writers, manifests, now);
}
