use std::fmt;

use crate::model::{ETag, Entity, IfMatch, Key};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
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
}

impl Written {
    /// Creates the answer to a write that gave the entity this version.
    pub const fn version(etag: ETag) -> Self {
        Self { etag: Some(etag) }
    }

    /// Creates the answer to a delete.
    pub const fn deleted() -> Self {
        Self { etag: None }
    }
}
