//! The coordinator: the handle by which a process submits and applies transactions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use table_core::model::TableName;
use table_core::queue::{Receipt, WorkQueue};
use table_core::store::{Result, TableStore, TableStoreExt as _};

use super::plan::TransactionId;
use super::resources::Resources;
#[cfg(doc)]
use super::status::TransactionStatus;
use super::status::{TransactionEvent, TransactionEventKind};
use super::transaction_table::TransactionTable;
use crate::consistency::work::{doubled, run_while_hidden};
use crate::journal::Timing;

type Listener = Arc<dyn Fn(&TransactionEvent) + Send + Sync>;

/// Submits eventually consistent transactions and applies them. See the [module](super).
///
/// Every process opens its own coordinator. All coordinators over one table and one queue share the work.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, TableName};
/// use table_core::store::{Operation, TableStore};
/// use table_patterns::eventual::{
///     Coordinator, EventualTransaction, Place, TransactionProgress, Resources, TransactionStatus,
/// };
/// use table_patterns::journal::Acknowledge;
/// use table_patterns::queue::TableQueue;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let (current, archive) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
/// let table = TableName::new("Employees")?;
/// current.create_table(&table).await?;
/// archive.create_table(&table).await?;
/// let ken = Entity::new("Sales", "000456")?.with("Name", "Ken");
/// current.write(&table, Operation::Insert(ken.clone())).await?;
///
/// let resources =
///     Resources::new().with_store("current", current.clone()).with_store("archive", archive.clone());
/// let queue = Arc::new(TableQueue::open(current.clone(), "Work", "transactions").await?);
/// let coordinator = Coordinator::open(current.clone(), "Transactions", queue, resources).await?;
///
/// let place = |store: &str| Place::new(store, table.clone(), ken.key().clone());
/// let transaction = EventualTransaction::new().move_entity(place("current"), place("archive"));
/// let submitted = coordinator.submit(&transaction, Acknowledge::Committed).await?;
/// assert_eq!(submitted.progress, TransactionProgress::Pending);
///
/// coordinator.run_once(16).await?; // a worker, in this process or another
/// let status = coordinator.wait(transaction.id(), Duration::from_secs(1)).await?;
/// assert_eq!(status, TransactionStatus::Applied);
/// assert!(current.get(&table, ken.key(), None).await?.is_none());
/// assert!(archive.get(&table, ken.key(), None).await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Coordinator {
    pub(super) transactions: TransactionTable,
    pub(super) queue: Arc<dyn WorkQueue>,
    pub(super) resources: Resources,
    pub(super) timing: Timing,
    /// Failures of a step until its transaction is poisoned.
    pub(super) attempts: u32,
    /// The steps of one transaction that are done at the same time, at most.
    pub(super) concurrency: usize,
    retry: Duration,
    listener: Option<Listener>,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("table", &self.transactions.table)
            .field("queue", &self.queue)
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}

impl Coordinator {
    /// Opens a coordinator over a table of transactions. Creates the table if it is missing. One request.
    ///
    /// # Errors
    /// The table's name is not legal, or the store's error.
    pub async fn open(
        store: impl TableStore,
        table: &str,
        queue: Arc<dyn WorkQueue>,
        resources: Resources,
    ) -> Result<Self> {
        let (store, table) = (store.into_shared(), TableName::new(table)?);
        store
            .profile()
            .check_reads("eventually consistent transactions")?;
        store.create_table_if_missing(&table).await?;
        let (transactions, timing) = (TransactionTable { store, table }, Timing::default());
        let retry = Duration::from_secs(5);
        let (attempts, concurrency, listener) = (5, 16, None);
        Ok(Self {
            transactions,
            queue,
            resources,
            timing,
            attempts,
            concurrency,
            retry,
            listener,
        })
    }

    /// Sets the lease of claims and the time limits of requests. Use the same timing in every process.
    #[must_use]
    pub const fn with_timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Sets the delay before a failed step is tried again: 5 seconds unless set. The delay doubles with each failure
    /// that counts towards poison, up to a lease.
    #[must_use]
    pub const fn with_retry_delay(mut self, delay: Duration) -> Self {
        self.retry = delay;
        self
    }

    /// Sets after how many failures of a step the transaction is [poisoned](TransactionStatus::Poisoned): 5 unless
    /// set, at least 1. Errors that waiting repairs do not count: an unavailable store, an ambiguous outcome.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Sets how many steps of one transaction are under way at the same time, where steps are declared
    /// [`together`](super::EventualTransaction::together): 16 unless set, at least 1.
    #[must_use]
    pub fn with_concurrency(mut self, steps: usize) -> Self {
        self.concurrency = steps.max(1);
        self
    }

    /// Sets a listener for the events of transactions in this process.
    #[must_use]
    pub fn on_event(
        mut self,
        listener: impl Fn(&TransactionEvent) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// The same coordinator, which calls another listener as well.
    pub(crate) fn also_on_event(
        self,
        also: impl Fn(&TransactionEvent) + Send + Sync + 'static,
    ) -> Self {
        let Some(first) = self.listener.clone() else {
            return self.on_event(also);
        };
        self.on_event(move |event| {
            first(event);
            also(event);
        })
    }

    /// The table of the transactions.
    pub(crate) const fn table(&self) -> &TableName {
        &self.transactions.table
    }

    /// The durations of claims and requests.
    pub(crate) const fn timing(&self) -> Timing {
        self.timing
    }

    pub(super) fn emit(&self, id: TransactionId, kind: TransactionEventKind) {
        if let Some(listener) = &self.listener {
            listener(&TransactionEvent { id, kind });
        }
    }

    /// The delay before the next attempt after this number of failures.
    pub(super) fn delay(&self, failures: u32) -> Duration {
        // After a lease the message of a dead worker is visible again. A step that failed waits no longer
        // than that.
        doubled(self.retry, failures, self.timing.lease())
    }

    /// Runs work, and renews the visibility of its message during the work, so that other workers do not receive it.
    pub(super) async fn run_while_hidden<T>(
        &self,
        receipt: &mut Receipt,
        work: impl Future<Output = T> + Send,
    ) -> T {
        // Renewed after a third of the time, so that a renewal may fail.
        let times = (self.timing.lease(), self.timing.lease() / 3);
        run_while_hidden(&*self.queue, receipt, times, work).await
    }

    /// Deletes the message of a finished transaction. If that fails, a worker receives the message, finds the transaction
    /// finished, and deletes it.
    pub(super) async fn delete_message(&self, receipt: &Receipt) {
        if let Err(error) = self.queue.delete(receipt).await {
            tracing::debug!(%error, "the message of a finished transaction was not deleted: a worker deletes it");
        }
    }
}
