use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::Ticks;
use crate::store::Result;

/// Bytes of UTF-8 in a message, at most: what every implementation can carry. An Azure queue message
/// holds 64 KiB of text, in which base64 takes a third
/// (<https://learn.microsoft.com/rest/api/storageservices/put-message>); a table's String holds
/// 32 Ki UTF-16 units.
pub const MESSAGE_BYTES: usize = 32 * 1024;

/// A queue of work that is done at least once.
///
/// A received message is invisible to others until its visibility ends; whoever finished the work
/// deletes it. A worker that dies lets it reappear, with a higher dequeue count.
///
/// # Poison
/// A message that was received as often as the queue allows and comes back once more is not received
/// again but set aside. It stays until somebody looks at it ([`poison`](Self::poison)) and puts it back
/// ([`requeue`](Self::requeue)) or deletes it.
///
/// # Receipts
/// Each send, receive and renewal gives a receipt; it is void as soon as the message was received,
/// renewed or deleted by anyone else. A void receipt gives a precondition error.
///
/// # Time
/// Visibility is measured by clocks that may differ between machines: a message may come early or
/// late. Nothing may rely on it for exclusion.
///
/// # Cancellation
/// A dropped `send` leaves the message sent or not; a dropped `receive` may leave messages invisible
/// until their visibility ends.
#[async_trait]
pub trait WorkQueue: fmt::Debug + Send + Sync + 'static {
    /// Adds a message that is invisible for `delay`. The receipt lets the sender delete it.
    ///
    /// # Errors
    /// The body is over [`MESSAGE_BYTES`]; the storage's.
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt>;

    /// Takes up to `max` visible messages and hides them for `visibility`. May return fewer than
    /// there are.
    ///
    /// # Errors
    /// The storage's.
    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>>;

    /// Hides a received message for `visibility` from now; zero gives it back at once.
    ///
    /// # Errors
    /// Precondition failed: the receipt is void.
    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt>;

    /// Removes a message whose work is done.
    ///
    /// # Errors
    /// Precondition failed: the receipt is void.
    async fn delete(&self, receipt: &Receipt) -> Result<()>;

    /// Looks at up to `max` visible messages without taking them.
    ///
    /// # Errors
    /// The storage's.
    async fn peek(&self, max: usize) -> Result<Vec<Message>>;

    /// Looks at up to `max` messages that were set aside, with receipts to put them back or delete them.
    /// A queue may hide what was looked at from the next look for half a minute; dequeue counts
    /// are the implementation's.
    ///
    /// # Errors
    /// The storage's.
    async fn poison(&self, max: usize) -> Result<Vec<Message>>;

    /// Puts a message from [`poison`](Self::poison) back, visible at once and counted from zero.
    ///
    /// # Errors
    /// Precondition failed: its receipt is void.
    async fn requeue(&self, message: &Message) -> Result<Receipt>;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<Q: WorkQueue + ?Sized> WorkQueue for Arc<Q> {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        (**self).send(body, delay).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        (**self).receive(max, visibility).await
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        (**self).renew(receipt, visibility).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        (**self).delete(receipt).await
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        (**self).peek(max).await
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        (**self).poison(max).await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        (**self).requeue(message).await
    }
}

/// The identity of a message for as long as it lives.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(String);

impl MessageId {
    /// An identity that an implementation gives.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The right to renew or delete a message: opaque, given by the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    id: MessageId,
    token: String,
}

impl Receipt {
    /// A receipt with what an implementation needs to find the message again.
    pub fn new(id: MessageId, token: impl Into<String>) -> Self {
        Self { id, token: token.into() }
    }

    /// The message.
    pub const fn id(&self) -> &MessageId {
        &self.id
    }

    /// What the implementation put in.
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// A message as it was received or peeked at.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Who it is.
    pub id: MessageId,
    /// What it says.
    pub body: String,
    /// How often it was received, this time included.
    pub dequeue_count: u32,
    /// When it was sent, by the storage's or the sender's clock.
    pub inserted: Ticks,
    /// The right to renew or delete it; `None` from a peek.
    pub receipt: Option<Receipt>,
}

impl Message {
    /// A message as an implementation found it.
    pub const fn new(id: MessageId, body: String, dequeue_count: u32, inserted: Ticks) -> Self {
        Self { id, body, dequeue_count, inserted, receipt: None }
    }

    /// The same message, received.
    #[must_use]
    pub fn with_receipt(mut self, receipt: Receipt) -> Self {
        self.receipt = Some(receipt);
        self
    }
}

/// The body is not shown: it is the application's.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id)
            .field("bytes", &self.body.len())
            .field("dequeue_count", &self.dequeue_count)
            .field("inserted", &self.inserted)
            .finish_non_exhaustive()
    }
}
