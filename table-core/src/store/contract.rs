use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::{GroupTransaction, Operation, Result, ServiceProfile, StoreContext, Written};
use crate::forward_to_store;
use crate::model::{Entity, Key, TableName};
use crate::query::{Continuation, Page, Query, ReadablePage, Select};

/// A store of tables. Backends and adapters implement this trait; programs use it through
/// [`TableStoreExt`](super::TableStoreExt), and for typed entities through `table_patterns::Database`.
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
/// A store whose profile does not encrypt refuses marked properties. Typed tables
/// [declare](StoreContext::declare_encrypted) the names that they mark, before the first request. The
/// [context](Self::context) of a store that encrypts has [the names](StoreContext::encrypted_names), so that the layers above
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
/// Adapters forward every method that they do not change: [`forward_to_store!`](crate::forward_to_store). An adapter that hides rows of
/// the manifest must not be asked for [manifests](super::TableStoreExt::manifest): all views of a store share their cache.
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
    ///
    /// A store that decrypts meets entities that are damaged or forged, or whose key is not available. It refuses the page, or lists them
    /// beside the others if the query [asks for that](Query::with_unreadable): to serve the others, to process them, or to measure the damage.
    /// An entity that is in neither list may still exist. A caller that needs every entity takes
    /// [`into_page`](ReadablePage::into_page).
    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage>;

    /// Writes one entity. 1 request.
    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written>;

    /// Writes several entities of one partition, all or none. 1 request. Returns the answers in the group's order.
    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>>;

    /// Returns what the handles of the store share in this process: the manifests that it has read, the register of its writes, the
    /// clock, and the names of encrypted properties. Sends no request. All clones of a store return the same context.
    fn context(&self) -> &StoreContext;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore + ?Sized> TableStore for Arc<S> {
    forward_to_store!(self => (**self);
        profile, create_table, delete_table, list_tables, get, query, write, transact, context);
}
