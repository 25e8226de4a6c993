//! The metadata of answers: request ids, charges and durations.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

/// The metadata of one answer of the service. Contains no key and no value of an entity.
///
/// [`AzureTableStoreOptions::on_response`](crate::AzureTableStoreOptions::on_response) receives every answer of a store.
/// [`collect_responses`] returns the answers of one piece of work.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResponseInfo {
    /// The name of the operation, for example `get` or `transact`.
    pub operation: &'static str,
    /// Whether the secondary endpoint answered. Its data may be behind.
    pub is_secondary: bool,
    /// The HTTP status.
    pub status: u16,
    /// The service's id of the request (`x-ms-request-id`). Microsoft's support asks for it.
    pub request_id: Option<String>,
    /// The id that this client gave the request (`x-ms-client-request-id`). The service's logs contain it.
    pub client_request_id: String,
    /// The charge in request units (`x-ms-request-charge`). Only Azure Cosmos DB answers it.
    pub request_charge: Option<f64>,
    /// The service's time when it answered (`Date`, in whole seconds).
    pub server_time: Option<DateTime<Utc>>,
    /// The time from the start of sending to the last byte of the answer.
    pub duration: Duration,
}

/// A function that receives the metadata of answers. It runs on the task that sent the request, so it must not block.
#[derive(Clone)]
pub struct ResponseHook(Arc<dyn Fn(&ResponseInfo) + Send + Sync>);

impl ResponseHook {
    /// Calls `f` with the metadata of every answer, also of refusals and failures. A request without an answer has none.
    pub fn new(f: impl Fn(&ResponseInfo) + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }

    pub(crate) fn call(&self, info: &ResponseInfo) {
        (self.0)(info);
    }
}

impl fmt::Debug for ResponseHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseHook")
    }
}

tokio::task_local! {
    static COLLECTED: RefCell<Vec<ResponseInfo>>;
}

/// Runs `work`, and returns its result and the metadata of every answer that its requests received, in the order of the answers.
///
/// Collects the answers to requests that `work` itself polls, of any store of this crate and through any adapter or pattern. Requests of
/// tasks that `work` spawns are not collected. Calls can be nested: the innermost collects. Costs no request.
///
/// ```no_run
/// use table_azure::{AzureTableStore, collect_responses};
/// use table_core::model::{Key, TableName};
/// use table_core::store::TableStore;
/// # async fn example(store: AzureTableStore) -> table_core::Result<()> {
/// let (table, key) = (TableName::new("Employees")?, Key::new("Sales", "empid_000223")?);
/// let (ken, answers) = collect_responses(store.get(&table, &key, None)).await;
/// let charge: f64 = answers.iter().filter_map(|answer| answer.request_charge).sum();
/// println!("{:?} cost {charge} request units, {:?}", ken?, answers[0].request_id);
/// # Ok(())
/// # }
/// ```
pub async fn collect_responses<F: Future>(work: F) -> (F::Output, Vec<ResponseInfo>) {
    let scope = async {
        let output = work.await;
        (output, COLLECTED.with(RefCell::take))
    };
    COLLECTED.scope(RefCell::default(), scope).await
}

/// Whether [`collect_responses`] collects on this task.
pub(crate) fn is_collecting() -> bool {
    COLLECTED.try_with(|_| ()).is_ok()
}

/// Hands an answer's metadata to [`collect_responses`], if it collects on this task.
pub(crate) fn collect(info: ResponseInfo) {
    // The error means that nothing is collected on this task.
    let _ = COLLECTED.try_with(|collected| collected.borrow_mut().push(info));
}
