//! The conformance suite of eventual transactions: between any two stores, with any queue. Pass an
//! [`EventualBackend`] to [`eventual_tests!`](crate::eventual_tests), which makes a test of each behaviour.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, TableStore, TableStoreExt};
use table_patterns::eventual::{
    Coordinator, EventualTransaction, Place, Resources, TransactionId, TransactionStatus,
};
use uuid::Uuid;

use crate::queues::Queue;

mod archive;
#[doc(hidden)]
pub mod list;
mod plans;
mod poison;
mod recorder;
mod steps;
mod workers;

pub use crate::suite::{EventualBehaviour as Behaviour, run_with_world as run};
use recorder::Recorder;

/// Two stores, a queue and blobs for one behaviour. Behaviours can share the backend's stores, but not tables
/// or directories.
#[derive(Debug)]
pub struct World {
    current: Arc<dyn TableStore>,
    archive: Arc<dyn TableStore>,
    queue: Queue,
    blobs: Arc<dyn ObjectStore>,
    recorder: Arc<Recorder>,
    tag: String,
}

/// A backend under test: opens the stores and the queue. It lives as long as the behaviour.
#[async_trait]
pub trait EventualBackend: Send + Sync {
    /// Returns the store of the current entities and of the transactions, the store of the archive, and an
    /// empty queue.
    async fn places(&self) -> (Arc<dyn TableStore>, Arc<dyn TableStore>, Queue);

    /// Opens the blob store; by default a store in memory.
    async fn blobs(&self) -> Arc<dyn ObjectStore> {
        Arc::new(InMemory::new())
    }
}

impl World {
    /// A world with tables that no other behaviour uses.
    pub(crate) async fn new(backend: &dyn EventualBackend) -> Self {
        let (current, archive, queue) = backend.places().await;
        let tag = Uuid::new_v4().simple().to_string();
        let blobs = Arc::new(PrefixStore::new(
            backend.blobs().await,
            Path::from(tag.as_str()),
        ));
        let recorder = Arc::new(Recorder::default());
        let world = Self {
            current,
            archive,
            queue,
            blobs,
            recorder,
            tag,
        };
        world
            .current
            .create_table(&world.table("current"))
            .await
            .expect("a new table");
        world
            .archive
            .create_table(&world.table("archive"))
            .await
            .expect("a new table");
        world
    }

    /// Returns the name of the employees' table in a store.
    fn table(&self, store: &str) -> TableName {
        TableName::new(format!("{store}{}", self.tag)).expect("a legal name")
    }

    fn place(&self, store: &str, row: &str) -> Place {
        Place::new(
            store,
            self.table(store),
            Key::new("Sales", row).expect("a legal key"),
        )
    }

    /// Opens a process of the transactions.
    async fn process(&self) -> Coordinator {
        let resources = Resources::new()
            .with_store("current", self.current.clone())
            .with_store("archive", self.archive.clone())
            .with_blobs("photos", self.blobs.clone())
            .with_handler("recorder", self.recorder.clone());
        let table = self.table("Transactions");
        let process = Coordinator::open(
            self.current.clone(),
            table.as_str(),
            self.queue.clone(),
            resources,
        )
        .await;
        process.expect("a table").with_retry_delay(Duration::ZERO)
    }

    async fn hire(&self, row: &str) -> Entity {
        let employee = employee(row)
            .with("Name", "Ken")
            .with("Age", 30)
            .with("Score", 0.5);
        let written = self
            .current
            .write(&self.table("current"), Operation::Insert(employee.clone()))
            .await;
        written.expect("a new employee");
        employee
    }

    async fn current(&self, row: &str) -> Option<Entity> {
        let key = employee(row).key().clone();
        self.current
            .get(&self.table("current"), &key, None)
            .await
            .expect("the table")
    }

    async fn archived(&self, row: &str) -> Option<Entity> {
        let key = employee(row).key().clone();
        self.archive
            .get(&self.table("archive"), &key, None)
            .await
            .expect("the table")
    }

    /// Counts the rows of stored plans.
    async fn pieces(&self) -> usize {
        let table = self.table("Transactions");
        let query = Query::new().with_filter(Filter::ne(Filter::ROW_KEY, "head"));
        self.current
            .query_all(&table, &query)
            .await
            .expect("the table")
            .len()
    }

    /// Returns a plan that moves an employee to the archive.
    fn archiving(&self, row: &str) -> EventualTransaction {
        EventualTransaction::new()
            .move_entity(self.place("current", row), self.place("archive", row))
    }
}

fn employee(row: &str) -> Entity {
    Entity::new("Sales", row).expect("a legal key")
}

/// Works until the transaction is finished.
async fn finish(process: &Coordinator, id: TransactionId) -> TransactionStatus {
    loop {
        process.run_once(8).await.expect("the queue");
        let status = process.status(id).await.expect("the table");
        if status.is_final() {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the properties of an entity that must exist.
#[track_caller]
fn properties(entity: Option<Entity>) -> table_core::model::Properties {
    entity.expect("the entity is there").into_parts().1
}
