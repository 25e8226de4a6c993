use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;
use futures_util::TryStreamExt;

use super::manifests::with_advice;
use super::{CycleDetector, Error, ErrorKind, Pages, PlainWrite, QueryCursor, Result, TableStore};
use crate::manifest::Manifest;
use crate::model::{Entity, Key, TableName};
use crate::query::{Page, Query};

/// Whether the table could not be created because it exists.
fn is_table_already_exists(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TableAlreadyExists { .. })
}

/// Extension methods of every [`TableStore`].
#[async_trait]
pub trait TableStoreExt: TableStore {
    /// Creates the table unless it exists. Returns whether this call created it. 1 request, or 2 if the first answer
    /// was lost.
    ///
    /// If the first answer was lost and the table then exists, the method returns `false`, although this call may
    /// have created it. For some time after a deletion the name is refused: see
    /// [`TableBeingDeleted`](ErrorKind::TableBeingDeleted).
    async fn create_table_if_missing(&self, table: &TableName) -> Result<bool> {
        match self.create_table(table).await {
            Err(e) if is_table_already_exists(&e) => Ok(false),
            // A second request tells whether the table exists. It cannot tell which request created it.
            Err(lost) if lost.is_ambiguous() => match self.create_table(table).await {
                Err(e) if is_table_already_exists(&e) => Ok(false),
                Err(again) => Err(lost.with_source(again)),
                Ok(()) => Ok(true),
            },
            other => other.map(|()| true),
        }
    }

    /// Deletes the table if it exists. Returns whether this call deleted it. 1 request, or 2 if the first answer was
    /// lost. If the first answer was lost and the table then does not exist, the method returns `false`, although this
    /// call may have deleted it.
    ///
    /// # Errors
    /// Returns the errors of [`delete_table`](TableStore::delete_table), except for a missing table.
    async fn delete_table_if_exists(&self, table: &TableName) -> Result<bool> {
        match self.delete_table(table).await {
            Err(e) if e.is_table_not_found() => Ok(false),
            // A second request tells whether the table is gone. It cannot tell which request deleted it.
            Err(lost) if lost.is_ambiguous() => match self.delete_table(table).await {
                Err(e) if e.is_table_not_found() => Ok(false),
                Err(again) => Err(lost.with_source(again)),
                Ok(()) => Ok(true),
            },
            other => other.map(|()| true),
        }
    }

    /// Returns the entity with this key. 1 request.
    ///
    /// # Errors
    /// Fails if the entity does not exist ([`ErrorKind::EntityNotFound`]).
    async fn get_existing(&self, table: &TableName, key: &Key) -> Result<Entity> {
        self.get(table, key, None)
            .await?
            .ok_or_else(|| Error::entity_not_found(table, key))
    }

    /// Checks that the store can encrypt these properties, and
    /// [declares](super::StoreContext::declare_encrypted) them as encrypted. Sends no request. Every handle that opens a table for a type
    /// calls it.
    ///
    /// # Errors
    /// Fails if there are names and the store does not encrypt.
    fn check_encrypts(&self, table: &TableName, names: &[&str]) -> Result<()> {
        let Some(name) = names.first() else {
            return Ok(());
        };
        if !self.profile().encrypts {
            let requirement = format!(
                "encrypted properties, such as '{name}' in '{table}'; put an encrypting store around it"
            );
            return Err(Error::unsupported(self.profile().name, requirement));
        }
        self.context().declare_encrypted(table, names);
        Ok(())
    }

    /// Checks that no rule of the store encrypts one of these properties, which a type has in plaintext, in every row:
    /// the type could write the property, but not read it. Sends no request. Every handle that opens a table for a
    /// type calls it.
    ///
    /// # Errors
    /// Fails if a rule encrypts one of the properties in every row.
    fn check_unencrypted(&self, table: &TableName, names: &[&str]) -> Result<()> {
        let encrypted = self.context().encrypted_names(table);
        let Some(name) = encrypted.in_every_row().find(|name| names.contains(name)) else {
            return Ok(());
        };
        Err(Error::invalid_declaration(format!(
            "a rule of the store encrypts the property '{name}' in '{table}', but the type has it in plaintext: mark the field `#[encrypt]`"
        )))
    }

    /// Checks that no rule of the store encrypts one of these times of expiry or deletion, in whatever rows: the service compares
    /// the times, and a sweep without keys reads them. Sends no request. Every handle that opens a table for a type calls it.
    ///
    /// # Errors
    /// Fails if a rule encrypts one of the times in any row.
    fn check_times(&self, table: &TableName, names: &[&str]) -> Result<()> {
        let encrypted = self.context().encrypted_names(table);
        let Some(name) = names.iter().find(|name| encrypted.has_rule(name)) else {
            return Ok(());
        };
        Err(Error::invalid_declaration(format!(
            "a rule of the store encrypts the property '{name}' in '{table}', but it has the time of `#[expires]` or `#[deleted_at]`, which the \
             service compares and sweeps read: leave it out of the rule"
        )))
    }

    /// Returns the manifest of a table, from the [cache](super::StoreContext::manifests) if it was requested within
    /// [`LIFE`](super::ManifestCache::LIFE) and has not changed through this store since; otherwise by 1 request.
    ///
    /// # Errors
    /// Returns the errors of [`Manifest::load`], for example for a missing table. Errors are not cached.
    async fn manifest(&self, table: &TableName) -> Result<Arc<Manifest>> {
        self.context().manifests().get(self, table).await
    }

    /// Whether a table of this store is a table of another store: both are handles, clones or adapters of one backend, and their names are
    /// those of one table.
    #[doc(hidden)]
    fn is_same_table(
        &self,
        table: &TableName,
        other: &dyn TableStore,
        other_table: &TableName,
    ) -> bool {
        let (here, there) = (self.context().manifests(), other.context().manifests());
        Arc::ptr_eq(here, there) && self.profile().is_same_table(table, other_table)
    }

    /// Returns the manifest of a table if [`manifest`](Self::manifest) would send no request.
    fn known_manifest(&self, table: &TableName) -> Option<Arc<Manifest>> {
        let context = self.context();
        let local = context.local_writers().map(|local| &**local);
        context.manifests().known(local, table)
    }

    /// Returns the manifest for a write of plain rows, with a permit if only this process writes the store. Keep the result
    /// until the write is done: a change of the manifest waits for the permit. As many requests as [`manifest`](Self::manifest).
    ///
    /// # Errors
    /// Returns the errors of [`manifest`](Self::manifest). If the credential may not read the manifest, the error names the alternatives.
    async fn plain_write(&self, table: &TableName) -> Result<PlainWrite> {
        // The permit comes before the read. A change of the manifest either waits for the permit, or came before it
        // and is in the manifest that is read.
        let permit = self.context().enter();
        match self.manifest(table).await {
            Ok(manifest) => Ok(PlainWrite::new(manifest, permit)),
            Err(error) => Err(with_advice(error, table)),
        }
    }

    /// Returns all entities that match, in memory. 1 request per page.
    async fn query_all(&self, table: &TableName, query: &Query) -> Result<Vec<Entity>> {
        self.query_stream(table.clone(), query.clone())
            .try_collect()
            .await
    }

    /// Returns a stream of the entities that match. It reads page after page as it is polled; 1 request per page.
    ///
    /// The query's `top` limits the whole stream. The stream ends after an error.
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
        Pages::new(self, table, QueryCursor::new(query, None)).entities(false)
    }

    /// Returns a stream of the pages of a query. 1 request per page. The query's `top` limits the whole stream.
    fn query_pages(
        &self,
        table: TableName,
        query: Query,
    ) -> impl Stream<Item = Result<Page<Entity>>> + Send + Unpin {
        Pages::new(self, table, QueryCursor::new(query, None))
    }

    /// Converts the store to a shared store. A store that is shared already is not wrapped again, because its futures
    /// would then be boxed twice.
    fn into_shared(self) -> Arc<dyn TableStore>
    where
        Self: Sized,
    {
        // An `Arc` in an `Arc` would work too, with one more indirection for each request.
        match (&self as &dyn Any).downcast_ref::<Arc<dyn TableStore>>() {
            Some(shared) => Arc::clone(shared),
            None => Arc::new(self),
        }
    }

    /// Returns all tables whose names start with `prefix`. 1 request per page.
    async fn all_tables(&self, prefix: Option<&str>) -> Result<Vec<TableName>> {
        let (mut tables, mut from, mut cycles) = (Vec::new(), None, CycleDetector::default());
        loop {
            let page = self.list_tables(prefix, from.as_ref()).await?;
            let found = page.items.len();
            tables.extend(page.items);
            let Some(next) = page.continuation else {
                return Ok(tables);
            };
            cycles.add(&next, found)?;
            from = Some(next);
        }
    }
}

impl<S: TableStore + ?Sized> TableStoreExt for S {}
