use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::TokenCredential;
use azure_core::http::headers::HeaderName;
use azure_core::http::{ClientOptions, RetryOptions, Url};
use azure_storage_queue::models::{
    QueueClientPeekMessagesOptions, QueueClientReceiveMessagesOptions, QueueClientSendMessageOptions,
    QueueMessage,
};
use azure_storage_queue::{QueueClient, QueueClientOptions};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::DateTime;
use table_core::model::Ticks;
use table_core::queue::{MESSAGE_BYTES, Message, MessageId, Receipt, WorkQueue};
use table_core::store::ErrorKind;
use table_core::{Error, Result};

use super::shared_key::QueueKeyPolicy;
use crate::SharedKey;
use crate::auth::{Connection, Secret};
use crate::rest::of_client;

/// A [`WorkQueue`] in Azure Queue Storage.
///
/// Bodies are sent as base64, so that every text is legal. Times are whole seconds, rounded up; a
/// message is hidden for at least one and at most seven days, and never expires. Each call is one
/// request, sent once.
///
/// ```no_run
/// use std::time::Duration;
/// use table_azure::queue::AzureWorkQueue;
/// use table_core::queue::WorkQueue;
/// # async fn example() -> table_core::Result<()> {
/// let queue = AzureWorkQueue::from_connection_string("UseDevelopmentStorage=true", "jobs", None)?;
/// queue.create_if_missing().await?;
/// queue.send("archive 2013", Duration::ZERO).await?;
/// # Ok(())
/// # }
/// ```
pub struct AzureWorkQueue {
    client: QueueClient,
    name: String,
}

/// Messages in one answer, and seconds that one can be hidden.
const MAX_MESSAGES: usize = 32;
const MAX_SECONDS: u64 = 7 * 24 * 60 * 60;

impl AzureWorkQueue {
    /// The queue with this URL, asked with tokens.
    ///
    /// # Errors
    /// It is not an `https` URL.
    pub fn new(
        queue_url: &str,
        credential: Arc<dyn TokenCredential>,
        options: Option<ClientOptions>,
    ) -> Result<Self> {
        Self::build(queue_url, Some(credential), options.unwrap_or_default())
    }

    /// The queue with this URL, asked with an account's key.
    ///
    /// # Errors
    /// It is not a URL.
    pub fn with_shared_key(queue_url: &str, key: SharedKey, options: Option<ClientOptions>) -> Result<Self> {
        let mut options = options.unwrap_or_default();
        options.per_try_policies.push(Arc::new(QueueKeyPolicy(key)));
        Self::build(queue_url, None, options)
    }

    /// The queue with this URL, which ends with `?` and a shared access signature.
    ///
    /// # Errors
    /// It is not a URL.
    pub fn with_sas(queue_url: &str, options: Option<ClientOptions>) -> Result<Self> {
        Self::build(queue_url, None, options.unwrap_or_default())
    }

    /// The queue with this name in the account of a connection string.
    ///
    /// # Errors
    /// A part of the connection string is malformed or missing.
    pub fn from_connection_string(text: &str, queue: &str, options: Option<ClientOptions>) -> Result<Self> {
        let Connection { endpoint, secret, .. } = Connection::parse(text, "Queue")?;
        let url = format!("{}/{queue}", endpoint.trim_end_matches('/'));
        match secret {
            Secret::Key(key) => Self::with_shared_key(&url, key, options),
            Secret::Sas(sas) => Self::with_sas(&format!("{url}?{}", sas.0), options),
        }
    }

    fn build(
        url: &str,
        credential: Option<Arc<dyn TokenCredential>>,
        client_options: ClientOptions,
    ) -> Result<Self> {
        let shown = url.split('?').next().unwrap_or_default();
        let invalid = || Error::invalid_request(format!("{shown:?} is not the URL of a queue"));
        let url = Url::parse(url).map_err(|_| invalid())?;
        let name = url.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        let mut options = QueueClientOptions { client_options, ..Default::default() };
        options.client_options.retry = RetryOptions::none();
        let client = QueueClient::new(url, credential, Some(options)).map_err(|_| invalid())?;
        Ok(Self { client, name })
    }

    /// Creates the queue unless it is there. One request.
    ///
    /// # Errors
    /// The service's.
    pub async fn create_if_missing(&self) -> Result<()> {
        self.client.create(None).await.map(drop).map_err(|e| of_client(&e, true))
    }

    /// Deletes the queue with its messages. One request.
    ///
    /// # Errors
    /// The service's.
    pub async fn delete_queue(&self) -> Result<()> {
        self.client.delete(None).await.map(drop).map_err(|e| of_client(&e, true))
    }

    /// A receipt that is not the message's any more is a condition that does not hold.
    fn void(&self, id: &MessageId, error: &azure_core::Error) -> Error {
        let error = of_client(error, true);
        let code = error.answer().and_then(|answer| answer.code.as_deref());
        if !matches!(code, Some("MessageNotFound" | "PopReceiptMismatch")) {
            return error;
        }
        let kind = ErrorKind::PreconditionFailed { table: self.name.clone(), key: id.to_string() };
        match error.answer() {
            Some(answer) => Error::new(kind).with_answer(answer.clone()),
            None => Error::new(kind),
        }
    }
}

impl fmt::Debug for AzureWorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureWorkQueue").field("name", &self.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl WorkQueue for AzureWorkQueue {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        if body.len() > MESSAGE_BYTES {
            return Err(Error::limit("bytes of a message", MESSAGE_BYTES, body.len()));
        }
        let options = QueueClientSendMessageOptions {
            visibility_timeout: Some(seconds(delay)?),
            message_time_to_live: Some(-1),
            ..Default::default()
        };
        let message = QueueMessage { message_text: Some(STANDARD.encode(body)) };
        let content = message.try_into().map_err(|e| of_client(&e, false))?;
        let sent = self.client.send_message(content, Some(options)).await.map_err(|e| of_client(&e, true))?;
        let sent = sent.into_model().map_err(|_| unreadable())?.items.unwrap_or_default().pop();
        let sent = sent.ok_or_else(unreadable)?;
        receipt(sent.message_id, sent.pop_receipt)
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let options = QueueClientReceiveMessagesOptions {
            number_of_messages: Some(max.min(MAX_MESSAGES) as i32),
            visibility_timeout: Some(seconds(visibility)?.max(1)),
            ..Default::default()
        };
        let answer = self.client.receive_messages(Some(options)).await.map_err(|e| of_client(&e, true))?;
        let items = answer.into_model().map_err(|_| unreadable())?.items.unwrap_or_default();
        items
            .into_iter()
            .map(|item| {
                let receipt = receipt(item.message_id, item.pop_receipt)?;
                let inserted = item.insertion_time.map(|time| time.unix_timestamp());
                let message = message(receipt.id().clone(), item.message_text, item.dequeue_count, inserted)?;
                Ok(message.with_receipt(receipt))
            })
            .collect()
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        let (id, seconds) = (receipt.id(), seconds(visibility)?);
        let answer = self.client.update_message(id.as_str(), receipt.token(), seconds, None).await;
        let answer = answer.map_err(|e| self.void(id, &e))?;
        let token = answer.headers().get_optional_str(&HeaderName::from_static("x-ms-popreceipt"));
        token.map(|token| Receipt::new(id.clone(), token)).ok_or_else(unreadable)
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        let deleted = self.client.delete_message(receipt.id().as_str(), receipt.token(), None).await;
        deleted.map(drop).map_err(|e| self.void(receipt.id(), &e))
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let number_of_messages = Some(max.min(MAX_MESSAGES) as i32);
        let options = QueueClientPeekMessagesOptions { number_of_messages, ..Default::default() };
        let answer = self.client.peek_messages(Some(options)).await.map_err(|e| of_client(&e, false))?;
        let items = answer.into_model().map_err(|_| unreadable())?.items.unwrap_or_default();
        items
            .into_iter()
            .map(|item| {
                let id = MessageId::new(item.message_id.ok_or_else(unreadable)?);
                let inserted = item.insertion_time.map(|time| time.unix_timestamp());
                message(id, item.message_text, item.dequeue_count, inserted)
            })
            .collect()
    }
}

fn seconds(time: Duration) -> Result<i32> {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    if seconds > MAX_SECONDS {
        return Err(Error::limit("seconds that a message is hidden", MAX_SECONDS as usize, seconds as usize));
    }
    Ok(seconds as i32)
}

fn receipt(id: Option<String>, token: Option<String>) -> Result<Receipt> {
    let (id, token) = id.zip(token).ok_or_else(unreadable)?;
    Ok(Receipt::new(MessageId::new(id), token))
}

fn message(
    id: MessageId,
    text: Option<String>,
    dequeued: Option<i64>,
    inserted: Option<i64>,
) -> Result<Message> {
    let bytes = STANDARD.decode(text.unwrap_or_default()).map_err(|_| foreign(&id))?;
    let body = String::from_utf8(bytes).map_err(|_| foreign(&id))?;
    let inserted = inserted.and_then(|time| DateTime::from_timestamp(time, 0)).ok_or_else(unreadable)?;
    Ok(Message::new(
        id,
        body,
        u32::try_from(dequeued.unwrap_or_default()).unwrap_or(u32::MAX),
        Ticks::from(inserted),
    ))
}

fn unreadable() -> Error {
    ErrorKind::Service("a message without what it must have".to_owned()).into()
}

fn foreign(id: &MessageId) -> Error {
    let text = format!("the message {id}, which is not base64 of UTF-8: another program sent it");
    ErrorKind::Service(text).into()
}
