use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use table_core::adapter::{FaultInjector, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, Ticks};
use table_core::queue::WorkQueue;
use table_core::store::{ErrorKind, OperationKind, Outcome, Result, TableStore};
use tokio::time::{Instant, sleep};

use super::*;
use crate::clock::TokioClock;
use crate::journal::{Acknowledge, Timing};
use crate::queue::{QueueOptions, TableQueue};

mod ids;
mod others;
mod outages;

const LEASE: Duration = Duration::from_secs(40);

/// A handler that takes its time, and may say that its answer was lost.
#[derive(Debug, Default)]
struct Slow {
    takes: Duration,
    doubts: AtomicUsize,
    begun: AtomicUsize,
    ended: Mutex<Vec<Instant>>,
}

impl Slow {
    fn taking(takes: Duration) -> Arc<Self> {
        Arc::new(Self { takes, ..Self::default() })
    }

    fn counts(&self) -> (usize, usize) {
        (self.begun.load(Ordering::SeqCst), self.ended.lock().unwrap().len())
    }
}

#[async_trait]
impl StepHandler for Slow {
    async fn run(&self, _step: StepId, _payload: &[u8]) -> Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        sleep(self.takes).await;
        if self.doubts.load(Ordering::SeqCst) > 0 {
            self.doubts.fetch_sub(1, Ordering::SeqCst);
            let error = table_core::Error::from(ErrorKind::Transport("no answer".to_owned()));
            return Err(error.with_outcome(Outcome::Ambiguous));
        }
        self.ended.lock().unwrap().push(Instant::now());
        Ok(())
    }
}

struct Office {
    meter: RequestMeter,
    /// What goes wrong with the tables, not with the queue.
    faults: FaultInjector,
    store: Arc<dyn TableStore>,
    queue: Arc<TableQueue>,
    slow: Arc<Slow>,
    table: TableName,
}

impl Office {
    async fn open(slow: Arc<Slow>) -> Result<Self> {
        let (meter, table) = (RequestMeter::new(), TableName::new("Employees")?);
        let faults = FaultInjector::new(1);
        let faulty = Faulty::new(MemoryStore::new(), faults.clone());
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(faulty, meter.clone()));
        store.create_table(&table).await?;
        let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
        let options = QueueOptions { clock, ..QueueOptions::default() };
        // The queue's requests are its own: they are not counted.
        let queue = TableQueue::open_with(Arc::new(MemoryStore::new()), "Work", "jobs", options).await?;
        Ok(Self { meter, faults, store, queue: Arc::new(queue), slow, table })
    }

    async fn process(&self) -> Result<Coordinator> {
        let resources =
            Resources::new().with_store("office", self.store.clone()).with_handler("slow", self.slow.clone());
        let process = Coordinator::open(self.store.clone(), "Transactions", self.queue.clone(), resources);
        Ok(process.await?.with_timing(Timing::new(LEASE, LEASE / 8, LEASE / 8)?))
    }

    fn place(&self, row: &str) -> Result<Place> {
        Ok(Place::new("office", self.table.clone(), Key::new("p", row)?))
    }

    fn upsert(&self, row: &str) -> Result<EventualTransaction> {
        Ok(EventualTransaction::new().upsert("office", self.table.clone(), Entity::new("p", row)?))
    }
}

fn slowly() -> EventualTransaction {
    EventualTransaction::new().handle("slow", *b"")
}

#[tokio::test(start_paused = true)]
async fn a_step_that_takes_many_leases_keeps_its_claim_and_its_message() -> Result<()> {
    let office = Office::open(Slow::taking(LEASE * 10)).await?;
    let (one, other) = (office.process().await?, office.process().await?);
    one.submit(&slowly(), Acknowledge::Committed).await?;
    let look_on = async {
        for _ in 0..20 {
            sleep(LEASE / 2).await;
            other.run_once(9).await?;
        }
        Ok::<_, table_core::Error>(())
    };
    let (worked, looked) = futures_util::join!(one.run_once(1), look_on);
    looked?;
    assert_eq!((worked?, office.slow.counts()), (1, (1, 1)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_submitter_keeps_its_message_while_a_step_takes_long() -> Result<()> {
    let office = Office::open(Slow::taking(LEASE * 5)).await?;
    let (one, other) = (office.process().await?, office.process().await?);
    let transaction = slowly();
    let looking = async {
        sleep(LEASE * 3).await;
        other.run_once(9).await
    };
    let (submitted, seen) = futures_util::join!(one.submit(&transaction, Acknowledge::Applied), looking);
    assert_eq!((submitted?.progress, seen?), (Progress::Applied, 0));
    assert_eq!(office.slow.counts(), (1, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_transaction_of_a_dead_worker_is_taken_over_after_a_lease_of_watching() -> Result<()> {
    let office = Office::open(Slow::taking(LEASE * 2)).await?;
    let (one, other) = (office.process().await?, office.process().await?);
    let transaction = slowly();
    one.submit(&transaction, Acknowledge::Committed).await?;
    // Dies in its step.
    assert!(tokio::time::timeout(LEASE / 2, one.run_once(1)).await.is_err());
    let died = Instant::now();
    while !other.status(transaction.id()).await?.is_final() {
        sleep(Duration::from_secs(1)).await;
        other.run_once(1).await?;
    }
    assert_eq!(office.slow.counts(), (2, 1));
    // The message's visibility, a lease of watching, the step.
    assert!(died.elapsed() >= LEASE / 2 + LEASE + LEASE * 2, "{:?}", died.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_loses_the_claim_drops_the_step() -> Result<()> {
    let office = Office::open(Slow::taking(LEASE * 3)).await?;
    let process = office.process().await?;
    let transaction = slowly();
    process.submit(&transaction, Acknowledge::Committed).await?;
    let steal = async {
        sleep(LEASE / 2).await;
        let mut head = process.ledger.read(transaction.id()).await?.unwrap();
        head.claim = Some(uuid::Uuid::new_v4());
        assert!(process.ledger.replace(head).await?.is_some());
        Ok::<_, table_core::Error>(())
    };
    let (worked, stolen) = futures_util::join!(process.run_once(1), steal);
    stolen?;
    assert_eq!((worked?, office.slow.counts()), (1, (1, 0)));
    assert!(matches!(process.status(transaction.id()).await?, TransactionStatus::Pending { step: 0, .. }));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_on_behind_a_doubt_before_the_lease_is_over() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    office.slow.doubts.store(1, Ordering::SeqCst);
    let process = office.process().await?;
    let transaction = slowly();
    process.submit(&transaction, Acknowledge::Committed).await?;
    let began = Instant::now();
    process.run_once(1).await?;
    let TransactionStatus::Pending { error: Some(error), .. } = process.status(transaction.id()).await?
    else {
        panic!("the doubt is recorded")
    };
    assert!(error.contains("no answer"), "{error}");
    while !process.status(transaction.id()).await?.is_final() {
        sleep(Duration::from_secs(1)).await;
        process.run_once(1).await?;
    }
    assert!(office.slow.ended.lock().unwrap()[0] >= began + LEASE);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_finished_transaction_is_forgotten_after_a_time() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    let (done, begun) = (slowly(), slowly());
    process.submit(&done, Acknowledge::Applied).await?;
    office.slow.doubts.store(1, Ordering::SeqCst);
    process.submit(&begun, Acknowledge::Applied).await?;
    assert_eq!(process.sweep(Duration::from_secs(3600)).await?, 0);
    assert_eq!(process.sweep(Duration::ZERO).await?, 0, "its message may come back within a lease");
    let millis = Duration::from_millis;
    let hasty = office.process().await?.with_timing(Timing::new(millis(4), millis(1), millis(0))?);
    // The clock of the store, which no test can stop.
    std::thread::sleep(millis(20));
    assert_eq!(hasty.sweep(Duration::ZERO).await?, 1);
    assert_eq!(process.status(done.id()).await?, TransactionStatus::Unknown);
    assert!(matches!(process.status(begun.id()).await?, TransactionStatus::Pending { .. }));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn names_of_other_processes_can_be_submitted() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let client = Coordinator::open(
        office.store.clone(),
        "Transactions",
        office.queue.clone(),
        Resources::new().with_elsewhere("slow"),
    );
    let transaction = slowly();
    client.await?.submit(&transaction, Acknowledge::Committed).await?;
    office.process().await?.run_once(1).await?;
    assert_eq!(office.slow.counts(), (1, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn requests_are_as_documented() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    let three = office.upsert("1")?.delete_if_exists(office.place("1")?).upsert(
        "office",
        office.table.clone(),
        Entity::new("p", "2")?,
    );
    let (_, cost) = office.meter.measure(process.submit(&three, Acknowledge::Committed)).await;
    assert_eq!(cost.total(), 0, "a message");
    let (_, cost) = office.meter.measure(process.run_once(1)).await;
    assert_eq!(cost.total(), 1 + 1 + 2 * 3, "the head, the claim, the steps and their records");

    let three = EventualTransaction::new().then(three.steps()[0].clone()).then(three.steps()[2].clone());
    let (_, cost) = office.meter.measure(process.submit(&three, Acknowledge::Applied)).await;
    assert_eq!(cost.total(), 1 + 2 * 2, "the claim, the steps and their records");

    let away = EventualTransaction::new().move_entity(office.place("2")?, office.place("3")?);
    let (_, cost) = office.meter.measure(process.submit(&away, Acknowledge::Applied)).await;
    assert_eq!(cost.total(), 1 + 1 + 4, "a look at it; the claim, read, write, delete, record");

    let gone = EventualTransaction::new().move_entity(office.place("2")?, office.place("3")?);
    let (_, cost) = office.meter.measure(process.submit(&gone, Acknowledge::Applied)).await;
    assert_eq!(
        cost.total(),
        4 + 1 + 3,
        "no row, no wide one, no bucket, it is there; the claim, read, it is there, record"
    );

    let (_, cost) = office.meter.measure(process.status(gone.id())).await;
    assert_eq!(cost.total(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn requests_of_stored_plans_are_as_documented() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    let large = || EventualTransaction::new().handle("slow", vec![0; 1_000_000]);
    let pieces = 2;
    let (_, cost) = office.meter.measure(process.submit(&large(), Acknowledge::Committed)).await;
    assert_eq!(cost.total(), pieces + 1, "the pieces and the head");
    let (_, cost) = office.meter.measure(process.run_once(1)).await;
    // A plan of two megabytes comes in one page from a local store.
    assert_eq!(cost.total(), 2 + 1 + 1 + pieces, "head, claim; plan; record; pieces");
    let (_, cost) = office.meter.measure(process.submit(&large(), Acknowledge::Applied)).await;
    assert_eq!(cost.total(), pieces + 1 + 1 + pieces, "pieces, claimed head; record; pieces");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_plan_without_a_commit_is_given_up_for_good() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    let large = EventualTransaction::new().handle("slow", vec![0; 100_000]);
    // The submitter dies between the pieces and the head.
    let table = TableName::new("Transactions")?;
    let text = large.to_text(&process.resources)?;
    let plan = ledger::PlanOf { id: large.id(), hash: plan::fingerprint(&text), pieces: 1 };
    office.queue.send(&ticket::Stored::new(plan).to_text()?, Duration::ZERO).await?;
    process.ledger.put_piece(plan, 0, &text).await?;
    process.run_once(1).await?;
    assert_eq!(process.status(large.id()).await?, TransactionStatus::Aborted);
    let piece = plan.piece(0)?;
    assert!(office.store.get(&table, &piece, None).await?.is_none());
    // It was only slow: its piece arrives, its commit does not.
    process.ledger.put_piece(plan, 0, &text).await?;
    let error = process.submit(&large, Acknowledge::Committed).await.unwrap_err();
    assert!(error.to_string().contains("given up") && error.outcome() == Outcome::NotApplied, "{error}");
    for _ in 0..4 {
        sleep(LEASE * 2).await;
        process.run_once(9).await?;
    }
    assert!(office.store.get(&table, &piece, None).await?.is_none());
    assert!(office.queue.peek(9).await?.is_empty());
    assert_eq!(office.slow.counts(), (0, 0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_stops_when_it_is_told_and_finishes_what_it_began() -> Result<()> {
    let office = Office::open(Slow::taking(LEASE)).await?;
    let process = office.process().await?;
    for _ in 0..3 {
        process.submit(&slowly(), Acknowledge::Committed).await?;
    }
    process.run(2, Duration::from_secs(1), sleep(Duration::from_secs(5))).await?;
    assert_eq!(office.slow.counts(), (2, 2));
    process.run(2, Duration::from_secs(1), sleep(LEASE * 2)).await?;
    assert_eq!(office.slow.counts(), (3, 3));
    Ok(())
}
