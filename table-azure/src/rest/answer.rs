use std::convert::Infallible;

use azure_core::http::headers::{HeaderName, Headers};
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
        etag.map(Written::version).ok_or_else(no_etag)
    }
}

/// The value of a header. `Headers::get_optional_str` makes an error, with a backtrace, of one that is not there.
pub(crate) fn text<'a>(headers: &'a Headers, name: &HeaderName) -> Option<&'a str> {
    let found = headers.get_optional_with(name, |value| Ok::<_, Infallible>(value.as_str()));
    found.ok().flatten()
}

/// The write was done, but what it made is unknown.
pub(crate) fn no_etag() -> Error {
    Error::new(ErrorKind::Service("no ETag for the entity that was written".to_owned()))
        .with_outcome(Outcome::Applied)
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

#[cfg(any(test, feature = "queue"))]
impl From<azure_core::http::RawResponse> for Answer {
    fn from(response: azure_core::http::RawResponse) -> Self {
        let (status, headers, body) = response.deconstruct();
        Self { status, headers, body: body.into() }
    }
}
