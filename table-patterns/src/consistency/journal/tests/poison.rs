//! Poisoned tickets: failures of their work poison tickets, workers that die do not.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// A committed write whose entries are left to workers, and its ticket in a queue with the clock of the test.
async fn committed() -> Result<(World, Arc<TableQueue>, Journal)> {
    let world = world().await?;
    let queue = separate_queue().await?;
    let journal = world.journal.clone().with_queue(queue.clone());
    journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Committed,
        )
        .await?;
    Ok((world, queue, journal))
}

/// Workers receive the message and die, as often as the queue allows.
async fn die(queue: &TableQueue) -> Result<()> {
    let visibility = Duration::from_secs(1);
    for _ in 0..5 {
        assert_eq!(queue.receive(8, visibility).await?.len(), 1);
        tokio::time::sleep(visibility).await;
    }
    assert!(queue.receive(8, visibility).await?.is_empty());
    Ok(())
}

/// Makes the journal row of the write unreadable. Returns the row as it was.
async fn damage(world: &World) -> Result<Entity> {
    let row = rows(world, "People")
        .await?
        .into_values()
        .find(|row| row.key().is_system())
        .unwrap();
    let damaged = Entity::from(row.key().clone()).with("JournalKind", "write");
    world
        .store
        .write(world.journal.table(), Operation::InsertOrReplace(damaged))
        .await?;
    Ok(row)
}

/// The queue allows 5 receives, and more workers die.
#[tokio::test(start_paused = true)]
async fn workers_that_die_do_not_poison_a_ticket() -> Result<()> {
    let (world, queue, journal) = committed().await?;
    let faults = FaultInjector::new(1);
    faults.add(FaultRule::new(Fault::Delay(HOUR)).on(OperationKind::Get));
    let stuck = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
    let stuck = Journal::new(stuck, world.journal.table().clone(), Arc::new(People))
        .with_clearing(Clearing::BeforeAnswer);
    let mut processes = 0;
    while faults.injected().len() < 10 {
        processes += 1;
        assert!(
            processes <= 12,
            "the ticket came {} times",
            faults.injected().len()
        );
        let worker = Recovery::new(&*queue, vec![&stuck]);
        let run = worker.run(4, Duration::from_secs(1), std::future::pending());
        assert!(
            tokio::time::timeout(HOUR / 2, run).await.is_err(),
            "it dies"
        );
    }
    assert_eq!(
        rows(&world, "People").await?.len(),
        2,
        "the entity and its journal row"
    );
    let worker = Recovery::new(&*queue, vec![&journal]);
    worker
        .run(4, Duration::from_secs(1), tokio::time::sleep(HOUR))
        .await?;
    let people: Vec<_> = rows(&world, "People").await?.into_keys().collect();
    assert_eq!(people, ["('city_oslo', '1')", "('p', '1')"]);
    assert!(queue.poison(8).await?.is_empty() && queue.peek(8).await?.is_empty());
    Ok(())
}

/// The same with `run_once` and `poison`.
#[tokio::test(start_paused = true)]
async fn a_call_of_poison_puts_back_tickets_that_are_not_poisoned() -> Result<()> {
    let (world, queue, journal) = committed().await?;
    die(&queue).await?;
    let worker = Recovery::new(&*queue, vec![&journal]);
    assert_eq!(worker.run_once(8).await?, 0);
    assert_eq!(queue.poison(8).await?.len(), 1);
    assert!(worker.poison(8).await?.is_empty());
    assert_eq!(worker.run_once(8).await?, 1);
    assert!(queue.poison(8).await?.is_empty());
    assert_eq!(
        rows(&world, "People").await?.len(),
        2,
        "the entity and its entry"
    );
    Ok(())
}

/// A write whose work fails is listed as poisoned and can be tried again.
#[tokio::test(start_paused = true)]
async fn failures_of_its_work_poison_a_ticket() -> Result<()> {
    for attempts in [1, 3, 7] {
        let (world, queue, journal) = committed().await?;
        let row = damage(&world).await?;
        let worker = Recovery::new(&*queue, vec![&journal]).with_attempts(attempts);
        worker
            .run(4, Duration::from_secs(1), tokio::time::sleep(HOUR))
            .await?;
        let poisoned = worker.poison(8).await?;
        assert_eq!(poisoned.len(), 1);
        assert_eq!(poisoned[0].failures, attempts);
        let error = poisoned[0].error.as_deref().unwrap_or_default();
        assert!(error.contains(row.key().row()), "{error}");
        let write = poisoned[0].write.map(|write| format!("~~j_{write}"));
        assert_eq!(write.as_deref(), Some(row.key().row()));
        assert!(queue.peek(8).await?.is_empty());

        world
            .store
            .write(journal.table(), Operation::InsertOrReplace(row))
            .await?;
        worker.requeue(&poisoned[0]).await?;
        assert_eq!(worker.run_once(8).await?, 1);
        assert_eq!(
            rows(&world, "People").await?.len(),
            2,
            "the entity and its entry"
        );
        assert!(queue.poison(8).await?.is_empty() && queue.peek(8).await?.is_empty());
    }
    Ok(())
}

/// The queue never sets a message aside. A poisoned ticket is received again after pauses that grow to a lease.
#[tokio::test(start_paused = true)]
async fn a_poisoned_ticket_comes_back_after_pauses() -> Result<()> {
    let world = world().await?;
    let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
    let options = QueueOptions {
        clock,
        max_dequeues: u32::MAX,
    };
    let queue = Arc::new(
        TableQueue::open_with(Arc::new(MemoryStore::new()), "Work", "journal", options).await?,
    );
    let journal = world.journal.clone().with_queue(queue.clone());
    journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Committed,
        )
        .await?;
    damage(&world).await?;
    let worker = Recovery::new(&*queue, vec![&journal]).with_attempts(1);
    let (lease, leases) = (Timing::default().lease(), 100);
    worker
        .run(
            4,
            Duration::from_secs(1),
            tokio::time::sleep(lease * leases),
        )
        .await?;
    tokio::time::sleep(lease * 3).await;
    let received = queue.receive(1, lease).await?[0].dequeue_count;
    assert!(
        (leases / 2..leases + 20).contains(&received),
        "{received} receives"
    );
    Ok(())
}

/// Failures before and after the death of workers add up. A requeued ticket has all its attempts again.
#[tokio::test(start_paused = true)]
async fn failures_are_counted_across_workers_that_die() -> Result<()> {
    let (world, queue, journal) = committed().await?;
    damage(&world).await?;
    let worker = Recovery::new(&*queue, vec![&journal]).with_attempts(2);
    for _ in 0..2 {
        worker.run_once(8).await?;
        assert!(worker.poison(8).await?.is_empty(), "it has failed once");
        tokio::time::sleep(Timing::default().lease()).await;
        die(&queue).await?;
        assert!(worker.poison(8).await?.is_empty(), "it is put back");
        while worker.run_once(8).await? > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let poisoned = worker.poison(8).await?;
        assert_eq!(poisoned.len(), 1);
        assert_eq!(poisoned[0].failures, 2);
        worker.requeue(&poisoned[0]).await?;
    }
    Ok(())
}

/// A message that is not a ticket has only the queue's count.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_a_ticket_is_set_aside() -> Result<()> {
    let (_, queue, journal) = committed().await?;
    let worker = Recovery::new(&*queue, vec![&journal]);
    queue.send("nothing", Duration::ZERO).await?;
    worker
        .run(4, Duration::from_secs(1), tokio::time::sleep(2 * HOUR))
        .await?;
    let poisoned = worker.poison(8).await?;
    assert_eq!(poisoned.len(), 1);
    assert_eq!(poisoned[0].write, None);
    assert_eq!(poisoned[0].failures, 0);
    worker.requeue(&poisoned[0]).await?;
    assert_eq!(queue.peek(8).await?.len(), 1);
    Ok(())
}
