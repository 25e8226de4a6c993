//! Sends requests to servers of the Table protocol and prints their throughput, for each kind of request with 1 and 32 connections. The servers take
//! turns at each line of the table.
//!
//! `bench-server SECONDS FILL_SECONDS ENTITIES[,ENTITIES…] NAME=ADDRESS=PROCESS…`: the seconds of each measurement; the longest time in which a server
//! is filled, after which the numbers of entities that it did not reach are left out; the numbers of entities; and the servers of the emulator's
//! account with their process ids, for their CPU time.

use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

const ACCOUNT: &str = "devstoreaccount1";
/// The emulator's public key.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const TABLE: &str = "Speed";
/// Connections that fill a table.
const FILLING: usize = 8;

#[derive(Clone, Copy)]
enum Operation {
    Get,
    Insert,
    Group,
    Scan,
}

/// A request without its signature.
struct RequestTemplate {
    method: &'static str,
    /// Below the account.
    path: String,
    query: &'static str,
    content_type: &'static str,
    body: String,
}

impl Operation {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Get, "get"),
        (Self::Insert, "insert"),
        (Self::Group, "group of 100"),
        (Self::Scan, "page of 1,000"),
    ];

    /// The `n`th request to a table that was filled with this number of entities. The numbers of inserts are never used twice.
    fn request(self, n: usize, entities: usize) -> RequestTemplate {
        match self {
            Self::Get => {
                let n = (n * 7919) % entities;
                let path = format!("{TABLE}(PartitionKey='p{:06}',RowKey='{n:08}')", n / 100);
                RequestTemplate {
                    method: "GET",
                    path,
                    query: "",
                    content_type: "",
                    body: String::new(),
                }
            }
            Self::Insert => RequestTemplate {
                method: "POST",
                path: TABLE.to_owned(),
                query: "",
                content_type: "application/json",
                body: entity(&format!("i{:03}", n % 100), n),
            },
            Self::Group => group(&format!("g{n:08}"), (n * 100) % 100_000_000),
            Self::Scan => RequestTemplate {
                method: "GET",
                path: format!("{TABLE}()"),
                query: "?$top=1000",
                content_type: "",
                body: String::new(),
            },
        }
    }

    /// The first request number of this operation: an insert writes one entity with the number, a group 100 entities from 100 × the number on.
    const fn first_request(self) -> usize {
        match self {
            Self::Insert => 20_000_000,
            Self::Group => 400_000,
            Self::Get | Self::Scan => 0,
        }
    }
}

/// An entity of about 250 bytes.
fn entity(partition: &str, n: usize) -> String {
    format!(
        "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{n:08}\",\"Name\":\"Employee number {n}\",\"Age\":{},\"Salary\":{}.5,\
         \"Active\":true,\"Email\":\"employee{n}@contoso.example\",\"Note\":\"Has worked in this department since the first day.\"}}",
        n % 60,
        n % 9000
    )
}

fn group(partition: &str, first: usize) -> RequestTemplate {
    let mut body = String::from(
        "--batch_a1e9d677-b28b-435e-a89e-87e6a768a431\r\nContent-Type: multipart/mixed; boundary=changeset_8a28b620-b4bb-458c-a177-0959fb14c977\r\n\r\n",
    );
    for n in first..first + 100 {
        let json = entity(partition, n);
        body.push_str(&format!(
            "--changeset_8a28b620-b4bb-458c-a177-0959fb14c977\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST http://127.0.0.1:10002/{ACCOUNT}/{TABLE} HTTP/1.1\r\n\
             Accept: application/json;odata=nometadata\r\nPrefer: return-no-content\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{json}\r\n",
            json.len()
        ));
    }
    body.push_str("--changeset_8a28b620-b4bb-458c-a177-0959fb14c977--\r\n--batch_a1e9d677-b28b-435e-a89e-87e6a768a431--\r\n");
    RequestTemplate {
        method: "POST",
        path: "$batch".to_owned(),
        query: "",
        content_type: "multipart/mixed; boundary=batch_a1e9d677-b28b-435e-a89e-87e6a768a431",
        body,
    }
}

/// A connection that sends one request at a time.
struct Client {
    stream: TcpStream,
    host: String,
    mac: Hmac<Sha256>,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(host: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let mac = Hmac::new_from_slice(&STANDARD.decode(KEY)?)?;
        Ok(Self {
            stream,
            host: host.to_owned(),
            mac,
            buffer: Vec::with_capacity(1 << 20),
        })
    }

    fn text(&self, request: &RequestTemplate) -> String {
        let RequestTemplate {
            method,
            path,
            query,
            content_type,
            body,
        } = request;
        let date = chrono::Utc::now().format("%a, %d %b %Y %H:%M:%S GMT");
        let mut mac = self.mac.clone();
        let path = path.replace('\'', "%27");
        mac.update(
            format!("{method}\n\n{content_type}\n{date}\n/{ACCOUNT}/{ACCOUNT}/{path}").as_bytes(),
        );
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let typed = if content_type.is_empty() {
            String::new()
        } else {
            format!("Content-Type: {content_type}\r\n")
        };
        format!(
            "{method} /{ACCOUNT}/{path}{query} HTTP/1.1\r\nHost: {}\r\nx-ms-version: 2019-02-02\r\nx-ms-date: {date}\r\nAuthorization: SharedKey \
             {ACCOUNT}:{signature}\r\nAccept: application/json;odata=nometadata\r\nDataServiceVersion: 3.0\r\nPrefer: return-no-content\r\n\
             {typed}Content-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        )
    }

    /// Sends a request and returns the body of its answer.
    async fn send(&mut self, request: &RequestTemplate) -> Result<(u16, Vec<u8>), Failure> {
        let text = self.text(request);
        self.stream.write_all(text.as_bytes()).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            self.more().await?;
        };
        let lines = String::from_utf8_lossy(&self.buffer[..head]).to_ascii_lowercase();
        let status = lines
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .ok_or("no status")?;
        let header = |name: &str| {
            lines
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|value| value.trim().to_owned())
        };
        let start = head + 4;
        if let Some(length) = header("content-length:") {
            let length: usize = length.parse()?;
            while self.buffer.len() < start + length {
                self.more().await?;
            }
            return Ok((status, self.buffer[start..start + length].to_vec()));
        }
        if header("transfer-encoding:").is_none() {
            return Ok((status, Vec::new()));
        }
        // Chunks; the last one is empty.
        while !self.buffer.ends_with(b"\r\n0\r\n\r\n") && &self.buffer[start..] != b"0\r\n\r\n" {
            self.more().await?;
        }
        Ok((status, content_of_chunks(&self.buffer[start..])?))
    }

    async fn more(&mut self) -> Result<(), Failure> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(())
    }
}

/// The content of a complete body in chunks.
fn content_of_chunks(mut chunks: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::with_capacity(chunks.len());
    loop {
        let end = find(chunks, b"\r\n").ok_or("a chunk has no size")?;
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end])?.trim(), 16)?;
        if size == 0 {
            return Ok(content);
        }
        let (start, end) = (end + 2, end + 2 + size);
        content.extend_from_slice(chunks.get(start..end).ok_or("a chunk is cut off")?);
        chunks = chunks.get(end + 2..).ok_or("a chunk is cut off")?;
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Fails unless the answer is a success with the expected content.
fn check(operation: Operation, status: u16, body: &[u8]) -> Result<(), Failure> {
    let parts = || {
        body.windows(12)
            .filter(|window| *window == b"HTTP/1.1 204")
            .count()
    };
    let is_done = match operation {
        Operation::Get => status == 200 && find(body, b"\"RowKey\"").is_some(),
        Operation::Insert => status == 204,
        Operation::Group => status == 202 && parts() == 100,
        Operation::Scan => {
            status == 200
                && body
                    .windows(8)
                    .filter(|window| *window == b"\"RowKey\"")
                    .count()
                    == 1000
        }
    };
    if is_done {
        Ok(())
    } else {
        Err(format!(
            "status {status}: {}",
            String::from_utf8_lossy(&body[..body.len().min(400)])
        )
        .into())
    }
}

/// CPU seconds of a process, and of its finished threads.
fn cpu(process: &str) -> Result<f64, Failure> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = text.rsplit_once(") ").ok_or("/proc/PID/stat")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    // Fields 14 and 15 of proc(5), in ticks of the clock: hundredths of a second where `sysconf(_SC_CLK_TCK)` is 100, as on current systems.
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

/// A server that is measured.
struct Server {
    name: String,
    host: String,
    process: String,
    /// The entities in its table that were there before the measurements.
    entities: usize,
    /// The numbers of the next requests.
    next_insert: usize,
    next_group: usize,
}

/// The result of a measurement.
struct Rate {
    per_second: f64,
    /// CPU time for each request, in microseconds.
    server: f64,
    generator: f64,
}

impl Server {
    fn of(argument: &str) -> Result<Self, Failure> {
        let parts: Vec<&str> = argument.split('=').collect();
        let [name, host, process] = parts.as_slice() else {
            return Err(format!("{argument}: NAME=ADDRESS=PROCESS").into());
        };
        let [name, host, process] = [*name, *host, *process].map(str::to_owned);
        Ok(Self {
            name,
            host,
            process,
            entities: 0,
            next_insert: Operation::Insert.first_request(),
            next_group: Operation::Group.first_request(),
        })
    }

    async fn create(&self) -> Result<(), Failure> {
        let create = RequestTemplate {
            method: "POST",
            path: "Tables".to_owned(),
            query: "",
            content_type: "application/json",
            body: format!("{{\"TableName\":\"{TABLE}\"}}"),
        };
        let (status, body) = Client::connect(&self.host).await?.send(&create).await?;
        if status != 201 && status != 204 {
            return Err(format!(
                "the table is not created: {status} {}",
                String::from_utf8_lossy(&body)
            )
            .into());
        }
        Ok(())
    }

    /// Fills the table up to this number of entities, in partitions of 100. Returns whether the time sufficed.
    async fn fill(&mut self, entities: usize, time: Duration) -> Result<bool, Failure> {
        let started = Instant::now();
        let (first, last) = (self.entities / 100, entities / 100);
        let next = Arc::new(AtomicUsize::new(first));
        let mut clients = JoinSet::new();
        for _ in 0..FILLING {
            let (next, host) = (next.clone(), self.host.clone());
            clients.spawn(async move {
                let mut client = Client::connect(&host).await?;
                loop {
                    let partition = next.fetch_add(1, Ordering::Relaxed);
                    if partition >= last || started.elapsed() > time {
                        return Ok::<_, Failure>(partition);
                    }
                    let (status, body) = client
                        .send(&group(&format!("p{partition:06}"), partition * 100))
                        .await?;
                    check(Operation::Group, status, &body)?;
                }
            });
        }
        let mut reached = last;
        while let Some(client) = clients.join_next().await {
            reached = reached.min(client??);
        }
        let elapsed = started.elapsed().as_secs_f64();
        eprintln!(
            "{}: {} entities after {elapsed:.0} s, {:.0} entities per second, {} MiB of memory",
            self.name,
            reached * 100,
            (reached - first) as f64 * 100.0 / elapsed,
            memory(&self.process)?
        );
        self.entities = reached * 100;
        Ok(reached == last)
    }

    async fn measure(
        &mut self,
        operation: Operation,
        connections: usize,
        time: Duration,
    ) -> Result<Rate, Failure> {
        let first = match operation {
            Operation::Insert => self.next_insert,
            Operation::Group => self.next_group,
            Operation::Get | Operation::Scan => 0,
        };
        let (server, generator) = (cpu(&self.process)?, cpu("self")?);
        let (requests, elapsed) = measure(
            operation,
            &self.host,
            connections,
            time,
            first,
            self.entities,
        )
        .await?;
        match operation {
            Operation::Insert => self.next_insert += requests + connections,
            Operation::Group => self.next_group += requests + connections,
            Operation::Get | Operation::Scan => {}
        }
        let each = |cpu: f64| 1e6 * cpu / requests as f64;
        Ok(Rate {
            per_second: requests as f64 / elapsed,
            server: each(cpu(&self.process)? - server),
            generator: each(cpu("self")? - generator),
        })
    }
}

/// Memory of a process, in MiB.
fn memory(process: &str) -> Result<u64, Failure> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("/proc/PID/status")?;
    Ok(line
        .split_whitespace()
        .next()
        .ok_or("/proc/PID/status")?
        .parse::<u64>()?
        / 1024)
}

async fn measure(
    operation: Operation,
    host: &str,
    connections: usize,
    time: Duration,
    first: usize,
    entities: usize,
) -> Result<(usize, f64), Failure> {
    let (next, done) = (
        Arc::new(AtomicUsize::new(first)),
        Arc::new(AtomicUsize::new(0)),
    );
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        let (next, done, host) = (next.clone(), done.clone(), host.to_owned());
        clients.spawn(async move {
            let mut client = Client::connect(&host).await?;
            while started.elapsed() < time {
                let request = operation.request(next.fetch_add(1, Ordering::Relaxed), entities);
                let (status, body) = client.send(&request).await?;
                check(operation, status, &body)?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok((
        done.load(Ordering::Relaxed),
        started.elapsed().as_secs_f64(),
    ))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, fill_seconds, sizes, servers @ ..] = arguments.as_slice() else {
        return Err(
            "usage: bench-server SECONDS FILL_SECONDS ENTITIES[,ENTITIES…] NAME=ADDRESS=PROCESS…"
                .into(),
        );
    };
    let time = Duration::from_secs_f64(seconds.parse()?);
    let fill_time = Duration::from_secs_f64(fill_seconds.parse()?);
    let mut servers = servers
        .iter()
        .map(|server| Server::of(server))
        .collect::<Result<Vec<_>, _>>()?;
    for server in &servers {
        server.create().await?;
    }
    println!(
        "| entities | request | in flight | server | per second | server CPU µs | generator CPU µs | generator's share of the CPU time | first server, times faster |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for size in sizes.split(',') {
        let size: usize = size.parse()?;
        let mut filled = Vec::new();
        for server in &mut servers {
            if server.fill(size, fill_time).await? {
                filled.push(server);
            }
        }
        // Reads first, so that they see the number of entities of the line.
        for (operation, label) in [
            Operation::ALL[0],
            Operation::ALL[3],
            Operation::ALL[1],
            Operation::ALL[2],
        ] {
            for connections in [1, 32] {
                let mut first = None;
                for server in &mut filled {
                    let rate = server.measure(operation, connections, time).await?;
                    let best = *first.get_or_insert(rate.per_second);
                    println!(
                        "| {size} | {label} | {connections} | {} | {:.0} | {:.0} | {:.0} | {:.0} % | {:.1} |",
                        server.name,
                        rate.per_second,
                        rate.server,
                        rate.generator,
                        100.0 * rate.generator / (rate.generator + rate.server),
                        best / rate.per_second
                    );
                }
            }
        }
    }
    Ok(())
}
