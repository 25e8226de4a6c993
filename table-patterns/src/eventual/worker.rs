//! Workers: the handling of a received message.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::join_all;
use table_core::queue::Message;
use table_core::store::Result;
use tokio::time::sleep;

use super::applier::{Recorded, WorkFailure};
use super::coordinator::Coordinator;
use super::plan::{EventualTransaction, PlanMessage};
use super::record::{State, TransactionRecord};
use super::status::TransactionEventKind;
use super::submit::{TransactionProgress, other_plan};
use super::transaction_table::PlanRef;
use crate::consistency::work::{
    Pace, WorkerSlots, poison_pause, send_again, with_housekeeping, work_through,
};
use crate::journal::Lease;

/// The number of poison messages that one check reads.
const POISON_CHECKED: usize = 32;

/// The treatment of a message after the work on it.
enum MessageFate {
    Delete,
    /// The message is visible again after the delay. The queue counts its receives and may set it aside.
    Hide(Duration),
    /// A new message with the same body replaces the message: the queue counts from zero.
    SendAgain(Duration),
}

impl Coordinator {
    /// Receives up to `max` messages and works on them concurrently. Returns the number of messages.
    ///
    /// Failures are traced and reported to the [listener](Self::on_event). A step is tried again until it has
    /// failed as often as [`with_attempts`](Self::with_attempts) says; then its transaction is poisoned. Waiting
    /// for an unavailable store or for another worker never poisons a transaction, and neither do workers that
    /// die. The message of a poisoned transaction comes back until the queue sets it aside, after pauses that
    /// grow to a lease. The queue may set such messages aside: [`run`](Self::run) puts them back. Without `run`, call
    /// [`poison`](Self::poison) regularly.
    ///
    /// # Errors
    /// The queue's.
    pub async fn run_once(&self, max: usize) -> Result<usize> {
        let messages = self.queue.receive(max, self.timing.lease()).await?;
        let count = messages.len();
        join_all(messages.into_iter().map(|message| self.handle(message))).await;
        Ok(count)
    }

    /// Works until `stop` is ready, on up to `concurrency` transactions at a time. Finishes the transactions under
    /// way before it returns.
    ///
    /// While the queue is empty, the worker asks it once per `idle`. While the queue is unavailable or denies
    /// access, the pause grows up to one minute. Once per lease, the worker reads up to 32 messages that the
    /// queue has set aside. It puts back the messages whose transactions are not poisoned: 1 request for each.
    ///
    /// # Errors
    /// The queue's, if waiting does not repair the error: the queue does not exist.
    pub async fn run(
        &self,
        concurrency: usize,
        idle: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        let (slots, pace) = (
            WorkerSlots::new(concurrency),
            Pace {
                idle,
                visibility: self.timing.lease(),
            },
        );
        let work = work_through(&*self.queue, &slots, pace, stop, |message| {
            self.handle(message)
        });
        with_housekeeping(work, self.requeue_unpoisoned()).await
    }

    /// Once per lease, forever: puts messages back that the queue has set aside and that are not poisoned.
    async fn requeue_unpoisoned(&self) -> Infallible {
        loop {
            sleep(self.timing.lease()).await;
            if let Err(error) = self.poison(POISON_CHECKED).await {
                tracing::debug!(%error, "the poison messages of the queue could not be checked");
            }
        }
    }

    /// Works on a message, and deletes it or gives it back to the queue.
    async fn handle(&self, message: Message) {
        let Some(mut receipt) = message.receipt.clone() else {
            return;
        };
        let worked = self
            .run_while_hidden(&mut receipt, self.work_on(&message))
            .await;
        let fate = worked.unwrap_or_else(|failure| self.fate_after_failure(&failure, &message));
        let returned = match fate {
            MessageFate::Delete => return self.delete_message(&receipt).await,
            MessageFate::Hide(delay) => self.queue.renew(&receipt, delay).await.map(drop),
            MessageFate::SendAgain(delay) => {
                send_again(&*self.queue, &message.body, &receipt, delay).await
            }
        };
        if let Err(error) = returned {
            tracing::debug!(%error, "a transaction's message is visible again when its lease ends");
        }
    }

    /// What becomes of the message after a failure.
    ///
    /// A failure that the record counts needs no count of the queue: the message is sent again. The queue counts
    /// the failures of messages without such a record: no transaction, another plan under a known id, or a record
    /// that cannot be read.
    fn fate_after_failure(&self, failure: &WorkFailure, message: &Message) -> MessageFate {
        let WorkFailure {
            error,
            counts,
            recorded,
        } = failure;
        tracing::warn!(%error, message = %message.id, "a transaction was not finished");
        match recorded {
            Some(Recorded::Poisoned) => {
                MessageFate::Hide(poison_pause(message.dequeue_count, self.timing.lease()))
            }
            _ if error.is_ambiguous() => MessageFate::SendAgain(self.timing.lease()),
            Some(Recorded::Failed(failures)) => MessageFate::SendAgain(self.delay(*failures)),
            None if *counts => MessageFate::Hide(self.delay(message.dequeue_count)),
            None => MessageFate::SendAgain(self.delay(1)),
        }
    }

    async fn work_on(&self, message: &Message) -> Result<MessageFate, WorkFailure> {
        let plan_message = PlanMessage::parse(&message.body)?;
        let Some(record) = self.transactions.read(plan_message.id()).await? else {
            return self
                .start_without_record(&plan_message, message.dequeue_count)
                .await;
        };
        self.continue_from_record(&plan_message, record, message.dequeue_count)
            .await
    }

    /// There is no record. If the message contains the plan, the message is the commit: claim and apply the
    /// transaction. If the message points at a stored plan, the plan is not committed: abort the transaction.
    async fn start_without_record(
        &self,
        plan_message: &PlanMessage,
        dequeues: u32,
    ) -> Result<MessageFate, WorkFailure> {
        let plan_ref = plan_message.plan_ref();
        let lease = Lease::start(self.timing);
        // The insert decides between this worker, other workers and the submitter: one of them gets the record.
        let inserted = match plan_message {
            PlanMessage::Inline { plan, .. } => {
                let record = TransactionRecord::new(plan_ref, plan.steps().len());
                self.transactions.insert(record.claimed()).await?
            }
            PlanMessage::Stored(_) => {
                self.transactions
                    .insert(TransactionRecord::aborted(plan_ref))
                    .await?
            }
        };
        match (inserted, plan_message) {
            (Some(record), PlanMessage::Inline { plan, .. }) => {
                Ok(self.fate_after(self.apply(plan, record, lease).await?))
            }
            (Some(_), PlanMessage::Stored(_)) => {
                self.emit(plan_ref.id, TransactionEventKind::Aborted);
                self.remove_uncommitted(plan_ref, dequeues).await
            }
            // Another worker, or the submitter, has inserted the record first.
            (None, _) => Ok(MessageFate::Hide(Duration::ZERO)),
        }
    }

    /// There is a record: it says whether the plan of the message is committed, and whether steps are left.
    async fn continue_from_record(
        &self,
        plan_message: &PlanMessage,
        record: TransactionRecord,
        dequeues: u32,
    ) -> Result<MessageFate, WorkFailure> {
        let plan = plan_message.plan_ref();
        match (record.state, plan_message) {
            (State::Poisoned, _) if record.plan_hash == plan.hash => Ok(MessageFate::Hide(
                poison_pause(dequeues, self.timing.lease()),
            )),
            (State::Running, _) if record.plan_hash == plan.hash => {
                self.take_over(plan_message, record).await
            }
            // Aborted, or the record of another plan: this plan is not committed, and its submitter gets an error.
            (_, PlanMessage::Stored(_))
                if record.state == State::Aborted || record.plan_hash != plan.hash =>
            {
                self.remove_uncommitted(plan, dequeues).await
            }
            (_, _) if record.plan_hash != plan.hash => Err(other_plan(plan.id).into()),
            _ => {
                // Applied or discarded under this plan. A submission that was repeated may have left pieces.
                self.emit(plan.id, TransactionEventKind::Repeated);
                self.transactions.remove_pieces(plan).await?;
                Ok(MessageFate::Delete)
            }
        }
    }

    /// Removes the pieces of a plan that is not committed, and again one lease later: a piece may have been under
    /// way the first time.
    async fn remove_uncommitted(
        &self,
        plan: PlanRef,
        dequeues: u32,
    ) -> Result<MessageFate, WorkFailure> {
        self.transactions.remove_pieces(plan).await?;
        Ok(if dequeues > 1 {
            MessageFate::Delete
        } else {
            MessageFate::Hide(self.timing.lease())
        })
    }

    /// Takes over a transaction that is not finished.
    ///
    /// Watches a claimed record for a whole lease on this machine's clock. If the record has not changed, the
    /// claim has expired: this process replaces it by its own claim, under the ETag that was read.
    async fn take_over(
        &self,
        plan_message: &PlanMessage,
        record: TransactionRecord,
    ) -> Result<MessageFate, WorkFailure> {
        // Without a claim no process applies the transaction: it was left to workers, or released after a
        // failure.
        if record.claim.is_some() {
            sleep(self.timing.lease()).await;
        }
        let lease = Lease::start(self.timing);
        let Some(record) = self.transactions.replace(record.claimed()).await? else {
            return Ok(MessageFate::SendAgain(self.timing.lease()));
        };
        let progress = match plan_message {
            PlanMessage::Inline { plan, .. } => self.apply(plan, record, lease).await?,
            PlanMessage::Stored(_) => match self.read_stored_plan(&record).await {
                Ok(plan) => self.apply(&plan, record, lease).await?,
                Err(error) => return Err(self.record_unreadable_plan(record, lease, error).await),
            },
        };
        Ok(self.fate_after(progress))
    }

    async fn read_stored_plan(&self, record: &TransactionRecord) -> Result<EventualTransaction> {
        EventualTransaction::parse(&self.transactions.read_plan(record).await?)
    }

    /// What becomes of the message after work without a failure.
    const fn fate_after(&self, progress: TransactionProgress) -> MessageFate {
        match progress {
            TransactionProgress::Applied => MessageFate::Delete,
            TransactionProgress::Pending => MessageFate::SendAgain(self.timing.lease()),
        }
    }
}
