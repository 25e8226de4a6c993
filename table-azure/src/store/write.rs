use azure_core::http::Method;
use table_core::model::TableName;
use table_core::store::{GroupTransaction, Operation, OperationKind, Written};
use table_core::{Error, Result, engine};

use crate::batch::{GroupBody, read_answer};
use crate::operation::Write;
use crate::rest::{Call, Client, JSON, Subject};

impl Client {
    pub(super) async fn write(&self, table: &TableName, operation: &Operation) -> Result<Written> {
        engine::check_operation(&self.profile, operation)?;
        let write = Write::new(operation, self.endpoint.cosmos)?;
        let url = self.endpoint.write_to(&write.path(table)).into_url();
        let subject = Subject::Entity(table, operation.key());
        let mut call = Call::new(operation.kind(), subject, write.method, url);
        if let Some(verb) = write.tunnelled {
            call = call.header("x-http-method", verb);
        }
        if write.prefers_no_content() {
            call = call.header("prefer", "return-no-content");
        }
        if let Some(json) = write.json() {
            call = call.body(JSON, json);
        }
        if let Some(if_match) = write.if_match {
            call = call.header("if-match", if_match);
        }
        let answer = self.send(call).await?;
        if write.method == Method::Delete { Ok(Written::deleted()) } else { answer.written() }
    }

    pub(super) async fn transact(&self, table: &TableName, group: &GroupTransaction) -> Result<Vec<Written>> {
        engine::check_group(&self.profile, group)?;
        let body = GroupBody::new(&self.endpoint, table, group)?;
        // `check_group` knows a lower bound; only now is the exact size known. The service would refuse the request
        // after the whole upload.
        if body.bytes.len() > self.profile.group_bytes {
            let what = "bytes of a group transaction's request";
            return Err(Error::limit(what, self.profile.group_bytes, body.bytes.len()));
        }
        let url = self.endpoint.write_to("$batch").into_url();
        let call = Call::new(OperationKind::Transact, Subject::Table(table), Method::Post, url)
            .body(body.content_type, body.bytes);
        let answer = self.send(call).await?;
        read_answer(&answer, table, group).map_err(|e| answer.explain(e))
    }
}
