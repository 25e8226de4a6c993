//! Set operations of a [`Table`](super::Table): rows alone, or with their entries.

use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key};
use table_core::store::{Error, Result, Written};
use table_core::typed::set::{RowChange, SetWriter};

use super::indexes::TypeIndexes;
use crate::journal::as_read;
use crate::large_values::EntityWriter;

/// The write path of one set operation, which its first row decides: whether the table has indexes is known only then.
#[derive(Debug)]
pub(super) struct TableSet {
    plain: Arc<dyn SetWriter>,
    indexes: Option<Arc<TypeIndexes>>,
    /// Writes the rows of a type with large fields.
    large: Option<Arc<EntityWriter>>,
    path: OnceLock<Arc<dyn SetWriter>>,
}

impl TableSet {
    pub(super) fn new(plain: Arc<dyn SetWriter>, indexes: Arc<TypeIndexes>) -> Self {
        Self {
            plain,
            indexes: Some(indexes),
            large: None,
            path: OnceLock::new(),
        }
    }

    /// The write path of a type with large fields; without `indexes`, entries stay as they are.
    pub(super) fn large(
        plain: Arc<dyn SetWriter>,
        large: Arc<EntityWriter>,
        indexes: Option<Arc<TypeIndexes>>,
    ) -> Self {
        Self {
            plain,
            indexes,
            large: Some(large),
            path: OnceLock::new(),
        }
    }

    fn path(&self) -> &dyn SetWriter {
        &**self.path.get().unwrap_or(&self.plain)
    }

    /// The path of the set, which its first row shows.
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
        let entities = indexes.to_write().await?.clone();
        if let Some(large) = &self.large {
            let writer = large.maintaining(Some(&entities));
            writer.check(key).await?;
            return Ok(Arc::new(writer));
        }
        SetWriter::check(&entities, key).await?;
        Ok(Arc::new(entities))
    }
}

impl SetWriter for TableSet {
    fn check<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<()>> {
        async move {
            let path = self.checked(key).await?;
            self.path.get_or_init(|| path);
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
        self.path().write(changes)
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>> {
        self.path().read(key)
    }

    fn failed(&self, error: &Error) -> Option<usize> {
        self.path().failed(error)
    }
}
