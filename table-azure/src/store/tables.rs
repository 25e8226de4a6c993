use azure_core::http::Method;
use table_core::Result;
use table_core::model::{TableName, key_order};
use table_core::query::{Continuation, Filter, Page, Position};
use table_core::store::{OperationKind, check_progress};

use crate::rest::{Call, Client, JSON, Subject};
use crate::wire;

impl Client {
    pub(super) async fn create_table(&self, table: &TableName) -> Result<()> {
        let url = self.endpoint.write_to("Tables").into_url();
        let body = format!(r#"{{"TableName":"{table}"}}"#).into_bytes();
        let call = Call::new(OperationKind::CreateTable, Subject::NewTable(table), Method::Post, url)
            .header("prefer", "return-no-content")
            .body(JSON, body);
        self.send(call).await.map(drop)
    }

    pub(super) async fn delete_table(&self, table: &TableName) -> Result<()> {
        let url = self.endpoint.write_to(&format!("Tables('{table}')")).into_url();
        let call = Call::new(OperationKind::DeleteTable, Subject::Table(table), Method::Delete, url);
        self.send(call).await.map(drop)
    }

    pub(super) async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        let position = from.map(|from| from.tables_position(prefix)).transpose()?;
        let prefix = prefix.unwrap_or_default();
        let filter = self.names_like(prefix).map(|filter| filter.to_string());
        let url = self
            .endpoint
            .read_from("Tables")
            .with_some("$filter", filter.as_deref())
            .with_some("NextTableName", position.map(|position| position.first.as_str()))
            .into_url();
        let answer =
            self.send(Call::new(OperationKind::ListTables, Subject::Service, Method::Get, url)).await?;
        let mut items = wire::decode_table_names(&answer.body).map_err(|e| answer.explain(e))?;
        items.retain(|name| self.starts_with(name, prefix));
        let continuation = answer.continuation("x-ms-continuation-nexttablename")?.map(|first| {
            let position = Position { first, second: None };
            Continuation::of_tables(Some(prefix).filter(|prefix| !prefix.is_empty()), position)
        });
        check_progress(from, continuation.as_ref())?;
        Ok(Page { items, continuation })
    }

    /// Returns a range that contains every name with the prefix, whether or not the service compares case.
    /// The client drops the other names.
    fn names_like(&self, prefix: &str) -> Option<Filter> {
        // In ASCII, capital letters are before small ones. All spellings of the prefix are between its capital and
        // its small form.
        let (low, high) = match self.profile.case_sensitive_tables {
            true => (prefix.to_owned(), prefix.to_owned()),
            false => (prefix.to_ascii_uppercase(), prefix.to_ascii_lowercase()),
        };
        let end = key_order::prefix_end(&high)?;
        Some(Filter::ge("TableName", low).and(Filter::lt("TableName", end)))
    }

    fn starts_with(&self, name: &TableName, prefix: &str) -> bool {
        match self.profile.case_sensitive_tables {
            true => name.as_str().starts_with(prefix),
            false => name.to_lowercase().starts_with(&prefix.to_ascii_lowercase()),
        }
    }
}
