use std::fmt;

use futures_util::future::ready;
use futures_util::{Stream, TryStreamExt as _};

use crate::error::{Error, Outcome, Result};
use crate::model::{ETag, Entity, IfMatch, Key, TableName};

/// One write to one entity.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds an entity that must not exist.
    Insert(Entity),
    /// Replaces all properties of an entity that must exist in the required version.
    Replace(Entity, IfMatch),
    /// Overwrites and adds properties of an entity that must exist in the required version.
    Merge(Entity, IfMatch),
    /// Inserts the entity or replaces the existing entity, without a condition: the last writer wins.
    InsertOrReplace(Entity),
    /// Inserts the entity or merges its properties into the existing entity, without a condition: the last writer of
    /// each property wins.
    InsertOrMerge(Entity),
    /// Deletes an entity that must exist in the required version.
    Delete(Key, IfMatch),
}

impl Operation {
    /// Returns the kind of this operation.
    pub const fn kind(&self) -> OperationKind {
        match self {
            Self::Insert(_) => OperationKind::Insert,
            Self::Replace(..) => OperationKind::Replace,
            Self::Merge(..) => OperationKind::Merge,
            Self::InsertOrReplace(_) => OperationKind::InsertOrReplace,
            Self::InsertOrMerge(_) => OperationKind::InsertOrMerge,
            Self::Delete(..) => OperationKind::Delete,
        }
    }

    /// Returns the key of the entity that the operation writes.
    pub const fn key(&self) -> &Key {
        match self {
            Self::Delete(key, _) => key,
            Self::Insert(e) | Self::InsertOrReplace(e) | Self::InsertOrMerge(e) => e.key(),
            Self::Replace(e, _) | Self::Merge(e, _) => e.key(),
        }
    }

    /// Returns the entity of the operation; `None` for a delete.
    pub const fn entity(&self) -> Option<&Entity> {
        match self {
            Self::Delete(..) => None,
            Self::Insert(e) | Self::InsertOrReplace(e) | Self::InsertOrMerge(e) => Some(e),
            Self::Replace(e, _) | Self::Merge(e, _) => Some(e),
        }
    }

    /// Returns the entity for modification; `None` for a delete. For example, an adapter adds or encrypts properties.
    pub const fn entity_mut(&mut self) -> Option<&mut Entity> {
        match self {
            Self::Delete(..) => None,
            Self::Insert(e) | Self::InsertOrReplace(e) | Self::InsertOrMerge(e) => Some(e),
            Self::Replace(e, _) | Self::Merge(e, _) => Some(e),
        }
    }

    /// Returns the condition; `None` for inserts and upserts.
    pub const fn if_match(&self) -> Option<&IfMatch> {
        match self {
            Self::Replace(_, m) | Self::Merge(_, m) | Self::Delete(_, m) => Some(m),
            _ => None,
        }
    }

    /// Returns the condition for modification; `None` for inserts and upserts.
    pub(crate) const fn if_match_mut(&mut self) -> Option<&mut IfMatch> {
        match self {
            Self::Replace(_, m) | Self::Merge(_, m) | Self::Delete(_, m) => Some(m),
            _ => None,
        }
    }
}

/// The kind of a request, for meters, guards and traces.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are those of the operations")]
pub enum OperationKind {
    CreateTable,
    DeleteTable,
    ListTables,
    Get,
    Query,
    Insert,
    Replace,
    Merge,
    InsertOrReplace,
    InsertOrMerge,
    Delete,
    Transact,
}

impl OperationKind {
    /// Whether the request only reads.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::ListTables | Self::Get | Self::Query)
    }

    /// Returns the name in snake case, as traces show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTable => "create_table",
            Self::DeleteTable => "delete_table",
            Self::ListTables => "list_tables",
            Self::Get => "get",
            Self::Query => "query",
            Self::Insert => "insert",
            Self::Replace => "replace",
            Self::Merge => "merge",
            Self::InsertOrReplace => "insert_or_replace",
            Self::InsertOrMerge => "insert_or_merge",
            Self::Delete => "delete",
            Self::Transact => "transact",
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The answer of a store to an operation that it applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Written {
    /// The entity's new version. `None` after a delete. Also `None` if the answer of a group transaction was lost
    /// and another writer has changed the entity since; read the entity to get its version.
    pub etag: Option<ETag>,
    /// Whether a worker or a sweep will apply index entries of the entity in other partitions or tables.
    #[serde(default)]
    pub pending: bool,
}

impl Written {
    /// Creates the answer to a write that gave the entity this version.
    pub const fn version(etag: ETag) -> Self {
        Self {
            etag: Some(etag),
            pending: false,
        }
    }

    /// Creates the answer to a delete.
    pub const fn deleted() -> Self {
        Self {
            etag: None,
            pending: false,
        }
    }
}

/// The number of failures that a [`BulkSummary`] keeps. They mostly have few causes, and the memory of a summary is bounded even if
/// millions of operations fail.
const KEPT_FAILURES: usize = 100;

/// The outcome of one operation of bulk work: a bulk write, or a set operation of a query.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct BulkOutcome {
    /// The operation's table.
    pub table: TableName,
    /// The operation's entity.
    pub key: Key,
    /// The number of the request that gave the outcome, from 0; `None` if the operation was refused before a request
    /// was sent. **Operations written by one request were written atomically; no others.**
    pub request: Option<u64>,
    /// The entity's new version, or the error. The error's [`outcome`](Error::outcome) says whether the operation may
    /// have been applied nonetheless.
    pub result: Result<Written>,
    /// Whether a worker or a sweep will apply index entries of the entity in other partitions or tables.
    pub pending: bool,
}

impl BulkOutcome {
    /// Creates the outcome of an operation that a request wrote, or tried to write.
    pub const fn of_request(
        table: TableName,
        key: Key,
        request: u64,
        result: Result<Written>,
    ) -> Self {
        Self {
            table,
            key,
            request: Some(request),
            result,
            pending: false,
        }
    }

    /// Creates the outcome of an operation that was refused before a request was sent.
    pub const fn refused(table: TableName, key: Key, error: Error) -> Self {
        Self {
            table,
            key,
            request: None,
            result: Err(error),
            pending: false,
        }
    }

    /// Sets whether index entries of the entity are pending.
    #[must_use]
    pub fn with_pending(self, pending: bool) -> Self {
        Self { pending, ..self }
    }
}

/// The number of operations by outcome, and the first failures.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct BulkSummary {
    /// The number of operations that were applied.
    pub written: u64,
    /// The number of applied operations with index entries that a worker or a sweep will apply.
    pub pending: u64,
    /// The number of entities that an update left as they were, and did not write.
    pub unchanged: u64,
    /// The number of operations that were certainly not applied.
    pub failed: u64,
    /// The number of operations whose answer was lost: they may have been applied.
    pub ambiguous: u64,
    /// The number of write requests sent, without retries. For entities with indexes or large values: the number of
    /// groups sent.
    pub requests: u64,
    /// The first 100 operations that failed or are ambiguous.
    pub failures: Vec<BulkOutcome>,
}

impl BulkSummary {
    /// Runs bulk work to its end, and counts its outcomes.
    ///
    /// # Errors
    /// Returns the error of the input. The operations that were read before it have been written or refused.
    pub async fn of(outcomes: impl Stream<Item = Result<BulkOutcome>>) -> Result<Self> {
        let add = |mut summary: Self, outcome| {
            summary.add(outcome);
            ready(Ok(summary))
        };
        outcomes.try_fold(Self::default(), add).await
    }

    /// Counts one outcome.
    pub fn add(&mut self, outcome: BulkOutcome) {
        // Outcomes arrive in any order, several of one request. Requests are numbered without gaps.
        self.requests = self
            .requests
            .max(outcome.request.map_or(0, |request| request + 1));
        match outcome.result.as_ref().map_err(Error::outcome) {
            Ok(_) | Err(Outcome::Applied) => self.written += 1,
            Err(Outcome::NotApplied) => self.failed += 1,
            Err(Outcome::Ambiguous) => self.ambiguous += 1,
        }
        self.pending += u64::from(outcome.pending && outcome.result.is_ok());
        if outcome.result.is_err() && self.failures.len() < KEPT_FAILURES {
            self.failures.push(outcome);
        }
    }

    /// Adds the counts and failures of additional work.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.written += other.written;
        self.pending += other.pending;
        self.unchanged += other.unchanged;
        self.failed += other.failed;
        self.ambiguous += other.ambiguous;
        self.requests += other.requests;
        self.failures.extend(other.failures);
        self.failures.truncate(KEPT_FAILURES);
        self
    }

    /// Returns the number of operations applied, if every operation was applied.
    ///
    /// # Errors
    /// Returns the first failure that was reported.
    pub fn into_result(self) -> Result<u64> {
        match self
            .failures
            .into_iter()
            .next()
            .map(|failure| failure.result)
        {
            Some(Err(error)) => Err(error),
            _ => Ok(self.written),
        }
    }
}
