use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};

use azure_core::Bytes;
use azure_core::http::Url;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::message::host;
use super::relay::Relay;

pub(super) type Message = Request<Full<Bytes>>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection to one server, with at most one request on it.
#[derive(Debug)]
pub(super) struct Connection {
    scheme: String,
    host: String,
    requests: http1::SendRequest<Full<Bytes>>,
    wire: Wire,
}

/// What writes requests and reads answers, as long as somebody polls it.
#[derive(Debug)]
struct Wire {
    http: http1::Connection<Stream, Full<Bytes>>,
    relay: Relay,
    ended: bool,
}

/// Why there is no answer, with the request if nothing of it was sent.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) cause: hyper::Error,
    pub(super) unsent: Option<Message>,
}

impl Connection {
    pub(super) async fn over(stream: Stream, url: &Url) -> hyper::Result<Self> {
        let (requests, http) = http1::handshake(stream).await?;
        let wire = Wire { http, relay: Relay::new(), ended: false };
        Ok(Self { scheme: url.scheme().to_owned(), host: host(url).to_owned(), requests, wire })
    }

    /// Whether it leads where the URL does.
    pub(super) fn leads_to(&self, url: &Url) -> bool {
        self.scheme == url.scheme() && self.host == host(url)
    }

    /// Whether it can take a request; the other end may have closed it meanwhile.
    pub(super) fn is_open(&mut self) -> bool {
        self.wire.poll(&mut Context::from_waker(Waker::noop()));
        !self.wire.ended && self.requests.is_ready()
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn exchange(&mut self, message: Message) -> Result<Response<Bytes>, Unanswered> {
        let answer = self.requests.try_send_request(message);
        let answer = self
            .wire
            .driven_for(answer)
            .await
            .map_err(|mut error| Unanswered { unsent: error.take_message(), cause: error.into_error() })?;
        let (head, body) = answer.into_parts();
        let body = self.wire.driven_for(body.collect()).await;
        let body = body.map_err(|cause| Unanswered { cause, unsent: None })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

impl Wire {
    /// Waits for what comes over the wire, polling the wire itself meanwhile.
    async fn driven_for<F: Future>(&mut self, future: F) -> F::Output {
        let (mut future, relay) = (pin!(future), self.relay.clone());
        poll_fn(|cx| {
            relay.poll(cx, |cx| {
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
