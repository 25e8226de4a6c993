use table_core::model::TableName;
use table_core::store::GroupTransaction;
use table_core::{Error, Result};
use uuid::Uuid;

use crate::endpoint::{Endpoint, entity_path};
use crate::operation::Write;
use crate::wire;

/// The body of a group transaction and its content type.
pub(crate) struct GroupBody {
    pub(crate) content_type: String,
    pub(crate) bytes: Vec<u8>,
}

impl GroupBody {
    pub(crate) fn new(endpoint: &Endpoint, table: &TableName, group: &GroupTransaction) -> Result<Self> {
        // Random, so that no text of an entity can be taken for one.
        let (batch, changeset) = (Uuid::new_v4(), Uuid::new_v4());
        let (batch, changeset) = (format!("batch_{batch}"), format!("changeset_{changeset}"));
        let mut bytes = Vec::with_capacity(256 + group.len() * 1024);
        push(&mut bytes, &["--", &batch, "\r\nContent-Type: multipart/mixed; boundary=", &changeset, "\r\n"]);
        for (index, operation) in group.operations().iter().enumerate() {
            let write =
                Write::new(operation, endpoint.cosmos).map_err(|e| Error::in_transaction(index, e))?;
            push(&mut bytes, &["\r\n--", &changeset, "\r\n"]);
            push_part(&mut bytes, endpoint, table, &write);
        }
        push(&mut bytes, &["\r\n--", &changeset, "--\r\n--", &batch, "--\r\n"]);
        Ok(Self { content_type: format!("multipart/mixed; boundary={batch}"), bytes })
    }
}

fn push_part(out: &mut Vec<u8>, endpoint: &Endpoint, table: &TableName, write: &Write<'_>) {
    push(out, &["Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"]);
    push(out, &[write.method.as_str(), " ", endpoint.root().as_str()]);
    match write.key {
        Some(key) => push(out, &[&entity_path(table, key)]),
        None => push(out, &[table.as_str()]),
    }
    push(
        out,
        &[" HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n"],
    );
    if let Some(verb) = write.tunnelled {
        push(out, &["X-HTTP-Method: ", verb, "\r\n"]);
    }
    if write.wants_no_echo() {
        push(out, &["Prefer: return-no-content\r\n"]);
    }
    if let Some(if_match) = &write.if_match {
        push(out, &["If-Match: ", if_match, "\r\n"]);
    }
    if let Some(entity) = write.entity {
        push(out, &["Content-Type: application/json\r\n\r\n"]);
        wire::encode_into(entity, out);
    } else {
        push(out, &["\r\n"]);
    }
}

fn push(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}
