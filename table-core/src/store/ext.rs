use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;
use futures_util::TryStreamExt;

use super::{Error, ErrorKind, Pages, Progress, QueryCursor, Result, TableStore};
use crate::model::{Entity, Key, TableName};
use crate::query::{Page, Query};

fn exists(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TableAlreadyExists { .. })
}

/// Conveniences over any [`TableStore`].
#[async_trait]
pub trait TableStoreExt: TableStore {
    /// Creates the table unless it is there; whether it was created. One request; another where the answer was
    /// lost: a table that is there then may be this call's, and the answer is `false`. A name that was just
    /// deleted can be refused for a while: see [`TableBeingDeleted`](ErrorKind::TableBeingDeleted).
    async fn create_table_if_missing(&self, table: &TableName) -> Result<bool> {
        match self.create_table(table).await {
            Err(e) if exists(&e) => Ok(false),
            Err(lost) if lost.is_ambiguous() => match self.create_table(table).await {
                Err(e) if exists(&e) => Ok(false),
                Err(again) => Err(lost.with_source(again)),
                Ok(()) => Ok(true),
            },
            other => other.map(|()| true),
        }
    }

    /// Deletes the table if it is there; whether it was. One request; another where the answer was lost: a
    /// table that is gone then may have been there, and the answer is `false`.
    async fn delete_table_if_exists(&self, table: &TableName) -> Result<bool> {
        match self.delete_table(table).await {
            Err(e) if e.is_table_not_found() => Ok(false),
            Err(lost) if lost.is_ambiguous() => match self.delete_table(table).await {
                Err(e) if e.is_table_not_found() => Ok(false),
                Err(again) => Err(lost.with_source(again)),
                Ok(()) => Ok(true),
            },
            other => other.map(|()| true),
        }
    }

    /// The entity, or an entity-not-found error. One request.
    async fn get_existing(&self, table: &TableName, key: &Key) -> Result<Entity> {
        self.get(table, key, None).await?.ok_or_else(|| {
            ErrorKind::EntityNotFound { table: table.to_string(), key: key.to_string() }.into()
        })
    }

    /// Whether the store takes entities of the table with these properties encrypted, which it is told of
    /// ([`declare_encrypted`](TableStore::declare_encrypted)). No request. What opens a table for a type asks.
    ///
    /// # Errors
    /// There are such properties, and the store does not encrypt.
    fn check_encrypts(&self, table: &TableName, names: &[&str]) -> Result<()> {
        let Some(name) = names.first() else { return Ok(()) };
        if !self.profile().encrypts {
            let what = format!(
                "encrypted properties such as '{name}' in '{table}': put an encrypting store in front of it"
            );
            return Err(Error::unsupported(self.profile().name, what));
        }
        self.declare_encrypted(table, names);
        Ok(())
    }

    /// Checks that no rule of the store encrypts one of these properties in every row: a type that has it in plaintext would
    /// write it, and could not read it back. No request. What opens a table for a type asks.
    ///
    /// # Errors
    /// A rule encrypts one of them.
    fn check_unencrypted(&self, table: &TableName, names: &[&str]) -> Result<()> {
        let encrypted = self.encrypted_names(table);
        let Some(name) = encrypted.in_every_row().find(|name| names.contains(name)) else { return Ok(()) };
        Err(Error::invalid_request(format!(
            "the store encrypts '{name}' in '{table}' by a rule, and the type has it in plaintext: mark the field `#[encrypt]`"
        )))
    }

    /// All entities that match, collected: mind the memory. One request a page.
    async fn query_all(&self, table: &TableName, query: &Query) -> Result<Vec<Entity>> {
        self.query_stream(table.clone(), query.clone()).try_collect().await
    }

    /// The entities that match, page after page as the stream is polled. One request a page.
    ///
    /// `top` bounds the stream as a whole. An error ends it. Dropping it leaves nothing behind.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::Operation;
    /// use futures_util::TryStreamExt;
    /// use table_core::query::Query;
    /// use table_core::store::{TableStore, TableStoreExt};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (store, table) = (MemoryStore::new(), TableName::new("Employees")?);
    /// # store.create_table(&table).await?;
    /// # store.write(&table, Operation::Insert(Entity::new("Sales", "empid_000223")?)).await?;
    /// let mut entities = store.query_stream(table, Query::new());
    /// while let Some(entity) = entities.try_next().await? {
    ///     assert_eq!(entity.key().partition(), "Sales");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn query_stream(
        &self,
        table: TableName,
        query: Query,
    ) -> impl Stream<Item = Result<Entity>> + Send + Unpin {
        Pages::new(self, table, QueryCursor::of(query, None)).entities(false)
    }

    /// The pages of a query as a stream. One request a page; `top` bounds the stream as a whole.
    fn query_pages(
        &self,
        table: TableName,
        query: Query,
    ) -> impl Stream<Item = Result<Page<Entity>>> + Send + Unpin {
        Pages::new(self, table, QueryCursor::of(query, None))
    }

    /// The store for several owners. One that is shared already stays as it is: wrapped again, each of its futures would
    /// be boxed twice.
    fn into_shared(self) -> Arc<dyn TableStore>
    where
        Self: Sized,
    {
        match (&self as &dyn Any).downcast_ref::<Arc<dyn TableStore>>() {
            Some(shared) => Arc::clone(shared),
            None => Arc::new(self),
        }
    }

    /// All tables whose names start with `prefix`. One request a page.
    async fn all_tables(&self, prefix: Option<&str>) -> Result<Vec<TableName>> {
        let (mut tables, mut from, mut progress) = (Vec::new(), None, Progress::default());
        loop {
            let page = self.list_tables(prefix, from.as_ref()).await?;
            let found = page.items.len();
            tables.extend(page.items);
            let Some(next) = page.continuation else { return Ok(tables) };
            progress.note(&next, found)?;
            from = Some(next);
        }
    }
}

impl<S: TableStore + ?Sized> TableStoreExt for S {}
