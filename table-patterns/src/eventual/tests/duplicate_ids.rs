//! Submissions under an id that has a transaction already.

use table_core::forward_to_store;
use table_core::model::IfMatch;
use table_core::query::{Filter, Query, Select};
use table_core::store::{Operation, TableStoreExt as _};

use super::*;

const LARGE: usize = 100_000;

/// A plan that is larger than a message; it writes the row `row`.
fn stored(fixture: &Fixture, id: TransactionId, row: &str) -> Result<EventualTransaction> {
    let step = fixture.upsert(row)?.steps()[0].clone();
    Ok(EventualTransaction::with_id(id)
        .handle("slow", vec![7; LARGE])
        .then(step))
}

async fn rows(fixture: &Fixture) -> Result<Vec<String>> {
    let rows = fixture
        .store
        .query_all(&fixture.table, &Query::new())
        .await?;
    Ok(rows.iter().map(|row| row.key().row().to_owned()).collect())
}

async fn pieces(fixture: &Fixture) -> Result<Vec<Key>> {
    let query = Query::new().with_filter(Filter::ne(Filter::ROW_KEY, record::ROW));
    let rows = fixture
        .store
        .query_all(&TableName::new("Transactions")?, &query)
        .await?;
    Ok(rows.iter().map(|row| row.key().clone()).collect())
}

/// Stores a plan as a submitter does that dies before the commit.
async fn store(process: &Coordinator, of: &EventualTransaction) -> Result<PlanRef> {
    let text = of.to_text(&process.resources)?;
    let plan = PlanRef {
        id: of.id(),
        hash: fingerprint(&text),
        pieces: 1,
    };
    process
        .queue
        .send(&StoredPlan::new(plan).to_text()?, Duration::ZERO)
        .await?;
    process.transactions.put_piece(plan, 0, &text).await?;
    Ok(plan)
}

#[tokio::test(start_paused = true)]
async fn a_second_stored_plan_is_refused_and_does_not_change_the_first() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let (process, id) = (fixture.process().await?, slow_transaction().id());
    let (first, second) = (
        stored(&fixture, id, "first")?,
        stored(&fixture, id, "second")?,
    );
    process.submit(&first, Acknowledge::Committed).await?;
    let kept = pieces(&fixture).await?;
    for acknowledge in [Acknowledge::Committed, Acknowledge::Applied] {
        let error = process.submit(&second, acknowledge).await.unwrap_err();
        assert!(error.to_string().contains("another plan"), "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
    assert_eq!(pieces(&fixture).await?, kept);
    assert_eq!(
        process.run_once(9).await?,
        1,
        "the message of the first plan only"
    );
    assert_eq!(process.status(id).await?, TransactionStatus::Applied);
    assert_eq!(rows(&fixture).await?, ["first"]);
    assert_eq!(pieces(&fixture).await?, []);
    Ok(())
}

/// The submitter of the second plan died. A worker, or a caller of `discard`, removes the pieces of that plan only.
#[tokio::test(start_paused = true)]
async fn pieces_of_a_refused_plan_are_removed_without_those_of_the_first() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(LEASE * 20)).await?;
    let (process, id) = (fixture.process().await?, slow_transaction().id());
    let (first, second) = (
        stored(&fixture, id, "first")?,
        stored(&fixture, id, "second")?,
    );
    process.submit(&first, Acknowledge::Committed).await?;
    let kept = pieces(&fixture).await?;
    let worker = fixture.process().await?;
    let others = async {
        sleep(LEASE).await;
        store(&process, &second).await?;
        let message = fixture.queue.receive(1, LEASE).await?.remove(0);
        let status = process.status(id).await?;
        process
            .discard(&PoisonedTransaction {
                id: Some(id),
                status,
                message,
            })
            .await?;
        assert_eq!(pieces(&fixture).await?, kept);
        store(&process, &second).await?;
        for _ in 0..3 {
            process.run_once(9).await?;
            sleep(LEASE * 2).await;
        }
        assert_eq!(pieces(&fixture).await?, kept);
        Ok::<_, table_core::Error>(())
    };
    let (worked, others) = futures_util::join!(worker.run_once(1), others);
    others?;
    assert_eq!(worked?, 1, "messages");
    assert_eq!(rows(&fixture).await?, ["first"]);
    assert_eq!(pieces(&fixture).await?, []);
    assert!(process.poison(9).await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stored_plan_that_differs_from_the_committed_one_is_not_applied() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let (process, id) = (fixture.process().await?, slow_transaction().id());
    process
        .submit(&stored(&fixture, id, "first")?, Acknowledge::Committed)
        .await?;
    let other = stored(&fixture, id, "other")?.to_text(&process.resources)?;
    let piece = pieces(&fixture).await?.remove(0);
    let forged = PlanRef {
        id,
        hash: fingerprint(&other),
        pieces: 1,
    };
    process.transactions.put_piece(forged, 0, &other).await?;
    let row = fixture
        .store
        .get_existing(&TableName::new("Transactions")?, &forged.piece_key(0)?)
        .await?;
    let forged = row.with_system(None, None).with_key(piece);
    fixture
        .store
        .write(
            &TableName::new("Transactions")?,
            Operation::InsertOrReplace(forged),
        )
        .await?;
    process.run_once(9).await?;
    assert!(rows(&fixture).await?.is_empty());
    assert_eq!(fixture.slow.counts(), (0, 0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stored_plan_submitted_again_after_it_is_applied_leaves_no_piece() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let (process, id) = (fixture.process().await?, slow_transaction().id());
    let large = stored(&fixture, id, "1")?;
    for _ in 0..2 {
        assert_eq!(
            process.submit(&large, Acknowledge::Applied).await?.progress,
            TransactionProgress::Applied
        );
        assert_eq!(pieces(&fixture).await?, []);
        assert!(fixture.queue.peek(9).await?.is_empty());
    }
    assert_eq!(fixture.slow.counts(), (1, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_second_inline_plan_is_refused_by_the_submitter_or_by_a_worker() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    let first = slow_transaction();
    process.submit(&first, Acknowledge::Applied).await?;
    let second = EventualTransaction::with_id(first.id()).handle("slow", *b"other");
    let error = process
        .submit(&second, Acknowledge::Applied)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("another plan"), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(fixture.queue.peek(9).await?.is_empty());
    // With `Committed` a worker finds the other plan: the message becomes a poison message.
    process.submit(&second, Acknowledge::Committed).await?;
    while process.poison(1).await?.is_empty() {
        sleep(LEASE).await;
        process.run_once(9).await?;
    }
    assert_eq!(fixture.slow.counts(), (1, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_discarded_transaction_cannot_be_submitted_again() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    for transaction in [
        slow_transaction(),
        stored(&fixture, slow_transaction().id(), "1")?,
    ] {
        let id = transaction.id();
        process.submit(&transaction, Acknowledge::Committed).await?;
        let message = fixture.queue.receive(1, LEASE).await?.remove(0);
        let status = process.status(id).await?;
        process
            .discard(&PoisonedTransaction {
                id: Some(id),
                status,
                message,
            })
            .await?;
        let error = process
            .submit(&transaction, Acknowledge::Applied)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("discarded"), "{error}");
        assert_eq!(pieces(&fixture).await?, []);
        assert!(fixture.queue.peek(9).await?.is_empty());
    }
    assert_eq!(fixture.slow.counts(), (0, 0));
    Ok(())
}

/// A store that has no record any more when a submission reads it: a sweep has removed the record after the insert had found it.
#[derive(Debug)]
struct SweptMeanwhile(Arc<dyn TableStore>);

#[async_trait]
impl TableStore for SweptMeanwhile {
    forward_to_store!(self => self.0; profile, create_table, delete_table, list_tables, query, write, transact, context);

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        if key.row() == record::ROW {
            self.0
                .write(table, Operation::Delete(key.clone(), IfMatch::Any))
                .await?;
        }
        self.0.get(table, key, select).await
    }
}

/// The removed record may be that of an applied transaction, so the error does not advise to submit the steps again.
#[tokio::test(start_paused = true)]
async fn a_record_removed_during_a_submission_is_not_taken_for_an_aborted_one() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let (process, id) = (fixture.process().await?, slow_transaction().id());
    let large = stored(&fixture, id, "1")?;
    process.submit(&large, Acknowledge::Applied).await?;
    let mut second = process.clone();
    second.transactions.store = Arc::new(SweptMeanwhile(fixture.store.clone()));
    let error = second
        .submit(&large, Acknowledge::Committed)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("was removed during this submission"),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::NotApplied);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_discarded_transaction_counts_steps_from_one() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let (process, id) = (fixture.process().await?, slow_transaction().id());
    let large = stored(&fixture, id, "1")?;
    process.submit(&large, Acknowledge::Committed).await?;
    let message = fixture.queue.receive(1, LEASE).await?.remove(0);
    let status = process.status(id).await?;
    process
        .discard(&PoisonedTransaction {
            id: Some(id),
            status,
            message,
        })
        .await?;
    let error = process
        .submit(&large, Acknowledge::Committed)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("discarded before its step 1 of 2:"),
        "{error}"
    );
    Ok(())
}
