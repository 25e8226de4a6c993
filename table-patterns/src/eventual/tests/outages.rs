//! Stores that are unavailable for some time.

use table_core::adapter::{Fault, FaultRule};

use super::*;

/// Runs a worker for a time. Returns the number of messages that it has received.
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
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    let transaction = fixture.upsert("1")?;
    process.submit(&transaction, Acknowledge::Committed).await?;
    for fault in [
        Fault::FailBefore,
        Fault::Throttle { retry_after: None },
        Fault::LoseRequest,
    ] {
        // First the table of the step alone, then all tables.
        for rule in [
            FaultRule::new(fault).in_table(fixture.table.clone()),
            FaultRule::new(fault),
        ] {
            fixture.faults.add(rule);
            let received = work_for(&process, LEASE * 20).await?;
            assert!(received > 5, "{fault:?}: {received}");
            fixture.faults.heal();
        }
    }
    assert!(process.poison(9).await?.is_empty());
    work_for(&process, LEASE * 4).await?;
    assert_eq!(
        process.status(transaction.id()).await?,
        TransactionStatus::Applied
    );
    assert!(fixture.queue.peek(9).await?.is_empty());
    Ok(())
}

/// The transaction has two messages: the second one waits while the first is processed.
#[tokio::test(start_paused = true)]
async fn waiting_for_another_worker_is_no_failure() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(LEASE * 40)).await?;
    let (one, other) = (fixture.process().await?, fixture.process().await?);
    let transaction = slow_transaction();
    for _ in 0..2 {
        one.submit(&transaction, Acknowledge::Committed).await?;
    }
    let (worked, received) = futures_util::join!(one.run_once(1), work_for(&other, LEASE * 50));
    assert_eq!(worked?, 1, "messages");
    assert_eq!(
        fixture.slow.counts(),
        (1, 1),
        "begun and finished runs of the step"
    );
    let received = received?;
    assert!(received > 5, "{received}");
    assert!(other.poison(9).await?.is_empty());
    assert!(fixture.queue.peek(9).await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_failing_step_poisons_its_transaction() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    let missing = TableName::new("Missing")?;
    let transaction = EventualTransaction::new().upsert("office", missing, Entity::new("p", "1")?);
    process.submit(&transaction, Acknowledge::Committed).await?;
    work_for(&process, LEASE * 20).await?;
    assert_eq!(process.poison(9).await?.len(), 1);
    let status = process.wait(transaction.id(), LEASE).await?;
    assert!(
        matches!(
            status,
            TransactionStatus::Poisoned {
                step: 0,
                steps: 1,
                ..
            }
        ),
        "{status:?}"
    );
    Ok(())
}

/// The queue never sets a message aside. The message of a poisoned transaction is received again after pauses that grow to a lease.
#[tokio::test(start_paused = true)]
async fn the_message_of_a_poisoned_transaction_comes_back_after_pauses() -> Result<()> {
    let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
    let options = QueueOptions {
        clock,
        max_dequeues: u32::MAX,
    };
    let queue =
        TableQueue::open_with(Arc::new(MemoryStore::new()), "Work", "jobs", options).await?;
    let fixture = Fixture {
        queue: Arc::new(queue),
        ..Fixture::open(SlowHandler::taking(Duration::ZERO)).await?
    };
    let process = fixture.process().await?;
    let missing = TableName::new("Missing")?;
    let transaction = EventualTransaction::new().upsert("office", missing, Entity::new("p", "1")?);
    process.submit(&transaction, Acknowledge::Committed).await?;
    let leases = 100;
    process
        .run(1, Duration::from_secs(1), sleep(LEASE * leases))
        .await?;
    let status = process.status(transaction.id()).await?;
    assert!(
        matches!(status, TransactionStatus::Poisoned { .. }),
        "{status:?}"
    );
    sleep(LEASE).await;
    let received = fixture.queue.receive(1, LEASE).await?[0].dequeue_count;
    assert!(
        (leases / 2..leases + 10).contains(&received),
        "{received} receives"
    );
    Ok(())
}

/// Workers that die, and lost answers, raise the queue's count of receives. They do not poison the transaction.
#[tokio::test(start_paused = true)]
async fn receives_without_a_failed_step_do_not_poison() -> Result<()> {
    let fixture = Fixture::open(SlowHandler::taking(Duration::ZERO)).await?;
    let process = fixture.process().await?;
    for put_back_by_run in [false, true] {
        let transaction = fixture.upsert("1")?;
        process.submit(&transaction, Acknowledge::Committed).await?;
        for _ in 0..20 {
            fixture.queue.receive(1, LEASE).await?;
            sleep(LEASE * 2).await;
        }
        assert_eq!(process.run_once(9).await?, 0, "the message is set aside");
        if put_back_by_run {
            process.run(1, LEASE, sleep(LEASE * 4)).await?;
        } else {
            assert!(process.poison(9).await?.is_empty());
            process.run_once(9).await?;
        }
        assert_eq!(
            process.status(transaction.id()).await?,
            TransactionStatus::Applied
        );
    }
    Ok(())
}
