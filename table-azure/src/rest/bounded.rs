//! Bounds the size of answers, for every transport.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::Bytes;
use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::{CONTENT_LENGTH, Headers};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::response::PinnedStream;
use azure_core::http::{AsyncRawResponse, AsyncResponseBody, Context, Request, Transport};
use futures_util::StreamExt as _;

use super::answer::text;
use super::hide_keys::SentTo;

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

#[expect(
    elided_lifetimes_in_paths,
    reason = "`async_trait` would name a lifetime that the trait does not"
)]
#[async_trait]
impl Policy for Bounded {
    async fn send(
        &self,
        ctx: &Context,
        request: &mut Request,
        _: &[Arc<dyn Policy>],
    ) -> PolicyResult {
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
        let Some(SentTo(address)) = ctx.value() else {
            return self.0.send(ctx, request).await;
        };
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
        write!(
            f,
            "the answer has more than {MAX_ANSWER_BYTES} bytes, the limit for one answer"
        )
    }
}

impl std::error::Error for TooLong {}

fn too_long() -> Error {
    Error::with_error(ErrorKind::Other, TooLong, "the answer is too long")
}
