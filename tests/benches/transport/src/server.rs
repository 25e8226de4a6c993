use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::employee::{Plain, SALES, row_key};

/// A process that answers every get with an entity, after a delay.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(delay_ms: u32) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["serve", &delay_ms.to_string()])
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut port)
            .unwrap();
        Self {
            process,
            port: port.trim().parse().unwrap(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves until the process is ended.
pub(crate) async fn serve(delay: Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(answer_all(stream, delay));
    }
}

/// Answers the gets of one connection. A client sends the next one after the answer.
async fn answer_all(mut stream: TcpStream, delay: Duration) {
    stream.set_nodelay(true).unwrap();
    let of_zero = entity();
    let mut request = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut request).await {
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&request);
        let row = text
            .split_once("RowKey='")
            .map_or("", |(_, rest)| &rest[..row_key(0).len()]);
        let body = of_zero.replace(&row_key(0), row);
        request.clear();
        if !delay.is_zero() {
            sleep(delay).await;
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8\r\n\
             x-ms-request-id: 3f1a1b9c-0002-0049-5c1c-7d1f4e000000\r\nx-ms-version: 2020-12-06\r\n\
             Cache-Control: no-cache\r\nDate: Tue, 05 Mar 2024 10:00:00 GMT\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all((head + &body).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The answer of the service for an entity, with its ETag and Timestamp.
fn entity() -> String {
    let entity = serde_json::to_string(&Plain::new(SALES, 0)).unwrap();
    let (etag, time) = (
        "W/\\\"datetime'2024-03-05T10%3A00%3A00.1234567Z'\\\"",
        "2024-03-05T10:00:00.1234567Z",
    );
    format!(
        "{{\"odata.etag\":\"{etag}\",\"Timestamp\":\"{time}\",{}",
        &entity[1..]
    )
}
