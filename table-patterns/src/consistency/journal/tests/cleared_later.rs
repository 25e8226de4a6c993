//! What follows the answer of a write, in the background.

use super::*;

fn journal_rows(rows: &BTreeMap<String, Entity>) -> usize {
    rows.keys().filter(|key| key.contains("~~j_")).count()
}

/// A program that ends without a flush leaves the journal row to recovery. The entries are applied already.
#[tokio::test(start_paused = true)]
async fn what_a_program_does_not_clear_is_left_to_recovery() -> Result<()> {
    let world = world().await?;
    let faults = FaultInjector::new(1);
    let dying = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
    let journal = Journal::new(dying, world.journal.table().clone(), Arc::new(People));
    let change = Change::insert(person("1", "ken", "oslo")?);
    assert_eq!(journal.write(&[change], Acknowledge::Applied).await?.entries, Entries::Applied);
    // The task of this runtime has not begun yet.
    faults.crash_at(1, CrashPoint::Before);
    journal.flush().await;
    let before = rows(&world, "People").await?;
    assert_eq!(before.len(), 3);
    assert_eq!(journal_rows(&before), 1);

    let swept = world.journal.sweep(&[TableName::new("Names")?], Duration::ZERO).await?;
    assert_eq!(swept.applied, 1);
    assert_eq!(swept.left, 0);
    let after = rows(&world, "People").await?;
    assert_eq!(after.into_keys().collect::<Vec<_>>(), ["('city_oslo', '1')", "('p', '1')"]);
    assert_eq!(rows(&world, "Names").await?.into_keys().collect::<Vec<_>>(), ["('ken', '')"]);
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
        let written = journal.clone().write(&[change], Acknowledge::Applied).await?;
        assert_eq!(written.entries, Entries::Applied);
    }
    let left = journal_rows(&rows(&world, "People").await?);
    assert!((1..=64).contains(&left), "{left}");
    journal.flush().await;
    assert_eq!(journal_rows(&rows(&world, "People").await?), 0);
    Ok(())
}
