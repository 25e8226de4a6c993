//! The handle of a log, and the task that takes records while it stores others.

use std::collections::VecDeque;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use object_store::ObjectStore;
use serde::Serialize;
use table_core::store::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::buffers::{BlobCreator, Buffer, Buffers};
use super::format::{check_service, delimited_record, json_record};
use super::{LogFormat, LogOptions, LogSync};

/// The number of commands that may wait for the task.
const QUEUE: usize = 1024;

/// Appends records to the log of a service. See the [module](super) for what a crash can lose.
///
/// Clones are cheap and append to the same buffer. A task of the Tokio runtime stores the records. When the last clone
/// is dropped, the task stores the rest if the runtime still runs; [`close`](Self::close) waits for that.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use futures_util::TryStreamExt;
/// use object_store::memory::InMemory;
/// use table_core::model::Ticks;
/// use table_patterns::log_blobs::{LogOptions, LogWriter, read_logs};
///
/// let blobs = Arc::new(InMemory::new());
/// let log = LogWriter::new(blobs.clone(), "checkout", LogOptions::default())?;
/// let start = Ticks::now();
/// log.append(&serde_json::json!({"level": "info", "order": 17})).await?;
/// log.close().await?;
///
/// let entries: Vec<_> = read_logs(blobs, "checkout", start..Ticks::MAX).try_collect().await?;
/// assert_eq!(entries[0].json::<serde_json::Value>()?["order"], 17);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LogWriter {
    commands: mpsc::Sender<Command>,
    format: LogFormat,
}

impl LogWriter {
    /// Opens the log of a service. No request.
    ///
    /// # Errors
    /// A service name that some blob stores do not take as a directory; a delimiter that is not ASCII or is used in times
    /// and escapes.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn new(blobs: Arc<dyn ObjectStore>, service: &str, options: LogOptions) -> Result<Self> {
        check_service(service)?;
        if let LogFormat::Delimited(delimiter) = options.format
            && (!delimiter.is_ascii()
                || delimiter.is_ascii_alphanumeric()
                // The characters of times, of the header and of escapes.
                || "\\\n\r#:.-".contains(delimiter))
        {
            let text = format!(
                "{delimiter:?} cannot delimit log records: use a tab, a comma or another ASCII character that times do not use"
            );
            return Err(Error::invalid_argument(text));
        }
        let (commands, queue) = mpsc::channel(QUEUE);
        let format = options.format;
        tokio::spawn(LogTask::new(blobs, service.to_owned(), options).run(queue));
        Ok(Self { commands, format })
    }

    /// Appends a record to a log of JSON lines, and waits as [`LogOptions::sync`] says.
    ///
    /// # Errors
    /// - The record cannot be written as JSON, or the log is delimited.
    /// - The buffers are full, because earlier records could not be stored: the record is not in the log.
    /// - With [`LogSync::Every`](super::LogSync::Every), the flush failed: the record stays in memory and is stored later.
    pub async fn append<R: Serialize + Sync>(&self, record: &R) -> Result<()> {
        if self.format != LogFormat::JsonLines {
            return Err(Error::misuse(
                "the log is delimited, and `append` writes JSON lines: use `append_fields`",
            ));
        }
        let record = json_record(record)?;
        self.ask(|done| Command::Append(record, done)).await
    }

    /// Appends a record to a delimited log, and waits as [`LogOptions::sync`] says.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn append_fields<F: AsRef<str> + Sync>(&self, fields: &[F]) -> Result<()> {
        let LogFormat::Delimited(delimiter) = self.format else {
            return Err(Error::misuse(
                "the log has JSON lines, and `append_fields` writes delimited fields: use `append`",
            ));
        };
        let record = delimited_record(fields, delimiter);
        self.ask(|done| Command::Append(record, done)).await
    }

    /// Stores the records appended so far. 1 request per buffer; 1 more in a new directory.
    ///
    /// # Errors
    /// Errors of the blob store. The records stay in memory and are stored later.
    pub async fn flush(&self) -> Result<()> {
        self.ask(Command::Flush).await
    }

    /// Stores the remaining records and closes the log for all clones. A failed request is repeated for 3 seconds.
    ///
    /// # Errors
    /// Errors of the blob store: the records that could not be stored are lost. To lose none, repeat
    /// [`flush`](Self::flush) until it succeeds.
    pub async fn close(self) -> Result<()> {
        self.ask(Command::Close).await
    }

    /// Sends a command to the task, and waits for its answer.
    async fn ask(&self, command: impl FnOnce(Done) -> Command + Send) -> Result<()> {
        let closed = || Error::misuse("the log is closed: open a new `LogWriter`");
        let (done, answer) = oneshot::channel();
        self.commands
            .send(command(done))
            .await
            .map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter")
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// The pause after a failed flush.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The number of buffers that may wait before appends fail.
const MAX_BUFFERS: usize = 4;
/// The number of attempts to store the rest when the log is closed.
const CLOSE_ATTEMPTS: u32 = 4;

/// Answers a caller that waits.
type Done = oneshot::Sender<Result<()>>;

/// What a handle asks the task to do.
enum Command {
    Append(String, Done),
    Flush(Done),
    Close(Done),
}

/// The result of a flush.
struct Flushed {
    creator: BlobCreator,
    left: VecDeque<Buffer>,
    waiting: Vec<Done>,
    result: Result<()>,
}

/// Whether a flush runs.
enum FlushState {
    Idle(BlobCreator),
    Running(BoxFuture<'static, Flushed>),
}

/// The task that owns the buffers of a log.
///
/// Invariants: at most one flush runs. A caller in `waiting` is answered by the next flush, whose buffers include the
/// caller's record. Records arrive while a flush runs; they go to buffers that the flush does not have.
struct LogTask {
    service: String,
    options: LogOptions,
    buffers: Buffers,
    /// `None` only within a method.
    flush: Option<FlushState>,
    /// Callers that the next flush answers.
    waiting: Vec<Done>,
    /// The number of records that no flush has stored.
    unsynced: u64,
    /// After a failed flush: the time before which a full buffer does not start the next one.
    retry_at: Option<Instant>,
}

impl LogTask {
    fn new(blobs: Arc<dyn ObjectStore>, service: String, options: LogOptions) -> Self {
        let flush = Some(FlushState::Idle(BlobCreator::new(blobs, options.format)));
        let (buffers, waiting) = (Buffers::default(), Vec::new());
        Self {
            service,
            options,
            buffers,
            flush,
            waiting,
            unsynced: 0,
            retry_at: None,
        }
    }

    async fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        loop {
            let due = self.due();
            tokio::select! {
                flushed = running_flush(&mut self.flush) => drop(self.finish(flushed)),
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
            // Appends that arrived at the same time share a flush: take all commands of the queue first.
            if self.must_store() && (queue.is_empty() || self.is_full()) {
                // With a waiting caller everything is stored; otherwise the last buffer stays open while it
                // has room.
                let may_grow = self.buffers.may_grow(self.options.max_bytes);
                let kept_open = usize::from(self.waiting.is_empty() && may_grow);
                self.store(self.buffers.len() - kept_open);
            }
        }
    }

    fn is_flushing(&self) -> bool {
        matches!(self.flush, Some(FlushState::Running(_)))
    }

    /// The time at which the oldest records must be stored.
    fn due(&self) -> Option<Instant> {
        let oldest = self
            .buffers
            .due_at(self.options.max_age)
            .filter(|_| !self.is_flushing())?;
        Some(self.retry_at.map_or(oldest, |retry| oldest.max(retry)))
    }

    /// Whether a flush must start now: a caller waits for it, or a buffer is full.
    fn must_store(&self) -> bool {
        let may_store = self.retry_at.is_none_or(|retry| retry <= Instant::now());
        !self.is_flushing() && (!self.waiting.is_empty() || (self.is_full() && may_store))
    }

    fn is_full(&self) -> bool {
        self.buffers.is_full(self.options.max_bytes)
    }

    fn append(&mut self, record: &str, done: Done) {
        if self.buffers.bytes() >= self.options.max_bytes.saturating_mul(MAX_BUFFERS) {
            let text = "the log's buffers are full, because its records are not stored or stored too slowly: append \
                        later, and see the error of `flush`";
            let _ = done.send(Err(Error::new(ErrorKind::Storage(text.to_owned()))));
            return;
        }
        self.buffers.push(&self.service, &self.options, record);
        self.unsynced += 1;
        match self.options.sync {
            LogSync::Every(records) if self.unsynced >= u64::from(records.max(1)) => {
                self.waiting.push(done);
            }
            _ => drop(done.send(Ok(()))),
        }
    }

    /// Starts a flush of the first `count` buffers, unless a flush runs.
    fn store(&mut self, count: usize) {
        self.flush = match self.flush.take() {
            Some(FlushState::Idle(creator)) => {
                let (buffers, waiting) =
                    (self.buffers.take(count), std::mem::take(&mut self.waiting));
                let flush = async move {
                    let (creator, left, result) = creator.store(buffers).await;
                    Flushed {
                        creator,
                        left,
                        waiting,
                        result,
                    }
                };
                Some(FlushState::Running(flush.boxed()))
            }
            running => running,
        };
    }

    /// Takes back the buffers that could not be stored, and answers the callers that wait.
    fn finish(&mut self, flushed: Flushed) -> Result<()> {
        let Flushed {
            creator,
            left,
            waiting,
            result,
        } = flushed;
        self.flush = Some(FlushState::Idle(creator));
        self.buffers.restore(left);
        self.retry_at = result.is_err().then(|| Instant::now() + RETRY_PAUSE);
        match &result {
            Ok(()) => self.unsynced = self.buffers.records(),
            Err(error) => {
                tracing::warn!("the log of {} could not be stored: {error}", self.service);
            }
        }
        waiting
            .into_iter()
            .for_each(|done| drop(done.send(result.clone())));
        result
    }

    /// Stores all records and answers the caller that closes the log.
    async fn close(mut self, closing: Option<Done>) {
        if self.is_flushing() {
            let flushed = running_flush(&mut self.flush).await;
            let _ = self.finish(flushed);
        }
        let mut result = Ok(());
        for attempt in 0..CLOSE_ATTEMPTS {
            if attempt > 0 {
                sleep(RETRY_PAUSE).await;
            }
            self.store(self.buffers.len());
            let flushed = running_flush(&mut self.flush).await;
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

/// The result of the running flush; waits for ever if no flush runs.
async fn running_flush(flush: &mut Option<FlushState>) -> Flushed {
    match flush {
        // By reference: `select!` drops this future when another branch is ready, and the flush itself goes
        // on.
        Some(FlushState::Running(flush)) => flush.await,
        _ => pending().await,
    }
}
