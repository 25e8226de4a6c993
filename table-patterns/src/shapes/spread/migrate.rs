//! Moves of entities: migrations to other buckets, moves to other keys, and upgrades of schema versions.

use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt};
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::query::{Filter, KeyBounds, Query, Range, Select, UnreadableEntity};
use table_core::store::{
    Conflicts, Error, MovedCopy, Operation, Result, TableStore, TableStoreExt as _,
};
use table_core::typed::upgrade::{UpgradePage, UpgradeRow, UpgradeRows};
use table_core::typed::{FromEntity as _, KeyOf, TableEntity, Upgrade};

use super::place::{MOVING, logical_key, stored_key};
use super::{SpreadRow, SpreadTable};
use crate::rows::{own_key_error, upgrade_one, upgraded};

/// The result of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The number of rows read.
    pub looked: u64,
    /// The number of entities moved to their new bucket.
    pub moved: u64,
}

impl<T: TableEntity> SpreadTable<T> {
    /// Moves every entity from its bucket of [`with_previous`](Self::with_previous) to its new bucket. Run one migration at
    /// a time, and repeat a migration that died.
    ///
    /// 1 request per page of the table and 3 per entity moved.
    ///
    /// # Errors
    /// Errors of the store; no previous buckets; a row that is in neither of its two buckets.
    pub async fn migrate(&self) -> Result<Migrated> {
        if self.previous.is_none() {
            return Err(Error::misuse(
                "the previous number of buckets is unknown: give it (`SpreadTable::with_previous`)",
            ));
        }
        let moves = self
            .rows
            .query()
            .stream()
            .map(|row| async { self.migrate_row(row?).await });
        let count = |mut done: Migrated, moved: bool| async move {
            done.looked += 1;
            done.moved += u64::from(moved);
            Ok(done)
        };
        moves
            .buffer_unordered(self.concurrency)
            .try_fold(Migrated::default(), count)
            .await
    }

    /// Moves one row: marks it, inserts the new row, deletes the old row. Returns whether the row was moved.
    ///
    /// Invariant: the old row stays, marked, until the new row exists. A crash after any step leaves a state in which a
    /// repeated migration continues.
    async fn migrate_row(&self, row: SpreadRow<T>) -> Result<bool> {
        let (place, key) = (self.place_of(&row)?, row.entity.key().clone());
        let new = stored_key(&key, self.spread)?;
        if place == new {
            return Ok(false);
        }
        if self.previous_key(&key)?.as_ref() != Some(&place) {
            let expected = "the present or the previous bucket";
            return Err(Error::decode(
                T::SCHEMA.rust_name,
                &place,
                "PartitionKey",
                expected,
                "another",
            ));
        }
        let Some((row, version)) = self.mark(row, &place).await? else {
            return Ok(false);
        };
        let mut moved = row.entity.with_key(new);
        moved.properties_mut().remove(MOVING);
        // The mark keeps the copy true: writers wait for the migration, so the old row has not changed since it was read.
        match self.write(Operation::Insert(moved)).await {
            // A migration that died after this step has inserted the row: other writers do not insert while the old row exists.
            Err(error) if error.is_already_exists() => {}
            other => other.map(drop)?,
        }
        self.delete_row_if_exists(place, version).await?;
        Ok(true)
    }

    /// Marks the old row, which stops its writers. Returns the row and its version with the mark; `None` if the row was
    /// deleted.
    async fn mark(
        &self,
        mut row: SpreadRow<T>,
        place: &Key,
    ) -> Result<Option<(SpreadRow<T>, IfMatch)>> {
        loop {
            if row.is_moving() {
                let version = row.entity.version()?;
                return Ok(Some((row, version)));
            }
            let mark = Entity::from(place.clone()).with(MOVING, true);
            match self
                .write(Operation::Merge(mark, row.entity.version()?))
                .await
            {
                Ok(written) => {
                    let etag = written.etag.ok_or_else(|| Error::missing_etag(place))?;
                    return Ok(Some((row, IfMatch::Exactly(etag))));
                }
                Err(error) if error.is_certainly_missing() => return Ok(None),
                Err(error) if error.is_precondition_failed() && !error.is_ambiguous() => {}
                Err(error) => return Err(error),
            }
            match self.rows.get(place).await? {
                Some(current) => row = current,
                None => return Ok(None),
            }
        }
    }
}

/// The number of pages of keys that a search for buckets reads.
const MAX_PAGES: usize = 3;

impl<T: TableEntity> SpreadTable<T> {
    /// Moves an entity to a key of this or another table, and replaces an entity with that key. A
    /// concurrent change of another writer is moved too. A process that dies during the move leaves both
    /// entities: repeat the move. A move that fails after it has written the target removes its copy: see
    /// [`IndexedEntities::move_to`](crate::index::IndexedEntities::move_to). Requests: see the [module](super).
    ///
    /// # Errors
    /// Entity not found; errors of the store; precondition failed, after the last attempt; the entity at the target has a
    /// later schema version; source and target are the same.
    pub async fn move_to(
        &self,
        key: impl KeyOf<T>,
        target: &Self,
        to: impl KeyOf<T>,
    ) -> Result<()> {
        let (key, to) = (key.into_key(), to.into_key());
        let is_same = (self.store()).is_same_table(self.name(), &**target.store(), target.name());
        if is_same && key == to {
            return Err(own_key_error(&key));
        }
        let mut conflicts = Conflicts::new(self.attempts);
        let mut copy = None;
        loop {
            let error = match self.try_move(&key, target, &to, &mut copy).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if let Err(error) = conflicts.wait_to_move_again(error).await {
                return Err(target.without_copy(&to, copy, error).await);
            }
        }
    }

    async fn try_move(
        &self,
        key: &Key,
        target: &Self,
        to: &Key,
        copy: &mut Option<MovedCopy>,
    ) -> Result<()> {
        let row = self.existing(key).await?;
        if row.is_moving() {
            return Err(self.moving(key));
        }
        let version = row.entity.version()?;
        let mut moved = row.entity.with_system(None, None).with_key(to.clone());
        moved.properties_mut().remove(MOVING);
        let written = match target.upsert_logical(moved).await {
            // A conflict at the target must not look like a missing source, which ends the move.
            Err(error) if error.is_conflict() => {
                return Err(Error::precondition_failed(target.name(), to));
            }
            written => written?,
        };
        *copy = Some(MovedCopy::over_anything(written.etag));
        let delete =
            |_: &SpreadRow<T>, key: Key, version: IfMatch| Ok(Operation::Delete(key, version));
        self.write_at_place(key, &version, delete).await.map(drop)
    }

    /// Removes the copy of a move that has failed. Returns the error of the move.
    async fn without_copy(&self, to: &Key, copy: Option<MovedCopy>, error: Error) -> Error {
        let Some(copy) = copy else { return error };
        copy.remove_after(error, |version| self.delete(to, version))
            .await
    }
}

/// Whether a table has a bucket of a partition, with a row of this key. At most 3 requests.
///
/// Only the type knows the number of buckets and the salt, so the function searches the keys of all buckets: it may return
/// `false` for a bucket after the first three pages.
pub(crate) async fn is_there(
    store: &dyn TableStore,
    table: &TableName,
    partition: &str,
    row: Option<&str>,
) -> Result<bool> {
    // The backtick follows the underscore, so the range has every prefix of four digits.
    let bound = |text: &str| text.to_owned();
    let buckets = Range {
        from: Bound::Included(bound("0000_")),
        to: Bound::Excluded(bound("9999`")),
    };
    let keys = KeyBounds {
        partition: buckets,
        row: row.map_or(Range::ALL, Range::single),
    }
    .to_filter();
    let query = Query {
        filter: keys,
        select: Some(Select::new([Filter::PARTITION_KEY])),
        top: None,
        ..Query::new()
    };
    let mut from = None;
    for _ in 0..MAX_PAGES {
        let page = store
            .query(table, &query, from.as_ref())
            .await?
            .into_page()?;
        let is_bucket =
            |key: &Key| logical_key(key).is_some_and(|key| key.partition() == partition);
        if page.items.iter().any(|entity| is_bucket(entity.key())) {
            return Ok(true);
        }
        from = page.continuation;
        if from.is_none() {
            break;
        }
    }
    Ok(false)
}

/// The number of rows that an upgrade rewrites at once.
const UPGRADES: usize = 16;

impl<T: TableEntity> SpreadTable<T> {
    /// Rewrites every entity of an older schema version in the current one, in its bucket. Returns the number of entities
    /// rewritten. Unknown properties stay. Otherwise as [`Table::upgrade_all`](crate::Table::upgrade_all).
    ///
    /// 1 request per page of the type's rows in all buckets and 1 per older entity, 16 at once; 2 more per entity that
    /// another writer or a migration changes during the upgrade.
    ///
    /// # Errors
    /// Errors of the store; a conversion that fails or changes a key.
    pub async fn upgrade_all(&self) -> Result<u64> {
        self.upgrade().run().await?.into_result()
    }

    /// Creates the same upgrade to be planned, watched or resumed: see [`Upgrade`]. Sends no request.
    pub fn upgrade(&self) -> Upgrade<T> {
        Upgrade::new(self.clone(), UPGRADES)
    }
}

#[async_trait]
impl<T: TableEntity> UpgradeRows<T> for SpreadTable<T> {
    async fn page(&self, from: Option<&str>) -> Result<UpgradePage> {
        let mut page = UpgradePage::of_query(&self.rows.query().project::<Entity>(), from).await?;
        for UpgradeRow { entity: stored, .. } in std::mem::take(&mut page.rows) {
            let key = stored.key().clone();
            match SpreadRow::<T>::from_entity(stored.clone()) {
                Ok(row) => page.rows.push(UpgradeRow {
                    entity: row.entity,
                    state: Some(Arc::new(stored)),
                }),
                Err(error) => page.unreadable.push(UnreadableEntity { key, error }),
            }
        }
        Ok(page)
    }

    async fn convert(&self, row: UpgradeRow) -> Result<bool> {
        let stored = row.state.and_then(|state| state.downcast::<Entity>().ok());
        let row = SpreadRow::<T>::from_entity(stored.map_or(row.entity, Arc::unwrap_or_clone))?;
        let (key, old) = (row.entity.key().clone(), row.entity.clone());
        let first = async {
            if row.is_moving() {
                return Err(self.moving(old.key()));
            }
            let (place, version) = (self.place_of(&row)?, row.entity.version()?);
            let new = upgraded(&old, &row.decode()?)?;
            self.write(Operation::Replace(new.with_key(place), version))
                .await
        };
        let all = self.clone().with_hidden();
        upgrade_one(first, all.update(key, |_| Ok(()))).await
    }
}
