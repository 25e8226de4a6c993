//! The row in which a copy or a restore keeps its position, in a table of the target.

use table_core::model::{Entity, IfMatch, Key, SYSTEM_PREFIX, TableName};
use table_core::store::{Operation, Result, TableStore};

/// The checkpoint row of a job.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint<'a> {
    store: &'a dyn TableStore,
    table: &'a TableName,
    key: Key,
}

impl<'a> Checkpoint<'a> {
    /// The row of a job with this id.
    pub(super) fn new(store: &'a dyn TableStore, table: &'a TableName, id: String) -> Result<Self> {
        Ok(Self { store, table, key: Key::new(format!("{SYSTEM_PREFIX}copy"), id)? })
    }

    /// The row; `None` if the job has not begun, or the table does not exist. 1 request.
    pub(super) async fn load(&self) -> Result<Option<Entity>> {
        match self.store.get(self.table, &self.key, None).await {
            Err(error) if error.is_table_not_found() => Ok(None),
            read => read,
        }
    }

    /// Writes the row with these properties. 1 request.
    pub(super) async fn save(&self, properties: impl FnOnce(Entity) -> Entity) -> Result<()> {
        let row = properties(Entity::from(self.key.clone()));
        self.store.write(self.table, Operation::InsertOrReplace(row)).await.map(drop)
    }

    /// Deletes the row of a finished job. 1 request.
    pub(super) async fn clear(&self) -> Result<()> {
        match self.store.write(self.table, Operation::Delete(self.key.clone(), IfMatch::Any)).await {
            Err(error) if error.is_gone() => Ok(()),
            other => other.map(drop),
        }
    }
}
