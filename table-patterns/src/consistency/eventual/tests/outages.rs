//! Storage that is out of order for a while.

use table_core::adapter::{Fault, FaultRule};

use super::*;

/// Looks on for a time; how many messages there were.
async fn work_for(process: &Coordinator, time: Duration) -> Result<usize> {
    let (end, mut received) = (Instant::now() + time, 0);
    while Instant::now() < end {
        received += process.run_once(9).await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(received)
}

#[tokio::test(start_paused = true)]
async fn no_outage_poisons_a_transaction() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    let transaction = office.upsert("1")?;
    process.submit(&transaction, Acknowledge::Committed).await?;
    for fault in [Fault::FailBefore, Fault::Throttle { retry_after: None }, Fault::LoseRequest] {
        // The target alone, then all of the tables.
        for rule in [FaultRule::new(fault).in_table(office.table.clone()), FaultRule::new(fault)] {
            office.faults.add(rule);
            let received = work_for(&process, LEASE * 20).await?;
            assert!(received > 5, "{fault:?}: {received}");
            office.faults.heal();
        }
    }
    assert!(process.poison(9).await?.is_empty());
    work_for(&process, LEASE * 4).await?;
    assert_eq!(process.status(transaction.id()).await?, TransactionStatus::Applied);
    assert!(office.queue.peek(9).await?.is_empty());
    Ok(())
}

/// A second message of a transaction that is worked on waits as long as that takes.
#[tokio::test(start_paused = true)]
async fn waiting_for_another_worker_is_no_failure() -> Result<()> {
    let office = Office::open(Slow::taking(LEASE * 40)).await?;
    let (one, other) = (office.process().await?, office.process().await?);
    let transaction = slowly();
    for _ in 0..2 {
        one.submit(&transaction, Acknowledge::Committed).await?;
    }
    let (worked, received) = futures_util::join!(one.run_once(1), work_for(&other, LEASE * 50));
    assert_eq!((worked?, office.slow.counts()), (1, (1, 1)));
    assert!(received? > 5 && other.poison(9).await?.is_empty());
    assert!(office.queue.peek(9).await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_fails_in_a_step_becomes_poison() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    let missing = TableName::new("Missing")?;
    let transaction = EventualTransaction::new().upsert("office", missing, Entity::new("p", "1")?);
    process.submit(&transaction, Acknowledge::Committed).await?;
    work_for(&process, LEASE * 20).await?;
    assert_eq!(process.poison(9).await?.len(), 1);
    let status = process.wait(transaction.id(), LEASE).await?;
    assert!(matches!(status, TransactionStatus::Poisoned { step: 0, steps: 1, .. }), "{status:?}");
    Ok(())
}

/// As workers leave it that die, or whose answers were lost: the queue counts that, and nothing is wrong with the
/// transaction.
#[tokio::test(start_paused = true)]
async fn what_was_received_too_often_is_not_poisoned() -> Result<()> {
    let office = Office::open(Slow::taking(Duration::ZERO)).await?;
    let process = office.process().await?;
    for rescued_by_run in [false, true] {
        let transaction = office.upsert("1")?;
        process.submit(&transaction, Acknowledge::Committed).await?;
        for _ in 0..20 {
            office.queue.receive(1, LEASE).await?;
            sleep(LEASE * 2).await;
        }
        assert_eq!(process.run_once(9).await?, 0, "it was set aside");
        if rescued_by_run {
            process.run(1, LEASE, sleep(LEASE * 4)).await?;
        } else {
            assert!(process.poison(9).await?.is_empty());
            process.run_once(9).await?;
        }
        assert_eq!(process.status(transaction.id()).await?, TransactionStatus::Applied);
    }
    Ok(())
}
