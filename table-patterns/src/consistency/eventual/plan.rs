use std::fmt;

use table_core::model::{Entity, Key, TableName};
use table_core::store::{Error, Result};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::mover::payload;
use super::resources::Resources;
use super::step::{Place, Step};
use super::wire::WirePlan;

/// Bytes of a plan as text, at most: it is held in memory by whoever works on it.
pub const PLAN_BYTES: usize = 64 * 1024 * 1024;

/// The identity of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(Uuid);

impl TransactionId {
    /// The identity with this UUID.
    pub const fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }

    /// The UUID.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

/// A list of steps that are all done, in their order, once the list is committed.
///
/// See the [module](super), and [`Coordinator`](super::Coordinator) for an example.
#[derive(Clone, Debug, PartialEq)]
pub struct EventualTransaction {
    id: TransactionId,
    steps: Vec<Step>,
}

impl Default for EventualTransaction {
    fn default() -> Self {
        Self::new()
    }
}

impl EventualTransaction {
    /// A transaction without steps, under a new id.
    pub fn new() -> Self {
        Self::with_id(TransactionId(Uuid::new_v4()))
    }

    /// A transaction under an id that the caller can derive again: submitted twice, it is done once.
    pub const fn with_id(id: TransactionId) -> Self {
        Self { id, steps: Vec::new() }
    }

    pub(super) const fn from_parts(id: TransactionId, steps: Vec<Step>) -> Self {
        Self { id, steps }
    }

    /// Its identity.
    pub const fn id(&self) -> TransactionId {
        self.id
    }

    /// Its steps, in their order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Then this.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Then an entity is written, whatever is there.
    #[must_use]
    pub fn upsert(self, store: impl Into<String>, table: TableName, entity: Entity) -> Self {
        self.then(Step::Upsert { store: store.into(), table, entity })
    }

    /// Then properties are written beside those that are there.
    #[must_use]
    pub fn upsert_merge(self, store: impl Into<String>, table: TableName, entity: Entity) -> Self {
        self.then(Step::UpsertMerge { store: store.into(), table, entity })
    }

    /// Then an entity is replaced, unless it does not exist any more.
    #[must_use]
    pub fn replace_if_exists(self, store: impl Into<String>, table: TableName, entity: Entity) -> Self {
        self.then(Step::ReplaceIfExists { store: store.into(), table, entity })
    }

    /// Then an entity is removed, if it is there.
    #[must_use]
    pub fn delete_if_exists(self, place: Place) -> Self {
        self.then(Step::DeleteIfExists(place))
    }

    /// Then an entity is moved as it is by then: see [`Step::Move`].
    #[must_use]
    pub fn move_entity(self, from: Place, to: Place) -> Self {
        self.then(Step::Move { from, to })
    }

    /// Then an entity is moved by a [`Mover`](super::Mover) of this name, with all that belongs to it. An entity that is neither
    /// at the key nor where it goes fails the step.
    #[must_use]
    pub fn move_by(self, mover: impl Into<String>, key: &Key, to: &Key) -> Self {
        self.handle(mover, payload(key, to))
    }

    /// Then a blob is written.
    #[must_use]
    pub fn put_blob(
        self,
        blobs: impl Into<String>,
        path: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        self.then(Step::PutBlob { blobs: blobs.into(), path: path.into(), bytes: bytes.into() })
    }

    /// Then a blob is removed, if it is there.
    #[must_use]
    pub fn delete_blob(self, blobs: impl Into<String>, path: impl Into<String>) -> Self {
        self.then(Step::DeleteBlob { blobs: blobs.into(), path: path.into() })
    }

    /// Then a handler is called.
    #[must_use]
    pub fn handle(self, handler: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        self.then(Step::Handle { handler: handler.into(), payload: payload.into() })
    }

    /// Refuses what could never be done; the plan as text.
    pub(super) fn to_text(&self, resources: &Resources) -> Result<String> {
        if self.steps.is_empty() {
            return Err(Error::invalid_request("a transaction without a step"));
        }
        self.steps.iter().try_for_each(|step| step.check(resources))?;
        let text = serde_json::to_string(&WirePlan::of(self)?);
        let text = text.map_err(|e| Error::invalid_request(format!("cannot write a plan: {e}")))?;
        if text.len() > PLAN_BYTES {
            return Err(Error::limit("bytes of a transaction's plan", PLAN_BYTES, text.len()));
        }
        Ok(text)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let plan: WirePlan = serde_json::from_str(text)
            .map_err(|e| Error::corrupt(format!("this is no plan of a transaction: {e}")))?;
        plan.into_transaction()
    }
}

/// Tells plans apart that were submitted under one id.
pub(super) fn fingerprint(text: &str) -> i64 {
    xxh3_64(text.as_bytes()).cast_signed()
}
