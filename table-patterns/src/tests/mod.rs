//! What the unit tests of several modules use.

#[allow(dead_code, reason = "other packages use it too")]
#[path = "../../../tests/support/faulty_blobs.rs"]
pub(crate) mod faulty_blobs;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use table_core::forward_to_store;
use table_core::model::TableName;
use table_core::query::{Continuation, Query, ReadablePage};
use table_core::store::{Result, TableStore};

/// The number of queries after which a reader has not noticed that the pages repeat.
const MANY_QUERIES: usize = 100;

/// A store that answers every query with the beginning of the first page, and with one continuation token.
#[derive(Debug)]
pub(crate) struct AlwaysFirstPage {
    store: Arc<dyn TableStore>,
    rows: usize,
    queries: AtomicUsize,
}

impl AlwaysFirstPage {
    /// `rows` is the number of rows in each page.
    pub(crate) fn around(store: Arc<dyn TableStore>, rows: usize) -> Arc<dyn TableStore> {
        Arc::new(Self {
            store,
            rows,
            queries: AtomicUsize::new(0),
        })
    }
}

#[async_trait]
impl TableStore for AlwaysFirstPage {
    forward_to_store!(self => self.store;
        profile, create_table, delete_table, list_tables, get, write, transact, context);

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        _from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let queries = self.queries.fetch_add(1, Ordering::SeqCst);
        assert!(
            queries < MANY_QUERIES,
            "the reader goes on after {queries} equal pages"
        );
        let most = self.rows.max(1);
        let query = Query {
            top: Some(query.top.map_or(most, |top| top.min(most))),
            ..query.clone()
        };
        let mut page = self.store.query(table, &query, None).await?.into_page()?;
        page.items.truncate(self.rows);
        Ok(page.into())
    }
}
