//! A queue with a deterministic order and deterministic ids, whose requests wait for the scheduler.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use table_core::model::Ticks;
use table_core::queue::{Message, MessageId, Receipt, WorkQueue};
use table_core::store::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep};

use super::footprint::Footprint;
use super::ids::sending_task;
use super::journal_model::LEASE;
use super::scheduler::Scheduler;
use crate::patterns::journal::{Journal, Recovery};

#[derive(Clone, Debug)]
struct Held {
    id: String,
    body: String,
    visible: Instant,
    count: u32,
    version: u32,
}

/// The messages that all tasks share.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Vec<Held>,
    /// Messages that were received too often.
    poisoned: Vec<Held>,
    /// The number of receives after which a message becomes a poison message; `None` means never.
    most: Option<u32>,
}

impl Messages {
    /// Messages that become poison messages after `most` receives.
    pub(super) fn poisoned_after(most: u32) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            most: Some(most),
            ..Shared::default()
        })))
    }

    /// The number of messages without the poison messages.
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap().waiting.len()
    }

    fn send(&self, id: String, body: String, delay: Duration) -> Receipt {
        let held = Held {
            id: id.clone(),
            body,
            visible: Instant::now() + delay,
            count: 0,
            version: 0,
        };
        self.0.lock().unwrap().waiting.push(held);
        Receipt::new(MessageId::new(id), "0")
    }

    fn receive(&self, max: usize, visibility: Duration) -> Vec<Message> {
        let mut shared = self.0.lock().unwrap();
        let (now, most) = (Instant::now(), shared.most.unwrap_or(u32::MAX));
        let worn: Vec<_> = shared
            .waiting
            .extract_if(.., |m| m.visible <= now && m.count >= most)
            .collect();
        shared.poisoned.extend(worn);
        shared.waiting.sort_by(|a, b| a.id.cmp(&b.id));
        let due = shared
            .waiting
            .iter_mut()
            .filter(|m| m.visible <= now)
            .take(max);
        due.map(|held| {
            (held.visible, held.count, held.version) =
                (now + visibility, held.count + 1, held.version + 1);
            held.message()
        })
        .collect()
    }

    fn set_aside(&self, max: usize) -> Vec<Message> {
        self.0
            .lock()
            .unwrap()
            .poisoned
            .iter()
            .take(max)
            .map(Held::message)
            .collect()
    }

    /// Removes a message.
    fn take(&self, receipt: &Receipt) -> Result<Held> {
        let Shared {
            waiting, poisoned, ..
        } = &mut *self.0.lock().unwrap();
        let found = [waiting, poisoned].into_iter().find_map(|messages| {
            let at = messages.iter().position(|m| m.is(receipt))?;
            Some(messages.remove(at))
        });
        found.ok_or_else(|| void(receipt.id()))
    }

    fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        let mut shared = self.0.lock().unwrap();
        let held = shared
            .waiting
            .iter_mut()
            .find(|m| m.is(receipt))
            .ok_or_else(|| void(receipt.id()))?;
        (held.visible, held.version) = (Instant::now() + visibility, held.version + 1);
        Ok(held.receipt())
    }
}

impl Held {
    fn is(&self, receipt: &Receipt) -> bool {
        self.id == receipt.id().as_str() && self.version.to_string() == receipt.token()
    }

    fn receipt(&self) -> Receipt {
        Receipt::new(MessageId::new(self.id.clone()), self.version.to_string())
    }

    fn message(&self) -> Message {
        let id = MessageId::new(self.id.clone());
        Message::new(id, self.body.clone(), self.count, Ticks::MAX).with_receipt(self.receipt())
    }
}

fn void(id: &MessageId) -> Error {
    ErrorKind::PreconditionFailed {
        table: "queue".into(),
        key: id.to_string(),
    }
    .into()
}

/// The connection of one task to the queue.
#[derive(Debug)]
pub(super) struct ScheduledQueue {
    messages: Messages,
    /// `None` runs every request at once.
    scheduler: Option<Scheduler>,
    task: usize,
    /// Whether messages are visible at once, whatever delay the sender sets. Only the rule of one applier may depend
    /// on the delay.
    eager: bool,
    sent: Mutex<u32>,
}

impl ScheduledQueue {
    pub(super) fn new(
        messages: Messages,
        scheduler: Option<Scheduler>,
        task: usize,
        eager: bool,
    ) -> Self {
        Self {
            messages,
            scheduler,
            task,
            eager,
            sent: Mutex::default(),
        }
    }

    async fn step<T: Send + 'static>(
        &self,
        row: Option<String>,
        what: &'static str,
        run: impl FnOnce(Messages) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(scheduler) = &self.scheduler else {
            return run(self.messages.clone());
        };
        let footprint = match row {
            Some(row) => Footprint::rows("queue", "", vec![row], true),
            None => Footprint::all("queue", true),
        };
        let messages = self.messages.clone();
        let run = Box::pin(async move { run(messages) });
        scheduler
            .request(
                sending_task(self.task),
                footprint,
                false,
                || format!("queue {what}"),
                run,
            )
            .await
    }
}

#[async_trait]
impl WorkQueue for ScheduledQueue {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        let number = {
            let mut sent = self.sent.lock().unwrap();
            *sent += 1;
            *sent
        };
        let (id, body) = (
            format!("{}-{number}", sending_task(self.task)),
            body.to_owned(),
        );
        let delay = if self.eager { Duration::ZERO } else { delay };
        self.step(Some(id.clone()), "send", move |m| {
            Ok(m.send(id, body, delay))
        })
        .await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        self.step(None, "receive", move |m| Ok(m.receive(max, visibility)))
            .await
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        let receipt = receipt.clone();
        self.step(None, "renew", move |m| m.renew(&receipt, visibility))
            .await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        let receipt = receipt.clone();
        let row = receipt.id().to_string();
        self.step(Some(row), "delete", move |m| m.take(&receipt).map(drop))
            .await
    }

    async fn peek(&self, _max: usize) -> Result<Vec<Message>> {
        Ok(Vec::new())
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        self.step(None, "poison", move |m| Ok(m.set_aside(max)))
            .await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        let Some(receipt) = message.receipt.clone() else {
            return Err(void(&message.id));
        };
        let again = move |m: Messages| {
            let held = m.take(&receipt)?;
            Ok(m.send(held.id, held.body, Duration::ZERO))
        };
        self.step(None, "requeue", again).await
    }
}

/// Runs an unscheduled worker until the queue has no tickets, at most twelve times.
pub(super) async fn run_workers(messages: &Messages, journal: &Journal) -> Result<()> {
    let queue = ScheduledQueue::new(messages.clone(), None, usize::MAX, true);
    for _ in 0..12 {
        if messages.len() == 0 {
            break;
        }
        sleep(LEASE * 3).await;
        Recovery::new(&queue, vec![journal]).run_once(32).await?;
    }
    Ok(())
}
