//! Stores around another store, which change one thing for a test and pass the rest on.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Query, ReadablePage, Select};
use table_core::store::{
    GroupTransaction, KeyOrder, Operation, Result, ServiceProfile, TableStore, Written,
};
use tokio::task::yield_now;
use tokio::time::sleep;

/// A store around another store. A method that is not overridden passes its request on within
/// [`around`](Self::around). [`impl_table_store`] makes a [`TableStore`] of a wrapper.
#[async_trait]
pub(crate) trait StoreWrapper: Send + Sync {
    /// The wrapped store.
    fn inner(&self) -> &Arc<dyn TableStore>;

    /// Runs a request to the wrapped store.
    async fn around<T: Send>(&self, request: impl Future<Output = T> + Send) -> T {
        request.await
    }

    fn profile(&self) -> &ServiceProfile {
        self.inner().profile()
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        self.around(self.inner().get(table, key, select)).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        self.around(self.inner().query(table, query, from)).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.around(self.inner().write(table, operation)).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.around(self.inner().transact(table, group)).await
    }
}

/// Implements [`TableStore`] for a [`StoreWrapper`].
macro_rules! impl_table_store {
    ($wrapper:ty) => {
        #[async_trait::async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl table_core::store::TableStore for $wrapper {
            fn profile(&self) -> &table_core::store::ServiceProfile {
                $crate::wrappers::StoreWrapper::profile(self)
            }

            async fn create_table(
                &self,
                table: &table_core::model::TableName,
            ) -> table_core::store::Result<()> {
                self.around(self.inner().create_table(table)).await
            }

            async fn delete_table(
                &self,
                table: &table_core::model::TableName,
            ) -> table_core::store::Result<()> {
                self.around(self.inner().delete_table(table)).await
            }

            async fn list_tables(
                &self,
                prefix: Option<&str>,
                from: Option<&table_core::query::Continuation>,
            ) -> table_core::store::Result<table_core::query::Page<table_core::model::TableName>> {
                self.around(self.inner().list_tables(prefix, from)).await
            }

            async fn get(
                &self,
                table: &table_core::model::TableName,
                key: &table_core::model::Key,
                select: Option<&table_core::query::Select>,
            ) -> table_core::store::Result<Option<table_core::model::Entity>> {
                $crate::wrappers::StoreWrapper::get(self, table, key, select).await
            }

            async fn query(
                &self,
                table: &table_core::model::TableName,
                query: &table_core::query::Query,
                from: Option<&table_core::query::Continuation>,
            ) -> table_core::store::Result<table_core::query::ReadablePage> {
                $crate::wrappers::StoreWrapper::query(self, table, query, from).await
            }

            async fn write(
                &self,
                table: &table_core::model::TableName,
                operation: table_core::store::Operation,
            ) -> table_core::store::Result<table_core::store::Written> {
                $crate::wrappers::StoreWrapper::write(self, table, operation).await
            }

            async fn transact(
                &self,
                table: &table_core::model::TableName,
                group: table_core::store::GroupTransaction,
            ) -> table_core::store::Result<Vec<table_core::store::Written>> {
                $crate::wrappers::StoreWrapper::transact(self, table, group).await
            }

            table_core::forward_to_store!(self => self.inner(); context);
        }
    };
}

pub(crate) use impl_table_store;

/// Runs a hook to its end before or after one of the requests.
pub(crate) struct HookedStore {
    store: Arc<dyn TableStore>,
    /// The requests counted so far.
    requests: AtomicU64,
    /// The request at which the hook runs; the first request is 1.
    hooked: AtomicU64,
    /// Whether the hook runs after the request.
    after: bool,
    /// Whether only group transactions are counted.
    groups_only: bool,
    hook: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl HookedStore {
    /// Runs the hook before this request; the first request is 1.
    pub(crate) fn before_request(
        request: u64,
        store: Arc<dyn TableStore>,
        hook: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (requests, hook) = (AtomicU64::new(0), Mutex::new(Some(hook.boxed())));
        Self {
            store,
            requests,
            hooked: AtomicU64::new(request),
            after: false,
            groups_only: false,
            hook,
        }
    }

    /// Runs the hook before the first group transaction.
    pub(crate) fn before_group(
        store: Arc<dyn TableStore>,
        hook: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            groups_only: true,
            ..Self::before_request(1, store, hook)
        }
    }

    /// Runs the hook before a request that [`arm`](Self::arm) sets later.
    pub(crate) fn unarmed(
        store: Arc<dyn TableStore>,
        hook: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self::before_request(u64::MAX, store, hook)
    }

    /// Runs the hook after a request that [`arm`](Self::arm) sets later, before its answer is seen.
    pub(crate) fn unarmed_after(
        store: Arc<dyn TableStore>,
        hook: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            after: true,
            ..Self::unarmed(store, hook)
        }
    }

    /// Runs the hook at this request; the next request is 1.
    pub(crate) fn arm(&self, request: u64) {
        self.requests.store(0, Ordering::SeqCst);
        self.hooked.store(request, Ordering::SeqCst);
    }

    /// Whether the hook has run.
    pub(crate) fn has_run(&self) -> bool {
        self.requests.load(Ordering::SeqCst) >= self.hooked.load(Ordering::SeqCst)
    }

    async fn count(&self) {
        if self.requests.fetch_add(1, Ordering::SeqCst) + 1 == self.hooked.load(Ordering::SeqCst) {
            let hook = self
                .hook
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(hook) = hook {
                hook.await;
            }
        }
    }
}

impl fmt::Debug for HookedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookedStore")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl StoreWrapper for HookedStore {
    fn inner(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    async fn around<T: Send>(&self, request: impl Future<Output = T> + Send) -> T {
        if !self.groups_only && !self.after {
            self.count().await;
        }
        let answer = request.await;
        if self.after {
            self.count().await;
        }
        answer
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        if self.after {
            return self.around(self.store.transact(table, group)).await;
        }
        self.count().await;
        self.store.transact(table, group).await
    }
}

impl_table_store!(HookedStore);

/// Counts the requests in flight. Other tasks run before each request, so that requests that are sent
/// together are in flight together.
#[derive(Debug)]
pub(crate) struct InFlightStore {
    store: Arc<dyn TableStore>,
    now: AtomicUsize,
    max: AtomicUsize,
}

impl InFlightStore {
    pub(crate) fn new(store: Arc<dyn TableStore>) -> Self {
        Self {
            store,
            now: AtomicUsize::new(0),
            max: AtomicUsize::new(0),
        }
    }

    /// The largest number of requests that were in flight at once since the last reset.
    pub(crate) fn max_in_flight(&self) -> usize {
        self.max.load(Ordering::SeqCst)
    }

    pub(crate) fn reset(&self) {
        self.max.store(0, Ordering::SeqCst);
    }
}

#[async_trait]
impl StoreWrapper for InFlightStore {
    fn inner(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    async fn around<T: Send>(&self, request: impl Future<Output = T> + Send) -> T {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.max.fetch_max(now, Ordering::SeqCst);
        yield_now().await;
        let answer = request.await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

impl_table_store!(InFlightStore);

/// Answers each page in reverse, and its profile says that pages are unsorted: as Cosmos DB for Table.
#[derive(Debug)]
pub(crate) struct UnsortedStore {
    store: Arc<dyn TableStore>,
    profile: ServiceProfile,
}

impl UnsortedStore {
    pub(crate) fn new(store: Arc<dyn TableStore>) -> Self {
        let mut profile = store.profile().clone();
        profile.order = KeyOrder::Unsorted;
        Self { store, profile }
    }

    /// The store also answers at most `rows` rows per page.
    pub(crate) fn with_pages_of(rows: usize, store: Arc<dyn TableStore>) -> Self {
        Self::new(Arc::new(SmallPageStore::new(rows, store)))
    }
}

#[async_trait]
impl StoreWrapper for UnsortedStore {
    fn inner(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    fn profile(&self) -> &ServiceProfile {
        &self.profile
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let mut found = self.store.query(table, query, from).await?;
        found.page.items.reverse();
        Ok(found)
    }
}

impl_table_store!(UnsortedStore);

/// Answers at most a fixed number of rows per page, as every service may.
#[derive(Debug)]
pub struct SmallPageStore {
    store: Arc<dyn TableStore>,
    rows: usize,
}

impl SmallPageStore {
    /// The store answers at most `rows` rows per page.
    pub fn new(rows: usize, store: Arc<dyn TableStore>) -> Self {
        Self { store, rows }
    }
}

#[async_trait]
impl StoreWrapper for SmallPageStore {
    fn inner(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let mut query = query.clone();
        query.top = query.top.into_iter().chain([self.rows]).min();
        self.store.query(table, &query, from).await
    }
}

impl_table_store!(SmallPageStore);

/// Delays its first requests, each less than the request before: requests that are sent together arrive in the reverse order.
#[derive(Debug)]
pub(crate) struct LaterIsFaster {
    store: Arc<dyn TableStore>,
    requests: AtomicU64,
}

impl LaterIsFaster {
    /// The number of requests that are delayed.
    const DELAYED: u64 = 20;

    pub(crate) fn new(store: Arc<dyn TableStore>) -> Self {
        Self {
            store,
            requests: AtomicU64::new(0),
        }
    }

    /// Delays the next requests.
    pub(crate) fn begin_again(&self) {
        self.requests.store(0, Ordering::SeqCst);
    }
}

#[async_trait]
impl StoreWrapper for LaterIsFaster {
    fn inner(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    async fn around<T: Send>(&self, request: impl Future<Output = T> + Send) -> T {
        let earlier = self.requests.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(
            2 * Self::DELAYED.saturating_sub(earlier),
        ))
        .await;
        request.await
    }
}

impl_table_store!(LaterIsFaster);
