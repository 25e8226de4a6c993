//! Refusals: missing resources, blob stores that refuse, unreadable answers, steps that write indexed rows.

use object_store::memory::InMemory;
use table_core::adapter::{Fault, FaultRule};
use table_core::manifest::Placement::SamePartition;
use table_core::manifest::{EntityType, IndexDefinition, IndexState, StoredIndex};
use table_core::queue::{Message, Receipt};
use table_core::store::Operation;
use table_core::typed::Discriminator;

use super::*;
use crate::tests::faulty_blobs::FaultyBlobs;

/// Runs a worker for this number of leases.
async fn work_for(process: &Coordinator, leases: u32) -> Result<()> {
    let end = Instant::now() + LEASE * leases;
    while Instant::now() < end {
        process.run_once(9).await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_the_handler_leaves_the_step_to_other_workers() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let open = |resources| {
        Coordinator::open(
            fixture.store.clone(),
            "Transactions",
            fixture.queue.clone(),
            resources,
        )
    };
    let timing = Timing::new(LEASE, LEASE / 8, LEASE / 8)?;
    let worker = open(
        Resources::new()
            .with_store("office", fixture.store.clone())
            .with_external("slow"),
    );
    let worker = worker.await?.with_timing(timing);
    let both = fixture.upsert("1")?.handle("slow", *b"");
    worker.submit(&both, Acknowledge::Applied).await?;
    work_for(&worker, 20).await?;
    let status = worker.status(both.id()).await?;
    assert!(
        matches!(status, TransactionStatus::Pending { step: 1, .. }),
        "{status:?}"
    );
    assert!(worker.poison(9).await?.is_empty());
    work_for(&fixture.process().await?, 2).await?;
    assert_eq!(worker.status(both.id()).await?, TransactionStatus::Applied);
    assert_eq!(fixture.slow.counts(), (1, 1));
    Ok(())
}

/// Waiting does not repair a missing bucket.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_blob_store_poisons_the_transaction() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let blobs = Arc::new(FaultyBlobs::apart(
        Arc::new(InMemory::new()),
        FaultInjector::new(1),
    ));
    blobs.refuse();
    let resources = Resources::new().with_blobs("photos", blobs);
    let process = Coordinator::open(
        fixture.store.clone(),
        "Transactions",
        fixture.queue.clone(),
        resources,
    );
    let process = process
        .await?
        .with_timing(Timing::new(LEASE, LEASE / 8, LEASE / 8)?);
    let put = EventualTransaction::new().put_blob("photos", "1.jpg", *b"x");
    process.submit(&put, Acknowledge::Committed).await?;
    work_for(&process, 20).await?;
    assert_eq!(process.poison(9).await?.len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_commit_with_an_unreadable_answer_is_a_commit() -> Result<()> {
    for acknowledge in [Acknowledge::Committed, Acknowledge::Applied] {
        for payload in [1, 100_000] {
            let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
            let process = fixture.process().await?;
            let transaction = EventualTransaction::new().handle("slow", vec![0; payload]);
            fixture
                .faults
                .add(FaultRule::new(Fault::BreakAnswer).on(OperationKind::Insert));
            let submitted = process.submit(&transaction, acknowledge).await?;
            fixture.faults.heal();
            let expected = if payload == 1 && acknowledge == Acknowledge::Committed {
                0
            } else {
                1
            };
            assert_eq!(fixture.faults.injected().len(), expected);
            assert_eq!(submitted.progress, TransactionProgress::Pending);
            work_for(&process, 4).await?;
            assert_eq!(
                process.status(transaction.id()).await?,
                TransactionStatus::Applied
            );
        }
    }
    Ok(())
}

/// A queue that stores sent messages and answers with an unreadable answer.
#[derive(Debug)]
struct UnreadableSends(Arc<TableQueue>);

#[async_trait]
impl WorkQueue for UnreadableSends {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        self.0.send(body, delay).await?;
        let error =
            table_core::Error::from(ErrorKind::Service("a message without an id".to_owned()));
        Err(error.with_outcome(Outcome::Applied))
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        self.0.receive(max, visibility).await
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        self.0.renew(receipt, visibility).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        self.0.delete(receipt).await
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        self.0.peek(max).await
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        self.0.poison(max).await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        self.0.requeue(message).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_sent_message_with_an_unreadable_answer_is_a_commit() -> Result<()> {
    for acknowledge in [Acknowledge::Committed, Acknowledge::Applied] {
        let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
        let worker = fixture.process().await?;
        let mut submitter = worker.clone();
        submitter.queue = Arc::new(UnreadableSends(fixture.queue.clone()));
        let transaction = slow_transaction();
        let submitted = submitter.submit(&transaction, acknowledge).await?;
        assert_eq!(submitted.progress, TransactionProgress::Pending);
        work_for(&worker, 2).await?;
        assert_eq!(
            worker.status(transaction.id()).await?,
            TransactionStatus::Applied
        );
        assert_eq!(
            fixture.slow.counts(),
            (1, 1),
            "begun and finished runs of the step"
        );
    }
    Ok(())
}

/// A step that writes indexed rows is refused before the commit. If the index was declared after the commit, the worker
/// refuses the step.
#[tokio::test(start_paused = true)]
async fn steps_on_indexed_rows_are_refused() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    let keyed = IndexDefinition::keyed("city", SamePartition, None, "c_{City}_{RowKey}".parse()?);
    let entity = EntityType {
        name: "Employee".into(),
        discriminator: Discriminator::Property("EntityType".into()),
        ..EntityType::ANY
    };
    let index = StoredIndex::new(&IndexDefinition { entity, ..keyed }, IndexState::DeleteOnly);
    let employee = || Entity::new("p", "7").map(|entity| entity.with("EntityType", "Employee"));
    let of =
        |entity: Entity| EventualTransaction::new().upsert("office", fixture.table.clone(), entity);

    let early = of(employee()?.with_key(Key::new("p", "6")?));
    process.submit(&early, Acknowledge::Committed).await?;
    fixture
        .store
        .write(&fixture.table, Operation::Insert(index.to_entity()?))
        .await?;
    work_for(&process, 2).await?;
    let status = process.status(early.id()).await?;
    assert!(
        matches!(
            status,
            TransactionStatus::Pending { step: 0, .. } | TransactionStatus::Poisoned { .. }
        ),
        "{status:?}"
    );

    let free = fixture.upsert("1")?;
    process.submit(&free, Acknowledge::Applied).await?;
    let away = EventualTransaction::new().move_entity(fixture.place("1")?, fixture.place("2")?);
    process.submit(&away, Acknowledge::Applied).await?;
    fixture
        .store
        .write(&fixture.table, Operation::Insert(employee()?))
        .await?;
    for refused in [
        of(employee()?),
        EventualTransaction::new().upsert_merge(
            "office",
            fixture.table.clone(),
            Entity::new("p", "7")?,
        ),
        EventualTransaction::new().delete_if_exists(fixture.place("7")?),
        EventualTransaction::new().move_entity(fixture.place("7")?, fixture.place("8")?),
    ] {
        let error = process
            .submit(&refused, Acknowledge::Committed)
            .await
            .expect_err("an index follows the row");
        assert!(
            error.to_string().contains("'city.") && error.to_string().contains("Table"),
            "{error}"
        );
    }
    assert!(
        fixture
            .store
            .get(&fixture.table, &Key::new("p", "6")?, None)
            .await?
            .is_none()
    );
    Ok(())
}

/// Planted numbers in a message or a record: no billions of deletes, no step left out, and the transaction is not called applied.
#[tokio::test(start_paused = true)]
async fn planted_numbers_are_damage() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    let id = uuid::Uuid::from_u128(7);
    fixture
        .queue
        .send(
            &format!(r#"{{"stored":"{id}","pieces":4000000000,"hash":1}}"#),
            Duration::ZERO,
        )
        .await?;
    let before = fixture.meter.total();
    assert_eq!(process.run_once(9).await?, 1);
    assert_eq!(
        fixture.meter.total(),
        before,
        "no request for rows of a plan"
    );

    let table = TableName::new("Transactions")?;
    for (steps, next, pieces) in [(1, 1, 0), (1, i32::MAX, 0), (5, 2, 0), (1, 0, i32::MAX)] {
        let transaction = fixture.upsert("1")?;
        process.submit(&transaction, Acknowledge::Committed).await?;
        let text =
            transaction.to_text(&Resources::new().with_store("office", fixture.store.clone()))?;
        let record = Entity::new(format!("~~t_{}", transaction.id()), "head")?;
        let record = record
            .with("TransactionState", "running")
            .with("Steps", steps)
            .with("NextStep", next);
        let record = record
            .with("Pieces", pieces)
            .with("StepFailures", 0)
            .with("PlanHash", fingerprint(&text));
        fixture
            .store
            .write(&table, Operation::InsertOrReplace(record))
            .await?;
        process.run_once(9).await?;
        let case = format!("{steps} {next} {pieces}");
        assert!(
            fixture
                .store
                .get(&fixture.table, &Key::new("p", "1")?, None)
                .await?
                .is_none(),
            "{case}"
        );
        let status = process.status(transaction.id()).await;
        assert!(
            !matches!(status, Ok(TransactionStatus::Applied)),
            "{case}: {status:?}"
        );
    }
    Ok(())
}
