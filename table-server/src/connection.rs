//! Serves the requests of one connection, with a timeout for each step at which a client can be slow.

use std::convert::Infallible;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::Limits;
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
    let respond = service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(service.respond(request, peer).await) }
    });
    // Every step at which a client can be slow has a bound: the TLS handshake (in `server`), the head and the pause between requests
    // (`header_read_timeout`), the body (`body`), and reading the answer (`Timed`).
    let stream = TokioIo::new(Timed::new(stream, limits.write_time));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.header_bytes.max(8192))
        .max_header_size(limits.header_bytes)
        .half_close(false)
        .serve_connection(stream, respond);
    let mut connection = pin!(connection);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(target: "table_server", %error, peer = %peer.ip, "a connection ended");
                }
                return;
            }
            changed = phase.changed() => match (changed, *phase.borrow()) {
                (Ok(()), Phase::Serve) => {}
                (Ok(()), Phase::Finish) => connection.as_mut().graceful_shutdown(),
                (Ok(()), Phase::Abort) | (Err(_), _) => return,
            },
        }
    }
}

/// A stream whose writes fail if the client reads nothing for some time.
struct Timed<S> {
    stream: S,
    time: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Whether a write waits for the client.
    waits: bool,
}

impl<S> Timed<S> {
    fn new(stream: S, time: Duration) -> Self {
        Self { stream, time, deadline: Box::pin(sleep(time)), waits: false }
    }

    /// Applies the timeout to a step of writing.
    fn bounded<T>(&mut self, step: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if step.is_ready() {
            self.waits = false;
            return step;
        }
        // The time counts from the first write that waits. Each write that succeeds stops it, so a slow client that reads is not cut off.
        if !self.waits {
            self.waits = true;
            self.deadline.as_mut().reset(Instant::now() + self.time);
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers")))
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
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
        let step = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(step, context)
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
