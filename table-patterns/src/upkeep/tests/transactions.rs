//! Eventual transactions that upkeep works on.

use async_trait::async_trait;
use table_core::Error;

use super::*;
use crate::eventual::{StepHandler, StepId, TransactionStatus};

/// A handler whose every step fails.
#[derive(Debug)]
struct Refuses;

#[async_trait]
impl StepHandler for Refuses {
    async fn run(&self, _step: StepId, _payload: &[u8]) -> Result<()> {
        Err(Error::application("no".to_owned()))
    }
}

/// A coordinator in the time of the test.
async fn coordinator(world: &World) -> Result<Coordinator> {
    let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
    let of_queue = QueueOptions {
        clock,
        ..QueueOptions::default()
    };
    let queue =
        TableQueue::open_with(world.store.clone(), "Work", "transactions", of_queue).await?;
    let resources = Resources::new().with_store("here", world.store.clone());
    let resources = resources.with_handler("refuses", Arc::new(Refuses));
    let coordinator = Coordinator::open(
        world.store.clone(),
        "Transactions",
        Arc::new(queue),
        resources,
    )
    .await?;
    Ok(coordinator.with_attempts(2))
}

fn copy(world: &World) -> EventualTransaction {
    let place = |id| Place::new("here", world.table.clone(), key(id));
    EventualTransaction::new().move_entity(place(1), place(2))
}

#[tokio::test(start_paused = true)]
async fn are_worked_on_as_they_come() -> Result<()> {
    let world = World::new().await?;
    world.put(person(1, "oslo")).await?;
    let coordinator = coordinator(&world).await?;
    let upkeep = Upkeep::new(world.store.clone())
        .transactions(coordinator.clone())
        .every(ROUND);
    let (moved, refused) = (
        copy(&world),
        EventualTransaction::new().handle("refuses", "x"),
    );
    let program = async {
        sleep(ROUND).await;
        for transaction in [&moved, &refused] {
            coordinator
                .submit(transaction, Acknowledge::Committed)
                .await?;
        }
        Ok::<_, Error>(())
    };
    let (report, submitted) = join!(upkeep.run(sleep(ROUND * 10)), program);
    submitted?;
    let report = report?;
    assert_eq!(
        coordinator.status(moved.id()).await?,
        TransactionStatus::Applied
    );
    assert!(matches!(
        coordinator.status(refused.id()).await?,
        TransactionStatus::Poisoned { .. }
    ));
    let kept = &report.transactions[&TableName::new("Transactions")?];
    assert_eq!(kept.applied, 1, "{report:?}");
    assert_eq!(kept.poisoned, 1, "{report:?}");
    assert_eq!(kept.sweeps, 10, "{report:?}");
    assert_eq!(report.errors().count(), 0, "{report:?}");
    assert!(
        world
            .store
            .get(&world.table, &key(2), None)
            .await?
            .is_some()
    );
    Ok(())
}

/// Also one over which workers died as often as the queue allows.
#[tokio::test(start_paused = true)]
async fn are_worked_on_in_one_round() -> Result<()> {
    let world = World::new().await?;
    world.put(person(1, "oslo")).await?;
    let coordinator = coordinator(&world).await?;
    let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
    let of_queue = QueueOptions {
        clock,
        ..QueueOptions::default()
    };
    let queue =
        TableQueue::open_with(world.store.clone(), "Work", "transactions", of_queue).await?;
    let moved = copy(&world);
    coordinator.submit(&moved, Acknowledge::Committed).await?;
    for received in [1, 1, 1, 1, 1, 0] {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(
            table_core::queue::WorkQueue::receive(&queue, 8, Duration::from_millis(1))
                .await?
                .len(),
            received
        );
    }
    let report = Upkeep::new(world.store.clone())
        .transactions(coordinator.clone())
        .run_once()
        .await?;
    let kept = &report.transactions[&TableName::new("Transactions")?];
    assert_eq!(kept.applied, 1, "{report:?}");
    assert_eq!(kept.poisoned, 0, "{report:?}");
    assert_eq!(kept.sweeps, 1, "{report:?}");
    assert_eq!(
        coordinator.status(moved.id()).await?,
        TransactionStatus::Applied
    );
    Ok(())
}
