use std::io::Write as _;

use table_core::model::TableName;
use table_core::store::GroupTransaction;
use table_core::{Error, Result};
use uuid::Uuid;

use crate::endpoint::Endpoint;
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
        let mut bytes = Vec::with_capacity(256 + group.len() * 512);
        line(&mut bytes, format_args!("--batch_{batch}"));
        line(&mut bytes, format_args!("Content-Type: multipart/mixed; boundary=changeset_{changeset}"));
        for (index, operation) in group.operations().iter().enumerate() {
            let write =
                Write::new(operation, endpoint.cosmos).map_err(|e| Error::in_transaction(index, e))?;
            line(&mut bytes, format_args!("\r\n--changeset_{changeset}"));
            push_part(&mut bytes, endpoint, table, &write);
        }
        line(&mut bytes, format_args!("\r\n--changeset_{changeset}--"));
        line(&mut bytes, format_args!("--batch_{batch}--"));
        Ok(Self { content_type: format!("multipart/mixed; boundary=batch_{batch}"), bytes })
    }
}

fn push_part(out: &mut Vec<u8>, endpoint: &Endpoint, table: &TableName, write: &Write<'_>) {
    let url = endpoint.entity_in_group(table, write.key);
    line(out, format_args!("Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"));
    line(out, format_args!("{} {url} HTTP/1.1", write.method));
    line(out, format_args!("Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0"));
    if let Some(verb) = write.tunnelled {
        line(out, format_args!("X-HTTP-Method: {verb}"));
    }
    if write.wants_no_echo() {
        line(out, format_args!("Prefer: return-no-content"));
    }
    if let Some(if_match) = &write.if_match {
        line(out, format_args!("If-Match: {if_match}"));
    }
    match write.entity {
        Some(entity) => {
            line(out, format_args!("Content-Type: application/json\r\n"));
            wire::encode_into(entity, out);
        }
        None => line(out, format_args!("")),
    }
}

fn line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A `Vec` takes everything.
    let written = write!(out, "{text}\r\n");
    debug_assert!(written.is_ok());
}
