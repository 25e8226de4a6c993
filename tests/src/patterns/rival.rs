//! A store in which another process is quicker, once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Query, Select};
use table_core::store::{GroupTransaction, Operation, Result, ServiceProfile, TableStore, Written};

/// Lets another act before the first group transaction.
pub(super) struct Overtaken {
    store: Arc<dyn TableStore>,
    rival: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Overtaken {
    pub(super) fn new(store: Arc<dyn TableStore>, rival: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { store, rival: Mutex::new(Some(rival.boxed())) }
    }
}

impl fmt::Debug for Overtaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Overtaken").field(&self.store).finish()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableStore for Overtaken {
    fn profile(&self) -> &ServiceProfile {
        self.store.profile()
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        self.store.create_table(table).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.store.delete_table(table).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.store.list_tables(prefix, from).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        self.store.get(table, key, select).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        self.store.query(table, query, from).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.store.write(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let rival = self.rival.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(rival) = rival {
            rival.await;
        }
        self.store.transact(table, group).await
    }

    fn declare_encrypted(&self, table: &TableName, names: &[&str]) {
        self.store.declare_encrypted(table, names);
    }
}
