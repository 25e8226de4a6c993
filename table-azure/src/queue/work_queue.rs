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

use super::queue_api::{
    QueueApi, QueueKeyPolicy, decode, encode, is_missing, message, queue_name, receipt, unreadable,
};
use crate::SharedKey;
use crate::auth::{Connection, Secret};
use crate::endpoint::{check_plain_http, checked_sas, parse_url};
use crate::rest::{bounded, wrap_tracer};

/// A [`WorkQueue`] in Azure Queue Storage.
///
/// Bodies are sent as base64, so every text is legal. Durations are rounded up to whole seconds. A message is
/// hidden for one second to seven days and never expires. Each call is one request, sent once, except for
/// poison messages: put a [`RetryingQueue`](table_core::adapter::RetryingQueue) around the queue.
///
/// # Poison
/// The service has no dead-letter queue, so messages that are received too often move to a second queue with
/// the same name and the suffix `-poison`. It is created when the first message moves. Moving a message adds
/// 2 requests to the `receive` that finds it; after a crash between the two the message is in both queues.
/// Putting a message back takes 3 requests. A shared access signature must cover both queues. Messages of
/// other programs, which are not base64 of UTF-8, are not returned by `receive`; they move to the poison
/// queue in the same way.
///
/// If a message cannot be moved (the signature does not cover the poison queue, or the service is busy),
/// `receive` still returns the other messages, and the message becomes visible again after its visibility
/// timeout. A `receive` without other messages returns the error.
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
    queue: QueueApi,
    poison: QueueApi,
    /// How often a message is received before it moves to the poison queue.
    max_dequeues: u32,
}

/// Options of an [`AzureWorkQueue`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AzureWorkQueueOptions {
    /// Policies, transport, tracing, logging and cloud, as in every client of `azure_core`. Its retry options
    /// are ignored: put a [`RetryingQueue`](table_core::adapter::RetryingQueue) around the queue.
    pub client_options: ClientOptions,
    /// Hosts to which requests with a signature (account key or SAS) may go over plain `http`: see
    /// [`AzureTableStoreOptions::plain_http_hosts`](crate::AzureTableStoreOptions::plain_http_hosts).
    pub plain_http_hosts: Vec<String>,
}

/// A queue's name has at most 63 characters; `-poison` needs 7 of them.
/// <https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata>
const MAX_NAME_CHARS: usize = 56;

impl AzureWorkQueue {
    /// Creates a client of the queue at this URL that authorizes with tokens.
    ///
    /// # Errors
    /// Fails if the URL is not an `https` URL, or the queue's name has more than 56 characters.
    pub fn new(
        queue_url: &str,
        credential: Arc<dyn TokenCredential>,
        options: Option<AzureWorkQueueOptions>,
    ) -> Result<Self> {
        Self::build(
            queue_url,
            Some(credential),
            options.unwrap_or_default(),
            true,
        )
    }

    /// Creates a client of the queue at this URL that authorizes with an account key.
    ///
    /// # Errors
    /// Fails if the text is not a URL, or is a plain `http` URL of another machine (see
    /// [`plain_http_hosts`](AzureWorkQueueOptions::plain_http_hosts)). Fails if the queue's name has more than 56 characters.
    pub fn with_shared_key(
        queue_url: &str,
        key: SharedKey,
        options: Option<AzureWorkQueueOptions>,
    ) -> Result<Self> {
        let (mut options, has_secret) = (options.unwrap_or_default(), key.emulator().is_none());
        options
            .client_options
            .per_try_policies
            .push(Arc::new(QueueKeyPolicy(key)));
        Self::build(queue_url, None, options, has_secret)
    }

    /// Creates a client of the queue at this URL, which ends with `?` and a shared access signature.
    ///
    /// # Errors
    /// Fails if the text is not a URL, or is a plain `http` URL of another machine (see
    /// [`plain_http_hosts`](AzureWorkQueueOptions::plain_http_hosts)). Fails if the queue's name has more than 56 characters.
    pub fn with_sas(queue_url: &str, options: Option<AzureWorkQueueOptions>) -> Result<Self> {
        // Before anything else, because an error must not show a password.
        parse_url(queue_url)?;
        let (address, sas) = queue_url.split_once('?').unwrap_or((queue_url, ""));
        let sas = checked_sas(sas, queue_url)?;
        Self::build(
            &format!("{address}?{sas}"),
            None,
            options.unwrap_or_default(),
            true,
        )
    }

    /// Creates a client of the named queue in the account of a connection string.
    ///
    /// # Errors
    /// Fails if a part of the connection string is malformed or missing, or the queue's name has more than 56 characters; see also
    /// [`with_shared_key`](Self::with_shared_key) and [`with_sas`](Self::with_sas).
    pub fn from_connection_string(
        text: &str,
        queue: &str,
        options: Option<AzureWorkQueueOptions>,
    ) -> Result<Self> {
        let Connection {
            endpoint, secret, ..
        } = Connection::parse(text, "Queue")?;
        let url = format!("{}/{queue}", endpoint.trim_end_matches('/'));
        match secret {
            Secret::Key(key) => Self::with_shared_key(&url, key, options),
            Secret::Sas(sas) => Self::with_sas(&format!("{url}?{}", sas.0), options),
        }
    }

    /// Creates a client. `has_secret`: whether the requests carry a secret, which plain http would show.
    fn build(
        url: &str,
        credential: Option<Arc<dyn TokenCredential>>,
        options: AzureWorkQueueOptions,
        has_secret: bool,
    ) -> Result<Self> {
        let AzureWorkQueueOptions {
            client_options,
            plain_http_hosts,
        } = options;
        let url = parse_url(url)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let invalid = |reason: &str| {
            Error::invalid_argument(format!("the queue at '{host}' cannot be used: {reason}"))
        };
        if credential.is_some() && url.scheme() != "https" {
            return Err(invalid(
                "tokens are sent over https only; use an https:// URL",
            ));
        }
        if has_secret {
            check_plain_http(&url, &plain_http_hosts)?;
        }
        let chars = queue_name(&url).chars().count();
        if chars > MAX_NAME_CHARS {
            return Err(Error::limit(
                "characters of a queue's name without '-poison'",
                MAX_NAME_CHARS,
                chars,
            ));
        }
        let mut poison_url = url.clone();
        // The query stays, so that a SAS is used for both queues.
        poison_url.set_path(&format!("{}-poison", url.path().trim_end_matches('/')));
        let mut options = QueueClientOptions {
            client_options,
            ..Default::default()
        };
        options.client_options.retry = RetryOptions::none();
        wrap_tracer(
            &mut options.client_options.instrumentation,
            TraceKeys::Hidden,
        );
        #[cfg(feature = "reqwest_rustls")]
        if options.client_options.transport.is_none() {
            options.client_options.transport =
                crate::transport::for_endpoints([&url], super::queue_api::TIMEOUT);
        }
        options.client_options.transport = Some(bounded(options.client_options.transport));
        let poison = QueueApi::new(poison_url, credential.clone(), options.clone())
            .map_err(|error| invalid(&error.to_string()))?;
        let queue =
            QueueApi::new(url, credential, options).map_err(|error| invalid(&error.to_string()))?;
        Ok(Self {
            queue,
            poison,
            max_dequeues: 5,
        })
    }

    /// Sets how often a message is received before it moves to the poison queue. Default: 5.
    #[must_use]
    pub const fn with_max_dequeues(mut self, max_dequeues: u32) -> Self {
        self.max_dequeues = max_dequeues;
        self
    }

    /// Sets the maximum duration of one request; default 60 seconds. A write that takes longer is ambiguous.
    #[must_use]
    pub const fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.queue.set_timeout(timeout);
        self.poison.set_timeout(timeout);
        self
    }

    /// Creates the queue if it does not exist. 1 request.
    ///
    /// # Errors
    /// Fails with the service's errors.
    pub async fn create_if_missing(&self) -> Result<()> {
        self.queue.create().await
    }

    /// Deletes the queue and its messages, but not the poison queue. 1 request.
    ///
    /// # Errors
    /// Fails with the service's errors.
    pub async fn delete_queue(&self) -> Result<()> {
        self.queue.delete_queue().await
    }
}

impl AzureWorkQueue {
    /// Returns the message, or `None` if another program sent it or if it was received too often. A message that was received too often
    /// moves to the poison queue if `may_set_aside`.
    async fn accept(&self, item: ReceivedMessage, may_set_aside: bool) -> Result<Option<Message>> {
        let receipt = receipt(item.message_id, item.pop_receipt)?;
        let text = item.message_text.unwrap_or_default();
        if item.dequeue_count.unwrap_or_default() > i64::from(self.max_dequeues) {
            // After one failure, the other messages wait for a later `receive`; until then the valid messages
            // stay hidden.
            if may_set_aside {
                self.poison.set_aside(text, &self.queue, &receipt).await?;
            }
            return Ok(None);
        }
        // The message of another program is not deleted. It is received again until it counts as poison and moves to the second
        // queue, where a person can see it.
        let Some(body) = decode(&text) else {
            return Ok(None);
        };
        let message = message(
            receipt.id().clone(),
            body,
            item.dequeue_count,
            item.insertion_time,
        )?;
        Ok(Some(message.with_receipt(receipt)))
    }
}

impl fmt::Debug for AzureWorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureWorkQueue")
            .field("name", &self.queue.name())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl WorkQueue for AzureWorkQueue {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        if body.len() > MESSAGE_BYTES {
            return Err(Error::limit(
                "bytes of a message",
                MESSAGE_BYTES,
                body.len(),
            ));
        }
        self.queue.send(encode(body), delay).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let (mut messages, mut failed) = (Vec::new(), None);
        for item in self.queue.receive(max, visibility).await? {
            match self.accept(item, failed.is_none()).await {
                Ok(message) => messages.extend(message),
                Err(error) => {
                    tracing::warn!(
                        %error,
                        queue = self.queue.name(),
                        "a message could not be read, or could not be moved to the poison queue; it stays in this queue"
                    );
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if messages.is_empty() => Err(error),
            // The received messages are hidden and counted, so they must be returned.
            _ => Ok(messages),
        }
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        let token = self
            .queue
            .update(receipt.id(), receipt.token(), visibility)
            .await?;
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
        let own = items.filter_map(|item| {
            Some((
                decode(item.message_text.as_deref().unwrap_or_default())?,
                item,
            ))
        });
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
        self.poison.list_poisoned(max).await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        let receipt = message.receipt.as_ref();
        let Some((receipt, token)) = receipt.and_then(|r| Some((r, poison_token(r)?))) else {
            return Err(Error::misuse(
                "only a message that `poison` returned can be put back",
            ));
        };
        self.poison
            .send_back(&message.body, receipt, token, &self.queue)
            .await
    }
}

/// Prefix of the receipts of messages in the poison queue.
const POISON_MARK: &str = "poison ";
/// How long a poisoned message that was listed stays hidden from other callers.
const LISTED_VISIBILITY: Duration = Duration::from_secs(30);

/// Returns the pop receipt in a receipt of the poison queue.
pub(super) fn poison_token(receipt: &Receipt) -> Option<&str> {
    receipt.token().strip_prefix(POISON_MARK)
}

/// Returns the receipt with the mark of the poison queue, by which a later call finds the queue of the message.
fn with_poison_mark(receipt: &Receipt) -> Receipt {
    Receipt::new(
        receipt.id().clone(),
        format!("{POISON_MARK}{}", receipt.token()),
    )
}

impl QueueApi {
    /// Moves a message that was received too often from the queue `from` to this poison queue. The message is sent to the poison queue
    /// before it is deleted in `from`: after a crash between the two requests the message is in both queues.
    pub(super) async fn set_aside(
        &self,
        text: String,
        from: &Self,
        receipt: &Receipt,
    ) -> Result<()> {
        match self.send(text.clone(), Duration::ZERO).await {
            Err(error) if is_missing(&error) => {
                self.create().await?;
                self.send(text, Duration::ZERO).await?;
            }
            sent => drop(sent?),
        }
        match from.delete(receipt.id(), receipt.token()).await {
            // Another worker has received the message since and will set it aside again; twice in the poison queue is
            // better than lost.
            Err(error) if error.is_precondition_failed() => Ok(()),
            deleted => deleted,
        }
    }

    /// Returns the poisoned messages. The text of another program's message is returned unchanged.
    pub(super) async fn list_poisoned(&self, max: usize) -> Result<Vec<Message>> {
        let items = match self.receive(max, LISTED_VISIBILITY).await {
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            received => received?,
        };
        items.into_iter().map(listed_message).collect()
    }

    /// Sends a poisoned message back to its queue, if the receipt is still valid.
    pub(super) async fn send_back(
        &self,
        body: &str,
        receipt: &Receipt,
        token: &str,
        to: &Self,
    ) -> Result<Receipt> {
        // The update fails if the receipt is no longer valid: another caller has then put the message back already, and a second
        // copy must not be sent.
        let token = self.update(receipt.id(), token, LISTED_VISIBILITY).await?;
        let sent = to.send(encode(body), Duration::ZERO).await?;
        self.delete(receipt.id(), &token).await?;
        Ok(sent)
    }
}

/// Converts a message of the poison queue.
fn listed_message(item: ReceivedMessage) -> Result<Message> {
    let receipt = with_poison_mark(&receipt(item.message_id, item.pop_receipt)?);
    let text = item.message_text.unwrap_or_default();
    let body = decode(&text).unwrap_or(text);
    Ok(message(
        receipt.id().clone(),
        body,
        item.dequeue_count,
        item.insertion_time,
    )?
    .with_receipt(receipt))
}
