use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::panicking;

use table_core::Result;
use table_core::model::TableName;
use table_core::store::{LocalPermit, LocalWriters, Operation, Written};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::changes::Watch;
use crate::error::Failure;
use crate::verify::Pinned;

/// What the writer can be asked to change.
#[derive(Debug)]
pub(crate) enum Request {
    Write(TableName, Work),
    CreateTable(TableName),
    DeleteTable(TableName),
}

#[derive(Debug)]
pub(crate) enum Work {
    One(Operation),
    Group(Vec<Operation>),
}

impl Work {
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
    /// With what keeps backups out until it is done.
    Compact(Reply<()>, OwnedMutexGuard<()>),
    /// Has changes noted from the next one on.
    Watch(Reply<Watch>),
    /// What is committed, on the disk; whether the engine's own tables are to be read, too.
    Pin(Reply<Pinned>, bool),
    /// Nobody is told anything by a store that is closed already.
    Close(Closing),
}

/// Who waits for the store to be closed.
pub(super) type Closing = oneshot::Sender<Result<()>>;

/// A change with its size and the one who waits for it.
#[derive(Debug)]
pub(super) struct Job {
    request: Request,
    pub(super) bytes: usize,
    reply: Reply<Vec<Written>>,
    room: Room,
}

/// The room that a job takes in the queue, until it is answered, and that it is under way until then: also when nobody waits any
/// more for one that was begun.
pub(super) type Room = (Option<OwnedSemaphorePermit>, LocalPermit);

impl Job {
    /// Whether somebody still waits for it. What nobody waits for is not begun: who gave it up may have done
    /// something else since.
    pub(super) fn is_wanted(&self) -> bool {
        self.reply.0.as_ref().is_some_and(|waiting| !waiting.is_closed())
    }

    /// What to do, and whom to answer.
    pub(super) fn split(self) -> (Request, (Reply<Vec<Written>>, Room)) {
        (self.request, (self.reply, self.room))
    }
}

/// An answer that is owed. Dropped without one, it says that nothing was done, or, by a panic, that this is not known.
#[derive(Debug)]
pub(super) struct Reply<T>(Option<oneshot::Sender<Result<T>>>);

impl<T> Reply<T> {
    pub(super) fn send(mut self, result: Result<T>) {
        if let Some(waiting) = self.0.take() {
            // Nobody may be waiting any more: the operation stays done.
            let _ = waiting.send(result);
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(waiting) = self.0.take() {
            let error = if panicking() { Failure::Lost.ambiguous() } else { Failure::Closed.into() };
            let _ = waiting.send(Err(error));
        }
    }
}

/// Bytes that may be queued; more wait to be queued.
const QUEUE_BYTES: usize = 64 << 20;
/// A unit of room in the queue; an operation takes at least one.
const ROOM: usize = 1 << 10;
const QUEUE_ROOM: usize = QUEUE_BYTES / ROOM;

/// The way to the writer, bounded by bytes.
#[derive(Debug)]
pub(crate) struct Queue {
    messages: Sender<Message>,
    room: Arc<Semaphore>,
    writers: Arc<LocalWriters>,
}

impl Queue {
    pub(crate) fn new() -> (Self, Requests) {
        let (messages, receiver) = channel();
        let room = Arc::new(Semaphore::new(QUEUE_ROOM));
        (Self { messages, room, writers: Arc::default() }, Requests(receiver))
    }

    /// Has a change made. A future that is dropped before the writer begins with the change leaves it undone;
    /// later the change happens as if it had not been dropped.
    pub(crate) async fn ask(&self, request: Request) -> Result<Vec<Written>> {
        let bytes = request.bytes();
        let room = bytes.div_ceil(ROOM).clamp(1, QUEUE_ROOM) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(room).await.ok();
        let room = (room, self.writers.enter());
        self.send(|reply| Message::Change(Job { request, bytes, reply, room })).await
    }

    /// What is under way.
    pub(crate) const fn writers(&self) -> &Arc<LocalWriters> {
        &self.writers
    }

    /// Has the file compacted, while the guard keeps others from it.
    pub(crate) async fn compact(&self, alone: OwnedMutexGuard<()>) -> Result<()> {
        self.send(|reply| Message::Compact(reply, alone)).await
    }

    /// Has changes noted from the next one on.
    pub(crate) async fn watch(&self) -> Result<Watch> {
        self.send(Message::Watch).await
    }

    /// What is committed, on the disk; with the engine's own tables verified if so asked.
    pub(crate) async fn pin(&self, own: bool) -> Result<Pinned> {
        self.send(|reply| Message::Pin(reply, own)).await
    }

    /// Has the store closed; waits only, if it is being closed, and does nothing if it is closed.
    pub(crate) async fn close(&self) -> Result<()> {
        let (sender, answer) = oneshot::channel();
        let _ = self.messages.send(Message::Close(sender));
        answer.await.unwrap_or(Ok(()))
    }

    async fn send<T>(&self, message: impl FnOnce(Reply<T>) -> Message) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        // An error hands the message back; dropping it answers.
        let _ = self.messages.send(message(Reply(Some(sender))));
        answer.await.unwrap_or_else(|_| Err(Failure::Lost.ambiguous()))
    }
}

/// The writer's end of the queue.
#[derive(Debug)]
pub(crate) struct Requests(pub(super) Receiver<Message>);

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Self::CreateTable(_) | Self::DeleteTable(_) => 0,
            Self::Write(_, work) => work.operations().iter().map(operation_bytes).sum(),
        }
    }
}

fn operation_bytes(operation: &Operation) -> usize {
    let key = operation.key();
    let properties = operation.entity().map_or(0, |e| e.properties().as_packed().len());
    key.partition().len() + key.row().len() + properties
}
