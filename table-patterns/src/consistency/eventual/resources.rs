use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::ObjectStore;
use table_core::store::{Error, Result, TableStore};

use super::plan::TransactionId;

/// The identity of a step, the same whenever it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    /// The transaction.
    pub transaction: TransactionId,
    /// The step's number, from 0.
    pub step: usize,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.transaction, self.step)
    }
}

/// A step of your own: a mail, another database, an indexed table.
#[async_trait]
pub trait StepHandler: fmt::Debug + Send + Sync + 'static {
    /// Does the step. May be called again with the same id, after a crash or an error: the second time must
    /// change nothing more. Dropped where the right to go on is lost.
    ///
    /// # Errors
    /// Those of the work: the step is tried again later. An ambiguous one, or one of a request that may
    /// still take effect, must say so (see [`Outcome`](table_core::store::Outcome)): nobody goes on before
    /// a lease is over then. An error that is ambiguous or [transient](Error::is_transient) says that the
    /// step only has to wait, however often; every other counts towards poison.
    async fn run(&self, step: StepId, payload: &[u8]) -> Result<()>;
}

/// What the steps of transactions name: stores, blob stores and handlers.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    stores: BTreeMap<String, Arc<dyn TableStore>>,
    blobs: BTreeMap<String, Arc<dyn ObjectStore>>,
    handlers: BTreeMap<String, Arc<dyn StepHandler>>,
    elsewhere: BTreeSet<String>,
}

impl Resources {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names a store.
    #[must_use]
    pub fn with_store(mut self, name: impl Into<String>, store: Arc<dyn TableStore>) -> Self {
        self.stores.insert(name.into(), store);
        self
    }

    /// Names a blob store.
    #[must_use]
    pub fn with_blobs(mut self, name: impl Into<String>, blobs: Arc<dyn ObjectStore>) -> Self {
        self.blobs.insert(name.into(), blobs);
        self
    }

    /// Names a handler.
    #[must_use]
    pub fn with_handler(mut self, name: impl Into<String>, handler: Arc<dyn StepHandler>) -> Self {
        self.handlers.insert(name.into(), handler);
        self
    }

    /// Allows a name in submitted transactions that only workers elsewhere know.
    #[must_use]
    pub fn with_elsewhere(mut self, name: impl Into<String>) -> Self {
        self.elsewhere.insert(name.into());
        self
    }

    pub(super) fn store(&self, name: &str) -> Result<&Arc<dyn TableStore>> {
        self.stores.get(name).ok_or_else(|| unknown("store", name))
    }

    pub(super) fn blobs(&self, name: &str) -> Result<&Arc<dyn ObjectStore>> {
        self.blobs.get(name).ok_or_else(|| unknown("blob store", name))
    }

    pub(super) fn handler(&self, name: &str) -> Result<&Arc<dyn StepHandler>> {
        self.handlers.get(name).ok_or_else(|| unknown("handler", name))
    }

    /// The store of this name; `None` if only others know it.
    pub(super) fn known_store(&self, name: &str) -> Result<Option<&Arc<dyn TableStore>>> {
        self.here(name, self.store(name))
    }

    pub(super) fn known_blobs(&self, name: &str) -> Result<()> {
        self.here(name, self.blobs(name)).map(drop)
    }

    pub(super) fn known_handler(&self, name: &str) -> Result<()> {
        self.here(name, self.handler(name)).map(drop)
    }

    fn here<T>(&self, name: &str, found: Result<T>) -> Result<Option<T>> {
        match found {
            Err(_) if self.elsewhere.contains(name) => Ok(None),
            found => found.map(Some),
        }
    }
}

fn unknown(what: &str, name: &str) -> Error {
    Error::invalid_request(format!(
        "no {what} is named '{name}' here: register it, or say that other workers have it"
    ))
}
