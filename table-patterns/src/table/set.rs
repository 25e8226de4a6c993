//! Set operations of a [`Table`](super::Table): rows alone, or with their entries.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key};
use table_core::store::{Error, Result, Written};
use table_core::typed::set::{RowChange, SetWriter};

use super::indexes::TypeIndexes;
use crate::journal::as_read;
use crate::large_values::EntityWriter;

/// The write path of one set operation. Its first row shows whether the table has indexes. If another program declares one during the
/// operation, the writes that are left maintain it.
#[derive(Debug)]
pub(super) struct TableSet {
    plain: Arc<dyn SetWriter>,
    indexes: Option<Arc<TypeIndexes>>,
    /// Writes the rows of a type with large fields.
    large: Option<Arc<EntityWriter>>,
    path: Mutex<Option<Arc<dyn SetWriter>>>,
}

impl TableSet {
    /// The write path of a type; without `indexes`, entries stay as they are.
    pub(super) fn new(
        plain: Arc<dyn SetWriter>,
        indexes: Option<Arc<TypeIndexes>>,
        large: Option<Arc<EntityWriter>>,
    ) -> Self {
        Self {
            plain,
            indexes,
            large,
            path: Mutex::default(),
        }
    }

    fn path(&self) -> Arc<dyn SetWriter> {
        let path = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(path.as_ref().unwrap_or(&self.plain))
    }

    fn set_path(&self, path: Arc<dyn SetWriter>) {
        *self.path.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
    }

    /// The path that writes rows with their entries.
    async fn maintained(&self, indexes: &TypeIndexes) -> Result<Arc<dyn SetWriter>> {
        let entities = indexes.to_write().await?.clone();
        Ok(match &self.large {
            Some(large) => Arc::new(large.maintaining(Some(&entities))),
            None => Arc::new(entities),
        })
    }

    /// The path that the first row shows.
    async fn checked(&self, key: &Key) -> Result<Arc<dyn SetWriter>> {
        let rows = match &self.large {
            Some(large) => Arc::clone(large) as Arc<dyn SetWriter>,
            None => Arc::clone(&self.plain),
        };
        let Some(indexes) = &self.indexes else {
            return rows.check(key).await.map(|()| rows);
        };
        if !indexes.must_be_maintained() {
            match rows.check(key).await {
                Err(error) if indexes.are_declared_by_others(&error).await => {}
                checked => return checked.map(|()| rows),
            }
        }
        let path = self.maintained(indexes).await?;
        path.check(key).await?;
        Ok(path)
    }
}

impl SetWriter for TableSet {
    fn check<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<()>> {
        async move {
            let path = self.checked(key).await?;
            self.set_path(path);
            Ok(())
        }
        .boxed()
    }

    fn as_read(&self, row: Entity) -> Entity {
        as_read(row)
    }

    fn operations(&self, change: &RowChange) -> usize {
        self.path().operations(change)
    }

    fn most_operations(&self) -> usize {
        self.path().most_operations()
    }

    fn write<'a>(
        &'a self,
        changes: &'a [RowChange],
    ) -> BoxFuture<'a, Result<(Vec<Written>, bool)>> {
        let path = self.path();
        async move { path.write(changes).await }.boxed()
    }

    fn continues_after<'a>(&'a self, refused: &'a Error) -> BoxFuture<'a, bool> {
        async move {
            let Some(indexes) = &self.indexes else {
                return false;
            };
            // A group that was sent before another group has changed the path.
            if !indexes.are_declared_by_others(refused).await {
                return false;
            }
            let path = self.maintained(indexes).await;
            path.map(|path| self.set_path(path)).is_ok()
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>> {
        let path = self.path();
        async move { path.read(key).await }.boxed()
    }

    fn failed(&self, error: &Error) -> Option<usize> {
        self.path().failed(error)
    }
}
