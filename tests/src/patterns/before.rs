//! Something that happens between the requests of somebody else.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{
    EncryptedNames, GroupTransaction, LocalWriters, Operation, Result, ServiceProfile, TableStore, Written,
};

/// A store around another, which does something else before one of its requests.
pub(super) struct Before {
    store: Arc<dyn TableStore>,
    requests: AtomicU64,
    request: AtomicU64,
    /// Whether group transactions are counted, and nothing else.
    groups_alone: bool,
    other: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Before {
    /// Runs `other` to its end before this request; the first is 1.
    pub(super) fn request(
        request: u64,
        store: Arc<dyn TableStore>,
        other: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (requests, other) = (AtomicU64::new(0), Mutex::new(Some(other.boxed())));
        Self { store, requests, request: AtomicU64::new(request), groups_alone: false, other }
    }

    /// Runs `other` to its end before the first group transaction.
    pub(super) fn group(
        store: Arc<dyn TableStore>,
        other: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { groups_alone: true, ..Self::request(1, store, other) }
    }

    /// Runs `other` to its end before a request that [`arm`](Self::arm) names later.
    pub(super) fn unarmed(
        store: Arc<dyn TableStore>,
        other: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self::request(u64::MAX, store, other)
    }

    /// Counts from now: the next request is 1.
    pub(super) fn arm(&self, request: u64) {
        self.requests.store(0, Ordering::SeqCst);
        self.request.store(request, Ordering::SeqCst);
    }

    /// Whether it has run.
    pub(super) fn has_run(&self) -> bool {
        self.requests.load(Ordering::SeqCst) >= self.request.load(Ordering::SeqCst)
    }

    async fn then<T>(&self, request: impl Future<Output = T> + Send) -> T {
        if !self.groups_alone {
            self.count().await;
        }
        request.await
    }

    async fn count(&self) {
        if self.requests.fetch_add(1, Ordering::SeqCst) + 1 == self.request.load(Ordering::SeqCst) {
            let other = self.other.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(other) = other {
                other.await;
            }
        }
    }
}

impl fmt::Debug for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Before").field("store", &self.store).finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableStore for Before {
    fn profile(&self) -> &ServiceProfile {
        self.store.profile()
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        self.then(self.store.create_table(table)).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.then(self.store.delete_table(table)).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.then(self.store.list_tables(prefix, from)).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        self.then(self.store.get(table, key, select)).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        self.then(self.store.query(table, query, from)).await
    }

    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        self.then(self.store.query_readable(table, query, from)).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.then(self.store.write(table, operation)).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.count().await;
        self.store.transact(table, group).await
    }

    fn declare_encrypted(&self, table: &TableName, names: &[&str]) {
        self.store.declare_encrypted(table, names);
    }

    fn encrypted_names(&self, table: &TableName) -> EncryptedNames {
        self.store.encrypted_names(table)
    }

    fn local_writers(&self) -> Option<Arc<LocalWriters>> {
        self.store.local_writers()
    }

    fn manifests(&self) -> Option<Arc<table_core::store::ManifestCache>> {
        self.store.manifests()
    }
}
