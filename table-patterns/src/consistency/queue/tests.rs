//! The queue on a memory store with a virtual clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName, Ticks};
use table_core::queue::{MESSAGE_BYTES, WorkQueue};
use table_core::store::{Operation, OperationKind, Result, TableStore as _};
use tokio::time::advance;

use super::{QueueOptions, TableQueue};
use crate::clock::TokioClock;

const LEASE: Duration = Duration::from_secs(30);

async fn queue() -> Result<TableQueue> {
    let options = QueueOptions {
        max_dequeues: 2,
        clock: Arc::new(TokioClock::starting_at(Ticks::now())),
    };
    TableQueue::open_with(Arc::new(MemoryStore::new()), "Work", "jobs", options).await
}

#[tokio::test(start_paused = true)]
async fn a_received_message_is_hidden_for_the_visibility_timeout() -> Result<()> {
    let queue = queue().await?;
    queue.send("one", Duration::ZERO).await?;
    assert_eq!(queue.receive(9, LEASE).await?.len(), 1);
    assert!(queue.receive(9, LEASE).await?.is_empty());
    advance(LEASE).await;
    let again = queue.receive(9, LEASE).await?;
    assert_eq!(again[0].body, "one");
    assert_eq!(again[0].dequeue_count, 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_delayed_message_is_hidden_until_its_time() -> Result<()> {
    let queue = queue().await?;
    queue.send("later", LEASE).await?;
    assert!(queue.peek(9).await?.is_empty());
    advance(LEASE).await;
    assert_eq!(queue.peek(9).await?[0].body, "later");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_oldest_message_is_received_first() -> Result<()> {
    let queue = queue().await?;
    for body in ["a", "b", "c"] {
        queue.send(body, Duration::ZERO).await?;
        advance(Duration::from_millis(1)).await;
    }
    let bodies: Vec<_> = queue
        .receive(2, LEASE)
        .await?
        .into_iter()
        .map(|m| m.body)
        .collect();
    assert_eq!(bodies, ["a", "b"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_invalidates_the_old_receipt() -> Result<()> {
    let queue = queue().await?;
    queue.send("one", Duration::ZERO).await?;
    let first = queue.receive(1, LEASE).await?.remove(0).receipt.unwrap();
    let second = queue.renew(&first, LEASE * 2).await?;
    assert!(
        queue
            .delete(&first)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    assert!(
        queue
            .renew(&first, LEASE)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    queue.delete(&second).await?;
    advance(LEASE * 3).await;
    assert!(queue.receive(1, LEASE).await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_sender_can_delete_a_message_by_its_receipt() -> Result<()> {
    let queue = queue().await?;
    let receipt = queue.send("one", LEASE).await?;
    queue.delete(&receipt).await?;
    advance(LEASE).await;
    assert!(queue.receive(1, LEASE).await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_zero_makes_the_message_visible_at_once() -> Result<()> {
    let queue = queue().await?;
    queue.send("one", Duration::ZERO).await?;
    let receipt = queue.receive(1, LEASE).await?.remove(0).receipt.unwrap();
    queue.renew(&receipt, Duration::ZERO).await?;
    assert_eq!(queue.peek(1).await?.len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_message_received_too_often_becomes_poison_and_can_be_requeued() -> Result<()> {
    let queue = queue().await?;
    queue.send("bad", Duration::ZERO).await?;
    for _ in 0..2 {
        assert_eq!(queue.receive(1, LEASE).await?.len(), 1);
        advance(LEASE).await;
    }
    assert!(queue.receive(1, LEASE).await?.is_empty());
    let poison = queue.poison(9).await?;
    assert_eq!(poison[0].body, "bad");
    assert_eq!(poison[0].dequeue_count, 3);
    queue.requeue(&poison[0]).await?;
    assert!(queue.poison(9).await?.is_empty());
    assert_eq!(queue.receive(1, LEASE).await?[0].dequeue_count, 1);
    Ok(())
}

#[tokio::test]
async fn a_message_larger_than_the_limit_is_refused() -> Result<()> {
    let error = queue()
        .await?
        .send(&"x".repeat(MESSAGE_BYTES + 1), LEASE)
        .await
        .unwrap_err();
    assert!(error.is_limit_exceeded(), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn competing_workers_receive_each_message_once() -> Result<()> {
    let queue = TableQueue::open(Arc::new(MemoryStore::new()), "Work", "jobs").await?;
    for n in 0..200 {
        queue.send(&n.to_string(), Duration::ZERO).await?;
    }
    let worker = |queue: TableQueue| async move {
        let mut done = Vec::new();
        loop {
            let messages = queue.receive(7, LEASE).await?;
            if messages.is_empty() && queue.peek(1).await?.is_empty() {
                return Ok::<_, table_core::Error>(done);
            }
            for message in messages {
                queue.delete(message.receipt.as_ref().unwrap()).await?;
                done.push(message.body);
            }
        }
    };
    let workers: Vec<_> = (0..8)
        .map(|_| tokio::spawn(worker(queue.clone())))
        .collect();
    let mut done = Vec::new();
    for one in workers {
        done.extend(one.await.unwrap()?);
    }
    assert_eq!(done.len(), 200);
    assert_eq!(done.into_iter().collect::<BTreeSet<_>>().len(), 200);
    Ok(())
}

/// The cost table of the module.
#[tokio::test(start_paused = true)]
async fn every_call_costs_what_is_documented() -> Result<()> {
    let meter = RequestMeter::new();
    let metered = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let options = QueueOptions {
        max_dequeues: 1,
        clock: Arc::new(TokioClock::starting_at(Ticks::now())),
    };
    let queue = TableQueue::open_with(metered, "Work", "jobs", options).await?;
    let cost = |requests: u64| {
        assert_eq!(meter.total(), requests);
        meter.reset();
    };
    cost(1);
    for n in 0..120 {
        queue.send(&n.to_string(), Duration::ZERO).await?;
    }
    cost(120);
    assert_eq!(queue.peek(9).await?.len(), 9);
    cost(1);
    let taken = queue.receive(120, LEASE).await?;
    assert_eq!(taken.len(), 120);
    cost(1 + 3);
    assert!(queue.receive(9, LEASE).await?.is_empty());
    cost(1);
    let renewed = queue
        .renew(taken[0].receipt.as_ref().unwrap(), LEASE * 2)
        .await?;
    cost(2);
    queue.delete(&renewed).await?;
    cost(1);
    advance(LEASE).await;
    // Each message was received once already, which is the maximum.
    assert!(queue.receive(2, LEASE).await?.is_empty());
    cost(1 + 1);
    let poison = queue.poison(9).await?;
    assert_eq!(poison.len(), 2);
    cost(1);
    queue.requeue(&poison[0]).await?;
    cost(1);
    Ok(())
}

/// The partition has rows of another program, which sort before all messages.
#[tokio::test(start_paused = true)]
async fn rows_of_another_program_do_not_hide_messages() -> Result<()> {
    let store = Arc::new(MemoryStore::new());
    let (meter, clock) = (
        RequestMeter::new(),
        Arc::new(TokioClock::starting_at(Ticks::now())),
    );
    let options = QueueOptions {
        max_dequeues: 2,
        clock,
    };
    let metered = Arc::new(Metered::new(store.clone(), meter.clone()));
    let queue = TableQueue::open_with(metered, "Work", "jobs", options).await?;
    for row in ["m_0", "m_1", "p_0"] {
        store
            .write(
                &TableName::new("Work")?,
                Operation::Insert(Entity::new("jobs", row)?),
            )
            .await?;
    }
    queue.send("one", Duration::ZERO).await?;
    queue.send("two", Duration::ZERO).await?;
    assert_eq!(queue.peek(1).await?.len(), 1);
    let (received, cost) = meter.measure(queue.receive(1, LEASE)).await;
    assert_eq!(received?.len(), 1);
    assert_eq!(
        cost.total(),
        3,
        "a query, a query with a larger limit, a move"
    );
    assert_eq!(queue.receive(9, LEASE).await?.len(), 1);
    for _ in 0..2 {
        advance(LEASE).await;
        queue.receive(9, LEASE).await?;
    }
    assert!(queue.receive(9, LEASE).await?.is_empty());
    assert_eq!(queue.poison(9).await?.len(), 2);
    Ok(())
}

/// Messages taken before a failed request are hidden and counted already: they are returned.
#[tokio::test(start_paused = true)]
async fn a_receive_returns_the_messages_taken_before_an_error() -> Result<()> {
    let faults = FaultInjector::new(1);
    let options = QueueOptions {
        max_dequeues: 2,
        clock: Arc::new(TokioClock::starting_at(Ticks::now())),
    };
    let store = Arc::new(Faulty::new(MemoryStore::new(), faults.clone()));
    let queue = TableQueue::open_with(store, "Work", "jobs", options).await?;
    for n in 0..120 {
        queue.send(&n.to_string(), Duration::ZERO).await?;
    }
    let rule = || FaultRule::new(Fault::Throttle { retry_after: None }).on(OperationKind::Transact);
    faults.add(rule().nth(2));
    assert_eq!(queue.receive(120, LEASE).await?.len(), 50);
    faults.heal();
    assert_eq!(queue.receive(120, LEASE).await?.len(), 70);
    advance(LEASE).await;
    faults.add(rule().times(1));
    assert!(queue.receive(120, LEASE).await.unwrap_err().is_transient());
    Ok(())
}

/// Rows of other programs are passed by in pages: a receive reads each of them once.
#[tokio::test(start_paused = true)]
async fn many_foreign_rows_cost_a_page_each_thousand() -> Result<()> {
    let (meter, store) = (RequestMeter::new(), Arc::new(MemoryStore::new()));
    let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
    let options = QueueOptions {
        clock,
        ..QueueOptions::default()
    };
    let metered = Metered::new(store.clone(), meter.clone());
    let queue = TableQueue::open_with(metered, "Work", "jobs", options).await?;
    let table = TableName::new("Work")?;
    for n in 0..2500 {
        let row = Entity::new("jobs", format!("m_0000000000000000000_{n:05}"))?;
        store.write(&table, Operation::Insert(row)).await?;
    }
    queue.send("one", Duration::ZERO).await?;
    meter.reset();
    let received = queue.receive(1, LEASE).await?;
    assert_eq!(received.len(), 1);
    assert_eq!(meter.snapshot().of_kind(OperationKind::Query), 1 + 3);
    Ok(())
}

/// Planted counts and times are no message, or one that is received or set aside.
#[tokio::test(start_paused = true)]
async fn planted_numbers_do_not_stop_the_queue() -> Result<()> {
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
    let options = QueueOptions {
        clock,
        ..QueueOptions::default()
    };
    let queue = TableQueue::open_with(store.clone(), "Work", "jobs", options).await?;
    let table = TableName::new("Work")?;
    for (n, count) in [i32::MIN, -1, i32::MAX].into_iter().enumerate() {
        let row = Entity::new("jobs", format!("m_0000000000000000000_{n}"))?;
        let row = row
            .with("Body", "planted")
            .with("DequeueCount", count)
            .with("Inserted", Ticks::MAX);
        store.write(&table, Operation::Insert(row)).await?;
    }
    queue.send("one", Duration::ZERO).await?;
    let received: Vec<_> = queue
        .receive(9, LEASE)
        .await?
        .into_iter()
        .map(|message| message.body)
        .collect();
    assert_eq!(received, ["one"]);
    assert_eq!(queue.poison(9).await?.len(), 1, "received too often");
    Ok(())
}
