//! The record of a transaction: the row with its state, its next step and its claim.

use table_core::model::{ETag, Entity, Key, SYSTEM_PREFIX, ValueRef};
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::plan::{PLAN_BYTES, TransactionId};
use super::transaction_table::{PlanRef, piece_count};

/// The RowKey of every record.
pub(super) const ROW: &str = "head";
pub(super) const STATE: &str = "TransactionState";
const STEPS: &str = "Steps";
const NEXT: &str = "NextStep";
const PIECES: &str = "Pieces";
const PLAN: &str = "PlanHash";
const CLAIM: &str = "Claim";
const ERROR: &str = "LastError";
const FAILURES: &str = "StepFailures";

/// The number of characters of an error that a record keeps.
const ERROR_CHARS: usize = 1000;

/// The state of a committed transaction, or of one that was stopped before its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// The next step has failed too often: the transaction waits for `requeue` or `discard`.
    Poisoned,
    Applied,
    /// The submitter did not commit in time, and a worker has taken the place of its record.
    Aborted,
    /// An operator has ended the transaction before its last step.
    Discarded,
}

impl State {
    const ALL: [Self; 5] = [
        Self::Running,
        Self::Poisoned,
        Self::Applied,
        Self::Aborted,
        Self::Discarded,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Poisoned => "poisoned",
            Self::Applied => "applied",
            Self::Aborted => "aborted",
            Self::Discarded => "discarded",
        }
    }
}

/// The record of a transaction, as read or to be written.
#[derive(Clone, Debug)]
pub(super) struct TransactionRecord {
    pub(super) id: TransactionId,
    pub(super) state: State,
    /// The number of steps of the plan.
    pub(super) steps: usize,
    /// The next step, counted from 0.
    pub(super) next: usize,
    /// The number of rows that hold the plan; 0 if the plan is in the message.
    pub(super) pieces: usize,
    /// The fingerprint of the plan.
    pub(super) plan_hash: i64,
    /// A new Guid for each process that claims the transaction; `None` if no process has claimed it.
    pub(super) claim: Option<Uuid>,
    pub(super) error: Option<String>,
    /// The number of failures of the next step.
    pub(super) failures: u32,
    pub(super) etag: Option<ETag>,
}

/// Whether a row is the record of a transaction that is set aside.
pub(crate) fn is_poisoned(row: &Entity) -> bool {
    row.key().row() == ROW
        && id_in(row.key().partition()).is_some()
        && row.get(STATE) == Some(ValueRef::String(State::Poisoned.name()))
}

/// What is wrong with a row whose key is that of a record; `None` for a sound record, and for all other rows.
pub(crate) fn damage(row: &Entity) -> Option<Error> {
    let is_record = row.key().row() == ROW && id_in(row.key().partition()).is_some();
    if is_record {
        TransactionRecord::read(row).err()
    } else {
        None
    }
}

/// The PartitionKey of a transaction.
pub(super) fn partition(id: TransactionId) -> String {
    format!("{SYSTEM_PREFIX}t_{id}")
}

/// The transaction of a PartitionKey.
pub(super) fn id_in(partition: &str) -> Option<TransactionId> {
    let text = partition.strip_prefix(SYSTEM_PREFIX)?.strip_prefix("t_")?;
    Uuid::try_parse(text).ok().map(TransactionId::from_uuid)
}

impl TransactionRecord {
    /// The record of a transaction without a finished step.
    pub(super) const fn new(plan: PlanRef, steps: usize) -> Self {
        let (PlanRef { id, hash, pieces }, state) = (plan, State::Running);
        let (next, failures, claim, error, etag) = (0, 0, None, None, None);
        Self {
            id,
            state,
            steps,
            next,
            pieces,
            plan_hash: hash,
            claim,
            error,
            failures,
            etag,
        }
    }

    /// The record that stops a submission before its commit: the record of the submitter can then never be inserted.
    pub(super) fn aborted(plan: PlanRef) -> Self {
        Self {
            state: State::Aborted,
            ..Self::new(plan, 0)
        }
    }

    /// The record with a new claim of this process.
    pub(super) fn claimed(self) -> Self {
        Self {
            claim: Some(Uuid::new_v4()),
            ..self
        }
    }

    /// Whether steps are left that a worker may do, now or after a `requeue`.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Running | State::Poisoned)
    }

    pub(super) fn key(&self) -> Result<Key> {
        Key::new(partition(self.id), ROW)
    }

    pub(super) const fn plan_ref(&self) -> PlanRef {
        PlanRef {
            id: self.id,
            hash: self.plan_hash,
            pieces: self.pieces,
        }
    }

    /// Stores the beginning of an error in the record.
    pub(super) fn set_last_error(&mut self, error: &Error) {
        // A record with a long error would be too large to be written, and the failure would not be counted.
        self.error = Some(error.to_string().chars().take(ERROR_CHARS).collect());
    }

    pub(super) fn to_entity(&self) -> Result<Entity> {
        // A plan of 64 MiB has fewer steps and pieces than that.
        let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let mut entity = Entity::from(self.key()?)
            .with(STATE, self.state.name())
            .with(STEPS, int(self.steps))
            .with(NEXT, int(self.next))
            .with(PIECES, int(self.pieces))
            .with(FAILURES, i32::try_from(self.failures).unwrap_or(i32::MAX))
            .with(PLAN, self.plan_hash);
        if let Some(claim) = self.claim {
            entity.properties_mut().set(CLAIM, claim);
        }
        if let Some(error) = &self.error {
            entity.properties_mut().set(ERROR, error.as_str());
        }
        Ok(entity)
    }

    pub(super) fn read(row: &Entity) -> Result<Self> {
        let damaged = |name: &str, expected: &str| {
            Error::decode(
                "transaction record",
                row.key(),
                name,
                expected,
                "another value or none",
            )
        };
        let text = |name: &str| match row.get(name) {
            Some(ValueRef::String(text)) => Some(text),
            _ => None,
        };
        let count = |name: &str| match row.get(name) {
            Some(ValueRef::Int32(n)) if n >= 0 => Ok(n.unsigned_abs() as usize),
            _ => Err(damaged(name, "an Edm.Int32 of 0 or more")),
        };
        let state = State::ALL
            .into_iter()
            .find(|state| text(STATE) == Some(state.name()));
        let Some(ValueRef::Int64(plan_hash)) = row.get(PLAN) else {
            return Err(damaged(PLAN, "Edm.Int64"));
        };
        let claim = match row.get(CLAIM) {
            Some(ValueRef::Guid(claim)) => Some(claim),
            None => None,
            Some(_) => return Err(damaged(CLAIM, "Edm.Guid")),
        };
        let state = state.ok_or_else(|| damaged(STATE, "the name of a state"))?;
        let (steps, next, pieces) = (count(STEPS)?, count(NEXT)?, count(PIECES)?);
        // A worker does the steps from the next one on, and then deletes the pieces one by one: with planted numbers it would do no step,
        // or send billions of requests.
        let is_open = matches!(state, State::Running | State::Poisoned);
        if next > steps || (is_open && next == steps) {
            return Err(damaged(NEXT, "the number of a step that is left"));
        }
        if pieces > piece_count(PLAN_BYTES) {
            return Err(damaged(
                PIECES,
                &format!("at most {} rows", piece_count(PLAN_BYTES)),
            ));
        }
        Ok(Self {
            id: id_in(row.key().partition())
                .ok_or_else(|| damaged("PartitionKey", "the id of a transaction"))?,
            state,
            steps,
            next,
            pieces,
            plan_hash,
            claim,
            error: text(ERROR).map(str::to_owned),
            failures: u32::try_from(count(FAILURES)?).unwrap_or(u32::MAX),
            etag: row.etag().cloned(),
        })
    }
}
