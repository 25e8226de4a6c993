//! Serves the requests of one connection, with a timeout for each step at which a client can be slow.

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::{LINGER_BYTES, LINGER_TIME, Limits};
use crate::service::{Peer, Service};

/// The state that the server signals to its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serve,
    /// Answer pending requests, then close.
    Finish,
    /// Close immediately.
    Abort,
}

/// Serves a connection until it ends.
pub(crate) async fn serve<S>(
    stream: S,
    peer: Peer,
    service: Arc<Service>,
    limits: Limits,
    mut phase: watch::Receiver<Phase>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let unsent = Arc::new(Unsent::default());
    let ending = Arc::new(Ending::default());
    let stream = Timed::new(stream, &limits, Arc::clone(&unsent), Arc::clone(&ending));
    let has_requests = Arc::new(AtomicBool::new(false));
    let (requested, answers) = (Arc::clone(&has_requests), Arc::clone(&ending));
    let respond = service_fn(move |request| {
        requested.store(true, Ordering::Release);
        let (service, unsent, ending) = (
            Arc::clone(&service),
            Arc::clone(&unsent),
            Arc::clone(&answers),
        );
        async move {
            // So that a client that sends requests and reads no answers does not fill the memory with answers.
            unsent.ends().await;
            let response = service.respond(request, peer).await;
            if response.headers().contains_key(http::header::CONNECTION) {
                ending.cuts.store(true, Ordering::Release);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(http(&limits).serve_connection(TokioIo::new(stream), respond));
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(target: "table_server", %error, peer = %peer.ip, "a connection ended");
                }
                return;
            }
            changed = phase.changed() => {
                // The error means that the server was dropped.
                let now = changed.map_or(Phase::Abort, |()| *phase.borrow());
                match now {
                    Phase::Serve => {}
                    Phase::Finish => {
                        ending.stops.store(true, Ordering::Release);
                        connection.as_mut().graceful_shutdown();
                        // hyper closes a connection between two requests, also in the middle of a head. Before the first request it closes
                        // only if no byte has arrived: it would wait for the rest of a head, which may never come. A head that is complete
                        // by now starts its request in this poll.
                        let polled = poll_fn(|context| Poll::Ready(connection.as_mut().poll(context))).await;
                        if polled.is_ready() || !has_requests.load(Ordering::Acquire) {
                            return;
                        }
                    }
                    Phase::Abort => return,
                }
            }
        }
    }
}

/// Returns HTTP with the limits. Every step at which a client can be slow has a bound: the TLS handshake (in `server`), the head and the
/// pause between requests (`header_read_timeout`), the body (`body`), and reading the answer (`Timed`).
fn http(limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        // hyper panics below 8 KiB.
        .max_buf_size(limits.header_bytes.max(8192))
        .max_header_size(limits.header_bytes)
        // A client that has closed its side reads no response: its connection ends, also during a request.
        .half_close(false);
    http
}

/// Whether bytes of earlier answers wait until the client reads.
#[derive(Debug, Default)]
struct Unsent {
    waits: AtomicBool,
    ended: Notify,
}

impl Unsent {
    fn set(&self, waits: bool) {
        self.waits.store(waits, Ordering::Release);
        if !waits {
            self.ended.notify_waiters();
        }
    }

    /// Waits until the client has read what was sent so far. The task that polls this future also writes to the
    /// client, so it is the only one that sets the flag.
    async fn ends(&self) {
        loop {
            let ended = self.ended.notified();
            if !self.waits.load(Ordering::Acquire) {
                return;
            }
            ended.await;
        }
    }
}

/// Why a connection ends.
#[derive(Debug, Default)]
struct Ending {
    /// A request was answered or refused before all of it had arrived.
    cuts: AtomicBool,
    /// The server stops.
    stops: AtomicBool,
}

/// A stream whose writes fail if the client reads nothing for some time, and which closes in stages.
struct Timed<S> {
    stream: S,
    time: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Whether a write waits for the client.
    waits: bool,
    unsent: Arc<Unsent>,
    ending: Arc<Ending>,
    /// How many more bytes are read and discarded after the last answer.
    discardable: usize,
    /// Whether nothing more is sent.
    is_write_closed: bool,
}

impl<S> Timed<S> {
    fn new(stream: S, limits: &Limits, unsent: Arc<Unsent>, ending: Arc<Ending>) -> Self {
        let time = limits.write_time;
        let deadline = Box::pin(sleep(time));
        Self {
            stream,
            time,
            deadline,
            waits: false,
            unsent,
            ending,
            discardable: LINGER_BYTES,
            is_write_closed: false,
        }
    }

    fn set_waits(&mut self, waits: bool) {
        if self.waits != waits {
            self.waits = waits;
            self.unsent.set(waits);
        }
    }

    /// Applies the timeout to a step of writing.
    fn bounded<T>(
        &mut self,
        step: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if step.is_ready() {
            self.set_waits(false);
            return step;
        }
        // The time counts from the first write that waits. Each write that succeeds stops it, so a slow client that reads is not cut off.
        if !self.waits {
            self.set_waits(true);
            self.deadline.as_mut().reset(Instant::now() + self.time);
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read its answers",
        )))
    }
}

impl<S: AsyncRead + Unpin> Timed<S> {
    /// Reads and discards what a client still sends after the last answer, until the client closes its side or a bound is reached. If the
    /// socket were closed with bytes unread, the system would reset the connection, and the client could lose the answer:
    /// <https://www.rfc-editor.org/rfc/rfc9112#section-9.6>.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0; 16 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {
                    let length = buffer.filled().len();
                    // Without a cut, a request whose head was refused goes on, or one that began after the stop of the server.
                    let is_stopped = self.ending.stops.load(Ordering::Acquire)
                        && !self.ending.cuts.load(Ordering::Acquire);
                    if length == 0 || length > self.discardable || is_stopped {
                        return Poll::Ready(());
                    }
                    self.discardable -= length;
                    self.ending.cuts.store(true, Ordering::Release);
                }
                Poll::Pending if self.ending.cuts.load(Ordering::Acquire) => {
                    return self.deadline.as_mut().poll(context);
                }
                Poll::Pending => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(step, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let step = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(step, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_write_closed {
            let step = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.bounded(step, context))?;
            self.is_write_closed = true;
            self.deadline.as_mut().reset(Instant::now() + LINGER_TIME);
        }
        self.poll_linger(context).map(Ok)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.bounded(step, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;
    use crate::service::OptionalAddresses;
    use crate::tenant::Tenants;

    const REQUEST: &str = "GET /_health HTTP/1.1\r\nHost: h\r\n\r\n";
    const REQUESTS: usize = 20_000;

    fn service(limits: &Limits) -> Arc<Service> {
        Arc::new(Service::new(
            Tenants::default(),
            limits,
            OptionalAddresses::default(),
            None,
        ))
    }

    /// The time of the test stands still while the server can do something, so a write that does not end shows that the
    /// server has stopped reading.
    #[tokio::test(start_paused = true)]
    async fn requests_wait_until_the_client_reads_its_answers() {
        let limits = Limits::default();
        let service = service(&limits);
        let (client, server) = duplex(4096);
        let (_phase, phases) = watch::channel(Phase::Serve);
        let peer = Peer {
            ip: [127, 0, 0, 1].into(),
            secure: false,
        };
        tokio::spawn(serve(server, peer, service, limits, phases));
        let (mut answers, mut requests) = tokio::io::split(client);
        let all = REQUEST.repeat(REQUESTS);
        let mut sent = 0;
        while let Ok(more) = timeout(
            limits.write_time / 2,
            requests.write(&all.as_bytes()[sent..]),
        )
        .await
        {
            sent += more.unwrap();
            assert!(sent < all.len(), "every request was taken");
        }
        // A client that reads gets every answer.
        let last = REQUEST.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
        let rest = all[sent..].to_owned() + &last;
        tokio::spawn(async move { requests.write_all(rest.as_bytes()).await.unwrap() });
        let mut text = String::new();
        answers.read_to_string(&mut text).await.unwrap();
        assert_eq!(text.matches("HTTP/1.1 200").count(), REQUESTS + 1);
    }

    /// A connection of the test, over a pipe that is shorter than the heads that the tests send: a write that has ended shows that the
    /// server has read most of it.
    struct Peered {
        client: DuplexStream,
        phase: watch::Sender<Phase>,
        serves: JoinHandle<()>,
    }

    impl Peered {
        fn new() -> Self {
            let limits = Limits::default();
            let service = service(&limits);
            let (client, server) = duplex(16);
            let (phase, phases) = watch::channel(Phase::Serve);
            let peer = Peer {
                ip: [127, 0, 0, 1].into(),
                secure: false,
            };
            let serves = tokio::spawn(serve(server, peer, service, limits, phases));
            Self {
                client,
                phase,
                serves,
            }
        }

        async fn send(&mut self, text: &str) {
            self.client.write_all(text.as_bytes()).await.unwrap();
        }

        /// Reads an answer until its empty line; these answers have no body.
        async fn answer(&mut self) -> String {
            let mut answer = String::new();
            while !answer.ends_with("\r\n\r\n") {
                answer.push(char::from(self.client.read_u8().await.unwrap()));
            }
            answer
        }

        /// Stops, and checks that the connection ends without a wait: the time of the test stands still while the server can do something.
        async fn ends(self) -> String {
            self.phase.send_replace(Phase::Finish);
            let Self {
                mut client,
                phase: _phase,
                serves,
            } = self;
            let mut rest = String::new();
            let ended = async {
                client.read_to_string(&mut rest).await.unwrap();
                serves.await.unwrap();
            };
            timeout(Duration::from_millis(1), ended)
                .await
                .expect("the connection ends");
            rest
        }
    }

    const HALF: &str = "GET /_health HTTP/1.1\r\nHost: a.host.with.a.long.name\r\nAccept: te";
    const EMPTY: &str = "HEAD /_health HTTP/1.1\r\nHost: h\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_stop_closes_a_connection_in_its_first_head() {
        let mut peered = Peered::new();
        peered.send(HALF).await;
        assert_eq!(peered.ends().await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_closes_a_connection_in_a_later_head() {
        let mut peered = Peered::new();
        peered.send(EMPTY).await;
        assert!(peered.answer().await.starts_with("HTTP/1.1 200"));
        peered.send(HALF).await;
        assert_eq!(peered.ends().await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_answers_a_request_whose_head_has_arrived() {
        let mut peered = Peered::new();
        // Its last bytes are in the pipe, where the server may not have seen them.
        peered.send(EMPTY).await;
        let answer = peered.ends().await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n"),
            "{answer}"
        );
    }
}
