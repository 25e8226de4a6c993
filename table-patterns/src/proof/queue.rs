//! A queue whose order and identities do not depend on chance.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use table_core::model::Ticks;
use table_core::queue::{Message, MessageId, Receipt, WorkQueue};
use table_core::store::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::footprint::Footprint;
use super::stage::Stage;

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
pub(super) struct Messages(Arc<Mutex<Vec<Held>>>);

impl Messages {
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn send(&self, id: String, body: String, delay: Duration) -> Receipt {
        let held = Held { id: id.clone(), body, visible: Instant::now() + delay, count: 0, version: 0 };
        self.0.lock().unwrap().push(held);
        Receipt::new(MessageId::new(id), "0")
    }

    fn receive(&self, max: usize, visibility: Duration) -> Vec<Message> {
        let mut all = self.0.lock().unwrap();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        let now = Instant::now();
        let due = all.iter_mut().filter(|m| m.visible <= now).take(max);
        due.map(|held| {
            (held.visible, held.count, held.version) = (now + visibility, held.count + 1, held.version + 1);
            let id = MessageId::new(held.id.clone());
            let message = Message::new(id.clone(), held.body.clone(), held.count, Ticks::MAX);
            message.with_receipt(Receipt::new(id, held.version.to_string()))
        })
        .collect()
    }

    fn with<T>(&self, receipt: &Receipt, then: impl FnOnce(&mut Vec<Held>, usize) -> T) -> Result<T> {
        let mut all = self.0.lock().unwrap();
        let found = all
            .iter()
            .position(|m| m.id == receipt.id().as_str() && m.version.to_string() == receipt.token());
        Ok(then(&mut all, found.ok_or_else(|| void(receipt.id()))?))
    }
}

fn void(id: &MessageId) -> Error {
    ErrorKind::PreconditionFailed { table: "queue".into(), key: id.to_string() }.into()
}

/// One task's way to the queue.
#[derive(Debug)]
pub(super) struct StagedQueue {
    messages: Messages,
    /// `None` lets every request pass.
    stage: Option<Stage>,
    task: usize,
    /// Whether messages are delivered at once, whatever the sender asked for: no rule but that of one
    /// applier may rest on the delay.
    eager: bool,
    sent: Mutex<u32>,
}

impl StagedQueue {
    pub(super) fn new(messages: Messages, stage: Option<Stage>, task: usize, eager: bool) -> Self {
        Self { messages, stage, task, eager, sent: Mutex::default() }
    }

    async fn step<T: Send + 'static>(
        &self,
        row: Option<String>,
        what: &'static str,
        run: impl FnOnce(Messages) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(stage) = &self.stage else { return run(self.messages.clone()) };
        let footprint = match row {
            Some(row) => Footprint::rows("queue", "", vec![row], true),
            None => Footprint::all("queue", true),
        };
        let messages = self.messages.clone();
        let run = Box::pin(async move { run(messages) });
        stage.request(self.task, footprint, false, || format!("queue {what}"), run).await
    }
}

#[async_trait]
impl WorkQueue for StagedQueue {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        let number = {
            let mut sent = self.sent.lock().unwrap();
            *sent += 1;
            *sent
        };
        let (id, body) = (format!("{}-{number}", self.task), body.to_owned());
        let delay = if self.eager { Duration::ZERO } else { delay };
        self.step(Some(id.clone()), "send", move |m| Ok(m.send(id, body, delay))).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        self.step(None, "receive", move |m| Ok(m.receive(max, visibility))).await
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        let receipt = receipt.clone();
        let renewed = move |m: Messages| {
            m.with(&receipt, |all, at| {
                let held = &mut all[at];
                (held.visible, held.version) = (Instant::now() + visibility, held.version + 1);
                Receipt::new(receipt.id().clone(), held.version.to_string())
            })
        };
        self.step(None, "renew", renewed).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        let receipt = receipt.clone();
        let row = receipt.id().to_string();
        self.step(Some(row), "delete", move |m| m.with(&receipt, |all, at| drop(all.remove(at)))).await
    }

    async fn peek(&self, _max: usize) -> Result<Vec<Message>> {
        Ok(Vec::new())
    }

    async fn poison(&self, _max: usize) -> Result<Vec<Message>> {
        Ok(Vec::new())
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        Err(void(&message.id))
    }
}
