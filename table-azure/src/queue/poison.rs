//! Messages that were received too often: in a queue beside the queue.

use std::time::Duration;

use azure_storage_queue::models::ReceivedMessage;
use table_core::Result;
use table_core::queue::{Message, Receipt};

use super::message::{decode, encode, message, receipt};
use super::one_queue::{OneQueue, is_missing};

/// What receipts of the queue beside start with.
const POISON: &str = "poison ";
/// For how long a message that was looked at stays with who looked.
const LOOK: Duration = Duration::from_secs(30);

/// The pop receipt within a receipt of the queue beside.
pub(super) fn poison_token(receipt: &Receipt) -> Option<&str> {
    receipt.token().strip_prefix(POISON)
}

fn marked(receipt: &Receipt) -> Receipt {
    Receipt::new(receipt.id().clone(), format!("{POISON}{}", receipt.token()))
}

impl OneQueue {
    /// Takes a message that was received once too often from its queue. It is sent on before it is deleted:
    /// a crash in between leaves it in both.
    pub(super) async fn set_aside(&self, text: String, from: &Self, at: &Receipt) -> Result<()> {
        match self.send(text.clone(), Duration::ZERO).await {
            Err(error) if is_missing(&error) => {
                self.create().await?;
                self.send(text, Duration::ZERO).await?;
            }
            sent => drop(sent?),
        }
        match from.delete(at.id(), at.token()).await {
            Err(error) if error.is_precondition_failed() => Ok(()),
            deleted => deleted,
        }
    }

    /// What was set aside. A text that another program sent is shown as it is.
    pub(super) async fn look(&self, max: usize) -> Result<Vec<Message>> {
        let items = match self.receive(max, LOOK).await {
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            received => received?,
        };
        items.into_iter().map(shown).collect()
    }

    /// Sends a message that was set aside back to its queue, if the receipt is still good.
    pub(super) async fn send_back(
        &self,
        body: &str,
        at: &Receipt,
        token: &str,
        to: &Self,
    ) -> Result<Receipt> {
        let token = self.update(at.id(), token, LOOK).await?;
        let sent = to.send(encode(body), Duration::ZERO).await?;
        self.delete(at.id(), &token).await?;
        Ok(sent)
    }
}

fn shown(item: ReceivedMessage) -> Result<Message> {
    let receipt = marked(&receipt(item.message_id, item.pop_receipt)?);
    let text = item.message_text.unwrap_or_default();
    let body = decode(&text).unwrap_or(text);
    Ok(message(receipt.id().clone(), body, item.dequeue_count, item.insertion_time)?.with_receipt(receipt))
}
