//! The task that holds the buffer of a log.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions};
use table_core::model::Ticks;
use table_core::store::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::entry::{Header, line};
use super::name::{directory, number, parse, path};
use super::{LogOptions, LogSync};
use crate::blob::{self, blob_error};

/// After a failed flush.
const PAUSE: Duration = Duration::from_secs(1);
/// Buffers that may gather while nothing can be stored.
const FULL: usize = 4;

type Done = oneshot::Sender<Result<()>>;

pub(super) enum Command {
    Append(String, Done),
    Flush(Done),
    Close(Done),
}

/// Records of one directory that are not stored yet.
struct Buffer {
    directory: String,
    first: Ticks,
    last: Ticks,
    records: u64,
    text: String,
    /// Its number among the writer's, by which a lost answer is recognized.
    flush: u64,
    since: Instant,
    /// Whether storing it was tried: what is stored under its number cannot grow any more.
    sealed: bool,
}

pub(super) struct Actor {
    blobs: Arc<dyn ObjectStore>,
    service: String,
    options: LogOptions,
    writer: Uuid,
    flushes: u64,
    /// The last is being filled; those before could not be stored, or wait for it.
    buffers: Vec<Buffer>,
    waiting: Vec<Done>,
    unsynced: u32,
    /// The directory written last, and its next number.
    next: Option<(String, u32)>,
    last: Option<Ticks>,
    retry_at: Option<Instant>,
}

impl Actor {
    pub(super) fn new(blobs: Arc<dyn ObjectStore>, service: String, options: LogOptions) -> Self {
        let (writer, buffers, waiting) = (Uuid::new_v4(), Vec::new(), Vec::new());
        let (flushes, unsynced, next, last, retry_at) = (0, 0, None, None, None);
        Self { blobs, service, options, writer, flushes, buffers, waiting, unsynced, next, last, retry_at }
    }

    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        loop {
            let command = match self.due() {
                None => queue.recv().await,
                Some(due) => tokio::select! {
                    command = queue.recv() => command,
                    () = sleep_until(due) => {
                        self.store_all().await;
                        continue;
                    }
                },
            };
            match command {
                Some(Command::Append(record, done)) => self.append(&record, done),
                Some(Command::Flush(done)) => self.waiting.push(done),
                Some(Command::Close(done)) => {
                    self.waiting.push(done);
                    return self.store_all().await;
                }
                None => return self.store_all().await,
            }
            // What came at the same time shares a flush.
            if self.must_store() && (queue.is_empty() || self.is_full()) {
                let open = usize::from(self.waiting.is_empty() && self.may_grow());
                self.store(self.buffers.len() - open).await;
            }
        }
    }

    /// When the oldest records must be stored; `None` without any, or where the age has no bound.
    fn due(&self) -> Option<Instant> {
        let oldest = self.buffers.first()?.since.checked_add(self.options.max_age)?;
        Some(self.retry_at.map_or(oldest, |retry| oldest.max(retry)))
    }

    fn must_store(&self) -> bool {
        let may_store = self.retry_at.is_none_or(|retry| retry <= Instant::now());
        !self.waiting.is_empty() || (self.is_full() && may_store)
    }

    fn is_full(&self) -> bool {
        self.buffers.len() > 1 || self.bytes() >= self.options.max_bytes
    }

    /// Whether the directory of the last buffer is the present one, and there is room for more.
    fn may_grow(&self) -> bool {
        self.buffers.last().is_some_and(|buffer| !buffer.sealed && buffer.text.len() < self.options.max_bytes)
    }

    fn bytes(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.text.len()).sum()
    }

    fn append(&mut self, record: &str, done: Done) {
        if self.bytes() >= FULL * self.options.max_bytes {
            let text = "the log cannot be stored and its buffers are full; see the error of `flush`";
            let _ = done.send(Err(Error::new(ErrorKind::Storage(text.to_owned()))));
            return;
        }
        self.push(record);
        self.unsynced += 1;
        match self.options.sync {
            LogSync::Every(records) if self.unsynced >= records.max(1) => self.waiting.push(done),
            _ => drop(done.send(Ok(()))),
        }
    }

    /// Adds a record; times never go back.
    fn push(&mut self, record: &str) {
        let now = self.options.clock.now();
        let now = self.last.map_or(now, |last| last.max(now));
        self.last = Some(now);
        let place = directory(&self.service, now, self.options.period);
        let max = self.options.max_bytes;
        if !self.buffers.last().is_some_and(|b| !b.sealed && b.directory == place && b.text.len() < max) {
            self.flushes += 1;
            let (first, last, flush, since) = (now, now, self.flushes, Instant::now());
            let text = String::new();
            let (records, sealed) = (0, false);
            self.buffers.push(Buffer { directory: place, first, last, records, text, flush, since, sealed });
        }
        if let Some(buffer) = self.buffers.last_mut() {
            buffer.text.push_str(&line(self.options.format, now, record));
            (buffer.last, buffer.records) = (now, buffer.records + 1);
        }
    }

    async fn store_all(&mut self) {
        self.store(self.buffers.len()).await;
    }

    /// Stores so many buffers in their order, and tells those who wait.
    async fn store(&mut self, count: usize) {
        let mut result = Ok(());
        self.buffers.iter_mut().take(count).for_each(|buffer| buffer.sealed = true);
        for _ in 0..count {
            let Some(buffer) = self.buffers.first() else { break };
            result = match self.blob(buffer) {
                Ok((place, flush, text)) => self.create(place, flush, text).await,
                Err(error) => Err(error),
            };
            if result.is_err() {
                break;
            }
            self.buffers.remove(0);
        }
        self.retry_at = result.is_err().then(|| Instant::now() + PAUSE);
        if let Err(error) = &result {
            tracing::warn!("the log of {} could not be stored: {error}", self.service);
        } else {
            self.unsynced = self.buffers.iter().map(|buffer| buffer.records as u32).sum();
        }
        self.waiting.drain(..).for_each(|done| drop(done.send(result.clone())));
    }

    fn blob(&self, buffer: &Buffer) -> Result<(String, u64, String)> {
        let header = Header {
            log: 1,
            first: buffer.first.to_string(),
            last: buffer.last.to_string(),
            records: buffer.records,
            writer: self.writer,
            flush: buffer.flush,
        };
        let text = header.line(self.options.format)? + &buffer.text;
        Ok((buffer.directory.clone(), buffer.flush, text))
    }

    /// Creates a blob under the next free number.
    async fn create(&mut self, place: String, flush: u64, text: String) -> Result<()> {
        let mut next = match self.next.take() {
            Some((known, next)) if known == place => next,
            _ => self.first_free(&place).await?,
        };
        loop {
            match self.create_as(&place, next, flush, &text).await {
                Ok(true) => break,
                Ok(false) => next += 1,
                Err(error) => {
                    // The same number again: if an answer alone was lost, the blob is found to be ours.
                    self.next = Some((place, next));
                    return Err(error);
                }
            }
        }
        self.next = Some((place, next + 1));
        Ok(())
    }

    /// Creates a blob under a number, unless an earlier attempt has; `false` if the number is another writer's.
    async fn create_as(&self, place: &str, number: u32, flush: u64, text: &str) -> Result<bool> {
        let path = path(place, number)?;
        let options = PutOptions::from(PutMode::Create);
        match self.blobs.put_opts(&path, text.to_owned().into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => self.is_ours(&path, flush).await,
            Err(error) => Err(blob_error(error)),
        }
    }

    async fn first_free(&self, place: &str) -> Result<u32> {
        let directory = parse(place)?;
        let mut names = self.blobs.list(Some(&directory));
        let mut last = 0;
        while let Some(blob) = names.try_next().await.map_err(blob_error)? {
            last = last.max(number(&blob.location).unwrap_or_default());
        }
        Ok(last + 1)
    }

    /// Whether an earlier attempt, whose answer was lost, wrote this blob.
    async fn is_ours(&self, path: &Path, flush: u64) -> Result<bool> {
        let Some(content) = blob::open(&*self.blobs, path).await? else { return Ok(false) };
        let bytes = content.try_fold(Vec::new(), |mut all, piece| async move {
            all.extend_from_slice(&piece);
            Ok(all)
        });
        let text = String::from_utf8_lossy(&bytes.await?).into_owned();
        let header = text.lines().next().and_then(Header::parse);
        Ok(header.is_some_and(|(header, _)| header.writer == self.writer && header.flush == flush))
    }
}
