use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use table_core::Error;
use table_core::model::{Key, TableName};
use table_core::store::{ErrorKind, Outcome, ServiceAnswer};

use super::Answer;
use super::body::Body;
use super::client::unknown;

/// What a request was about: the same code means different things for a table and an entity.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    Service,
    Table(&'a TableName),
    /// A table that is not there yet.
    NewTable(&'a TableName),
    Entity(&'a TableName, &'a Key),
}

/// A refusal of the service.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u16,
    code: Option<String>,
    message: String,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    skew: Option<TimeDelta>,
    elapsed: Duration,
}

impl Failure {
    pub(crate) fn of_answer(answer: &Answer, elapsed: Duration) -> Self {
        let mut failure = Self::of_body(u16::from(answer.status), &answer.body);
        failure.code = answer.header("x-ms-error-code").map(str::to_owned).or(failure.code);
        failure.request_id = answer.header("x-ms-request-id").map(str::to_owned);
        failure.retry_after = retry_after(answer);
        failure.skew = answer.header("date").and_then(skew);
        failure.elapsed = elapsed;
        failure
    }

    /// From a status and a body of JSON, XML, neither, or nothing.
    pub(crate) fn of_body(status: u16, body: &[u8]) -> Self {
        let text = Body::parse(body).unwrap_or_default();
        Self {
            status,
            code: text.code,
            message: text.message,
            request_id: None,
            retry_after: None,
            skew: None,
            elapsed: Duration::ZERO,
        }
    }

    /// The index in front of a group's message, `N:`, taken off; absent means the first operation.
    pub(crate) fn take_index(&mut self) -> usize {
        let Some((index, message)) = self.message.split_once(':') else { return 0 };
        let Ok(index) = index.parse() else { return 0 };
        self.message = message.trim_start().to_owned();
        index
    }

    /// Takes over what only the outer answer of a group says.
    pub(crate) fn within(mut self, outer: &Answer) -> Self {
        self.request_id = outer.header("x-ms-request-id").map(str::to_owned);
        self.retry_after = retry_after(outer);
        self
    }

    pub(crate) fn into_error(self, subject: &Subject<'_>, writes: bool) -> Error {
        let outcome = self.outcome(writes);
        let answer = ServiceAnswer {
            status: self.status,
            code: self.code.clone(),
            request_id: self.request_id.clone(),
        };
        Error::new(self.kind(subject)).with_outcome(outcome).with_answer(answer)
    }

    /// What 5xx and 408 leave open; a busy service has not begun.
    fn outcome(&self, writes: bool) -> Outcome {
        match (self.status, self.code.as_deref()) {
            (503, Some("ServerBusy")) | (501, _) => Outcome::NotApplied,
            (408 | 500.., _) => unknown(writes),
            _ => Outcome::NotApplied,
        }
    }

    /// By code first, then by status.
    ///
    /// <https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes>,
    /// <https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes>
    fn kind(self, subject: &Subject<'_>) -> ErrorKind {
        match self.code.as_deref().unwrap_or_default() {
            "TableNotFound" => table(subject, |table| ErrorKind::TableNotFound { table }),
            "TableAlreadyExists" => table(subject, |table| ErrorKind::TableAlreadyExists { table }),
            "TableBeingDeleted" => table(subject, |table| ErrorKind::TableBeingDeleted { table }),
            // Azurite's answer for an account that it has not.
            "ResourceNotFound" if matches!(subject, Subject::NewTable(_)) => ErrorKind::InvalidRequest(
                format!("{}: check the account in the endpoint", self.explanation()),
            ),
            "ResourceNotFound" | "EntityNotFound" => entity(subject, not_found),
            "EntityAlreadyExists" => {
                entity(subject, |table, key| ErrorKind::EntityAlreadyExists { table, key })
            }
            "UpdateConditionNotSatisfied" | "ConditionNotMet" => precondition(subject),
            "ServerBusy" => ErrorKind::Throttled { retry_after: self.retry_after },
            "OperationTimedOut" => ErrorKind::Timeout { after: self.elapsed },
            "AuthenticationFailed" | "InvalidAuthenticationInfo" | "NoAuthenticationInformation" => {
                ErrorKind::Unauthorized(self.explanation())
            }
            _ => self.kind_by_status(subject),
        }
    }

    fn kind_by_status(self, subject: &Subject<'_>) -> ErrorKind {
        match self.status {
            401 => ErrorKind::Unauthorized(self.explanation()),
            403 => ErrorKind::Forbidden(self.explanation()),
            408 => ErrorKind::Timeout { after: self.elapsed },
            412 => precondition(subject),
            429 | 503 => ErrorKind::Throttled { retry_after: self.retry_after },
            400..=499 if self.code.is_some() => ErrorKind::InvalidRequest(self.explanation()),
            501 => ErrorKind::Unsupported { service: "the service", what: self.explanation() },
            500.. => ErrorKind::Transport(format!("the service failed: {}", self.explanation())),
            status => ErrorKind::Service(format!("status {status}: {}", self.explanation())),
        }
    }

    fn advice(&self) -> &'static str {
        match (self.status, self.code.as_deref()) {
            (_, Some("AuthorizationPermissionMismatch" | "AuthorizationResourceTypeMismatch")) => {
                " (a token's identity needs a role such as Storage Table Data Contributor, a signature the permission)"
            }
            (401 | 403, _) => {
                " (check that name and key of the account belong together, or that the signature is valid)"
            }
            _ => "",
        }
    }

    fn explanation(&self) -> String {
        let code = self.code.as_deref().unwrap_or("no code");
        let message = self.message.lines().next().unwrap_or_default().trim();
        let mut text = if message.is_empty() { code.to_owned() } else { format!("{code}: {message}") };
        text.push_str(self.advice());
        if let Some(skew) = self.skew.filter(|_| self.status == 403 || self.status == 401) {
            text.push_str(&format!(
                " (this machine's clock is {} minutes from the service's; signatures allow 15: set the clock)",
                skew.num_minutes()
            ));
        }
        text
    }
}

fn table(subject: &Subject<'_>, kind: impl FnOnce(String) -> ErrorKind) -> ErrorKind {
    kind(match subject {
        Subject::Service => String::new(),
        Subject::Table(table) | Subject::NewTable(table) | Subject::Entity(table, _) => table.to_string(),
    })
}

fn entity(subject: &Subject<'_>, kind: impl FnOnce(String, String) -> ErrorKind) -> ErrorKind {
    match subject {
        Subject::Entity(table, key) => kind(table.to_string(), key.to_string()),
        // A table that is deleted or asked about is itself the resource that was not found.
        _ => table(subject, |table| ErrorKind::TableNotFound { table }),
    }
}

const fn not_found(table: String, key: String) -> ErrorKind {
    ErrorKind::EntityNotFound { table, key }
}

fn precondition(subject: &Subject<'_>) -> ErrorKind {
    entity(subject, |table, key| ErrorKind::PreconditionFailed { table, key })
}

/// `x-ms-retry-after-ms`, or `Retry-After` in seconds.
fn retry_after(answer: &Answer) -> Option<Duration> {
    let number = |name| answer.header(name)?.trim().parse().ok();
    number("x-ms-retry-after-ms")
        .map(Duration::from_millis)
        .or_else(|| number("retry-after").map(Duration::from_secs))
}

/// How far this machine's clock is from the service's, if that is more than a signature may be off.
fn skew(date: &str) -> Option<TimeDelta> {
    let theirs = DateTime::parse_from_rfc2822(date).ok()?;
    let skew = (Utc::now() - theirs.to_utc()).abs();
    (skew > TimeDelta::minutes(15)).then_some(skew)
}
