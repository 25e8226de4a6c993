//! The row last.

use table_core::model::{Entity, IfMatch, Key, PropertyRef};
use table_core::store::{Error, ErrorKind, Operation, Outcome, Result, TableStore as _, Written};
use table_core::typed::TableEntity;

use super::prepare::Prepared;
use super::reference::{Told, told};
use super::{BlobContext, LargeTable};
use crate::conflict::version_of;

impl<T: TableEntity> LargeTable<T> {
    /// Writes the row, unless its blobs have waited so long that a collection could take them.
    ///
    /// Where the row is certainly not written, the blobs go; where nobody knows, they stay for a collection.
    pub(super) async fn commit(&self, prepared: &Prepared, operation: Operation) -> Result<Written> {
        let deadline = self.options().write_deadline;
        let result = if !prepared.blobs.is_empty() && prepared.started.elapsed() > deadline {
            Err(Error::new(ErrorKind::Timeout { after: deadline }))
        } else {
            self.store().write(self.name(), operation).await
        };
        if result.as_ref().is_err_and(|error| error.outcome() == Outcome::NotApplied) {
            self.remove(&prepared.blobs).await;
        }
        result
    }

    /// The row as it is stored, or an error if there is none.
    pub(super) async fn existing(&self, key: &Key) -> Result<Entity> {
        self.row(key).await?.ok_or_else(|| {
            let (table, key) = (self.name().to_string(), key.to_string());
            ErrorKind::EntityNotFound { table, key }.into()
        })
    }

    /// One attempt to replace a row that was read. What it referred to goes.
    pub(super) async fn replace_read(&self, old: &Entity, new: Entity) -> Result<Written> {
        let prepared = self.prepare(new).await?;
        let operation = Operation::Replace(prepared.entity.clone(), version_of(old)?);
        let written = self.commit(&prepared, operation).await?;
        let (mut gone, kept) = (self.blobs_of(old), self.blobs_of(&prepared.entity));
        gone.retain(|blob| kept.iter().all(|kept| kept.id != blob.id));
        self.remove(&gone).await;
        Ok(written)
    }

    /// One attempt to delete a row that was read, and what it referred to.
    pub(super) async fn delete_read(&self, old: &Entity) -> Result<()> {
        let operation = Operation::Delete(old.key().clone(), version_of(old)?);
        self.store().write(self.name(), operation).await?;
        self.remove(&self.blobs_of(old)).await;
        Ok(())
    }

    /// The blobs that a row refers to, of whatever type or schema version it is.
    pub(super) fn blobs_of(&self, row: &Entity) -> Vec<BlobContext> {
        let blob = |property: PropertyRef<'_>| match told(property.value())? {
            Told::Blob(reference) => {
                Some(BlobContext::new(self.name(), row.key(), property.name(), reference.id))
            }
            Told::Unreadable => None,
        };
        row.properties().iter().filter_map(blob).collect()
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

/// Whether another writer was faster, for certain.
pub(super) fn is_lost(error: &Error) -> bool {
    error.outcome() == Outcome::NotApplied
        && (error.is_precondition_failed() || error.is_entity_not_found() || error.is_already_exists())
}
