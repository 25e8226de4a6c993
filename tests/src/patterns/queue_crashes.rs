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
use crate::trouble::{Play, trouble};
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
        Self { store: harness.store().clone(), table, clock: TokioClock::starting_at(Ticks::now()) }
    }

    /// Opens the queue in a process with this store.
    async fn open(&self, store: Arc<dyn TableStore>) -> TableQueue {
        let mut options = QueueOptions::default();
        (options.max_dequeues, options.clock) = (MOST, Arc::new(self.clock));
        TableQueue::open_with(store, self.table.as_str(), "jobs", options).await.expect("a queue")
    }

    async fn healthy(&self) -> TableQueue {
        self.open(self.store.clone()).await
    }

    async fn troubled(&self, play: &Play<'_>) -> TableQueue {
        self.open(Arc::new(Faulty::new(self.store.clone(), play.faults.clone()))).await
    }

    /// Sends messages. None has been received.
    async fn send(&self, messages: usize) -> Received {
        let queue = self.healthy().await;
        let sent = (0..messages).map(|n| queue.send(["one", "two"][n % 2], Duration::ZERO));
        let sent = try_join_all(sent).await.expect("the store works");
        sent.iter().map(|receipt| (receipt.id().to_string(), 0)).collect()
    }

    /// Sends and receives one message.
    async fn taken(&self) -> (Received, Receipt) {
        self.send(1).await;
        let message = self.healthy().await.receive(1, LEASE).await.expect("the store works").remove(0);
        let receipt = message.receipt.clone().expect("a receipt");
        (Received::from([(message.id.to_string(), 1)]), receipt)
    }

    /// Receives all visible messages: each one once. Counts them in `received`.
    async fn take(&self, play: &Play<'_>, received: &mut Received) -> BTreeSet<String> {
        let messages = self.healthy().await.receive(2 * MANY, LEASE).await.expect("the store works");
        count(play, &messages, received)
    }

    /// Receives all messages until they are set aside: each message once per visibility timeout.
    async fn live_out(&self, play: &Play<'_>, mut received: Received) {
        for _ in 0..=MOST + 1 {
            let due: BTreeSet<_> =
                received.iter().filter(|(_, times)| **times < MOST).map(|(id, _)| id.clone()).collect();
            assert_eq!(
                self.take(play, &mut received).await,
                due,
                "{play}: the received messages differ from the visible messages"
            );
            sleep(LEASE - MOMENT).await;
            assert!(self.take(play, &mut received).await.is_empty(), "{play}: a message was received twice");
            sleep(MOMENT).await;
        }
        let poison = self.healthy().await.poison(2 * MANY).await.expect("the store works");
        let found: Received = poison.iter().map(|m| (m.id.to_string(), m.dequeue_count)).collect();
        assert_eq!(poison.len(), found.len(), "{play}: a message exists twice");
        let wanted: Received = received.into_keys().map(|id| (id, MOST + 1)).collect();
        assert_eq!(found, wanted, "{play}: set aside");
    }

    /// Asserts that the queue has no message, now or later.
    async fn assert_empty(&self, play: &Play<'_>) {
        sleep(2 * LEASE).await;
        self.live_out(play, Received::new()).await;
    }
}

fn count(play: &Play<'_>, messages: &[Message], received: &mut Received) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for message in messages {
        let id = message.id.to_string();
        let times = received.get_mut(&id).unwrap_or_else(|| panic!("{play}: no process sent {message:?}"));
        *times += 1;
        assert_eq!(message.dequeue_count, *times, "{play}: {id} has another receive count");
        assert!(ids.insert(id), "{play}: one receive returned {message:?} twice");
    }
    ids
}

fn is_not_applied<T>(told: &Result<T>) -> bool {
    told.as_ref().is_err_and(|error| error.outcome() == Outcome::NotApplied)
}

/// An acknowledged message is in the queue once. A message whose sending failed without effect is not.
pub(crate) async fn an_acknowledged_message_is_sent_once(harness: &Harness) {
    trouble(harness, "send", async |play| {
        let work = Work::new(harness).await;
        let queue = work.troubled(play).await;
        play.begin();
        let told = queue.send("one", Duration::ZERO).await;
        play.end();
        let seen = work.healthy().await.peek(9).await.expect("the store works");
        assert!(seen.len() <= 1 && (told.is_err() || seen.len() == 1), "{play}: {seen:?}");
        assert!(
            !is_not_applied(&told) || seen.is_empty(),
            "{play}: {told:?}, but the message is in the queue"
        );
        work.live_out(play, seen.iter().map(|m| (m.id.to_string(), 0)).collect()).await;
    })
    .await;
}

/// Receives messages with a fault. Messages that the worker received, or that the fault hid, become visible in
/// time and are counted. All others stay visible to other workers.
async fn receive_in_trouble(
    harness: &Harness,
    path: &str,
    stack: impl AsyncFn(&Work, &Play<'_>) -> TableQueue,
    old: usize,
    rivals: usize,
) {
    trouble(harness, path, async |play| {
        let work = Work::new(harness).await;
        let mut received = work.send(old).await;
        for _ in 0..MOST {
            work.take(play, &mut received).await;
            sleep(LEASE).await;
        }
        received.extend(work.send(MANY - old).await);
        let queue = stack(&work, play).await;
        play.begin();
        let told = queue.receive(2 * MANY, LEASE).await;
        play.end();
        assert!(!play.is_untroubled() || told.is_ok(), "{play}: {told:?}");
        let handed = count(play, &told.unwrap_or_default(), &mut received);

        let rest = work.take(play, &mut received).await;
        assert!(handed.is_disjoint(&rest), "{play}: a message was received twice");
        let silent = MANY - old - handed.len() - rest.len();
        let hidden = if play.is_untroubled() { 0 } else { GROUP };
        assert!(silent <= rivals + hidden, "{play}: {silent} messages are missing");
        // A message that another worker received, or that a lost answer hid, counts as received.
        received.values_mut().for_each(|times| *times = (*times).max(1));
        sleep(LEASE - MOMENT).await;
        assert!(work.take(play, &mut received).await.is_empty(), "{play}: a message was received twice");
        sleep(MOMENT).await;
        work.live_out(play, received).await;
    })
    .await;
}

/// The worker receives several chunks: of new messages, and of messages that it must set aside.
pub(crate) async fn messages_of_a_crashed_receive_become_visible(harness: &Harness) {
    let troubled = async |work: &Work, play: &Play<'_>| work.troubled(play).await;
    receive_in_trouble(harness, "receive", troubled, 0, 0).await;
    receive_in_trouble(harness, "receive and set aside", troubled, MANY / 2, 0).await;
}

/// The worker receives message by message, because another worker takes some of them first.
pub(crate) async fn messages_of_concurrent_receives_become_visible(harness: &Harness) {
    let overtaken = async |work: &Work, play: &Play<'_>| {
        let rival = work.healthy().await;
        let takes = async move { drop(rival.receive(1, LEASE).await) };
        let store = Arc::new(HookedStore::before_group(work.store.clone(), takes));
        work.open(Arc::new(Faulty::new(store, play.faults.clone()))).await
    };
    receive_in_trouble(harness, "receive beside another", overtaken, 0, 1).await;
}

/// A retry repeats a lost request, and finds its own earlier write. Only a crash hides a message.
pub(crate) async fn retried_receives_return_all_messages(harness: &Harness) {
    trouble(harness, "receive under retries", async |play| {
        let mut work = Work::new(harness).await;
        let retrying = |store: Arc<dyn TableStore>| {
            let policy = RetryPolicy::default().with_delays(MOMENT, 2 * MOMENT).with_write_ids();
            Arc::new(Retrying::new(store, policy))
        };
        let below = work.store.clone();
        work.store = retrying(below.clone());
        let mut received = work.send(MANY).await;
        let queue = work.open(retrying(Arc::new(Faulty::new(below, play.faults.clone())))).await;
        play.begin();
        let told = queue.receive(2 * MANY, LEASE).await;
        play.end();
        let handed = count(play, &told.unwrap_or_default(), &mut received);
        assert!(play.is_dead() || handed.len() == MANY, "{play}: {} messages were received", handed.len());
        let rest = work.take(play, &mut received).await;
        assert!(handed.is_disjoint(&rest), "{play}: a message was received twice");
        received.values_mut().for_each(|times| *times = 1);
        sleep(LEASE).await;
        work.live_out(play, received).await;
    })
    .await;
}

/// A renewed message stays hidden, exists once, and has one valid receipt.
pub(crate) async fn a_renewed_message_exists_once(harness: &Harness) {
    for (path, visibility) in [("renew", 2 * LEASE), ("give back", Duration::ZERO)] {
        trouble(harness, path, async |play| {
            let work = Work::new(harness).await;
            let (mut received, receipt) = work.taken().await;
            let queue = work.troubled(play).await;
            play.begin();
            let told = queue.renew(&receipt, visibility).await;
            play.end();
            assert!(!play.is_untroubled() || told.is_ok(), "{play}: {told:?}");
            let healthy = work.healthy().await;
            if is_not_applied(&told) {
                healthy.delete(&receipt).await.expect("the receipt is valid");
                return work.assert_empty(play).await;
            }
            let hidden = work.take(play, &mut received).await.is_empty();
            assert!(hidden || visibility.is_zero(), "{play}: a message with a lost answer stays hidden");
            if let (Ok(renewed), true) = (&told, hidden) {
                assert!(!visibility.is_zero(), "{play}: the message is visible");
                sleep(2 * LEASE - MOMENT).await;
                assert!(
                    work.take(play, &mut received).await.is_empty(),
                    "{play}: the renewal was acknowledged"
                );
                assert!(healthy.delete(&receipt).await.is_err_and(|e| e.is_precondition_failed()), "{play}");
                healthy.delete(renewed).await.expect("the receipt is valid");
                return work.assert_empty(play).await;
            }
            // Whatever the renewal did, the message becomes visible again.
            sleep(2 * LEASE).await;
            work.live_out(play, received).await;
        })
        .await;
    }
}

/// A message whose deletion was acknowledged never returns. A message whose deletion failed without effect
/// returns once.
pub(crate) async fn an_acknowledged_deletion_is_final(harness: &Harness) {
    trouble(harness, "delete", async |play| {
        let work = Work::new(harness).await;
        let (mut received, receipt) = work.taken().await;
        let queue = work.troubled(play).await;
        play.begin();
        let told = queue.delete(&receipt).await;
        play.end();
        sleep(LEASE).await;
        let came = !work.take(play, &mut received).await.is_empty();
        assert!(told.is_err() || !came, "{play}: the deletion was acknowledged");
        assert!(!is_not_applied(&told) || came, "{play}: {told:?}, but the message is gone");
        sleep(LEASE).await;
        work.live_out(play, if came { received } else { Received::new() }).await;
    })
    .await;
}

/// A message that a worker puts back is either set aside or visible, and exists once.
pub(crate) async fn a_message_that_is_put_back_exists_once(harness: &Harness) {
    trouble(harness, "requeue", async |play| {
        let work = Work::new(harness).await;
        let received = work.send(1).await;
        work.live_out(play, received.clone()).await;
        let healthy = work.healthy().await;
        let poison = healthy.poison(9).await.expect("the store works").remove(0);
        let queue = work.troubled(play).await;
        play.begin();
        let told = queue.requeue(&poison).await;
        play.end();
        let left = healthy.poison(9).await.expect("the store works");
        let seen = healthy.peek(9).await.expect("the store works");
        assert_eq!(left.len() + seen.len(), 1, "{play}: {left:?}, {seen:?}");
        assert!(told.is_err() || left.is_empty(), "{play}: the message was put back");
        assert!(!is_not_applied(&told) || seen.is_empty(), "{play}: {told:?}, but the message is put back");
        for poison in left {
            healthy.requeue(&poison).await.expect("no other process put the message back");
        }
        work.live_out(play, received).await;
    })
    .await;
}
