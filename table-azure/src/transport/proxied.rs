use async_trait::async_trait;
use azure_core::Result;
use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::HeaderValue;
use azure_core::http::{AsyncRawResponse, HttpClient, Request};
use futures_util::TryStreamExt as _;
use std::collections::HashMap;

use super::connections::CONNECT;
use super::message::{malformed, message, received};

/// Sends requests through the proxies that the environment names. The equivalent client of `azure_core` logs
/// the URL of every request, which contains keys.
#[derive(Debug)]
pub(super) struct Proxied(reqwest::Client);

impl Proxied {
    /// Returns `None` if TLS is not available on this machine.
    pub(super) fn new() -> Option<Self> {
        let builder = reqwest::ClientBuilder::new().connect_timeout(CONNECT);
        // A redirect could send the signature of the request to another server.
        builder.redirect(reqwest::redirect::Policy::none()).build().ok().map(Self)
    }
}

#[async_trait]
impl HttpClient for Proxied {
    async fn execute_request(&self, request: &Request) -> Result<AsyncRawResponse> {
        let mut message = message(request).await?;
        *message.uri_mut() = request.url().as_str().parse().map_err(malformed)?;
        let message = reqwest::Request::try_from(message.map(reqwest::Body::wrap)).map_err(malformed)?;
        let answer = self.0.execute(message).await.map_err(failed)?;
        let headers: HashMap<_, _> = answer
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (received(name.as_str()), HeaderValue::from(value))
            })
            .collect();
        let (status, body) = (answer.status().as_u16().into(), answer.bytes_stream().map_err(failed));
        Ok(AsyncRawResponse::new(status, headers.into(), Box::pin(body)))
    }
}

/// Converts an error without its URL, which contains keys and may contain a signature.
fn failed(error: reqwest::Error) -> Error {
    let kind = if error.is_connect() { ErrorKind::Connection } else { ErrorKind::Io };
    Error::with_error(kind, error.without_url(), "the exchange through a proxy failed")
}

#[cfg(test)]
mod tests {
    use azure_core::http::Method;
    use azure_core::http::headers::HeaderName;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one request with these bytes and returns the request.
    async fn asked(listener: TcpListener, answer: &[u8]) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut asked, mut buffer) = (Vec::new(), [0; 4096]);
        while !asked.ends_with(b"body") {
            let length = stream.read(&mut buffer).await.unwrap();
            asked.extend_from_slice(&buffer[..length]);
        }
        stream.write_all(answer).await.unwrap();
        String::from_utf8(asked).unwrap()
    }

    #[tokio::test]
    async fn a_proxy_does_not_change_requests_and_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://{}/acc/T(PartitionKey='a%27%27b',RowKey='c')?x=%20",
            listener.local_addr().unwrap()
        );
        let mut request = Request::new(url.parse().unwrap(), Method::Post);
        request.insert_header("x-mine", "here");
        request.set_body("body");
        let client = Proxied::new().unwrap();
        let answer = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\nx-odd: \xE9\r\ncontent-length: 3\r\n\r\nabc";
        let (asked, received) = tokio::join!(asked(listener, answer), client.execute_request(&request));
        assert!(
            asked.starts_with("POST /acc/T(PartitionKey='a%27%27b',RowKey='c')?x=%20 HTTP/1.1\r\n"),
            "{asked}"
        );
        assert!(
            asked.contains("x-mine: here\r\n") && asked.to_lowercase().matches("\r\nhost: ").count() == 1,
            "{asked}"
        );
        let (status, headers, body) = received.unwrap().deconstruct();
        assert_eq!(u16::from(status), 307);
        assert_eq!(headers.get_optional_str(&HeaderName::from_static("x-odd")), Some("\u{FFFD}"));
        assert_eq!(body.collect().await.unwrap(), "abc");
    }

    #[tokio::test]
    async fn a_failure_does_not_show_the_address() {
        let request = Request::new(
            "http://127.0.0.2:1/acc/T(PartitionKey='se7en')?sig=se7en".parse().unwrap(),
            Method::Get,
        );
        let error = Proxied::new().unwrap().execute_request(&request).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Connection), "{error}");
        assert!(!format!("{error} {error:?}").contains("se7en"), "{error:?}");
    }
}
