//! One entity: reading it, and writing it where it is.

use std::sync::Arc;

use table_core::manifest::WriteTarget;
use table_core::model::{Entity, IfMatch, Key, TableName, Ticks};
use table_core::store::{Error, ErrorKind, Operation, Result, TableStore as _, Written};
use table_core::typed::{EntityPatch as _, FromEntity, KeyOf, Table, TableEntity};

use super::tables::is_gone;
use super::{Reuse, TimeSlices};
use crate::rows::conflict::{Conflicts, is_lost, version_of};
use crate::rows::plain::permit;

/// Calls a verb on each table of the slice of a moment, until one has the entity.
macro_rules! where_it_is {
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
    /// The entity of a moment with this key. One request where it is in the slice's first table; else one more to list
    /// the slice's tables and one for each other. With [`Reuse::Generation`] they are listed first, and the latest is asked
    /// first.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, at: Ticks, key: impl KeyOf<T>) -> Result<Option<T>> {
        let (key, mut tables) = (key.into_key(), Tables::of(self, at)?);
        while let Some(table) = tables.next().await? {
            match table.get(&key).await {
                Err(error) if is_gone(&error) => {}
                Ok(None) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    /// The entity of a moment with this key, or an error if there is none. As [`get`](Self::get).
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
        let (table, key) = (self.table_name(at)?.to_string(), key.to_string());
        Ok(ErrorKind::EntityNotFound { table, key }.into())
    }
}

/// Writes of an entity that is there. A key alone does not tell its slice: each is told the entity's moment, or takes it from
/// the entity. Requests are those of the same verb of a [`Table`] where the entity is in the slice's first table; else more, as
/// for [`get`](TimeSlices::get).
impl<T: TableEntity> TimeSlices<T> {
    /// Replaces the entity in the version it was read in: that of its `#[etag]` field. It stays in the slice of its time: to
    /// give it a time of another one, [`move_to`](Self::move_to) it.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found. The value carries no ETag.
    pub async fn replace(&self, entity: &T) -> Result<Written> {
        self.replace_if(entity, entity.own_version()?).await
    }

    /// Replaces the entity if it is in this version; [`IfMatch::Any`] asks for any.
    ///
    /// # Errors
    /// As [`replace`](Self::replace); the entity is stored in a later version of the schema.
    pub async fn replace_if(&self, entity: &T, version: impl Into<IfMatch>) -> Result<Written> {
        let (at, key, version) = (self.time()(entity), entity.entity_key()?, version.into());
        where_it_is!(self, at, key.key(), |table| table.replace_if(entity, version.clone()))
    }

    /// Writes the fields that the patch sets over those of the entity, if it is in this version; [`IfMatch::Any`] asks for
    /// any. What the patch does not set stays. One request more than the same verb of a table: the entity is read, since a
    /// patch could give it a time of another slice.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found. The patch sets nothing, or a time of another slice.
    /// The entity is stored in another version of the schema.
    pub async fn merge(
        &self,
        at: Ticks,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (patch, version) = (patch.to_entity(key.into_key())?, version.into());
        where_it_is!(self, at, patch.key(), |table| self.merge_into(&table, at, &patch, &version))
    }

    async fn merge_into(
        &self,
        table: &Table<T>,
        at: Ticks,
        patch: &Entity,
        version: &IfMatch,
    ) -> Result<Written> {
        let (store, key) = (self.store(), patch.key());
        let mut conflicts = Conflicts::new(self.shared.attempts);
        loop {
            let old = store.get(table.name(), key, None).await?;
            let old = old.ok_or_else(|| not_found(table.name(), key))?;
            let read = version_of(&old)?;
            if *version != IfMatch::Any && *version != read {
                let (table, key) = (table.name().to_string(), key.to_string());
                return Err(ErrorKind::PreconditionFailed { table, key }.into());
            }
            T::SCHEMA.check_patchable(&old)?;
            let mut new = old;
            new.properties_mut().merge(patch.properties());
            self.check_slice(at, &T::from_entity(new)?)?;
            let touched = T::SCHEMA.entity_type();
            let _permitted = permit(&**store, table.name(), WriteTarget::Type(&touched, key)).await?;
            match store.write(table.name(), Operation::Merge(patch.clone(), read)).await {
                Err(error) if *version == IfMatch::Any && !is_missing(&error) => {
                    conflicts.wait(error).await?;
                }
                done => return done,
            }
        }
    }

    /// Reads the entity, lets `change` change it, and replaces it in the version that was read; from the start
    /// if another writer was faster. Returns what was stored. Properties that `T` does not know stay.
    ///
    /// # Errors
    /// Entity not found; an error of `change`; `change` changed the key, or gave it a time of another slice; precondition failed,
    /// after the last attempt.
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
        where_it_is!(self, at, &key, |table| table.update(&key, &mut change))
    }

    /// Removes the entity if it is in this version; [`IfMatch::Any`] asks for any.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found.
    pub async fn delete(&self, at: Ticks, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<()> {
        let (key, version) = (key.into_key(), version.into());
        where_it_is!(self, at, &key, |table| table.delete(&key, version.clone()))
    }

    /// Removes the entity in any version, if it is there; whether it was.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete_if_exists(&self, at: Ticks, key: impl KeyOf<T>) -> Result<bool> {
        match self.delete(at, key, IfMatch::Any).await {
            Err(error) if error.is_entity_not_found() && !error.is_ambiguous() => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Moves an entity to a key of this or another family, whatever is there, with the properties that `T` does not know;
    /// whether there was one. It goes to the slice of the time that it has under its new key. A change that another writer makes
    /// meanwhile is moved as well.
    ///
    /// It is written there and then removed here, in the version that was written: a move that dies in between leaves both,
    /// and is to be run again. Four requests, more as for [`get`](Self::get) and [`insert`](Self::insert), again for each writer that
    /// comes in between.
    ///
    /// # Errors
    /// The stores'; precondition failed, after the last attempt; what is at the target is stored in a later version of the schema;
    /// the place is the same.
    pub async fn move_to(
        &self,
        at: Ticks,
        key: impl KeyOf<T>,
        target: &Self,
        to: impl KeyOf<T>,
    ) -> Result<bool> {
        let (key, to) = (key.into_key(), to.into_key());
        let mut conflicts = Conflicts::new(self.shared.attempts);
        loop {
            let Some((table, row)) = self.locate(at, &key).await? else { return Ok(false) };
            let version = version_of(&row)?;
            let moved = row.with_system(None, None).with_key(to.clone());
            let then = target.time()(&T::from_entity(moved.clone())?);
            let there = target.made(&target.shared.slicing.name(then)).await?;
            if Arc::ptr_eq(self.store(), target.store()) && table == there.table && key == to {
                return Err(Error::invalid_request(format!("{key} would be moved to where it is")));
            }
            let entity_type = T::SCHEMA.entity_type();
            let _leaves = permit(&**self.store(), &table, WriteTarget::Type(&entity_type, &key)).await?;
            let _arrives =
                permit(&**target.store(), &there.table, WriteTarget::Type(&entity_type, &to)).await?;
            let moved = match target.put(&there.table, moved).await {
                Ok(_) => self.store().write(&table, Operation::Delete(key.clone(), version)).await,
                Err(error) if is_gone(&error) => {
                    target.forget(&there.name);
                    Err(target.missing(then, &to)?.with_source(error))
                }
                Err(error) => Err(error),
            };
            match moved {
                Err(error) if is_lost(&error) => conflicts.wait(error).await?,
                moved => return moved.map(|_| true),
            }
        }
    }

    /// The row of an entity, and its table.
    async fn locate(&self, at: Ticks, key: &Key) -> Result<Option<(TableName, Entity)>> {
        let mut tables = Tables::of(self, at)?;
        while let Some(table) = tables.next().await? {
            match self.store().get(table.name(), key, None).await {
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
                Ok(None) => {}
                Ok(Some(row)) => return Ok(Some((table.name().clone(), row))),
            }
        }
        Ok(None)
    }

    /// Writes a row, whatever is there, unless that is of a later version.
    async fn put(&self, table: &TableName, row: Entity) -> Result<Written> {
        let there = self.store().get(table, row.key(), None).await?;
        let put = match there {
            Some(there) => {
                T::SCHEMA.check_replaceable(&there)?;
                Operation::Replace(row, version_of(&there)?)
            }
            None => Operation::Insert(row),
        };
        self.store().write(table, put).await
    }

    /// Refuses what would be in another slice than it is written to.
    fn check_slice(&self, at: Ticks, entity: &T) -> Result<()> {
        let slicing = &self.shared.slicing;
        let (here, there) = (slicing.name(at), slicing.name(self.time()(entity)));
        if here == there {
            return Ok(());
        }
        let (name, key) = (T::SCHEMA.rust_name, entity.entity_key()?);
        Err(Error::invalid_request(format!(
            "the {name} {key} of the slice '{here}' would be one of '{there}': insert the new one and delete the old, or move it \
             (`move_to`)"
        )))
    }
}

fn not_found(table: &TableName, key: &Key) -> Error {
    ErrorKind::EntityNotFound { table: table.to_string(), key: key.to_string() }.into()
}

/// Whether a table has no such entity, or is gone.
fn is_missing(error: &Error) -> bool {
    (error.is_entity_not_found() || is_gone(error)) && !error.is_ambiguous()
}

/// The tables of a slice, in the order in which an entity is looked for.
struct Tables<'a, T> {
    slices: &'a TimeSlices<T>,
    name: String,
    first: Option<TableName>,
    /// The first, once it was looked at.
    seen: Option<TableName>,
    rest: Option<Vec<TableName>>,
}

impl<'a, T: FromEntity> Tables<'a, T> {
    fn of(slices: &'a TimeSlices<T>, at: Ticks) -> Result<Self> {
        let name = slices.shared.slicing.name(at);
        let first = match slices.shared.reuse {
            Reuse::Wait(_) => Some(slices.shared.table(&name, 0)?),
            Reuse::Generation => None,
        };
        Ok(Self { slices, name, first, seen: None, rest: None })
    }

    async fn next(&mut self) -> Result<Option<Table<T>>> {
        if let Some(first) = self.first.take() {
            self.seen = Some(first.clone());
            return self.slices.table_of(first).map(Some);
        }
        if self.rest.is_none() {
            let tables = self.slices.of_name(&self.name).await?.into_iter().map(|slice| slice.table);
            self.rest = Some(tables.filter(|table| Some(table) != self.seen.as_ref()).collect());
        }
        // The latest is the last.
        let next = self.rest.as_mut().and_then(Vec::pop);
        next.map(|table| self.slices.table_of(table)).transpose()
    }
}
