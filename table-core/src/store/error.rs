use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::model::EdmType;

/// The result of a storage operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is known about an operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was changed: refused, not sent, or rolled back.
    NotApplied,
    /// The change was made; the failure came after it.
    Applied,
    /// It was sent and no answer came: it may have been applied, or may still be.
    Ambiguous,
}

/// What a remote service said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The service's error code, for example `EntityAlreadyExists`.
    pub code: Option<String>,
    /// The service's request id, for support.
    pub request_id: Option<String>,
}

/// Why an operation failed: the meaning, whatever the backend.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The table does not exist.
    #[error("the table '{table}' does not exist; create it first")]
    TableNotFound {
        /// Its name.
        table: String,
    },
    /// The table exists already.
    #[error("the table '{table}' exists already")]
    TableAlreadyExists {
        /// Its name.
        table: String,
    },
    /// The table was deleted and its name cannot be used yet.
    #[error("the table '{table}' is being deleted; its name can be used again later")]
    TableBeingDeleted {
        /// Its name.
        table: String,
    },
    /// The entity does not exist.
    #[error("there is no entity {key} in the table '{table}'")]
    EntityNotFound {
        /// The table.
        table: String,
        /// The key, as [`Key`](crate::model::Key) prints it.
        key: String,
    },
    /// The entity exists already.
    #[error("the entity {key} exists already in the table '{table}'")]
    EntityAlreadyExists {
        /// The table.
        table: String,
        /// The key.
        key: String,
    },
    /// The entity is not in the version that the condition names.
    #[error("the entity {key} in the table '{table}' was changed since it was read; read it again")]
    PreconditionFailed {
        /// The table.
        table: String,
        /// The key.
        key: String,
    },
    /// Something is larger than the service allows.
    #[error("{what}: at most {allowed} allowed, got {actual}")]
    LimitExceeded {
        /// What is too large, or too many.
        what: String,
        /// The limit.
        allowed: usize,
        /// The value.
        actual: usize,
    },
    /// A key that the service does not allow.
    #[error("invalid {which} {text:?}: {reason}")]
    InvalidKey {
        /// `PartitionKey` or `RowKey`.
        which: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A name of a table or property that the service does not allow.
    #[error("invalid {which} {text:?}: {reason}")]
    InvalidName {
        /// What kind of name.
        which: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A property value that the service does not allow.
    #[error("invalid value of the property '{property}': {reason}")]
    InvalidValue {
        /// The property.
        property: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A filter that cannot be parsed or evaluated.
    #[error("invalid filter at character {position}: {reason}")]
    InvalidFilter {
        /// The character, from 0, where it goes wrong.
        position: usize,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// A query, group or call that makes no sense.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// A continuation of another query, another store, or not one at all.
    #[error("invalid continuation: {0}")]
    InvalidContinuation(String),
    /// Another entity holds the value of a unique index.
    #[error("the unique index '{index}' holds {entry} for another entity, {owner}")]
    UniqueViolation {
        /// The index.
        index: String,
        /// The entry's key.
        entry: String,
        /// The key of the entity that holds it, where it is known.
        owner: String,
    },
    /// An operation of a group transaction failed; none was applied.
    #[error("operation {index} of the group transaction failed, nothing was applied: {error}")]
    TransactionFailed {
        /// The operation, from 0.
        index: usize,
        /// Its error.
        error: Box<Error>,
    },
    /// The service is busy.
    #[error("the service is busy{}", RetryAfter(*retry_after))]
    Throttled {
        /// How long to wait, if the service said so.
        retry_after: Option<Duration>,
    },
    /// No answer within the time allowed.
    #[error("no answer within {}", Seconds(*after))]
    Timeout {
        /// The time allowed.
        after: Duration,
    },
    /// A stored entity does not fit the type it is read as.
    #[error(transparent)]
    Decode(DecodeError),
    /// An encrypted property could not be read, or a marked one not be written.
    #[error("encryption: {0}")]
    Encryption(String),
    /// The credential was not accepted.
    #[error("the credential was not accepted: {0}")]
    Unauthorized(String),
    /// The credential does not allow this.
    #[error("not allowed: {0}")]
    Forbidden(String),
    /// The service or store does not offer this.
    #[error("{service} does not support {what}")]
    Unsupported {
        /// The service.
        service: &'static str,
        /// What was asked for, and what to do instead.
        what: String,
    },
    /// A guard refused a costly query.
    #[error("the scan guard refused a {path} of '{table}': {advice}")]
    ScanRefused {
        /// The access path.
        path: crate::query::AccessPath,
        /// The table.
        table: String,
        /// A cheaper plan.
        advice: String,
    },
    /// The connection or the exchange failed.
    #[error("transport: {0}")]
    Transport(String),
    /// The local file or stored data is damaged, foreign or unusable.
    #[error("storage: {0}")]
    Storage(String),
    /// The service answered something that is not in its protocol.
    #[error("the service answered: {0}")]
    Service(String),
}

/// What did not fit when an entity was decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {entity} {key}: property '{property}': expected {expected}, found {found}")]
pub struct DecodeError {
    /// The Rust type that was read.
    pub entity: &'static str,
    /// The entity's key.
    pub key: String,
    /// The property.
    pub property: String,
    /// What the type expects.
    pub expected: String,
    /// What is stored: a type or a description, never a marked value.
    pub found: String,
}

/// A failed operation: its meaning, whether it took effect, and its cause.
///
/// It can be cloned, for the many who wait on one request.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    answer: Option<ServiceAnswer>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of an operation that changed nothing.
    pub fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, outcome: Outcome::NotApplied, answer: None, source: None }))
    }

    /// The same error with another outcome.
    #[must_use]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    /// The same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// The same error with what the service said.
    #[must_use]
    pub fn with_answer(mut self, answer: ServiceAnswer) -> Self {
        self.0.answer = Some(answer);
        self
    }

    /// What it means.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// What it means, taken out.
    pub fn into_kind(self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the operation took effect.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Status, code and request id of a remote service.
    pub fn answer(&self) -> Option<&ServiceAnswer> {
        self.0.answer.as_ref()
    }

    /// The operation's own error: inside a [`ErrorKind::TransactionFailed`], the one that failed it.
    pub fn root(&self) -> &Self {
        match self.kind() {
            ErrorKind::TransactionFailed { error, .. } => error.root(),
            _ => self,
        }
    }

    /// The operation of a group transaction that failed.
    pub fn failed_index(&self) -> Option<usize> {
        match self.kind() {
            ErrorKind::TransactionFailed { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// A table or an entity is missing.
    pub fn is_not_found(&self) -> bool {
        self.is_entity_not_found() || self.is_table_not_found()
    }

    /// An entity is missing.
    pub fn is_entity_not_found(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::EntityNotFound { .. })
    }

    /// A table is missing.
    pub fn is_table_not_found(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::TableNotFound { .. })
    }

    /// An entity or a table exists already.
    pub fn is_already_exists(&self) -> bool {
        matches!(
            self.root().kind(),
            ErrorKind::EntityAlreadyExists { .. } | ErrorKind::TableAlreadyExists { .. }
        )
    }

    /// Another entity holds the value of a unique index.
    pub fn is_unique_violation(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::UniqueViolation { .. })
    }

    /// Another writer changed the entity.
    pub fn is_precondition_failed(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::PreconditionFailed { .. })
    }

    /// A limit was exceeded.
    pub fn is_limit_exceeded(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::LimitExceeded { .. })
    }

    /// The operation may or may not have taken effect.
    pub fn is_ambiguous(&self) -> bool {
        self.outcome() == Outcome::Ambiguous
    }

    /// Trying the same request again later may succeed, if its outcome allows repeating it.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.root().kind(),
            ErrorKind::Throttled { .. }
                | ErrorKind::Timeout { .. }
                | ErrorKind::Transport(_)
                | ErrorKind::TableBeingDeleted { .. }
        )
    }
}

/// Constructors for backends and adapters.
impl Error {
    /// See [`ErrorKind::LimitExceeded`].
    pub fn limit(what: impl Into<String>, allowed: usize, actual: usize) -> Self {
        Self::new(ErrorKind::LimitExceeded { what: what.into(), allowed, actual })
    }

    /// See [`ErrorKind::InvalidKey`].
    pub fn invalid_key(which: &'static str, text: &str, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidKey { which, text: text.to_owned(), reason: reason.into() })
    }

    /// See [`ErrorKind::InvalidName`].
    pub fn invalid_name(which: &'static str, text: &str, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidName { which, text: text.to_owned(), reason: reason.into() })
    }

    /// See [`ErrorKind::InvalidValue`].
    pub fn invalid_value(property: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidValue { property: property.into(), reason: reason.into() })
    }

    /// See [`ErrorKind::InvalidFilter`].
    pub fn invalid_filter(position: usize, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidFilter { position, reason: reason.into() })
    }

    /// An [`ErrorKind::InvalidRequest`].
    pub fn invalid_request(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidRequest(reason.into()))
    }

    /// An [`ErrorKind::InvalidRequest`] about a group transaction.
    pub fn invalid_group(reason: impl Into<String>) -> Self {
        Self::invalid_request(reason)
    }

    /// See [`ErrorKind::TransactionFailed`]; the outcome is the inner error's.
    pub fn in_transaction(index: usize, error: Self) -> Self {
        let outcome = error.outcome();
        Self::new(ErrorKind::TransactionFailed { index, error: Box::new(error) }).with_outcome(outcome)
    }

    /// See [`ErrorKind::Decode`].
    pub fn decode(
        entity: &'static str,
        key: impl fmt::Display,
        property: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::Decode(DecodeError {
            entity,
            key: key.to_string(),
            property: property.into(),
            expected: expected.into(),
            found: found.into(),
        }))
    }

    /// A decode error for a type.
    pub fn wrong_type(
        entity: &'static str,
        key: impl fmt::Display,
        property: &str,
        expected: EdmType,
        found: EdmType,
    ) -> Self {
        Self::decode(entity, key, property, expected.name(), found.name())
    }

    /// Damaged stored bytes; see [`ErrorKind::Storage`].
    pub fn corrupt(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Storage(what.into()))
    }

    /// See [`ErrorKind::Unsupported`].
    pub fn unsupported(service: &'static str, what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported { service, what: what.into() })
    }
}

/// For conversions that cannot fail, where others can.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

/// The meaning, then whether it took effect where that is in doubt. The cause is `source()`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.kind, f)?;
        match self.0.outcome {
            Outcome::NotApplied => {}
            Outcome::Applied => f.write_str(" (the operation was applied)")?,
            Outcome::Ambiguous => f.write_str(" (the operation may have been applied)")?,
        }
        let Some(answer) = &self.0.answer else { return Ok(()) };
        write!(f, " [status {}", answer.status)?;
        if let Some(code) = &answer.code {
            write!(f, ", code {code}")?;
        }
        if let Some(id) = &answer.request_id {
            write!(f, ", request {id}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("outcome", &self.0.outcome)
            .field("answer", &self.0.answer)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

struct RetryAfter(Option<Duration>);

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |after| write!(f, "; retry after {}", Seconds(after)))
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
