use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use table_core::model::TableName;
use table_core::queue::{Receipt, WorkQueue};
use table_core::store::{Result, TableStore, TableStoreExt as _};

use super::event::{TransactionEvent, What};
use super::ledger::Ledger;
use super::plan::TransactionId;
use super::resources::Resources;
#[cfg(doc)]
use super::status::TransactionStatus;
use super::tables::Manifests;
#[cfg(test)]
use crate::journal::Rule;
use crate::journal::{Rules, Timing};

type Listener = Arc<dyn Fn(&TransactionEvent) + Send + Sync>;

/// Commits eventually consistent transactions and applies them. See the [module](super).
///
/// Every process has one; those of one queue and one table work together, any number of them.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, TableName};
/// use table_core::store::{Operation, TableStore};
/// use table_patterns::eventual::{
///     Coordinator, EventualTransaction, Place, Progress, Resources, TransactionStatus,
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
/// assert_eq!(submitted.progress, Progress::Pending);
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
    pub(super) ledger: Ledger,
    pub(super) queue: Arc<dyn WorkQueue>,
    pub(super) resources: Resources,
    pub(super) timing: Timing,
    pub(super) rules: Rules,
    pub(super) manifests: Arc<Manifests>,
    /// How often a step fails before its transaction is poisoned.
    pub(super) attempts: u32,
    retry: Duration,
    listener: Option<Listener>,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("table", &self.ledger.table)
            .field("queue", &self.queue)
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}

impl Coordinator {
    /// Opens the transactions of a table, which is made if it is missing. One request.
    ///
    /// # Errors
    /// The table's name is not legal; the storage's.
    pub async fn open(
        store: Arc<dyn TableStore>,
        table: &str,
        queue: Arc<dyn WorkQueue>,
        resources: Resources,
    ) -> Result<Self> {
        let table = TableName::new(table)?;
        store.profile().check_reads("eventually consistent transactions")?;
        store.create_table_if_missing(&table).await?;
        let (ledger, timing) = (Ledger { store, table }, Timing::default());
        let (rules, retry) = (Rules::default(), Duration::from_secs(5));
        let manifests = Arc::default();
        let (attempts, listener) = (5, None);
        Ok(Self { ledger, queue, resources, timing, rules, manifests, attempts, retry, listener })
    }

    /// Sets the durations of claims and requests: the same in every process of these transactions.
    #[must_use]
    pub const fn with_timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Sets after which time a step that failed is tried again: 5 seconds unless set. It doubles each
    /// time, up to a lease, but not while a storage is out of order.
    #[must_use]
    pub const fn with_retry_delay(mut self, delay: Duration) -> Self {
        self.retry = delay;
        self
    }

    /// Sets how often a step may fail before the transaction is [poisoned](TransactionStatus::Poisoned): 5 times unless
    /// set, at least once. Only what waiting does not mend counts.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Calls this with all that happens to transactions in this process.
    #[must_use]
    pub fn on_event(mut self, listener: impl Fn(&TransactionEvent) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// The same, where a rule may be broken.
    #[cfg(test)]
    pub(crate) const fn breaking(mut self, rule: Option<Rule>) -> Self {
        self.rules = Rules { broken: rule };
        self
    }

    pub(super) fn tell(&self, id: TransactionId, what: What) {
        if let Some(listener) = &self.listener {
            listener(&TransactionEvent { id, what });
        }
    }

    /// After which time something is tried again that has failed so often.
    pub(super) fn delay(&self, failures: u32) -> Duration {
        let doubled = self.retry.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
        doubled.min(self.timing.lease())
    }

    /// Waits for work while its message stays hidden from others.
    pub(super) async fn holding<T>(&self, receipt: &mut Receipt, work: impl Future<Output = T> + Send) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(self.timing.lease() / 3, work.as_mut()).await {
                Ok(done) => return done,
                // A void receipt: someone else has the message too, and the claim keeps them apart.
                Err(_) => match self.queue.renew(receipt, self.timing.lease()).await {
                    Ok(renewed) => *receipt = renewed,
                    Err(error) => tracing::debug!(%error, "a transaction's message was not renewed"),
                },
            }
        }
    }

    /// Removes a message whose transaction is finished: one that stays is found out to be.
    pub(super) async fn drop_message(&self, receipt: &Receipt) {
        if let Err(error) = self.queue.delete(receipt).await {
            tracing::debug!(%error, "the message of a finished transaction stays for a worker");
        }
    }
}
