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

/// What is tested: how to get at a store, and what is known of it.
#[async_trait]
pub trait Backend: Send + Sync {
    /// A store to test. Asked for once per behaviour; the stores may share a server, as every behaviour
    /// makes tables of its own.
    async fn store(&self) -> Arc<dyn TableStore>;

    /// Opens a blob store beside it, for what keeps content in blobs: in memory unless told otherwise. Asked for
    /// once per behaviour, and opened if the behaviour needs it.
    fn blobs(&self) -> BoxFuture<'static, Arc<dyn ObjectStore>> {
        async { Arc::new(InMemory::new()) as Arc<dyn ObjectStore> }.boxed()
    }

    /// Where the store is known to differ from the documented service.
    fn deviations(&self) -> &[Deviation] {
        &[]
    }

    /// How much work a behaviour may make of it.
    fn scale(&self) -> Scale {
        Scale::FULL
    }
}

/// How many of everything the costly behaviours use.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Rows of a large table, written in groups.
    pub rows: usize,
    /// Steps of a random run.
    pub steps: usize,
    /// Tasks that write at once.
    pub tasks: usize,
    /// Tables of a long listing.
    pub tables: usize,
    /// How often each path of several requests gets into each kind of trouble, at requests that a seed
    /// draws; `None`: once at every request.
    pub troubles: Option<usize>,
}

impl Scale {
    /// For stores without a network: several full pages of everything.
    pub const FULL: Self = Self { rows: 2500, steps: 3000, tasks: 64, tables: 1100, troubles: None };
    /// For stores that take milliseconds to answer.
    pub const MODERATE: Self = Self { rows: 1100, steps: 200, tasks: 16, tables: 5, troubles: Some(1) };
}

/// One behaviour's view of the backend: its store, and tables of its own.
#[derive(Debug)]
pub struct Harness {
    store: Arc<dyn TableStore>,
    blobs: Shared<BoxFuture<'static, Arc<dyn ObjectStore>>>,
    deviations: Vec<Deviation>,
    scale: Scale,
    made: Mutex<Vec<TableName>>,
}

impl Harness {
    /// The backend's store for one behaviour.
    pub(crate) fn start(store: Arc<dyn TableStore>, backend: &dyn Backend) -> Self {
        Self {
            store,
            blobs: backend.blobs().shared(),
            deviations: backend.deviations().to_vec(),
            scale: backend.scale(),
            made: Mutex::default(),
        }
    }

    /// Deletes the tables that the behaviour made.
    pub async fn finish(self) {
        for table in self.made.into_inner().unwrap_or_else(PoisonError::into_inner) {
            self.store.delete_table_if_exists(&table).await.expect("the behaviour's table can be deleted");
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    /// An empty directory of the blob store, as a store of its own.
    pub async fn blobs(&self) -> Arc<dyn ObjectStore> {
        let directory = Path::from(Uuid::new_v4().to_string());
        Arc::new(PrefixStore::new(self.blobs.clone().await, directory))
    }

    /// What the store allows and promises.
    pub fn profile(&self) -> &ServiceProfile {
        self.store.profile()
    }

    /// How much work to make.
    pub const fn scale(&self) -> Scale {
        self.scale
    }

    /// Whether the store is known to differ here. If so, the deviation is reported and the caller
    /// leaves out the assertion that cannot hold.
    pub fn deviates(&self, deviation: Deviation) -> bool {
        let known = self.deviations.contains(&deviation);
        if known {
            eprintln!("left out, known deviation: {deviation}");
        }
        known
    }

    /// A name that no other table has; the table, if it is made, is deleted at the end.
    pub fn unused_name(&self) -> TableName {
        let name = TableName::new(format!("T{}", Uuid::new_v4().simple())).expect("a legal name");
        self.clean_up(&name);
        name
    }

    /// Has a table deleted at the end.
    pub fn clean_up(&self, table: &TableName) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(table.clone());
    }

    /// A new, empty table.
    pub async fn table(&self) -> TestTable {
        let table = self.missing_table();
        self.store.create_table(table.name()).await.expect("an unused name can be created");
        table
    }

    /// A table that was not created.
    pub fn missing_table(&self) -> TestTable {
        TestTable::new(Arc::clone(&self.store), self.unused_name())
    }
}
