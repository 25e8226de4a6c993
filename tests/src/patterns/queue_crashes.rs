//! Queues in tables, in trouble: at any request a worker dies, or the request or its answer is lost. No message
//! is lost, none is handed out again before its visibility ends, and what was received too often is set aside,
//! nothing else.

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
/// How often a message is received before it is set aside.
const MOST: u32 = 3;
/// What one group transaction moves, and more.
const GROUP: usize = 50;
const MANY: usize = GROUP + 4;

/// How often each message was received.
type Received = BTreeMap<String, u32>;

/// A queue, and all who have to do with it.
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

    /// The queue as a process sees it.
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

    /// New messages, which nobody has received.
    async fn send(&self, messages: usize) -> Received {
        let queue = self.healthy().await;
        let sent = (0..messages).map(|n| queue.send(["one", "two"][n % 2], Duration::ZERO));
        let sent = try_join_all(sent).await.expect("the store works");
        sent.iter().map(|receipt| (receipt.id().to_string(), 0)).collect()
    }

    /// A message that was just received.
    async fn taken(&self) -> (Received, Receipt) {
        self.send(1).await;
        let message = self.healthy().await.receive(1, LEASE).await.expect("the store works").remove(0);
        let receipt = message.receipt.clone().expect("a receipt");
        (Received::from([(message.id.to_string(), 1)]), receipt)
    }

    /// Takes all that is visible; each message once, and counted.
    async fn take(&self, play: &Play<'_>, received: &mut Received) -> BTreeSet<String> {
        let messages = self.healthy().await.receive(2 * MANY, LEASE).await.expect("the store works");
        count(play, &messages, received)
    }

    /// Takes what there is until it is set aside: each message once in each visibility.
    async fn live_out(&self, play: &Play<'_>, mut received: Received) {
        for _ in 0..=MOST + 1 {
            let due: BTreeSet<_> =
                received.iter().filter(|(_, times)| **times < MOST).map(|(id, _)| id.clone()).collect();
            assert_eq!(self.take(play, &mut received).await, due, "{play}: others than were due");
            sleep(LEASE - MOMENT).await;
            assert!(self.take(play, &mut received).await.is_empty(), "{play}: handed out twice");
            sleep(MOMENT).await;
        }
        let poison = self.healthy().await.poison(2 * MANY).await.expect("the store works");
        let found: Received = poison.iter().map(|m| (m.id.to_string(), m.dequeue_count)).collect();
        assert_eq!(poison.len(), found.len(), "{play}: one is there twice");
        let wanted: Received = received.into_keys().map(|id| (id, MOST + 1)).collect();
        assert_eq!(found, wanted, "{play}: set aside");
    }

    /// Asserts that there is no message, whatever the time.
    async fn assert_empty(&self, play: &Play<'_>) {
        sleep(2 * LEASE).await;
        self.live_out(play, Received::new()).await;
    }
}

fn count(play: &Play<'_>, messages: &[Message], received: &mut Received) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for message in messages {
        let id = message.id.to_string();
        let times = received.get_mut(&id).unwrap_or_else(|| panic!("{play}: nobody sent {message:?}"));
        *times += 1;
        assert_eq!(message.dequeue_count, *times, "{play}: {id} is counted otherwise");
        assert!(ids.insert(id), "{play}: {message:?} comes twice at once");
    }
    ids
}

fn is_not_applied<T>(told: &Result<T>) -> bool {
    told.as_ref().is_err_and(|error| error.outcome() == Outcome::NotApplied)
}

/// What was said to be sent is there once; what was said not to be, is not.
pub(crate) async fn sends_are_made_or_not(harness: &Harness) {
    trouble(harness, "send", async |play| {
        let work = Work::new(harness).await;
        let queue = work.troubled(play).await;
        play.begin();
        let told = queue.send("one", Duration::ZERO).await;
        play.end();
        let seen = work.healthy().await.peek(9).await.expect("the store works");
        assert!(seen.len() <= 1 && (told.is_err() || seen.len() == 1), "{play}: {seen:?}");
        assert!(!is_not_applied(&told) || seen.is_empty(), "{play}: {told:?}, and it is there");
        work.live_out(play, seen.iter().map(|m| (m.id.to_string(), 0)).collect()).await;
    })
    .await;
}

/// A receive that is cut short: what it has handed out, or hidden without a word, comes back in time and is counted;
/// the rest is there for others.
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
        assert!(handed.is_disjoint(&rest), "{play}: handed out twice");
        let silent = MANY - old - handed.len() - rest.len();
        let hidden = if play.is_untroubled() { 0 } else { GROUP };
        assert!(silent <= rivals + hidden, "{play}: {silent} are missing");
        // What a rival has, and what an answer that was lost has hidden, was received as well.
        received.values_mut().for_each(|times| *times = (*times).max(1));
        sleep(LEASE - MOMENT).await;
        assert!(work.take(play, &mut received).await.is_empty(), "{play}: handed out twice");
        sleep(MOMENT).await;
        work.live_out(play, received).await;
    })
    .await;
}

/// A chunk after another, of new messages, and of some that are to be set aside.
pub(crate) async fn receives_go_on_elsewhere(harness: &Harness) {
    let troubled = async |work: &Work, play: &Play<'_>| work.troubled(play).await;
    receive_in_trouble(harness, "receive", troubled, 0, 0).await;
    receive_in_trouble(harness, "receive and set aside", troubled, MANY / 2, 0).await;
}

/// One by one, where another worker was quicker.
pub(crate) async fn receives_beside_others_go_on_elsewhere(harness: &Harness) {
    let overtaken = async |work: &Work, play: &Play<'_>| {
        let rival = work.healthy().await;
        let takes = async move { drop(rival.receive(1, LEASE).await) };
        let store = Arc::new(HookedStore::before_group(work.store.clone(), takes));
        work.open(Arc::new(Faulty::new(store, play.faults.clone()))).await
    };
    receive_in_trouble(harness, "receive beside another", overtaken, 0, 1).await;
}

/// What was lost is sent again, and found where it was done: only a death hides anything.
pub(crate) async fn receives_under_retries_hand_out_all(harness: &Harness) {
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
        assert!(play.is_dead() || handed.len() == MANY, "{play}: {} were handed out", handed.len());
        let rest = work.take(play, &mut received).await;
        assert!(handed.is_disjoint(&rest), "{play}: handed out twice");
        received.values_mut().for_each(|times| *times = 1);
        sleep(LEASE).await;
        work.live_out(play, received).await;
    })
    .await;
}

/// A message that is renewed stays hidden, and is there once, under one receipt.
pub(crate) async fn renewals_keep_the_message(harness: &Harness) {
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
                healthy.delete(&receipt).await.expect("the receipt is good");
                return work.assert_empty(play).await;
            }
            let hidden = work.take(play, &mut received).await.is_empty();
            assert!(hidden || visibility.is_zero(), "{play}: it was on its way");
            if let (Ok(renewed), true) = (&told, hidden) {
                assert!(!visibility.is_zero(), "{play}: it was given back");
                sleep(2 * LEASE - MOMENT).await;
                assert!(work.take(play, &mut received).await.is_empty(), "{play}: it was renewed");
                assert!(healthy.delete(&receipt).await.is_err_and(|e| e.is_precondition_failed()), "{play}");
                healthy.delete(renewed).await.expect("the receipt is good");
                return work.assert_empty(play).await;
            }
            // However it ended: it comes back.
            sleep(2 * LEASE).await;
            work.live_out(play, received).await;
        })
        .await;
    }
}

/// What was said to be deleted never comes back; what was said not to be comes back once.
pub(crate) async fn deletes_are_made_or_not(harness: &Harness) {
    trouble(harness, "delete", async |play| {
        let work = Work::new(harness).await;
        let (mut received, receipt) = work.taken().await;
        let queue = work.troubled(play).await;
        play.begin();
        let told = queue.delete(&receipt).await;
        play.end();
        sleep(LEASE).await;
        let came = !work.take(play, &mut received).await.is_empty();
        assert!(told.is_err() || !came, "{play}: it was deleted");
        assert!(!is_not_applied(&told) || came, "{play}: {told:?}, and it is gone");
        sleep(LEASE).await;
        work.live_out(play, if came { received } else { Received::new() }).await;
    })
    .await;
}

/// A message that is put back is either still set aside or there for workers: once.
pub(crate) async fn what_is_put_back_is_there_once(harness: &Harness) {
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
        assert!(told.is_err() || left.is_empty(), "{play}: it was put back");
        assert!(!is_not_applied(&told) || seen.is_empty(), "{play}: {told:?}, and it is put back");
        for poison in left {
            healthy.requeue(&poison).await.expect("nobody else does it");
        }
        work.live_out(play, received).await;
    })
    .await;
}
