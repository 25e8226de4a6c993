use std::collections::HashMap;

use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::{HeaderName, HeaderValue, Headers};
use azure_core::http::{AsyncRawResponse, Body, Request, Url};
use azure_core::{Bytes, Result};
use futures_util::AsyncReadExt as _;
use http::header::{HOST, HeaderMap};
use http_body_util::Full;

use super::connection::Message;

/// Returns host and port as the `Host` header has them.
pub(super) fn host(url: &Url) -> &str {
    url.authority().rsplit_once('@').map_or(url.authority(), |(_, host)| host)
}

/// Builds the HTTP request, with a path instead of a full URL.
pub(super) async fn message(request: &Request) -> Result<Message> {
    let url = request.url();
    let query = url.query().map_or(0, |query| query.len() + 1);
    let mut target = String::with_capacity(url.path().len() + query);
    target.push_str(url.path());
    if let Some(query) = url.query() {
        target.push('?');
        target.push_str(query);
    }
    let body = Full::new(bytes(request.body()).await?);
    let mut message = http::Request::new(body);
    *message.method_mut() = request.method().as_str().parse().map_err(malformed)?;
    *message.uri_mut() = http::Uri::from_maybe_shared(Bytes::from(target)).map_err(malformed)?;
    *message.headers_mut() = headers(request)?;
    Ok(message)
}

fn headers(request: &Request) -> Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(HOST, host(request.url()).parse().map_err(malformed)?);
    for (name, value) in request.headers().iter() {
        headers.insert(sent(name.as_str())?, value.as_str().parse().map_err(malformed)?);
    }
    Ok(headers)
}

/// The headers of most requests. They need no parsing.
static SENT: [http::HeaderName; 12] = [
    http::header::ACCEPT,
    http::header::AUTHORIZATION,
    http::header::CONTENT_TYPE,
    http::header::IF_MATCH,
    http::header::USER_AGENT,
    http::HeaderName::from_static("dataserviceversion"),
    http::HeaderName::from_static("prefer"),
    http::HeaderName::from_static("x-http-method"),
    http::HeaderName::from_static("x-ms-client-request-id"),
    http::HeaderName::from_static("x-ms-date"),
    http::HeaderName::from_static("x-ms-version"),
    http::HeaderName::from_static("x-table-manifest-aware"),
];

fn sent(name: &str) -> Result<http::HeaderName> {
    match SENT.iter().find(|known| known.as_str() == name) {
        Some(known) => Ok(known.clone()),
        None => name.parse().map_err(malformed),
    }
}

/// The headers of most answers. Their names need no copies.
static RECEIVED: [HeaderName; 18] = [
    HeaderName::from_static("cache-control"),
    HeaderName::from_static("connection"),
    HeaderName::from_static("content-length"),
    HeaderName::from_static("content-type"),
    HeaderName::from_static("dataserviceid"),
    HeaderName::from_static("date"),
    HeaderName::from_static("etag"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("location"),
    HeaderName::from_static("preference-applied"),
    HeaderName::from_static("server"),
    HeaderName::from_static("transfer-encoding"),
    HeaderName::from_static("x-content-type-options"),
    HeaderName::from_static("x-ms-client-request-id"),
    HeaderName::from_static("x-ms-continuation-nextpartitionkey"),
    HeaderName::from_static("x-ms-continuation-nextrowkey"),
    HeaderName::from_static("x-ms-request-id"),
    HeaderName::from_static("x-ms-version"),
];

pub(super) fn received(name: &str) -> HeaderName {
    let known = RECEIVED.iter().find(|known| known.as_str() == name);
    known.cloned().unwrap_or_else(|| HeaderName::from(name.to_owned()))
}

async fn bytes(body: &Body) -> Result<Bytes> {
    match body {
        Body::Bytes(bytes) => Ok(bytes.clone()),
        Body::SeekableStream(stream) => {
            let (mut stream, mut bytes) = (stream.clone(), Vec::new());
            stream.reset().await?;
            stream.read_to_end(&mut bytes).await?;
            Ok(bytes.into())
        }
    }
}

pub(super) fn malformed(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_error(ErrorKind::Other, cause, "the request cannot be sent over HTTP")
}

/// Converts an answer for the policies. In a header that is not UTF-8, U+FFFD replaces the invalid bytes.
pub(super) fn answer(answer: http::Response<Bytes>) -> AsyncRawResponse {
    let (head, body) = answer.into_parts();
    let mut headers = HashMap::with_capacity(head.headers.len());
    for (name, value) in &head.headers {
        // Headers of `azure_core` are text. `Answer::continuation` finds the replacement character where a wrong text
        // would do harm.
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        headers.insert(received(name.as_str()), HeaderValue::from(value));
    }
    AsyncRawResponse::from_bytes(head.status.as_u16().into(), Headers::from(headers), body)
}
