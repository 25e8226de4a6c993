//! How each write is said in HTTP, alone or in a group.

use azure_core::http::Method;
use table_core::model::{ETag, Entity, IfMatch, Key, TableName};
use table_core::store::Operation;

use crate::endpoint::entity_path;
use crate::wire;

/// The parts of a write's request.
pub(crate) struct Write<'a> {
    pub(crate) method: Method,
    /// `X-HTTP-Method`, where the verb itself does not go through.
    pub(crate) tunnelled: Option<&'static str>,
    /// The entity addressed; an insert addresses the table.
    pub(crate) key: Option<&'a Key>,
    pub(crate) if_match: Option<String>,
    pub(crate) entity: Option<&'a Entity>,
}

impl<'a> Write<'a> {
    /// Cosmos DB takes a merge as a POST with the verb in a header.
    pub(crate) fn new(operation: &'a Operation, cosmos: bool) -> Self {
        let (method, tunnelled) = match operation {
            Operation::Insert(_) => (Method::Post, None),
            Operation::Replace(..) | Operation::InsertOrReplace(_) => (Method::Put, None),
            Operation::Merge(..) | Operation::InsertOrMerge(_) if cosmos => (Method::Post, Some("MERGE")),
            Operation::Merge(..) | Operation::InsertOrMerge(_) => (Method::Patch, None),
            Operation::Delete(..) => (Method::Delete, None),
        };
        let inserts = matches!(operation, Operation::Insert(_));
        Self {
            method,
            tunnelled,
            key: (!inserts).then(|| operation.key()),
            if_match: operation.if_match().map(if_match),
            entity: operation.entity(),
        }
    }

    /// The path after the account.
    pub(crate) fn path(&self, table: &TableName) -> String {
        self.key.map_or_else(|| table.to_string(), |key| entity_path(table, key))
    }

    /// Whether the answer can be without the entity that was sent.
    pub(crate) fn wants_no_echo(&self) -> bool {
        self.key.is_none()
    }

    pub(crate) fn json(&self) -> Option<Vec<u8>> {
        self.entity.map(wire::encode_entity)
    }
}

fn if_match(condition: &IfMatch) -> String {
    match condition {
        IfMatch::Any => "*".to_owned(),
        IfMatch::Exactly(etag) => ETag::to_string(etag),
    }
}
