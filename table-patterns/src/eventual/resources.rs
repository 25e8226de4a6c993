//! The stores, blob stores and handlers that steps name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "blobs")]
use object_store::ObjectStore;
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};

use super::plan::TransactionId;

/// The identity of a step. Repetitions of a step have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    /// The transaction.
    pub transaction: TransactionId,
    /// The step's number, counted from 0.
    pub step: usize,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.transaction, self.step)
    }
}

/// A step in your own code: for example a mail, a write to another database or to an indexed table.
#[async_trait]
pub trait StepHandler: fmt::Debug + Send + Sync + 'static {
    /// Does the step.
    ///
    /// Must be idempotent: after a crash or an error the step runs again with the same id. The future is dropped when
    /// this process loses its claim of the transaction.
    ///
    /// # Errors
    /// After an error the step runs again later. Return an error with the outcome
    /// [*ambiguous*](table_core::store::Outcome) if a request may still take effect: no worker continues before the
    /// lease ends. Ambiguous and [transient](Error::is_transient) errors do not count towards poison. All other
    /// errors do.
    async fn run(&self, step: StepId, payload: &[u8]) -> Result<()>;
}

/// The stores, blob stores and handlers of a process, by the names that steps use.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    stores: BTreeMap<String, Arc<dyn TableStore>>,
    #[cfg(feature = "blobs")]
    blobs: BTreeMap<String, Arc<dyn ObjectStore>>,
    handlers: BTreeMap<String, Arc<dyn StepHandler>>,
    external: BTreeSet<String>,
}

impl Resources {
    /// No resources.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a store.
    #[must_use]
    pub fn with_store(mut self, name: impl Into<String>, store: impl TableStore) -> Self {
        self.stores.insert(name.into(), store.into_shared());
        self
    }

    /// Adds a blob store.
    #[cfg(feature = "blobs")]
    #[must_use]
    pub fn with_blobs(mut self, name: impl Into<String>, blobs: Arc<dyn ObjectStore>) -> Self {
        self.blobs.insert(name.into(), blobs);
        self
    }

    /// Adds a handler.
    #[must_use]
    pub fn with_handler(mut self, name: impl Into<String>, handler: Arc<dyn StepHandler>) -> Self {
        self.handlers.insert(name.into(), handler);
        self
    }

    /// Allows steps that use this name, although this process does not have the resource: workers in other processes
    /// have it.
    #[must_use]
    pub fn with_external(mut self, name: impl Into<String>) -> Self {
        self.external.insert(name.into());
        self
    }

    pub(super) fn store(&self, name: &str) -> Result<&Arc<dyn TableStore>> {
        self.stores.get(name).ok_or_else(|| unknown("store", name))
    }

    #[cfg(feature = "blobs")]
    pub(super) fn blobs(&self, name: &str) -> Result<&Arc<dyn ObjectStore>> {
        self.blobs
            .get(name)
            .ok_or_else(|| unknown("blob store", name))
    }

    #[cfg(not(feature = "blobs"))]
    pub(super) fn blobs(&self, name: &str) -> Result<()> {
        Err(unknown("blob store", name))
    }

    pub(super) fn handler(&self, name: &str) -> Result<&Arc<dyn StepHandler>> {
        self.handlers
            .get(name)
            .ok_or_else(|| unknown("handler", name))
    }

    /// The store of this name; `None` if only other processes have it.
    pub(super) fn known_store(&self, name: &str) -> Result<Option<&Arc<dyn TableStore>>> {
        self.or_external(name, self.store(name))
    }

    pub(super) fn known_blobs(&self, name: &str) -> Result<()> {
        self.or_external(name, self.blobs(name)).map(drop)
    }

    pub(super) fn known_handler(&self, name: &str) -> Result<()> {
        self.or_external(name, self.handler(name)).map(drop)
    }

    fn or_external<T>(&self, name: &str, found: Result<T>) -> Result<Option<T>> {
        match found {
            // A name that is not declared is taken for a mistake, and refused before the commit: no worker
            // could do the step.
            Err(_) if self.external.contains(name) => Ok(None),
            found => found.map(Some),
        }
    }
}

fn unknown(kind: &str, name: &str) -> Error {
    Error::invalid_argument(format!(
        "this process has no {kind} named '{name}': add it to the `Resources`, or declare the name by `with_external` if other workers have it"
    ))
}
