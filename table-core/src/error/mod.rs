//! Errors: why an operation failed, whether it took effect, and its cause.

mod kind;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

pub use kind::{DecodeError, Duplicate, ErrorKind, LimitKind};

/// The result of a storage operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whether an operation that failed took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing was changed: the request was refused, not sent, or rolled back.
    NotApplied,
    /// The change was made. A later step failed.
    Applied,
    /// The request was sent and its answer was lost. The change may have been made, or may still be made.
    Ambiguous,
}

/// The status, error code and request id in the answer of a remote service.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServiceAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The service's error code, for example `EntityAlreadyExists`.
    pub code: Option<String>,
    /// The service's request id, for support.
    pub request_id: Option<String>,
}

/// A failed operation: its meaning, whether it took effect, and its cause.
///
/// Errors can be cloned, so that all callers that wait for one request get its error.
#[derive(Clone)]
pub struct Error(
    // Boxed, so that a `Result` is hardly larger than its value.
    Box<Inner>,
);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    answer: Option<ServiceAnswer>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates the error of an operation that changed nothing ([`Outcome::NotApplied`]).
    pub fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner {
            kind,
            outcome: Outcome::NotApplied,
            answer: None,
            source: None,
        }))
    }

    /// Sets the outcome.
    #[must_use]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// Sets the answer of the remote service.
    #[must_use]
    pub fn with_answer(mut self, answer: ServiceAnswer) -> Self {
        self.0.answer = Some(answer);
        self
    }

    /// Creates the error of a function of the application, such as the closure of an update, a handler or an input
    /// ([`ErrorKind::Application`]). Give its cause by [`with_source`](Self::with_source).
    pub fn application(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Application(reason.into()))
    }

    /// Returns a new error with this kind, which has `self` as its cause and the same answer of the service. The outcome of the
    /// new error is *not applied*, so `self` must not be ambiguous.
    #[doc(hidden)]
    #[must_use]
    pub fn into_cause_of(self, kind: ErrorKind) -> Self {
        let mut error = Self::new(kind);
        error.0.answer.clone_from(&self.0.answer);
        error.with_source(self)
    }

    /// Returns why the operation failed.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Converts the error to its kind.
    pub fn into_kind(self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the operation took effect.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Returns status, code and request id, if a remote service answered.
    pub fn answer(&self) -> Option<&ServiceAnswer> {
        self.0.answer.as_ref()
    }

    /// Returns the error of the operation itself: for [`ErrorKind::TransactionFailed`], the error of the operation
    /// that made the group fail.
    pub fn root(&self) -> &Self {
        match self.kind() {
            ErrorKind::TransactionFailed { error, .. } => error.root(),
            _ => self,
        }
    }

    /// Returns the index, from 0, of the operation that made its group transaction fail.
    pub fn failed_index(&self) -> Option<usize> {
        match self.kind() {
            ErrorKind::TransactionFailed { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// Whether a table or an entity is missing.
    pub fn is_not_found(&self) -> bool {
        self.is_entity_not_found() || self.is_table_not_found()
    }

    /// Whether an entity is missing.
    pub fn is_entity_not_found(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::EntityNotFound { .. })
    }

    /// Whether a table is missing.
    pub fn is_table_not_found(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::TableNotFound { .. })
    }

    /// Whether an entity or a table exists already.
    pub fn is_already_exists(&self) -> bool {
        matches!(
            self.root().kind(),
            ErrorKind::EntityAlreadyExists { .. } | ErrorKind::TableAlreadyExists { .. }
        )
    }

    /// Whether another entity has the value in a unique index.
    pub fn is_unique_violation(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::UniqueViolation { .. })
    }

    /// Whether another entity has an entry with the same key in an index that is not unique.
    pub fn is_key_collision(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::KeyCollision { .. })
    }

    /// Returns the key of the other entity that has the value or the key of an index entry which a write wanted, as
    /// [`Key`](crate::model::Key) prints it. The texts of errors do not name that entity, because the writer may not be allowed to read it.
    pub fn owner(&self) -> Option<&str> {
        match self.root().kind() {
            ErrorKind::UniqueViolation { owner, .. } | ErrorKind::KeyCollision { owner, .. } => {
                Some(owner)
            }
            _ => None,
        }
    }

    /// Whether the entity is not in the version that the condition names, because another writer changed it.
    pub fn is_precondition_failed(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::PreconditionFailed { .. })
    }

    /// Whether another writer changed, inserted or deleted the entity first, and nothing was written: read the entity again
    /// and repeat the write.
    pub fn is_conflict(&self) -> bool {
        // After a lost answer, the version that a repeated request finds may be the one that the first request has written.
        self.outcome() == Outcome::NotApplied
            && (self.is_precondition_failed()
                || self.is_already_exists()
                || self.is_entity_not_found())
    }

    /// Whether the entity is missing, and nothing was written: for a deletion, another writer has deleted it first.
    #[doc(hidden)]
    pub fn is_certainly_missing(&self) -> bool {
        self.is_entity_not_found() && self.outcome() == Outcome::NotApplied
    }

    /// Whether a limit was exceeded.
    pub fn is_limit_exceeded(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::LimitExceeded { .. })
    }

    /// Whether the operation may or may not have taken effect ([`Outcome::Ambiguous`]).
    pub fn is_ambiguous(&self) -> bool {
        self.outcome() == Outcome::Ambiguous
    }

    /// Whether the error concerns one entity alone, and nothing was written: its stored values do not fit the type or cannot be decrypted, or the
    /// converted entity cannot be stored. Work on other entities can go on.
    pub fn is_of_one_entity(&self) -> bool {
        // The kinds that depend on the values of an entity alone. All others, such as a missing table or a busy service, would also
        // meet the next entity.
        let of_entity = matches!(
            self.root().kind(),
            ErrorKind::Decode(_)
                | ErrorKind::Encryption(_)
                | ErrorKind::InvalidValue { .. }
                | ErrorKind::InvalidKey { .. }
                | ErrorKind::LimitExceeded { .. }
                | ErrorKind::UniqueViolation { .. }
                | ErrorKind::KeyCollision { .. }
        );
        of_entity && self.outcome() == Outcome::NotApplied
    }

    /// Whether the same request may succeed later. The [outcome](Self::outcome) says whether it is safe to repeat.
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
    /// Creates an [`ErrorKind::EntityNotFound`].
    pub fn entity_not_found(table: impl fmt::Display, key: impl fmt::Display) -> Self {
        Self::new(ErrorKind::EntityNotFound {
            table: table.to_string(),
            key: key.to_string(),
        })
    }

    /// Creates an [`ErrorKind::EntityAlreadyExists`].
    pub fn entity_already_exists(table: impl fmt::Display, key: impl fmt::Display) -> Self {
        Self::new(ErrorKind::EntityAlreadyExists {
            table: table.to_string(),
            key: key.to_string(),
        })
    }

    /// Creates an [`ErrorKind::PreconditionFailed`].
    pub fn precondition_failed(table: impl fmt::Display, key: impl fmt::Display) -> Self {
        Self::new(ErrorKind::PreconditionFailed {
            table: table.to_string(),
            key: key.to_string(),
        })
    }

    /// Creates the error for an entity that the store returned without an ETag.
    #[doc(hidden)]
    pub fn missing_etag(key: &impl fmt::Display) -> Self {
        ErrorKind::Service(format!("the store returned {key} without an ETag")).into()
    }

    /// Creates an [`ErrorKind::LimitExceeded`] of the kind [`LimitKind::Other`].
    pub fn limit(quantity: impl Into<String>, allowed: usize, actual: usize) -> Self {
        Self::limit_of_kind(LimitKind::Other, quantity, allowed, actual)
    }

    /// Creates an [`ErrorKind::LimitExceeded`].
    pub fn limit_of_kind(
        kind: LimitKind,
        quantity: impl Into<String>,
        allowed: usize,
        actual: usize,
    ) -> Self {
        Self::new(ErrorKind::LimitExceeded {
            kind,
            quantity: quantity.into(),
            allowed,
            actual,
        })
    }

    /// Creates an [`ErrorKind::InvalidKey`].
    pub fn invalid_key(key_name: &'static str, text: &str, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidKey {
            key_name,
            text: text.to_owned(),
            reason: reason.into(),
        })
    }

    /// Creates an [`ErrorKind::InvalidName`].
    pub fn invalid_name(kind: &'static str, text: &str, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidName {
            kind,
            text: text.to_owned(),
            reason: reason.into(),
        })
    }

    /// Creates an [`ErrorKind::InvalidValue`].
    pub fn invalid_value(property: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidValue {
            property: property.into(),
            reason: reason.into(),
        })
    }

    /// Creates an [`ErrorKind::InvalidFilter`].
    pub(crate) fn invalid_filter(position: usize, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidFilter {
            position,
            reason: reason.into(),
        })
    }

    /// Creates an [`ErrorKind::InvalidArgument`].
    pub fn invalid_argument(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument(reason.into()))
    }

    /// Creates an [`ErrorKind::Misuse`].
    pub fn misuse(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Misuse(reason.into()))
    }

    /// Creates an [`ErrorKind::InvalidDeclaration`].
    pub fn invalid_declaration(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidDeclaration(reason.into()))
    }

    /// Creates an [`ErrorKind::ManifestMismatch`].
    pub fn manifest_mismatch(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::ManifestMismatch(reason.into()))
    }

    /// Creates an [`ErrorKind::IndexNotReady`].
    pub fn index_not_ready(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::IndexNotReady(reason.into()))
    }

    /// Creates an [`ErrorKind::WrongState`].
    pub fn wrong_state(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::WrongState(reason.into()))
    }

    /// Creates an [`ErrorKind::InvalidContinuation`].
    pub fn invalid_continuation(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidContinuation(reason.into()))
    }

    /// Creates an [`ErrorKind::TransactionFailed`] with the outcome of `error`. `index` counts from 0.
    pub fn in_transaction(index: usize, error: Self) -> Self {
        let outcome = error.outcome();
        Self::new(ErrorKind::TransactionFailed {
            index,
            error: Box::new(error),
        })
        .with_outcome(outcome)
    }

    /// Creates an [`ErrorKind::Decode`].
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

    /// Creates an [`ErrorKind::Storage`] for damaged stored bytes.
    pub fn corrupt(damage: impl Into<String>) -> Self {
        Self::new(ErrorKind::Storage(damage.into()))
    }

    /// Creates an [`ErrorKind::Unsupported`].
    pub fn unsupported(service: &'static str, feature: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported {
            service,
            feature: feature.into(),
        })
    }
}

/// Lets generic code use conversions that cannot fail.
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

/// Shows the kind, the outcome unless nothing was applied, and the answer of the service. The cause is not shown:
/// `source()` returns it.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.kind, f)?;
        match self.0.outcome {
            Outcome::NotApplied => {}
            Outcome::Applied => f.write_str(" (the operation was applied)")?,
            Outcome::Ambiguous => f.write_str(" (the operation may have been applied)")?,
        }
        let Some(answer) = &self.0.answer else {
            return Ok(());
        };
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

/// As `{"message", "outcome", "answer"}`, with the message of [`Display`](fmt::Display). An error cannot be deserialized.
impl serde::Serialize for Error {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut fields = serializer.serialize_struct("Error", 3)?;
        fields.serialize_field("message", &self.to_string())?;
        fields.serialize_field("outcome", &self.outcome())?;
        fields.serialize_field("answer", &self.answer())?;
        fields.end()
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
