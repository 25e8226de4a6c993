//! The requests of a table store.

use azure_core::http::Method;
use table_core::model::{Entity, Key, TableName, key_order};
use table_core::query::{Continuation, Filter, Page, Position, Query, Select};
use table_core::store::{
    GroupTransaction, LimitKind, Operation, OperationKind, Written, check_entity, check_page,
    check_progress,
};
use table_core::{Error, Result, engine};

use crate::batch::{GroupBody, read_answer};
use crate::endpoint::entity_path;
use crate::operation::Write;
use crate::rest::{Answer, Call, Client, JSON, Subject};
use crate::wire;

impl Client {
    pub(super) async fn write(&self, table: &TableName, operation: &Operation) -> Result<Written> {
        engine::check_operation(&self.profile, operation)?;
        let write = Write::new(operation, self.endpoint.is_cosmos)?;
        let url = self.endpoint.write_to(&write.path(table)).into_url();
        let subject = Subject::Entity(table, operation.key());
        let mut call = Call::new(operation.kind(), subject, write.method, url);
        if let Some(verb) = write.x_http_method {
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
        if write.method == Method::Delete {
            Ok(Written::deleted())
        } else {
            answer.written()
        }
    }

    pub(super) async fn transact(
        &self,
        table: &TableName,
        group: &GroupTransaction,
    ) -> Result<Vec<Written>> {
        engine::check_group(&self.profile, group)?;
        let body = GroupBody::new(&self.endpoint, table, group)?;
        // `check_group` checks a lower bound of the size; the exact size is known only after encoding. The service would refuse a
        // larger request, but only after the whole upload.
        if body.bytes.len() > self.profile.group_bytes {
            let what = "bytes of a group transaction's request";
            let (allowed, actual) = (self.profile.group_bytes, body.bytes.len());
            return Err(Error::limit_of_kind(
                LimitKind::RequestSize,
                what,
                allowed,
                actual,
            ));
        }
        let url = self.endpoint.write_to("$batch").into_url();
        let call = Call::new(
            OperationKind::Transact,
            Subject::Table(table),
            Method::Post,
            url,
        )
        .body(body.content_type, body.bytes);
        let answer = self.send(call).await?;
        read_answer(&answer, table, group).map_err(|e| answer.explain(e))
    }
}

impl Client {
    pub(super) async fn create_table(&self, table: &TableName) -> Result<()> {
        let url = self.endpoint.write_to("Tables").into_url();
        let body = format!(r#"{{"TableName":"{table}"}}"#).into_bytes();
        let call = Call::new(
            OperationKind::CreateTable,
            Subject::NewTable(table),
            Method::Post,
            url,
        )
        .header("prefer", "return-no-content")
        .body(JSON, body);
        self.send(call).await.map(drop)
    }

    pub(super) async fn delete_table(&self, table: &TableName) -> Result<()> {
        let url = self
            .endpoint
            .write_to(&format!("Tables('{table}')"))
            .into_url();
        let call = Call::new(
            OperationKind::DeleteTable,
            Subject::Table(table),
            Method::Delete,
            url,
        );
        self.send(call).await.map(drop)
    }

    pub(super) async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        let position = from.map(|from| from.tables_position(prefix)).transpose()?;
        let prefix = prefix.unwrap_or_default();
        let filter = self
            .table_name_filter(prefix)
            .map(|filter| filter.to_string());
        let url = self
            .endpoint
            .read_from("Tables")
            .with_optional("$filter", filter.as_deref())
            .with_optional(
                "NextTableName",
                position.map(|position| position.first.as_str()),
            )
            .into_url();
        let answer = self
            .send(Call::new(
                OperationKind::ListTables,
                Subject::Service,
                Method::Get,
                url,
            ))
            .await?;
        let mut items = wire::decode_table_names(&answer.body).map_err(|e| answer.explain(e))?;
        let rows = items.len();
        items.retain(|name| self.has_prefix(name, prefix));
        let continuation = answer
            .continuation("x-ms-continuation-nexttablename")?
            .map(|first| {
                let position = Position {
                    first,
                    second: None,
                };
                Continuation::of_tables(Some(prefix).filter(|prefix| !prefix.is_empty()), position)
            });
        check_progress(from, continuation.as_ref(), rows)?;
        Ok(Page {
            items,
            continuation,
        })
    }

    /// Returns a range that contains every name with the prefix, whether or not the service compares case.
    /// The client drops the other names.
    fn table_name_filter(&self, prefix: &str) -> Option<Filter> {
        // In ASCII, capital letters sort before small ones. All spellings of the prefix are between its capital and
        // its small form.
        let (low, high) = match self.profile.case_sensitive_tables {
            true => (prefix.to_owned(), prefix.to_owned()),
            false => (prefix.to_ascii_uppercase(), prefix.to_ascii_lowercase()),
        };
        let end = key_order::prefix_end(&high)?;
        Some(Filter::ge("TableName", low).and(Filter::lt("TableName", end)))
    }

    /// Whether a table's name has the prefix, compared as the service compares names.
    fn has_prefix(&self, name: &TableName, prefix: &str) -> bool {
        match self.profile.case_sensitive_tables {
            true => name.as_str().starts_with(prefix),
            false => name
                .to_lowercase()
                .starts_with(&prefix.to_ascii_lowercase()),
        }
    }
}

impl Client {
    pub(super) async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let select = select.and_then(select_list);
        let address = self
            .endpoint
            .read_partition(&entity_path(table, key), Some(key.partition()));
        let url = address.with_optional("$select", select.as_deref());
        let subject = Subject::Entity(table, key);
        let call = Call::new(OperationKind::Get, subject, Method::Get, url.into_url());
        match self.send(call).await {
            Ok(answer) => {
                let entity = wire::decode_entity(&answer.body).map_err(|e| answer.explain(e))?;
                check_entity(table, key, &entity)?;
                Ok(Some(entity))
            }
            Err(e) if e.is_entity_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(super) async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        engine::check_query(&self.profile, query)?;
        let position = from
            .map(|from| from.position(&self.profile, table, query))
            .transpose()?;
        let filter = query.filter.as_ref().map(ToString::to_string);
        let top = query
            .top
            .map(|top| top.min(self.profile.page_size).to_string());
        let url = self
            .endpoint
            .read_partition(&format!("{table}()"), query.bounds().partition.as_single())
            .with_optional("$filter", filter.as_deref())
            .with_optional(
                "$select",
                query.select.as_ref().and_then(select_list).as_deref(),
            )
            .with_optional("$top", top.as_deref())
            .with_optional("NextPartitionKey", position.map(|p| p.first.as_str()))
            .with_optional("NextRowKey", position.and_then(|p| p.second.as_deref()));
        let call = Call::new(
            OperationKind::Query,
            Subject::Table(table),
            Method::Get,
            url.into_url(),
        );
        let answer = self.send(call).await?;
        let items = wire::decode_entities(&answer.body).map_err(|e| answer.explain(e))?;
        check_page(&self.profile, table, query, &items)?;
        let continued = |position| Continuation::new(&self.profile, table, query, position);
        let continuation = next_position(&answer)?.map(continued);
        // A service that returns the same token for ever would keep the program in a loop of paid requests.
        check_progress(from, continuation.as_ref(), items.len())?;
        Ok(Page {
            items,
            continuation,
        })
    }
}

/// Returns the selected names, with the properties that every answer needs; `None` for all properties, which an answer has without `$select`.
fn select_list(select: &Select) -> Option<String> {
    if select.is_all() {
        return None;
    }
    // `$select` leaves out the keys too, and an entity without keys cannot be read. The ETag is an annotation and is
    // always there.
    let names: Vec<_> = ["PartitionKey", "RowKey", "Timestamp"]
        .into_iter()
        .chain(select.names())
        .collect();
    Some(Select::new(names).names().collect::<Vec<_>>().join(","))
}

/// Returns where the next page begins; `None` after the last page. The service may omit the RowKey
/// (<https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination>).
fn next_position(answer: &Answer) -> Result<Option<Position>> {
    let first = answer.continuation("x-ms-continuation-nextpartitionkey")?;
    let second = answer.continuation("x-ms-continuation-nextrowkey")?;
    Ok(first.map(|first| Position { first, second }))
}
