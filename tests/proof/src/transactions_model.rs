//! The model of the scenes of eventually consistent transactions: submitters, workers, and the final check.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Query;
use table_core::store::{
    Error, Operation, Outcome, Result, ServiceProfile, StoreContext, TableStore, TableStoreExt,
};
use tokio::time::sleep;

use super::final_state::Verdict;
use super::footprint::Footprint;
use super::journal_model::{CLIENT, LEASE, SERVER};
use super::scheduled_queue::{Messages, ScheduledQueue};
use super::scheduled_store::ScheduledStore;
use super::scheduler::Scheduler;
use super::scripted_plan::{Poison, ScriptedPlan};
use crate::patterns::eventual::{
    Coordinator, PoisonedTransaction, Resources, StepHandler, StepId, Submitted, TransactionStatus,
};
use crate::patterns::journal::Timing;

/// The step that the handler does.
const MAIL_STEP: usize = 2;
/// The number of receives, and of failures of a step, after which a message or a transaction is poisoned.
const MAX_FAILURES: u32 = 3;

/// The rows after a number of steps.
fn rows_after(steps: usize) -> BTreeSet<String> {
    let rows: &[&str] = match steps {
        0 => &["Desk old"],
        1 => &["Desk old", "Desk x"],
        2 | 3 => &["Archive x", "Desk old"],
        _ => &["Archive x"],
    };
    rows.iter().map(|row| (*row).to_owned()).collect()
}

pub(super) fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

pub(super) fn key(row: &str) -> Key {
    Key::new("p", row).unwrap()
}

#[derive(Clone)]
pub(super) struct TransactionsModel {
    plan: ScriptedPlan,
    scheduler: Scheduler,
    store: MemoryStore,
    messages: Messages,
    handler_works: Arc<AtomicBool>,
    mails_sent: Arc<AtomicUsize>,
    answers: Arc<Mutex<Vec<Result<Submitted>>>>,
}

/// The handler of one process.
#[derive(Debug)]
struct MailHandler {
    /// The task of the process; `None` runs every request at once.
    task: Option<usize>,
    scheduler: Scheduler,
    handler_works: Arc<AtomicBool>,
    mails_sent: Arc<AtomicUsize>,
}

#[async_trait]
impl StepHandler for MailHandler {
    async fn run(&self, _step: StepId, _payload: &[u8]) -> Result<()> {
        let (handler_works, mails_sent) = (self.handler_works.clone(), self.mails_sent.clone());
        let send: BoxFuture<'static, Result<()>> = Box::pin(async move {
            if !handler_works.load(Ordering::SeqCst) {
                return Err(Error::application("no mail today"));
            }
            mails_sent.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let Some(task) = self.task else {
            return send.await;
        };
        self.scheduler
            .request(
                task,
                Footprint::all("mail", true),
                false,
                || "mail".to_owned(),
                send,
            )
            .await
    }
}

impl TransactionsModel {
    pub(super) async fn new(scheduler: &Scheduler, plan: ScriptedPlan) -> Result<Self> {
        let store = MemoryStore::new();
        for name in ["Desk", "Archive"] {
            store.create_table(&table(name)).await?;
        }
        store
            .write(&table("Desk"), Operation::Insert(Entity::from(key("old"))))
            .await?;
        let handler_works = plan.poison == Poison::Never;
        let messages = Messages::poisoned_after(MAX_FAILURES);
        let (handler_works, mails_sent, answers) = (
            Arc::new(handler_works.into()),
            Arc::default(),
            Arc::default(),
        );
        Ok(Self {
            plan,
            scheduler: scheduler.clone(),
            store,
            messages,
            handler_works,
            mails_sent,
            answers,
        })
    }

    /// A process. Without a task its requests run at once.
    async fn process(&self, task: Option<usize>) -> Result<Coordinator> {
        let scheduled = |task| ScheduledStore {
            context: StoreContext::new(&ServiceProfile::LOCAL),
            store: self.store.clone(),
            scheduler: self.scheduler.clone(),
            task,
            watched: (table("None"), "none"),
            live: Arc::new(true.into()),
            reads_only: false,
        };
        let store: Arc<dyn TableStore> = match task {
            Some(task) => Arc::new(scheduled(task)),
            None => Arc::new(self.store.clone()),
        };
        let (scheduler, handler_works, mails_sent) = (
            self.scheduler.clone(),
            self.handler_works.clone(),
            self.mails_sent.clone(),
        );
        let resources = Resources::new()
            .with_store("office", store.clone())
            .with_handler(
                "mail",
                Arc::new(MailHandler {
                    task,
                    scheduler,
                    handler_works,
                    mails_sent,
                }),
            );
        let scheduler = task.map(|_| self.scheduler.clone());
        let queue = ScheduledQueue::new(
            self.messages.clone(),
            scheduler,
            task.unwrap_or(usize::MAX),
            task.is_some(),
        );
        let process = Coordinator::open(store, "Transactions", Arc::new(queue), resources).await?;
        Ok(process
            .with_timing(Timing::new(LEASE, CLIENT, SERVER)?)
            .with_retry_delay(LEASE / 8)
            .with_attempts(MAX_FAILURES))
    }

    pub(super) async fn submitter(&self, task: usize) -> Result<BoxFuture<'static, ()>> {
        let (process, model) = (self.process(Some(task)).await?, self.clone());
        Ok(Box::pin(async move {
            let answer = process
                .submit(&model.plan.transaction(), model.plan.acknowledge)
                .await;
            model
                .scheduler
                .note(|| format!("task {task} is answered with {answer:?}"));
            model.answers.lock().unwrap().push(answer);
        }))
    }

    pub(super) async fn worker(&self, task: usize) -> Result<BoxFuture<'static, ()>> {
        let (process, rounds) = (self.process(Some(task)).await?, self.plan.rounds);
        Ok(Box::pin(async move {
            for round in 0..rounds {
                if round > 0 {
                    sleep(LEASE).await;
                }
                let _lost = process.run_once(8).await;
            }
        }))
    }

    pub(super) fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let model = self.clone();
        Box::pin(async move { Ok(model.judge().await?.err()) })
    }

    async fn judge(&self) -> Result<Verdict> {
        let process = self.process(None).await?;
        let mut poisoned = Vec::new();
        for _ in 0..4 {
            self.work(&process).await?;
            // Puts messages back that were set aside without a poisoned transaction.
            poisoned = process.poison(8).await?;
            if self.messages.len() == 0 {
                break;
            }
        }
        for poisoned in poisoned {
            if let Err(wrong) = self.handle(&process, &poisoned).await? {
                return Ok(Err(wrong));
            }
        }
        if self.messages.len() > 0 || !process.poison(8).await?.is_empty() {
            return Ok(Err("a message is left".to_owned()));
        }
        let transactions = self
            .store
            .query_all(&table("Transactions"), &Query::new())
            .await?;
        if let Some(piece) = transactions.iter().find(|row| row.key().row() != "head") {
            return Ok(Err(format!("the piece {} is left", piece.key())));
        }
        let status = process.status(self.plan.transaction().id()).await?;
        let found = self.rows().await?;
        Ok(self
            .check(&status, &found)
            .map_err(|wrong| format!("{wrong}: {status:?}, {found:?}")))
    }

    async fn work(&self, process: &Coordinator) -> Result<()> {
        for _ in 0..24 {
            if self.messages.len() == 0 {
                break;
            }
            sleep(LEASE * 2).await;
            process.run_once(8).await?;
        }
        Ok(())
    }

    /// Checks the status of a poisoned transaction, then requeues or discards it.
    async fn handle(
        &self,
        process: &Coordinator,
        poisoned: &PoisonedTransaction,
    ) -> Result<Verdict> {
        let expected = matches!(
            poisoned.status,
            TransactionStatus::Poisoned {
                step: MAIL_STEP,
                ..
            }
        );
        if self.plan.poison == Poison::Never || !expected {
            return Ok(Err(format!(
                "an unexpected poisoned transaction: {:?}",
                poisoned.status
            )));
        }
        if self.plan.poison == Poison::Discarded {
            process.discard(poisoned).await?;
            return Ok(Ok(()));
        }
        self.handler_works.store(true, Ordering::SeqCst);
        process.requeue(poisoned).await?;
        self.work(process).await.map(Ok)
    }

    async fn rows(&self) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        for name in ["Desk", "Archive"] {
            let rows = self.store.query_all(&table(name), &Query::new()).await?;
            found.extend(rows.iter().map(|row| format!("{name} {}", row.key().row())));
        }
        Ok(found)
    }

    /// Checks that all steps are done or none. Of a discarded transaction, the recorded steps are done and possibly
    /// one more.
    fn check(&self, status: &TransactionStatus, found: &BTreeSet<String>) -> Verdict {
        let mails_sent = self.mails_sent.load(Ordering::SeqCst);
        let nothing = *found == rows_after(0) && mails_sent == 0;
        let right = match status {
            TransactionStatus::Applied => *found == rows_after(4) && mails_sent > 0,
            TransactionStatus::Unknown | TransactionStatus::Aborted => nothing,
            TransactionStatus::Discarded { step } => {
                *found == rows_after(*step) || *found == rows_after(step + 1)
            }
            TransactionStatus::Pending { .. } | TransactionStatus::Poisoned { .. } => false,
        };
        if !right {
            return Err(format!(
                "the rows do not match the status, with {mails_sent} mails"
            ));
        }
        for answers in self.answers.lock().unwrap().iter() {
            match answers {
                Ok(_) if nothing && self.plan.poison != Poison::Discarded => {
                    return Err(
                        "submit answered that the transaction is committed, and no step is done"
                            .to_owned(),
                    );
                }
                Err(error)
                    if error.outcome() == Outcome::NotApplied
                        && !nothing
                        && self.plan.submitters == 1 =>
                {
                    return Err(format!(
                        "submit answered *not applied*, and steps are done: {error}"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
