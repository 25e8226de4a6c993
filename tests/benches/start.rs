//! The time in which a test has a server: `TestServer::start()`, with the runtime of a test, until the first answer.
//!
//! `cargo bench -p conformance --bench start`

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use table_server::TestServer;

const STARTS: usize = 50;

/// Returns the time until the server is started, and until it has answered.
fn start() -> (Duration, Duration) {
    let began = Instant::now();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(TestServer::start());
    let started = began.elapsed();
    let address = server.endpoint().split('/').nth(2).expect("an address");
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let request = format!("GET /_health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    (started, began.elapsed())
}

#[expect(clippy::print_stdout, reason = "the result of the benchmark")]
fn main() {
    let (mut started, mut answered): (Vec<_>, Vec<_>) = (0..STARTS).map(|_| start()).unzip();
    for (what, times) in [("started", &mut started), ("first answer", &mut answered)] {
        times.sort();
        println!(
            "{what}: median {:?}, longest {:?}",
            times[STARTS / 2],
            times[STARTS - 1]
        );
    }
}
