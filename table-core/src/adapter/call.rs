use crate::model::{Entity, TableName};
use crate::query::{AccessPath, Page, ReadablePage};
use crate::store::{Error, ErrorKind, OperationKind, Written};

/// The properties of a request that adapters know before it is sent.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) kind: OperationKind,
    pub(super) table: Option<&'a TableName>,
    /// The access path of a read; writes address their entities by key.
    pub(super) path: Option<AccessPath>,
    /// The key, for an adapter that shows keys.
    pub(super) key: Option<String>,
}

impl<'a> Call<'a> {
    pub(super) const fn new(kind: OperationKind, table: &'a TableName) -> Self {
        Self { kind, table: Some(table), path: None, key: None }
    }

    pub(super) const fn list_tables() -> Self {
        Self { kind: OperationKind::ListTables, table: None, path: None, key: None }
    }

    pub(super) fn at(mut self, path: AccessPath) -> Self {
        self.path = Some(path);
        self
    }

    pub(super) fn key(mut self, key: Option<String>) -> Self {
        self.key = key;
        self
    }
}

/// The result of a request.
pub(super) trait Answer {
    /// The number of entities returned or written, or of names in a listing of tables.
    fn items(&self) -> u64;
}

impl Answer for () {
    fn items(&self) -> u64 {
        0
    }
}

impl<T> Answer for Page<T> {
    fn items(&self) -> u64 {
        self.items.len() as u64
    }
}

impl Answer for ReadablePage {
    fn items(&self) -> u64 {
        self.page.items()
    }
}

impl Answer for Option<Entity> {
    fn items(&self) -> u64 {
        self.is_some().into()
    }
}

impl Answer for Written {
    fn items(&self) -> u64 {
        1
    }
}

impl Answer for Vec<Written> {
    fn items(&self) -> u64 {
        self.len() as u64
    }
}

/// Returns the name of the error's kind, without the keys and names that its text may contain.
pub(super) fn error_name(error: &Error) -> &'static str {
    match error.root().kind() {
        ErrorKind::TableNotFound { .. } => "table_not_found",
        ErrorKind::TableAlreadyExists { .. } => "table_already_exists",
        ErrorKind::TableBeingDeleted { .. } => "table_being_deleted",
        ErrorKind::EntityNotFound { .. } => "entity_not_found",
        ErrorKind::EntityAlreadyExists { .. } => "entity_already_exists",
        ErrorKind::PreconditionFailed { .. } => "precondition_failed",
        ErrorKind::LimitExceeded { .. } => "limit_exceeded",
        ErrorKind::InvalidKey { .. } => "invalid_key",
        ErrorKind::InvalidName { .. } => "invalid_name",
        ErrorKind::InvalidValue { .. } => "invalid_value",
        ErrorKind::InvalidFilter { .. } => "invalid_filter",
        ErrorKind::InvalidRequest(_) => "invalid_request",
        ErrorKind::InvalidContinuation(_) => "invalid_continuation",
        ErrorKind::TransactionFailed { .. } => "transaction_failed",
        ErrorKind::Throttled { .. } => "throttled",
        ErrorKind::Timeout { .. } => "timeout",
        ErrorKind::Decode(_) => "decode",
        ErrorKind::Encryption(_) => "encryption",
        ErrorKind::Unauthorized(_) => "unauthorized",
        ErrorKind::Forbidden(_) => "forbidden",
        ErrorKind::Unsupported { .. } => "unsupported",
        ErrorKind::ScanRefused { .. } => "scan_refused",
        ErrorKind::Transport(_) => "transport",
        ErrorKind::Storage(_) => "storage",
        ErrorKind::StorageFull(_) => "storage_full",
        ErrorKind::UniqueViolation { .. } => "unique_violation",
        ErrorKind::DuplicateValues { .. } => "duplicate_values",
        ErrorKind::KeyCollision { .. } => "key_collision",
        ErrorKind::Service(_) => "service",
    }
}
