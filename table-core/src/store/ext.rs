use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::{TryStreamExt, stream};

use super::{ErrorKind, Result, TableStore};
use crate::model::{Entity, Key, TableName};
use crate::query::{Continuation, Page, Query};

/// Conveniences over any [`TableStore`].
#[async_trait]
pub trait TableStoreExt: TableStore {
    /// Creates the table unless it is there; whether it was created. One request.
    async fn create_table_if_missing(&self, table: &TableName) -> Result<bool> {
        match self.create_table(table).await {
            Err(e) if matches!(e.kind(), ErrorKind::TableAlreadyExists { .. }) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Deletes the table if it is there; whether it was. One request.
    async fn delete_table_if_exists(&self, table: &TableName) -> Result<bool> {
        match self.delete_table(table).await {
            Err(e) if e.is_table_not_found() => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// The entity, or an entity-not-found error. One request.
    async fn get_existing(&self, table: &TableName, key: &Key) -> Result<Entity> {
        self.get(table, key, None).await?.ok_or_else(|| {
            ErrorKind::EntityNotFound { table: table.to_string(), key: key.to_string() }.into()
        })
    }

    /// All entities that match, collected: mind the memory. One request a page.
    async fn query_all(&self, table: &TableName, query: &Query) -> Result<Vec<Entity>> {
        self.query_stream(table.clone(), query.clone()).try_collect().await
    }

    /// The entities that match, page after page as the stream is polled. One request a page.
    ///
    /// `top` bounds the stream as a whole.
    fn query_stream(&self, table: TableName, query: Query) -> BoxStream<'_, Result<Entity>> {
        Box::pin(
            self.query_pages(table, query)
                .map_ok(|page| stream::iter(page.items.into_iter().map(Ok)))
                .try_flatten(),
        )
    }

    /// The pages of a query as a stream. One request a page.
    fn query_pages(&self, table: TableName, query: Query) -> BoxStream<'_, Result<Page<Entity>>> {
        let start = Some((query, None::<Continuation>));
        Box::pin(stream::try_unfold(start, move |state| {
            let table = table.clone();
            async move {
                let Some((query, from)) = state else { return Ok(None) };
                let page = self.query(&table, &query, from.as_ref()).await?;
                let next = next_page(query, &page);
                Ok(Some((page, next)))
            }
        }))
    }

    /// All tables whose names start with `prefix`. One request a page.
    async fn all_tables(&self, prefix: Option<&str>) -> Result<Vec<TableName>> {
        let mut tables = Vec::new();
        let mut from = None;
        loop {
            let page = self.list_tables(prefix, from.as_ref()).await?;
            tables.extend(page.items);
            from = page.continuation;
            if from.is_none() {
                return Ok(tables);
            }
        }
    }
}

impl<S: TableStore + ?Sized> TableStoreExt for S {}

/// What is left to ask for after a page: `None` at the end or when `top` is reached.
fn next_page(query: Query, page: &Page<Entity>) -> Option<(Query, Option<Continuation>)> {
    let continuation = page.continuation.clone()?;
    let query = match query.top {
        None => query,
        Some(top) => query.with_top(top.checked_sub(page.items.len()).filter(|left| *left > 0)?),
    };
    Some((query, Some(continuation)))
}
