//! The loop of a worker, over a queue with faults.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{TableName, Ticks};
use table_core::store::{OperationKind, TableStore};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::*;
use crate::clock::TokioClock;
use crate::queue::{QueueOptions, TableQueue};

const SECOND: Duration = Duration::from_secs(1);
const WORK: Duration = Duration::from_secs(2);
const PACE: Pace = Pace {
    idle: SECOND,
    visibility: Duration::from_secs(300),
};

/// A queue over a store with faults, and the messages that were finished.
struct Fixture {
    store: Arc<dyn TableStore>,
    faults: FaultInjector,
    queue: TableQueue,
    /// The times at which messages were finished.
    done: Mutex<Vec<Instant>>,
    began: AtomicUsize,
    all: Notify,
}

impl Fixture {
    async fn with_messages(count: usize) -> Result<Self> {
        let (store, faults) = (Arc::new(MemoryStore::new()), FaultInjector::new(1));
        let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
        let options = QueueOptions {
            clock,
            ..QueueOptions::default()
        };
        let faulty = Arc::new(Faulty::new(store.clone(), faults.clone()));
        let queue = TableQueue::open_with(faulty, "Work", "jobs", options).await?;
        for n in 0..count {
            queue.send(&n.to_string(), Duration::ZERO).await?;
        }
        let (done, began, all) = Default::default();
        Ok(Self {
            store,
            faults,
            queue,
            done,
            began,
            all,
        })
    }

    /// Works on each message for [`WORK`]; stops when `count` messages are finished.
    async fn work(&self, count: usize) -> Result<()> {
        let handle = |message: Message| async move {
            self.began.fetch_add(1, Ordering::SeqCst);
            sleep(WORK).await;
            let _gone = self.queue.delete(&message.receipt.unwrap()).await;
            self.done.lock().unwrap().push(Instant::now());
            if self.done.lock().unwrap().len() == count {
                self.all.notify_one();
            }
        };
        work_through(
            &self.queue,
            &WorkerSlots::new(2),
            PACE,
            self.all.notified(),
            handle,
        )
        .await
    }
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_queue_is_asked_again() -> Result<()> {
    let fixture = Fixture::with_messages(3).await?;
    let rule = FaultRule::new(Fault::FailBefore).on(OperationKind::Query);
    fixture.faults.add(rule.times(20));
    fixture.work(3).await?;
    assert_eq!(fixture.began.load(Ordering::SeqCst), 3);
    assert_eq!(fixture.faults.injected().len(), 20);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_continues_during_a_receive() -> Result<()> {
    let fixture = Fixture::with_messages(1).await?;
    fixture.faults.add(
        FaultRule::new(Fault::Delay(SECOND * 60))
            .on(OperationKind::Query)
            .nth(2),
    );
    let began = Instant::now();
    fixture.work(1).await?;
    assert_eq!(fixture.done.lock().unwrap()[0] - began, WORK);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deleted_queue_ends_the_worker_after_the_messages_under_way() -> Result<()> {
    let fixture = Fixture::with_messages(1).await?;
    let vanish = async {
        sleep(SECOND / 2).await;
        fixture.store.delete_table(&TableName::new("Work")?).await
    };
    let (worked, vanished) = futures_util::join!(fixture.work(2), vanish);
    vanished?;
    assert!(worked.unwrap_err().is_table_not_found());
    assert_eq!(fixture.done.lock().unwrap().len(), 1);
    Ok(())
}
