//! What a write leaves for after its answer: background tasks, and workers, also those without the journal of the table.

use super::*;

/// A queue with the clock of the test, and a journal that uses it.
async fn queued(world: &World) -> Result<(Arc<TableQueue>, Journal)> {
    let queue = separate_queue().await?;
    let journal = Journal::new(
        world.store.clone(),
        world.journal.table().clone(),
        Arc::new(People),
    )
    .with_clearing(Clearing::BeforeAnswer);
    Ok((queue.clone(), journal.with_queue(queue)))
}

fn journal_rows(rows: &BTreeMap<String, Entity>) -> usize {
    rows.keys().filter(|key| key.contains("~~j_")).count()
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
        assert_eq!(journal_rows(&rows(&world, "People").await?), 0);
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
    assert_eq!(
        journal_rows(&rows(&world, "People").await?),
        0,
        "all of them within one lease"
    );
    assert_eq!(rows(&world, "Names").await?.len(), 5);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_ticket_of_another_table_is_left_to_other_workers() -> Result<()> {
    let world = world().await?;
    let (queue, journal) = queued(&world).await?;
    journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Committed,
        )
        .await?;
    let other = Journal::new(
        world.store.clone(),
        TableName::new("Names")?,
        Arc::new(People),
    )
    .with_clearing(Clearing::BeforeAnswer);
    let stranger = Recovery::new(&*queue, vec![&other]);
    let mut received = 0;
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_secs(301)).await;
        received += stranger.run_once(8).await?;
    }
    assert!(received > 8, "it is looked at again and again: {received}");
    assert!(stranger.poison(8).await?.is_empty());
    let worker = Recovery::new(&*queue, vec![&other, &journal]);
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(worker.run_once(8).await?, 1);
    assert!(queue.peek(8).await?.is_empty());
    assert_eq!(journal_rows(&rows(&world, "People").await?), 0);
    Ok(())
}

/// A program that ends without a flush leaves the journal row to recovery. The entries are applied already.
#[tokio::test(start_paused = true)]
async fn what_a_program_does_not_clear_is_left_to_recovery() -> Result<()> {
    let world = world().await?;
    let faults = FaultInjector::new(1);
    let dying = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
    let journal = Journal::new(dying, world.journal.table().clone(), Arc::new(People));
    let change = Change::insert(person("1", "ken", "oslo")?);
    assert_eq!(
        journal
            .write(&[change], Acknowledge::Applied)
            .await?
            .entries,
        Entries::Applied
    );
    // The task of this runtime has not begun yet.
    faults.crash_at(1, CrashPoint::Before);
    journal.flush().await;
    let before = rows(&world, "People").await?;
    assert_eq!(before.len(), 3);
    assert_eq!(journal_rows(&before), 1);

    let swept = world
        .journal
        .sweep(&[TableName::new("Names")?], Duration::ZERO)
        .await?;
    assert_eq!(swept.applied, 1);
    assert_eq!(swept.left, 0);
    let after = rows(&world, "People").await?;
    assert_eq!(
        after.into_keys().collect::<Vec<_>>(),
        ["('city_oslo', '1')", "('p', '1')"]
    );
    assert_eq!(
        rows(&world, "Names").await?.into_keys().collect::<Vec<_>>(),
        ["('ken', '')"]
    );
    Ok(())
}

/// A flush waits for all tasks. More tasks than the bound are run before the answers.
#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_the_journal_rows_of_all_clones() -> Result<()> {
    let world = world().await?;
    let faults = FaultInjector::new(1);
    let slow = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
    let journal = Journal::new(slow, world.journal.table().clone(), Arc::new(People));
    let delay = Fault::Delay(Duration::from_millis(10));
    faults.add(FaultRule::new(delay).on(OperationKind::Delete));
    for id in 0..100 {
        let change = Change::insert(person(&format!("{id:03}"), &format!("{id}"), "oslo")?);
        let written = journal
            .clone()
            .write(&[change], Acknowledge::Applied)
            .await?;
        assert_eq!(written.entries, Entries::Applied);
    }
    let left = journal_rows(&rows(&world, "People").await?);
    assert!((1..=64).contains(&left), "{left}");
    journal.flush().await;
    assert_eq!(journal_rows(&rows(&world, "People").await?), 0);
    Ok(())
}
