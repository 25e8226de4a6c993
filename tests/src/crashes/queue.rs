//! Table queues with faults: at each request a worker crashes, or the request or its answer is lost. No message
//! is lost, no message is received again before its visibility timeout ends, and exactly the messages that were
//! received too often are set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use table_core::adapter::{Faulty, RetryPolicy, Retrying};
use table_core::model::{TableName, Ticks};
use table_core::queue::{Message, Receipt, WorkQueue as _};
use table_core::store::{Outcome, Result, TableStore};
use table_patterns::clock::TokioClock;
use table_patterns::queue::{QueueOptions, TableQueue};
use tokio::time::sleep;

use crate::Harness;
use crate::fault_runs::{FaultRun, run_with_faults};
use crate::wrappers::HookedStore;

const LEASE: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(1);
/// The number of times that a message is received before it is set aside.
const MOST: u32 = 3;
/// The messages that one group transaction moves; `MANY` is more than that.
const GROUP: usize = 50;
const MANY: usize = GROUP + 4;

/// How often each message was received, by id.
type Received = BTreeMap<String, u32>;

/// A queue and its processes.
struct Work {
    store: Arc<dyn TableStore>,
    table: TableName,
    clock: TokioClock,
}

impl Work {
    async fn new(harness: &Harness) -> Self {
        let table = harness.table().await.name().clone();
        Self {
            store: harness.store().clone(),
            table,
            clock: TokioClock::starting_at(Ticks::now()),
        }
    }

    /// Opens the queue in a process with this store.
    async fn open(&self, store: Arc<dyn TableStore>) -> TableQueue {
        let mut options = QueueOptions::default();
        (options.max_dequeues, options.clock) = (MOST, Arc::new(self.clock));
        TableQueue::open_with(store, self.table.as_str(), "jobs", options)
            .await
            .expect("a queue")
    }

    async fn healthy(&self) -> TableQueue {
        self.open(self.store.clone()).await
    }

    async fn with_faults(&self, run: &FaultRun<'_>) -> TableQueue {
        self.open(Arc::new(Faulty::new(
            self.store.clone(),
            run.faults.clone(),
        )))
        .await
    }

    /// Sends messages. None has been received.
    async fn send(&self, messages: usize) -> Received {
        let queue = self.healthy().await;
        let sent = (0..messages).map(|n| queue.send(["one", "two"][n % 2], Duration::ZERO));
        let sent = try_join_all(sent).await.expect("the store works");
        sent.iter()
            .map(|receipt| (receipt.id().to_string(), 0))
            .collect()
    }

    /// Sends and receives one message.
    async fn taken(&self) -> (Received, Receipt) {
        self.send(1).await;
        let message = self
            .healthy()
            .await
            .receive(1, LEASE)
            .await
            .expect("the store works")
            .remove(0);
        let receipt = message.receipt.clone().expect("a receipt");
        (Received::from([(message.id.to_string(), 1)]), receipt)
    }

    /// Receives all visible messages: each one once. Counts them in `received`.
    async fn take(&self, run: &FaultRun<'_>, received: &mut Received) -> BTreeSet<String> {
        let messages = self
            .healthy()
            .await
            .receive(2 * MANY, LEASE)
            .await
            .expect("the store works");
        count(run, &messages, received)
    }

    /// Receives all messages until they are set aside: each message once per visibility timeout.
    async fn receive_until_set_aside(&self, run: &FaultRun<'_>, mut received: Received) {
        for _ in 0..=MOST + 1 {
            let due: BTreeSet<_> = received
                .iter()
                .filter(|(_, times)| **times < MOST)
                .map(|(id, _)| id.clone())
                .collect();
            assert_eq!(
                self.take(run, &mut received).await,
                due,
                "{run}: the received messages differ from the visible messages"
            );
            sleep(LEASE - MOMENT).await;
            assert!(
                self.take(run, &mut received).await.is_empty(),
                "{run}: a message was received twice"
            );
            sleep(MOMENT).await;
        }
        let poison = self
            .healthy()
            .await
            .poison(2 * MANY)
            .await
            .expect("the store works");
        let found: Received = poison
            .iter()
            .map(|m| (m.id.to_string(), m.dequeue_count))
            .collect();
        assert_eq!(poison.len(), found.len(), "{run}: a message exists twice");
        let wanted: Received = received.into_keys().map(|id| (id, MOST + 1)).collect();
        assert_eq!(found, wanted, "{run}: set aside");
    }

    /// Asserts that the queue has no message, now or later.
    async fn assert_empty(&self, run: &FaultRun<'_>) {
        sleep(2 * LEASE).await;
        self.receive_until_set_aside(run, Received::new()).await;
    }
}

fn count(run: &FaultRun<'_>, messages: &[Message], received: &mut Received) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for message in messages {
        let id = message.id.to_string();
        let times = received
            .get_mut(&id)
            .unwrap_or_else(|| panic!("{run}: no process sent {message:?}"));
        *times += 1;
        assert_eq!(
            message.dequeue_count, *times,
            "{run}: {id} has another receive count"
        );
        assert!(
            ids.insert(id),
            "{run}: one receive returned {message:?} twice"
        );
    }
    ids
}

fn is_not_applied<T>(answered: &Result<T>) -> bool {
    answered
        .as_ref()
        .is_err_and(|error| error.outcome() == Outcome::NotApplied)
}

/// An acknowledged message is in the queue once. A message whose sending failed without effect is not.
pub(crate) async fn an_acknowledged_message_is_sent_once(harness: &Harness) {
    run_with_faults(harness, "send", async |run| {
        let work = Work::new(harness).await;
        let queue = work.with_faults(run).await;
        run.begin();
        let answered = queue.send("one", Duration::ZERO).await;
        run.end();
        let seen = work.healthy().await.peek(9).await.expect("the store works");
        assert!(seen.len() <= 1, "{run}: {seen:?}");
        assert!(answered.is_err() || seen.len() == 1, "{run}: {seen:?}");
        assert!(
            !is_not_applied(&answered) || seen.is_empty(),
            "{run}: {answered:?}, but the message is in the queue"
        );
        work.receive_until_set_aside(run, seen.iter().map(|m| (m.id.to_string(), 0)).collect())
            .await;
    })
    .await;
}

/// Receives messages with a fault. Messages that the worker received, or that the fault hid, become visible in
/// time and are counted. All others stay visible to other workers.
async fn receive_with_faults(
    harness: &Harness,
    path: &str,
    stack: impl AsyncFn(&Work, &FaultRun<'_>) -> TableQueue,
    old: usize,
    rivals: usize,
) {
    run_with_faults(harness, path, async |run| {
        let work = Work::new(harness).await;
        let mut received = work.send(old).await;
        for _ in 0..MOST {
            work.take(run, &mut received).await;
            sleep(LEASE).await;
        }
        received.extend(work.send(MANY - old).await);
        let queue = stack(&work, run).await;
        run.begin();
        let answered = queue.receive(2 * MANY, LEASE).await;
        run.end();
        assert!(
            !run.has_no_fault() || answered.is_ok(),
            "{run}: {answered:?}"
        );
        let handed = count(run, &answered.unwrap_or_default(), &mut received);

        let rest = work.take(run, &mut received).await;
        assert!(
            handed.is_disjoint(&rest),
            "{run}: a message was received twice"
        );
        let silent = MANY - old - handed.len() - rest.len();
        let hidden = if run.has_no_fault() { 0 } else { GROUP };
        assert!(
            silent <= rivals + hidden,
            "{run}: {silent} messages are missing"
        );
        // A message that another worker received, or that a lost answer hid, counts as received.
        received
            .values_mut()
            .for_each(|times| *times = (*times).max(1));
        sleep(LEASE - MOMENT).await;
        assert!(
            work.take(run, &mut received).await.is_empty(),
            "{run}: a message was received twice"
        );
        sleep(MOMENT).await;
        work.receive_until_set_aside(run, received).await;
    })
    .await;
}

/// The worker receives several chunks: of new messages, and of messages that it must set aside.
pub(crate) async fn messages_of_a_crashed_receive_become_visible(harness: &Harness) {
    let faulty = async |work: &Work, run: &FaultRun<'_>| work.with_faults(run).await;
    receive_with_faults(harness, "receive", faulty, 0, 0).await;
    receive_with_faults(harness, "receive and set aside", faulty, MANY / 2, 0).await;
}

/// The worker receives message by message, because another worker takes some of them first.
pub(crate) async fn messages_of_concurrent_receives_become_visible(harness: &Harness) {
    let overtaken = async |work: &Work, run: &FaultRun<'_>| {
        let rival = work.healthy().await;
        let takes = async move { drop(rival.receive(1, LEASE).await) };
        let store = Arc::new(HookedStore::before_group(work.store.clone(), takes));
        work.open(Arc::new(Faulty::new(store, run.faults.clone())))
            .await
    };
    receive_with_faults(harness, "receive beside another", overtaken, 0, 1).await;
}

/// A retry repeats a lost request, and finds its own earlier write. Only a crash hides a message.
pub(crate) async fn retried_receives_return_all_messages(harness: &Harness) {
    run_with_faults(harness, "receive under retries", async |run| {
        let mut work = Work::new(harness).await;
        let retrying = |store: Arc<dyn TableStore>| {
            let policy = RetryPolicy::default()
                .with_delays(MOMENT, 2 * MOMENT)
                .with_write_ids();
            Arc::new(Retrying::new(store, policy))
        };
        let below = work.store.clone();
        work.store = retrying(below.clone());
        let mut received = work.send(MANY).await;
        let queue = work
            .open(retrying(Arc::new(Faulty::new(below, run.faults.clone()))))
            .await;
        run.begin();
        let answered = queue.receive(2 * MANY, LEASE).await;
        run.end();
        let handed = count(run, &answered.unwrap_or_default(), &mut received);
        assert!(
            run.is_dead() || handed.len() == MANY,
            "{run}: {} messages were received",
            handed.len()
        );
        let rest = work.take(run, &mut received).await;
        assert!(
            handed.is_disjoint(&rest),
            "{run}: a message was received twice"
        );
        received.values_mut().for_each(|times| *times = 1);
        sleep(LEASE).await;
        work.receive_until_set_aside(run, received).await;
    })
    .await;
}

/// A renewed message stays hidden, exists once, and has one valid receipt.
pub(crate) async fn a_renewed_message_exists_once(harness: &Harness) {
    for (path, visibility) in [("renew", 2 * LEASE), ("give back", Duration::ZERO)] {
        run_with_faults(harness, path, async |run| {
            let work = Work::new(harness).await;
            let (mut received, receipt) = work.taken().await;
            let queue = work.with_faults(run).await;
            run.begin();
            let answered = queue.renew(&receipt, visibility).await;
            run.end();
            assert!(
                !run.has_no_fault() || answered.is_ok(),
                "{run}: {answered:?}"
            );
            let healthy = work.healthy().await;
            if is_not_applied(&answered) {
                healthy
                    .delete(&receipt)
                    .await
                    .expect("the receipt is valid");
                return work.assert_empty(run).await;
            }
            let hidden = work.take(run, &mut received).await.is_empty();
            assert!(
                hidden || visibility.is_zero(),
                "{run}: a message with a lost answer stays hidden"
            );
            if let (Ok(renewed), true) = (&answered, hidden) {
                assert!(!visibility.is_zero(), "{run}: the message is visible");
                sleep(2 * LEASE - MOMENT).await;
                assert!(
                    work.take(run, &mut received).await.is_empty(),
                    "{run}: the renewal was acknowledged"
                );
                assert!(
                    healthy
                        .delete(&receipt)
                        .await
                        .is_err_and(|e| e.is_precondition_failed()),
                    "{run}"
                );
                healthy.delete(renewed).await.expect("the receipt is valid");
                return work.assert_empty(run).await;
            }
            // Whatever the renewal did, the message becomes visible again.
            sleep(2 * LEASE).await;
            work.receive_until_set_aside(run, received).await;
        })
        .await;
    }
}

/// A message whose deletion was acknowledged never returns. A message whose deletion failed without effect
/// returns once.
pub(crate) async fn an_acknowledged_deletion_is_final(harness: &Harness) {
    run_with_faults(harness, "delete", async |run| {
        let work = Work::new(harness).await;
        let (mut received, receipt) = work.taken().await;
        let queue = work.with_faults(run).await;
        run.begin();
        let answered = queue.delete(&receipt).await;
        run.end();
        sleep(LEASE).await;
        let came = !work.take(run, &mut received).await.is_empty();
        assert!(
            answered.is_err() || !came,
            "{run}: the deletion was acknowledged"
        );
        assert!(
            !is_not_applied(&answered) || came,
            "{run}: {answered:?}, but the message is gone"
        );
        sleep(LEASE).await;
        work.receive_until_set_aside(run, if came { received } else { Received::new() })
            .await;
    })
    .await;
}

/// A message that a worker puts back is either set aside or visible, and exists once.
pub(crate) async fn a_message_that_is_put_back_exists_once(harness: &Harness) {
    run_with_faults(harness, "requeue", async |run| {
        let work = Work::new(harness).await;
        let received = work.send(1).await;
        work.receive_until_set_aside(run, received.clone()).await;
        let healthy = work.healthy().await;
        let poison = healthy.poison(9).await.expect("the store works").remove(0);
        let queue = work.with_faults(run).await;
        run.begin();
        let answered = queue.requeue(&poison).await;
        run.end();
        let left = healthy.poison(9).await.expect("the store works");
        let seen = healthy.peek(9).await.expect("the store works");
        assert_eq!(left.len() + seen.len(), 1, "{run}: {left:?}, {seen:?}");
        assert!(
            answered.is_err() || left.is_empty(),
            "{run}: the message was put back"
        );
        assert!(
            !is_not_applied(&answered) || seen.is_empty(),
            "{run}: {answered:?}, but the message is put back"
        );
        for poison in left {
            healthy
                .requeue(&poison)
                .await
                .expect("no other process put the message back");
        }
        work.receive_until_set_aside(run, received).await;
    })
    .await;
}
