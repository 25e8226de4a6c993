//! Workers without the journals of all tables of their queue.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_ticket_of_another_table_is_left_to_other_workers() -> Result<()> {
    let world = world().await?;
    let queue = separate_queue().await?;
    let journal = Journal::new(world.store.clone(), world.journal.table().clone(), Arc::new(People))
        .with_clearing(Clearing::BeforeAnswer);
    let journal = journal.with_queue(queue.clone());
    journal.write(&[Change::insert(person("1", "ken", "oslo")?)], Acknowledge::Committed).await?;
    let other = Journal::new(world.store.clone(), TableName::new("Names")?, Arc::new(People))
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
    assert!(!rows(&world, "People").await?.keys().any(|key| key.contains("~~j_")));
    Ok(())
}
