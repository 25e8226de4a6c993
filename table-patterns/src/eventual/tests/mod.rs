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

use super::plan::{StoredPlan, fingerprint};
use super::transaction_table::PlanRef;
use super::*;
use crate::clock::TokioClock;
use crate::journal::{Acknowledge, Timing};
use crate::queue::{QueueOptions, TableQueue};

mod duplicate_ids;
mod outages;
mod refusals;
mod together;

const LEASE: Duration = Duration::from_secs(40);

/// A handler that runs for a given time. It can answer that its outcome is ambiguous.
#[derive(Debug, Default)]
struct SlowHandler {
    takes: Duration,
    /// The number of next runs that answer *ambiguous*.
    ambiguous: AtomicUsize,
    begun: AtomicUsize,
    ended: Mutex<Vec<Instant>>,
}

impl SlowHandler {
    fn taking(takes: Duration) -> Arc<Self> {
        Arc::new(Self {
            takes,
            ..Self::default()
        })
    }

    /// The numbers of begun and of finished runs.
    fn counts(&self) -> (usize, usize) {
        (
            self.begun.load(Ordering::SeqCst),
            self.ended.lock().unwrap().len(),
        )
    }
}

#[async_trait]
impl StepHandler for SlowHandler {
    async fn run(&self, _step: StepId, _payload: &[u8]) -> Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        sleep(self.takes).await;
        if self.ambiguous.load(Ordering::SeqCst) > 0 {
            self.ambiguous.fetch_sub(1, Ordering::SeqCst);
            let error = table_core::Error::from(ErrorKind::Transport("no answer".to_owned()));
            return Err(error.with_outcome(Outcome::Ambiguous));
        }
        self.ended.lock().unwrap().push(Instant::now());
        Ok(())
    }
}

struct Fixture {
    meter: RequestMeter,
    /// Faults of the tables; the queue has none.
    faults: FaultInjector,
    store: Arc<dyn TableStore>,
    queue: Arc<TableQueue>,
    slow: Arc<SlowHandler>,
    table: TableName,
}

impl Fixture {
    async fn open(slow: Arc<SlowHandler>) -> Result<Self> {
        let (meter, table) = (RequestMeter::new(), TableName::new("Employees")?);
        let faults = FaultInjector::new(1);
        let faulty = Faulty::new(MemoryStore::new(), faults.clone());
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(faulty, meter.clone()));
        store.create_table(&table).await?;
        let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
        let options = QueueOptions {
            clock,
            ..QueueOptions::default()
        };
        // The meter does not count the queue's requests.
        let queue =
            TableQueue::open_with(Arc::new(MemoryStore::new()), "Work", "jobs", options).await?;
        Ok(Self {
            meter,
            faults,
            store,
            queue: Arc::new(queue),
            slow,
            table,
        })
    }

    async fn process(&self) -> Result<Coordinator> {
        let resources = Resources::new()
            .with_store("office", self.store.clone())
            .with_handler("slow", self.slow.clone());
        let process = Coordinator::open(
            self.store.clone(),
            "Transactions",
            self.queue.clone(),
            resources,
        );
        Ok(process
            .await?
            .with_timing(Timing::new(LEASE, LEASE / 8, LEASE / 8)?))
    }

    fn place(&self, row: &str) -> Result<Place> {
        Ok(Place::new(
            "office",
            self.table.clone(),
            Key::new("p", row)?,
        ))
    }

    fn upsert(&self, row: &str) -> Result<EventualTransaction> {
        Ok(EventualTransaction::new().upsert("office", self.table.clone(), Entity::new("p", row)?))
    }
}

fn slow_transaction() -> EventualTransaction {
    EventualTransaction::new().handle("slow", *b"")
}

#[tokio::test(start_paused = true)]
async fn a_step_longer_than_a_lease_keeps_its_claim_and_its_message() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(LEASE * 10)).await?;
    let (one, other) = (fixture.process().await?, fixture.process().await?);
    one.submit(&slow_transaction(), Acknowledge::Committed)
        .await?;
    let look_on = async {
        for _ in 0..20 {
            sleep(LEASE / 2).await;
            other.run_once(9).await?;
        }
        Ok::<_, table_core::Error>(())
    };
    let (worked, looked) = futures_util::join!(one.run_once(1), look_on);
    looked?;
    assert_eq!(worked?, 1, "messages");
    assert_eq!(
        fixture.slow.counts(),
        (1, 1),
        "begun and finished runs of the step"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_submitter_keeps_its_message_while_a_step_is_longer_than_a_lease() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(LEASE * 5)).await?;
    let (one, other) = (fixture.process().await?, fixture.process().await?);
    let transaction = slow_transaction();
    let looking = async {
        sleep(LEASE * 3).await;
        other.run_once(9).await
    };
    let (submitted, seen) =
        futures_util::join!(one.submit(&transaction, Acknowledge::Applied), looking);
    assert_eq!(submitted?.progress, TransactionProgress::Applied);
    assert_eq!(seen?, 0, "messages that the other process has received");
    assert_eq!(fixture.slow.counts(), (1, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_takes_over_after_it_has_watched_the_record_for_a_lease() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(LEASE * 2)).await?;
    let (one, other) = (fixture.process().await?, fixture.process().await?);
    let transaction = slow_transaction();
    one.submit(&transaction, Acknowledge::Committed).await?;
    // The worker dies during the step.
    assert!(
        tokio::time::timeout(LEASE / 2, one.run_once(1))
            .await
            .is_err()
    );
    let died = Instant::now();
    while !other.status(transaction.id()).await?.is_final() {
        sleep(Duration::from_secs(1)).await;
        other.run_once(1).await?;
    }
    assert_eq!(fixture.slow.counts(), (2, 1));
    // The rest of the message's visibility, a lease of watching, and the step.
    assert!(
        died.elapsed() >= LEASE / 2 + LEASE + LEASE * 2,
        "{:?}",
        died.elapsed()
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_loses_the_claim_drops_the_step() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(LEASE * 3)).await?;
    let process = fixture.process().await?;
    let transaction = slow_transaction();
    process.submit(&transaction, Acknowledge::Committed).await?;
    let steal = async {
        sleep(LEASE / 2).await;
        let mut record = process.transactions.read(transaction.id()).await?.unwrap();
        record.claim = Some(uuid::Uuid::new_v4());
        assert!(process.transactions.replace(record).await?.is_some());
        Ok::<_, table_core::Error>(())
    };
    let (worked, stolen) = futures_util::join!(process.run_once(1), steal);
    stolen?;
    assert_eq!(worked?, 1, "messages");
    assert_eq!(
        fixture.slow.counts(),
        (1, 0),
        "begun and finished runs of the step"
    );
    assert!(matches!(
        process.status(transaction.id()).await?,
        TransactionStatus::Pending { step: 0, .. }
    ));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_worker_continues_after_an_ambiguous_step_before_the_lease_ends() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    fixture.slow.ambiguous.store(1, Ordering::SeqCst);
    let process = fixture.process().await?;
    let transaction = slow_transaction();
    process.submit(&transaction, Acknowledge::Committed).await?;
    let began = Instant::now();
    process.run_once(1).await?;
    let TransactionStatus::Pending {
        error: Some(error), ..
    } = process.status(transaction.id()).await?
    else {
        panic!("the ambiguous error is not recorded")
    };
    assert!(error.contains("no answer"), "{error}");
    while !process.status(transaction.id()).await?.is_final() {
        sleep(Duration::from_secs(1)).await;
        process.run_once(1).await?;
    }
    assert!(fixture.slow.ended.lock().unwrap()[0] >= began + LEASE);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_sweep_removes_only_records_of_finished_transactions() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    let (done, begun) = (slow_transaction(), slow_transaction());
    process.submit(&done, Acknowledge::Applied).await?;
    fixture.slow.ambiguous.store(1, Ordering::SeqCst);
    process.submit(&begun, Acknowledge::Applied).await?;
    assert_eq!(process.sweep(Duration::from_secs(3600)).await?, 0);
    assert_eq!(
        process.sweep(Duration::ZERO).await?,
        0,
        "the message may be received again within two leases"
    );
    let millis = Duration::from_millis;
    let short_leases =
        fixture
            .process()
            .await?
            .with_timing(Timing::new(millis(4), millis(1), millis(0))?);
    // The store stamps rows by the real clock, which no test can stop.
    std::thread::sleep(millis(20));
    assert_eq!(short_leases.sweep(Duration::ZERO).await?, 1);
    assert_eq!(process.status(done.id()).await?, TransactionStatus::Unknown);
    assert!(matches!(
        process.status(begun.id()).await?,
        TransactionStatus::Pending { .. }
    ));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_step_may_name_an_external_handler() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let client = Coordinator::open(
        fixture.store.clone(),
        "Transactions",
        fixture.queue.clone(),
        Resources::new().with_external("slow"),
    );
    let transaction = slow_transaction();
    client
        .await?
        .submit(&transaction, Acknowledge::Committed)
        .await?;
    fixture.process().await?.run_once(1).await?;
    assert_eq!(fixture.slow.counts(), (1, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn requests_are_as_documented() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    let three = fixture
        .upsert("1")?
        .delete_if_exists(fixture.place("1")?)
        .upsert("office", fixture.table.clone(), Entity::new("p", "2")?);
    let (_, cost) = fixture
        .meter
        .measure(process.submit(&three, Acknowledge::Committed))
        .await;
    assert_eq!(cost.total(), 0, "a message");
    let (_, cost) = fixture.meter.measure(process.run_once(1)).await;
    assert_eq!(
        cost.total(),
        1 + 1 + 2 * 3,
        "the record, the claim, the steps and their records"
    );

    let three = EventualTransaction::new()
        .then(three.steps()[0].clone())
        .then(three.steps()[2].clone());
    let (_, cost) = fixture
        .meter
        .measure(process.submit(&three, Acknowledge::Applied))
        .await;
    assert_eq!(
        cost.total(),
        1 + 2 * 2,
        "claim the record, then each step and its record"
    );

    let away = EventualTransaction::new().move_entity(fixture.place("2")?, fixture.place("3")?);
    let (_, cost) = fixture
        .meter
        .measure(process.submit(&away, Acknowledge::Applied))
        .await;
    assert_eq!(
        cost.total(),
        1 + 1 + 4,
        "check before the commit; claim, read, write, delete, record"
    );

    let gone = EventualTransaction::new().move_entity(fixture.place("2")?, fixture.place("3")?);
    let (_, cost) = fixture
        .meter
        .measure(process.submit(&gone, Acknowledge::Applied))
        .await;
    assert_eq!(
        cost.total(),
        4 + 1 + 3,
        "check: no row, no wide entity, no bucket, target found; claim, read, target found, record"
    );

    let (_, cost) = fixture.meter.measure(process.status(gone.id())).await;
    assert_eq!(cost.total(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn requests_of_stored_plans_are_as_documented() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    let large = || EventualTransaction::new().handle("slow", vec![0; 1_000_000]);
    let pieces = 2;
    let (_, cost) = fixture
        .meter
        .measure(process.submit(&large(), Acknowledge::Committed))
        .await;
    assert_eq!(cost.total(), pieces + 1, "the pieces and the record");
    let (_, cost) = fixture.meter.measure(process.run_once(1)).await;
    // A local store answers the query for a plan of 2 MB in one page.
    assert_eq!(
        cost.total(),
        2 + 1 + 1 + pieces,
        "record, claim; plan; record; pieces"
    );
    let (_, cost) = fixture
        .meter
        .measure(process.submit(&large(), Acknowledge::Applied))
        .await;
    assert_eq!(
        cost.total(),
        pieces + 1 + 1 + pieces,
        "pieces, claimed record; record; pieces"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_aborted_plan_can_never_commit() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    let large = EventualTransaction::new().handle("slow", vec![0; 100_000]);
    // The submitter dies between the pieces and the record.
    let table = TableName::new("Transactions")?;
    let text = large.to_text(&process.resources)?;
    let plan = PlanRef {
        id: large.id(),
        hash: fingerprint(&text),
        pieces: 1,
    };
    fixture
        .queue
        .send(&StoredPlan::new(plan).to_text()?, Duration::ZERO)
        .await?;
    process.transactions.put_piece(plan, 0, &text).await?;
    process.run_once(1).await?;
    assert_eq!(
        process.status(large.id()).await?,
        TransactionStatus::Aborted
    );
    let piece = plan.piece_key(0)?;
    assert!(fixture.store.get(&table, &piece, None).await?.is_none());
    // The submitter was only slow: its piece arrives, its commit is refused.
    process.transactions.put_piece(plan, 0, &text).await?;
    let error = process
        .submit(&large, Acknowledge::Committed)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("given up") && error.outcome() == Outcome::NotApplied,
        "{error}"
    );
    // An operator may also have aborted it.
    assert!(error.to_string().contains("discarded"), "{error}");
    for _ in 0..4 {
        sleep(LEASE * 2).await;
        process.run_once(9).await?;
    }
    assert!(fixture.store.get(&table, &piece, None).await?.is_none());
    assert!(fixture.queue.peek(9).await?.is_empty());
    assert_eq!(fixture.slow.counts(), (0, 0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stopped_worker_finishes_its_transactions() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(LEASE)).await?;
    let process = fixture.process().await?;
    for _ in 0..3 {
        process
            .submit(&slow_transaction(), Acknowledge::Committed)
            .await?;
    }
    process
        .run(2, Duration::from_secs(1), sleep(Duration::from_secs(5)))
        .await?;
    assert_eq!(fixture.slow.counts(), (2, 2));
    process
        .run(2, Duration::from_secs(1), sleep(LEASE * 2))
        .await?;
    assert_eq!(fixture.slow.counts(), (3, 3));
    Ok(())
}

/// A server asks by this for the rights that a row needs.
#[test]
fn the_record_of_a_transaction_is_a_control_row() -> Result<()> {
    let id = TransactionId::from_uuid(uuid::Uuid::from_u128(1));
    let key = Key::new(super::record::partition(id), "record")?;
    assert_eq!(key.row_kind(), table_core::model::RowKind::Control);
    Ok(())
}
