//! Eventually consistent transactions among processes that die, pause and lose answers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Query;
use table_core::store::{Error, Operation, Outcome, Result, TableStore, TableStoreExt};
use tokio::time::sleep;

use super::errands::{Errand, Poison};
use super::footprint::Footprint;
use super::queue::{Messages, StagedQueue};
use super::rest::Verdict;
use super::stage::Stage;
use super::store::StagedStore;
use super::world::{CLIENT, LEASE, SERVER};
use crate::eventual::{
    Coordinator, PoisonedTransaction, Resources, StepHandler, StepId, Submitted, TransactionStatus,
};
use crate::journal::Timing;

/// The step that a handler does.
const MAIL: usize = 2;
/// How often a message is received before it is set aside, where a handler fails.
const MOST: u32 = 3;

/// What is there when so many steps are done.
fn after(steps: usize) -> BTreeSet<String> {
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
pub(super) struct Office {
    of: Errand,
    stage: Stage,
    store: MemoryStore,
    messages: Messages,
    works: Arc<AtomicBool>,
    mails: Arc<AtomicUsize>,
    told: Arc<Mutex<Vec<Result<Submitted>>>>,
}

/// The handler of one process.
#[derive(Debug)]
struct Mail {
    /// The process's task; `None` lets every request pass.
    task: Option<usize>,
    stage: Stage,
    works: Arc<AtomicBool>,
    mails: Arc<AtomicUsize>,
}

#[async_trait]
impl StepHandler for Mail {
    async fn run(&self, _step: StepId, _payload: &[u8]) -> Result<()> {
        let (works, mails) = (self.works.clone(), self.mails.clone());
        let send: BoxFuture<'static, Result<()>> = Box::pin(async move {
            if !works.load(Ordering::SeqCst) {
                return Err(Error::invalid_request("no mail today"));
            }
            mails.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let Some(task) = self.task else { return send.await };
        self.stage.request(task, Footprint::all("mail", true), false, || "mail".to_owned(), send).await
    }
}

impl Office {
    pub(super) async fn new(stage: &Stage, of: Errand) -> Result<Self> {
        let store = MemoryStore::new();
        for name in ["Desk", "Archive"] {
            store.create_table(&table(name)).await?;
        }
        store.write(&table("Desk"), Operation::Insert(Entity::from(key("old")))).await?;
        let works = of.poison == Poison::Never;
        let messages = Messages::poisoned_after(MOST);
        let (works, mails, told) = (Arc::new(works.into()), Arc::default(), Arc::default());
        Ok(Self { of, stage: stage.clone(), store, messages, works, mails, told })
    }

    /// A process; without a task it does not wait for its turn.
    async fn process(&self, task: Option<usize>) -> Result<Coordinator> {
        let staged = |task| StagedStore {
            store: self.store.clone(),
            stage: self.stage.clone(),
            task,
            watched: (table("None"), "none"),
            live: Arc::new(true.into()),
            reads_only: false,
        };
        let store: Arc<dyn TableStore> = match task {
            Some(task) => Arc::new(staged(task)),
            None => Arc::new(self.store.clone()),
        };
        let (stage, works, mails) = (self.stage.clone(), self.works.clone(), self.mails.clone());
        let resources = Resources::new()
            .with_store("office", store.clone())
            .with_handler("mail", Arc::new(Mail { task, stage, works, mails }));
        let stage = task.map(|_| self.stage.clone());
        let queue =
            StagedQueue::new(self.messages.clone(), stage, task.unwrap_or(usize::MAX), task.is_some());
        let process = Coordinator::open(store, "Transactions", Arc::new(queue), resources).await?;
        let process = process
            .with_timing(Timing::new(LEASE, CLIENT, SERVER)?)
            .with_retry_delay(LEASE / 8)
            .with_attempts(MOST);
        Ok(process.breaking(self.of.broken))
    }

    pub(super) async fn submitter(&self, task: usize) -> Result<BoxFuture<'static, ()>> {
        let (process, office) = (self.process(Some(task)).await?, self.clone());
        Ok(Box::pin(async move {
            let told = process.submit(&office.of.plan(), office.of.acknowledge).await;
            office.stage.note(|| format!("task {task} is told {told:?}"));
            office.told.lock().unwrap().push(told);
        }))
    }

    pub(super) async fn worker(&self, task: usize) -> Result<BoxFuture<'static, ()>> {
        let (process, rounds) = (self.process(Some(task)).await?, self.of.rounds);
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
        let office = self.clone();
        Box::pin(async move { Ok(office.judge().await?.err()) })
    }

    async fn judge(&self) -> Result<Verdict> {
        let process = self.process(None).await?;
        let mut poisoned = Vec::new();
        for _ in 0..4 {
            self.work(&process).await?;
            // What was set aside and is not poisoned is put back.
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
        let transactions = self.store.query_all(&table("Transactions"), &Query::new()).await?;
        if let Some(piece) = transactions.iter().find(|row| row.key().row() != "head") {
            return Ok(Err(format!("the piece {} is left", piece.key())));
        }
        let status = process.status(self.of.plan().id()).await?;
        let found = self.rows().await?;
        Ok(self.check(&status, &found).map_err(|wrong| format!("{wrong}: {status:?}, {found:?}")))
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

    /// What is set aside says how far it got; it is put back, or given up.
    async fn handle(&self, process: &Coordinator, poisoned: &PoisonedTransaction) -> Result<Verdict> {
        let expected = matches!(poisoned.status, TransactionStatus::Poisoned { step: MAIL, .. });
        if self.of.poison == Poison::Never || !expected {
            return Ok(Err(format!("poison: {:?}", poisoned.status)));
        }
        if self.of.poison == Poison::Discarded {
            process.discard(poisoned).await?;
            return Ok(Ok(()));
        }
        self.works.store(true, Ordering::SeqCst);
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

    /// All of the plan is done, or nothing; of a discarded one what was recorded, or one step more.
    fn check(&self, status: &TransactionStatus, found: &BTreeSet<String>) -> Verdict {
        let mails = self.mails.load(Ordering::SeqCst);
        let nothing = *found == after(0) && mails == 0;
        let right = match status {
            TransactionStatus::Applied => *found == after(4) && mails > 0,
            TransactionStatus::Unknown | TransactionStatus::Aborted => nothing,
            TransactionStatus::Discarded { step } => *found == after(*step) || *found == after(step + 1),
            TransactionStatus::Pending { .. } | TransactionStatus::Poisoned { .. } => false,
        };
        if !right {
            return Err(format!("with {mails} mails"));
        }
        for told in self.told.lock().unwrap().iter() {
            match told {
                Ok(_) if nothing && self.of.poison != Poison::Discarded => {
                    return Err("it was said to be committed".to_owned());
                }
                Err(error)
                    if error.outcome() == Outcome::NotApplied && !nothing && self.of.submitters == 1 =>
                {
                    return Err(format!("it was said not to be committed: {error}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
