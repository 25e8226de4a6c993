//! Requests to queues: what is made of answers that never come, and of a busy service.

use std::time::Duration;

use table_azure::SharedKey;
use table_azure::queue::AzureWorkQueue;
use table_core::Result;
use table_core::queue::{MessageId, Receipt, WorkQueue};
use table_core::store::{ErrorKind, Outcome};

use super::KEY;
use super::server::{Answer, Server, answer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Send,
    Receive,
    Renew,
    Delete,
    Peek,
}

const CALLS: [Call; 5] = [Call::Send, Call::Receive, Call::Renew, Call::Delete, Call::Peek];
const MINUTE: Duration = Duration::from_secs(60);

impl Call {
    async fn run(self, server: &Server) -> Result<()> {
        let key = SharedKey::new("acc", KEY).unwrap();
        let queue = AzureWorkQueue::with_shared_key(&format!("{}/jobs", server.address), key, None)?;
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

/// Receiving hides messages and counts: a lost answer leaves that open too.
#[tokio::test]
async fn a_lost_answer_leaves_open_what_changes_something() {
    for call in CALLS {
        let server = Server::start([Answer::Lost]).await;
        let error = call.run(&server).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Transport(_)), "{call:?}: {error}");
        let expected = if call == Call::Peek { Outcome::NotApplied } else { Outcome::Ambiguous };
        assert_eq!(error.outcome(), expected, "{call:?}");
        server.only();
    }
}

#[tokio::test]
async fn a_busy_service_says_when_to_come_back_and_is_asked_once() {
    let body = "<?xml version=\"1.0\"?><Error><Code>ServerBusy</Code><Message>Busy.</Message></Error>";
    for call in CALLS {
        let server = Server::start([answer("503 Server Busy", &[("Retry-After", "7")], body)]).await;
        let error = call.run(&server).await.unwrap_err();
        let after = Some(Duration::from_secs(7));
        let throttled = matches!(error.kind(), ErrorKind::Throttled { retry_after } if *retry_after == after);
        assert!(throttled, "{call:?}: {error}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{call:?}");
        server.only();
    }
}
