//! Workers that do not know all that steps name, blob stores that refuse, answers that cannot be read.

use object_store::memory::InMemory;
use table_core::adapter::{Fault, FaultRule};
use table_core::manifest::Placement::SamePartition;
use table_core::manifest::{EntityType, IndexDefinition, IndexState, StoredIndex};
use table_core::queue::{Message, Receipt};
use table_core::store::Operation;
use table_core::typed::Discriminator;

use super::*;
use crate::blobs::faulty::FaultyBlobs;

/// Receives for so many leases.
async fn work_for(process: &Coordinator, leases: u32) -> Result<()> {
    let end = Instant::now() + LEASE * leases;
    while Instant::now() < end {
        process.run_once(9).await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_only_others_know_is_left_to_them() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let open =
        |resources| Coordinator::open(office.store.clone(), "Transactions", office.queue.clone(), resources);
    let timing = Timing::new(LEASE, LEASE / 8, LEASE / 8)?;
    let stranger = open(Resources::new().with_store("office", office.store.clone()).with_elsewhere("slow"));
    let stranger = stranger.await?.with_timing(timing);
    let both = office.upsert("1")?.handle("slow", *b"");
    stranger.submit(&both, Acknowledge::Applied).await?;
    work_for(&stranger, 20).await?;
    let status = stranger.status(both.id()).await?;
    assert!(matches!(status, TransactionStatus::Pending { step: 1, .. }), "{status:?}");
    assert!(stranger.poison(9).await?.is_empty());
    work_for(&office.process().await?, 2).await?;
    assert_eq!(stranger.status(both.id()).await?, TransactionStatus::Applied);
    assert_eq!(office.slow.counts(), (1, 1));
    Ok(())
}

/// A bucket that does not exist will not be there the next time either.
#[tokio::test(start_paused = true)]
async fn what_a_blob_store_refuses_becomes_poison() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let blobs = Arc::new(FaultyBlobs::new(Arc::new(InMemory::new()), FaultInjector::new(1)));
    blobs.refuse();
    let resources = Resources::new().with_blobs("photos", blobs);
    let process = Coordinator::open(office.store.clone(), "Transactions", office.queue.clone(), resources);
    let process = process.await?.with_timing(Timing::new(LEASE, LEASE / 8, LEASE / 8)?);
    let put = EventualTransaction::new().put_blob("photos", "1.jpg", *b"x");
    process.submit(&put, Acknowledge::Committed).await?;
    work_for(&process, 20).await?;
    assert_eq!(process.poison(9).await?.len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_cannot_be_read_is_a_commit() -> Result<()> {
    for acknowledge in [Acknowledge::Committed, Acknowledge::Applied] {
        for payload in [1, 100_000] {
            let office = Office::open(Slow::taking(Duration::ZERO)).await?;
            let process = office.process().await?;
            let transaction = EventualTransaction::new().handle("slow", vec![0; payload]);
            office.faults.add(FaultRule::new(Fault::BreakAnswer).on(OperationKind::Insert));
            let submitted = process.submit(&transaction, acknowledge).await?;
            office.faults.heal();
            let expected = if payload == 1 && acknowledge == Acknowledge::Committed { 0 } else { 1 };
            assert_eq!(office.faults.injected().len(), expected);
            assert_eq!(submitted.progress, Progress::Pending);
            work_for(&process, 4).await?;
            assert_eq!(process.status(transaction.id()).await?, TransactionStatus::Applied);
        }
    }
    Ok(())
}

/// A queue whose answers to what is sent cannot be read.
#[derive(Debug)]
struct Mumbling(Arc<TableQueue>);

#[async_trait]
impl WorkQueue for Mumbling {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        self.0.send(body, delay).await?;
        let error = table_core::Error::from(ErrorKind::Service("a message without an id".to_owned()));
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
async fn a_message_that_was_sent_is_a_commit() -> Result<()> {
    for acknowledge in [Acknowledge::Committed, Acknowledge::Applied] {
        let office = Office::open(Slow::taking(Duration::ZERO)).await?;
        let worker = office.process().await?;
        let mut submitter = worker.clone();
        submitter.queue = Arc::new(Mumbling(office.queue.clone()));
        let transaction = slowly();
        let submitted = submitter.submit(&transaction, acknowledge).await?;
        assert_eq!(submitted.progress, Progress::Pending);
        work_for(&worker, 2).await?;
        assert_eq!(
            (worker.status(transaction.id()).await?, office.slow.counts()),
            (TransactionStatus::Applied, (1, 1))
        );
    }
    Ok(())
}

/// A step on what an index is of is refused before the plan is committed, and by the worker where it was declared since; others are done.
#[tokio::test(start_paused = true)]
async fn steps_on_what_an_index_is_of_are_refused() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    let keyed = IndexDefinition::keyed("city", SamePartition, None, "c_{City}_{RowKey}".parse()?);
    let entity = EntityType {
        name: "Employee".into(),
        discriminator: Discriminator::Property("EntityType".into()),
        ..EntityType::ANY
    };
    let index = StoredIndex::new(&IndexDefinition { entity, ..keyed }, IndexState::DeleteOnly);
    let employee = || Entity::new("p", "7").map(|entity| entity.with("EntityType", "Employee"));
    let of = |entity: Entity| EventualTransaction::new().upsert("office", office.table.clone(), entity);

    let early = of(employee()?.with_key(Key::new("p", "6")?));
    process.submit(&early, Acknowledge::Committed).await?;
    office.store.write(&office.table, Operation::Insert(index.to_entity()?)).await?;
    work_for(&process, 2).await?;
    let status = process.status(early.id()).await?;
    assert!(
        matches!(status, TransactionStatus::Pending { step: 0, .. } | TransactionStatus::Poisoned { .. }),
        "{status:?}"
    );

    let free = office.upsert("1")?;
    process.submit(&free, Acknowledge::Applied).await?;
    let away = EventualTransaction::new().move_entity(office.place("1")?, office.place("2")?);
    process.submit(&away, Acknowledge::Applied).await?;
    office.store.write(&office.table, Operation::Insert(employee()?)).await?;
    for refused in [
        of(employee()?),
        EventualTransaction::new().upsert_merge("office", office.table.clone(), Entity::new("p", "7")?),
        EventualTransaction::new().delete_if_exists(office.place("7")?),
        EventualTransaction::new().move_entity(office.place("7")?, office.place("8")?),
    ] {
        let error = process.submit(&refused, Acknowledge::Committed).await.expect_err("an index is of it");
        assert!(
            error.to_string().contains("'city.") && error.to_string().contains("IndexedTable"),
            "{error}"
        );
    }
    assert!(office.store.get(&office.table, &Key::new("p", "6")?, None).await?.is_none());
    Ok(())
}
