//! Limits on the resources that clients can use, and the memory of request bodies and of answers that they bound.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use table_core::store::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::errors::{Failure, Result};

/// Limits on connections, sizes and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of connections. Further connections wait in the operating system's queue.
    pub connections: usize,
    /// Maximum bytes of a request line with headers. A larger request gets status 431.
    pub header_bytes: usize,
    /// Maximum bytes of a request body; default 4 MiB, as in the service. A larger body gets status 413.
    pub body_bytes: usize,
    /// Maximum bytes of all request bodies in memory. A request that would exceed it gets status 503.
    pub body_memory: usize,
    /// Maximum bytes of the answers that clients have not read yet. A query waits up to 10 seconds until its answer
    /// has room, and then gets status 503.
    pub answer_memory: usize,
    /// Maximum time that a connection waits for the complete request line and headers.
    pub header_time: Duration,
    /// Maximum time in which a request body must arrive. A slower body gets status 408.
    pub body_time: Duration,
    /// Maximum time for which a client may leave a response unread before its connection is closed.
    pub write_time: Duration,
    /// Maximum time that a stop waits for pending requests.
    pub stop_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            header_bytes: 64 * 1024,
            body_bytes: limits::GROUP_BYTES,
            body_memory: 256 * 1024 * 1024,
            answer_memory: 512 * 1024 * 1024,
            header_time: Duration::from_secs(60),
            body_time: Duration::from_secs(60),
            write_time: Duration::from_secs(60),
            stop_time: Duration::from_secs(30),
        }
    }
}

/// The limits of request bodies, and the memory that is left for them, a permit per byte.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    free: Arc<Semaphore>,
    bytes: usize,
    time: Duration,
}

/// A body in memory, and its part of the memory of all bodies.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    pub(crate) memory: Option<OwnedSemaphorePermit>,
}

/// How many bytes of a refused body are read and discarded, as a multiple of the limit of a body. A client that is still writing would not
/// read the error otherwise.
const DISCARDED: usize = 4;

/// Maximum time in which the rest of a refused body is awaited before the answer. The answer to a slower client says that the connection ends.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Maximum time for which a connection is read after its last answer, so that the client can stop sending and read the answer.
pub(crate) const LINGER_TIME: Duration = Duration::from_secs(5);

/// How many bytes are read and discarded in that time. More than a refused request has before its answer: a client that writes all of its
/// body before it reads, as that of Python does, loses the answer if the connection is reset before it reads. No byte of the body is kept.
pub(crate) const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// A request body that arrives.
#[derive(Debug)]
pub(crate) struct Upload<B> {
    body: B,
    /// Whether the body was too large or too slow, so that no more of it is awaited.
    is_abandoned: bool,
}

impl<B> Upload<B> {
    pub(crate) const fn new(body: B) -> Self {
        Self {
            body,
            is_abandoned: false,
        }
    }

    /// Returns the length that the client has declared; 0 if it has declared none.
    pub(crate) fn declared_length(&self) -> u64
    where
        B: Body,
    {
        self.body.size_hint().lower()
    }
}

impl BodyMemory {
    pub(crate) fn new(limits: &Limits) -> Self {
        let bytes = limits.body_memory.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(bytes)),
            bytes: limits.body_bytes,
            time: limits.body_time,
        }
    }

    /// Reads a complete body.
    pub(crate) async fn read<B>(&self, upload: &mut Upload<B>) -> Result<Received>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        if let Ok(read) = timeout(self.time, self.read_all(upload)).await {
            return read;
        }
        upload.is_abandoned = true;
        Err(Failure::new(
            StatusCode::REQUEST_TIMEOUT,
            "OperationTimedOut",
            "The request body did not arrive within the permitted time.",
        ))
    }

    async fn read_all<B>(&self, upload: &mut Upload<B>) -> Result<Received>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let (mut received, mut total) = (Received::default(), 0);
        // A declared length that is too large is refused without reading: `Content-Length` is a promise of the client.
        if upload.body.size_hint().lower() > (DISCARDED * self.bytes) as u64 {
            upload.is_abandoned = true;
            return Err(Failure::body_too_large(self.bytes));
        }
        while let Some(frame) = upload.body.frame().await {
            let frame = frame.map_err(|e| {
                Failure::invalid_input(format!("The request body is incomplete: {e}."))
            })?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            total += data.remaining();
            if total <= self.bytes {
                self.keep(&mut received, &data)?;
            } else if total > DISCARDED * self.bytes {
                upload.is_abandoned = true;
                break;
            } else {
                // Releases the memory: the rest is read only so that the client reads the error.
                received = Received::default();
            }
        }
        if total > self.bytes {
            Err(Failure::body_too_large(self.bytes))
        } else {
            Ok(received)
        }
    }

    /// Reads and discards what the answer did not need of a body, within bounds. Returns whether all of it has arrived, so that the connection
    /// can have further requests. `expects_continue` says that the client waits for a permission before it sends the body: none is given, and
    /// the client may then send the body or another request.
    pub(crate) async fn discard<B>(&self, upload: &mut Upload<B>, expects_continue: bool) -> bool
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let Upload { body, is_abandoned } = upload;
        if body.is_end_stream() {
            return true;
        }
        let bound = DISCARDED * self.bytes;
        if *is_abandoned || expects_continue || body.size_hint().lower() > bound as u64 {
            return false;
        }
        let all = async {
            let mut total = 0;
            while let Some(frame) = body.frame().await {
                total += frame
                    .ok()
                    .map(|frame| frame.data_ref().map_or(0, Buf::remaining))?;
                if total > bound {
                    return None;
                }
            }
            Some(())
        };
        matches!(timeout(DISCARD_TIME, all).await, Ok(Some(())))
    }

    fn keep(&self, received: &mut Received, data: &Bytes) -> Result<()> {
        let more = u32::try_from(data.len()).map_err(|_| Failure::body_too_large(self.bytes))?;
        // Without a wait. Bodies that each hold a part of the memory and wait for more of it could block each other forever.
        let more = Arc::clone(&self.free).try_acquire_many_owned(more);
        let more = more.map_err(|_| Failure::busy(Some(Duration::from_secs(1))))?;
        match &mut received.memory {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        received.bytes.extend_from_slice(data);
        Ok(())
    }
}

/// Maximum time that a query waits until other clients have read their answers.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Answers up to this length are not counted: the number of connections bounds them.
const UNCOUNTED_BYTES: usize = 64 * 1024;

/// The memory that is left for answers which clients have not read, a permit per byte. A slow client keeps the memory of one answer, because
/// a connection answers one request at a time.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    free: Arc<Semaphore>,
    bytes: usize,
}

impl AnswerMemory {
    pub(crate) fn new(limits: &Limits) -> Self {
        let bytes = limits.answer_memory.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(bytes)),
            bytes,
        }
    }

    /// Waits for the memory of a page. It is reserved before the page is read, because a page that waits is in
    /// memory already.
    pub(crate) async fn reserve_page(&self) -> Result<OwnedSemaphorePermit> {
        let page = u32::try_from(limits::PAGE_BYTES.min(self.bytes)).unwrap_or(u32::MAX);
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_many_owned(page) {
            return Ok(permit);
        }
        match timeout(MAX_WAIT, Arc::clone(&self.free).acquire_many_owned(page)).await {
            Ok(Ok(permit)) => Ok(permit),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }

    /// Changes a reservation to the length of the answer. JSON can be longer than the page.
    pub(crate) fn resize(
        &self,
        mut permit: OwnedSemaphorePermit,
        length: usize,
    ) -> Result<OwnedSemaphorePermit> {
        match permit.num_permits().checked_sub(length) {
            Some(excess) => drop(permit.split(excess)),
            None => permit.merge(self.acquire(length - permit.num_permits())?),
        }
        Ok(permit)
    }

    /// Reserves the memory of an answer that is built already; `None` if the answer is not counted.
    pub(crate) fn reserve(&self, length: usize) -> Result<Option<OwnedSemaphorePermit>> {
        if length <= UNCOUNTED_BYTES {
            Ok(None)
        } else {
            self.acquire(length).map(Some)
        }
    }

    fn acquire(&self, length: usize) -> Result<OwnedSemaphorePermit> {
        let length = u32::try_from(length).map_err(|_| busy())?;
        Arc::clone(&self.free)
            .try_acquire_many_owned(length)
            .map_err(|_| busy())
    }
}

fn busy() -> Failure {
    Failure::busy(Some(Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn bodies(bytes: usize, memory: usize) -> BodyMemory {
        BodyMemory::new(&Limits {
            body_bytes: bytes,
            body_memory: memory,
            ..Limits::default()
        })
    }

    async fn code(bodies: &BodyMemory, length: usize) -> Result<usize, &'static str> {
        let read = bodies
            .read(&mut Upload::new(Full::new(Bytes::from(vec![b'x'; length]))))
            .await;
        read.map(|received| received.bytes.len())
            .map_err(|failure| failure.code)
    }

    #[tokio::test]
    async fn each_body_and_all_bodies_together_are_bounded() {
        let bodies = bodies(100, 150);
        assert_eq!(code(&bodies, 100).await, Ok(100));
        for length in [101, 400, 401, 100_000] {
            assert_eq!(
                code(&bodies, length).await,
                Err("RequestBodyTooLarge"),
                "{length}"
            );
        }
        let first = bodies
            .read(&mut Upload::new(Full::new(Bytes::from(vec![b'x'; 100]))))
            .await
            .unwrap();
        assert_eq!(code(&bodies, 51).await, Err("ServerBusy"));
        drop(first);
        assert_eq!(code(&bodies, 51).await, Ok(51));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_times_out() {
        let bodies = bodies(100, 100);
        let never = || futures_util::stream::pending::<Result<Frame<Bytes>, std::io::Error>>();
        let mut upload = Upload::new(StreamBody::new(never()));
        let failure = bodies.read(&mut upload).await.unwrap_err();
        assert_eq!(failure.status, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(failure.code, "OperationTimedOut");
        assert!(!bodies.discard(&mut upload, false).await && upload.is_abandoned);
        let mut unread = Upload::new(StreamBody::new(never()));
        assert!(!bodies.discard(&mut unread, false).await && !unread.is_abandoned);
    }

    #[tokio::test]
    async fn a_refused_body_is_discarded_up_to_a_bound() {
        let bodies = bodies(100, 100);
        let upload = |length: usize| Upload::new(Full::new(Bytes::from(vec![b'x'; length])));
        for (length, expected) in [(0, true), (400, true), (401, false)] {
            assert_eq!(
                bodies.discard(&mut upload(length), false).await,
                expected,
                "{length}"
            );
        }
        assert!(
            bodies.discard(&mut upload(0), true).await
                && !bodies.discard(&mut upload(1), true).await
        );
        let chunks = |count: usize| {
            let chunk = || Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![b'x'; 100])));
            Upload::new(StreamBody::new(futures_util::stream::iter(
                (0..count).map(move |_| chunk()),
            )))
        };
        assert!(
            bodies.discard(&mut chunks(4), false).await
                && !bodies.discard(&mut chunks(5), false).await
        );
    }

    fn answers(answer_memory: usize) -> AnswerMemory {
        AnswerMemory::new(&Limits {
            answer_memory,
            ..Limits::default()
        })
    }

    const PAGE: usize = limits::PAGE_BYTES;

    #[tokio::test(start_paused = true)]
    async fn queries_wait_for_unread_answers_and_are_refused_after_a_time() {
        let memory = answers(2 * PAGE);
        let first = memory
            .resize(memory.reserve_page().await.unwrap(), PAGE + 5)
            .unwrap();
        assert_eq!(memory.reserve_page().await.unwrap_err().code, "ServerBusy");
        let waits = async { memory.reserve_page().await.map(drop) };
        let reads = async {
            tokio::time::sleep(MAX_WAIT / 2).await;
            drop(first);
        };
        let (waited, ()) = tokio::join!(waits, reads);
        assert!(waited.is_ok());
        assert_eq!(memory.free.available_permits(), 2 * PAGE);
    }

    #[tokio::test]
    async fn a_reservation_shrinks_to_its_answer() {
        let memory = answers(2 * PAGE);
        let small = memory
            .resize(memory.reserve_page().await.unwrap(), 7)
            .unwrap();
        assert_eq!(memory.free.available_permits(), 2 * PAGE - 7);
        let page = memory.reserve_page().await.unwrap();
        assert_eq!(
            memory.resize(page, 2 * PAGE - 6).unwrap_err().code,
            "ServerBusy"
        );
        drop(small);
        assert_eq!(memory.free.available_permits(), 2 * PAGE);
        assert!(
            memory.reserve(UNCOUNTED_BYTES).unwrap().is_none()
                && memory.reserve(UNCOUNTED_BYTES + 1).unwrap().is_some()
        );
        assert_eq!(memory.reserve(2 * PAGE + 1).unwrap_err().code, "ServerBusy");
        assert!(answers(0).reserve_page().await.is_ok());
    }
}
