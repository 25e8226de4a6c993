use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::*;
use crate::adapter::RetryPolicy;
use crate::model::Ticks;
use crate::queue::{Message, MessageId, Receipt, WorkQueue};
use crate::store::{Error, ErrorKind, Outcome, Result};

/// A queue whose calls fail by script, then succeed.
#[derive(Debug, Default)]
struct Scripted {
    failures: Mutex<VecDeque<Error>>,
}

impl Scripted {
    fn answer<T>(&self, answer: T) -> Result<T> {
        self.failures
            .lock()
            .unwrap()
            .pop_front()
            .map_or(Ok(answer), Err)
    }
}

fn receipt() -> Receipt {
    Receipt::new(MessageId::new("1"), "token")
}

fn message() -> Message {
    Message::new(MessageId::new("1"), "one".to_owned(), 1, Ticks::now()).with_receipt(receipt())
}

#[async_trait]
impl WorkQueue for Scripted {
    async fn send(&self, _body: &str, _delay: Duration) -> Result<Receipt> {
        self.answer(receipt())
    }

    async fn receive(&self, _max: usize, _visibility: Duration) -> Result<Vec<Message>> {
        self.answer(vec![message()])
    }

    async fn renew(&self, _receipt: &Receipt, _visibility: Duration) -> Result<Receipt> {
        self.answer(receipt())
    }

    async fn delete(&self, _receipt: &Receipt) -> Result<()> {
        self.answer(())
    }

    async fn peek(&self, _max: usize) -> Result<Vec<Message>> {
        self.answer(vec![message()])
    }

    async fn poison(&self, _max: usize) -> Result<Vec<Message>> {
        self.answer(vec![message()])
    }

    async fn requeue(&self, _message: &Message) -> Result<Receipt> {
        self.answer(receipt())
    }
}

const CALLS: [QueueCall; 7] = [
    QueueCall::Send,
    QueueCall::Receive,
    QueueCall::Renew,
    QueueCall::Delete,
    QueueCall::Peek,
    QueueCall::Poison,
    QueueCall::Requeue,
];

async fn run(queue: &dyn WorkQueue, call: QueueCall) -> Result<()> {
    let minute = Duration::from_secs(60);
    match call {
        QueueCall::Send => queue.send("one", Duration::ZERO).await.map(drop),
        QueueCall::Receive => queue.receive(1, minute).await.map(drop),
        QueueCall::Renew => queue.renew(&receipt(), minute).await.map(drop),
        QueueCall::Delete => queue.delete(&receipt()).await,
        QueueCall::Peek => queue.peek(1).await.map(drop),
        QueueCall::Poison => queue.poison(1).await.map(drop),
        QueueCall::Requeue => queue.requeue(&message()).await.map(drop),
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Transport("no answer".to_owned())).with_outcome(Outcome::Ambiguous)
}

fn busy() -> Error {
    Error::new(ErrorKind::Throttled {
        retry_after: Some(Duration::from_secs(7)),
    })
    .with_outcome(Outcome::NotApplied)
}

fn void() -> Error {
    Error::new(ErrorKind::PreconditionFailed {
        table: "jobs".to_owned(),
        key: "1".to_owned(),
    })
}

fn denied() -> Error {
    Error::new(ErrorKind::Forbidden("no".to_owned())).with_outcome(Outcome::NotApplied)
}

/// Returns the result of a call after these failures, the number of attempts and the number of counted calls.
async fn after(call: QueueCall, failures: Vec<Error>) -> (Result<()>, u64, u64) {
    let (scripted, meter) = (Arc::new(Scripted::default()), QueueMeter::new());
    scripted.failures.lock().unwrap().extend(failures);
    let queue = RetryingQueue::new(
        MeteredQueue::new(scripted, meter.clone()),
        RetryPolicy::default(),
    );
    let result = run(&queue, call).await;
    let count = meter.count_of(call);
    assert_eq!(meter.total(), count.requests);
    (result, count.requests, count.failed)
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_repeated_and_every_attempt_is_counted() {
    for call in CALLS {
        let (result, attempts, failed) = after(call, vec![busy(), lost(), busy()]).await;
        assert!(result.is_ok(), "{call}: {result:?}");
        assert_eq!(attempts, 4, "{call}");
        assert_eq!(failed, 3, "{call}");
        let (result, attempts, _) = after(call, vec![busy(); 9]).await;
        assert!(result.unwrap_err().is_transient(), "{call}");
        assert_eq!(attempts, 5, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn permanent_failures_are_not_repeated() {
    for call in CALLS {
        for failure in [denied(), void()] {
            let (result, attempts, _) = after(call, vec![failure]).await;
            assert_eq!(result.unwrap_err().outcome(), Outcome::NotApplied, "{call}");
            assert_eq!(attempts, 1, "{call}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_receipt_after_an_ambiguous_attempt_is_ambiguous() {
    for call in [QueueCall::Renew, QueueCall::Delete, QueueCall::Requeue] {
        let (result, attempts, _) = after(call, vec![lost(), void()]).await;
        let error = result.unwrap_err();
        assert!(
            error.is_ambiguous() && !error.is_precondition_failed(),
            "{call}: {error}"
        );
        assert_eq!(attempts, 2, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_counted() {
    let meter = QueueMeter::new();
    let queue = MeteredQueue::new(Scripted::default(), meter.clone());
    queue.receive(1, Duration::ZERO).await.unwrap();
    queue.receive(1, Duration::ZERO).await.unwrap();
    queue.send("one", Duration::ZERO).await.unwrap();
    assert_eq!(meter.count_of(QueueCall::Receive).entities, 2);
    assert_eq!(meter.total(), 3);
    assert_eq!(meter.counts().len(), 2);
    meter.reset();
    assert_eq!(meter.total(), 0);
}
