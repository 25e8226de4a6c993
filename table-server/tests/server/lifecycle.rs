//! Starting and stopping.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, StoreBuilder};
use table_core::memory::MemoryStore;
use table_server::{Account, EMULATOR_KEY, Limits, Server, StartError, TestServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Ask, read, signed};

fn free() -> std::net::SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[tokio::test]
async fn the_emulators_key_is_served_on_loopback_only() {
    let everywhere = "0.0.0.0:0".parse().unwrap();
    for account in [
        Account::emulator(),
        Account::new("mine", EMULATOR_KEY).unwrap(),
    ] {
        let started = Server::builder()
            .account(account, MemoryStore::new())
            .listen(everywhere)
            .start()
            .await;
        assert!(
            matches!(started, Err(StartError::PublicKey { .. })),
            "{started:?}"
        );
    }
    let nobody = Server::builder().listen(free()).start().await;
    assert!(matches!(nobody, Err(StartError::NoAccount)));
    let one = Server::builder()
        .account(Account::emulator(), MemoryStore::new())
        .listen(free())
        .start()
        .await
        .unwrap();
    let two = Server::builder()
        .account(Account::emulator(), MemoryStore::new())
        .listen(one.address())
        .start()
        .await;
    assert!(matches!(two, Err(StartError::Listen { .. })), "{two:?}");
    assert!(!format!("{one:?}").contains(&EMULATOR_KEY[..20]));
}

#[tokio::test]
async fn accounts_have_separate_stores_and_keys() {
    use table_azure::AzureTableStore;
    use table_core::store::TableStore;
    let first = Account::new("first", "Zmlyc3Q=").unwrap();
    let second = Account::new("second", "b2xk")
        .unwrap()
        .with_second_key("c2Vjb25k")
        .unwrap();
    let builder = Server::builder()
        .account(first, MemoryStore::new())
        .account(second, MemoryStore::new());
    let server = builder.listen(free()).start().await.unwrap();
    let open = |name: &str, key: &str| {
        let (scheme, endpoint) = ("http", server.endpoint(name));
        let text = format!(
            "DefaultEndpointsProtocol={scheme};AccountName={name};AccountKey={key};TableEndpoint={endpoint}"
        );
        AzureTableStore::from_connection_string(&text, None).unwrap()
    };
    let table = "Orders".parse().unwrap();
    open("first", "Zmlyc3Q=")
        .create_table(&table)
        .await
        .unwrap();
    assert_eq!(
        open("second", "b2xk")
            .list_tables(None, None)
            .await
            .unwrap()
            .items,
        []
    );
    assert_eq!(
        open("second", "c2Vjb25k")
            .list_tables(None, None)
            .await
            .unwrap()
            .items,
        []
    );
    assert!(
        open("second", "Zmlyc3Q=")
            .list_tables(None, None)
            .await
            .is_err()
    );
    assert!(server.connection_string("nobody").is_none());
    assert!(server.stop().await);
}

#[tokio::test]
async fn a_stop_answers_pending_requests_and_closes_other_connections() {
    let faults = FaultInjector::new(1);
    let store: Arc<dyn table_core::store::TableStore> = StoreBuilder::new(MemoryStore::new())
        .fault(faults.clone())
        .build();
    let builder = Server::builder()
        .account(Account::emulator(), Arc::clone(&store))
        .listen(free());
    let server = builder.start().await.unwrap();
    let address = server.address().to_string();
    let create = signed(
        "devstoreaccount1",
        Ask::new("POST", "Tables").json("{\"TableName\":\"abc\"}"),
    );
    let headers: String = create
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = create.body.len();
    let head = format!(
        "POST /devstoreaccount1/Tables HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: {length}\r\n\
         Expect: 100-continue\r\n\r\n"
    );
    let mut busy = TcpStream::connect(&address).await.unwrap();
    // The head of the request has arrived when the server stops; the body arrives later.
    busy.write_all(head.as_bytes()).await.unwrap();
    let mut asked = [0; 25];
    busy.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    let mut idle = TcpStream::connect(&address).await.unwrap();
    let stopping = tokio::spawn(server.stop());
    assert_eq!(idle.read(&mut [0; 16]).await.unwrap_or_default(), 0);
    busy.write_all(create.body.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    busy.read_to_end(&mut answer).await.unwrap();
    assert_eq!(
        read(&answer).unwrap().status,
        201,
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(stopping.await.unwrap());
    assert!(TcpStream::connect(&address).await.is_err());
    assert_eq!(store.list_tables(None, None).await.unwrap().items.len(), 1);
}

/// Guards against a test that does not end; no test expects an end within it.
const HANGS: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_stop_does_not_wait_for_heads_that_have_not_arrived() {
    let mut limits = Limits::default();
    // Longer than the guard.
    (limits.stop_time, limits.header_time) = (HANGS * 2, HANGS * 2);
    let builder = Server::builder()
        .account(Account::emulator(), MemoryStore::new())
        .listen(free())
        .limits(limits);
    let server = builder.start().await.unwrap();
    let mut first = TcpStream::connect(server.address()).await.unwrap();
    first.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
    let mut later = TcpStream::connect(server.address()).await.unwrap();
    later
        .write_all(b"HEAD /_health HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost:")
        .await
        .unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(later.read_u8().await.unwrap());
    }
    assert_eq!(read(&answer).unwrap().status, 200);
    let stopped = timeout(HANGS, server.stop())
        .await
        .expect("a stop that waits for no client");
    assert!(stopped, "no request was pending");
    for mut stream in [first, later] {
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or_default(), 0);
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_forever() {
    let mut limits = Limits::default();
    limits.stop_time = Duration::from_millis(100);
    // Longer than the guard: only the time of the stop ends the request.
    limits.body_time = HANGS * 2;
    let builder = Server::builder()
        .account(Account::emulator(), MemoryStore::new())
        .listen(free())
        .limits(limits);
    let server = builder.start().await.unwrap();
    let mut slow = TcpStream::connect(server.address()).await.unwrap();
    let create = signed(
        "devstoreaccount1",
        Ask::new("POST", "Tables").json("{\"TableName\":\"abc\"}"),
    );
    let headers: String = create
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "POST /devstoreaccount1/Tables HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    slow.read_exact(&mut [0; 25]).await.unwrap();
    let stopped = timeout(HANGS, server.stop())
        .await
        .expect("a stop that ends after its time");
    assert!(!stopped, "a request was pending");
    assert_eq!(slow.read(&mut [0; 16]).await.unwrap_or_default(), 0);
}

#[tokio::test]
async fn store_faults_are_reported_as_in_the_service() {
    let faults = FaultInjector::new(1);
    let store: Arc<dyn table_core::store::TableStore> = StoreBuilder::new(MemoryStore::new())
        .fault(faults.clone())
        .build();
    let server = TestServer::serve(Arc::clone(&store)).await;
    let address = server.endpoint().split('/').nth(2).unwrap().to_owned();
    let client = crate::client::Client { server, address };
    let create =
        |name: &str| Ask::new("POST", "Tables").json(format!("{{\"TableName\":\"{name}\"}}"));
    faults.script([Some(Fault::LoseAnswer)]);
    assert_eq!(
        client.owner(create("abc")).await.refusal(),
        (500, "OperationTimedOut")
    );
    assert_eq!(
        client.owner(create("abc")).await.refusal(),
        (409, "TableAlreadyExists")
    );
}

#[tokio::test]
async fn operators_see_health_readiness_and_metrics() {
    let faults = FaultInjector::new(1);
    let store = StoreBuilder::new(MemoryStore::new())
        .fault(faults.clone())
        .build();
    let start = |builder: table_server::ServerBuilder| {
        builder
            .account(Account::emulator(), Arc::clone(&store))
            .listen(free())
            .start()
    };
    let server = start(Server::builder().metrics().host("tables.example"))
        .await
        .unwrap();
    let port = server.address().port();
    assert_eq!(
        server.endpoint("a"),
        format!("http://tables.example:{port}/a")
    );
    let get = async |server: &Server, path: &str| {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        read(&answer).unwrap()
    };
    assert_eq!(get(&server, "/_ready").await.status, 200);
    faults.script([Some(Fault::FailBefore)]);
    assert_eq!(get(&server, "/_ready").await.status, 503);
    let health = get(&server, "/_health").await;
    // Clients learn when the server closes a connection that is idle.
    assert_eq!(
        (health.status, health.header("keep-alive")),
        (200, "timeout=60")
    );
    assert_eq!(get(&server, "/devstoreaccount1/abc").await.status, 401);
    let metrics = get(&server, "/_metrics").await;
    assert!(
        metrics
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    let line = "table_server_requests_total{operation=\"QueryEntities\",status=\"401\"} 1\n";
    assert!(metrics.body.contains(line), "{}", metrics.body);
    assert!(
        metrics.body.contains("table_server_connections_total 5\n"),
        "{}",
        metrics.body
    );
    let other = start(Server::builder()).await.unwrap();
    assert_eq!(get(&other, "/_metrics").await.status, 404);
}

#[tokio::test]
async fn a_read_only_server_refuses_every_write() {
    let store = MemoryStore::new();
    let builder = Server::builder()
        .account(Account::emulator(), store.clone())
        .listen(free());
    let server = builder.read_only().start().await.unwrap();
    let address = server.address().to_string();
    let client = crate::client::Client {
        server: TestServer::serve(store).await,
        address,
    };
    assert_eq!(client.owner(Ask::new("GET", "Tables")).await.status, 200);
    let batch = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\
        Content-Transfer-Encoding: binary\r\n\r\nDELETE /devstoreaccount1/abc(PartitionKey='a',RowKey='b') HTTP/1.1\r\n\
        If-Match: *\r\n\r\n\r\n--c--\r\n--b--\r\n";
    let group = Ask::new("POST", "$batch").with("Content-Type", "multipart/mixed; boundary=b");
    let group = client
        .owner(Ask {
            body: batch.to_owned(),
            ..group
        })
        .await;
    assert!(group.body.contains("HTTP/1.1 403 Forbidden"), "{group:?}");
    for ask in [
        Ask::new("POST", "Tables").json("{\"TableName\":\"abc\"}"),
        Ask::new("DELETE", "Tables('abc')"),
        Ask::new("POST", "abc").json("{\"PartitionKey\":\"a\",\"RowKey\":\"b\"}"),
        Ask::new("DELETE", "abc(PartitionKey='a',RowKey='b')").with("If-Match", "*"),
        Ask::new("PUT", "abc?comp=acl"),
        Ask::new("PUT", "?restype=service&comp=properties"),
    ] {
        let (method, path) = (ask.method, ask.path.clone());
        let reply = client.owner(ask).await;
        assert_eq!(
            reply.refusal(),
            (403, "InsufficientAccountPermissions"),
            "{method} {path}"
        );
    }
}

#[test]
fn a_test_server_runs_without_a_runtime() {
    let server = TestServer::start_on_thread();
    let address = server.endpoint().split('/').nth(2).unwrap().to_owned();
    assert!(std::net::TcpStream::connect(&address).is_ok());
    drop(server);
    assert!(std::net::TcpStream::connect(&address).is_err());
}
