//! Writes of types with large fields: the values go to blobs, and the row, with its entries, is written last.

use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Conflicts, Error, Outcome, Result, Written};
use table_core::typed::TableEntity;
use table_core::typed::load::LoadedRow;

use super::Table;
use crate::index::Stored;
use crate::journal::Change;
use crate::large_values::EntityWriter;
use crate::rows::{upgrade_one, upgraded};

impl<T: TableEntity> Table<T> {
    /// The writer of large values with the indexes that the table has now.
    pub(crate) async fn large_writer(&self, large: &EntityWriter) -> Result<EntityWriter> {
        Ok(large.maintaining(self.maintained_entities().await?))
    }

    /// The writer after a write was refused because another program has declared an index.
    ///
    /// # Errors
    /// The error of the write, if that is not its reason.
    async fn writer_after(&self, writer: &EntityWriter, error: Error) -> Result<EntityWriter> {
        let is_plain = writer.indexes().is_none() && !self.ignores_indexes();
        if is_plain && self.indexes().are_declared_by_others(&error).await {
            let entities = self.indexes().to_write().await?;
            return Ok(writer.maintaining(Some(entities)));
        }
        Err(error)
    }

    /// Writes one change. Returns the new row as stored, too.
    pub(super) async fn write_large(
        &self,
        large: &EntityWriter,
        change: &Change,
    ) -> Result<(Written, Option<Entity>)> {
        let writer = self.large_writer(large).await?;
        match writer.write_row(change.clone()).await {
            Err(error) => {
                let writer = self.writer_after(&writer, error).await?;
                writer.write_row(change.clone()).await
            }
            done => done,
        }
    }

    pub(super) async fn modify_large(
        &self,
        large: &EntityWriter,
        key: &Key,
        mut change: impl FnMut(Option<&Entity>) -> Result<Option<Entity>> + Send,
    ) -> Result<Option<Written>> {
        let writer = self.large_writer(large).await?;
        match writer.modify(key, &mut change).await {
            Err(error) => {
                let writer = self.writer_after(&writer, error).await?;
                writer.modify(key, change).await
            }
            done => done,
        }
    }

    pub(super) async fn update_large(
        &self,
        large: &EntityWriter,
        key: &Key,
        mut change: impl FnMut(&mut T) -> Result<()> + Send,
    ) -> Result<T> {
        let mut writer = self.large_writer(large).await?;
        let mut conflicts = Conflicts::new(self.plain().attempts());
        loop {
            let read = self.loaded_row(key).await?;
            let LoadedRow { stored, whole } = read.ok_or_else(|| self.missing(key))?;
            let mut value = T::from_entity(whole)?;
            change(&mut value)?;
            let new = T::SCHEMA.updated(&stored, value.to_entity()?)?;
            let error = match writer.write_row(Change::replace(stored, new.clone())).await {
                Ok((written, row)) => {
                    let value = match self.loaded_now(written, row, &new).await {
                        Some(now) => T::from_entity(now.whole),
                        None => self.get_existing(key).await,
                    };
                    return value.map_err(|error| error.with_outcome(Outcome::Applied));
                }
                Err(error) => error,
            };
            match self.writer_after(&writer, error).await {
                Ok(now) => writer = now,
                Err(error) => conflicts.wait(error).await?,
            }
        }
    }

    pub(super) async fn update_stored_large(
        &self,
        large: &EntityWriter,
        stored: &mut Stored<T>,
        change: impl FnOnce(&mut T) -> Result<()> + Send,
    ) -> Result<Written> {
        let old = stored.entity().clone();
        // The value has been read with its large values: no blob is read again.
        let (etag, timestamp) = (old.etag().cloned(), old.timestamp());
        let read = stored.to_entity()?.with_system(etag, timestamp);
        let mut value = T::from_entity(read)?;
        change(&mut value)?;
        let mut new = value.to_entity()?;
        T::SCHEMA.keep_unknown(&old, &mut new)?;
        let change = Change::replace(old, new.clone());
        let (written, row) = self.write_large(large, &change).await?;
        // If the new state is not known, the caller keeps the earlier one: its next write fails at the ETag.
        if let Some(now) = self.loaded_now(written.clone(), row, &new).await
            && let Ok(now) = Stored::loaded(now)
        {
            *stored = now;
        }
        Ok(written)
    }

    /// The row after a write, as stored, with the large values of `new`, which was written; `None` if it is not known.
    async fn loaded_now(
        &self,
        written: Written,
        row: Option<Entity>,
        new: &Entity,
    ) -> Option<LoadedRow> {
        let row = row?.with_system(Some(written.etag?), None);
        let stored = self.as_stored(row).await?;
        let mut whole = stored.clone();
        let properties = T::SCHEMA.properties.iter();
        for property in properties.filter(|property| property.large.is_some()) {
            if let Some(value) = new.properties().find(property.name) {
                whole
                    .properties_mut()
                    .put(property.name, value.value(), value.is_encrypted());
            }
        }
        Some(LoadedRow { stored, whole })
    }

    /// Merges a patch, which has no large field: no blob is written.
    pub(super) async fn merge_large(
        &self,
        large: &EntityWriter,
        patch: Entity,
        version: &IfMatch,
    ) -> Result<Written> {
        let mut writer = self.large_writer(large).await?;
        let mut conflicts = Conflicts::new(match version {
            IfMatch::Any => self.plain().attempts(),
            IfMatch::Exactly(_) => 1,
        });
        loop {
            let old = self.row(patch.key()).await?;
            self.check_version(patch.key(), old.as_ref(), version)?;
            let old = old.ok_or_else(|| self.missing(patch.key()))?;
            T::SCHEMA.check_patchable(&old)?;
            let error = match writer.merge_row(&old, patch.clone()).await {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            match self.writer_after(&writer, error).await {
                Ok(now) => writer = now,
                Err(error) => conflicts.wait(error).await?,
            }
        }
    }

    pub(super) async fn move_large(
        &self,
        large: &EntityWriter,
        key: &Key,
        (target, large_there): (&Self, &EntityWriter),
        to: &Key,
    ) -> Result<()> {
        let here = self.large_writer(large).await?;
        let there = target.large_writer(large_there).await?;
        let error = match here.move_to(key, &there, to).await {
            Err(error) => error,
            Ok(()) => return Ok(()),
        };
        let here_now = self.writer_after(&here, error.clone()).await;
        let there_now = target.writer_after(&there, error.clone()).await;
        if here_now.is_err() && there_now.is_err() {
            return Err(error);
        }
        let (here, there) = (here_now.unwrap_or(here), there_now.unwrap_or(there));
        here.move_to(key, &there, to).await
    }

    pub(super) async fn convert_large(&self, large: &EntityWriter, row: Entity) -> Result<bool> {
        let key = row.key().clone();
        let first = async {
            // A blob is missing because the row has changed: `upgrade_one` starts again.
            let Some(loaded) = self.loaded(row.clone(), |_| false).await? else {
                return Err(Error::precondition_failed(self.name(), &key));
            };
            let new = upgraded(&row, &T::from_entity(loaded.whole)?)?;
            self.large_writer(large).await?.upgrade(row, new).await
        };
        let all = self.clone().with_hidden();
        upgrade_one(first, all.update(key.clone(), |_| Ok(()))).await
    }
}
