//! Set operations of a [`Table`](super::Table): rows alone, or with their entries.

use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key};
use table_core::store::{Error, Result, Written};
use table_core::typed::set::{RowChange, SetWriter};

use super::indexes::TypeIndexes;
use crate::journal::as_read;

/// The write path of one set operation, which its first row decides: whether the table has indexes is known only then.
#[derive(Debug)]
pub(super) struct TableSet {
    plain: Arc<dyn SetWriter>,
    indexes: Arc<TypeIndexes>,
    path: OnceLock<Arc<dyn SetWriter>>,
}

impl TableSet {
    pub(super) fn new(plain: Arc<dyn SetWriter>, indexes: Arc<TypeIndexes>) -> Self {
        Self {
            plain,
            indexes,
            path: OnceLock::new(),
        }
    }

    fn path(&self) -> &dyn SetWriter {
        &**self.path.get().unwrap_or(&self.plain)
    }

    /// The path of the set, which its first row shows.
    async fn checked(&self, key: &Key) -> Result<Arc<dyn SetWriter>> {
        if !self.indexes.must_be_maintained() {
            match self.plain.check(key).await {
                Err(error) if self.indexes.are_declared_by_others(&error).await => {}
                checked => return checked.map(|()| Arc::clone(&self.plain)),
            }
        }
        let entities = self.indexes.to_write().await?.clone();
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
