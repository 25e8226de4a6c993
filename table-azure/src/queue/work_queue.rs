use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::TokenCredential;
use azure_core::http::{ClientOptions, RetryOptions};
use azure_storage_queue::QueueClientOptions;
use azure_storage_queue::models::ReceivedMessage;
use table_core::adapter::TraceKeys;
use table_core::queue::{MESSAGE_BYTES, Message, MessageId, Receipt, WorkQueue};
use table_core::{Error, Result};

use super::message::{decode, encode, message, receipt, unreadable};
use super::one_queue::{OneQueue, name_in};
use super::poison::poison_token;
use super::shared_key::QueueKeyPolicy;
use crate::SharedKey;
use crate::auth::{Connection, Secret};
use crate::endpoint::{check_plain_http, parse};
use crate::rest::{bounded, quiet};

/// A [`WorkQueue`] in Azure Queue Storage.
///
/// Bodies are sent as base64, so that every text is legal. Times are whole seconds, rounded up; a
/// message is hidden for at least one and at most seven days, and never expires. Each call is one
/// request, sent once, but for poison: put a [`RetryingQueue`](table_core::adapter::RetryingQueue) around it.
///
/// # Poison
/// The service has no place for messages that keep coming back: they go to a second queue, named as this
/// one with `-poison` behind it, which is created when the first one goes there. It takes two requests
/// more of the receive that finds a message once too often; a crash between them leaves it in both
/// queues. Putting one back takes three requests. A shared access signature must cover both queues.
/// Messages of other programs, which are not base64 of UTF-8, are not handed out and end up there too.
/// Where a message cannot be set aside (the signature does not cover the second queue, the service is busy),
/// what was received with it is handed out all the same, and it comes back after its visibility; a
/// `receive` that found nothing else answers the error.
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
    queue: OneQueue,
    poison: OneQueue,
    max_dequeues: u32,
}

/// What can be set about an [`AzureWorkQueue`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AzureWorkQueueOptions {
    /// Policies, transport, tracing, logging and cloud, as for every client of `azure_core`. Its retry options are not
    /// used: put a [`RetryingQueue`](table_core::adapter::RetryingQueue) around the queue.
    pub client_options: ClientOptions,
    /// Hosts to which requests signed by an account key, or with a shared access signature, may go over plain `http`: see
    /// [`AzureTableStoreOptions::plain_http_hosts`](crate::AzureTableStoreOptions::plain_http_hosts).
    pub plain_http_hosts: Vec<String>,
}

/// Of the 63 characters of a queue's name, those that `-poison` leaves.
/// <https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata>
const NAME_CHARS: usize = 56;

impl AzureWorkQueue {
    /// The queue with this URL, asked with tokens.
    ///
    /// # Errors
    /// It is not an `https` URL.
    pub fn new(
        queue_url: &str,
        credential: Arc<dyn TokenCredential>,
        options: Option<AzureWorkQueueOptions>,
    ) -> Result<Self> {
        Self::build(queue_url, Some(credential), options.unwrap_or_default(), true)
    }

    /// The queue with this URL, asked with an account's key.
    ///
    /// # Errors
    /// It is not a URL, or one of plain `http` to another machine (see
    /// [`plain_http_hosts`](AzureWorkQueueOptions::plain_http_hosts)).
    pub fn with_shared_key(
        queue_url: &str,
        key: SharedKey,
        options: Option<AzureWorkQueueOptions>,
    ) -> Result<Self> {
        let (mut options, secret) = (options.unwrap_or_default(), key.emulator().is_none());
        options.client_options.per_try_policies.push(Arc::new(QueueKeyPolicy(key)));
        Self::build(queue_url, None, options, secret)
    }

    /// The queue with this URL, which ends with `?` and a shared access signature.
    ///
    /// # Errors
    /// It is not a URL, or one of plain `http` to another machine (see
    /// [`plain_http_hosts`](AzureWorkQueueOptions::plain_http_hosts)).
    pub fn with_sas(queue_url: &str, options: Option<AzureWorkQueueOptions>) -> Result<Self> {
        Self::build(queue_url, None, options.unwrap_or_default(), true)
    }

    /// The queue with this name in the account of a connection string.
    ///
    /// # Errors
    /// A part of the connection string is malformed or missing.
    pub fn from_connection_string(
        text: &str,
        queue: &str,
        options: Option<AzureWorkQueueOptions>,
    ) -> Result<Self> {
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
        options: AzureWorkQueueOptions,
        secret: bool,
    ) -> Result<Self> {
        let AzureWorkQueueOptions { client_options, plain_http_hosts } = options;
        let url = parse(url)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let invalid =
            |why: &str| Error::invalid_request(format!("the queue at '{host}' cannot be used: {why}"));
        if credential.is_some() && url.scheme() != "https" {
            return Err(invalid("a token is only sent over https; use an https:// URL"));
        }
        if secret {
            check_plain_http(&url, &plain_http_hosts)?;
        }
        let chars = name_in(&url).chars().count();
        if chars > NAME_CHARS {
            return Err(Error::limit("characters of a queue's name, beside '-poison'", NAME_CHARS, chars));
        }
        let mut beside = url.clone();
        beside.set_path(&format!("{}-poison", url.path().trim_end_matches('/')));
        let mut options = QueueClientOptions { client_options, ..Default::default() };
        options.client_options.retry = RetryOptions::none();
        quiet(&mut options.client_options.instrumentation, TraceKeys::Hidden);
        options.client_options.transport = Some(bounded(options.client_options.transport));
        let poison = OneQueue::new(beside, credential.clone(), options.clone())
            .map_err(|error| invalid(&error.to_string()))?;
        let queue = OneQueue::new(url, credential, options).map_err(|error| invalid(&error.to_string()))?;
        Ok(Self { queue, poison, max_dequeues: 5 })
    }

    /// Sets how often a message is received before it is set aside as poison: 5 times unless set.
    #[must_use]
    pub const fn with_max_dequeues(mut self, max_dequeues: u32) -> Self {
        self.max_dequeues = max_dequeues;
        self
    }

    /// Sets how long one request may take: 60 seconds unless set. A write that takes longer is ambiguous.
    #[must_use]
    pub const fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.queue.set_timeout(timeout);
        self.poison.set_timeout(timeout);
        self
    }

    /// Creates the queue unless it is there, whoever made it. One request.
    ///
    /// # Errors
    /// The service's.
    pub async fn create_if_missing(&self) -> Result<()> {
        self.queue.create().await
    }

    /// Deletes the queue with its messages, not those set aside. One request.
    ///
    /// # Errors
    /// The service's.
    pub async fn delete_queue(&self) -> Result<()> {
        self.queue.delete_queue().await
    }
}

impl AzureWorkQueue {
    /// A message to hand out, unless it is another program's or was received too often: that one goes to the
    /// queue beside, if it `may`.
    async fn take(&self, item: ReceivedMessage, may_set_aside: bool) -> Result<Option<Message>> {
        let receipt = receipt(item.message_id, item.pop_receipt)?;
        let text = item.message_text.unwrap_or_default();
        if item.dequeue_count.unwrap_or_default() > i64::from(self.max_dequeues) {
            // After one failure the others wait for the next time: the good messages are hidden meanwhile.
            if may_set_aside {
                self.poison.set_aside(text, &self.queue, &receipt).await?;
            }
            return Ok(None);
        }
        let Some(body) = decode(&text) else { return Ok(None) };
        let message = message(receipt.id().clone(), body, item.dequeue_count, item.insertion_time)?;
        Ok(Some(message.with_receipt(receipt)))
    }
}

impl fmt::Debug for AzureWorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureWorkQueue").field("name", &self.queue.name()).finish_non_exhaustive()
    }
}

#[async_trait]
impl WorkQueue for AzureWorkQueue {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        if body.len() > MESSAGE_BYTES {
            return Err(Error::limit("bytes of a message", MESSAGE_BYTES, body.len()));
        }
        self.queue.send(encode(body), delay).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let (mut messages, mut failed) = (Vec::new(), None);
        for item in self.queue.receive(max, visibility).await? {
            match self.take(item, failed.is_none()).await {
                Ok(message) => messages.extend(message),
                Err(error) => {
                    tracing::warn!(%error, queue = self.queue.name(), "a message stays where it is");
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if messages.is_empty() => Err(error),
            // What was received is hidden and counted: it is handed out.
            _ => Ok(messages),
        }
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        let token = self.queue.update(receipt.id(), receipt.token(), visibility).await?;
        Ok(Receipt::new(receipt.id().clone(), token))
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        match poison_token(receipt) {
            Some(token) => self.poison.delete(receipt.id(), token).await,
            None => self.queue.delete(receipt.id(), receipt.token()).await,
        }
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let items = self.queue.peek(max).await?.into_iter();
        let own =
            items.filter_map(|item| Some((decode(item.message_text.as_deref().unwrap_or_default())?, item)));
        own.map(|(body, item)| {
            let id = MessageId::new(item.message_id.ok_or_else(unreadable)?);
            message(id, body, item.dequeue_count, item.insertion_time)
        })
        .collect()
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        if max == 0 {
            return Ok(Vec::new());
        }
        self.poison.look(max).await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        let receipt = message.receipt.as_ref();
        let Some((receipt, token)) = receipt.and_then(|r| Some((r, poison_token(r)?))) else {
            return Err(Error::invalid_request("only a message from `poison` can be put back"));
        };
        self.poison.send_back(&message.body, receipt, token, &self.queue).await
    }
}
