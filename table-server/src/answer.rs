//! Responses.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use table_core::model::ETag;
use tokio::sync::OwnedSemaphorePermit;

/// The response to a request or to an operation of a group.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The parts of bounded memory that the body takes until the client has read it.
    pub(crate) memory: Vec<OwnedSemaphorePermit>,
}

/// A body with its parts of bounded memory, which end when its last byte has been sent.
struct BodyWithMemory {
    body: Bytes,
    _memory: Vec<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for BodyWithMemory {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Answer {
    pub(crate) fn new(status: StatusCode) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            memory: Vec::new(),
        }
    }

    pub(crate) fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT)
    }

    /// Adds a header. An invalid header value is omitted; this cannot happen, because the server's own values
    /// are ASCII and values from clients are checked when they are read.
    pub(crate) fn with(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        self.set(name, value.as_ref());
        self
    }

    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }

    pub(crate) fn with_body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        if let Ok(content_type) = HeaderValue::from_str(content_type) {
            self.headers.insert(CONTENT_TYPE, content_type);
        }
        self.body = body.into();
        self
    }

    /// Adds the ETag of an entity, if it is known.
    pub(crate) fn with_etag(self, etag: Option<&ETag>) -> Self {
        match etag {
            Some(etag) => self.with("etag", etag.to_string()),
            None => self,
        }
    }

    pub(crate) fn xml(status: StatusCode, body: String) -> Self {
        Self::new(status).with_body("application/xml", body)
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let body = match self.memory.is_empty() || self.body.is_empty() {
            true => self.body,
            false => Bytes::from_owner(BodyWithMemory {
                body: self.body,
                _memory: self.memory,
            }),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }

    /// Appends the response as a part of a group's response.
    pub(crate) fn push_part(&self, out: &mut Vec<u8>) {
        let reason = self.status.canonical_reason().unwrap_or("Unknown");
        out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", self.status.as_u16()).as_bytes());
        for (name, value) in &self.headers {
            out.extend_from_slice(spelled(name.as_str()).as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns the service's spelling of a header inside a group's response. Header names ignore case, but some
/// clients search with a case-sensitive pattern (`@azure/data-tables` for `ETag: `).
fn spelled(name: &str) -> &str {
    const SPELLED: [&str; 9] = [
        "ETag",
        "Content-Type",
        "Content-ID",
        "Location",
        "DataServiceId",
        "DataServiceVersion",
        "Preference-Applied",
        "Cache-Control",
        "X-Content-Type-Options",
    ];
    SPELLED
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(name))
        .unwrap_or(name)
}
