//! Eventually consistent transactions in trouble: at every request of every path the process dies, or the
//! request or its answer is lost. Then other processes go on, and all of the plan is done, or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use object_store::memory::InMemory;
use table_core::adapter::{CrashPoint, Fault, FaultInjector, Faulty};
use table_core::model::{Entity, Properties, TableName};
use table_core::query::{Filter, Query};
use table_core::queue::WorkQueue;
use table_core::store::{ErrorKind, Operation, Outcome, Result, TableStore, TableStoreExt};
use table_patterns::eventual::{
    Coordinator, EventualTransaction, Place, Resources, StepHandler, StepId, Submitted, TransactionStatus,
};
use table_patterns::journal::{Acknowledge, Timing};
use table_patterns::queue::{QueueOptions, TableQueue};
use tokio::time::sleep;

use crate::process::Names;

/// What goes wrong at one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    Crash(CrashPoint),
    Fault(Fault),
}

impl Trouble {
    pub(crate) const ALL: [Self; 4] = [
        Self::Crash(CrashPoint::Before),
        Self::Crash(CrashPoint::After),
        Self::Fault(Fault::LoseRequest),
        Self::Fault(Fault::LoseAnswer),
    ];

    fn strike(self, faults: &FaultInjector, request: usize) {
        match self {
            Self::Crash(point) => faults.crash_at(request as u64, point),
            Self::Fault(fault) => {
                let steps = std::iter::repeat_n(None, request - 1).chain([Some(fault)]);
                faults.script(steps);
            }
        }
    }
}

/// Writes what it is asked to, once it works.
#[derive(Debug)]
struct Clerk {
    store: Arc<dyn TableStore>,
    table: TableName,
    fails: AtomicBool,
}

#[async_trait]
impl StepHandler for Clerk {
    async fn run(&self, step: StepId, _payload: &[u8]) -> Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(ErrorKind::Service("the clerk is ill".to_owned()).into());
        }
        let entry = Entity::new("audit", step.step.to_string())?;
        self.store.write(&self.table, Operation::InsertOrReplace(entry)).await.map(drop)
    }
}

/// Two stores, and the names in them.
#[derive(Clone)]
pub(crate) struct Places {
    pub(crate) current: Arc<dyn TableStore>,
    pub(crate) archive: Arc<dyn TableStore>,
    pub(crate) names: Names,
}

struct Office {
    places: Places,
    coordinator: Coordinator,
    queue: Arc<TableQueue>,
    clerk: Arc<Clerk>,
}

const TABLES: [&str; 2] = ["Current", "Archive"];

impl Places {
    fn store(&self, table: &str) -> &Arc<dyn TableStore> {
        if table == "Current" { &self.current } else { &self.archive }
    }

    async fn fill(&self) -> Result<()> {
        for table in TABLES {
            self.store(table).create_table(&self.names.table(table)).await?;
        }
        for row in ["1", "2", "456"] {
            let employee = Entity::new("Sales", row)?.with("Name", format!("ken {row}"));
            self.current.write(&self.names.table("Current"), Operation::Insert(employee)).await?;
        }
        Ok(())
    }

    /// The same places, seen by a process whose requests fail as the injector says.
    fn troubled(&self, faults: &FaultInjector) -> Self {
        let faulty = |store: &Arc<dyn TableStore>| Arc::new(Faulty::new(store.clone(), faults.clone()));
        Self { current: faulty(&self.current), archive: faulty(&self.archive), names: self.names }
    }

    async fn open(&self, max_dequeues: u32) -> Result<Office> {
        let mut options = QueueOptions::default();
        options.max_dequeues = max_dequeues;
        options.clock = Arc::new(self.names.clock());
        let work = self.names.table("Jobs");
        let queue = TableQueue::open_with(self.current.clone(), work.as_str(), "jobs", options).await?;
        let (queue, table) = (Arc::new(queue), self.names.table("Archive"));
        let clerk = Arc::new(Clerk { store: self.archive.clone(), table, fails: AtomicBool::new(false) });
        let resources = Resources::new()
            .with_store("current", self.current.clone())
            .with_store("archive", self.archive.clone())
            .with_blobs("blobs", Arc::new(InMemory::new()))
            .with_handler("clerk", clerk.clone());
        let ledger = self.names.table("Transactions");
        let coordinator =
            Coordinator::open(self.current.clone(), ledger.as_str(), queue.clone(), resources).await?;
        let timing = Timing::new(Duration::from_millis(400), Duration::from_millis(100), Duration::ZERO)?;
        let coordinator = coordinator.with_timing(timing).with_retry_delay(Duration::from_millis(50));
        Ok(Office { places: self.clone(), coordinator, queue, clerk })
    }

    /// Every row of both tables.
    async fn rows(&self) -> Result<BTreeMap<String, Properties>> {
        let mut all = BTreeMap::new();
        for table in TABLES {
            for row in self.store(table).query_all(&self.names.table(table), &Query::new()).await? {
                let (key, properties) = row.into_parts();
                all.insert(format!("{table} {key}"), properties);
            }
        }
        Ok(all)
    }
}

impl Office {
    fn place(&self, table: &str, row: &str) -> Result<Place> {
        let key = Entity::new("Sales", row)?.key().clone();
        Ok(Place::new(table.to_lowercase(), self.places.names.table(table), key))
    }

    /// Steps of every kind; a large blob makes the plan larger than a message.
    fn plan(&self, large: bool) -> Result<EventualTransaction> {
        let [current, archive] = TABLES.map(|table| self.places.names.table(table));
        let plan = EventualTransaction::new()
            .upsert("archive", archive.clone(), Entity::new("Sales", "1")?.with("N", 1))
            .move_entity(self.place("Current", "456")?, self.place("Archive", "456")?)
            .upsert("current", current.clone(), Entity::new("Sales", "9")?)
            .delete_if_exists(self.place("Current", "9")?)
            .handle("clerk", *b"x")
            .upsert_merge("archive", archive, Entity::new("Sales", "1")?.with("M", 2))
            .replace_if_exists("current", current, Entity::new("Sales", "2")?.with("N", 3));
        Ok(if large { plan.put_blob("blobs", "b", vec![0; 560_000]) } else { plan })
    }

    async fn work(&self) -> Result<()> {
        let mut idle = 0;
        while idle < 3 {
            sleep(Duration::from_secs(1)).await;
            idle = if self.coordinator.run_once(8).await? == 0 { idle + 1 } else { 0 };
        }
        sleep(Duration::from_secs(60)).await;
        assert!(self.queue.peek(1).await?.is_empty(), "a message is left");
        Ok(())
    }

    async fn pieces(&self) -> Result<usize> {
        let query = Query::new().with_filter(Filter::ne(Filter::ROW_KEY, "head"));
        let table = self.places.names.table("Transactions");
        Ok(self.places.current.query_all(&table, &query).await?.len())
    }
}

type Act = for<'a> fn(&'a Office, &'a EventualTransaction) -> BoxFuture<'a, Result<Option<Submitted>>>;

/// What the process does when it gets into trouble.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    name: &'static str,
    large: bool,
    /// Whether the transaction was committed before.
    committed: bool,
    act: Act,
}

pub(crate) const PATHS: [Path; 8] = [
    Path { name: "submit", large: false, committed: false, act: submit },
    Path { name: "submit and apply", large: false, committed: false, act: apply },
    Path { name: "submit a large plan", large: true, committed: false, act: submit },
    Path { name: "submit and apply a large plan", large: true, committed: false, act: apply },
    Path { name: "work", large: false, committed: true, act: work },
    Path { name: "work on a large plan", large: true, committed: true, act: work },
    Path { name: "take over", large: false, committed: true, act: take_over },
    Path { name: "take over a large plan", large: true, committed: true, act: take_over },
];

fn submit<'a>(office: &'a Office, plan: &'a EventualTransaction) -> BoxFuture<'a, Result<Option<Submitted>>> {
    Box::pin(async { office.coordinator.submit(plan, Acknowledge::Committed).await.map(Some) })
}

fn apply<'a>(office: &'a Office, plan: &'a EventualTransaction) -> BoxFuture<'a, Result<Option<Submitted>>> {
    Box::pin(async { office.coordinator.submit(plan, Acknowledge::Applied).await.map(Some) })
}

fn work<'a>(office: &'a Office, _: &'a EventualTransaction) -> BoxFuture<'a, Result<Option<Submitted>>> {
    Box::pin(async { office.coordinator.run_once(8).await.map(|_| None) })
}

/// A claim that its owner gave up in the middle is watched and taken over.
fn take_over<'a>(
    office: &'a Office,
    plan: &'a EventualTransaction,
) -> BoxFuture<'a, Result<Option<Submitted>>> {
    Box::pin(async {
        let faults = FaultInjector::new(0);
        let dying = office.places.troubled(&faults).open(100).await?;
        faults.crash_at(10, CrashPoint::After);
        let _dead = dying.coordinator.run_once(8).await;
        sleep(Duration::from_secs(2)).await;
        work(office, plan).await
    })
}

/// Lets every request of every path go wrong; how often that was.
pub(crate) async fn trouble_everywhere(places: impl Fn(usize) -> Places) -> Result<usize> {
    let (mut count, mut worlds) = (0, 0);
    for path in &PATHS {
        for trouble in Trouble::ALL {
            for request in 1.. {
                worlds += 1;
                if !suffer(path, request, trouble, &places(worlds)).await? {
                    break;
                }
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Lets requests that a seed draws go wrong; how often that was.
pub(crate) async fn trouble_sometimes(
    places: impl Fn(usize) -> Places,
    seed: u64,
    times: usize,
) -> Result<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut count = 0;
    for world in 0..times {
        let path = &PATHS[rng.usize(..PATHS.len())];
        let trouble = Trouble::ALL[rng.usize(..Trouble::ALL.len())];
        count += usize::from(suffer(path, rng.usize(1..=20), trouble, &places(world)).await?);
    }
    Ok(count)
}

/// Whether the path got so far as to get into trouble.
async fn suffer(path: &Path, request: usize, trouble: Trouble, places: &Places) -> Result<bool> {
    let case = format!("{}, {trouble:?} at request {request}", path.name);
    places.fill().await?;
    let before = places.rows().await?;
    let healthy = places.open(100).await?;
    let plan = healthy.plan(path.large)?;
    if path.committed {
        healthy.coordinator.submit(&plan, Acknowledge::Committed).await?;
    }
    let faults = FaultInjector::new(0);
    let troubled = places.troubled(&faults).open(100).await?;
    trouble.strike(&faults, request);
    let answer = (path.act)(&troubled, &plan).await;
    let struck = faults.is_crashed() || !faults.injected().is_empty();
    assert!(struck || answer.is_ok(), "{case}: {answer:?}");

    healthy.work().await?;
    let status = healthy.coordinator.status(plan.id()).await?;
    let now = places.rows().await?;
    if status == TransactionStatus::Applied {
        assert_eq!(now, done(&before), "{case}");
    } else {
        assert!(
            matches!(status, TransactionStatus::Aborted | TransactionStatus::Unknown),
            "{case}: {status:?}"
        );
        assert_eq!(now, before, "{case}");
        assert!(!path.committed, "{case}: a committed transaction was not done");
    }
    assert_eq!(healthy.pieces().await?, 0, "{case}: a piece of the plan is left");
    let heard = !path.committed && !faults.is_crashed();
    check_answer(&case, &answer, heard, &status);
    Ok(struck)
}

/// What the submitter was told, if it lived to hear it.
fn check_answer(case: &str, answer: &Result<Option<Submitted>>, heard: bool, status: &TransactionStatus) {
    let applied = *status == TransactionStatus::Applied;
    match answer {
        Ok(_) => assert!(applied, "{case}: an acknowledged transaction is lost"),
        Err(error) if error.outcome() == Outcome::NotApplied && heard => {
            assert!(!applied, "{case}: {error} of a transaction that is done");
        }
        Err(_) => {}
    }
}

/// What the plan makes of what was there.
fn done(before: &BTreeMap<String, Properties>) -> BTreeMap<String, Properties> {
    let mut rows = before.clone();
    let ken = rows.remove("Current ('Sales', '456')").expect("an employee");
    rows.insert("Archive ('Sales', '456')".to_owned(), ken);
    rows.insert("Archive ('Sales', '1')".to_owned(), [("N", 1), ("M", 2)].into_iter().collect());
    rows.insert("Current ('Sales', '2')".to_owned(), [("N", 3)].into_iter().collect());
    rows.insert("Archive ('audit', '4')".to_owned(), Properties::new());
    rows
}

/// A transaction that cannot be done is discarded by a process in trouble, then by another.
pub(crate) async fn trouble_in_discarding(places: impl Fn(usize) -> Places) -> Result<usize> {
    let (mut count, mut worlds) = (0, 100_000);
    for large in [false, true] {
        for trouble in Trouble::ALL {
            for request in 1.. {
                worlds += 1;
                if !discard(large, request, trouble, &places(worlds)).await? {
                    break;
                }
                count += 1;
            }
        }
    }
    Ok(count)
}

async fn discard(large: bool, request: usize, trouble: Trouble, places: &Places) -> Result<bool> {
    let case = format!("discard, large {large}, {trouble:?} at request {request}");
    places.fill().await?;
    let healthy = places.open(2).await?;
    healthy.clerk.fails.store(true, Ordering::SeqCst);
    let plan = healthy.plan(large)?;
    healthy.coordinator.submit(&plan, Acknowledge::Committed).await?;
    healthy.work().await?;
    let stopped = places.rows().await?;
    let faults = FaultInjector::new(0);
    let troubled = places.troubled(&faults).open(2).await?;
    let poisoned = troubled.coordinator.poison(1).await?.pop().expect("it is poison");
    trouble.strike(&faults, request);
    let answer = troubled.coordinator.discard(&poisoned).await;
    let struck = faults.is_crashed() || !faults.injected().is_empty();
    assert!(struck || answer.is_ok(), "{case}: {answer:?}");

    for poisoned in healthy.coordinator.poison(9).await? {
        healthy.coordinator.discard(&poisoned).await?;
    }
    let status = healthy.coordinator.status(plan.id()).await?;
    assert_eq!(status, TransactionStatus::Discarded { step: 4 }, "{case}");
    assert_eq!((healthy.pieces().await?, healthy.queue.poison(9).await?), (0, vec![]), "{case}");
    assert_eq!(places.rows().await?, stopped, "{case}");
    Ok(struck)
}
