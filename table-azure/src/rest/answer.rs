use std::convert::Infallible;

use azure_core::http::headers::{CONTENT_TYPE, HeaderName, Headers};
use azure_core::http::{AsyncRawResponse, StatusCode};
use futures_util::TryStreamExt as _;
use table_core::model::ETag;
use table_core::store::{ErrorKind, Outcome, Written};
use table_core::{Error, Result};

/// A successful answer of the service.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    headers: Headers,
    pub(crate) body: azure_core::Bytes,
}

const ETAG: HeaderName = HeaderName::from_static("etag");

/// The header that the transport adds to an answer through a proxy: host and port of the proxy, for errors. No server can send it.
pub(crate) const PROXY: HeaderName = HeaderName::from_static("x-table-through-proxy");

impl Answer {
    pub(crate) fn header(&self, name: &'static str) -> Option<&str> {
        text(&self.headers, &HeaderName::from_static(name))
    }

    /// Returns the proxy that the answer came through.
    pub(super) fn proxy(&self) -> Option<&str> {
        text(&self.headers, &PROXY)
    }

    /// Returns one header of the continuation token. An unreadable header is an error: ignoring it would end
    /// the query too soon.
    pub(crate) fn continuation(&self, name: &'static str) -> Result<Option<String>> {
        match self.header(name) {
            Some(text) if text.contains(char::REPLACEMENT_CHARACTER) => Err(ErrorKind::Service(
                format!("the continuation header {name} is not valid UTF-8"),
            )
            .into()),
            text => Ok(text.map(str::to_owned)),
        }
    }

    /// Returns the new ETag of an entity that was written.
    pub(crate) fn written(&self) -> Result<Written> {
        let etag = text(&self.headers, &ETAG).map(ETag::from);
        etag.map(Written::version)
            .ok_or_else(|| self.explain(no_etag()))
    }

    /// Describes the answer for error messages.
    pub(crate) fn received(&self) -> String {
        received(self.status, &self.headers, self.body.len())
    }

    /// Adds the description of the answer to an error. The answer may come from a proxy or a captive portal
    /// instead of the service.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let (ErrorKind::Service(text), None) = (error.kind(), error.answer()) else {
            return error;
        };
        let kind = ErrorKind::Service(format!("{text} (received: {})", self.received()));
        Error::new(kind)
            .with_outcome(error.outcome())
            .with_source(error)
    }
}

/// Returns a header's value. `Headers::get_optional_str` builds an error with a backtrace if the header is
/// missing.
pub(crate) fn text<'a>(headers: &'a Headers, name: &HeaderName) -> Option<&'a str> {
    let found = headers.get_optional_with(name, |value| Ok::<_, Infallible>(value.as_str()));
    found.ok().flatten()
}

/// The error for a successful write without an ETag. Such an answer may not come from the service.
pub(crate) fn no_etag() -> Error {
    Error::new(ErrorKind::Service(
        "the answer to a write has no ETag".to_owned(),
    ))
    .with_outcome(Outcome::Ambiguous)
}

/// Returns the name of the root element of an XML document.
pub(crate) fn outermost(xml: &[u8]) -> Option<&[u8]> {
    let mut tags = xml.split(|b| *b == b'<').skip(1);
    let first = tags.find(|tag| !matches!(tag.first(), Some(b'?' | b'!')))?;
    first
        .split(|b| b.is_ascii_whitespace() || matches!(b, b'>' | b'/'))
        .next()
}

/// Maximum number of characters of a header shown in errors.
const SHOWN: usize = 80;

/// Describes an answer for error messages: status, content type, size and proxy, never the content.
pub(super) fn received(status: StatusCode, headers: &Headers, bytes: usize) -> String {
    let content_type = text(headers, &CONTENT_TYPE).unwrap_or("no content type");
    let content_type: String = content_type
        .chars()
        .filter(|c| !c.is_control())
        .take(SHOWN)
        .collect();
    let through = text(headers, &PROXY)
        .map_or_else(String::new, |proxy| format!(", through the proxy {proxy}"));
    format!(
        "status {}, {content_type}, {bytes} bytes{through}",
        u16::from(status)
    )
}

impl Answer {
    /// Reads the answer completely.
    pub(super) async fn whole(response: AsyncRawResponse) -> azure_core::Result<Self> {
        let (status, headers, mut chunks) = response.deconstruct();
        // The usual answer has one chunk, which is kept without a copy.
        let mut body = chunks.try_next().await?.unwrap_or_default();
        if let Some(second) = chunks.try_next().await? {
            let mut all = [body, second].concat();
            while let Some(more) = chunks.try_next().await? {
                all.extend_from_slice(&more);
            }
            body = all.into();
        }
        Ok(Self {
            status,
            headers,
            body,
        })
    }
}

#[cfg(any(test, feature = "queue"))]
impl From<azure_core::http::RawResponse> for Answer {
    fn from(response: azure_core::http::RawResponse) -> Self {
        let (status, headers, body) = response.deconstruct();
        Self {
            status,
            headers,
            body: body.into(),
        }
    }
}
