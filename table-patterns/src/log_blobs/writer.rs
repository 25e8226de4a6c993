use std::fmt;
use std::sync::Arc;

use object_store::ObjectStore;
use serde::Serialize;
use table_core::store::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};

use super::actor::{Actor, Command};
use super::entry::{joined, json_record};
use super::name::check_service;
use super::{LogFormat, LogOptions};

/// Records on their way to the task that stores them.
const QUEUED: usize = 1024;

/// Appends records to the log of a service. See the [module](super) for what a crash can lose.
///
/// A cheap handle: clones append to the same buffer. It needs a Tokio runtime, in which a task stores
/// the records; the rest is stored when the last clone is dropped, or, for certain, by [`close`](Self::close).
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
    /// The service's name is no directory for every blob store; the delimiter is not ASCII, or is one
    /// of those that times and escapes use.
    pub fn new(blobs: Arc<dyn ObjectStore>, service: &str, options: LogOptions) -> Result<Self> {
        check_service(service)?;
        if let LogFormat::Delimited(delimiter) = options.format
            && (!delimiter.is_ascii()
                || delimiter.is_ascii_alphanumeric()
                || "\\\n\r#:.-".contains(delimiter))
        {
            let text = format!("{delimiter:?} cannot delimit log records: use a tab, a comma or the like");
            return Err(Error::invalid_request(text));
        }
        let (commands, queue) = mpsc::channel(QUEUED);
        let format = options.format;
        tokio::spawn(Actor::new(blobs, service.to_owned(), options).run(queue));
        Ok(Self { commands, format })
    }

    /// Appends a record to a log of JSON lines, and waits as [`LogOptions::sync`] says.
    ///
    /// # Errors
    /// It has no JSON form; the log has another format; what was appended before could not be stored:
    /// then the record is not in the log, unless it was this one's flush that failed, which is tried again.
    pub async fn append<R: Serialize + Sync>(&self, record: &R) -> Result<()> {
        if self.format != LogFormat::JsonLines {
            return Err(Error::invalid_request("the log is delimited: use `append_fields`"));
        }
        self.send(json_record(record)?).await
    }

    /// Appends a record to a delimited log, and waits as [`LogOptions::sync`] says.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn append_fields<F: AsRef<str> + Sync>(&self, fields: &[F]) -> Result<()> {
        let LogFormat::Delimited(delimiter) = self.format else {
            return Err(Error::invalid_request("the log is of JSON lines: use `append`"));
        };
        self.send(joined(fields, delimiter)).await
    }

    /// Stores what was appended so far.
    ///
    /// # Errors
    /// The blob store's; the records stay, and are tried again.
    pub async fn flush(&self) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.ask(Command::Flush(done), answer).await
    }

    /// Stores what is left and ends the log, for all clones. What fails is tried again for three seconds.
    ///
    /// # Errors
    /// The blob store's: the records that were not stored are lost. To lose none, [`flush`](Self::flush)
    /// until that succeeds.
    pub async fn close(self) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.ask(Command::Close(done), answer).await
    }

    async fn send(&self, record: String) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.ask(Command::Append(record, done), answer).await
    }

    async fn ask(&self, command: Command, answer: oneshot::Receiver<Result<()>>) -> Result<()> {
        let closed = || Error::new(ErrorKind::InvalidRequest("the log is closed".to_owned()));
        self.commands.send(command).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter").field("format", &self.format).finish_non_exhaustive()
    }
}
