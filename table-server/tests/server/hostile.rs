//! Malicious and broken clients: the server answers or closes the connection, keeps its data and stays
//! available.

use std::time::Duration;

use table_core::memory::MemoryStore;
use table_core::store::TableStore as _;
use table_server::{Account, Limits, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Ask, Client, read, signed};

async fn bounded(limits: Limits) -> Server {
    let builder = Server::builder().account(Account::emulator(), MemoryStore::new());
    builder
        .listen("127.0.0.1:0".parse().unwrap())
        .limits(limits)
        .start()
        .await
        .unwrap()
}

async fn still_answers(address: &str) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /_health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(read(&answer).unwrap().status, 200);
}

fn status(answer: &[u8]) -> Option<u16> {
    read(answer).map(|reply| reply.status)
}

#[tokio::test]
async fn invalid_requests_are_refused_and_the_server_stays_available() {
    let client = Client::with_table().await;
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random.to_le_bytes()
    };
    let mut inputs: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\r\n\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"GET /%00%FF/%C0%80 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(),
        b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET http://:0/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: h\r\nA\x00: b\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
    ];
    for _ in 0..50 {
        inputs.push((0..20).flat_map(|_| next()).chain(*b"\r\n\r\n").collect());
    }
    for input in &inputs {
        let mut stream = TcpStream::connect(&client.address).await.unwrap();
        let _ = stream.write_all(input).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let read =
            tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
        assert!(
            read.is_ok(),
            "{:?} got no end",
            String::from_utf8_lossy(input)
        );
        assert!(
            answer.is_empty() || status(&answer).is_some_and(|status| status >= 400),
            "{answer:?}"
        );
    }
    still_answers(&client.address).await;
}

/// With two lengths, or a length and chunks, servers and proxies may disagree about the end of a request.
#[tokio::test]
async fn requests_with_two_ends_do_not_smuggle_another() {
    let client = Client::with_table().await;
    let hidden = "GET /_health HTTP/1.1\r\nHost: h\r\n\r\n";
    for head in [
        format!("Content-Length: 0\r\nContent-Length: {}\r\n", hidden.len()),
        format!("Content-Length: 5, {}\r\n", hidden.len()),
        "Content-Length: 4\r\nTransfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding: \x0bchunked\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        format!("Content-Length : {}\r\n", hidden.len()),
        format!("Content-Length: +{}\r\n", hidden.len()),
        format!("Content-Length: 0\r\n Content-Length: {}\r\n", hidden.len()),
        "Content-Length: 99999999999999999999\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
    ] {
        let request =
            format!("POST /devstoreaccount1/abc HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n{hidden}");
        let answer = String::from_utf8_lossy(&client.raw(request.as_bytes()).await).into_owned();
        assert!(!answer.contains("200 OK"), "{head}: {answer}");
    }
    // Sizes of chunks that readers could understand in two ways.
    for size in [
        "0x5",
        "+5",
        "-5",
        "5 5",
        "FFFFFFFFFFFFFFFFF",
        "",
        "g",
        "5\u{0}",
    ] {
        let request = format!(
            "POST /devstoreaccount1/abc HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nhello\r\n0\r\n\r\n{hidden}"
        );
        let answer = String::from_utf8_lossy(&client.raw(request.as_bytes()).await).into_owned();
        assert!(!answer.contains("200 OK"), "{size:?}: {answer}");
    }
    // Chunks take precedence if both are given, and the connection ends with the response.
    let both = format!(
        "POST /devstoreaccount1/abc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
    );
    let answer = client.raw(both.as_bytes()).await;
    assert_eq!(
        String::from_utf8_lossy(&answer)
            .matches("HTTP/1.1 ")
            .count(),
        1,
        "{}",
        String::from_utf8_lossy(&answer)
    );
    still_answers(&client.address).await;
}

#[tokio::test]
async fn request_heads_are_bounded() {
    let client = Client::with_table().await;
    let long = "x".repeat(100_000);
    let line = format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n");
    let header = format!("GET / HTTP/1.1\r\nHost: h\r\nA: {long}\r\n\r\n");
    let many = format!(
        "GET / HTTP/1.1\r\nHost: h\r\n{}\r\n",
        "A: b\r\n".repeat(1000)
    );
    for request in [line, header, many] {
        let answer = client.raw(request.as_bytes()).await;
        assert!(
            matches!(status(&answer), None | Some(400 | 414 | 431)),
            "{:?}",
            status(&answer)
        );
    }
    still_answers(&client.address).await;
}

#[tokio::test]
async fn large_bodies_are_refused_with_and_without_a_length() {
    let client = Client::with_table().await;
    let six = format!(
        "{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":\"{}\"}}",
        "x".repeat(6 << 20)
    );
    let reply = client.owner(Ask::new("POST", "abc").json(six)).await;
    assert_eq!(reply.refusal(), (413, "RequestBodyTooLarge"));
    let head = |length: &str| {
        let ask = signed("devstoreaccount1", Ask::new("POST", "abc").json(""));
        let headers: String = ask
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!(
            "POST /devstoreaccount1/abc HTTP/1.1\r\nHost: {}\r\n{headers}{length}\r\n\r\n",
            client.address
        )
    };
    // A hundred megabytes that are never sent.
    let answer = client
        .raw(head("Content-Length: 104857600").as_bytes())
        .await;
    assert_eq!(status(&answer), Some(413));
    let mut stream = TcpStream::connect(&client.address).await.unwrap();
    stream
        .write_all(head("Transfer-Encoding: chunked").as_bytes())
        .await
        .unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut sent = 0;
    while stream.write_all(chunk.as_bytes()).await.is_ok() && sent < 200 << 20 {
        sent += chunk.len();
    }
    assert!(sent < 100 << 20, "{sent} bytes were taken");
    // The server reads no body of a client without permission.
    let answer = client
        .raw(b"POST /devstoreaccount1/abc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000000\r\n\r\n")
        .await;
    assert_eq!(status(&answer), Some(401));
    still_answers(&client.address).await;
}

#[tokio::test]
async fn slow_heads_and_bodies_time_out() {
    let mut limits = Limits::default();
    limits.header_time = Duration::from_millis(300);
    limits.body_time = Duration::from_millis(300);
    let server = bounded(limits).await;
    let address = server.address().to_string();
    let slow = TcpStream::connect(&address).await.unwrap();
    let (mut answers, mut head) = slow.into_split();
    // A head without an end, one byte at a time: each byte is in time, and the head is not.
    let drips = tokio::spawn(async move {
        let start = b"GET /_health HTTP/1.1\r\nHost: h\r\nA: ";
        for byte in start.iter().copied().chain(std::iter::repeat(b'a')) {
            if head.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let mut answer = Vec::new();
    // Far below the time in which the head reaches its bound of bytes.
    let closed =
        tokio::time::timeout(Duration::from_secs(30), answers.read_to_end(&mut answer)).await;
    assert!(closed.is_ok(), "the server reads a head without an end");
    assert!(matches!(status(&answer), None | Some(408)), "{answer:?}");
    drips.await.unwrap();
    let ask = signed("devstoreaccount1", Ask::new("POST", "Tables").json(""));
    let headers: String = ask
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request = format!(
        "POST /devstoreaccount1/Tables HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: 10\r\n\r\n{{"
    );
    let mut slow = TcpStream::connect(&address).await.unwrap();
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), slow.read_to_end(&mut answer))
        .await
        .unwrap();
    assert_eq!(
        status(&answer),
        Some(408),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    still_answers(&address).await;
}

/// A client that requests much and reads nothing loses its connection.
#[tokio::test]
async fn unread_responses_time_out() {
    let mut limits = Limits::default();
    limits.write_time = Duration::from_millis(300);
    limits.connections = 1;
    let store = MemoryStore::new();
    let table = "abc".parse().unwrap();
    store.create_table(&table).await.unwrap();
    for n in 0..100 {
        let entity = table_core::model::Entity::new("p", n.to_string())
            .unwrap()
            .with("A", vec![1u8; 60_000]);
        store
            .write(&table, table_core::store::Operation::Insert(entity))
            .await
            .unwrap();
    }
    let builder = Server::builder()
        .account(Account::emulator(), store)
        .limits(limits);
    let server = builder
        .listen("127.0.0.1:0".parse().unwrap())
        .start()
        .await
        .unwrap();
    let address = server.address().to_string();
    let ask = signed("devstoreaccount1", Ask::new("GET", "abc()"));
    let headers: String = ask
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request =
        format!("GET /devstoreaccount1/abc() HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
    let mut deaf = TcpStream::connect(&address).await.unwrap();
    deaf.write_all(request.repeat(20).as_bytes()).await.unwrap();
    // The only permit is free again once the server has closed the connection.
    tokio::time::timeout(Duration::from_secs(20), still_answers(&address))
        .await
        .unwrap();
    drop(deaf);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let client = Client::with_table().await;
    let ask = |row: &str| {
        let path = format!("abc(PartitionKey='p',RowKey='{row}')");
        let ask = signed(
            "devstoreaccount1",
            Ask::new("GET", path.clone()).with("x-ms-client-request-id", row),
        );
        let headers: String = ask
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!(
            "GET /devstoreaccount1/{path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n",
            client.address
        )
    };
    let mut requests: String = (0..50).map(|n| ask(&format!("row-{n}"))).collect();
    requests.push_str("GET /_health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let answer = String::from_utf8(client.raw(requests.as_bytes()).await).unwrap();
    let ids: Vec<_> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("x-ms-client-request-id: "))
        .collect();
    assert_eq!(ids, (0..50).map(|n| format!("row-{n}")).collect::<Vec<_>>());
}

/// The last write is cut off in its body: those before it are carried out and answered, and it is not.
#[tokio::test]
async fn pipelined_writes_before_a_broken_one_are_kept() {
    let client = Client::with_table().await;
    let insert = |row: usize| {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
        let ask = signed("devstoreaccount1", Ask::new("POST", "abc").json(body));
        let headers: String = ask
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!(
            "POST /devstoreaccount1/abc HTTP/1.1\r\nHost: {}\r\nPrefer: return-no-content\r\n{headers}Content-Length: {}\r\n\r\n{}",
            client.address,
            ask.body.len(),
            ask.body
        )
    };
    let requests: String = (0..50).map(insert).collect();
    let mut stream = TcpStream::connect(&client.address).await.unwrap();
    stream
        .write_all(&requests.as_bytes()[..requests.len() - 5])
        .await
        .unwrap();
    let mut answers = String::new();
    while answers.matches("HTTP/1.1 204").count() < 49 {
        let mut more = [0; 4096];
        let read = stream.read(&mut more).await.unwrap();
        assert_ne!(read, 0, "{answers}");
        answers.push_str(std::str::from_utf8(&more[..read]).unwrap());
    }
    drop(stream);
    still_answers(&client.address).await;
    let table = "abc".parse().unwrap();
    let stored = client
        .server
        .store()
        .query(&table, &table_core::query::Query::new(), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(stored.items.len(), 49);
}

#[tokio::test]
async fn connections_are_bounded_and_idle_ones_are_closed() {
    let mut limits = Limits::default();
    limits.connections = 20;
    limits.header_time = Duration::from_millis(500);
    let server = bounded(limits).await;
    let address = server.address().to_string();
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(TcpStream::connect(&address).await.unwrap());
    }
    tokio::time::timeout(Duration::from_secs(30), still_answers(&address))
        .await
        .unwrap();
}

#[tokio::test]
async fn excessive_json_and_batches_are_refused() {
    let client = Client::with_table().await;
    let deep = format!("{{\"A\":{}", "[".repeat(1_000_000));
    let many: String = (0..200_000).map(|n| format!("\"P{n}\":1,")).collect();
    for (body, code) in [
        (deep, "InvalidInput"),
        (format!("{{{many}\"Z\":1}}"), "TooManyProperties"),
        (
            "{\"PartitionKey\":\"\\uD800\",\"RowKey\":\"\"}".to_owned(),
            "InvalidInput",
        ),
        ("\u{0}".repeat(1000), "InvalidInput"),
    ] {
        assert_eq!(
            client
                .owner(Ask::new("POST", "abc").json(body))
                .await
                .refusal(),
            (400, code)
        );
    }
    let batch = Ask::new("POST", "$batch").with("Content-Type", "multipart/mixed; boundary=b");
    for body in [
        "--b\r\n".repeat(500_000),
        "--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n".repeat(10_000),
    ] {
        let reply = client
            .owner(Ask {
                body,
                ..batch.clone()
            })
            .await;
        assert_eq!(reply.refusal(), (400, "InvalidInput"));
    }
    let filter = format!("abc()?$filter={}", "(".repeat(20_000));
    assert_eq!(
        client.owner(Ask::new("GET", filter)).await.refusal(),
        (400, "InvalidInput")
    );
    still_answers(&client.address).await;
}
