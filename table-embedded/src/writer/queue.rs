use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::panicking;

use table_core::Result;
use table_core::model::TableName;
use table_core::store::{LocalPermit, ManifestChange, Operation, StoreContext, Written};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::changes::Watch;
use crate::error::Failure;
use crate::options::PROFILE;
use crate::verify::Pinned;

/// A change that the writer executes.
#[derive(Debug)]
pub(crate) enum Request {
    Write(TableName, Writes),
    CreateTable(TableName),
    DeleteTable(TableName),
}

#[derive(Debug)]
pub(crate) enum Writes {
    One(Operation),
    Group(Vec<Operation>),
}

impl Writes {
    /// The operations, in order.
    pub(super) fn operations(&self) -> &[Operation] {
        match self {
            Self::One(operation) => std::slice::from_ref(operation),
            Self::Group(operations) => operations,
        }
    }
}

/// A message to the writer.
#[derive(Debug)]
pub(super) enum Message {
    Change(Job),
    /// Compacts the file. The guard excludes backups until it is done.
    Compact(Reply<()>, OwnedMutexGuard<()>),
    /// Starts recording changes, from the next change on.
    Watch(Reply<Watch>),
    /// Pins the last commit, on the disk; the flag says whether to verify the engine's own tables too.
    Pin(Reply<Pinned>, bool),
    /// Closes the store. A store that is already closed sends no answer.
    Close(Closing),
}

/// The channel to the caller that waits for the store to be closed.
pub(super) type Closing = oneshot::Sender<Result<()>>;

/// A change with its size and the channel to its caller.
#[derive(Debug)]
pub(super) struct Job {
    request: Request,
    pub(super) bytes: usize,
    caller: Caller,
}

/// The caller of a change.
#[derive(Debug)]
pub(super) struct Caller {
    permits: Permits,
    reply: Reply<Vec<Written>>,
}

impl Caller {
    pub(super) fn answer(self, result: Result<Vec<Written>>) {
        // Before the answer, so that what the caller does next sees no write and no change of a manifest of its own in progress.
        drop(self.permits);
        self.reply.send(result);
    }
}

/// The permits of a job until it is answered. The job keeps them even if its caller stopped waiting after it began.
#[derive(Debug)]
struct Permits {
    /// The share of the queue's bytes.
    _bytes: Option<OwnedSemaphorePermit>,
    /// The registration as a write in progress.
    _write: Option<LocalPermit>,
    /// The change of a manifest that the job makes, after which the manifest cache drops its copy.
    _manifest: Option<Box<ManifestChange>>,
}

impl Job {
    /// Whether the caller still waits. A job without a caller is not begun, because the caller may have done
    /// something else since.
    pub(super) fn is_wanted(&self) -> bool {
        self.caller
            .reply
            .0
            .as_ref()
            .is_some_and(|waiting| !waiting.is_closed())
    }

    /// Splits the job into its request and the data for the answer.
    pub(super) fn split(self) -> (Request, Caller) {
        (self.request, self.caller)
    }
}

/// A reply that must be sent. Dropping it reports "not applied", or "ambiguous" during a panic.
#[derive(Debug)]
pub(super) struct Reply<T>(Option<oneshot::Sender<Result<T>>>);

impl<T> Reply<T> {
    pub(super) fn send(mut self, result: Result<T>) {
        if let Some(waiting) = self.0.take() {
            // The caller may have stopped waiting; the operation remains applied.
            let _ = waiting.send(result);
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(waiting) = self.0.take() {
            let error = if panicking() {
                Failure::NoAnswer.ambiguous()
            } else {
                Failure::Closed.into()
            };
            let _ = waiting.send(Err(error));
        }
    }
}

/// Maximum bytes in the queue. Further requests wait.
const QUEUE_BYTES: usize = 64 << 20;
/// Bytes per queue permit. An operation takes at least one permit.
const PERMIT_BYTES: usize = 1 << 10;
const QUEUE_PERMITS: usize = QUEUE_BYTES / PERMIT_BYTES;

/// The channel to the writer, bounded by bytes.
#[derive(Debug)]
pub(crate) struct Queue {
    messages: Sender<Message>,
    free_bytes: Arc<Semaphore>,
    context: StoreContext,
}

impl Queue {
    pub(crate) fn new() -> (Self, Requests) {
        let (messages, receiver) = channel();
        let free_bytes = Arc::new(Semaphore::new(QUEUE_PERMITS));
        (
            Self {
                messages,
                free_bytes,
                context: StoreContext::new(&PROFILE).with_local_writers(Arc::default()),
            },
            Requests(receiver),
        )
    }

    /// Sends a change to the writer. A future that is dropped before the writer begins the change cancels it;
    /// later, the change takes effect.
    pub(crate) async fn submit(&self, request: Request) -> Result<Vec<Written>> {
        let bytes = request.bytes();
        let share = bytes.div_ceil(PERMIT_BYTES).clamp(1, QUEUE_PERMITS) as u32;
        // Before the message is sent. So the queue is bounded, and a caller that is dropped while it waits for free bytes has changed nothing.
        // The semaphore is never closed.
        let share = Arc::clone(&self.free_bytes)
            .acquire_many_owned(share)
            .await
            .ok();
        let permits = Permits {
            _bytes: share,
            _write: self.context.enter(),
            _manifest: self.manifest_change(&request).map(Box::new),
        };
        self.send(|reply| {
            Message::Change(Job {
                request,
                bytes,
                caller: Caller { permits, reply },
            })
        })
        .await
    }

    /// Returns the context of the store.
    pub(crate) const fn context(&self) -> &StoreContext {
        &self.context
    }

    fn manifest_change(&self, request: &Request) -> Option<ManifestChange> {
        match request {
            Request::CreateTable(_) => None,
            Request::DeleteTable(table) => Some(self.context.manifests().change(table)),
            Request::Write(table, writes) => {
                let partition = writes.operations().first()?.key().partition();
                self.context.manifests().change_of(table, partition)
            }
        }
    }

    /// Compacts the file while the guard excludes others.
    pub(crate) async fn compact(&self, guard: OwnedMutexGuard<()>) -> Result<()> {
        self.send(|reply| Message::Compact(reply, guard)).await
    }

    /// Starts recording changes, from the next change on.
    pub(crate) async fn watch(&self) -> Result<Watch> {
        self.send(Message::Watch).await
    }

    /// Pins the last commit, on the disk. If `include_engine_tables`, also verifies the engine's own tables.
    pub(crate) async fn pin(&self, include_engine_tables: bool) -> Result<Pinned> {
        self.send(|reply| Message::Pin(reply, include_engine_tables))
            .await
    }

    /// Closes the store. Waits if it is being closed; does nothing if it is closed.
    pub(crate) async fn close(&self) -> Result<()> {
        let (sender, answer) = oneshot::channel();
        let _ = self.messages.send(Message::Close(sender));
        answer.await.unwrap_or(Ok(()))
    }

    async fn send<T>(&self, message: impl FnOnce(Reply<T>) -> Message) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        // An error returns the message; dropping it answers the caller.
        let _ = self.messages.send(message(Reply(Some(sender))));
        answer
            .await
            .unwrap_or_else(|_| Err(Failure::NoAnswer.ambiguous()))
    }
}

/// The writer's end of the queue.
#[derive(Debug)]
pub(crate) struct Requests(pub(super) Receiver<Message>);

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Self::CreateTable(_) | Self::DeleteTable(_) => 0,
            Self::Write(_, writes) => writes.operations().iter().map(operation_bytes).sum(),
        }
    }
}

fn operation_bytes(operation: &Operation) -> usize {
    let key = operation.key();
    let properties = operation
        .entity()
        .map_or(0, |e| e.properties().as_packed().len());
    key.partition().len() + key.row().len() + properties
}
