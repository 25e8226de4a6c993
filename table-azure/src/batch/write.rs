use std::ops::Range;

use table_core::model::TableName;
use table_core::store::GroupTransaction;
use table_core::{Error, Result};
use uuid::Uuid;

use crate::endpoint::Endpoint;
use crate::operation::Write;
use crate::wire::EntityEncoder;

/// The body of a group transaction, and its content type.
pub(crate) struct GroupBody {
    pub(crate) content_type: String,
    pub(crate) bytes: Vec<u8>,
}

impl GroupBody {
    pub(crate) fn new(endpoint: &Endpoint, table: &TableName, group: &GroupTransaction) -> Result<Self> {
        // Random, so that no property value can contain a boundary.
        let (batch, changeset) = (Uuid::new_v4(), Uuid::new_v4());
        let (batch, changeset) = (format!("batch_{batch}"), format!("changeset_{changeset}"));
        let mut bytes = Vec::with_capacity(256 + group.len() * 1024);
        push(&mut bytes, &["--", &batch, "\r\nContent-Type: multipart/mixed; boundary=", &changeset, "\r\n"]);
        let entities = EntityEncoder::default();
        let mut body = Writer { endpoint, table, changeset, bytes, insert: None, entities };
        for (index, operation) in group.operations().iter().enumerate() {
            let write =
                Write::new(operation, endpoint.cosmos).map_err(|e| Error::in_transaction(index, e))?;
            body.push_part(&write);
        }
        let Writer { changeset, mut bytes, .. } = body;
        push(&mut bytes, &["\r\n--", &changeset, "--\r\n--", &batch, "--\r\n"]);
        Ok(Self { content_type: format!("multipart/mixed; boundary={batch}"), bytes })
    }
}

/// Writes the parts of a body.
struct Writer<'a> {
    endpoint: &'a Endpoint,
    table: &'a TableName,
    changeset: String,
    bytes: Vec<u8>,
    /// The bytes of the first insert up to its entity. All other inserts begin with the same bytes, so they
    /// are copied.
    insert: Option<Range<usize>>,
    entities: EntityEncoder,
}

impl Writer<'_> {
    fn push_part(&mut self, write: &Write<'_>) {
        match (&self.insert, write.key) {
            // The head of an insert names the table alone. Those of the other writes have their key and condition.
            (Some(insert), None) => self.bytes.extend_from_within(insert.clone()),
            (_, key) => {
                let from = self.bytes.len();
                self.push_head(write);
                if key.is_none() {
                    self.insert = Some(from..self.bytes.len());
                }
            }
        }
        if let Some(entity) = write.entity {
            self.entities.encode(entity, &mut self.bytes);
        }
    }

    fn push_head(&mut self, write: &Write<'_>) {
        let path = write.path(self.table);
        let out = &mut self.bytes;
        push(out, &["\r\n--", &self.changeset, "\r\nContent-Type: application/http\r\n"]);
        push(out, &["Content-Transfer-Encoding: binary\r\n\r\n"]);
        // The URL of a part is absolute, as in the service's examples
        // (<https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions>), and has no
        // SAS: the outer request is authorized for all of them.
        push(out, &[write.method.as_str(), " ", self.endpoint.root().as_str(), &path, " HTTP/1.1\r\n"]);
        push(out, &["Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n"]);
        if let Some(verb) = write.tunnelled {
            push(out, &["X-HTTP-Method: ", verb, "\r\n"]);
        }
        if write.prefers_no_content() {
            push(out, &["Prefer: return-no-content\r\n"]);
        }
        if let Some(if_match) = &write.if_match {
            push(out, &["If-Match: ", if_match, "\r\n"]);
        }
        let json = if write.entity.is_some() { "Content-Type: application/json\r\n" } else { "" };
        push(out, &[json, "\r\n"]);
    }
}

fn push(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}
