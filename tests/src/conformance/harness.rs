use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use table_core::model::TableName;
use table_core::store::{ServiceProfile, TableStore, TableStoreExt};
use uuid::Uuid;

use super::{Deviation, TestTable};
use crate::real_time::{RealTimeBlobs, RealTimeStore, in_real_time};

/// A backend under test: opens its store, and states its known properties.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Opens a store for one behaviour. Stores can share a server, because every behaviour creates its own
    /// tables.
    async fn store(&self) -> Arc<dyn TableStore>;

    /// Opens a blob store for patterns with blobs; by default a store in memory. Called once per behaviour; the
    /// future runs only if the behaviour needs blobs.
    fn blobs(&self) -> BoxFuture<'static, Arc<dyn ObjectStore>> {
        async { Arc::new(InMemory::new()) as Arc<dyn ObjectStore> }.boxed()
    }

    /// The known differences from the documented service.
    fn deviations(&self) -> &[Deviation] {
        &[]
    }

    /// The amount of work in one behaviour.
    fn scale(&self) -> Scale {
        Scale::FULL
    }
}

/// The amount of work in costly behaviours.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Rows of a large table, inserted in groups.
    pub rows: usize,
    /// Operations of a random run.
    pub steps: usize,
    /// Concurrent tasks.
    pub tasks: usize,
    /// Tables of a long listing.
    pub tables: usize,
    /// How often each path of several requests meets each kind of fault, at requests that a seed draws. `None`:
    /// once at every request.
    pub faults: Option<usize>,
}

impl Scale {
    /// For stores without a network: several full pages.
    pub const FULL: Self = Self {
        rows: 2500,
        steps: 3000,
        tasks: 64,
        tables: 1100,
        faults: None,
    };
    /// For stores that take milliseconds to answer.
    pub const MODERATE: Self = Self {
        rows: 1100,
        steps: 200,
        tasks: 16,
        tables: 5,
        faults: Some(1),
    };
}

/// The backend as one behaviour sees it: a store, and tables of its own.
#[derive(Debug)]
pub struct Harness {
    store: Arc<dyn TableStore>,
    blobs: Shared<BoxFuture<'static, Arc<dyn ObjectStore>>>,
    deviations: Vec<Deviation>,
    scale: Scale,
    made: Mutex<Vec<TableName>>,
}

impl Harness {
    /// Opens the backend for one behaviour.
    pub(crate) async fn start(backend: &dyn Backend) -> Self {
        Self::over(backend.store().await, backend.blobs(), backend)
    }

    /// Opens the backend for one behaviour in virtual time; requests run in real time.
    pub(crate) async fn start_in_virtual_time(backend: &dyn Backend) -> Self {
        let blobs = in_real_time(backend.blobs())
            .map(|blobs| Arc::new(RealTimeBlobs(blobs)) as Arc<dyn ObjectStore>);
        Self::over(
            RealTimeStore::around(backend.store().await),
            blobs.boxed(),
            backend,
        )
    }

    fn over(
        store: Arc<dyn TableStore>,
        blobs: BoxFuture<'static, Arc<dyn ObjectStore>>,
        backend: &dyn Backend,
    ) -> Self {
        Self {
            store,
            blobs: blobs.shared(),
            deviations: backend.deviations().to_vec(),
            scale: backend.scale(),
            made: Mutex::default(),
        }
    }

    /// Deletes the tables of the behaviour.
    pub async fn finish(self) {
        for table in self
            .made
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
        {
            self.store
                .delete_table_if_exists(&table)
                .await
                .expect("the behaviour's table can be deleted");
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    /// Returns an empty directory of the blob store.
    pub async fn blobs(&self) -> Arc<dyn ObjectStore> {
        let directory = Path::from(Uuid::new_v4().to_string());
        Arc::new(PrefixStore::new(self.blobs.clone().await, directory))
    }

    /// The limits and guarantees of the store.
    pub fn profile(&self) -> &ServiceProfile {
        self.store.profile()
    }

    /// The amount of work.
    pub const fn scale(&self) -> Scale {
        self.scale
    }

    /// Whether the store has this deviation. A known deviation is reported, and the caller leaves out the
    /// assertion that cannot hold.
    pub fn deviates(&self, deviation: Deviation) -> bool {
        let known = self.deviations.contains(&deviation);
        if known {
            eprintln!("left out, known deviation: {deviation}");
        }
        known
    }

    /// Returns an unused table name. A table of this name is deleted at the end.
    pub fn unused_name(&self) -> TableName {
        let name = TableName::new(format!("T{}", Uuid::new_v4().simple())).expect("a legal name");
        self.clean_up(&name);
        name
    }

    /// Deletes this table at the end, if it exists.
    pub fn clean_up(&self, table: &TableName) {
        self.made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(table.clone());
    }

    /// Creates an empty table.
    pub async fn table(&self) -> TestTable {
        let table = self.missing_table();
        self.store
            .create_table(table.name())
            .await
            .expect("an unused name can be created");
        table
    }

    /// Returns a table that does not exist.
    pub fn missing_table(&self) -> TestTable {
        TestTable::new(Arc::clone(&self.store), self.unused_name())
    }
}
