//! HTTP/1.1 transport, used if the caller sets no transport: the pooled client of `hyper-util`, or `reqwest` where the environment names a
//! proxy. Requests to this machine never use a proxy: over plain http, it would receive the signature of the request.
//!
//! `reqwest` everywhere would be less code, and a third more instructions for a get: it converts each request and parses its URL again.
//! Connections of our own, which the request on them polled, took 6 % fewer than this pool: not worth 400 lines
//! (docs/performance.md, *Connections*). The client that `azure_core` would make logs the URL of every request, which contains keys.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::{HeaderName, HeaderValue, Headers};
use azure_core::http::{AsyncRawResponse, Body, HttpClient, Request, Transport, Url};
use azure_core::{Bytes, Result};
use futures_util::{AsyncReadExt as _, TryStreamExt as _};
use http::Uri;
use http::header::HeaderMap;
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use tower_service::Service;

use crate::endpoint::is_loopback;
use crate::rest::PROXY;

/// Maximum time to connect to a server: the host name's address, TCP and TLS together.
const MAX_CONNECT: Duration = Duration::from_secs(20);
/// Interval of the operating system's keep-alive probes on a silent connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long an idle connection is kept. Azure closes it after four minutes
/// (<https://learn.microsoft.com/azure/load-balancer/load-balancer-tcp-reset>).
const IDLE: Duration = Duration::from_secs(90);
/// The same for a server on this machine. Azurite closes after five seconds (Node.js's `keepAliveTimeout`). A write that crosses the
/// close is ambiguous, and a new connection to this machine costs little.
const IDLE_LOCAL: Duration = Duration::from_secs(2);

/// Maximum time of a request of another client, of whose requests the library does not limit the time.
const MAX_EXCHANGE: Duration = Duration::from_secs(60);

/// Returns the transport for these endpoints of one account. Returns `None` if TLS is not available; then `azure_core` uses its own transport.
///
/// A connect takes at most half of `request_timeout`: a request whose whole time has passed may have been sent, and one without a
/// connection was not.
pub(crate) fn for_endpoints<'a>(
    endpoints: impl IntoIterator<Item = &'a Url>,
    request_timeout: Duration,
) -> Option<Transport> {
    let limit = MAX_CONNECT.min(request_timeout / 2);
    let matcher = Matcher::from_system();
    let mut idle = IDLE_LOCAL;
    let mut is_proxied = false;
    for endpoint in endpoints {
        if is_loopback(endpoint) {
            continue;
        }
        idle = IDLE;
        is_proxied |= matcher.intercept(&uri(endpoint).ok()?).is_some();
    }
    let proxies = if is_proxied {
        Some(Proxies {
            matcher,
            client: Proxied::new(idle, limit)?,
        })
    } else {
        None
    };
    Some(Transport::new(Arc::new(Http {
        direct: Pooled::new(idle, limit)?,
        proxies,
    })))
}

/// Returns an HTTP transport for other clients of the Azure SDK, such as key vaults and credentials. Pass it in their `ClientOptions`.
///
/// Requests to this machine never use a proxy, unlike those of the transport of `azure_core`: a credential that asks the managed identity
/// endpoint of an app service (`http://127.0.0.1:…`) sends it a secret. Other requests use the proxies that the environment names. A request
/// takes at most 60 seconds. Returns `None` if TLS is not available.
pub fn transport() -> Option<Transport> {
    let proxies = Proxies {
        matcher: Matcher::from_system(),
        client: Proxied::new(IDLE, MAX_CONNECT)?,
    };
    let http = Http {
        direct: Pooled::new(IDLE, MAX_CONNECT)?,
        proxies: Some(proxies),
    };
    Some(Transport::new(Arc::new(Whole(http))))
}

/// Sends each request to its server, or through a proxy that the environment names for it.
#[derive(Debug)]
struct Http {
    direct: Pooled,
    /// `None` if no endpoint has a proxy.
    proxies: Option<Proxies>,
}

/// The proxies that the environment names.
#[derive(Debug)]
struct Proxies {
    matcher: Matcher,
    client: Proxied,
}

impl Proxies {
    /// Returns the proxy of a request; `None` if the environment names none, or if the request goes to this machine.
    fn proxy_of(&self, url: &Url) -> Result<Option<Intercept>> {
        if is_loopback(url) {
            return Ok(None);
        }
        Ok(self.matcher.intercept(&uri(url)?))
    }
}

#[async_trait]
impl HttpClient for Http {
    async fn execute_request(&self, request: &Request) -> Result<AsyncRawResponse> {
        let Some(proxies) = &self.proxies else {
            return self.direct.execute_request(request).await;
        };
        match proxies.proxy_of(request.url())? {
            Some(proxy) => {
                proxies
                    .client
                    .execute_through(&shown(proxy.uri()), request)
                    .await
            }
            None => self.direct.execute_request(request).await,
        }
    }
}

/// Receives whole answers, and limits the time of a request.
#[derive(Debug)]
struct Whole(Http);

#[async_trait]
impl HttpClient for Whole {
    async fn execute_request(&self, request: &Request) -> Result<AsyncRawResponse> {
        let exchange = async {
            let (status, headers, body) = self.0.execute_request(request).await?.deconstruct();
            Ok(AsyncRawResponse::from_bytes(
                status,
                headers,
                body.collect().await?,
            ))
        };
        match tokio::time::timeout(MAX_EXCHANGE, exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                let reason = format!("no whole answer within {} seconds", MAX_EXCHANGE.as_secs());
                Err(Error::with_message(ErrorKind::Io, reason))
            }
        }
    }
}

/// The text of a proxy for errors: host and port, without a user name.
fn shown(proxy: &Uri) -> String {
    let host = proxy.host().unwrap_or_default();
    match proxy.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Sends requests on connections to the server itself.
#[derive(Debug)]
struct Pooled(Client<Timed<HttpsConnector<HttpConnector>>, Full<Bytes>>);

impl Pooled {
    fn new(idle: Duration, limit: Duration) -> Option<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        // Limits TCP alone: the connector divides the time among the addresses of the host. `Timed` limits the whole connect.
        tcp.set_connect_timeout(Some(limit));
        // The program may have installed its own provider.
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| aws_lc_rs::default_provider().into());
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_platform_verifier(provider)
            .ok()?;
        let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
        let connector = Timed { connector, limit };
        let mut builder = Client::builder(TokioExecutor::new());
        Some(Self(
            builder
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(idle)
                .build(connector),
        ))
    }
}

/// Limits the time of the whole connect.
///
/// Without it, a name server or a TLS handshake that does not answer would use up the time of the request. The request would then be
/// reported as perhaps applied, although it was never sent.
#[derive(Clone, Debug)]
struct Timed<C> {
    connector: C,
    limit: Duration,
}

/// A connect in progress. Boxed, because the type of an `async` block has no name.
type Connecting<T> = Pin<Box<dyn Future<Output = std::result::Result<T, BoxError>> + Send>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<C> Service<Uri> for Timed<C>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Connecting<C::Response>;

    // `Service` requires a ready `poll_ready` before each `call`. This wrapper has no state that could be unready, so only the wrapped
    // connector decides.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        // `call` is called before the block, which must own its future: the future outlives this borrow of the connector.
        let (connect, limit) = (self.connector.call(to), self.limit);
        Box::pin(async move {
            match tokio::time::timeout(limit, connect).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}

#[async_trait]
impl HttpClient for Pooled {
    async fn execute_request(&self, request: &Request) -> Result<AsyncRawResponse> {
        let mut message = http::Request::new(Full::new(whole_body(request.body()).await?));
        *message.method_mut() = request.method().as_str().parse().map_err(malformed)?;
        *message.uri_mut() = uri(request.url())?;
        *message.headers_mut() = sent_headers(request)?;
        let answer = self.0.request(message).await;
        let (head, body) = answer
            .map_err(|error| exchange_error(error.is_connect(), error, request.url(), None))?
            .into_parts();
        // The request was sent, so an error of the body is never a failure to connect.
        let url = request.url().clone();
        let body = body
            .into_data_stream()
            .map_err(move |error| exchange_error(false, error, &url, None));
        Ok(AsyncRawResponse::new(
            head.status.as_u16().into(),
            received_headers(&head.headers),
            Box::pin(body),
        ))
    }
}

/// Sends requests through the proxies that the environment names.
#[derive(Debug)]
struct Proxied(reqwest::Client);

impl Proxied {
    fn new(idle: Duration, limit: Duration) -> Option<Self> {
        let builder = reqwest::ClientBuilder::new()
            .http1_only()
            .connect_timeout(limit)
            .tcp_keepalive(KEEP_ALIVE)
            .pool_idle_timeout(idle)
            // A redirect could send the signature of the request to another server.
            .redirect(reqwest::redirect::Policy::none());
        builder.build().ok().map(Self)
    }

    /// Sends a request. `proxy` is the name of the proxy, for errors.
    async fn execute_through(&self, proxy: &str, request: &Request) -> Result<AsyncRawResponse> {
        let method = request.method().as_str().parse().map_err(malformed)?;
        let mut message = reqwest::Request::new(method, request.url().clone());
        *message.headers_mut() = sent_headers(request)?;
        *message.body_mut() = Some(whole_body(request.body()).await?.into());
        let answer = self.0.execute(message).await.map_err(|error| {
            exchange_error(
                error.is_connect(),
                error.without_url(),
                request.url(),
                Some(proxy),
            )
        })?;
        let (status, mut headers) = (
            answer.status().as_u16().into(),
            received_headers(answer.headers()),
        );
        headers.insert(PROXY, proxy.to_owned());
        let (url, proxy) = (request.url().clone(), proxy.to_owned());
        let body = answer
            .bytes_stream()
            .map_err(move |error| exchange_error(false, error.without_url(), &url, Some(&proxy)));
        Ok(AsyncRawResponse::new(status, headers, Box::pin(body)))
    }
}

fn uri(url: &Url) -> Result<Uri> {
    Uri::from_maybe_shared(Bytes::copy_from_slice(url.as_str().as_bytes())).map_err(malformed)
}

fn sent_headers(request: &Request) -> Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(16);
    for (name, value) in request.headers().iter() {
        headers.insert(
            sent_name(name.as_str())?,
            value.as_str().parse().map_err(malformed)?,
        );
    }
    Ok(headers)
}

/// The headers of most requests. They need no parsing.
static SENT_NAMES: [http::HeaderName; 12] = [
    http::header::ACCEPT,
    http::header::AUTHORIZATION,
    http::header::CONTENT_TYPE,
    http::header::IF_MATCH,
    http::header::USER_AGENT,
    http::HeaderName::from_static("dataserviceversion"),
    http::HeaderName::from_static("prefer"),
    http::HeaderName::from_static("x-http-method"),
    http::HeaderName::from_static("x-ms-client-request-id"),
    http::HeaderName::from_static("x-ms-date"),
    http::HeaderName::from_static("x-ms-version"),
    http::HeaderName::from_static("x-table-manifest-aware"),
];

fn sent_name(name: &str) -> Result<http::HeaderName> {
    match SENT_NAMES.iter().find(|known| known.as_str() == name) {
        Some(known) => Ok(known.clone()),
        None => name.parse().map_err(malformed),
    }
}

fn received_headers(answer: &HeaderMap) -> Headers {
    let mut headers = HashMap::with_capacity(answer.len());
    for (name, value) in answer {
        // Only this transport says which proxy an answer came through.
        if name.as_str() == PROXY.as_str() {
            continue;
        }
        // U+FFFD replaces bytes that are not UTF-8.
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        headers.insert(received_name(name.as_str()), HeaderValue::from(value));
    }
    headers.into()
}

/// The headers of most answers. Their names need no copies.
static RECEIVED_NAMES: [HeaderName; 18] = [
    HeaderName::from_static("cache-control"),
    HeaderName::from_static("connection"),
    HeaderName::from_static("content-length"),
    HeaderName::from_static("content-type"),
    HeaderName::from_static("dataserviceid"),
    HeaderName::from_static("date"),
    HeaderName::from_static("etag"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("location"),
    HeaderName::from_static("preference-applied"),
    HeaderName::from_static("server"),
    HeaderName::from_static("transfer-encoding"),
    HeaderName::from_static("x-content-type-options"),
    HeaderName::from_static("x-ms-client-request-id"),
    HeaderName::from_static("x-ms-continuation-nextpartitionkey"),
    HeaderName::from_static("x-ms-continuation-nextrowkey"),
    HeaderName::from_static("x-ms-request-id"),
    HeaderName::from_static("x-ms-version"),
];

fn received_name(name: &str) -> HeaderName {
    let known = RECEIVED_NAMES.iter().find(|known| known.as_str() == name);
    known
        .cloned()
        .unwrap_or_else(|| HeaderName::from(name.to_owned()))
}

async fn whole_body(body: &Body) -> Result<Bytes> {
    match body {
        Body::Bytes(bytes) => Ok(bytes.clone()),
        Body::SeekableStream(stream) => {
            let (mut stream, mut bytes) = (stream.clone(), Vec::new());
            stream.reset().await?;
            stream.read_to_end(&mut bytes).await?;
            Ok(bytes.into())
        }
    }
}

fn malformed(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_error(
        ErrorKind::Other,
        cause,
        "the request cannot be sent over HTTP",
    )
}

/// Converts the error of an exchange. The message shows at most host and port, of the server and of the proxy: a URL contains keys and may
/// contain a signature.
///
/// Only a failure to connect is known to come before the first byte of the request: then the request is not applied.
fn exchange_error(
    to_connect: bool,
    error: impl std::error::Error + Send + Sync + 'static,
    url: &Url,
    proxy: Option<&str>,
) -> Error {
    let through = proxy.map_or_else(String::new, |proxy| format!(" through the proxy {proxy}"));
    if to_connect {
        let (host, port) = (
            url.host_str().unwrap_or_default(),
            url.port_or_known_default().unwrap_or_default(),
        );
        let text = format!("cannot connect to {host}:{port}{through}");
        return Error::with_error(ErrorKind::Connection, error, text);
    }
    Error::with_error(
        ErrorKind::Io,
        error,
        format!("the connection{through} broke during the exchange"),
    )
}

#[cfg(test)]
mod tests {
    use azure_core::http::Method;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one request with these bytes and returns the request.
    async fn asked(listener: TcpListener, answer: &[u8]) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut asked, mut buffer) = (Vec::new(), [0; 4096]);
        while !asked.ends_with(b"body") {
            let length = stream.read(&mut buffer).await.unwrap();
            asked.extend_from_slice(&buffer[..length]);
        }
        stream.write_all(answer).await.unwrap();
        String::from_utf8(asked).unwrap()
    }

    /// Sends every request by the client for proxies.
    #[derive(Debug)]
    struct Always(Proxied);

    #[async_trait]
    impl HttpClient for Always {
        async fn execute_request(&self, request: &Request) -> Result<AsyncRawResponse> {
            self.0.execute_through("proxy.example:8080", request).await
        }
    }

    fn clients_within(limit: Duration) -> [Box<dyn HttpClient>; 2] {
        [
            Box::new(Pooled::new(IDLE, limit).unwrap()),
            Box::new(Always(Proxied::new(IDLE, limit).unwrap())),
        ]
    }

    /// The client for direct connections and the one for proxies; without a proxy, both connect to the server.
    fn clients() -> [Box<dyn HttpClient>; 2] {
        clients_within(MAX_CONNECT)
    }

    #[tokio::test]
    async fn requests_and_answers_stay_as_they_are() {
        for client in clients() {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!(
                "http://{}/acc/T(PartitionKey='a%27%27b',RowKey='c')?x=%20",
                listener.local_addr().unwrap()
            );
            let mut request = Request::new(url.parse().unwrap(), Method::Post);
            request.insert_header("x-mine", "here");
            request.set_body("body");
            let answer = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\nx-odd: \xE9\r\ncontent-length: 3\r\n\r\nabc";
            let (asked, received) =
                tokio::join!(asked(listener, answer), client.execute_request(&request));
            assert!(
                asked.starts_with(
                    "POST /acc/T(PartitionKey='a%27%27b',RowKey='c')?x=%20 HTTP/1.1\r\n"
                ),
                "{client:?}: {asked}"
            );
            assert!(asked.contains("x-mine: here\r\n"), "{client:?}: {asked}");
            assert_eq!(
                asked.to_lowercase().matches("\r\nhost: ").count(),
                1,
                "{client:?}: {asked}"
            );
            let (status, headers, body) = received.unwrap().deconstruct();
            assert_eq!(u16::from(status), 307);
            assert_eq!(
                headers.get_optional_str(&HeaderName::from_static("x-odd")),
                Some("\u{FFFD}")
            );
            assert_eq!(body.collect().await.unwrap(), "abc");
        }
    }

    #[tokio::test]
    async fn a_failure_does_not_show_the_address() {
        let url = "http://127.0.0.2:1/acc/T(PartitionKey='se7en')?sig=se7en";
        let request = Request::new(url.parse().unwrap(), Method::Get);
        for client in clients() {
            let error = client.execute_request(&request).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Connection), "{error}");
            assert!(!format!("{error} {error:?}").contains("se7en"), "{error:?}");
        }
    }

    /// The server accepts the connection and never answers the TLS handshake.
    #[tokio::test]
    async fn a_tls_handshake_without_an_answer_is_a_failure_to_connect() {
        for client in clients_within(Duration::from_millis(50)) {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("https://{}/acc/T?sig=se7en", listener.local_addr().unwrap());
            let request = Request::new(url.parse().unwrap(), Method::Post);
            let error = client.execute_request(&request).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Connection),
                "{client:?}: {error}"
            );
            assert!(!format!("{error} {error:?}").contains("se7en"), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_breaks_leaves_the_outcome_open() {
        for client in clients() {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/acc/T?sig=se7en", listener.local_addr().unwrap());
            let mut request = Request::new(url.parse().unwrap(), Method::Post);
            request.set_body("body");
            let (_, received) = tokio::join!(
                asked(listener, b"HTTP/1.1 20"),
                client.execute_request(&request)
            );
            let error = received.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Io), "{client:?}: {error}");
            assert!(!format!("{error} {error:?}").contains("se7en"), "{error:?}");
        }
    }
}
