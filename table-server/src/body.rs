//! Reads request bodies, with limits on bytes, time, and the total memory of all bodies.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::errors::{Failure, Result};
use crate::limits::Limits;

/// The limits of bodies and the memory that is left.
#[derive(Debug)]
pub(crate) struct Bodies {
    room: Arc<Semaphore>,
    bytes: usize,
    time: Duration,
}

/// A body in memory, and its part of the memory of all bodies.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// How many times the limit is read and discarded before the connection closes. A client that is still
/// writing would not read the error otherwise.
const DRAINED: usize = 4;

impl Bodies {
    pub(crate) fn new(limits: &Limits) -> Self {
        let room = limits.body_memory.min(Semaphore::MAX_PERMITS);
        Self { room: Arc::new(Semaphore::new(room)), bytes: limits.body_bytes, time: limits.body_time }
    }

    /// Reads a complete body.
    pub(crate) async fn read<B>(&self, body: B) -> Result<Received>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        match tokio::time::timeout(self.time, self.read_all(body)).await {
            Ok(read) => read,
            Err(_) => Err(Failure::new(
                StatusCode::REQUEST_TIMEOUT,
                "OperationTimedOut",
                "The request body did not arrive within the permitted time.",
            )),
        }
    }

    async fn read_all<B>(&self, mut body: B) -> Result<Received>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let (mut received, mut total) = (Received::default(), 0);
        // A declared length that is too large is refused without reading: `Content-Length` is a promise of the client.
        if body.size_hint().lower() > (DRAINED * self.bytes) as u64 {
            return Err(Failure::body_too_large(self.bytes));
        }
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|e| Failure::invalid_input(format!("The request body is incomplete: {e}.")))?;
            let Ok(data) = frame.into_data() else { continue };
            total += data.remaining();
            if total <= self.bytes {
                self.keep(&mut received, &data)?;
            } else if total > DRAINED * self.bytes {
                break;
            } else {
                // Releases the memory: the rest is read only so that the client reads the error.
                received = Received::default();
            }
        }
        if total > self.bytes { Err(Failure::body_too_large(self.bytes)) } else { Ok(received) }
    }

    fn keep(&self, received: &mut Received, data: &Bytes) -> Result<()> {
        let more = u32::try_from(data.len()).map_err(|_| Failure::body_too_large(self.bytes))?;
        // Without a wait. Bodies that each hold a part of the memory and wait for more of it could block each other forever.
        let more = Arc::clone(&self.room).try_acquire_many_owned(more);
        let more = more.map_err(|_| Failure::busy(Some(Duration::from_secs(1))))?;
        match &mut received.room {
            Some(room) => room.merge(more),
            none => *none = Some(more),
        }
        received.bytes.extend_from_slice(data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn bodies(bytes: usize, memory: usize) -> Bodies {
        Bodies::new(&Limits { body_bytes: bytes, body_memory: memory, ..Limits::default() })
    }

    async fn code(bodies: &Bodies, length: usize) -> Result<usize, &'static str> {
        let read = bodies.read(Full::new(Bytes::from(vec![b'x'; length]))).await;
        read.map(|received| received.bytes.len()).map_err(|failure| failure.code)
    }

    #[tokio::test]
    async fn each_body_and_all_bodies_together_are_bounded() {
        let bodies = bodies(100, 150);
        assert_eq!(code(&bodies, 100).await, Ok(100));
        for length in [101, 400, 401, 100_000] {
            assert_eq!(code(&bodies, length).await, Err("RequestBodyTooLarge"), "{length}");
        }
        let first = bodies.read(Full::new(Bytes::from(vec![b'x'; 100]))).await.unwrap();
        assert_eq!(code(&bodies, 51).await, Err("ServerBusy"));
        drop(first);
        assert_eq!(code(&bodies, 51).await, Ok(51));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_times_out() {
        let bodies = bodies(100, 100);
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, std::io::Error>>();
        let failure = bodies.read(StreamBody::new(never)).await.unwrap_err();
        assert_eq!(failure.status, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(failure.code, "OperationTimedOut");
    }
}
