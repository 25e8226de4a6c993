//! The HTTP form of each write, alone or in a group.

use azure_core::http::Method;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::store::Operation;
use table_core::{Error, Result};

use crate::endpoint::entity_path;
use crate::wire;

/// The parts of a write request.
pub(crate) struct Write<'a> {
    pub(crate) method: Method,
    /// The value of `X-HTTP-Method`, if the verb is sent in this header of a POST.
    pub(crate) x_http_method: Option<&'static str>,
    /// The addressed entity; `None` for an insert, which addresses the table.
    pub(crate) key: Option<&'a Key>,
    /// The value of `If-Match`; `None` for an insert and an upsert, which have no condition.
    pub(crate) if_match: Option<String>,
    pub(crate) entity: Option<&'a Entity>,
}

impl<'a> Write<'a> {
    /// Returns the request of an operation. Cosmos DB accepts a merge only as a POST with the verb in a header. Table Storage documents the
    /// verbs in <https://learn.microsoft.com/rest/api/storageservices/operations-on-entities>.
    ///
    /// # Errors
    /// Fails if the condition's text is not an ETag.
    pub(crate) fn new(operation: &'a Operation, is_cosmos: bool) -> Result<Self> {
        let (method, x_http_method) = match operation {
            Operation::Insert(_) => (Method::Post, None),
            Operation::Replace(..) | Operation::InsertOrReplace(_) => (Method::Put, None),
            Operation::Merge(..) | Operation::InsertOrMerge(_) if is_cosmos => {
                (Method::Post, Some("MERGE"))
            }
            Operation::Merge(..) | Operation::InsertOrMerge(_) => (Method::Patch, None),
            Operation::Delete(..) => (Method::Delete, None),
        };
        let inserts = matches!(operation, Operation::Insert(_));
        Ok(Self {
            method,
            x_http_method,
            key: (!inserts).then(|| operation.key()),
            if_match: operation.if_match().map(if_match).transpose()?,
            entity: operation.entity(),
        })
    }

    /// Returns the path below the account.
    pub(crate) fn path(&self, table: &TableName) -> String {
        self.key
            .map_or_else(|| table.to_string(), |key| entity_path(table, key))
    }

    /// Whether the request asks the service not to return the entity.
    pub(crate) fn prefers_no_content(&self) -> bool {
        // Only an insert answers with the entity otherwise; the other writes have no body in their answers.
        self.key.is_none()
    }

    pub(crate) fn json(&self) -> Option<Vec<u8>> {
        self.entity.map(wire::encode_entity)
    }
}

/// Returns the value of the `If-Match` header. Refuses texts that the service would read as "any version" or that would end the header.
fn if_match(condition: &IfMatch) -> Result<String> {
    let IfMatch::Exactly(etag) = condition else {
        return Ok("*".to_owned());
    };
    let text = etag.to_string();
    // HTTP drops blanks around a value: the service would read " *" as "any version".
    let has_content = text.trim() == text && !text.is_empty() && !text.starts_with('*');
    let sendable = has_content && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    if sendable {
        return Ok(text);
    }
    Err(Error::invalid_argument(format!(
        "{text:?} is not the ETag of an entity; to match any version use `IfMatch::Any`"
    )))
}

#[cfg(test)]
mod tests {
    use table_core::model::ETag;

    use super::*;

    #[test]
    fn only_an_etag_is_sent_as_if_match() {
        let delete = |etag: &str| {
            let condition = IfMatch::Exactly(ETag::from(etag));
            Write::new(
                &Operation::Delete(Key::new("p", "r").unwrap(), condition),
                false,
            )
            .map(|w| w.if_match)
        };
        assert_eq!(delete("W/\"x\"").unwrap().as_deref(), Some("W/\"x\""));
        for text in [
            "",
            "*",
            " *",
            "* ",
            " ",
            " W/\"x\"",
            "*, W/\"x\"",
            "W/\"x\"\r\nX-Evil: 1",
            "W/\"é\"",
        ] {
            assert!(delete(text).is_err(), "{text:?}");
        }
    }
}
