//! A request as adapters see it, and adapters that run the same code around every request.

use crate::model::{Entity, TableName};
use crate::query::{AccessPath, Page, Query, ReadablePage};
use crate::store::{Error, ErrorKind, OperationKind, Result, Written};

/// An adapter that runs the same code around every request. [`impl_around`] implements the store.
pub(super) trait Around: Sync {
    /// Runs `request` and returns its result. `call` says what kind of request it is, for counts and spans.
    fn around<T: Answer + Send>(
        &self,
        call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Returns the text of a key, if the adapter shows keys. Others do not pay for the text.
    fn shown_key(&self, _key: impl FnOnce() -> String) -> Option<String> {
        None
    }

    /// Refuses a query that must not be sent.
    fn check_query(&self, _table: &TableName, _query: &Query) -> Result<()> {
        Ok(())
    }
}

/// Implements [`TableStore`](crate::store::TableStore) for an [`Around`] with a field `store`.
// A macro and no `impl<A: Around> TableStore for A`: next to that, the compiler would accept no other implementation
// for a generic type.
macro_rules! impl_around {
    ($adapter:ident) => {
        #[async_trait::async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<S: TableStore> TableStore for $adapter<S> {
            async fn create_table(&self, table: &TableName) -> Result<()> {
                self.around(Call::new(OperationKind::CreateTable, table), self.store.create_table(table))
                    .await
            }

            async fn delete_table(&self, table: &TableName) -> Result<()> {
                self.around(Call::new(OperationKind::DeleteTable, table), self.store.delete_table(table))
                    .await
            }

            async fn list_tables(
                &self,
                prefix: Option<&str>,
                from: Option<&$crate::query::Continuation>,
            ) -> Result<$crate::query::Page<TableName>> {
                self.around(Call::list_tables(), self.store.list_tables(prefix, from)).await
            }

            async fn get(
                &self,
                table: &TableName,
                key: &$crate::model::Key,
                select: Option<&$crate::query::Select>,
            ) -> Result<Option<$crate::model::Entity>> {
                let call = Call::new(OperationKind::Get, table).at($crate::query::AccessPath::Point);
                let call = call.key(self.shown_key(|| key.to_string()));
                self.around(call, self.store.get(table, key, select)).await
            }

            async fn query(
                &self,
                table: &TableName,
                query: &$crate::query::Query,
                from: Option<&$crate::query::Continuation>,
            ) -> Result<$crate::query::ReadablePage> {
                self.check_query(table, query)?;
                let call = Call::new(OperationKind::Query, table).at(query.access_path());
                self.around(call, self.store.query(table, query, from)).await
            }

            async fn write(
                &self,
                table: &TableName,
                operation: $crate::store::Operation,
            ) -> Result<$crate::store::Written> {
                let call = Call::new(operation.kind(), table);
                let call = call.key(self.shown_key(|| operation.key().to_string()));
                self.around(call, self.store.write(table, operation)).await
            }

            async fn transact(
                &self,
                table: &TableName,
                group: $crate::store::GroupTransaction,
            ) -> Result<Vec<$crate::store::Written>> {
                let call = Call::new(OperationKind::Transact, table);
                let call = call.key(self.shown_key(|| group.partition().to_string()));
                self.around(call, self.store.transact(table, group)).await
            }

            $crate::forward_to_store!(self => self.store; profile, context);
        }
    };
}

pub(super) use impl_around;

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
        Self {
            kind,
            table: Some(table),
            path: None,
            key: None,
        }
    }

    pub(super) const fn list_tables() -> Self {
        Self {
            kind: OperationKind::ListTables,
            table: None,
            path: None,
            key: None,
        }
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
        ErrorKind::InvalidArgument(_) => "invalid_argument",
        ErrorKind::Misuse(_) => "misuse",
        ErrorKind::InvalidDeclaration(_) => "invalid_declaration",
        ErrorKind::ManifestMismatch(_) => "manifest_mismatch",
        ErrorKind::IndexNotReady(_) => "index_not_ready",
        ErrorKind::WrongState(_) => "wrong_state",
        ErrorKind::Application(_) => "application",
        ErrorKind::Rejected(_) => "rejected",
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
