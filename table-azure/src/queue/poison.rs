//! Messages that were received too often: they move to a second queue, the poison queue.

use std::time::Duration;

use azure_storage_queue::models::ReceivedMessage;
use table_core::Result;
use table_core::queue::{Message, Receipt};

use super::message::{decode, encode, message, receipt};
use super::queue_api::{QueueApi, is_missing};

/// Prefix of the receipts of messages in the poison queue.
const POISON: &str = "poison ";
/// How long a poisoned message that was listed stays hidden from other callers.
const LOOK: Duration = Duration::from_secs(30);

/// Returns the pop receipt in a receipt of the poison queue.
pub(super) fn poison_token(receipt: &Receipt) -> Option<&str> {
    receipt.token().strip_prefix(POISON)
}

/// Returns the receipt with the mark of the poison queue, by which a later call finds the queue of the message.
fn marked(receipt: &Receipt) -> Receipt {
    Receipt::new(receipt.id().clone(), format!("{POISON}{}", receipt.token()))
}

impl QueueApi {
    /// Moves a message that was received too often to the poison queue. It is sent there before it is deleted
    /// here: after a crash between the two requests it is in both queues.
    pub(super) async fn set_aside(&self, text: String, from: &Self, at: &Receipt) -> Result<()> {
        match self.send(text.clone(), Duration::ZERO).await {
            Err(error) if is_missing(&error) => {
                self.create().await?;
                self.send(text, Duration::ZERO).await?;
            }
            sent => drop(sent?),
        }
        match from.delete(at.id(), at.token()).await {
            // Another worker has received the message since and will set it aside again; twice in the poison queue is
            // better than lost.
            Err(error) if error.is_precondition_failed() => Ok(()),
            deleted => deleted,
        }
    }

    /// Returns the poisoned messages. The text of another program's message is returned unchanged.
    pub(super) async fn look(&self, max: usize) -> Result<Vec<Message>> {
        let items = match self.receive(max, LOOK).await {
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            received => received?,
        };
        items.into_iter().map(shown).collect()
    }

    /// Sends a poisoned message back to its queue, if the receipt is still valid.
    pub(super) async fn send_back(
        &self,
        body: &str,
        at: &Receipt,
        token: &str,
        to: &Self,
    ) -> Result<Receipt> {
        // Proves that the receipt is valid before the message is sent again: otherwise another caller has put it back
        // already.
        let token = self.update(at.id(), token, LOOK).await?;
        let sent = to.send(encode(body), Duration::ZERO).await?;
        self.delete(at.id(), &token).await?;
        Ok(sent)
    }
}

/// Converts a message of the poison queue.
fn shown(item: ReceivedMessage) -> Result<Message> {
    let receipt = marked(&receipt(item.message_id, item.pop_receipt)?);
    let text = item.message_text.unwrap_or_default();
    let body = decode(&text).unwrap_or(text);
    Ok(message(receipt.id().clone(), body, item.dequeue_count, item.insertion_time)?.with_receipt(receipt))
}
