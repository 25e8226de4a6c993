//! What is submitted under an id that is known.

use table_core::query::{Filter, Query};
use table_core::store::{Operation, TableStoreExt as _};

use super::*;

const LARGE: usize = 100_000;

/// A plan that is larger than a message and writes the row `row`.
fn stored(office: &Office, id: TransactionId, row: &str) -> Result<EventualTransaction> {
    let step = office.upsert(row)?.steps()[0].clone();
    Ok(EventualTransaction::with_id(id).handle("slow", vec![7; LARGE]).then(step))
}

async fn rows(office: &Office) -> Result<Vec<String>> {
    let rows = office.store.query_all(&office.table, &Query::new()).await?;
    Ok(rows.iter().map(|row| row.key().row().to_owned()).collect())
}

async fn pieces(office: &Office) -> Result<Vec<Key>> {
    let query = Query::new().with_filter(Filter::ne(Filter::ROW_KEY, head::ROW));
    let rows = office.store.query_all(&TableName::new("Transactions")?, &query).await?;
    Ok(rows.iter().map(|row| row.key().clone()).collect())
}

/// Stores a plan as a submitter that dies before its commit.
async fn store(process: &Coordinator, of: &EventualTransaction) -> Result<ledger::PlanOf> {
    let text = of.to_text(&process.resources)?;
    let plan = ledger::PlanOf { id: of.id(), hash: plan::fingerprint(&text), pieces: 1 };
    process.queue.send(&ticket::Stored::new(plan).to_text()?, Duration::ZERO).await?;
    process.ledger.put_piece(plan, 0, &text).await?;
    Ok(plan)
}

#[tokio::test(start_paused = true)]
async fn a_second_large_plan_is_refused_and_changes_nothing_of_the_first() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let (process, id) = (office.process().await?, slowly().id());
    let (first, second) = (stored(&office, id, "first")?, stored(&office, id, "second")?);
    process.submit(&first, Acknowledge::Committed).await?;
    let kept = pieces(&office).await?;
    for acknowledge in [Acknowledge::Committed, Acknowledge::Applied] {
        let error = process.submit(&second, acknowledge).await.unwrap_err();
        assert!(error.to_string().contains("another plan"), "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
    assert_eq!(pieces(&office).await?, kept);
    assert_eq!(process.run_once(9).await?, 1, "the first's message alone");
    assert_eq!(process.status(id).await?, TransactionStatus::Applied);
    assert_eq!((rows(&office).await?, pieces(&office).await?), (vec!["first".to_owned()], vec![]));
    Ok(())
}

/// Its submitter died: a worker, or whoever discards the message, removes what it stored and no more.
#[tokio::test(start_paused = true)]
async fn what_a_second_plan_left_is_removed_beside_the_first() -> Result<()> {
    let office = Office::open(Slow::taking(LEASE * 20)).await?;
    let (process, id) = (office.process().await?, slowly().id());
    let (first, second) = (stored(&office, id, "first")?, stored(&office, id, "second")?);
    process.submit(&first, Acknowledge::Committed).await?;
    let kept = pieces(&office).await?;
    let worker = office.process().await?;
    let others = async {
        sleep(LEASE).await;
        store(&process, &second).await?;
        let message = office.queue.receive(1, LEASE).await?.remove(0);
        let status = process.status(id).await?;
        process.discard(&PoisonedTransaction { id: Some(id), status, message }).await?;
        assert_eq!(pieces(&office).await?, kept);
        store(&process, &second).await?;
        for _ in 0..3 {
            process.run_once(9).await?;
            sleep(LEASE * 2).await;
        }
        assert_eq!(pieces(&office).await?, kept);
        Ok::<_, table_core::Error>(())
    };
    let (worked, others) = futures_util::join!(worker.run_once(1), others);
    others?;
    assert_eq!((worked?, rows(&office).await?), (1, vec!["first".to_owned()]));
    assert!(pieces(&office).await?.is_empty() && process.poison(9).await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stored_plan_that_is_not_the_one_committed_is_not_done() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let (process, id) = (office.process().await?, slowly().id());
    process.submit(&stored(&office, id, "first")?, Acknowledge::Committed).await?;
    let other = stored(&office, id, "other")?.to_text(&process.resources)?;
    let piece = pieces(&office).await?.remove(0);
    let forged = ledger::PlanOf { id, hash: plan::fingerprint(&other), pieces: 1 };
    process.ledger.put_piece(forged, 0, &other).await?;
    let row = office.store.get_existing(&TableName::new("Transactions")?, &forged.piece(0)?).await?;
    let forged = row.with_system(None, None).with_key(piece);
    office.store.write(&TableName::new("Transactions")?, Operation::InsertOrReplace(forged)).await?;
    process.run_once(9).await?;
    assert!(rows(&office).await?.is_empty() && office.slow.counts() == (0, 0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stored_plan_that_is_submitted_again_when_it_is_done_leaves_nothing() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let (process, id) = (office.process().await?, slowly().id());
    let large = stored(&office, id, "1")?;
    for _ in 0..2 {
        assert_eq!(process.submit(&large, Acknowledge::Applied).await?.progress, Progress::Applied);
        assert!(pieces(&office).await?.is_empty() && office.queue.peek(9).await?.is_empty());
    }
    assert_eq!(office.slow.counts(), (1, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_second_small_plan_is_refused_where_it_is_found_out() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    let first = slowly();
    process.submit(&first, Acknowledge::Applied).await?;
    let second = EventualTransaction::with_id(first.id()).handle("slow", *b"other");
    let error = process.submit(&second, Acknowledge::Applied).await.unwrap_err();
    assert!(error.to_string().contains("another plan"), "{error}");
    assert_eq!((error.outcome(), office.queue.peek(9).await?.len()), (Outcome::NotApplied, 0));
    // A message that was only sent ends as poison, and says why.
    process.submit(&second, Acknowledge::Committed).await?;
    while process.poison(1).await?.is_empty() {
        sleep(LEASE).await;
        process.run_once(9).await?;
    }
    assert_eq!(office.slow.counts(), (1, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_discarded_transaction_is_not_said_to_be_pending() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    for transaction in [slowly(), stored(&office, slowly().id(), "1")?] {
        let id = transaction.id();
        process.submit(&transaction, Acknowledge::Committed).await?;
        let message = office.queue.receive(1, LEASE).await?.remove(0);
        let status = process.status(id).await?;
        process.discard(&PoisonedTransaction { id: Some(id), status, message }).await?;
        let error = process.submit(&transaction, Acknowledge::Applied).await.unwrap_err();
        assert!(error.to_string().contains("discarded"), "{error}");
        assert!(pieces(&office).await?.is_empty() && office.queue.peek(9).await?.is_empty());
    }
    assert_eq!(office.slow.counts(), (0, 0));
    Ok(())
}
