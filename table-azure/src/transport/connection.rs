use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use azure_core::Bytes;
use azure_core::http::Url;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::inline_waker::InlineWaker;
use super::message::host;
use crate::rest::MAX_ANSWER_BYTES;

pub(super) type Message = Request<Full<Bytes>>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection to one server. It carries at most one request at a time.
#[derive(Debug)]
pub(super) struct Connection {
    scheme: String,
    host: String,
    requests: http1::SendRequest<Full<Bytes>>,
    wire: Wire,
    /// How long the server keeps the connection open without a request, if the server says so.
    kept: Option<Duration>,
}

/// The half of the connection that writes requests and reads answers. It makes progress only while it is
/// polled.
#[derive(Debug)]
struct Wire {
    http: http1::Connection<Stream, Full<Bytes>>,
    inline: InlineWaker,
    ended: bool,
}

/// An exchange without an answer, with the request if no byte of it was sent.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) cause: Box<dyn std::error::Error + Send + Sync>,
    pub(super) unsent: Option<Message>,
}

impl Connection {
    pub(super) async fn over(stream: Stream, url: &Url) -> hyper::Result<Self> {
        let (requests, http) = http1::handshake(stream).await?;
        let wire = Wire { http, inline: InlineWaker::new(), ended: false };
        Ok(Self { scheme: url.scheme().to_owned(), host: host(url).to_owned(), requests, wire, kept: None })
    }

    /// Whether the connection goes to the URL's scheme, host and port.
    pub(super) fn matches_origin(&self, url: &Url) -> bool {
        self.scheme == url.scheme() && self.host == host(url)
    }

    /// Whether the connection can take a request. The server may have closed it while it was idle.
    pub(super) fn is_open(&mut self) -> bool {
        // One poll reads what the server has sent since: usually nothing, or the end of the stream. Nobody waits for it, so no
        // waker is needed.
        self.wire.poll(&mut Context::from_waker(Waker::noop()));
        !self.wire.ended && self.requests.is_ready()
    }

    /// Whether the server may be about to close the connection. A request could cross the close, and then it
    /// would be unknown whether the server executed it.
    pub(super) fn is_stale(&self, idle: Duration) -> bool {
        // Half of it: the server counts from when it sent the answer, and the next request takes time to arrive.
        self.kept.is_some_and(|kept| idle >= kept / 2)
    }

    /// Sends a request and reads the complete answer.
    pub(super) async fn exchange(&mut self, message: Message) -> Result<Response<Bytes>, Unanswered> {
        let answer = self.requests.try_send_request(message);
        let answer = self.wire.drive(answer).await.map_err(|mut error| Unanswered {
            unsent: error.take_message(),
            cause: error.into_error().into(),
        })?;
        let (head, body) = answer.into_parts();
        self.kept = kept(&head.headers);
        let body = self.wire.drive(Limited::new(body, MAX_ANSWER_BYTES).collect()).await;
        let body = body.map_err(|cause| Unanswered { cause, unsent: None })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

/// Reads the `timeout` of `Keep-Alive: timeout=5`, in seconds
/// (<https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/Keep-Alive>).
fn kept(headers: &HeaderMap) -> Option<Duration> {
    let parameters = headers.get("keep-alive")?.to_str().ok()?;
    let timeout = parameters.split(',').find_map(|parameter| parameter.trim().strip_prefix("timeout="))?;
    timeout.parse().ok().map(Duration::from_secs)
}

impl Wire {
    /// Polls `future` and, between its polls, the connection itself.
    async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let (mut future, inline) = (pin!(future), self.inline.clone());
        poll_fn(|cx| {
            inline.poll(cx, |cx| {
                // The connection first: it reads the bytes that the future waits for. It runs in no task of its own, so that a request
                // costs no switch between tasks, and a dropped request drops its connection.
                self.poll(cx);
                future.as_mut().poll(cx)
            })
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        self.ended = self.ended || Pin::new(&mut self.http).poll(cx).is_ready();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Option<Duration> {
        kept(&HeaderMap::from_iter([(
            http::header::HeaderName::from_static("keep-alive"),
            value.parse().unwrap(),
        )]))
    }

    #[test]
    fn the_keep_alive_timeout_is_read() {
        assert_eq!(of("timeout=5"), Some(Duration::from_secs(5)));
        assert_eq!(of("max=100, timeout=30"), Some(Duration::from_secs(30)));
        assert_eq!(of("timeout=soon"), None);
        assert_eq!(of("max=100"), None);
        assert_eq!(kept(&HeaderMap::new()), None);
    }
}
