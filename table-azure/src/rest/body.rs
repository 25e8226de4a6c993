use std::sync::Arc;

use async_trait::async_trait;
use azure_core::Bytes;
use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::{CONTENT_LENGTH, Headers};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::response::PinnedStream;
use azure_core::http::{AsyncRawResponse, AsyncResponseBody, Context, Request, Transport};
use futures_util::StreamExt as _;
use serde::Deserialize;

use super::answer::text;
use super::redact::SentTo;

/// Code and message of an error body.
#[derive(Default)]
pub(super) struct Body {
    pub(super) code: Option<String>,
    pub(super) message: String,
}

impl Body {
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        match body.iter().find(|b| !b.is_ascii_whitespace())? {
            b'{' => Self::from_json(body),
            _ => Self::from_xml(body),
        }
    }

    fn from_json(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Json {
            // The documented form is `odata.error` with a localized message
            // (<https://learn.microsoft.com/rest/api/storageservices/status-and-error-codes2>). The same two values are read
            // from other forms too.
            #[serde(rename = "odata.error", alias = "error")]
            error: JsonError,
        }
        #[derive(Deserialize)]
        struct JsonError {
            code: String,
            message: JsonMessage,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum JsonMessage {
            Localized { value: String },
            Plain(String),
        }
        let JsonError { code, message } = serde_json::from_slice::<Json>(body).ok()?.error;
        let (JsonMessage::Localized { value: message } | JsonMessage::Plain(message)) = message;
        Some(Self { code: Some(code), message })
    }

    fn from_xml(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Xml {
            #[serde(rename = "Code", alias = "code")]
            code: String,
            #[serde(rename = "Message", alias = "message", default)]
            message: XmlMessage,
        }
        #[derive(Deserialize, Default)]
        struct XmlMessage {
            #[serde(rename = "$text", default)]
            text: String,
        }
        let xml: Xml = azure_core::xml::from_xml(body).ok()?;
        Some(Self { code: Some(xml.code), message: xml.message.text })
    }
}

// Bounds the size of answers, for every transport.

/// Maximum bytes of an answer. A page of the service has about 4 MiB, so a much longer answer does not come
/// from the service and is not kept in memory.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Wraps a transport so that no answer exceeds [`MAX_ANSWER_BYTES`]. `None` stands for the transport of
/// `azure_core`.
///
/// This wraps the transport and is not a policy: for clients that read whole answers, `azure_core` collects
/// them directly above the transport.
pub(crate) fn bounded(transport: Option<Transport>) -> Transport {
    Transport::with_policy(Arc::new(Bounded(transport.unwrap_or_default())))
}

#[derive(Debug)]
struct Bounded(Transport);

#[expect(elided_lifetimes_in_paths, reason = "`async_trait` would name a lifetime that the trait does not")]
#[async_trait]
impl Policy for Bounded {
    async fn send(&self, ctx: &Context, request: &mut Request, _: &[Arc<dyn Policy>]) -> PolicyResult {
        let (status, headers, body) = self.exchange(ctx, request).await?.deconstruct();
        if announced(&headers).is_some_and(|bytes| bytes > MAX_ANSWER_BYTES) {
            return Err(too_long());
        }
        Ok(AsyncRawResponse::new(status, headers, limited(body)))
    }
}

impl Bounded {
    /// Sends the request to its real URL, which may differ from the URL that the logs show.
    async fn exchange(&self, ctx: &Context<'_>, request: &mut Request) -> PolicyResult {
        let Some(SentTo(address)) = ctx.value() else { return self.0.send(ctx, request).await };
        // The policies above log the request after the answer too, so the URL for the logs comes back.
        let logged = std::mem::replace(request.url_mut(), address.clone());
        let answer = self.0.send(ctx, request).await;
        *request.url_mut() = logged;
        answer
    }
}

fn announced(headers: &Headers) -> Option<usize> {
    text(headers, &CONTENT_LENGTH)?.trim().parse().ok()
}

fn limited(body: AsyncResponseBody) -> PinnedStream {
    let mut left = MAX_ANSWER_BYTES;
    Box::pin(body.map(move |chunk: azure_core::Result<Bytes>| {
        let chunk = chunk?;
        left = left.checked_sub(chunk.len()).ok_or_else(too_long)?;
        Ok(chunk)
    }))
}

/// The answer is longer than any answer of the service.
#[derive(Debug)]
pub(crate) struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the answer has more than {MAX_ANSWER_BYTES} bytes, the limit for one answer")
    }
}

impl std::error::Error for TooLong {}

fn too_long() -> Error {
    Error::with_error(ErrorKind::Other, TooLong, "the answer is too long")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use table_core::Error;

    use crate::rest::{Failure, Subject};

    fn read(status: u16, body: &[u8]) -> Error {
        let mut failure = Failure::of_body(status, body);
        failure.take_index();
        failure.into_error(&Subject::Service, true)
    }

    proptest! {
        #[test]
        fn any_body_makes_an_error(
            status in 300..600u16,
            start in prop::sample::select(vec!["", "{", "<Error>", "{\"odata.error\":"]),
            rest in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let error = read(status, &[start.as_bytes(), &rest].concat());
            prop_assert_eq!(error.answer().map(|answer| answer.status), Some(status));
            prop_assert!(!error.to_string().is_empty());
        }

        #[test]
        fn every_code_is_found(code in "[A-Za-z]{1,30}", message in "[a-z0-9]{0,30}") {
            let plain = format!("{{\"odata.error\":{{\"code\":\"{code}\",\"message\":\"{message}\"}}}}");
            let localized = format!(
                "{{\"error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"\",\"value\":\"{message}\"}}}}}}"
            );
            let xml = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
            for body in [plain, localized, xml] {
                let error = read(400, body.as_bytes());
                prop_assert_eq!(error.answer().and_then(|answer| answer.code.as_deref()), Some(&*code));
            }
        }
    }
}
