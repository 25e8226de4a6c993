//! The body format of queue messages.

use azure_core::time::OffsetDateTime;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::DateTime;
use table_core::model::Ticks;
use table_core::queue::{Message, MessageId, Receipt};
use table_core::store::ErrorKind;
use table_core::{Error, Result};

pub(super) fn encode(body: &str) -> String {
    STANDARD.encode(body)
}

/// Returns the body; `None` if the text is not base64 of UTF-8, because another program sent it.
pub(super) fn decode(text: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}

/// Returns a receipt from the elements of an answer.
///
/// # Errors
/// Fails if one of them is missing.
pub(super) fn receipt(id: Option<String>, token: Option<String>) -> Result<Receipt> {
    let (id, token) = id.zip(token).ok_or_else(unreadable)?;
    Ok(Receipt::new(MessageId::new(id), token))
}

/// Returns a message without a receipt. `dequeued` is the number of times that it was received.
///
/// # Errors
/// Fails if the time of its insertion is missing.
pub(super) fn message(
    id: MessageId,
    body: String,
    dequeued: Option<i64>,
    inserted: Option<OffsetDateTime>,
) -> Result<Message> {
    let inserted = inserted.and_then(|time| DateTime::from_timestamp(time.unix_timestamp(), 0));
    let dequeued = u32::try_from(dequeued.unwrap_or_default()).unwrap_or(u32::MAX);
    Ok(Message::new(id, body, dequeued, Ticks::from(inserted.ok_or_else(unreadable)?)))
}

pub(super) fn unreadable() -> Error {
    ErrorKind::Service("a message lacks a required element".to_owned()).into()
}
