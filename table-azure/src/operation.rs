//! How each write is said in HTTP, alone or in a group.

use azure_core::http::Method;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::store::Operation;
use table_core::{Error, Result};

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
    ///
    /// # Errors
    /// The condition is not the text of a version.
    pub(crate) fn new(operation: &'a Operation, cosmos: bool) -> Result<Self> {
        let (method, tunnelled) = match operation {
            Operation::Insert(_) => (Method::Post, None),
            Operation::Replace(..) | Operation::InsertOrReplace(_) => (Method::Put, None),
            Operation::Merge(..) | Operation::InsertOrMerge(_) if cosmos => (Method::Post, Some("MERGE")),
            Operation::Merge(..) | Operation::InsertOrMerge(_) => (Method::Patch, None),
            Operation::Delete(..) => (Method::Delete, None),
        };
        let inserts = matches!(operation, Operation::Insert(_));
        Ok(Self {
            method,
            tunnelled,
            key: (!inserts).then(|| operation.key()),
            if_match: operation.if_match().map(if_match).transpose()?,
            entity: operation.entity(),
        })
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

/// What is sent as it is must not be read as "any version", nor as the end of the header.
fn if_match(condition: &IfMatch) -> Result<String> {
    let IfMatch::Exactly(etag) = condition else { return Ok("*".to_owned()) };
    let text = etag.to_string();
    let sendable = !text.is_empty() && text != "*" && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    if sendable {
        return Ok(text);
    }
    Err(Error::invalid_request(format!(
        "the ETag {text:?} is no version of an entity; for any version use `IfMatch::Any`"
    )))
}

#[cfg(test)]
mod tests {
    use table_core::model::ETag;

    use super::*;

    #[test]
    fn only_a_version_is_sent_as_one() {
        let delete = |etag: &str| {
            let condition = IfMatch::Exactly(ETag::from(etag));
            Write::new(&Operation::Delete(Key::new("p", "r").unwrap(), condition), false).map(|w| w.if_match)
        };
        assert_eq!(delete("W/\"x\"").unwrap().as_deref(), Some("W/\"x\""));
        for text in ["", "*", "W/\"x\"\r\nX-Evil: 1", "W/\"é\""] {
            assert!(delete(text).is_err(), "{text:?}");
        }
    }
}
