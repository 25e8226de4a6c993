use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::{EncryptedNames, GroupTransaction, LocalWriters, Operation, Result, ServiceProfile, Written};
use crate::model::{Entity, Key, TableName};
use crate::query::{Continuation, Page, Query, ReadablePage, Select};
use crate::store::ManifestCache;

/// A store of tables: the narrow waist between programs and backends.
///
/// Implement it for a backend or an adapter; use it through
/// [`TableStoreExt`](super::TableStoreExt) and [`Table`](crate::typed::Table).
///
/// # Atomicity
/// Each write and each group transaction happens wholly or not at all. Nothing spans partitions.
///
/// # Ordering
/// A page's entities are sorted if the profile's [`KeyOrder`](super::KeyOrder) says so. A read that
/// starts after a write was answered sees it. A query is not a snapshot: each page is read when
/// it is asked for, and an entity written meanwhile is seen in the old state or the new one.
///
/// # Pages
/// A page may be short, even empty, and still carry a continuation; only its absence is the end.
///
/// # Errors
/// Every error says whether the operation took effect. A missing entity is `None` for
/// [`get`](Self::get), a missing table is an error. What the profile forbids is refused before
/// anything is sent.
///
/// # Encryption
/// A store whose profile does not encrypt refuses a marked property. Typed tables declare downward
/// ([`declare_encrypted`](Self::declare_encrypted)) which names they mark, before the store meets them. A store that encrypts
/// declares upward ([`encrypted_names`](Self::encrypted_names)) which names it encrypts, marked or not, so that layers above
/// derive no plaintext from them.
///
/// # Cancellation
/// Dropping a future leaves the operation either undone or done, as if the answer had been lost.
///
/// # Wrappers
/// Adapters forward every method: add `#[deny(clippy::missing_trait_methods)]`.
#[async_trait]
pub trait TableStore: Debug + Send + Sync + 'static {
    /// What the store allows and promises.
    fn profile(&self) -> &ServiceProfile;

    /// Creates a table. One request.
    async fn create_table(&self, table: &TableName) -> Result<()>;

    /// Deletes a table with its entities. One request.
    ///
    /// Its name may be taken for a while, on Azure Table Storage for at least 40 seconds: requests to it fail with
    /// [`TableBeingDeleted`](crate::store::ErrorKind::TableBeingDeleted) until then.
    async fn delete_table(&self, table: &TableName) -> Result<()>;

    /// The tables whose names start with `prefix`, sorted by name. One request a page.
    async fn list_tables(&self, prefix: Option<&str>, from: Option<&Continuation>)
    -> Result<Page<TableName>>;

    /// The entity with this key, or `None`. One request.
    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>>;

    /// A page of the entities that match. One request.
    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>>;

    /// A page of the entities that match and can be read, with a list of those that cannot. One request.
    ///
    /// A store that decrypts refuses a whole [page](Self::query) if one entity in it is damaged, was planted, or is under a key that
    /// is not here. Here the others are read: to find out how much is damaged, to serve what is sound, or to go on with the
    /// others. An entity that is missing from the page may still exist. For every other store this is [`query`](Self::query).
    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        self.query(table, query, from).await.map(ReadablePage::from)
    }

    /// One write to one entity. One request.
    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written>;

    /// Several writes to one partition, all or none. One request; answers in the group's order.
    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>>;

    /// Says that entities of the table have these properties encrypted, as typed tables do when they are opened. No
    /// request. A store that encrypts refuses filters on them, and plaintext in them, from now on; others
    /// have nothing to remember.
    fn declare_encrypted(&self, _table: &TableName, _names: &[&str]) {}

    /// The names of the properties that the store encrypts in a table, by its rules and as far as it knows them from marks. No
    /// request. What derives rows, keys, messages or blobs from an entity asks first: it marks these properties, or refuses
    /// to show them. None for a store that does not encrypt.
    fn encrypted_names(&self, _table: &TableName) -> EncryptedNames {
        EncryptedNames::default()
    }

    /// What the handles of this process tell each other about the store, where no other process can write it: a change that
    /// all writers must know of waits for those that are under way, instead of for as long as any could be. No request. The store
    /// answers the same to all its handles, and keeps a [permit](LocalWriters::enter) for what it goes on with after its
    /// future was dropped. `None` where others may write, as they may on every service.
    fn local_writers(&self) -> Option<Arc<LocalWriters>> {
        None
    }

    /// What this process knows of the manifests of the store's tables, for all who write through it. No request. A backend keeps
    /// one: it tells it of tables that it [creates](ManifestCache::new_table) and deletes, and of rows of manifests that it
    /// [writes](ManifestCache::change_of). Without one each handle keeps its own, and learns of what others of the process write as late as of what
    /// other processes do.
    fn manifests(&self) -> Option<Arc<ManifestCache>> {
        None
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore + ?Sized> TableStore for Arc<S> {
    fn profile(&self) -> &ServiceProfile {
        (**self).profile()
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        (**self).create_table(table).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        (**self).delete_table(table).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        (**self).list_tables(prefix, from).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        (**self).get(table, key, select).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        (**self).query(table, query, from).await
    }

    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        (**self).query_readable(table, query, from).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        (**self).write(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        (**self).transact(table, group).await
    }

    fn declare_encrypted(&self, table: &TableName, names: &[&str]) {
        (**self).declare_encrypted(table, names);
    }

    fn encrypted_names(&self, table: &TableName) -> EncryptedNames {
        (**self).encrypted_names(table)
    }

    fn local_writers(&self) -> Option<Arc<LocalWriters>> {
        (**self).local_writers()
    }

    fn manifests(&self) -> Option<Arc<ManifestCache>> {
        (**self).manifests()
    }
}
