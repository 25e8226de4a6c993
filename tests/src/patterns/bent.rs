//! A service that answers otherwise than the local stores: without order, as Cosmos DB does, or in short
//! pages, as every service may.

use std::sync::Arc;

use async_trait::async_trait;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{
    EncryptedNames, GroupTransaction, KeyOrder, LocalWriters, Operation, Result, ServiceProfile, TableStore,
    Written,
};

/// A store behind such a service.
#[derive(Debug)]
pub(super) struct Bent {
    store: Arc<dyn TableStore>,
    profile: ServiceProfile,
    page: Option<usize>,
}

impl Bent {
    /// Answers each page in reverse, and says that there is no order.
    pub(super) fn unsorted(store: Arc<dyn TableStore>) -> Self {
        let mut profile = store.profile().clone();
        profile.order = KeyOrder::Unsorted;
        Self { store, profile, page: None }
    }

    /// Answers so many rows at a time.
    pub(super) fn in_pages_of(rows: usize, store: Arc<dyn TableStore>) -> Self {
        let profile = store.profile().clone();
        Self { store, profile, page: None }.with_pages_of(rows)
    }

    /// Answers so many rows at a time, too.
    pub(super) const fn with_pages_of(mut self, rows: usize) -> Self {
        self.page = Some(rows);
        self
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableStore for Bent {
    fn profile(&self) -> &ServiceProfile {
        &self.profile
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
        let mut query = query.clone();
        query.top = query.top.into_iter().chain(self.page).min();
        let mut page = self.store.query(table, &query, from).await?;
        if self.profile.order == KeyOrder::Unsorted {
            page.items.reverse();
        }
        Ok(page)
    }

    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        self.query(table, query, from).await.map(ReadablePage::from)
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.store.write(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
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
