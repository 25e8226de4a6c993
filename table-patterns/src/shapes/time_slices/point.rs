//! Operations on one entity: reads, and writes to the table that has the entity.

use table_core::model::{ETag, Entity, IfMatch, Key, TableName, Ticks};
use table_core::store::{
    Conflicts, Error, MovedCopy, Operation, Outcome, Result, TableStore as _, TableStoreExt as _,
    Written,
};
use table_core::typed::{EntityPatch as _, FromEntity, KeyOf, PlainTable, TableEntity};

use super::family::is_table_dropped;
use super::{Reuse, TimeSlices};
use crate::rows::plain::permit;
use crate::rows::{existed, own_key_error};

/// Runs an operation on each table of the slice of a time, until a table has the entity. Returns from the caller.
macro_rules! in_its_table {
    ($slices:expr, $at:expr, $key:expr, |$table:ident| $verb:expr) => {{
        let mut tables = Tables::of($slices, $at)?;
        while let Some($table) = tables.next().await? {
            match $verb.await {
                Err(error) if is_missing(&error) => {}
                done => return done,
            }
        }
        Err($slices.missing($at, $key)?)
    }};
}

impl<T: FromEntity> TimeSlices<T> {
    /// Reads the entity with this time and key; `None` if it does not exist.
    ///
    /// 1 request if the entity is in the slice's first table; otherwise 1 more to list the slice's tables and 1 per other
    /// table. With [`Reuse::Generation`] the tables are listed first, and the latest is read first.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn get(&self, at: Ticks, key: impl KeyOf<T>) -> Result<Option<T>> {
        let (key, mut tables) = (key.into_key(), Tables::of(self, at)?);
        while let Some(table) = tables.next().await? {
            match table.get(&key).await {
                Err(error) if is_table_dropped(&error) => {}
                Ok(None) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    /// Reads the entity with this time and key, which must exist. Requests as for [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get), and entity not found.
    pub async fn get_existing(&self, at: Ticks, key: impl KeyOf<T>) -> Result<T> {
        let key = key.into_key();
        match self.get(at, &key).await? {
            Some(found) => Ok(found),
            None => Err(self.missing(at, &key)?),
        }
    }

    fn missing(&self, at: Ticks, key: &Key) -> Result<Error> {
        Ok(Error::entity_not_found(self.table_name(at)?, key))
    }
}

/// Writes of an existing entity. A key does not identify a slice, so each method takes the entity's time, or takes the time
/// from the entity. Requests: those of the same method of a [`Table`](crate::Table) if the entity is in the slice's first table; otherwise
/// more, as for [`get`](TimeSlices::get).
impl<T: TableEntity> TimeSlices<T> {
    /// Replaces the entity in the version that was read, which its `#[etag]` field holds. To change the entity's time to
    /// that of another slice, use [`move_to`](Self::move_to).
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found. The value has no ETag.
    pub async fn replace(&self, entity: &T) -> Result<Written> {
        self.replace_if(entity, entity.own_version()?).await
    }

    /// Replaces the entity if it has this version; [`IfMatch::Any`] accepts any version.
    ///
    /// # Errors
    /// As [`replace`](Self::replace); the entity is stored in a later version of the schema.
    pub async fn replace_if(&self, entity: &T, version: impl Into<IfMatch>) -> Result<Written> {
        let (at, key, version) = (self.time()(entity), entity.entity_key()?, version.into());
        in_its_table!(self, at, key.key(), |table| table
            .replace_if(entity, version.clone()))
    }

    /// Merges the fields of a patch into the entity if it has this version; [`IfMatch::Any`] accepts any version. Other
    /// fields stay.
    ///
    /// 1 request more than the same method of a table: the entity is read, because a patch could change its time to that
    /// of another slice.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found. The patch is empty, or sets a time of
    /// another slice. The entity has another schema version.
    pub async fn merge(
        &self,
        at: Ticks,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (patch, version) = (patch.to_entity(key.into_key())?, version.into());
        in_its_table!(self, at, patch.key(), |table| self
            .merge_into(&table, at, &patch, &version))
    }

    async fn merge_into(
        &self,
        table: &PlainTable<T>,
        at: Ticks,
        patch: &Entity,
        version: &IfMatch,
    ) -> Result<Written> {
        let (store, key) = (self.store(), patch.key());
        let mut conflicts = Conflicts::new(self.shared.attempts);
        loop {
            // A patch may change the time, and the entity would be in the wrong slice. So the merged entity
            // is checked before the write.
            let old = store.get(table.name(), key, None).await?;
            let old = old.filter(|row| !table.hides(row));
            let old = old.ok_or_else(|| Error::entity_not_found(table.name(), key))?;
            let read = old.version()?;
            if *version != IfMatch::Any && *version != read {
                return Err(Error::precondition_failed(table.name(), key));
            }
            T::SCHEMA.check_patchable(&old)?;
            let mut new = old;
            new.properties_mut().merge(patch.properties());
            self.check_slice(at, &T::from_entity(new)?)?;
            let _permitted = permit(&**store, table.name(), T::SCHEMA, key).await?;
            match store
                .write(table.name(), Operation::Merge(patch.clone(), read))
                .await
            {
                // A missing entity is no conflict here: the caller looks into the next table of the slice.
                Err(error) if *version == IfMatch::Any && !is_missing(&error) => {
                    conflicts.wait(error).await?;
                }
                done => return done,
            }
        }
    }

    /// Reads the entity, calls `change`, and replaces the entity in the version that was read; after a conflict, starts
    /// again. Returns the stored entity. Properties that `T` does not know stay.
    ///
    /// # Errors
    /// Entity not found; the error of `change`; `change` changed the key, or the time to that of another slice;
    /// precondition failed, after the last attempt.
    pub async fn update(
        &self,
        at: Ticks,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<T> {
        let key = key.into_key();
        let mut change = |entity: &mut T| {
            change(entity)?;
            self.check_slice(at, entity)
        };
        in_its_table!(self, at, &key, |table| table.update(&key, &mut change))
    }

    /// Deletes the entity if it has this version; [`IfMatch::Any`] accepts any version.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found.
    pub async fn delete(
        &self,
        at: Ticks,
        key: impl KeyOf<T>,
        version: impl Into<IfMatch>,
    ) -> Result<()> {
        let (key, version) = (key.into_key(), version.into());
        in_its_table!(self, at, &key, |table| table.delete(&key, version.clone()))
    }

    /// Deletes the entity in any version if it exists. Returns whether it existed.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn delete_if_exists(&self, at: Ticks, key: impl KeyOf<T>) -> Result<bool> {
        existed(self.delete(at, key, IfMatch::Any).await)
    }

    /// Moves an entity to a key of this or another family, and replaces an entity with that key.
    /// Properties that `T` does not know move too. The new slice is that of the time that the entity has
    /// under its new key. A concurrent change of another writer is moved too.
    ///
    /// The entity is written to the target and then deleted here, in the version that was copied. A process that dies
    /// between the two leaves both entities: repeat the move. A move that fails after it has written the target removes its
    /// copy: see [`IndexedEntities::move_to`](crate::index::IndexedEntities::move_to). 4 requests, more as for [`get`](Self::get) and
    /// [`insert`](Self::insert), and again after a conflict.
    ///
    /// # Errors
    /// Entity not found; errors of the stores; precondition failed, after the last attempt; the entity at the target has a
    /// later schema version; source and target are the same.
    pub async fn move_to(
        &self,
        at: Ticks,
        key: impl KeyOf<T>,
        target: &Self,
        to: impl KeyOf<T>,
    ) -> Result<()> {
        let (key, to) = (key.into_key(), to.into_key());
        let mut conflicts = Conflicts::new(self.shared.attempts);
        let mut copy = None;
        loop {
            let error = match self.try_move(at, &key, target, &to, &mut copy).await {
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
        at: Ticks,
        key: &Key,
        target: &Self,
        to: &Key,
        copy: &mut Option<(MovedCopy, TableName)>,
    ) -> Result<()> {
        let Some((table, row)) = self.locate(at, key).await? else {
            return Err(self.missing(at, key)?);
        };
        let version = row.version()?;
        let moved = row.with_system(None, None).with_key(to.clone());
        let then = target.time()(&T::from_entity(moved.clone())?);
        let there = target
            .existing_table(&target.shared.slicing.name(then))
            .await?;
        let is_same = self
            .store()
            .is_same_table(&table, &**target.store(), &there.table);
        if is_same && key == to {
            return Err(own_key_error(key));
        }
        let _leaves = permit(&**self.store(), &table, T::SCHEMA, key).await?;
        let _arrives = permit(&**target.store(), &there.table, T::SCHEMA, to).await?;
        // Another writer has given the entity a time of another slice: the copy of the last attempt is in the wrong one.
        if let Some(earlier) = copy.take_if(|(_, table)| *table != there.table) {
            let changed = Error::precondition_failed(&table, key);
            let removed = target.without_copy(to, Some(earlier), changed).await;
            if removed.outcome() != Outcome::NotApplied {
                return Err(removed);
            }
        }
        let (before, written) = match target.put(&there.table, moved).await {
            // A conflict at the target must not look like a missing source, which ends the move.
            Err(error) if error.is_conflict() => {
                return Err(Error::precondition_failed(&there.table, to));
            }
            // The slice was dropped: the next attempt creates it.
            Err(error) if is_table_dropped(&error) => {
                target.forget(&there.name);
                return Err(Error::precondition_failed(&there.table, to).with_source(error));
            }
            done => done?,
        };
        let earlier = copy.as_ref().map(|(copy, _)| copy);
        let made = MovedCopy::over(before.as_ref(), written.etag, earlier);
        *copy = Some((made, there.table.clone()));
        match self
            .store()
            .write(&table, Operation::Delete(key.clone(), version))
            .await
        {
            Err(error) if is_table_dropped(&error) => {
                Err(self.missing(at, key)?.with_source(error))
            }
            deleted => deleted.map(drop),
        }
    }

    /// Removes the copy of a move that has failed. Returns the error of the move.
    async fn without_copy(
        &self,
        to: &Key,
        copy: Option<(MovedCopy, TableName)>,
        error: Error,
    ) -> Error {
        let Some((copy, table)) = copy else {
            return error;
        };
        let delete = |version: ETag| Operation::Delete(to.clone(), version.into());
        copy.remove_after(error, |version| self.store().write(&table, delete(version)))
            .await
    }

    /// Finds the row of an entity and its table.
    async fn locate(&self, at: Ticks, key: &Key) -> Result<Option<(TableName, Entity)>> {
        let mut tables = Tables::of(self, at)?;
        while let Some(table) = tables.next().await? {
            match self.store().get(table.name(), key, None).await {
                Err(error) if is_table_dropped(&error) => {}
                Err(error) => return Err(error),
                Ok(None) => {}
                Ok(Some(row)) => return Ok(Some((table.name().clone(), row))),
            }
        }
        Ok(None)
    }

    /// Inserts or replaces a row, unless the stored row has a later schema version. Returns the version of the replaced
    /// row.
    async fn put(&self, table: &TableName, row: Entity) -> Result<(Option<ETag>, Written)> {
        // Read, and written in that version: an upsert could replace an entity of a later schema version.
        let there = self.store().get(table, row.key(), None).await?;
        let put = match &there {
            Some(there) => {
                T::SCHEMA.check_replaceable(there)?;
                Operation::Replace(row, there.version()?)
            }
            None => Operation::Insert(row),
        };
        let written = self.store().write(table, put).await?;
        Ok((there.and_then(|there| there.etag().cloned()), written))
    }

    /// Refuses an entity whose time is in another slice.
    pub(super) fn check_slice(&self, at: Ticks, entity: &T) -> Result<()> {
        let slicing = &self.shared.slicing;
        let (here, there) = (slicing.name(at), slicing.name(self.time()(entity)));
        if here == there {
            return Ok(());
        }
        let (name, key) = (T::SCHEMA.rust_name, entity.entity_key()?);
        Err(Error::misuse(format!(
            "the change moves the {name} {key} from the slice '{here}' to '{there}': use `move_to`, or insert the new entity \
             and delete the old"
        )))
    }
}

/// Whether the error says that the entity or its table does not exist.
fn is_missing(error: &Error) -> bool {
    (error.is_entity_not_found() || is_table_dropped(error)) && !error.is_ambiguous()
}

/// The tables of a slice in the order of a search: with [`Reuse::Wait`] the first table without listing the tables, then the
/// others from the latest on.
struct Tables<'a, T> {
    slices: &'a TimeSlices<T>,
    name: String,
    first: Option<TableName>,
    /// The first table, after it was searched.
    searched: Option<TableName>,
    rest: Option<Vec<TableName>>,
}

impl<'a, T: FromEntity> Tables<'a, T> {
    fn of(slices: &'a TimeSlices<T>, at: Ticks) -> Result<Self> {
        let name = slices.shared.slicing.name(at);
        let first = match slices.shared.reuse {
            Reuse::Wait(_) => Some(slices.shared.table(&name, 0)?),
            Reuse::Generation => None,
        };
        Ok(Self {
            slices,
            name,
            first,
            searched: None,
            rest: None,
        })
    }

    async fn next(&mut self) -> Result<Option<PlainTable<T>>> {
        if let Some(first) = self.first.take() {
            self.searched = Some(first.clone());
            return self.slices.table_of(first).map(Some);
        }
        if self.rest.is_none() {
            let tables = self
                .slices
                .of_name(&self.name)
                .await?
                .into_iter()
                .map(|slice| slice.table);
            self.rest = Some(
                tables
                    .filter(|table| Some(table) != self.searched.as_ref())
                    .collect(),
            );
        }
        // The list is in the order of generations: the latest is the last.
        let next = self.rest.as_mut().and_then(Vec::pop);
        next.map(|table| self.slices.table_of(table)).transpose()
    }
}
