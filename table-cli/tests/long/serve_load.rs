//! `tables serve` under many connections and large bodies: its memory is bounded, and other clients are answered. The server is a process, whose
//! memory the system counts.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use table_azure::sas::{SasProtocol, TablePermissions, TableSas};
use table_core::model::Entity;
use table_core::query::Query;
use table_core::store::{Operation, TableStore as _, TableStoreExt as _};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;

use crate::serving::{Serving, run, table};

/// A line of a file of a process in `/proc` as a number.
fn proc_number(process: &str, file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/{file}")).expect("a running process");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect("the line");
    line.split_whitespace()
        .next()
        .expect("a number")
        .parse()
        .expect("a number")
}

/// The most memory that the server has had, in KiB.
fn peak(serving: &Serving) -> u64 {
    proc_number(&serving.process.id().to_string(), "status", "VmHWM:")
}

/// How many idle connections the server must keep.
const IDLE: usize = 10_000;

/// Raises the limit of open files of this process, which the server inherits, to what the idle connections and the other tests need.
fn raise_open_files() {
    let needed = IDLE as u64 + 1000;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` is no limit.
    if current.is_none_or(|current| current >= needed) {
        return;
    }
    assert!(
        maximum.is_none_or(|maximum| maximum >= needed),
        "this test opens {IDLE} connections and needs {needed} open files, and the hard limit of this process is {}: raise it by \
         `ulimit -Hn {needed}` as root, or by `--ulimit nofile={needed}` of a container",
        maximum.unwrap_or_default()
    );
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(needed),
            maximum,
        },
    )
    .expect("a limit below the hard limit");
}

async fn writes_and_reads(serving: &Serving, rows: std::ops::Range<usize>) {
    let client = serving.client();
    let before = client
        .query_all(&table(), &Query::new())
        .await
        .unwrap()
        .len();
    for row in rows.clone() {
        let entity = Entity::new("p", row.to_string()).unwrap().with("N", 1);
        client
            .write(&table(), Operation::Insert(entity))
            .await
            .unwrap();
    }
    assert_eq!(
        client
            .query_all(&table(), &Query::new())
            .await
            .unwrap()
            .len(),
        before + rows.len()
    );
}

#[test]
#[expect(clippy::print_stdout, reason = "nightly runs show the figure")]
fn idle_connections_cost_little_and_other_clients_are_answered() {
    raise_open_files();
    let serving = Serving::start(&["memory", "--connections", "10100"], &[], 1);
    run(async {
        serving.client().create_table(&table()).await.unwrap();
        writes_and_reads(&serving, 0..10).await;
    });
    let before = peak(&serving);
    let mut idle = Vec::with_capacity(IDLE);
    for n in 0..IDLE {
        let mut stream = TcpStream::connect(serving.address()).unwrap();
        // Every other client has begun a request that it never ends.
        if n % 2 == 0 {
            stream
                .write_all(b"GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: 127.0.0.1\r\nA: ")
                .unwrap();
        }
        idle.push(stream);
    }
    run(writes_and_reads(&serving, 10..60));
    let each = (peak(&serving) - before) * 1024 / IDLE as u64;
    println!("{IDLE} idle connections: {each} bytes each");
    assert!(each < 40 * 1024, "{each} bytes for each connection");
    // Those that are still open are served.
    for stream in idle.iter_mut().skip(1).step_by(2).take(100) {
        stream
            .write_all(b"GET /_health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    drop(idle);
    let (success, log) = serving.end();
    assert!(success && !log.contains("panic"), "{log}");
}

/// Creates the table and returns the query of a signature for it.
fn signature(serving: &Serving) -> String {
    let signature = run(async {
        let client = serving.client();
        client.create_table(&table()).await.unwrap();
        let sas = TableSas::new(
            &table(),
            TablePermissions::ALL,
            Utc::now() + TimeDelta::hours(1),
        );
        client
            .sign(&sas.with_protocol(SasProtocol::HttpsAndHttp))
            .unwrap()
    });
    let url = signature.url(&format!("http://{}/devstoreaccount1", serving.address()));
    url.as_str().split_once('?').expect("a query").1.to_owned()
}

/// Clients that ask for a page and read nothing of it.
#[test]
#[expect(clippy::print_stdout, reason = "nightly runs show the figure")]
fn unread_answers_need_bounded_memory() {
    const CLIENTS: usize = 300;
    let serving = Serving::start(&["memory", "--metrics"], &[], 1);
    let query = signature(&serving);
    let counted = |status: u16| {
        let metrics = serving.get("/_metrics");
        let name = format!(
            "table_server_requests_total{{operation=\"QueryEntities\",status=\"{status}\"}} "
        );
        let line = metrics.lines().find_map(|line| line.strip_prefix(&*name));
        line.map_or(0, |count| count.parse::<usize>().unwrap())
    };
    run(async {
        let client = serving.client();
        // More than a page: 200 rows of 30 KB.
        for row in 0..200 {
            let entity = Entity::new("p", row.to_string())
                .unwrap()
                .with("Text", "x".repeat(30_000));
            client
                .write(&table(), Operation::Insert(entity))
                .await
                .unwrap();
        }
        let before = peak(&serving);
        let request = format!(
            "GET /devstoreaccount1/Employees()?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n"
        );
        let mut deaf = Vec::new();
        for _ in 0..CLIENTS {
            let socket = TcpSocket::new_v4().unwrap();
            // The system keeps little of an answer, so that the server keeps it.
            socket.set_recv_buffer_size(4096).unwrap();
            let mut stream = socket
                .connect(serving.address().parse().unwrap())
                .await
                .unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            deaf.push(stream);
        }
        while counted(200) + counted(503) < CLIENTS {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Nobody reads, and others are answered.
        let entity = Entity::new("q", "1").unwrap().with("N", 1);
        client
            .write(&table(), Operation::Insert(entity.clone()))
            .await
            .unwrap();
        assert!(
            client
                .get(&table(), entity.key(), None)
                .await
                .unwrap()
                .is_some()
        );
        let (answered, more) = (counted(200), (peak(&serving) - before) / 1024);
        println!("{answered} of {CLIENTS} unread pages: {more} MiB");
        assert!(answered >= 100, "{answered}");
        assert!(more < 900, "{more} MiB");
        drop(deaf);
        assert_eq!(
            client
                .query_all(&table(), &Query::new())
                .await
                .unwrap()
                .len(),
            201
        );
    });
    let (success, log) = serving.end();
    assert!(success && !log.contains("panic"), "{log}");
}

#[test]
#[expect(clippy::print_stdout, reason = "nightly runs show the figure")]
fn large_bodies_at_once_need_bounded_memory() {
    let serving = Serving::start(&["memory"], &[], 1);
    let query = signature(&serving);
    let before = peak(&serving);
    let clients: Vec<_> = (0..64)
        .map(|n| {
            let (address, query) = (serving.address().to_owned(), query.clone());
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
                let head = format!(
                    "POST /devstoreaccount1/Employees?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
                     Accept: application/json\r\n"
                );
                // A length of 100 MB, or chunks without an announced end.
                let (length, chunk) = match n % 2 {
                    0 => ("Content-Length: 104857600\r\n\r\n", "x".repeat(0x10000)),
                    _ => ("Transfer-Encoding: chunked\r\n\r\n", format!("10000\r\n{}\r\n", "x".repeat(0x10000))),
                };
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(length.as_bytes());
                let mut sent = 0;
                while sent < 100 << 20 && stream.write_all(chunk.as_bytes()).is_ok() {
                    sent += chunk.len();
                }
                assert!(sent < 100 << 20, "the server took {sent} bytes");
            })
        })
        .collect();
    run(writes_and_reads(&serving, 0..50));
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    let more = (peak(&serving) - before) / 1024;
    println!("64 bodies of 100 MB: {more} MiB");
    // The bound of all bodies is 256 MiB; a growing buffer is as large again while it is copied.
    assert!(more < 600, "{more} MiB");
    let (success, log) = serving.end();
    assert!(success && !log.contains("panic"), "{log}");
}
