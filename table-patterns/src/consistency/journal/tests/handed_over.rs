//! Writes that are handed over to workers, and workers that wait.

use super::*;

/// A queue with the clock of the test, and a journal that uses it.
async fn queued(world: &World) -> Result<(Arc<TableQueue>, Journal)> {
    let queue = separate_queue().await?;
    let journal = Journal::new(world.store.clone(), world.journal.table().clone(), Arc::new(People))
        .with_clearing(Clearing::BeforeAnswer);
    Ok((queue.clone(), journal.with_queue(queue)))
}

fn has_journal_rows(rows: &BTreeMap<String, Entity>) -> bool {
    rows.keys().any(|key| key.contains("~~j_"))
}

#[tokio::test(start_paused = true)]
async fn a_worker_applies_a_committed_write_at_once() -> Result<()> {
    let world = world().await?;
    let (queue, journal) = queued(&world).await?;
    let began = tokio::time::Instant::now();
    for id in ["1", "2", "3"] {
        let change = Change::insert(person(id, id, "oslo")?);
        let done = journal.write(&[change], Acknowledge::Committed).await?;
        assert_eq!(done.entries, Entries::Pending);
        assert_eq!(Recovery::new(&*queue, vec![&journal]).run_once(8).await?, 1);
        assert!(!has_journal_rows(&rows(&world, "People").await?));
    }
    assert_eq!(rows(&world, "Names").await?.len(), 3);
    assert!(queue.peek(8).await?.is_empty());
    assert!(began.elapsed() < Timing::default().request());
    Ok(())
}

/// A writer died before it handed its write over: a worker waits for its lease and works on other tickets meanwhile.
#[tokio::test(start_paused = true)]
async fn a_waiting_ticket_uses_no_slot_of_a_worker() -> Result<()> {
    let world = world().await?;
    let (queue, journal) = queued(&world).await?;
    let faults = FaultInjector::new(1);
    for id in ["1", "2", "3", "4", "5"] {
        let dying = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
        let dying = Journal::new(dying, world.journal.table().clone(), Arc::new(People))
            .with_clearing(Clearing::BeforeAnswer)
            .with_queue(queue.clone());
        faults.add(FaultRule::new(Fault::Crash(CrashPoint::Before)).on(OperationKind::Replace));
        let change = Change::insert(person(id, id, "oslo")?);
        dying.write(&[change], Acknowledge::Committed).await?;
        faults.heal();
    }
    let lease = Timing::default().lease();
    tokio::time::sleep(lease).await;
    let worker = Recovery::new(&*queue, vec![&journal]);
    let stop = tokio::time::sleep(lease + Duration::from_secs(30));
    worker.run(1, Duration::from_secs(1), stop).await?;
    assert!(!has_journal_rows(&rows(&world, "People").await?), "all of them within one lease");
    assert_eq!(rows(&world, "Names").await?.len(), 5);
    Ok(())
}
