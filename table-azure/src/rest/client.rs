use std::collections::HashMap;
use std::time::{Duration, Instant};

use azure_core::Bytes;
use azure_core::http::headers::{
    ACCEPT, AUTHORIZATION, CLIENT_REQUEST_ID, CONTENT_TYPE, HeaderName, HeaderValue,
};
use azure_core::http::{Context, Method, Pipeline, PipelineStreamOptions, Request, Url};
use azure_core::tracing::PublicApiInstrumentationInformation;
use chrono::DateTime;
use table_core::store::{ErrorKind, OperationKind, Outcome, ServiceAnswer, ServiceProfile};
use table_core::{Error, Result};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::bounded::TooLong;
use super::cause::Cause;
use super::{Answer, Failure, Subject, Tokens, text};
use crate::endpoint::Endpoint;
use crate::response::{self, ResponseHook, ResponseInfo};

pub(crate) const JSON: &str = "application/json";
/// Minimal metadata annotates every type that JSON would lose, and is shorter than full metadata.
const ACCEPT_JSON: HeaderValue = HeaderValue::from_static("application/json;odata=minimalmetadata");
const VERSION: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-ms-version"),
    HeaderValue::from_static("2020-12-06"),
);
const DATA_SERVICE: (HeaderName, HeaderValue) = (
    HeaderName::from_static("dataserviceversion"),
    HeaderValue::from_static("3.0"),
);

/// Tells a `table-server` that this program maintains indexes and layouts itself: it then sees and writes all rows. The services ignore
/// the header.
const MANIFEST_AWARE: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-table-manifest-aware"),
    HeaderValue::from_static("1"),
);

/// Maximum bytes of a request's URL: the limit of the `http` crate. A longer URL could not be sent by a later attempt either.
const MAX_URL_BYTES: usize = 65_534;

/// Capacity for the headers of a request, including headers that policies add.
const HEADER_CAPACITY: usize = 15;

/// The pipeline, endpoints and limits of a store.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) pipeline: Pipeline,
    pub(crate) endpoint: Endpoint,
    pub(crate) profile: ServiceProfile,
    pub(crate) timeout: Duration,
    /// The source of tokens, if the store authorizes with them.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) in_flight: Semaphore,
    /// Maximum time that a request waits for a token and a permit.
    pub(crate) permit_timeout: Duration,
    pub(crate) traced: bool,
    pub(crate) on_response: Option<ResponseHook>,
}

/// One request.
pub(crate) struct Call<'a> {
    /// The operation's name in the caller's tracer.
    pub(crate) name: &'static str,
    pub(crate) subject: Subject<'a>,
    pub(crate) writes: bool,
    /// The statuses of success. Any other status, also of class 2xx, does not prove that the service executed
    /// the request.
    successes: &'static [u16],
    request: Request,
}

/// The statuses that the service documents for a success
/// (<https://learn.microsoft.com/rest/api/storageservices/table-service-rest-api>).
const fn success_statuses(kind: OperationKind) -> &'static [u16] {
    match kind {
        OperationKind::Get | OperationKind::Query | OperationKind::ListTables => &[200],
        OperationKind::CreateTable | OperationKind::Insert => &[201, 204],
        OperationKind::Transact => &[202],
        _ => &[204],
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new(kind: OperationKind, subject: Subject<'a>, method: Method, url: Url) -> Self {
        Self::named(kind.name(), subject, method, url, success_statuses(kind))
    }

    pub(crate) fn named(
        name: &'static str,
        subject: Subject<'a>,
        method: Method,
        url: Url,
        successes: &'static [u16],
    ) -> Self {
        let mut request = Request::new(url, method);
        *request.headers_mut() = HashMap::with_capacity(HEADER_CAPACITY).into();
        request.insert_header(VERSION.0, VERSION.1);
        request.insert_header(DATA_SERVICE.0, DATA_SERVICE.1);
        request.insert_header(MANIFEST_AWARE.0, MANIFEST_AWARE.1);
        request.insert_header(ACCEPT, ACCEPT_JSON);
        request.insert_header(CLIENT_REQUEST_ID, request_id());
        Self {
            name,
            subject,
            writes: method != Method::Get,
            successes,
            request,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<HeaderValue>) -> Self {
        self.request
            .insert_header(HeaderName::from_static(name), value);
        self
    }

    pub(crate) fn body(mut self, content_type: impl Into<HeaderValue>, body: Vec<u8>) -> Self {
        self.request.insert_header(CONTENT_TYPE, content_type);
        self.request.set_body(Bytes::from(body));
        self
    }
}

impl Client {
    /// Sends the request once and waits for the complete answer.
    pub(crate) async fn send(&self, mut call: Call<'_>) -> Result<Answer> {
        let url_bytes = call.request.url().as_str().len();
        if url_bytes > MAX_URL_BYTES {
            return Err(Error::limit(
                "bytes of the request's URL; shorten the filter",
                MAX_URL_BYTES,
                url_bytes,
            ));
        }
        // The wait ends before the time of the request begins. A write that waited too long is certainly not applied; a write that was cut
        // off while it was sent may be applied.
        let ready = tokio::time::timeout(self.permit_timeout, self.ready(&mut call.request)).await;
        let _permit = ready.map_err(|_| timed_out(self.permit_timeout, false))??;
        let context = self.context(call.name);
        // Read before the exchange, because policies may change the URL of the request.
        let is_secondary = self.endpoint.is_secondary(call.request.url());
        let started = Instant::now();
        let exchange = self.exchange(&context, &mut call.request);
        let answer = match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer.map_err(|e| exchange_error(&e, call.writes))?,
            Err(_) => return Err(timed_out(self.timeout, call.writes)),
        };
        // A refused token is dropped, so that a later attempt gets another: it may be revoked before it expires.
        if let (401, Some(tokens)) = (u16::from(answer.status), &self.tokens) {
            tokens.forget().await;
        }
        self.report(&call, &answer, is_secondary, started.elapsed());
        if call.successes.contains(&u16::from(answer.status)) {
            return Ok(answer);
        }
        Err(Failure::of_answer(&answer, started.elapsed()).into_error(&call.subject, call.writes))
    }

    /// Passes the answer's metadata to the hook of the store and to [`collect_responses`](crate::collect_responses).
    fn report(&self, call: &Call<'_>, answer: &Answer, is_secondary: bool, duration: Duration) {
        if self.on_response.is_none() && !response::is_collecting() {
            return;
        }
        let header = |name| answer.header(name).map(str::to_owned);
        let date = answer
            .header("date")
            .and_then(|date| DateTime::parse_from_rfc2822(date).ok());
        let info = ResponseInfo {
            operation: call.name,
            is_secondary,
            status: answer.status.into(),
            request_id: header("x-ms-request-id"),
            client_request_id: text(call.request.headers(), &CLIENT_REQUEST_ID)
                .unwrap_or_default()
                .to_owned(),
            request_charge: answer
                .header("x-ms-request-charge")
                .and_then(|charge| charge.trim().parse().ok()),
            server_time: date.map(|date| date.to_utc()),
            duration,
        };
        if let Some(hook) = &self.on_response {
            hook.call(&info);
        }
        response::collect(info);
    }

    /// Adds the token to the request, and waits for a permit among the requests in flight. Nothing is sent without them.
    async fn ready(&self, request: &mut Request) -> Result<SemaphorePermit<'_>> {
        if let Some(tokens) = &self.tokens {
            let authorization = tokens
                .authorization()
                .await
                .map_err(|error| token_error(&error))?;
            request.insert_header(AUTHORIZATION, authorization);
        }
        match self.in_flight.try_acquire() {
            Ok(permit) => Ok(permit),
            Err(_) => {
                let permit = self.in_flight.acquire().await;
                permit.map_err(|_| Error::misuse("the store is closed"))
            }
        }
    }

    async fn exchange(
        &self,
        context: &Context<'_>,
        request: &mut Request,
    ) -> azure_core::Result<Answer> {
        let options = PipelineStreamOptions {
            skip_checks: true,
            ..Default::default()
        };
        Answer::whole(
            self.pipeline
                .stream(context, request, Some(options))
                .await?,
        )
        .await
    }

    /// Passes the operation's name to the caller's tracer, if there is one.
    fn context(&self, name: &str) -> Context<'static> {
        let context = Context::new();
        if !self.traced {
            return context;
        }
        let name = format!("AzureTableStore.{name}");
        context.with_value(PublicApiInstrumentationInformation::new(name, Vec::new()))
    }
}

/// Creates the request's id, which the service's logs show too. It need not be unpredictable.
fn request_id() -> String {
    uuid::Builder::from_random_bytes(fastrand::u128(..).to_ne_bytes())
        .into_uuid()
        .to_string()
}

/// The outcome of a request that may have been sent.
pub(super) const fn outcome_if_sent(writes: bool) -> Outcome {
    if writes {
        Outcome::Ambiguous
    } else {
        Outcome::NotApplied
    }
}

pub(crate) fn timed_out(after: Duration, writes: bool) -> Error {
    Error::new(ErrorKind::Timeout { after }).with_outcome(outcome_if_sent(writes))
}

/// Converts an error of the official client.
#[cfg(feature = "queue")]
pub(crate) fn of_client(error: &azure_core::Error, writes: bool) -> Error {
    use azure_core::error::ErrorKind as Kind;
    match error.kind() {
        Kind::HttpResponse {
            raw_response: Some(response),
            ..
        } => {
            let answer = Answer::from((**response).clone());
            Failure::of_answer(&answer, Duration::ZERO).into_error(&Subject::Service, writes)
        }
        _ => exchange_error(error, writes),
    }
}

/// Converts an error of another client of the Azure SDK, such as the client of a key vault that wraps the keys of encrypted entities. The
/// outcome is *not applied*: use it for requests that change nothing. `service` begins the text of the error.
///
/// Only outages are transient. A refusal is not: a retry would only repeat it.
///
/// | the other service | kind of the error |
/// |---|---|
/// | answers 401, or its credential has no token | [`Unauthorized`](ErrorKind::Unauthorized) |
/// | answers 403 | [`Forbidden`](ErrorKind::Forbidden) |
/// | answers 429 | [`Throttled`](ErrorKind::Throttled), transient |
/// | answers 408 or 5xx; it or the service of tokens cannot be reached | [`Transport`](ErrorKind::Transport), transient |
/// | answers another status from 400 to 499 | [`Rejected`](ErrorKind::Rejected) |
/// | answers anything else | [`Service`](ErrorKind::Service) |
pub fn client_error(service: &str, error: &azure_core::Error) -> Error {
    use azure_core::error::ErrorKind as Kind;
    let cause = Cause::of(error);
    let text = format!("{service}: {cause}");
    let (kind, answer) = match error.kind() {
        Kind::HttpResponse {
            status, error_code, ..
        } => {
            let status = u16::from(*status);
            let kind = match status {
                401 => ErrorKind::Unauthorized(text),
                403 => ErrorKind::Forbidden(text),
                429 => ErrorKind::Throttled { retry_after: None },
                408 | 500.. => ErrorKind::Transport(text),
                400..=499 => ErrorKind::Rejected(text),
                _ => ErrorKind::Service(text),
            };
            (
                kind,
                Some(ServiceAnswer {
                    status,
                    code: error_code.clone(),
                    request_id: None,
                }),
            )
        }
        Kind::Credential if !is_outage(error) => (ErrorKind::Unauthorized(text), None),
        Kind::Credential | Kind::Connection | Kind::Io => (ErrorKind::Transport(text), None),
        _ => (ErrorKind::Service(text), None),
    };
    let converted = Error::new(kind)
        .with_outcome(Outcome::NotApplied)
        .with_source(cause);
    match answer {
        Some(answer) => converted.with_answer(answer),
        None => converted,
    }
}

fn exchange_error(error: &azure_core::Error, writes: bool) -> Error {
    use azure_core::error::ErrorKind as Kind;
    let cause = Cause::of(error);
    let (kind, outcome) = match error.kind() {
        _ if error.downcast_ref::<TooLong>().is_some() => (
            ErrorKind::Service(cause.to_string()),
            outcome_if_sent(writes),
        ),
        Kind::Credential => return token_error(error),
        // Without a connection nothing was sent. `Io` is an error on a connection: bytes may have arrived.
        Kind::Connection => (
            ErrorKind::Transport(cause.with_context("no connection")),
            Outcome::NotApplied,
        ),
        Kind::Io => (
            ErrorKind::Transport(cause.with_context("the connection broke during the exchange")),
            outcome_if_sent(writes),
        ),
        _ => (
            ErrorKind::Transport(cause.with_context("the request could not be sent")),
            outcome_if_sent(writes),
        ),
    };
    Error::new(kind).with_outcome(outcome).with_source(cause)
}

/// The credential returned no token, so nothing was sent.
fn token_error(error: &azure_core::Error) -> Error {
    let cause = Cause::of(error);
    let kind = if is_outage(error) {
        ErrorKind::Transport(cause.with_context("the credential could not get a token"))
    } else {
        ErrorKind::Unauthorized(cause.to_string())
    };
    Error::new(kind)
        .with_outcome(Outcome::NotApplied)
        .with_source(cause)
}

/// Whether the service of tokens cannot be reached or is busy. A credential of `azure_identity` wraps the error of its request.
fn is_outage(error: &azure_core::Error) -> bool {
    use azure_core::error::ErrorKind as Kind;
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        match cause
            .downcast_ref::<azure_core::Error>()
            .map(azure_core::Error::kind)
        {
            Some(Kind::Connection | Kind::Io) => return true,
            Some(Kind::HttpResponse { status, .. }) => {
                return matches!(u16::from(*status), 408 | 429 | 500..);
            }
            _ => next = cause.source(),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use azure_core::error::ErrorKind as Kind;

    use super::*;

    #[test]
    fn only_outages_of_other_services_are_transient() {
        let answer = |status: u16| {
            let kind = Kind::HttpResponse {
                status: status.into(),
                error_code: Some("Code".into()),
                raw_response: None,
            };
            client_error(
                "the vault",
                &azure_core::Error::with_message(kind, "sig=se7en"),
            )
        };
        for (status, name, transient) in [
            (302, "Service", false),
            (400, "Rejected", false),
            (401, "Unauthorized", false),
            (403, "Forbidden", false),
            (404, "Rejected", false),
            (408, "Transport", true),
            (429, "Throttled", true),
            (500, "Transport", true),
            (503, "Transport", true),
        ] {
            let error = answer(status);
            assert!(
                format!("{:?}", error.kind()).starts_with(name),
                "{status}: {error:?}"
            );
            assert_eq!(error.is_transient(), transient, "{status}");
            assert_eq!(error.outcome(), Outcome::NotApplied);
            assert_eq!(
                error.answer().and_then(|answer| answer.code.as_deref()),
                Some("Code")
            );
            assert!(!format!("{error:?}").contains("se7en"), "{error:?}");
        }
        for (kind, transient) in [
            (Kind::Connection, true),
            (Kind::Io, true),
            (Kind::Credential, false),
            (Kind::DataConversion, false),
        ] {
            let error = client_error(
                "the vault",
                &azure_core::Error::with_message(kind, "no answer"),
            );
            assert_eq!(error.is_transient(), transient, "{error}");
            assert!(
                error.to_string().contains("the vault: no answer"),
                "{error}"
            );
            assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
        }
    }
}
