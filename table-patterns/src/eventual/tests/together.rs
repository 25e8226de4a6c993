//! Steps that are declared together: what they cost, and what happens when several of them fail.

use table_core::adapter::{Fault, FaultRule};

use super::*;

fn sixteen(fixture: &Fixture) -> EventualTransaction {
    EventualTransaction::new().together(|steps| {
        (0..16).fold(steps, |steps, n| {
            let row = Entity::new("p", n.to_string()).expect("a legal key");
            steps.upsert("office", fixture.table.clone(), row)
        })
    })
}

#[tokio::test(start_paused = true)]
async fn they_wait_for_one_round_trip() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    process
        .submit(&sixteen(&fixture), Acknowledge::Committed)
        .await?;
    fixture
        .faults
        .add(FaultRule::new(Fault::Delay(Duration::from_millis(10))));
    let (worked, cost) = fixture.meter.measure(process.run_once(1)).await;
    assert_eq!(worked?, 1, "messages");
    assert_eq!(
        cost.total(),
        1 + 1 + 16 + 1,
        "the record, the claim, the steps and their record"
    );
    assert_eq!(cost.round_trips(), 1 + 1 + 1 + 1, "the steps wait together");

    let one_by_one = fixture.process().await?.with_concurrency(1);
    let (submitted, cost) = fixture
        .meter
        .measure(one_by_one.submit(&sixteen(&fixture), Acknowledge::Applied))
        .await;
    assert_eq!(submitted?.progress, TransactionProgress::Applied);
    assert_eq!(
        cost.total(),
        1 + 16 + 1,
        "the claimed record, the steps and their record"
    );
    assert_eq!(cost.round_trips(), 1 + 16 + 1, "one step follows the other");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_ambiguous_failure_decides_before_one_that_counts() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    fixture.slow.ambiguous.store(1, Ordering::SeqCst);
    let failed = Arc::new(Mutex::new(Vec::new()));
    let heard = failed.clone();
    let process = fixture.process().await?.on_event(move |event| {
        if let TransactionEventKind::Failed { step, .. } = &event.kind {
            heard.lock().unwrap().push(*step);
        }
    });
    let missing = TableName::new("Missing")?;
    let transaction = EventualTransaction::new().together(|steps| {
        let row = Entity::new("p", "1").expect("a legal key");
        steps.upsert("office", missing, row).handle("slow", *b"")
    });
    process.submit(&transaction, Acknowledge::Committed).await?;
    process.run_once(1).await?;
    let record = process
        .transactions
        .read(transaction.id())
        .await?
        .expect("a record");
    assert!(
        record.claim.is_some(),
        "the lost request may still take effect"
    );
    assert_eq!(record.failures, 0, "failures that count");
    assert!(
        record
            .error
            .as_deref()
            .is_some_and(|e| e.contains("no answer")),
        "{:?}",
        record.error
    );
    let mut failed = std::mem::take(&mut *failed.lock().unwrap());
    failed.sort_unstable();
    assert_eq!(failed, [0, 1], "steps whose failure a listener heard of");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_process_that_died_among_them_repeats_them_all() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(LEASE * 2)).await?;
    let process = fixture.process().await?;
    let transaction = EventualTransaction::new()
        .together(|steps| steps.handle("slow", *b"1").handle("slow", *b"2"));
    process.submit(&transaction, Acknowledge::Committed).await?;
    assert!(
        tokio::time::timeout(LEASE / 2, process.run_once(1))
            .await
            .is_err(),
        "the worker died"
    );
    while !process.status(transaction.id()).await?.is_final() {
        sleep(Duration::from_secs(1)).await;
        process.run_once(1).await?;
    }
    assert_eq!(fixture.slow.counts(), (4, 2), "begun and finished runs");
    Ok(())
}
