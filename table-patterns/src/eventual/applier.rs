//! Applying a claimed transaction: its steps in order, the renewal of the claim, and failures of steps.

use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;

use futures_util::{StreamExt as _, stream};
use table_core::manifest::WriteTarget;
use table_core::store::{Error, Operation, Result};
use tokio::time::timeout;

use super::blob_step::{delete_blob, put_blob};
use super::coordinator::Coordinator;
use super::plan::{EventualTransaction, TransactionId};
use super::record::{State, TransactionRecord};
use super::resources::StepId;
use super::status::TransactionEventKind;
use super::step::{Place, Step};
use super::submit::TransactionProgress;
use super::table_checks::check_movable;
use crate::consistency::work::is_infrastructure_error;
use crate::journal::Lease;

/// Attempts of a move whose entity is changed by other writers.
const MOVE_ATTEMPTS: usize = 16;

/// The reason why a transaction is not finished yet.
#[derive(Debug)]
pub(super) struct WorkFailure {
    pub(super) error: Error,
    /// Whether the failure counts towards poison. False for errors that waiting repairs.
    pub(super) counts: bool,
    /// The state that the record has after the failure; `None` if the record does not mention the failure.
    pub(super) recorded: Option<Recorded>,
}

/// A failure of a step, as the record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// Workers try the step again; the value is the number of its failures.
    Failed(u32),
    /// No worker tries the step again.
    Poisoned,
}

impl WorkFailure {
    /// The failure of a step. The kind of a handler's error says whether the step only has to wait.
    pub(super) fn at(step: &Step, error: Error) -> Self {
        match step {
            Step::Handle { .. } => Self {
                counts: !(error.is_transient() || error.is_ambiguous()),
                error,
                recorded: None,
            },
            _ => error.into(),
        }
    }
}

impl From<Error> for WorkFailure {
    fn from(error: Error) -> Self {
        Self {
            counts: !is_infrastructure_error(&error),
            error,
            recorded: None,
        }
    }
}

/// The right to apply one transaction: a claimed record and the lease of the claim.
struct Applier<'a> {
    coordinator: &'a Coordinator,
    record: TransactionRecord,
    lease: Lease,
}

impl Coordinator {
    /// Does the remaining steps of a transaction whose record this process has claimed. Returns *pending* if
    /// the claim is lost or the outcome of a request is ambiguous.
    ///
    /// # Errors
    /// A step failed; the claim is released.
    pub(super) async fn apply(
        &self,
        transaction: &EventualTransaction,
        record: TransactionRecord,
        lease: Lease,
    ) -> Result<TransactionProgress, WorkFailure> {
        self.emit(
            record.id,
            TransactionEventKind::Claimed { step: record.next },
        );
        Applier {
            coordinator: self,
            record,
            lease,
        }
        .run(transaction)
        .await
    }

    /// Records that the plan of a claimed transaction cannot be read, as a failure of the next step.
    pub(super) async fn record_unreadable_plan(
        &self,
        record: TransactionRecord,
        lease: Lease,
        error: Error,
    ) -> WorkFailure {
        let step = record.next;
        Applier {
            coordinator: self,
            record,
            lease,
        }
        .record_failure(step, error.into())
        .await
    }
}

impl Applier<'_> {
    async fn run(
        mut self,
        transaction: &EventualTransaction,
    ) -> Result<TransactionProgress, WorkFailure> {
        let (coordinator, steps) = (self.coordinator, transaction.steps());
        if self.record.steps != steps.len() {
            let TransactionRecord {
                id,
                steps: named,
                next,
                ..
            } = self.record;
            let error = format!(
                "the record of the transaction {id} names {named} steps, and its plan has {}",
                steps.len()
            );
            return Err(self
                .record_failure(next, Error::corrupt(error).into())
                .await);
        }
        while self.record.next < steps.len() {
            let stage = transaction.stage(self.record.next);
            for n in stage.clone() {
                // Before any step of the stage: one worker does all of its steps, so it needs all their
                // resources.
                if let Err(error) = steps[n].check_resources(&coordinator.resources) {
                    // Another worker may have the resource: the failure does not count.
                    let failure = WorkFailure {
                        error,
                        counts: false,
                        recorded: None,
                    };
                    return Err(self.record_failure(n, failure).await);
                }
            }
            let work = coordinator.run_stage(self.record.id, steps, stage.clone());
            let Some(failures) = self.run_while_claimed(work).await else {
                return Ok(TransactionProgress::Pending);
            };
            if let Some((step, failure)) = self.decisive(failures) {
                return Err(self.record_failure(step, failure).await);
            }
            // A crash before this write repeats the stage, and a crash after it does not: so every step bears a repetition.
            if !self.advance(stage.end).await? {
                return Ok(TransactionProgress::Pending);
            }
            for step in stage {
                coordinator.emit(
                    self.record.id,
                    TransactionEventKind::Done {
                        step,
                        steps: self.record.steps,
                    },
                );
            }
        }
        self.coordinator
            .emit(self.record.id, TransactionEventKind::Applied);
        // Only now: until the record says *applied*, another worker may need the pieces to go on.
        self.coordinator
            .transactions
            .remove_pieces(self.record.plan_ref())
            .await?;
        Ok(TransactionProgress::Applied)
    }

    /// The failure that decides what happens to the transaction, and its step; listeners hear of the others.
    ///
    /// An ambiguous failure comes first: its request may still take effect, so the claim must stay. Then comes a failure
    /// that counts, so that a step which always fails is found beside one that waits for a store.
    fn decisive(&self, mut failures: Vec<(usize, WorkFailure)>) -> Option<(usize, WorkFailure)> {
        failures
            .sort_by_key(|(step, failure)| (!failure.error.is_ambiguous(), !failure.counts, *step));
        let mut failures = failures.into_iter();
        let decisive = failures.next();
        for (step, WorkFailure { error, .. }) in failures {
            self.coordinator
                .emit(self.record.id, TransactionEventKind::Failed { step, error });
        }
        decisive
    }

    /// Records the steps before `next` as done. Returns whether the claim still holds.
    async fn advance(&mut self, next: usize) -> Result<bool> {
        let state = if next == self.record.steps {
            State::Applied
        } else {
            State::Running
        };
        self.renew(TransactionRecord {
            next,
            state,
            error: None,
            failures: 0,
            ..self.record.clone()
        })
        .await
    }

    /// Replaces the record, which renews the claim. Returns whether the claim still holds.
    async fn renew(&mut self, record: TransactionRecord) -> Result<bool> {
        let lease = Lease::start(self.coordinator.timing);
        let Some(record) = self.coordinator.transactions.replace(record).await? else {
            return Ok(false);
        };
        (self.record, self.lease) = (record, lease);
        Ok(true)
    }

    /// Runs work while the claim holds and renews the claim in time. Returns `None` if the claim is lost; the
    /// work is dropped then.
    ///
    /// The work is never polled after the lease: a request sent then could take effect after the steps of the
    /// next applier.
    async fn run_while_claimed<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            let lease = self.lease;
            let guarded = poll_fn(|context| match lease.may_send() {
                true => work.as_mut().poll(context).map(Some),
                false => Poll::Ready(None),
            });
            // After a quarter of the lease the claim is renewed. The time in which requests may be sent is at least three quarters of a lease,
            // because a lease has at least four times the life of a request (`Timing::new`), so a renewal comes in time.
            if let Ok(done) = timeout(self.coordinator.timing.lease() / 4, guarded).await {
                return done;
            }
            if !self.renew(self.record.clone()).await.unwrap_or(false) {
                return None;
            }
        }
    }

    /// Records a failure and releases the claim, so that any worker can try the step again at once.
    ///
    /// After an ambiguous error the claim stays: the lost request may still take effect until the lease ends.
    /// The record alone counts failures. The queue's count of receives is no measure: workers that die and
    /// lost answers of the queue raise it too.
    async fn record_failure(mut self, step: usize, failure: WorkFailure) -> WorkFailure {
        let WorkFailure { error, counts, .. } = failure;
        let failed = TransactionEventKind::Failed {
            step,
            error: error.clone(),
        };
        self.coordinator.emit(self.record.id, failed);
        let mut record = self.record.clone();
        record.set_last_error(&error);
        record.failures += u32::from(counts);
        if !error.is_ambiguous() {
            record.claim = None;
        }
        let poisoned = counts && record.failures >= self.coordinator.attempts;
        if poisoned {
            record.state = State::Poisoned;
        }
        let recorded = match (self.renew(record).await, poisoned) {
            (Ok(true), true) => {
                let poisoned = TransactionEventKind::Poisoned { step };
                self.coordinator.emit(self.record.id, poisoned);
                Some(Recorded::Poisoned)
            }
            (Ok(true), false) => Some(Recorded::Failed(self.record.failures)),
            (Ok(false), _) => None,
            (Err(unrecorded), _) => {
                tracing::debug!(error = %unrecorded, "the failure of a step was not recorded");
                None
            }
        };
        WorkFailure {
            error,
            counts,
            recorded,
        }
    }
}

impl Coordinator {
    /// Does the steps of a stage at the same time. Waits for all of them, also after a failure: a step that is dropped half-way
    /// could take effect later. Returns the failures.
    async fn run_stage(
        &self,
        transaction: TransactionId,
        steps: &[Step],
        stage: Range<usize>,
    ) -> Vec<(usize, WorkFailure)> {
        let work = stream::iter(stage).map(async |step| {
            let done = self
                .run_step(StepId { transaction, step }, &steps[step])
                .await;
            done.err()
                .map(|error| (step, WorkFailure::at(&steps[step], error)))
        });
        work.buffer_unordered(self.concurrency)
            .filter_map(std::future::ready)
            .collect()
            .await
    }

    async fn run_step(&self, id: StepId, step: &Step) -> Result<()> {
        if let Some((store, table, operation)) = step.operation() {
            // Held until the write is done: a change of the manifest waits for it.
            let _plain_write = self
                .plain_write(store, table, WriteTarget::of(&operation))
                .await?;
            let store = self.resources.store(store)?;
            return match store.write(table, operation).await {
                // A delete of a missing entity is done. A replace must not bring a deleted entity back.
                Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(()),
                written => written.map(drop),
            };
        }
        match step {
            Step::Move { from, to } => self.move_entity(step, from, to).await,
            Step::PutBlob { blobs, path, bytes } => {
                put_blob(&self.resources, blobs, path, bytes).await
            }
            Step::DeleteBlob { blobs, path } => delete_blob(&self.resources, blobs, path).await,
            Step::Handle { handler, payload } => {
                self.resources.handler(handler)?.run(id, payload).await
            }
            _ => Ok(()),
        }
    }

    /// Reads the entity, writes it to the target, and deletes the version that was read. Starts over if the
    /// entity has changed: a concurrent change is moved too, never lost.
    async fn move_entity(&self, step: &Step, from: &Place, to: &Place) -> Result<()> {
        let (source, target) = (
            self.resources.store(&from.store)?,
            self.resources.store(&to.store)?,
        );
        for _ in 0..MOVE_ATTEMPTS {
            let Some(entity) = source.get(&from.table, &from.key, None).await? else {
                // An earlier run of this step may have moved the entity and died before it recorded that.
                return self.check_moved(step).await;
            };
            // Held until the write is done, as above.
            let _plain_writes = self.permit_move(step, &entity).await?;
            check_movable(&from.table, &entity)?;
            let Some(etag) = entity.etag().cloned() else {
                break;
            };
            let moved = entity.with_system(None, None).with_key(to.key.clone());
            // The target first: a crash between the two writes leaves the entity in both places, and the step
            // runs again.
            target
                .write(&to.table, Operation::InsertOrReplace(moved))
                .await?;
            let delete = Operation::Delete(from.key.clone(), etag.into());
            match source.write(&from.table, delete).await {
                Err(e) if e.is_precondition_failed() && !e.is_ambiguous() => {}
                Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => return Ok(()),
                deleted => return deleted.map(drop),
            }
        }
        Err(Error::precondition_failed(&from.table, &from.key))
    }
}
