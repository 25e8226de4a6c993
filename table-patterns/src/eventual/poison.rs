//! Poisoned transactions: list them, requeue them or discard them.

use table_core::queue::Message;
use table_core::store::{Error, Result};

use super::coordinator::Coordinator;
use super::plan::{PlanMessage, TransactionId};
use super::record::{State, TransactionRecord};
use super::status::TransactionStatus;
use crate::consistency::work::put_back;

/// A poisoned transaction with the message that the queue has set aside.
#[derive(Clone, Debug)]
pub struct PoisonedTransaction {
    /// The transaction; `None` if the message is not the message of a transaction.
    pub id: Option<TransactionId>,
    /// The step that failed, and its error.
    pub status: TransactionStatus,
    /// The message.
    pub message: Message,
}

impl Coordinator {
    /// Lists up to `max` poisoned transactions.
    ///
    /// The list also has messages that no worker can process: messages of no transaction, of another plan under a
    /// known id, or of a record that cannot be read. The steps before the one in
    /// [`status`](PoisonedTransaction::status) are done.
    ///
    /// The queue sets a message aside after a number of receives, also if workers died or answers of the queue were
    /// lost. This call puts such messages back and does not list them.
    ///
    /// Cost: the queue's requests, and 1 request per message.
    ///
    /// # Errors
    /// The queue's and the store's.
    pub async fn poison(&self, max: usize) -> Result<Vec<PoisonedTransaction>> {
        let mut all = Vec::new();
        for message in self.queue.poison(max).await? {
            let plan_message = PlanMessage::parse(&message.body).ok();
            let record = match &plan_message {
                Some(plan_message) => self.transactions.read(plan_message.id()).await?,
                None => None,
            };
            if plan_message
                .as_ref()
                .is_some_and(|message| can_be_worked_on(message, record.as_ref()))
            {
                put_back(&*self.queue, &message).await?;
                continue;
            }
            let status = record
                .as_ref()
                .map_or(TransactionStatus::Unknown, TransactionStatus::of);
            all.push(PoisonedTransaction {
                id: plan_message.map(|message| message.id()),
                status,
                message,
            });
        }
        Ok(all)
    }

    /// Lets workers try the transaction again, from the step that failed. Two requests, and the queue's.
    ///
    /// # Errors
    /// *Precondition failed* if another process has requeued or discarded the transaction. Otherwise the store's
    /// and the queue's.
    pub async fn requeue(&self, poisoned: &PoisonedTransaction) -> Result<()> {
        if let Ok(plan_message) = PlanMessage::parse(&poisoned.message.body)
            && let Some(record) = self.transactions.read(plan_message.id()).await?
            && record.state == State::Poisoned
            && record.plan_hash == plan_message.plan_ref().hash
        {
            let again = TransactionRecord {
                state: State::Running,
                failures: 0,
                claim: None,
                ..record
            };
            // The record before the message: a worker that received the message first would find the
            // transaction poisoned, and set the message aside again.
            self.transactions
                .replace(again)
                .await?
                .ok_or_else(|| self.changed(plan_message.id()))?;
        }
        // If this request is lost, `poison` finds a message whose transaction is not poisoned and puts it back.
        self.queue.requeue(&poisoned.message).await.map(drop)
    }

    /// Discards the remaining steps of a transaction for good. The steps that are done stay done. Two requests, 1
    /// more per piece of a stored plan, and the queue's.
    ///
    /// # Errors
    /// *Precondition failed* if a worker applies the transaction or another process has requeued it. Otherwise the
    /// store's and the queue's.
    pub async fn discard(&self, poisoned: &PoisonedTransaction) -> Result<()> {
        if let Ok(plan_message) = PlanMessage::parse(&poisoned.message.body) {
            self.discard_record(&plan_message).await?;
        }
        match &poisoned.message.receipt {
            Some(receipt) => self.queue.delete(receipt).await,
            None => Ok(()),
        }
    }

    async fn discard_record(&self, plan_message: &PlanMessage) -> Result<()> {
        let plan_ref = plan_message.plan_ref();
        let record = match (self.transactions.read(plan_ref.id).await?, plan_message) {
            (None, PlanMessage::Inline { plan, .. }) => {
                let record = TransactionRecord::new(plan_ref, plan.steps().len());
                self.transactions
                    .insert(TransactionRecord {
                        state: State::Discarded,
                        ..record
                    })
                    .await?
            }
            (None, PlanMessage::Stored(_)) => {
                self.transactions
                    .insert(TransactionRecord::aborted(plan_ref))
                    .await?
            }
            (Some(record), _) if record.is_open() && record.plan_hash == plan_ref.hash => {
                // The new claim makes a worker that still holds the old claim stop.
                let discarded = TransactionRecord {
                    state: State::Discarded,
                    ..record.claimed()
                };
                self.transactions.replace(discarded).await?
            }
            // The transaction is finished, or the record is that of another plan: the record stays as it is.
            (record, _) => record,
        };
        record.ok_or_else(|| self.changed(plan_ref.id))?;
        self.transactions.remove_pieces(plan_ref).await
    }

    /// The error for a record that another process has changed.
    fn changed(&self, id: TransactionId) -> Error {
        Error::precondition_failed(&self.transactions.table, format!("the transaction {id}"))
    }
}

/// Whether a worker has something to do for a message.
fn can_be_worked_on(plan_message: &PlanMessage, record: Option<&TransactionRecord>) -> bool {
    let Some(record) = record else { return true };
    if record.plan_hash == plan_message.plan_ref().hash {
        return record.state != State::Poisoned;
    }
    // A plan that was not committed: workers remove its pieces.
    matches!(plan_message, PlanMessage::Stored(_))
}
