use std::convert::Infallible;

use azure_core::http::headers::{CONTENT_TYPE, HeaderName, Headers};
use azure_core::http::{AsyncRawResponse, StatusCode};
use futures_util::TryStreamExt as _;
use table_core::model::ETag;
use table_core::store::{ErrorKind, Outcome, Written};
use table_core::{Error, Result};

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    headers: Headers,
    pub(crate) body: azure_core::Bytes,
}

const ETAG: HeaderName = HeaderName::from_static("etag");

impl Answer {
    pub(crate) fn header(&self, name: &'static str) -> Option<&str> {
        text(&self.headers, &HeaderName::from_static(name))
    }

    /// A part of where the next page starts. To leave out one that cannot be read would end the query too soon.
    pub(crate) fn continuation(&self, name: &'static str) -> Result<Option<String>> {
        match self.header(name) {
            Some(text) if text.contains(char::REPLACEMENT_CHARACTER) => {
                Err(ErrorKind::Service(format!("a continuation that is no text, in {name}")).into())
            }
            text => Ok(text.map(str::to_owned)),
        }
    }

    /// The new version of an entity that was written.
    pub(crate) fn written(&self) -> Result<Written> {
        let etag = text(&self.headers, &ETAG).map(ETag::from);
        etag.map(Written::version).ok_or_else(|| self.explain(no_etag()))
    }

    /// What came in, for errors.
    pub(crate) fn received(&self) -> String {
        received(self.status, &self.headers, self.body.len())
    }

    /// Adds what came in to an error about it. A server on the way (a proxy, a captive portal) answers in its own words.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let (ErrorKind::Service(text), None) = (error.kind(), error.answer()) else { return error };
        let kind = ErrorKind::Service(format!("{text} (received: {})", self.received()));
        Error::new(kind).with_outcome(error.outcome()).with_source(error)
    }
}

/// The value of a header. `Headers::get_optional_str` makes an error, with a backtrace, of one that is not there.
pub(crate) fn text<'a>(headers: &'a Headers, name: &HeaderName) -> Option<&'a str> {
    let found = headers.get_optional_with(name, |value| Ok::<_, Infallible>(value.as_str()));
    found.ok().flatten()
}

/// A success without what every success of a write has. Nothing proves that it came from the service.
pub(crate) fn no_etag() -> Error {
    Error::new(ErrorKind::Service("no ETag for the entity that was written".to_owned()))
        .with_outcome(Outcome::Ambiguous)
}

/// The name of the first element of XML.
pub(crate) fn outermost(xml: &[u8]) -> Option<&[u8]> {
    let mut tags = xml.split(|b| *b == b'<').skip(1);
    let first = tags.find(|tag| !matches!(tag.first(), Some(b'?' | b'!')))?;
    first.split(|b| b.is_ascii_whitespace() || matches!(b, b'>' | b'/')).next()
}

/// Characters of a header that are shown.
const SHOWN: usize = 80;

/// What came in, for errors: status, content type and size, never the content.
pub(super) fn received(status: StatusCode, headers: &Headers, bytes: usize) -> String {
    let content_type = text(headers, &CONTENT_TYPE).unwrap_or("no content type");
    let content_type: String = content_type.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    format!("status {}, {content_type}, {bytes} bytes", u16::from(status))
}

impl Answer {
    /// Reads the answer to its end.
    pub(super) async fn whole(response: AsyncRawResponse) -> azure_core::Result<Self> {
        let (status, headers, mut chunks) = response.deconstruct();
        let mut body = chunks.try_next().await?.unwrap_or_default();
        if let Some(second) = chunks.try_next().await? {
            let mut all = [body, second].concat();
            while let Some(more) = chunks.try_next().await? {
                all.extend_from_slice(&more);
            }
            body = all.into();
        }
        Ok(Self { status, headers, body })
    }
}

#[cfg(feature = "queue")]
impl From<azure_core::http::RawResponse> for Answer {
    fn from(response: azure_core::http::RawResponse) -> Self {
        let (status, headers, body) = response.deconstruct();
        Self { status, headers, body: body.into() }
    }
}
