//! A server on this machine that sends scripted answers and records the requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// One received request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// `GET /path?query HTTP/1.1`
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Closes the connection without an answer: the effect may have happened.
    Lost,
    /// Sends these bytes, fewer than announced, and closes the connection.
    CutOff(Vec<u8>),
    /// Never answers.
    Silence,
    /// Sends these bytes, then sends more without end.
    Endless(Vec<u8>),
    /// Computes the answer from the requests so far.
    By(fn(&[Asked]) -> Answer),
}

/// Returns an answer with a status line, headers and a body of known length.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    Answer::Bytes(message(status, headers, body, body.len()))
}

/// Returns an answer whose body has no announced length and does not end.
pub(crate) fn endless(status: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let text = String::from_utf8(message(status, headers, body, 0)).unwrap();
    Answer::Endless(
        text.replacen("content-length: 0", "connection: close", 1)
            .into_bytes(),
    )
}

/// Returns an answer that announces more bytes than it sends.
pub(crate) fn cut_off(status: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    Answer::CutOff(message(status, headers, body, body.len() + 100))
}

fn message(status: &str, headers: &[(&str, &str)], body: &str, length: usize) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    (text + "\r\n" + body).into_bytes()
}

/// The running server.
pub(crate) struct Server {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server that gives the answers in order and repeats the last one.
    pub(crate) async fn start(answers: impl Into<Vec<Answer>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/acc", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (connections, sent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let server = Self {
            address,
            asked,
            connections,
            sent,
        };
        let (asked, connections) = (Arc::clone(&server.asked), Arc::clone(&server.connections));
        tokio::spawn(serve(
            listener,
            answers.into(),
            asked,
            connections,
            Arc::clone(&server.sent),
        ));
        server
    }

    /// The number of bytes of endless bodies that clients have read.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the request, after checking that there was only one.
    pub(crate) fn only(&self) -> Asked {
        let asked = self.asked();
        assert_eq!(asked.len(), 1, "expected one request: {asked:?}");
        asked[0].clone()
    }
}

async fn serve(
    listener: TcpListener,
    answers: Vec<Answer>,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(converse(
            stream,
            answers.clone(),
            Arc::clone(&asked),
            Arc::clone(&sent),
        ));
    }
}

async fn converse(
    stream: TcpStream,
    answers: Vec<Answer>,
    asked: Arc<Mutex<Vec<Asked>>>,
    sent: Arc<AtomicUsize>,
) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let asked = {
            let mut asked = asked.lock().unwrap();
            asked.push(request);
            asked.clone()
        };
        let mut answer = answers[(asked.len() - 1).min(answers.len() - 1)].clone();
        while let Answer::By(make) = answer {
            answer = make(&asked);
        }
        match answer {
            Answer::Bytes(bytes) => stream.get_mut().write_all(&bytes).await.unwrap(),
            Answer::CutOff(bytes) => {
                stream.get_mut().write_all(&bytes).await.unwrap();
                return;
            }
            Answer::Endless(mut bytes) => {
                while stream.get_mut().write_all(&bytes).await.is_ok() {
                    sent.fetch_add(bytes.len(), Ordering::Relaxed);
                    bytes.resize(1 << 20, b' ');
                }
                return;
            }
            Answer::Lost => return,
            Answer::Silence | Answer::By(_) => std::future::pending().await,
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut asked = Asked {
        line: line.trim_end().to_owned(),
        headers,
        body: String::new(),
    };
    let length = asked
        .header("content-length")
        .map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    asked.body = String::from_utf8(body).unwrap();
    Some(asked)
}
