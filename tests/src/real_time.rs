//! Runs real stores in tests with virtual time.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use table_core::forward_to_store;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{GroupTransaction, Operation, Result, TableStore, Written};
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

/// The runtime that runs the requests of every [`RealTimeStore`]. It ends with the process.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime"));

/// A store whose requests run in another runtime, in real time. A blocking task stops the clock of a test with
/// paused time while the request runs.
#[derive(Debug)]
pub struct RealTimeStore(Arc<dyn TableStore>);

impl RealTimeStore {
    /// Wraps a store.
    pub fn around(store: impl TableStore) -> Arc<Self> {
        Arc::new(Self(Arc::new(store)))
    }

    async fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        spawn_blocking(move || RUNTIME.block_on(request)).await.expect("the request came to an end")
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableStore for RealTimeStore {
    forward_to_store!(self => self.0;
        profile, declare_encrypted, encrypted_names, local_writers, manifests, now);

    async fn create_table(&self, table: &TableName) -> Result<()> {
        let (store, table) = (self.0.clone(), table.clone());
        self.run(async move { store.create_table(&table).await }).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        let (store, table) = (self.0.clone(), table.clone());
        self.run(async move { store.delete_table(&table).await }).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        let (store, prefix, from) = (self.0.clone(), prefix.map(str::to_owned), from.cloned());
        self.run(async move { store.list_tables(prefix.as_deref(), from.as_ref()).await }).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        let (store, table, key, select) = (self.0.clone(), table.clone(), key.clone(), select.cloned());
        self.run(async move { store.get(&table, &key, select.as_ref()).await }).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let (store, table, query, from) = (self.0.clone(), table.clone(), query.clone(), from.cloned());
        self.run(async move { store.query(&table, &query, from.as_ref()).await }).await
    }

    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let (store, table, query, from) = (self.0.clone(), table.clone(), query.clone(), from.cloned());
        self.run(async move { store.query_readable(&table, &query, from.as_ref()).await }).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let (store, table) = (self.0.clone(), table.clone());
        self.run(async move { store.write(&table, operation).await }).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let (store, table) = (self.0.clone(), table.clone());
        self.run(async move { store.transact(&table, group).await }).await
    }
}
