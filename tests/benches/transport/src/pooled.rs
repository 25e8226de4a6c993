use std::collections::HashMap;

use async_trait::async_trait;
use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::{HeaderName, HeaderValue, Headers};
use azure_core::http::{AsyncRawResponse, Body, HttpClient, Request};
use azure_core::{Bytes, Result};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// `hyper-util`'s pooled client as a transport of the store.
#[derive(Debug)]
pub(crate) struct Pooled(Client<HttpConnector, Full<Bytes>>);

impl Pooled {
    pub(crate) fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        Self(Client::builder(TokioExecutor::new()).build(tcp))
    }
}

fn failed(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_error(ErrorKind::Io, cause, "the exchange failed")
}

#[async_trait]
impl HttpClient for Pooled {
    async fn execute_request(&self, request: &Request) -> Result<AsyncRawResponse> {
        let Body::Bytes(body) = request.body() else { unreachable!("no request has a stream") };
        let mut message =
            http::Request::builder().method(request.method().as_ref()).uri(request.url().as_str());
        for (name, value) in request.headers().iter() {
            message = message.header(name.as_str(), value.as_str());
        }
        let message = message.body(Full::new(body.clone())).map_err(failed)?;
        let (head, body) = self.0.request(message).await.map_err(failed)?.into_parts();
        let body = body.collect().await.map_err(failed)?.to_bytes();
        let mut headers = HashMap::with_capacity(head.headers.len());
        for (name, value) in &head.headers {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            headers.insert(HeaderName::from(name.as_str().to_owned()), HeaderValue::from(value));
        }
        Ok(AsyncRawResponse::from_bytes(head.status.as_u16().into(), Headers::from(headers), body))
    }
}
