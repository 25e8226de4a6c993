//! The requests to one queue of the service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::TokenCredential;
use azure_core::http::headers::{AUTHORIZATION, CONTENT_TYPE, HeaderName};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, RawResponse, Request, Response, Url, XmlFormat};
use azure_core::time::OffsetDateTime;
use azure_storage_queue::models::{
    PeekedMessage, QueueClientPeekMessagesOptions, QueueClientReceiveMessagesOptions,
    QueueClientSendMessageOptions, QueueMessage, ReceivedMessage,
};
use azure_storage_queue::{QueueClient, QueueClientOptions};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use table_core::model::Ticks;
use table_core::queue::{Message, MessageId, Receipt};
use table_core::store::{ErrorKind, Outcome};
use table_core::{Error, Result};

use crate::SharedKey;
use crate::auth::{X_MS_DATE, http_date};
use crate::rest::{Answer, of_client, outermost, timed_out};

/// Maximum number of messages in one answer
/// (<https://learn.microsoft.com/rest/api/storageservices/get-messages#uri-parameters>).
const MAX_MESSAGES: usize = 32;
/// Maximum time that a message can be hidden: seven days.
const MAX_VISIBILITY_SECONDS: u64 = 7 * 24 * 60 * 60;

/// Default duration limit of one request. The service itself gives up after 30 seconds.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// A client of one queue.
pub(super) struct QueueApi {
    client: QueueClient,
    name: String,
    timeout: Duration,
}

impl QueueApi {
    pub(super) fn new(
        url: Url,
        credential: Option<Arc<dyn TokenCredential>>,
        options: QueueClientOptions,
    ) -> azure_core::Result<Self> {
        let name = queue_name(&url).to_owned();
        Ok(Self {
            client: QueueClient::new(url, credential, Some(options))?,
            name,
            timeout: TIMEOUT,
        })
    }

    pub(super) const fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Sends a request and waits for its answer, at most for the duration limit of a request. `writes` says whether the request changes
    /// the queue: a lost answer is then ambiguous.
    async fn send_within_timeout<T>(
        &self,
        writes: bool,
        exchange: impl Future<Output = azure_core::Result<T>>,
    ) -> Result<T> {
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer.map_err(|e| of_client(&e, writes)),
            Err(_) => Err(timed_out(self.timeout, writes)),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn create(&self) -> Result<()> {
        match self
            .send_within_timeout(true, self.client.create(None))
            .await
        {
            Err(error) if code(&error) == Some("QueueAlreadyExists") => Ok(()),
            created => created.map(drop),
        }
    }

    pub(super) async fn delete_queue(&self) -> Result<()> {
        self.send_within_timeout(true, self.client.delete(None))
            .await
            .map(drop)
    }

    pub(super) async fn send(&self, text: String, delay: Duration) -> Result<Receipt> {
        let options = QueueClientSendMessageOptions {
            visibility_timeout: Some(whole_seconds(delay)?),
            // -1: never expires. The default is seven days, after which work would be lost without a trace.
            message_time_to_live: Some(-1),
            ..Default::default()
        };
        let message = QueueMessage {
            message_text: Some(text),
        };
        let content = message.try_into().map_err(|e| of_client(&e, false))?;
        let sent = self
            .send_within_timeout(true, self.client.send_message(content, Some(options)))
            .await?;
        let sent: Listing<Sent> = listing(sent, true)?;
        let sent = sent.items.into_iter().next().ok_or_else(unreadable);
        let receipt = sent.and_then(|sent| receipt(sent.message_id, sent.pop_receipt));
        receipt.map_err(as_ambiguous)
    }

    pub(super) async fn receive(
        &self,
        max: usize,
        visibility: Duration,
    ) -> Result<Vec<ReceivedMessage>> {
        let options = QueueClientReceiveMessagesOptions {
            number_of_messages: Some(max.min(MAX_MESSAGES) as i32),
            // The service refuses 0 for a receive.
            visibility_timeout: Some(whole_seconds(visibility)?.max(1)),
            ..Default::default()
        };
        let answer = self
            .send_within_timeout(true, self.client.receive_messages(Some(options)))
            .await?;
        check_count(max, listing(answer, true)?).map_err(as_ambiguous)
    }

    pub(super) async fn peek(&self, max: usize) -> Result<Vec<PeekedMessage>> {
        let number_of_messages = Some(max.min(MAX_MESSAGES) as i32);
        let options = QueueClientPeekMessagesOptions {
            number_of_messages,
            ..Default::default()
        };
        let answer = self
            .send_within_timeout(false, self.client.peek_messages(Some(options)))
            .await?;
        check_count(max, listing(answer, false)?)
    }

    /// Hides a message for a time and returns its new pop receipt.
    pub(super) async fn update(
        &self,
        id: &MessageId,
        token: &str,
        visibility: Duration,
    ) -> Result<String> {
        let seconds = whole_seconds(visibility)?;
        let update = self
            .client
            .update_message(id.as_str(), token, seconds, None);
        let answer = self
            .send_within_timeout(true, update)
            .await
            .map_err(|e| self.explain_receipt(id, e))?;
        let token = answer
            .headers()
            .get_optional_str(&HeaderName::from_static("x-ms-popreceipt"));
        token
            .map(str::to_owned)
            .ok_or_else(unreadable)
            .map_err(as_ambiguous)
    }

    pub(super) async fn delete(&self, id: &MessageId, token: &str) -> Result<()> {
        let deleted = self
            .send_within_timeout(true, self.client.delete_message(id.as_str(), token, None))
            .await;
        deleted.map(drop).map_err(|e| self.explain_receipt(id, e))
    }

    /// Reports a pop receipt that is no longer valid as a failed condition.
    fn explain_receipt(&self, id: &MessageId, error: Error) -> Error {
        // Both codes mean that another caller has received the message since: it has a new receipt, or was deleted.
        if !matches!(code(&error), Some("MessageNotFound" | "PopReceiptMismatch")) {
            return error;
        }
        error.into_cause_of(ErrorKind::PreconditionFailed {
            table: self.name.clone(),
            key: id.to_string(),
        })
    }
}

/// Converts an error of reading the answer to a request that changes the queue. A success without the
/// documented elements may come from an intermediary, so the outcome is ambiguous.
fn as_ambiguous(error: Error) -> Error {
    error.with_outcome(Outcome::Ambiguous)
}

/// A list of messages.
#[derive(Deserialize)]
struct Listing<T> {
    #[serde(rename = "QueueMessage", default = "Vec::new")]
    items: Vec<T>,
}

/// The elements used of the answer to a sent message.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Sent {
    message_id: Option<String>,
    pop_receipt: Option<String>,
}

/// Parses a list of messages. The root element must be the service's: an empty list has no elements, so any
/// other XML, such as a login page, would be read as "no messages".
fn listing<T: DeserializeOwned, M>(
    answer: Response<M, XmlFormat>,
    writes: bool,
) -> Result<Listing<T>> {
    let answer = Answer::from(RawResponse::from(answer));
    let is_list = outermost(&answer.body) == Some(b"QueueMessagesList");
    let read = is_list
        .then(|| azure_core::xml::from_xml(&answer.body).ok())
        .flatten();
    read.ok_or_else(|| {
        let error = answer.explain(unreadable());
        if writes { as_ambiguous(error) } else { error }
    })
}

/// Returns the messages, after checking that there are at most `max`.
fn check_count<T>(max: usize, list: Listing<T>) -> Result<Vec<T>> {
    if list.items.len() <= max {
        return Ok(list.items);
    }
    let text = format!(
        "the service returned {} messages; the request asked for at most {max}",
        list.items.len()
    );
    Err(ErrorKind::Service(text).into())
}

/// Returns the name of the queue in a URL.
pub(super) fn queue_name(url: &Url) -> &str {
    url.path()
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default()
}

/// Whether the error says that the queue does not exist.
pub(super) fn is_missing(error: &Error) -> bool {
    code(error) == Some("QueueNotFound")
}

/// Returns the service's error code
/// (<https://learn.microsoft.com/rest/api/storageservices/queue-service-error-codes>).
fn code(error: &Error) -> Option<&str> {
    error.answer().and_then(|answer| answer.code.as_deref())
}

/// Rounds a duration up to whole seconds, so that a message is never visible earlier than asked for.
fn whole_seconds(time: Duration) -> Result<i32> {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    if seconds > MAX_VISIBILITY_SECONDS {
        return Err(Error::limit(
            "seconds that a message is hidden",
            MAX_VISIBILITY_SECONDS as usize,
            seconds as usize,
        ));
    }
    Ok(seconds as i32)
}

/// Returns the text of a message. The service embeds the text in XML, which cannot contain every character, so the body is sent as
/// base64.
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
    Ok(Message::new(
        id,
        body,
        dequeued,
        Ticks::from(inserted.ok_or_else(unreadable)?),
    ))
}

pub(super) fn unreadable() -> Error {
    ErrorKind::Service("a message lacks a required element".to_owned()).into()
}

/// Signs requests to queues. Their string to sign has more lines than that of table requests.
///
/// <https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key#blob-queue-and-file-services-shared-key-authorization>
#[derive(Debug)]
pub(super) struct QueueKeyPolicy(pub(super) SharedKey);

#[expect(
    elided_lifetimes_in_paths,
    reason = "`async_trait` would name a lifetime that the trait does not"
)]
#[async_trait]
impl Policy for QueueKeyPolicy {
    async fn send(
        &self,
        ctx: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        request.insert_header(X_MS_DATE, http_date(Utc::now()));
        let text = string_to_sign(request, self.0.account());
        let authorization = format!("SharedKey {}:{}", self.0.account(), self.0.sign(&text));
        request.insert_header(AUTHORIZATION, authorization);
        next[0].send(ctx, request, &next[1..]).await
    }
}

/// The lines: verb, standard headers (queue requests set two of them), `x-ms-*` headers, resource.
fn string_to_sign(request: &Request, account: &str) -> String {
    // From version 2015-02-21 on, a length of zero is an empty line.
    let length = request.body().len().filter(|length| *length > 0);
    let length = length.map(|length| length.to_string()).unwrap_or_default();
    let content_type = request
        .headers()
        .get_optional_str(&CONTENT_TYPE)
        .unwrap_or_default();
    format!(
        // Verb, Content-Encoding, Content-Language, Content-Length, Content-MD5, Content-Type, Date,
        // If-Modified-Since, If-Match, If-None-Match, If-Unmodified-Since, Range. `Date` is empty because `x-ms-date`
        // is among the headers that follow.
        "{}\n\n\n{length}\n\n{content_type}\n\n\n\n\n\n\n{}{}",
        request.method(),
        canonical_headers(request),
        canonical_resource(request.url(), account)
    )
}

fn canonical_headers(request: &Request) -> String {
    let is_service_header = |name: &HeaderName| name.as_str().starts_with("x-ms-");
    // Sorted by name, as the string to sign needs them. `azure_core` has the names in lower case.
    let headers: BTreeMap<_, _> = request
        .headers()
        .iter()
        .filter(|(name, _)| is_service_header(name))
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    headers
        .into_iter()
        .map(|(name, value)| format!("{name}:{}\n", value.trim()))
        .collect()
}

fn canonical_resource(url: &Url, account: &str) -> String {
    let mut query: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in url.query_pairs() {
        // Values are signed decoded. The path is signed as it is sent.
        query
            .entry(name.to_lowercase())
            .or_default()
            .push(value.into_owned());
    }
    let mut text = format!("/{account}{}", url.path());
    for (name, mut values) in query {
        values.sort();
        text.push_str(&format!("\n{name}:{}", values.join(",")));
    }
    text
}

#[cfg(test)]
mod tests {
    use azure_core::http::Method;

    use super::*;

    #[test]
    fn the_string_to_sign_has_the_documented_lines() {
        let url = "http://h/acc/jobs/messages?visibilitytimeout=5&NumOfMessages=2"
            .parse()
            .unwrap();
        let mut request = Request::new(url, Method::Post);
        request.insert_header("x-ms-version", "2026-04-06");
        request.insert_header("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT");
        request.insert_header("content-type", "application/xml");
        request.insert_header("user-agent", "me");
        request.set_body("<x/>");
        assert_eq!(
            string_to_sign(&request, "acc"),
            "POST\n\n\n4\n\napplication/xml\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n\
            x-ms-version:2026-04-06\n/acc/acc/jobs/messages\nnumofmessages:2\nvisibilitytimeout:5"
        );
    }
}
