//! One attempt at a write of a row that was read.

use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{ErrorKind, Result, Written};
use table_core::typed::TableEntity;

use super::LargeTable;
use crate::journal::Change;

impl<T: TableEntity> LargeTable<T> {
    /// The row as it is stored, or an error if there is none.
    pub(super) async fn existing(&self, key: &Key) -> Result<Entity> {
        self.row(key).await?.ok_or_else(|| {
            let (table, key) = (self.name().to_string(), key.to_string());
            ErrorKind::EntityNotFound { table, key }.into()
        })
    }

    /// One attempt to replace a row that was read. What it referred to goes.
    pub(super) async fn replace_read(&self, old: &Entity, new: Entity) -> Result<Written> {
        self.writer().write(Change::replace(old.clone(), new)).await
    }

    /// One attempt to delete a row that was read, and what it referred to.
    pub(super) async fn delete_read(&self, old: &Entity) -> Result<()> {
        self.writer().write(Change::delete(old.clone())).await.map(drop)
    }

    /// Refuses a row in another version than the one asked for.
    pub(super) fn check_version(&self, row: &Entity, wanted: &IfMatch) -> Result<()> {
        match wanted {
            IfMatch::Exactly(etag) if row.etag() != Some(etag) => Err(ErrorKind::PreconditionFailed {
                table: self.name().to_string(),
                key: row.key().to_string(),
            }
            .into()),
            _ => Ok(()),
        }
    }
}
