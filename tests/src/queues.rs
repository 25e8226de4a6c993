//! The conformance suite of [`WorkQueue`]: what every work queue must do, one function for each
//! behaviour. [`queue_tests!`](crate::queue_tests) makes a test of each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use table_core::queue::{MESSAGE_BYTES, Message, Receipt, WorkQueue};

/// An empty queue for one behaviour.
pub type Queue = Arc<dyn WorkQueue>;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(300);
/// The least that every queue can measure.
const SHORT: Duration = Duration::from_secs(1);

/// A received message is hidden, has its body and its count, and is gone once deleted.
pub async fn a_message_is_received_once_and_deleted(queue: Queue) {
    queue.send("one", Duration::ZERO).await.unwrap();
    let message = only(queue.receive(9, LONG).await.unwrap());
    assert_eq!((message.body.as_str(), message.dequeue_count), ("one", 1));
    assert!(queue.receive(9, LONG).await.unwrap().is_empty());
    queue.delete(&receipt(&message)).await.unwrap();
    assert!(queue.delete(&receipt(&message)).await.unwrap_err().is_precondition_failed());
}

/// A worker that dies lets its message come back, with a higher count; its receipt is void then.
pub async fn a_message_comes_back(queue: Queue) {
    queue.send("one", Duration::ZERO).await.unwrap();
    let first = only(queue.receive(1, SHORT).await.unwrap());
    let again = wait_for_one(&queue).await;
    assert_eq!((&again.id, again.body.as_str(), again.dequeue_count), (&first.id, "one", 2));
    assert!(queue.delete(&receipt(&first)).await.unwrap_err().is_precondition_failed());
    assert!(queue.renew(&receipt(&first), LONG).await.unwrap_err().is_precondition_failed());
    queue.delete(&receipt(&again)).await.unwrap();
}

/// A delayed message is not there yet, and comes.
pub async fn a_delayed_message_waits(queue: Queue) {
    queue.send("later", SHORT).await.unwrap();
    queue.send("much later", LONG).await.unwrap();
    assert_eq!(wait_for_one(&queue).await.body, "later");
}

/// Renewing hides on and voids the receipt that was renewed; the new one counts.
pub async fn renewing_gives_a_new_receipt(queue: Queue) {
    queue.send("one", Duration::ZERO).await.unwrap();
    let old = receipt(&only(queue.receive(1, LONG).await.unwrap()));
    let new = queue.renew(&old, LONG).await.unwrap();
    assert!(queue.renew(&old, LONG).await.unwrap_err().is_precondition_failed());
    assert!(queue.delete(&old).await.unwrap_err().is_precondition_failed());
    assert!(queue.receive(1, LONG).await.unwrap().is_empty());
    queue.delete(&new).await.unwrap();
}

/// A renewal to zero gives the message back, body and all.
pub async fn a_message_can_be_given_back(queue: Queue) {
    queue.send("it's <&>", Duration::ZERO).await.unwrap();
    let message = only(queue.receive(1, LONG).await.unwrap());
    queue.renew(&receipt(&message), Duration::ZERO).await.unwrap();
    assert_eq!(wait_for_one(&queue).await.body, "it's <&>");
}

/// The sender can take its message back, even while it is delayed.
pub async fn the_sender_can_take_a_message_back(queue: Queue) {
    let sent = queue.send("one", LONG).await.unwrap();
    queue.delete(&sent).await.unwrap();
    assert!(queue.delete(&sent).await.unwrap_err().is_precondition_failed());
}

/// Looking takes nothing, counts nothing, gives no right.
pub async fn peeking_takes_nothing(queue: Queue) {
    queue.send("one", Duration::ZERO).await.unwrap();
    for _ in 0..2 {
        let seen = only(queue.peek(9).await.unwrap());
        assert_eq!((seen.body.as_str(), seen.dequeue_count, &seen.receipt), ("one", 0, &None));
    }
    assert_eq!(only(queue.receive(9, LONG).await.unwrap()).dequeue_count, 1);
    assert!(queue.peek(9).await.unwrap().is_empty());
}

/// Any text is a body, up to the limit and not over it.
pub async fn bodies_are_any_text(queue: Queue) {
    let full = "\u{e9}".repeat(MESSAGE_BYTES / 2);
    for body in ["", " ", "it's", "<x>&amp;</x>", "\u{0}\u{1}\r\n\t", "\u{1F600}\u{FFFF}", full.as_str()] {
        queue.send(body, Duration::ZERO).await.unwrap();
        let message = only(queue.receive(1, LONG).await.unwrap());
        assert!(message.body == body, "{:?}", body.chars().take(9).collect::<String>());
        queue.delete(&receipt(&message)).await.unwrap();
    }
    assert!(queue.send(&(full + "x"), Duration::ZERO).await.unwrap_err().is_limit_exceeded());
}

/// Workers that take at the same time never have the same message, and together have all.
pub async fn workers_share_the_messages(queue: Queue) {
    for n in 0..20 {
        queue.send(&n.to_string(), Duration::ZERO).await.unwrap();
    }
    let workers: Vec<_> = (0..4).map(|_| tokio::spawn(take_all(Arc::clone(&queue)))).collect();
    let mut taken = Vec::new();
    for worker in workers {
        taken.extend(worker.await.unwrap());
    }
    assert_eq!(taken.len(), 20);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), 20);
}

/// No more than asked for; none is no question.
pub async fn no_more_than_asked_for(queue: Queue) {
    for n in 0..3 {
        queue.send(&n.to_string(), Duration::ZERO).await.unwrap();
    }
    assert!(queue.receive(0, LONG).await.unwrap().is_empty());
    assert!(queue.peek(0).await.unwrap().is_empty());
    assert!(queue.peek(2).await.unwrap().len() <= 2);
    assert!(queue.receive(2, LONG).await.unwrap().len() <= 2);
}

async fn take_all(queue: Queue) -> Vec<String> {
    let mut taken = Vec::new();
    loop {
        let messages = queue.receive(3, LONG).await.unwrap();
        if messages.is_empty() {
            return taken;
        }
        for message in messages {
            queue.delete(&receipt(&message)).await.unwrap();
            taken.push(message.body);
        }
    }
}

/// Asks until there is one: clocks of services are their own.
async fn wait_for_one(queue: &Queue) -> Message {
    loop {
        if let Some(message) = queue.receive(1, LONG).await.unwrap().pop() {
            return message;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn only(mut messages: Vec<Message>) -> Message {
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.remove(0)
}

fn receipt(message: &Message) -> Receipt {
    message.receipt.clone().expect("a received message has a receipt")
}

/// Makes a test of every behaviour of a work queue, each with a queue that the async function gives.
#[macro_export]
macro_rules! queue_tests {
    ($queue:path) => {
        $crate::queue_tests! { @tests $queue;
            a_message_is_received_once_and_deleted
            a_message_comes_back
            a_delayed_message_waits
            renewing_gives_a_new_receipt
            a_message_can_be_given_back
            the_sender_can_take_a_message_back
            peeking_takes_nothing
            bodies_are_any_text
            workers_share_the_messages
            no_more_than_asked_for
        }
    };
    (@tests $queue:path; $($behaviour:ident)*) => {$(
        #[tokio::test]
        async fn $behaviour() {
            $crate::queues::$behaviour($queue().await).await;
        }
    )*};
}
