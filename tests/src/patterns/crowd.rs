//! A store that counts the requests under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{
    EncryptedNames, GroupTransaction, LocalWriters, Operation, Result, ServiceProfile, TableStore, Written,
};
use tokio::task::yield_now;

/// A store around another, which lets others run before each request: those that are sent together are under
/// way together.
#[derive(Debug)]
pub(super) struct Crowd {
    store: Arc<dyn TableStore>,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    pub(super) fn new(store: Arc<dyn TableStore>) -> Self {
        Self { store, now: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// The most requests that were under way at once.
    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// Counts from here.
    pub(super) fn forget(&self) {
        self.most.store(0, Ordering::SeqCst);
    }

    async fn among<T>(&self, request: impl Future<Output = T> + Send) -> T {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        yield_now().await;
        let answer = request.await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableStore for Crowd {
    fn profile(&self) -> &ServiceProfile {
        self.store.profile()
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        self.among(self.store.create_table(table)).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.among(self.store.delete_table(table)).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.among(self.store.list_tables(prefix, from)).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        self.among(self.store.get(table, key, select)).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        self.among(self.store.query(table, query, from)).await
    }

    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        self.among(self.store.query_readable(table, query, from)).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.among(self.store.write(table, operation)).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.among(self.store.transact(table, group)).await
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
