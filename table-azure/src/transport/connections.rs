use std::time::Duration;

use async_trait::async_trait;
use azure_core::Result;
use azure_core::error::{Error, ErrorKind};
use azure_core::http::{AsyncRawResponse, HttpClient, Request, Url};
use http_body_util::LengthLimitError;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio::time::timeout;
use tower_service::Service as _;

use super::connection::{Connection, Unanswered};
use super::idle::Idle;
use super::message::{answer, host, message};
use crate::rest::too_long;

/// Maximum time to connect to a server, including TLS.
pub(super) const CONNECT: Duration = Duration::from_secs(20);
/// Interval of the operating system's keep-alive probes on a silent connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A pool of connections that stay open between requests.
#[derive(Debug)]
pub(super) struct Connections {
    connector: HttpsConnector<HttpConnector>,
    idle: Idle,
}

impl Connections {
    /// Returns `None` if TLS is not available on this machine.
    pub(super) fn new() -> Option<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_connect_timeout(Some(CONNECT));
        // The program may have installed its own provider.
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| aws_lc_rs::default_provider().into());
        let tls = HttpsConnectorBuilder::new().with_provider_and_platform_verifier(provider).ok()?;
        let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
        Some(Self { connector, idle: Idle::default() })
    }

    async fn open(&self, url: &Url) -> Result<Connection> {
        let uri = url.as_str().parse().map_err(|e| unreachable(url, e))?;
        let stream = timeout(CONNECT, self.connector.clone().call(uri)).await;
        let stream = stream.map_err(|e| unreachable(url, e))?.map_err(|e| unreachable(url, e))?;
        Connection::over(stream, url).await.map_err(|e| unreachable(url, e))
    }
}

#[async_trait]
impl HttpClient for Connections {
    async fn execute_request(&self, request: &Request) -> Result<AsyncRawResponse> {
        let (url, mut message) = (request.url(), message(request).await?);
        loop {
            let idle = self.idle.take(url);
            let was_idle = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => self.open(url).await?,
            };
            match connection.exchange(message).await {
                Ok(received) => {
                    // Polls the connection once more: it may have read `Connection: close` with the answer.
                    if connection.is_open() {
                        self.idle.put(connection);
                    }
                    return Ok(answer(received));
                }
                // The server closed the connection just before the request. No byte of it was sent, so
                // another connection may take it.
                Err(Unanswered { unsent: Some(unsent), .. }) if was_idle => message = unsent,
                Err(Unanswered { cause, unsent }) => return Err(broken_off(cause, unsent.is_some())),
            }
        }
    }
}

fn unreachable(url: &Url, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::with_error(ErrorKind::Connection, cause, format!("cannot connect to {}", host(url)))
}

fn broken_off(cause: Box<dyn std::error::Error + Send + Sync>, unsent: bool) -> Error {
    if cause.is::<LengthLimitError>() {
        return too_long();
    }
    let kind = if unsent { ErrorKind::Connection } else { ErrorKind::Io };
    Error::with_error(kind, cause, "the connection broke during the exchange")
}
