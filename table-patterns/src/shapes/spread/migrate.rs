use futures_util::{StreamExt, TryStreamExt};
use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, Operation, Result};
use table_core::typed::TableEntity;

use super::place::stored;
use super::row::MOVING;
use super::write::exact;
use super::{SpreadRow, SpreadTable};
use crate::rows::conflict::without_etag;

/// What a migration did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// Rows looked at.
    pub looked: u64,
    /// Entities moved to their new bucket.
    pub moved: u64,
}

impl<T: TableEntity> SpreadTable<T> {
    /// Moves every entity to the bucket that it belongs to with the present number, from the one of
    /// [`with_previous`](Self::with_previous). Run one at a time; run it again after it died.
    ///
    /// One request a page of the table, three for each entity moved.
    ///
    /// # Errors
    /// The store's; no previous number was given; a row is where neither number puts it.
    pub async fn migrate(&self) -> Result<Migrated> {
        if self.previous.is_none() {
            return Err(Error::invalid_request("name the number of buckets before: `with_previous`"));
        }
        let moves = self.table.query().stream().map(|row| async { self.settle(row?).await });
        let count = |mut done: Migrated, moved: bool| async move {
            done.looked += 1;
            done.moved += u64::from(moved);
            Ok(done)
        };
        moves.buffer_unordered(self.concurrency).try_fold(Migrated::default(), count).await
    }

    /// Moves one row; whether it had to be.
    async fn settle(&self, row: SpreadRow<T>) -> Result<bool> {
        let (place, key) = (self.place_of(&row)?, row.entity.key().clone());
        let new = stored(&key, self.spread)?;
        if place == new {
            return Ok(false);
        }
        if self.previous_key(&key)?.as_ref() != Some(&place) {
            let expected = "the bucket of one of the two numbers";
            return Err(Error::decode(T::SCHEMA.rust_name, &place, "PartitionKey", expected, "another"));
        }
        let Some((row, version)) = self.mark(row, &place).await? else { return Ok(false) };
        let mut moved = row.entity.with_key(new);
        moved.properties_mut().remove(MOVING);
        match self.write(Operation::Insert(moved)).await {
            // By a migration that died after this step; nobody else inserts beside a row.
            Err(error) if error.is_already_exists() => {}
            other => other.map(drop)?,
        }
        self.delete_if_there(place, version).await?;
        Ok(true)
    }

    /// Stops writers of the old row, and returns it as it then is; `None` if it was deleted meanwhile.
    async fn mark(&self, mut row: SpreadRow<T>, place: &Key) -> Result<Option<(SpreadRow<T>, IfMatch)>> {
        loop {
            if row.is_moving() {
                let version = exact(&row)?;
                return Ok(Some((row, version)));
            }
            let mark = Entity::from(place.clone()).with(MOVING, true);
            match self.write(Operation::Merge(mark, exact(&row)?)).await {
                Ok(written) => {
                    let etag = written.etag.ok_or_else(|| without_etag(place))?;
                    return Ok(Some((row, IfMatch::Exactly(etag))));
                }
                Err(error) if error.is_entity_not_found() && !error.is_ambiguous() => return Ok(None),
                Err(error) if error.is_precondition_failed() && !error.is_ambiguous() => {}
                Err(error) => return Err(error),
            }
            match self.table.get(place).await? {
                Some(now) => row = now,
                None => return Ok(None),
            }
        }
    }
}
