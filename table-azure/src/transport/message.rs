use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::{HeaderName, HeaderValue, Headers};
use azure_core::http::{AsyncRawResponse, Body, Request, Url};
use azure_core::{Bytes, Result};
use futures_util::AsyncReadExt as _;
use http::header::{HOST, HeaderMap};
use http_body_util::Full;

use super::connection::Message;

/// Host and port, as the `Host` header has them.
pub(super) fn host(url: &Url) -> &str {
    url.authority().rsplit_once('@').map_or(url.authority(), |(_, host)| host)
}

/// The request as it goes over a connection: without the server in its address.
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
        let name = http::HeaderName::from_bytes(name.as_str().as_bytes()).map_err(malformed)?;
        headers.insert(name, value.as_str().parse().map_err(malformed)?);
    }
    Ok(headers)
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

fn malformed(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_error(ErrorKind::Other, cause, "the request cannot be sent over HTTP")
}

/// The answer as policies see it. Headers that are not text are left out.
pub(super) fn answer(answer: http::Response<Bytes>) -> AsyncRawResponse {
    let (head, body) = answer.into_parts();
    let mut headers = Headers::new();
    for (name, value) in &head.headers {
        if let Ok(value) = value.to_str() {
            headers.insert(HeaderName::from(name.as_str().to_owned()), HeaderValue::from(value.to_owned()));
        }
    }
    AsyncRawResponse::from_bytes(head.status.as_u16().into(), headers, body)
}
