//! Requests that are refused before their body has arrived: the client reads the answer, and its next request works or the answer says that
//! the connection ends (RFC 9112, 9.3 and 9.6).

use std::time::Duration;

use futures_util::future::join_all;
use table_server::EMULATOR_ACCOUNT;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Ask, Client, Reply, read, signed};

/// Guards against a test that does not end; no test expects an end within it.
const HANGS: Duration = Duration::from_secs(60);

/// The bytes of the large bodies: as many as the server takes.
const LARGE: usize = 4 << 20;

/// A client that keeps its connection.
struct Kept {
    stream: TcpStream,
    address: String,
    received: Vec<u8>,
}

impl Kept {
    async fn to(client: &Client) -> Self {
        let stream = TcpStream::connect(&client.address).await.unwrap();
        Self {
            stream,
            address: client.address.clone(),
            received: Vec::new(),
        }
    }

    fn head(&self, ask: &Ask, length: usize) -> String {
        let headers: String = ask
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let path = match ask.path.starts_with('/') {
            true => ask.path.clone(),
            false => format!("/{EMULATOR_ACCOUNT}/{}", ask.path),
        };
        format!(
            "{} {path} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Length: {length}\r\n\r\n",
            ask.method, self.address
        )
    }

    async fn send(&mut self, ask: &Ask) {
        let head = self.head(ask, ask.body.len());
        self.stream.write_all(head.as_bytes()).await.unwrap();
        self.stream.write_all(ask.body.as_bytes()).await.unwrap();
    }

    /// Reads one answer.
    async fn answer(&mut self) -> Reply {
        loop {
            let end = self
                .received
                .windows(4)
                .position(|part| part == b"\r\n\r\n");
            if let Some(end) = end {
                let reply = read(&self.received).unwrap();
                let length: usize = reply.header("content-length").parse().unwrap_or_default();
                if self.received.len() >= end + 4 + length {
                    let answer: Vec<u8> = self.received.drain(..end + 4 + length).collect();
                    return read(&answer).unwrap();
                }
            }
            let mut more = [0; 4096];
            let length = self.stream.read(&mut more).await.unwrap();
            assert_ne!(length, 0, "the connection ended without an answer");
            self.received.extend_from_slice(&more[..length]);
        }
    }
}

fn insert(row: &str, length: usize) -> Ask {
    let body = format!(
        "{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",\"A\":\"{}\"}}",
        "x".repeat(length)
    );
    Ask::new("POST", "abc").json(body)
}

/// Requests that are refused by their head alone, and the status of the refusal.
fn refused_by_head(length: usize) -> Vec<(Ask, u16)> {
    let wrong_key = {
        let mut ask = signed(EMULATOR_ACCOUNT, insert("r", length));
        let authorization = ask
            .headers
            .iter_mut()
            .find(|(name, _)| name == "Authorization")
            .unwrap();
        authorization.1 = format!("SharedKey {EMULATOR_ACCOUNT}:d3Jvbmc=");
        ask
    };
    let with_path = |path: &str| Ask {
        path: path.to_owned(),
        ..insert("r", length)
    };
    let sorted = Ask {
        method: "GET",
        ..with_path("abc()?$orderby=A")
    };
    vec![
        (wrong_key, 403),
        (insert("r", length), 401),
        (insert("r", length).with("Authorization", "Bearer x"), 401),
        (insert("r", length).with("Authorization", "Basic x"), 400),
        (signed(EMULATOR_ACCOUNT, with_path("%FF")), 400),
        (with_path("/nobody/abc"), 404),
        (
            signed(
                EMULATOR_ACCOUNT,
                Ask {
                    method: "DELETE",
                    ..insert("r", length)
                },
            ),
            405,
        ),
        (signed(EMULATOR_ACCOUNT, sorted), 501),
    ]
}

/// Requests that are refused after their body was read.
fn refused_with_body(length: usize) -> Vec<(Ask, u16)> {
    let with_path = |path: &str| Ask {
        path: path.to_owned(),
        ..insert("r", length)
    };
    let asks = [
        (
            Ask {
                method: "PUT",
                ..insert("r", length)
            },
            405,
        ),
        (with_path("abc/$batch"), 415),
        (with_path("TableServerSettings"), 404),
    ];
    asks.map(|(ask, status)| (signed(EMULATOR_ACCOUNT, ask), status))
        .into()
}

/// Also with bodies of 4 MB, of which the server reads nothing before it refuses.
#[tokio::test]
async fn the_request_after_a_refused_one_works() {
    let client = Client::with_table().await;
    for length in [10, 100_000, LARGE - 100] {
        for (ask, status) in refused_by_head(length)
            .into_iter()
            .chain(refused_with_body(length))
        {
            let mut kept = Kept::to(&client).await;
            timeout(HANGS, kept.send(&ask)).await.unwrap();
            let reply = kept.answer().await;
            assert_eq!(
                reply.status, status,
                "{} {}: {reply:?}",
                ask.method, ask.path
            );
            assert_eq!(reply.header("connection"), "", "{reply:?}");
            kept.send(&signed(EMULATOR_ACCOUNT, Ask::new("GET", "Tables")))
                .await;
            assert_eq!(kept.answer().await.status, 200);
        }
    }
}

/// A client that sends the rest of its body only after the answer: the answer says that the connection ends, and the rest is read, so that
/// the system does not reset the connection.
#[tokio::test]
async fn a_slow_body_is_announced_to_end_the_connection() {
    let client = Client::with_table().await;
    let slow = async |(ask, status): (Ask, u16)| {
        let mut kept = Kept::to(&client).await;
        let head = kept.head(&ask, ask.body.len());
        kept.stream.write_all(head.as_bytes()).await.unwrap();
        kept.stream
            .write_all(&ask.body.as_bytes()[..100])
            .await
            .unwrap();
        let reply = timeout(HANGS, kept.answer()).await.unwrap();
        assert_eq!(
            (reply.status, reply.header("connection")),
            (status, "close"),
            "{reply:?}"
        );
        kept.stream
            .write_all(&ask.body.as_bytes()[100..])
            .await
            .unwrap();
        kept.stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        // A reset would be an error.
        timeout(HANGS, kept.stream.read_to_end(&mut rest))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(rest, b"");
    };
    // At once, because the server waits for each body.
    join_all(refused_by_head(10_000).into_iter().map(slow)).await;
}

/// Without a permission, the client may send the body or not, so the connection cannot go on.
#[tokio::test]
async fn a_refused_client_that_awaits_permission_gets_none() {
    let client = Client::with_table().await;
    for (ask, status) in refused_by_head(10_000) {
        let mut kept = Kept::to(&client).await;
        let head = kept.head(&ask.clone().with("Expect", "100-continue"), ask.body.len());
        kept.stream.write_all(head.as_bytes()).await.unwrap();
        let reply = timeout(HANGS, kept.answer()).await.unwrap();
        assert_eq!(
            (reply.status, reply.header("connection")),
            (status, "close"),
            "{reply:?}"
        );
    }
}

/// Python's client writes all of a body before it reads the answer, which is on its way by then.
#[tokio::test]
async fn a_client_that_writes_before_it_reads_gets_the_refusal_of_a_large_body() {
    let client = Client::with_table().await;
    let mut kept = Kept::to(&client).await;
    let body = vec![b'x'; 60 * 1024 * 1024];
    let head = kept.head(&insert("r", 0), body.len());
    kept.stream.write_all(head.as_bytes()).await.unwrap();
    timeout(HANGS, kept.stream.write_all(&body))
        .await
        .unwrap()
        .expect("the server reads on");
    let reply = timeout(HANGS, kept.answer()).await.unwrap();
    assert_eq!(
        (reply.status, reply.header("connection")),
        (401, "close"),
        "{reply:?}"
    );
}

/// More than is discarded: the client reads the answer while it writes, and learns that the connection ends.
#[tokio::test]
async fn a_body_beyond_every_bound_is_announced_to_end_the_connection() {
    let client = Client::with_table().await;
    let kept = Kept::to(&client).await;
    let head = kept.head(&insert("r", 0), 1 << 30);
    let (mut answers, mut requests) = kept.stream.into_split();
    requests.write_all(head.as_bytes()).await.unwrap();
    let writes = tokio::spawn(async move {
        let part = vec![b'x'; 1 << 16];
        while requests.write_all(&part).await.is_ok() {}
    });
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    // A reset may follow the answer, because the client does not stop.
    while let Ok(length @ 1..) = timeout(HANGS, answers.read(&mut part)).await.unwrap() {
        answer.extend_from_slice(&part[..length]);
    }
    let reply = read(&answer).unwrap();
    assert_eq!(
        (reply.status, reply.header("connection")),
        (401, "close"),
        "{reply:?}"
    );
    timeout(HANGS, writes)
        .await
        .expect("the server closes its side")
        .unwrap();
}
