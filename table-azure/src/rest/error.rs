use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use table_core::Error;
use table_core::model::{Key, TableName};
use table_core::store::{ErrorKind, LimitKind, Outcome, ServiceAnswer, limits};

use super::Answer;
use super::client::outcome_if_sent;
use super::error_body::ErrorBody;

/// The object of a request. The same error code means different things for a table and for an entity.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    Service,
    Table(&'a TableName),
    /// A table that does not exist yet.
    NewTable(&'a TableName),
    Entity(&'a TableName, &'a Key),
}

/// A request that the service refused.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u16,
    code: Option<String>,
    message: String,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    skew: Option<TimeDelta>,
    elapsed: Duration,
    /// Describes the answer, if it is not in the service's format.
    received: Option<String>,
    /// The proxy that the answer came through, if the answer is not in the service's format: it may be the proxy's own.
    proxy: Option<String>,
}

/// Maximum number of characters kept of the service's code and message. Both are at most a sentence.
const CODE_CHARS: usize = 100;
const MESSAGE_CHARS: usize = 1000;

fn at_most(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

impl Failure {
    pub(crate) fn of_answer(answer: &Answer, elapsed: Duration) -> Self {
        let mut failure = Self::of_body(u16::from(answer.status), &answer.body);
        failure.code = answer
            .header("x-ms-error-code")
            .map(|code| at_most(code, CODE_CHARS))
            .or(failure.code);
        if failure.code.is_none() {
            failure.received = Some(answer.received());
            failure.proxy = answer.proxy().map(str::to_owned);
        }
        failure.request_id = answer.header("x-ms-request-id").map(str::to_owned);
        failure.retry_after = retry_after(answer);
        failure.skew = answer.header("date").and_then(skew);
        failure.elapsed = elapsed;
        failure
    }

    /// Parses a body that is JSON, XML, other text or empty.
    pub(crate) fn of_body(status: u16, body: &[u8]) -> Self {
        let text = ErrorBody::parse(body).unwrap_or_default();
        Self {
            status,
            code: text.code.map(|code| at_most(&code, CODE_CHARS)),
            message: at_most(&text.message, MESSAGE_CHARS),
            request_id: None,
            retry_after: None,
            skew: None,
            elapsed: Duration::ZERO,
            received: None,
            proxy: None,
        }
    }

    /// Removes the index `N:` that precedes a group's message, and returns it. A message without index names no operation: it is
    /// about the group.
    pub(crate) fn take_index(&mut self) -> Option<usize> {
        let (index, message) = self.message.split_once(':')?;
        let index = index.parse().ok()?;
        self.message = message.trim_start().to_owned();
        Some(index)
    }

    /// Adds the code and retry time from the head of a part, then values that only the outer answer has.
    pub(crate) fn within(
        mut self,
        code: Option<&str>,
        wait: Option<Duration>,
        outer: &Answer,
    ) -> Self {
        self.code = code.map(str::to_owned).or(self.code);
        self.request_id = outer.header("x-ms-request-id").map(str::to_owned);
        self.retry_after = wait.or_else(|| retry_after(outer));
        self
    }

    /// Converts to the library's error. `writes` says whether the request could change something; without it, no failure is
    /// ambiguous.
    pub(crate) fn into_error(self, subject: &Subject<'_>, writes: bool) -> Error {
        let outcome = self.outcome(writes);
        let answer = ServiceAnswer {
            status: self.status,
            code: self.code.clone(),
            request_id: self.request_id.clone(),
        };
        Error::new(self.kind(subject))
            .with_outcome(outcome)
            .with_answer(answer)
    }

    /// The outcome of a write is ambiguous after 5xx (except 501), 408 and an undocumented success; a busy service has not begun the
    /// operation.
    fn outcome(&self, writes: bool) -> Outcome {
        match (self.status, self.code.as_deref()) {
            // A 503 of a load balancer or a proxy has no code of the service. The request may have reached the
            // service before.
            (503, Some("ServerBusy")) | (501, _) => Outcome::NotApplied,
            (..300 | 408 | 500.., _) => outcome_if_sent(writes),
            _ => Outcome::NotApplied,
        }
    }

    /// Maps the code first, then the status.
    ///
    /// <https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes>,
    /// <https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes>
    fn kind(self, subject: &Subject<'_>) -> ErrorKind {
        match self.code.as_deref().unwrap_or_default() {
            "TableNotFound" => table(subject, |table| ErrorKind::TableNotFound { table }),
            "TableAlreadyExists" => table(subject, |table| ErrorKind::TableAlreadyExists { table }),
            "TableBeingDeleted" => table(subject, |table| ErrorKind::TableBeingDeleted { table }),
            // Azurite's answer if the account does not exist.
            "ResourceNotFound" if matches!(subject, Subject::NewTable(_)) => ErrorKind::Rejected(
                format!("{}: check the account in the endpoint", self.explanation()),
            ),
            // The service has one code for a missing table and a missing entity in some operations; the object of the
            // request decides.
            "ResourceNotFound" | "EntityNotFound" => self.of_entity(subject, |table, key| {
                ErrorKind::EntityNotFound { table, key }
            }),
            "EntityAlreadyExists" => self.of_entity(subject, |table, key| {
                ErrorKind::EntityAlreadyExists { table, key }
            }),
            "UpdateConditionNotSatisfied" | "ConditionNotMet" => self.precondition(subject),
            "ServerBusy" => ErrorKind::Throttled {
                retry_after: self.retry_after,
            },
            "OperationTimedOut" => ErrorKind::Timeout {
                after: self.elapsed,
            },
            "AuthenticationFailed"
            | "InvalidAuthenticationInfo"
            | "NoAuthenticationInformation" => ErrorKind::Unauthorized(self.explanation()),
            "TooManyProperties" => self.limit(
                LimitKind::PropertyCount,
                "properties",
                limits::CUSTOM_PROPERTIES,
            ),
            "EntityTooLarge" => self.limit(
                LimitKind::EntitySize,
                "bytes of the entity",
                limits::ENTITY_BYTES,
            ),
            "RequestBodyTooLarge" => self.limit(
                LimitKind::RequestSize,
                "bytes of the request",
                limits::GROUP_BYTES,
            ),
            _ => self.kind_by_status(subject),
        }
    }

    /// A limit that only the service can check, such as the size of an entity after a merge. The service does not say the size: the actual
    /// number of the error is the smallest that the service refuses.
    fn limit(self, kind: LimitKind, quantity: &str, allowed: usize) -> ErrorKind {
        let quantity = format!(
            "{quantity} as counted by the service; at least this many ({})",
            self.explanation()
        );
        ErrorKind::LimitExceeded {
            kind,
            quantity,
            allowed,
            actual: allowed + 1,
        }
    }

    fn kind_by_status(self, subject: &Subject<'_>) -> ErrorKind {
        match self.status {
            401 => ErrorKind::Unauthorized(self.explanation()),
            403 => ErrorKind::Forbidden(self.explanation()),
            408 => ErrorKind::Timeout {
                after: self.elapsed,
            },
            412 => self.precondition(subject),
            429 | 503 => ErrorKind::Throttled {
                retry_after: self.retry_after,
            },
            400..=499 if self.code.is_some() => ErrorKind::Rejected(self.explanation()),
            501 => ErrorKind::Unsupported {
                service: "the service",
                feature: self.explanation(),
            },
            500.. => ErrorKind::Transport(format!("the service failed: {}", self.explanation())),
            _ => self.unexpected(),
        }
    }

    fn precondition(self, subject: &Subject<'_>) -> ErrorKind {
        self.of_entity(subject, |table, key| ErrorKind::PreconditionFailed {
            table,
            key,
        })
    }

    /// Applies `kind` if the request concerns an entity. For a table, only a 404 is specific: the table
    /// itself was not found.
    fn of_entity(
        self,
        subject: &Subject<'_>,
        kind: impl FnOnce(String, String) -> ErrorKind,
    ) -> ErrorKind {
        match subject {
            Subject::Entity(table, key) => kind(table.to_string(), key.to_string()),
            _ if self.status == 404 => table(subject, |table| ErrorKind::TableNotFound { table }),
            _ => self.unexpected(),
        }
    }

    fn unexpected(&self) -> ErrorKind {
        let text = match &self.received {
            Some(received) => format!(
                "{received}: this answer does not come from the service; check for a proxy or a login page on the network"
            ),
            None => format!("status {}: {}", self.status, self.explanation()),
        };
        ErrorKind::Service(text)
    }

    fn advice(&self) -> &'static str {
        match (self.status, self.code.as_deref()) {
            (_, Some("AuthorizationPermissionMismatch" | "AuthorizationResourceTypeMismatch")) => {
                " (the identity needs a role such as Storage Table Data Contributor; a SAS needs the permission)"
            }
            (401 | 403, _) => {
                " (check that the account key belongs to the account, or that the SAS is valid)"
            }
            _ => "",
        }
    }

    fn explanation(&self) -> String {
        let code = self.code.as_deref().unwrap_or("no code");
        let message = self.message.lines().next().unwrap_or_default().trim();
        let mut text = if message.is_empty() {
            code.to_owned()
        } else {
            format!("{code}: {message}")
        };
        text.push_str(self.advice());
        if let Some(proxy) = &self.proxy {
            text.push_str(&format!(" (an answer through the proxy {proxy})"));
        }
        if let Some(skew) = self
            .skew
            .filter(|_| self.status == 403 || self.status == 401)
        {
            text.push_str(&format!(
                " (this machine's clock differs by {} minutes from the service's; at most 15 are allowed: set the clock)",
                skew.num_minutes()
            ));
        }
        text
    }
}

/// Returns a kind of error about the table of the request.
fn table(subject: &Subject<'_>, kind: impl FnOnce(String) -> ErrorKind) -> ErrorKind {
    kind(match subject {
        Subject::Service => String::new(),
        Subject::Table(table) | Subject::NewTable(table) | Subject::Entity(table, _) => {
            table.to_string()
        }
    })
}

fn retry_after(answer: &Answer) -> Option<Duration> {
    pause(
        answer.header("x-ms-retry-after-ms"),
        answer.header("retry-after"),
    )
}

/// Reads `x-ms-retry-after-ms`, or `Retry-After` in seconds or as a time
/// (<https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>).
pub(crate) fn pause(millis: Option<&str>, after: Option<&str>) -> Option<Duration> {
    let millis = millis
        .and_then(|millis| millis.trim().parse().ok())
        .map(Duration::from_millis);
    millis.or_else(|| {
        let after = after?.trim();
        after.parse().map(Duration::from_secs).ok().or_else(|| {
            let at = DateTime::parse_from_rfc2822(after).ok()?.to_utc();
            Some((at - Utc::now()).to_std().unwrap_or_default())
        })
    })
}

/// Returns the difference between this machine's clock and the service's, if a signature would be refused for
/// it.
fn skew(date: &str) -> Option<TimeDelta> {
    let theirs = DateTime::parse_from_rfc2822(date).ok()?;
    let skew = (Utc::now() - theirs.to_utc()).abs();
    (skew > TimeDelta::minutes(15)).then_some(skew)
}
