//! Work queues: the trait [`WorkQueue`]. Implementations are in the crates of their storage.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::Ticks;
use crate::store::Result;

/// Maximum bytes of UTF-8 in a message, which every implementation supports. An Azure queue message holds 64 KiB of text
/// (<https://learn.microsoft.com/rest/api/storageservices/put-message>), which are 48 KiB before base64; a String of a table holds
/// 32 Ki UTF-16 units.
pub const MESSAGE_BYTES: usize = 32 * 1024;

/// A queue of work that is executed at least once.
///
/// A received message is invisible to other workers for its visibility timeout. The worker deletes the
/// message after the work. If the worker dies, the message becomes visible again, with a higher dequeue
/// count.
///
/// # Poison
/// A message that was received as often as the queue allows is not received again but set aside as poison. It
/// stays until an operator lists it ([`poison`](Self::poison)) and puts it back ([`requeue`](Self::requeue))
/// or deletes it.
///
/// # Receipts
/// Each send, receive and renewal returns a receipt. It becomes invalid when another caller receives, renews
/// or deletes the message. An invalid receipt gives a precondition error.
///
/// # Time
/// Visibility is measured by clocks that may differ between machines, so a message may become visible early
/// or late. Do not rely on it for mutual exclusion.
///
/// # Cancellation
/// After a dropped `send`, the message may or may not be sent. A dropped `receive` may leave messages
/// invisible until their visibility timeout.
#[async_trait]
pub trait WorkQueue: fmt::Debug + Send + Sync + 'static {
    /// Adds a message that is invisible for `delay`. The sender can delete it with the receipt.
    ///
    /// # Errors
    /// Fails if the body exceeds [`MESSAGE_BYTES`], and with the storage's errors.
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt>;

    /// Receives up to `max` visible messages and hides them for `visibility`. It may return fewer messages
    /// than are visible.
    ///
    /// # Errors
    /// Fails with the storage's errors.
    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>>;

    /// Hides a received message for `visibility` from now on. Zero makes it visible immediately.
    ///
    /// # Errors
    /// Fails with a precondition error if the receipt is invalid.
    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt>;

    /// Removes a message whose work is done.
    ///
    /// # Errors
    /// Fails with a precondition error if the receipt is invalid.
    async fn delete(&self, receipt: &Receipt) -> Result<()>;

    /// Returns up to `max` visible messages without receiving them.
    ///
    /// # Errors
    /// Fails with the storage's errors.
    async fn peek(&self, max: usize) -> Result<Vec<Message>>;

    /// Returns up to `max` messages that were set aside, with receipts to put them back or delete them. A
    /// queue may hide the returned messages from the next call for half a minute. The meaning of dequeue
    /// counts here depends on the implementation.
    ///
    /// # Errors
    /// Fails with the storage's errors.
    async fn poison(&self, max: usize) -> Result<Vec<Message>>;

    /// Puts a message from [`poison`](Self::poison) back. It is visible immediately and its dequeue count
    /// starts at zero.
    ///
    /// # Errors
    /// Fails with a precondition error if its receipt is invalid.
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

/// The identity of a message, which never changes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(String);

impl MessageId {
    /// Creates an identity; for implementations.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Returns the text.
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

/// The permission to renew or delete a message. Opaque; the queue creates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    id: MessageId,
    token: String,
}

impl Receipt {
    /// Creates a receipt with the data that an implementation needs to find the message.
    pub fn new(id: MessageId, token: impl Into<String>) -> Self {
        Self {
            id,
            token: token.into(),
        }
    }

    /// Returns the message's id.
    pub const fn id(&self) -> &MessageId {
        &self.id
    }

    /// Returns the implementation's data.
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// A message that was received or peeked.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The message's id.
    pub id: MessageId,
    /// The message's text.
    pub body: String,
    /// How often the message was received, including this time.
    pub dequeue_count: u32,
    /// When the message was sent, by the storage's or the sender's clock.
    pub inserted: Ticks,
    /// The permission to renew or delete the message; `None` from a peek.
    pub receipt: Option<Receipt>,
}

impl Message {
    /// Creates a message; for implementations.
    pub const fn new(id: MessageId, body: String, dequeue_count: u32, inserted: Ticks) -> Self {
        Self {
            id,
            body,
            dequeue_count,
            inserted,
            receipt: None,
        }
    }

    /// Adds the receipt of a received message.
    #[must_use]
    pub fn with_receipt(mut self, receipt: Receipt) -> Self {
        self.receipt = Some(receipt);
        self
    }
}

/// Does not show the body, which is application data.
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
