//! The task that holds the buffers of a log. It takes records while it stores others.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use object_store::ObjectStore;
use table_core::store::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::buffer::{Buffer, Buffers};
use super::saver::Saver;
use super::{LogOptions, LogSync};

/// After a failed flush.
const PAUSE: Duration = Duration::from_secs(1);
/// Buffers that may gather while nothing can be stored.
const FULL: usize = 4;
/// Times that storing the rest is tried at the end.
const LAST_ATTEMPTS: u32 = 4;

type Done = oneshot::Sender<Result<()>>;

pub(super) enum Command {
    Append(String, Done),
    Flush(Done),
    Close(Done),
}

/// What came of a flush.
struct Flushed {
    saver: Saver,
    left: VecDeque<Buffer>,
    waiting: Vec<Done>,
    result: Result<()>,
}

/// At most one flush is under way.
enum Storing {
    No(Saver),
    Yes(BoxFuture<'static, Flushed>),
}

pub(super) struct Actor {
    service: String,
    options: LogOptions,
    buffers: Buffers,
    /// `None` only within a method.
    storing: Option<Storing>,
    /// For the next flush.
    waiting: Vec<Done>,
    unsynced: u64,
    retry_at: Option<Instant>,
}

impl Actor {
    pub(super) fn new(blobs: Arc<dyn ObjectStore>, service: String, options: LogOptions) -> Self {
        let storing = Some(Storing::No(Saver::new(blobs, options.format)));
        let (buffers, waiting) = (Buffers::default(), Vec::new());
        Self { service, options, buffers, storing, waiting, unsynced: 0, retry_at: None }
    }

    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        loop {
            let due = self.due();
            tokio::select! {
                flushed = under_way(&mut self.storing) => drop(self.finish(flushed)),
                command = queue.recv() => match command {
                    Some(Command::Append(record, done)) => self.append(&record, done),
                    Some(Command::Flush(done)) => self.waiting.push(done),
                    Some(Command::Close(done)) => return self.close(Some(done)).await,
                    None => return self.close(None).await,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.store(self.buffers.len());
                }
            }
            // What came at the same time shares a flush.
            if self.must_store() && (queue.is_empty() || self.is_full()) {
                let may_grow = self.buffers.may_grow(self.options.max_bytes);
                let open = usize::from(self.waiting.is_empty() && may_grow);
                self.store(self.buffers.len() - open);
            }
        }
    }

    fn is_storing(&self) -> bool {
        matches!(self.storing, Some(Storing::Yes(_)))
    }

    /// When the oldest records must be stored.
    fn due(&self) -> Option<Instant> {
        let oldest = self.buffers.aged(self.options.max_age).filter(|_| !self.is_storing())?;
        Some(self.retry_at.map_or(oldest, |retry| oldest.max(retry)))
    }

    fn must_store(&self) -> bool {
        let may_store = self.retry_at.is_none_or(|retry| retry <= Instant::now());
        !self.is_storing() && (!self.waiting.is_empty() || (self.is_full() && may_store))
    }

    fn is_full(&self) -> bool {
        self.buffers.is_full(self.options.max_bytes)
    }

    fn append(&mut self, record: &str, done: Done) {
        if self.buffers.bytes() >= self.options.max_bytes.saturating_mul(FULL) {
            let text = "the log is not stored as fast as it grows, or not at all, and its buffers are full: \
                        append later, and see the error of `flush`";
            let _ = done.send(Err(Error::new(ErrorKind::Storage(text.to_owned()))));
            return;
        }
        self.buffers.push(&self.service, &self.options, record);
        self.unsynced += 1;
        match self.options.sync {
            LogSync::Every(records) if self.unsynced >= u64::from(records.max(1)) => self.waiting.push(done),
            _ => drop(done.send(Ok(()))),
        }
    }

    /// Begins to store so many buffers, unless others are being stored.
    fn store(&mut self, count: usize) {
        self.storing = match self.storing.take() {
            Some(Storing::No(saver)) => {
                let (buffers, waiting) = (self.buffers.take(count), std::mem::take(&mut self.waiting));
                let flush = async move {
                    let (saver, left, result) = saver.store(buffers).await;
                    Flushed { saver, left, waiting, result }
                };
                Some(Storing::Yes(flush.boxed()))
            }
            storing => storing,
        };
    }

    /// Takes back what could not be stored, and tells those who wait.
    fn finish(&mut self, flushed: Flushed) -> Result<()> {
        let Flushed { saver, left, waiting, result } = flushed;
        self.storing = Some(Storing::No(saver));
        self.buffers.put_back(left);
        self.retry_at = result.is_err().then(|| Instant::now() + PAUSE);
        match &result {
            Ok(()) => self.unsynced = self.buffers.records(),
            Err(error) => tracing::warn!("the log of {} could not be stored: {error}", self.service),
        }
        waiting.into_iter().for_each(|done| drop(done.send(result.clone())));
        result
    }

    /// Stores all there is, and tells who closes the log.
    async fn close(mut self, closing: Option<Done>) {
        if self.is_storing() {
            let flushed = under_way(&mut self.storing).await;
            let _ = self.finish(flushed);
        }
        let mut result = Ok(());
        for attempt in 0..LAST_ATTEMPTS {
            if attempt > 0 {
                sleep(PAUSE).await;
            }
            self.store(self.buffers.len());
            let flushed = under_way(&mut self.storing).await;
            result = self.finish(flushed);
            if result.is_ok() {
                break;
            }
        }
        if let Some(closing) = closing {
            let _ = closing.send(result);
        }
    }
}

/// The flush that is under way, at its end; for ever if there is none.
async fn under_way(storing: &mut Option<Storing>) -> Flushed {
    match storing {
        Some(Storing::Yes(flush)) => flush.await,
        _ => pending().await,
    }
}
