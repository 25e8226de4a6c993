use std::fmt;

use crate::model::{ETag, Entity, IfMatch, Key};

/// One write to one entity.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds an entity that must not exist.
    Insert(Entity),
    /// Replaces all properties of an entity that must exist in the wanted version.
    Replace(Entity, IfMatch),
    /// Overwrites and adds properties of an entity that must exist in the wanted version.
    Merge(Entity, IfMatch),
    /// Writes the entity, whatever was there: the last writer wins.
    InsertOrReplace(Entity),
    /// Adds the entity or merges into what is there: the last writer of each property wins.
    InsertOrMerge(Entity),
    /// Removes an entity that must exist in the wanted version.
    Delete(Key, IfMatch),
}

impl Operation {
    /// Which operation this is.
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

    /// The key it writes.
    pub const fn key(&self) -> &Key {
        match self {
            Self::Delete(key, _) => key,
            Self::Insert(e) | Self::InsertOrReplace(e) | Self::InsertOrMerge(e) => e.key(),
            Self::Replace(e, _) | Self::Merge(e, _) => e.key(),
        }
    }

    /// The entity it carries; a delete carries none.
    pub const fn entity(&self) -> Option<&Entity> {
        match self {
            Self::Delete(..) => None,
            Self::Insert(e) | Self::InsertOrReplace(e) | Self::InsertOrMerge(e) => Some(e),
            Self::Replace(e, _) | Self::Merge(e, _) => Some(e),
        }
    }

    /// The entity it carries, to change (an adapter adds a property, encrypts one).
    pub const fn entity_mut(&mut self) -> Option<&mut Entity> {
        match self {
            Self::Delete(..) => None,
            Self::Insert(e) | Self::InsertOrReplace(e) | Self::InsertOrMerge(e) => Some(e),
            Self::Replace(e, _) | Self::Merge(e, _) => Some(e),
        }
    }

    /// Its condition; inserts and upserts have none.
    pub const fn if_match(&self) -> Option<&IfMatch> {
        match self {
            Self::Replace(_, m) | Self::Merge(_, m) | Self::Delete(_, m) => Some(m),
            _ => None,
        }
    }

    /// Its condition, to change.
    pub const fn if_match_mut(&mut self) -> Option<&mut IfMatch> {
        match self {
            Self::Replace(_, m) | Self::Merge(_, m) | Self::Delete(_, m) => Some(m),
            _ => None,
        }
    }
}

/// The kind of a request, for meters, guards and traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "named as the operations are")]
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

    /// The name in snake case, as in traces.
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

/// What a store answers to an operation that it applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The entity's new version. `None` after a delete, and for an entity of a group transaction whose
    /// answer was lost and that another writer has changed since: read it again.
    pub etag: Option<ETag>,
}

impl Written {
    /// A new version.
    pub const fn version(etag: ETag) -> Self {
        Self { etag: Some(etag) }
    }

    /// A removal.
    pub const fn deleted() -> Self {
        Self { etag: None }
    }
}
