mod construct;
mod display;
mod kind;

use std::sync::Arc;

pub use kind::{DecodeError, Duplicate, ErrorKind};

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

    /// Another entity has an entry with the same key in an index that is not unique.
    pub fn is_key_collision(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::KeyCollision { .. })
    }

    /// Another writer changed the entity.
    pub fn is_precondition_failed(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::PreconditionFailed { .. })
    }

    /// A limit was exceeded.
    pub fn is_limit_exceeded(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::LimitExceeded { .. })
    }

    /// The disk is full, or a quota is used up.
    pub fn is_storage_full(&self) -> bool {
        matches!(self.root().kind(), ErrorKind::StorageFull(_))
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
