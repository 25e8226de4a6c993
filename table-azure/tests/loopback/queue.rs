//! Queue requests whose answer is lost, invalid, or "busy".

use std::time::Duration;

use table_azure::SharedKey;
use table_azure::queue::AzureWorkQueue;
use table_core::Result;
use table_core::queue::{MessageId, Receipt, WorkQueue};
use table_core::store::{ErrorKind, Outcome};

use super::KEY;
use super::server::{Answer, Asked, Server, answer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Send,
    Receive,
    Renew,
    Delete,
    Peek,
}

pub(super) const CALLS: [Call; 5] = [
    Call::Send,
    Call::Receive,
    Call::Renew,
    Call::Delete,
    Call::Peek,
];
const MINUTE: Duration = Duration::from_secs(60);

impl Call {
    async fn run(self, server: &Server) -> Result<()> {
        let key = SharedKey::new("acc", KEY).unwrap();
        let queue =
            AzureWorkQueue::with_shared_key(&format!("{}/jobs", server.address), key, None)?;
        self.run_on(&queue).await
    }

    pub(super) async fn run_on(self, queue: &AzureWorkQueue) -> Result<()> {
        let receipt = Receipt::new(MessageId::new("7"), "token".to_owned());
        match self {
            Self::Send => queue.send("one", Duration::ZERO).await.map(drop),
            Self::Receive => queue.receive(1, MINUTE).await.map(drop),
            Self::Renew => queue.renew(&receipt, MINUTE).await.map(drop),
            Self::Delete => queue.delete(&receipt).await,
            Self::Peek => queue.peek(1).await.map(drop),
        }
    }
}

/// `receive` hides and counts messages, so a lost answer leaves its outcome ambiguous too.
#[tokio::test]
async fn a_lost_answer_of_a_changing_call_is_ambiguous() {
    for call in CALLS {
        let server = Server::start([Answer::Lost]).await;
        let error = call.run(&server).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Transport(_)),
            "{call:?}: {error}"
        );
        let expected = if call == Call::Peek {
            Outcome::NotApplied
        } else {
            Outcome::Ambiguous
        };
        assert_eq!(error.outcome(), expected, "{call:?}");
        server.only();
    }
}

/// Nothing proves that the service sent the answer.
#[tokio::test]
async fn an_unreadable_success_is_ambiguous() {
    for (call, status) in [(Call::Send, "201 Created"), (Call::Renew, "204 No Content")] {
        for body in ["", "<QueueMessagesList></QueueMessagesList>", "rubbish"] {
            let body = if call == Call::Renew { "" } else { body };
            let server =
                Server::start([answer(status, &[("content-type", "application/xml")], body)]).await;
            let error = call.run(&server).await.unwrap_err();
            assert_eq!(
                error.outcome(),
                Outcome::Ambiguous,
                "{call:?} {body}: {error}"
            );
            server.only();
        }
    }
}

#[tokio::test]
async fn retry_after_is_reported_without_a_retry() {
    let body =
        "<?xml version=\"1.0\"?><Error><Code>ServerBusy</Code><Message>Busy.</Message></Error>";
    for call in CALLS {
        let server =
            Server::start([answer("503 Server Busy", &[("Retry-After", "7")], body)]).await;
        let error = call.run(&server).await.unwrap_err();
        let after = Some(Duration::from_secs(7));
        let throttled =
            matches!(error.kind(), ErrorKind::Throttled { retry_after } if *retry_after == after);
        assert!(throttled, "{call:?}: {error}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{call:?}");
        server.only();
    }
}

fn received(id: &str, count: u32) -> String {
    format!(
        "<QueueMessage><MessageId>{id}</MessageId><InsertionTime>Fri, 09 Oct 2026 21:04:30 GMT</InsertionTime>\
         <ExpirationTime>Fri, 16 Oct 2026 21:04:30 GMT</ExpirationTime><PopReceipt>r{id}</PopReceipt>\
         <TimeNextVisible>Fri, 09 Oct 2026 23:29:20 GMT</TimeNextVisible><DequeueCount>{count}</DequeueCount>\
         <MessageText>b25l</MessageText></QueueMessage>"
    )
}

fn messages(all: &[(&str, u32)]) -> Answer {
    let all: String = all.iter().map(|(id, count)| received(id, *count)).collect();
    let body = format!("<?xml version=\"1.0\"?><QueueMessagesList>{all}</QueueMessagesList>");
    answer("200 OK", &[("content-type", "application/xml")], &body)
}

fn is_poison(asked: &Asked) -> bool {
    asked.line.contains("/jobs-poison/")
}

/// The SAS does not cover the poison queue. Other messages are received, and only one request tries to move a
/// message.
#[tokio::test]
async fn a_message_that_cannot_be_moved_to_poison_does_not_block_others() {
    let body = "<?xml version=\"1.0\"?><Error><Code>AuthorizationFailure</Code><Message>No.</Message></Error>";
    let forbidden = || answer("403 Forbidden", &[], body);
    for (all, good) in [
        (vec![("1", 6), ("2", 1), ("3", 6), ("4", 5)], 2),
        (vec![("1", 6)], 0),
    ] {
        let server = Server::start([messages(&all), forbidden()]).await;
        let key = SharedKey::new("acc", KEY).unwrap();
        let queue = AzureWorkQueue::with_shared_key(&format!("{}/jobs", server.address), key, None)
            .unwrap();
        match queue.receive(32, MINUTE).await {
            Ok(messages) => assert_eq!((messages.len(), good), (good, 2)),
            Err(error) => assert!(
                good == 0 && matches!(error.kind(), ErrorKind::Forbidden(_)),
                "{error}"
            ),
        }
        assert_eq!(
            server
                .asked()
                .iter()
                .filter(|asked| is_poison(asked))
                .count(),
            1
        );
    }
}
