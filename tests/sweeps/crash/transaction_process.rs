//! Processes that carry out eventual transactions between two stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use object_store::memory::InMemory;
use table_core::adapter::{FaultInjector, Faulty};
use table_core::model::{Entity, Properties, TableName};
use table_core::query::{Filter, Query};
use table_core::queue::WorkQueue;
use table_core::store::{ErrorKind, Operation, Result, TableStore, TableStoreExt};
use table_patterns::eventual::{
    Coordinator, EventualTransaction, Place, Resources, StepHandler, StepId,
};
use table_patterns::journal::Timing;
use table_patterns::queue::{QueueOptions, TableQueue};
use tokio::time::sleep;

use crate::process::Names;

/// A step handler that writes an entity, and fails while `fails` is set.
#[derive(Debug)]
pub(crate) struct WritingHandler {
    store: Arc<dyn TableStore>,
    table: TableName,
    pub(crate) fails: AtomicBool,
}

#[async_trait]
impl StepHandler for WritingHandler {
    async fn run(&self, step: StepId, _payload: &[u8]) -> Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(ErrorKind::Service("the handler is ill".to_owned()).into());
        }
        let entry = Entity::new("audit", step.step.to_string())?;
        self.store
            .write(&self.table, Operation::InsertOrReplace(entry))
            .await
            .map(drop)
    }
}

/// Two stores and the names of their tables.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) current: Arc<dyn TableStore>,
    pub(crate) archive: Arc<dyn TableStore>,
    pub(crate) names: Names,
}

/// A process of eventual transactions.
pub(crate) struct TransactionProcess {
    pub(crate) stores: Stores,
    pub(crate) coordinator: Coordinator,
    pub(crate) queue: Arc<TableQueue>,
    pub(crate) handler: Arc<WritingHandler>,
}

const TABLES: [&str; 2] = ["Current", "Archive"];

impl Stores {
    fn store(&self, table: &str) -> &Arc<dyn TableStore> {
        if table == "Current" {
            &self.current
        } else {
            &self.archive
        }
    }

    pub(crate) async fn fill(&self) -> Result<()> {
        for table in TABLES {
            self.store(table)
                .create_table(&self.names.table(table))
                .await?;
        }
        for row in ["1", "2", "456"] {
            let employee = Entity::new("Sales", row)?.with("Name", format!("ken {row}"));
            self.current
                .write(&self.names.table("Current"), Operation::Insert(employee))
                .await?;
        }
        Ok(())
    }

    /// The same stores for a process with these faults.
    pub(crate) fn with_faults(&self, faults: &FaultInjector) -> Self {
        let faulty =
            |store: &Arc<dyn TableStore>| Arc::new(Faulty::new(store.clone(), faults.clone()));
        Self {
            current: faulty(&self.current),
            archive: faulty(&self.archive),
            names: self.names,
        }
    }

    pub(crate) async fn open(&self, max_dequeues: u32) -> Result<TransactionProcess> {
        let mut options = QueueOptions::default();
        options.max_dequeues = max_dequeues;
        options.clock = Arc::new(self.names.clock());
        let work = self.names.table("Jobs");
        let queue =
            TableQueue::open_with(self.current.clone(), work.as_str(), "jobs", options).await?;
        let (queue, table) = (Arc::new(queue), self.names.table("Archive"));
        let handler = Arc::new(WritingHandler {
            store: self.archive.clone(),
            table,
            fails: AtomicBool::new(false),
        });
        let resources = Resources::new()
            .with_store("current", self.current.clone())
            .with_store("archive", self.archive.clone())
            .with_blobs("blobs", Arc::new(InMemory::new()))
            .with_handler("handler", handler.clone());
        let ledger = self.names.table("Transactions");
        let coordinator = Coordinator::open(
            self.current.clone(),
            ledger.as_str(),
            queue.clone(),
            resources,
        )
        .await?;
        let timing = Timing::new(
            Duration::from_millis(400),
            Duration::from_millis(100),
            Duration::ZERO,
        )?;
        let coordinator = coordinator
            .with_timing(timing)
            .with_retry_delay(Duration::from_millis(50));
        Ok(TransactionProcess {
            stores: self.clone(),
            coordinator,
            queue,
            handler,
        })
    }

    /// Returns the rows of both tables.
    pub(crate) async fn rows(&self) -> Result<BTreeMap<String, Properties>> {
        let mut all = BTreeMap::new();
        for table in TABLES {
            for row in self
                .store(table)
                .query_all(&self.names.table(table), &Query::new())
                .await?
            {
                let (key, properties) = row.into_parts();
                all.insert(format!("{table} {key}"), properties);
            }
        }
        Ok(all)
    }
}

impl TransactionProcess {
    fn place(&self, table: &str, row: &str) -> Result<Place> {
        let key = Entity::new("Sales", row)?.key().clone();
        Ok(Place::new(
            table.to_lowercase(),
            self.stores.names.table(table),
            key,
        ))
    }

    /// Returns a plan with steps of every kind. A large blob makes the plan larger than a message.
    pub(crate) fn plan(&self, large: bool) -> Result<EventualTransaction> {
        let [current, archive] = TABLES.map(|table| self.stores.names.table(table));
        let merged = Entity::new("Sales", "1")?.with("M", 2);
        let replaced = Entity::new("Sales", "2")?.with("N", 3);
        let plan = EventualTransaction::new()
            .upsert(
                "archive",
                archive.clone(),
                Entity::new("Sales", "1")?.with("N", 1),
            )
            .move_entity(self.place("Current", "456")?, self.place("Archive", "456")?)
            .upsert("current", current.clone(), Entity::new("Sales", "9")?)
            .delete_if_exists(self.place("Current", "9")?)
            .handle("handler", *b"x")
            .together(|steps| {
                let steps = steps
                    .upsert_merge("archive", archive, merged)
                    .replace_if_exists("current", current, replaced);
                if large {
                    steps.put_blob("blobs", "b", vec![0; 560_000])
                } else {
                    steps
                }
            });
        Ok(plan)
    }

    pub(crate) async fn work(&self) -> Result<()> {
        let mut idle = 0;
        while idle < 3 {
            sleep(Duration::from_secs(1)).await;
            idle = if self.coordinator.run_once(8).await? == 0 {
                idle + 1
            } else {
                0
            };
        }
        sleep(Duration::from_secs(60)).await;
        assert!(self.queue.peek(1).await?.is_empty(), "a message is left");
        Ok(())
    }

    pub(crate) async fn pieces(&self) -> Result<usize> {
        let query = Query::new().with_filter(Filter::ne(Filter::ROW_KEY, "head"));
        let table = self.stores.names.table("Transactions");
        Ok(self.stores.current.query_all(&table, &query).await?.len())
    }
}
