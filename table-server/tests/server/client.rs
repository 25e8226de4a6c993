//! A client that sends exactly what a test specifies, and signs it.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use table_server::{EMULATOR_ACCOUNT, EMULATOR_KEY, TestServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A client of a server.
pub(crate) struct Client {
    pub(crate) server: TestServer,
    pub(crate) address: String,
}

/// A request under construction.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    /// The path below the account, encoded.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// A received response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map(String::as_str)
            .unwrap_or_default()
    }

    /// Returns status and error code.
    pub(crate) fn refusal(&self) -> (u16, &str) {
        (self.status, self.header("x-ms-error-code"))
    }
}

impl Ask {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn json(self, body: impl Into<String>) -> Self {
        let accepted = self.headers.iter().any(|(name, _)| name == "Accept");
        let asked = if accepted {
            self
        } else {
            self.with("Accept", "application/json;odata=nometadata")
        };
        Self {
            body: body.into(),
            ..asked
        }
        .with("Content-Type", "application/json")
    }
}

pub(crate) fn sign(text: &str) -> String {
    let key = STANDARD.decode(EMULATOR_KEY).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

pub(crate) fn http_date(time: DateTime<Utc>) -> String {
    time.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

impl Client {
    pub(crate) async fn new() -> Self {
        let server = TestServer::start().await;
        let address = server.endpoint().split('/').nth(2).unwrap().to_owned();
        Self { server, address }
    }

    /// Starts a server with a table `abc`.
    pub(crate) async fn with_table() -> Self {
        let client = Self::new().await;
        client
            .server
            .store()
            .create_table(&"abc".parse().unwrap())
            .await
            .unwrap();
        client
    }

    /// Sends a request unchanged, without a credential.
    pub(crate) async fn plain(&self, ask: Ask) -> Reply {
        self.send(EMULATOR_ACCOUNT, ask).await
    }

    /// Sends a request to an account's URL, unchanged.
    pub(crate) async fn send(&self, account: &str, ask: Ask) -> Reply {
        let mut text = format!(
            "{} /{account}/{} HTTP/1.1\r\nHost: {}\r\n",
            ask.method, ask.path, self.address
        );
        for (name, value) in &ask.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !ask.body.is_empty() || ask.method != "GET" {
            text.push_str(&format!("Content-Length: {}\r\n", ask.body.len()));
        }
        text.push_str("Connection: close\r\n\r\n");
        text.push_str(&ask.body);
        let answer = self.raw(text.as_bytes()).await;
        read(&answer).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&answer)))
    }

    /// Sends a request signed with the account key.
    pub(crate) async fn owner(&self, ask: Ask) -> Reply {
        self.send(EMULATOR_ACCOUNT, signed(EMULATOR_ACCOUNT, ask))
            .await
    }

    /// Sends a request to the secondary endpoint, signed with the account key.
    pub(crate) async fn secondary(&self, ask: Ask) -> Reply {
        let account = format!("{EMULATOR_ACCOUNT}-secondary");
        self.send(&account, signed(&account, ask)).await
    }

    /// Sends bytes, and reads until the server closes the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        // The server may have closed before everything was written.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    }

    /// Inserts an entity and returns its ETag.
    pub(crate) async fn insert(&self, json: &str) -> String {
        let reply = self
            .owner(
                Ask::new("POST", "abc")
                    .json(json)
                    .with("Prefer", "return-no-content"),
            )
            .await;
        assert_eq!(reply.status, 204, "{reply:?}");
        reply.header("etag").to_owned()
    }
}

/// Signs a request with the account key.
pub(crate) fn signed(segment: &str, ask: Ask) -> Ask {
    let date = http_date(Utc::now());
    let content_type = ask
        .headers
        .iter()
        .find(|(name, _)| name == "Content-Type")
        .map_or("", |(_, value)| value);
    let (path, query) = ask.path.split_once('?').unwrap_or((&ask.path, ""));
    let comp = query.split('&').find_map(|pair| pair.strip_prefix("comp="));
    let comp = comp.map(|comp| format!("?comp={comp}")).unwrap_or_default();
    let text = format!(
        "{}\n\n{content_type}\n{date}\n/{EMULATOR_ACCOUNT}/{segment}/{path}{comp}",
        ask.method
    );
    let authorization = format!("SharedKey {EMULATOR_ACCOUNT}:{}", sign(&text));
    ask.with("x-ms-date", date)
        .with("Authorization", authorization)
}

/// Parses the first response in the bytes.
pub(crate) fn read(answer: &[u8]) -> Option<Reply> {
    let text = String::from_utf8_lossy(answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Some(Reply {
        status,
        headers: lines.filter_map(header).collect(),
        body: body.to_owned(),
    })
}
