//! Competing workers: every message is handled, and none twice within its visibility timeout.

use std::collections::BTreeSet;
use std::sync::Arc;

use table_core::queue::Message;
use tokio::task::JoinSet;

use super::{LONG, Queue, assert_nothing_is_visible, receipt, send};

const MESSAGES: usize = 20;
const WORKERS: usize = 4;

/// Workers that delete their finished messages handle each message once.
pub(crate) async fn handle_each_message_once(queue: Queue) {
    fill(&queue).await;
    let done = work(&queue, true).await;
    assert_each_once(&done);
    assert_nothing_is_visible(&queue).await;
}

/// Workers that keep their messages hidden never receive a message of another worker. All receipts stay valid.
pub(crate) async fn do_not_receive_messages_of_other_workers(queue: Queue) {
    fill(&queue).await;
    let held = work(&queue, false).await;
    assert_each_once(&held);
    for message in &held {
        assert_eq!(message.dequeue_count, 1);
        queue
            .delete(&receipt(message))
            .await
            .expect("the lease still holds");
    }
}

/// A worker that renews its message repeatedly keeps it, while other workers receive.
pub(crate) async fn keep_messages_that_they_renew(queue: Queue) {
    send(&queue, "one").await;
    let mut lease = receipt(&super::take(&queue).await);
    let others = tokio::spawn(look_for_work(Arc::clone(&queue)));
    for _ in 0..10 {
        lease = queue
            .renew(&lease, LONG)
            .await
            .expect("no other worker received the message");
    }
    assert_eq!(others.await.expect("a worker"), []);
    queue.delete(&lease).await.expect("the lease still holds");
}

async fn look_for_work(queue: Queue) -> Vec<Message> {
    let mut found = Vec::new();
    for _ in 0..10 {
        found.extend(queue.receive(9, LONG).await.expect("messages"));
    }
    found
}

async fn fill(queue: &Queue) {
    for n in 0..MESSAGES {
        send(queue, &n.to_string()).await;
    }
}

/// Receives with all workers until no message is left, and returns the messages.
async fn work(queue: &Queue, deletes: bool) -> Vec<Message> {
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work_alone(Arc::clone(queue), deletes));
    }
    workers.join_all().await.concat()
}

async fn work_alone(queue: Queue, deletes: bool) -> Vec<Message> {
    let mut received = Vec::new();
    loop {
        let messages = queue.receive(3, LONG).await.expect("messages");
        if messages.is_empty() && queue.peek(1).await.expect("messages").is_empty() {
            return received;
        }
        for message in &messages {
            if deletes {
                queue
                    .delete(&receipt(message))
                    .await
                    .expect("the lease still holds");
            }
        }
        received.extend(messages);
    }
}

fn assert_each_once(messages: &[Message]) {
    let bodies: BTreeSet<_> = messages
        .iter()
        .map(|message| message.body.as_str())
        .collect();
    assert_eq!(messages.len(), MESSAGES);
    assert_eq!(bodies.len(), MESSAGES);
}
