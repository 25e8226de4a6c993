use azure_core::http::headers::{HeaderName, Headers};
use azure_core::http::{RawResponse, StatusCode};
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
        self.headers.get_optional_str(&HeaderName::from_static(name))
    }

    /// The new version of an entity that was written.
    pub(crate) fn written(&self) -> Result<Written> {
        let etag = self.headers.get_optional_str(&ETAG).map(ETag::from);
        etag.map(Written::version).ok_or_else(no_etag)
    }
}

/// The write was done, but what it made is unknown.
pub(crate) fn no_etag() -> Error {
    Error::new(ErrorKind::Service("no ETag for the entity that was written".to_owned()))
        .with_outcome(Outcome::Applied)
}

impl From<RawResponse> for Answer {
    fn from(response: RawResponse) -> Self {
        let (status, headers, body) = response.deconstruct();
        Self { status, headers, body: body.into() }
    }
}
