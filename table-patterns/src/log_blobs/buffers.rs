//! Records that are not stored yet, and their way into blobs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions};
use table_core::model::Ticks;
use table_core::store::Result;
use tokio::time::Instant;
use uuid::Uuid;

use super::format::{Header, directory, line, number, parse, path};
use super::{LogFormat, LogOptions};
use crate::blobs::{self, blob_error};

/// The clock may go back by this time without a change of the log's order: a minute, in ticks of 100 ns.
const CLOCK_TOLERANCE: i64 = 60 * 10_000_000;

/// Records of one directory: one blob.
pub(super) struct Buffer {
    pub(super) directory: String,
    pub(super) first: Ticks,
    pub(super) last: Ticks,
    pub(super) records: u64,
    pub(super) text: String,
    /// The number of the buffer among the writer's buffers; identifies its blob after a lost answer.
    pub(super) flush: u64,
    opened: Instant,
    /// Whether an attempt to store the buffer has begun. The blob may exist since then, so the buffer must not grow.
    sealed: bool,
}

/// All buffers of a writer. Records go to the last buffer; the buffers before wait to be stored.
#[derive(Default)]
pub(super) struct Buffers {
    waiting: VecDeque<Buffer>,
    /// The size of the buffers that are being stored, in bytes.
    storing_bytes: usize,
    flushes: u64,
    last: Option<Ticks>,
}

impl Buffers {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn records(&self) -> u64 {
        self.waiting.iter().map(|buffer| buffer.records).sum()
    }

    /// The size of all records in memory, in bytes, including the buffers that are being stored.
    pub(super) fn bytes(&self) -> usize {
        self.storing_bytes + self.bytes_waiting()
    }

    fn bytes_waiting(&self) -> usize {
        self.waiting.iter().map(|buffer| buffer.text.len()).sum()
    }

    /// Whether a buffer must be stored now, whatever its age.
    pub(super) fn is_full(&self, max: usize) -> bool {
        self.len() > 1 || self.bytes_waiting() >= max
    }

    /// Whether the last buffer takes more records.
    pub(super) fn may_grow(&self, max: usize) -> bool {
        self.waiting
            .back()
            .is_some_and(|buffer| !buffer.sealed && buffer.text.len() < max)
    }

    /// The time at which the oldest record reaches this age; `None` without records or with an unlimited age.
    pub(super) fn due_at(&self, age: Duration) -> Option<Instant> {
        self.waiting.front()?.opened.checked_add(age)
    }

    /// Adds a record. Its time is not before the last record's, unless the clock went back by more than
    /// [`CLOCK_TOLERANCE`]; such a record starts a new buffer.
    pub(super) fn push(&mut self, service: &str, options: &LogOptions, record: &str) {
        let clock = options.clock.now();
        let is_slightly_ahead =
            |last: &Ticks| (1..=CLOCK_TOLERANCE).contains(&(last.get() - clock.get()));
        let now = self.last.filter(is_slightly_ahead).unwrap_or(clock);
        // The header has the first and the last time, between which readers expect the others.
        let went_back = self.last.is_some_and(|last| last > now);
        self.last = Some(now);
        let directory = directory(service, now, options.period);
        let fits = self.may_grow(options.max_bytes) && !went_back;
        if !(fits
            && self
                .waiting
                .back()
                .is_some_and(|buffer| buffer.directory == directory))
        {
            self.open(directory, now);
        }
        if let Some(buffer) = self.waiting.back_mut() {
            buffer.text.push_str(&line(options.format, now, record));
            (buffer.last, buffer.records) = (now, buffer.records + 1);
        }
    }

    /// Adds an empty buffer, which the following records fill.
    fn open(&mut self, directory: String, now: Ticks) {
        self.flushes += 1;
        let (first, last, flush, opened) = (now, now, self.flushes, Instant::now());
        let (records, text, sealed) = (0, String::new(), false);
        self.waiting.push_back(Buffer {
            directory,
            first,
            last,
            records,
            text,
            flush,
            opened,
            sealed,
        });
    }

    /// Takes the first `count` buffers to store them.
    pub(super) fn take(&mut self, count: usize) -> VecDeque<Buffer> {
        let mut taken: VecDeque<_> = self.waiting.drain(..count).collect();
        // An attempt may store the blob although its answer is lost. With the same content, `is_ours` can
        // find it.
        taken.iter_mut().for_each(|buffer| buffer.sealed = true);
        self.storing_bytes = taken.iter().map(|buffer| buffer.text.len()).sum();
        taken
    }

    /// Takes back the buffers that could not be stored.
    pub(super) fn restore(&mut self, mut left: VecDeque<Buffer>) {
        self.storing_bytes = 0;
        // In front: records must not overtake older ones.
        left.append(&mut self.waiting);
        self.waiting = left;
    }
}

/// Stores the buffers of one writer. Each flush owns the value while it runs, so only one flush runs at a time.
pub(super) struct BlobCreator {
    blobs: Arc<dyn ObjectStore>,
    format: LogFormat,
    writer: Uuid,
    /// The last directory, and the next number in it.
    next: Option<(String, u32)>,
}

impl BlobCreator {
    pub(super) fn new(blobs: Arc<dyn ObjectStore>, format: LogFormat) -> Self {
        Self {
            blobs,
            format,
            writer: Uuid::new_v4(),
            next: None,
        }
    }

    /// Stores buffers in their order until one fails; returns the buffers that are not stored.
    pub(super) async fn store(
        mut self,
        mut buffers: VecDeque<Buffer>,
    ) -> (Self, VecDeque<Buffer>, Result<()>) {
        while let Some(buffer) = buffers.front() {
            if let Err(error) = self.create(buffer).await {
                return (self, buffers, Err(error));
            }
            buffers.pop_front();
        }
        (self, buffers, Ok(()))
    }

    /// The content of the blob of a buffer: the header and the records.
    fn content(&self, buffer: &Buffer) -> Result<Bytes> {
        let header = Header {
            log: 1,
            first: buffer.first.to_string(),
            last: buffer.last.to_string(),
            records: buffer.records,
            writer: self.writer,
            flush: buffer.flush,
        };
        Ok((header.line(self.format)? + &buffer.text).into())
    }

    /// Creates a blob under the next free number.
    async fn create(&mut self, buffer: &Buffer) -> Result<()> {
        let (directory, content) = (buffer.directory.clone(), self.content(buffer)?);
        let mut next = match self.next.take() {
            Some((known, next)) if known == directory => next,
            _ => self.next_number(&directory).await?,
        };
        loop {
            match self
                .create_numbered(&directory, next, buffer.flush, &content)
                .await
            {
                Ok(true) => break,
                // Another writer of the log has taken the number.
                Ok(false) => next += 1,
                Err(error) => {
                    // Try the same number again: if only the answer was lost, `is_ours` finds the blob.
                    self.next = Some((directory, next));
                    return Err(error);
                }
            }
        }
        self.next = Some((directory, next + 1));
        Ok(())
    }

    /// Creates the blob with a number, unless an earlier attempt has created it. `false` if another writer has the number.
    async fn create_numbered(
        &self,
        directory: &str,
        number: u32,
        flush: u64,
        content: &Bytes,
    ) -> Result<bool> {
        let path = path(directory, number)?;
        // Never an overwrite: another writer of the log may have the same number in mind.
        let options = PutOptions::from(PutMode::Create);
        match self
            .blobs
            .put_opts(&path, content.clone().into(), options)
            .await
        {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => self.is_ours(&path, flush).await,
            Err(error) => Err(blob_error(error)),
        }
    }

    /// The number after the largest in a directory. 1 request per page of names.
    async fn next_number(&self, directory: &str) -> Result<u32> {
        let directory = parse(directory)?;
        let mut names = self.blobs.list(Some(&directory));
        let mut last = 0;
        while let Some(blob) = names.try_next().await.map_err(blob_error)? {
            // The largest, because the order of names is that of texts, and other files may be there.
            last = last.max(number(&blob.location).unwrap_or_default());
        }
        Ok(last + 1)
    }

    /// Whether an earlier attempt of this flush, whose answer was lost, created the blob.
    async fn is_ours(&self, path: &Path, flush: u64) -> Result<bool> {
        let Some(content) = blobs::open(&*self.blobs, path).await? else {
            return Ok(false);
        };
        let text = String::from_utf8_lossy(&blobs::collected(content).await?).into_owned();
        let header = text.lines().next().and_then(Header::parse);
        Ok(header.is_some_and(|(header, _)| header.writer == self.writer && header.flush == flush))
    }
}
