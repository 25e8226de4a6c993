//! Plans of transactions, and the queue messages that contain a plan or point at a stored plan.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Error, Result};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::mover::payload;
use super::plan_format::PlanFormat;
use super::resources::Resources;
use super::step::{Place, Step, check_independent};
use super::transaction_table::{PlanRef, piece_count};

/// The largest plan, in bytes of its text. Submitters and workers hold the plan in memory.
pub const PLAN_BYTES: usize = 64 * 1024 * 1024;

/// The id of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(Uuid);

impl TransactionId {
    /// The id with this UUID.
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

/// A list of steps. Once the list is committed, workers do all steps in order; steps that are declared
/// [`together`](Self::together) at the same time.
///
/// See the [module](super), and [`Coordinator`](super::Coordinator) for how a transaction is applied.
///
/// ```
/// use table_core::model::{Entity, TableName};
/// use table_patterns::eventual::EventualTransaction;
///
/// let reports = TableName::new("Reports")?;
/// let report = Entity::new("2014", "07")?.with("Pages", 12);
/// let publish = EventualTransaction::new()
///     .put_blob("files", "2014/07.pdf", *b"the report")
///     .upsert_merge("current", reports.clone(), report.clone())
///     .replace_if_exists("archive", reports, report)
///     .handle("notify", *b"07");
/// assert_eq!(publish.steps().len(), 4);
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EventualTransaction {
    id: TransactionId,
    steps: Vec<Step>,
    /// The runs of two and more steps that a worker does at the same time, in order and without overlap. Every other step is a
    /// stage of its own.
    together: Vec<Range<usize>>,
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

    /// A transaction without steps, under an id that the caller can derive again. Submitted twice under one id, the
    /// transaction is done once.
    pub const fn with_id(id: TransactionId) -> Self {
        Self {
            id,
            steps: Vec::new(),
            together: Vec::new(),
        }
    }

    pub(super) const fn from_parts(
        id: TransactionId,
        steps: Vec<Step>,
        together: Vec<Range<usize>>,
    ) -> Self {
        Self {
            id,
            steps,
            together,
        }
    }

    /// The id of this transaction.
    pub const fn id(&self) -> TransactionId {
        self.id
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Appends a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Appends steps that do not depend on each other: a worker does them at the same time, and records them as done together.
    ///
    /// The step after them starts when all of them are done. After a failure or a crash all of them are repeated. One request
    /// records them all: n steps take n + 1 requests and 2 round trips, up to the
    /// [concurrency](super::Coordinator::with_concurrency) of the coordinator. [`submit`](super::Coordinator::submit) refuses
    /// steps that write the same row or blob. What a handler writes is not checked.
    ///
    /// ```
    /// # use table_core::model::{Entity, TableName};
    /// # use table_patterns::eventual::{EventualTransaction, Place};
    /// # fn main() -> table_core::Result<()> {
    /// # let (table, ken) = (TableName::new("Employees")?, Entity::new("Sales", "000456")?);
    /// # let place = Place::new("current", table.clone(), ken.key().clone());
    /// // The row and the photograph are stored at the same time; then the old row goes.
    /// let archive = EventualTransaction::new()
    ///     .together(|steps| {
    ///         steps.upsert("archive", table, ken).put_blob("photos", "ken.png", *b"...")
    ///     })
    ///     .delete_if_exists(place);
    /// assert_eq!(archive.steps().len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn together(self, append: impl FnOnce(Self) -> Self) -> Self {
        let start = self.steps.len();
        let mut longer = append(self);
        let end = longer.steps.len();
        // A declaration inside of this one is part of it: all of its steps are done at the same time.
        longer.together.retain(|stage| stage.end <= start);
        if start + 1 < end {
            longer.together.push(start..end);
        }
        longer
    }

    /// The runs of steps that a worker does at the same time.
    pub(super) fn stages_together(&self) -> &[Range<usize>] {
        &self.together
    }

    /// The steps that a worker does at the same time when `next` is the first step that is not recorded as done.
    pub(super) fn stage(&self, next: usize) -> Range<usize> {
        let stage = self.together.iter().find(|stage| stage.contains(&next));
        stage.map_or(next..next + 1, |stage| next..stage.end)
    }

    /// Appends a [`Step::Upsert`]: inserts or replaces an entity.
    #[must_use]
    pub fn upsert(self, store: impl Into<String>, table: TableName, entity: Entity) -> Self {
        self.then(Step::Upsert {
            store: store.into(),
            table,
            entity,
        })
    }

    /// Appends a [`Step::UpsertMerge`]: inserts an entity or merges its properties into the stored one.
    #[must_use]
    pub fn upsert_merge(self, store: impl Into<String>, table: TableName, entity: Entity) -> Self {
        self.then(Step::UpsertMerge {
            store: store.into(),
            table,
            entity,
        })
    }

    /// Appends a [`Step::ReplaceIfExists`]: replaces an entity if it exists.
    #[must_use]
    pub fn replace_if_exists(
        self,
        store: impl Into<String>,
        table: TableName,
        entity: Entity,
    ) -> Self {
        self.then(Step::ReplaceIfExists {
            store: store.into(),
            table,
            entity,
        })
    }

    /// Appends a [`Step::DeleteIfExists`]: deletes an entity if it exists.
    #[must_use]
    pub fn delete_if_exists(self, place: Place) -> Self {
        self.then(Step::DeleteIfExists(place))
    }

    /// Appends a [`Step::Move`]: moves an entity.
    #[must_use]
    pub fn move_entity(self, from: Place, to: Place) -> Self {
        self.then(Step::Move { from, to })
    }

    /// Appends a move by the [`Mover`](super::Mover) of this name, with the index entries, blobs and rows of the entity.
    /// The step fails if there is no entity, neither at `key` nor at `to`.
    #[must_use]
    pub fn move_by(self, mover: impl Into<String>, key: &Key, to: &Key) -> Self {
        self.handle(mover, payload(key, to))
    }

    /// Appends a [`Step::PutBlob`]: writes a blob.
    #[must_use]
    pub fn put_blob(
        self,
        blobs: impl Into<String>,
        path: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        self.then(Step::PutBlob {
            blobs: blobs.into(),
            path: path.into(),
            bytes: bytes.into(),
        })
    }

    /// Appends a [`Step::DeleteBlob`]: deletes a blob if it exists.
    #[must_use]
    pub fn delete_blob(self, blobs: impl Into<String>, path: impl Into<String>) -> Self {
        self.then(Step::DeleteBlob {
            blobs: blobs.into(),
            path: path.into(),
        })
    }

    /// Appends a [`Step::Handle`]: calls a handler.
    #[must_use]
    pub fn handle(self, handler: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        self.then(Step::Handle {
            handler: handler.into(),
            payload: payload.into(),
        })
    }

    /// Checks the plan and returns it as text.
    ///
    /// # Errors
    /// The plan has no step, has a step that can never be done, or exceeds a limit.
    pub(super) fn to_text(&self, resources: &Resources) -> Result<String> {
        if self.steps.is_empty() {
            return Err(Error::misuse(
                "the transaction has no step: append one, for example by `upsert`",
            ));
        }
        self.steps
            .iter()
            .try_for_each(|step| step.check(resources))?;
        self.together
            .iter()
            .try_for_each(|stage| check_independent(&self.steps[stage.clone()], resources))?;
        // After the checks: from the commit on, a step that can never be done would end in poison.
        let text = serde_json::to_string(&PlanFormat::of(self)?);
        let text = text.map_err(|e| {
            Error::invalid_argument(format!("the plan of a transaction cannot be encoded: {e}"))
        })?;
        if text.len() > PLAN_BYTES {
            return Err(Error::limit(
                "bytes of a transaction's plan",
                PLAN_BYTES,
                text.len(),
            ));
        }
        Ok(text)
    }

    /// Parses the text of a plan.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let plan: PlanFormat = serde_json::from_str(text)
            .map_err(|e| Error::corrupt(format!("the text is not a plan of a transaction: {e}")))?;
        plan.into_transaction()
    }
}

/// A hash that distinguishes plans that were submitted under one id.
pub(super) fn fingerprint(text: &str) -> i64 {
    xxh3_64(text.as_bytes()).cast_signed()
}

/// A message of the queue, parsed.
pub(super) enum PlanMessage {
    /// The message contains the plan: sending the message was the commit.
    Inline {
        plan: EventualTransaction,
        hash: i64,
    },
    /// The message points at a plan in the transaction table: inserting the record is the commit.
    Stored(StoredPlan),
}

/// The text of a message that points at a stored plan.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct StoredPlan {
    stored: Uuid,
    pieces: usize,
    hash: i64,
}

impl StoredPlan {
    pub(super) const fn new(plan: PlanRef) -> Self {
        Self {
            stored: plan.id.uuid(),
            pieces: plan.pieces,
            hash: plan.hash,
        }
    }

    pub(super) const fn plan_ref(self) -> PlanRef {
        PlanRef {
            id: TransactionId::from_uuid(self.stored),
            hash: self.hash,
            pieces: self.pieces,
        }
    }

    pub(super) fn to_text(self) -> Result<String> {
        serde_json::to_string(&self).map_err(|e| {
            Error::invalid_argument(format!(
                "the message of a transaction cannot be encoded: {e}"
            ))
        })
    }
}

impl PlanMessage {
    pub(super) fn parse(text: &str) -> Result<Self> {
        // The text of a stored plan has the fields `stored`, `pieces` and `hash`, and the text of a plan has none of them.
        if let Ok(stored) = serde_json::from_str::<StoredPlan>(text) {
            // Workers delete the pieces one by one, by their numbers.
            let most = piece_count(PLAN_BYTES);
            return if stored.pieces <= most {
                Ok(Self::Stored(stored))
            } else {
                let (id, pieces) = (TransactionId(stored.stored), stored.pieces);
                Err(Error::corrupt(format!(
                    "the message of the transaction {id} names {pieces} rows of a plan, which has at most {most}"
                )))
            };
        }
        Ok(Self::Inline {
            plan: EventualTransaction::parse(text)?,
            hash: fingerprint(text),
        })
    }

    pub(super) const fn id(&self) -> TransactionId {
        self.plan_ref().id
    }

    pub(super) const fn plan_ref(&self) -> PlanRef {
        match self {
            Self::Inline { plan, hash } => PlanRef {
                id: plan.id(),
                hash: *hash,
                pieces: 0,
            },
            Self::Stored(stored) => stored.plan_ref(),
        }
    }
}
