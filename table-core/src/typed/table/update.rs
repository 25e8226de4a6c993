use super::write::insert_or_replace_at;
use super::{KeyOf, PlainTable};
use crate::model::{Entity, Key};
use crate::store::{
    Conflicts, Error, MovedCopy, Operation, Outcome, Result, TableStoreExt as _, own_key_error,
};
use crate::typed::TableEntity;

/// Read-modify-write.
impl<T: TableEntity> PlainTable<T> {
    /// Reads the entity, calls `change`, and replaces the entity if it has not changed since. After a conflict with another
    /// writer it starts again. Returns the stored entity.
    ///
    /// 2 requests, and 2 more per conflict, at most [`with_attempts`](Self::with_attempts) attempts. Between attempts it
    /// waits for a random time, of at most 8 ms at first and at most half a second later. If `change` returns an
    /// error, nothing is written.
    ///
    /// Properties that `T` does not know are kept. An entity in an older schema version is converted to the current
    /// version.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (employees, ken) = (employees().await?, ken());
    /// # employees.insert(&ken).await?;
    /// let birthday = |ken: &mut Employee| {
    ///     ken.age = ken.age.map(|age| age + 1).or(Some(41));
    ///     Ok(())
    /// };
    /// let ken = employees.update(Employee::key("Sales", 223)?, birthday).await?;
    /// assert_eq!(ken.age, Some(41));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the entity does not exist, if `change` changes the key, or if the last attempt conflicts with another
    /// writer. An ambiguous error of the write is returned without another attempt.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<T> {
        let key = key.into_key();
        self.permit_write(&key, "an update").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            // Without a selection: the replacement must contain the properties that `T` does not know.
            let read = self.store().get(self.name(), &key, None).await?;
            let read = read.filter(|row| !self.shared().hides_row_of(T::SCHEMA, row));
            let read = read.ok_or_else(|| self.shared().not_found(&key))?;
            let mut value = T::from_entity(read.clone())?;
            change(&mut value)?;
            match self.write_back(&read, &value).await {
                Err(error) => conflicts.wait(error).await?,
                stored => return stored,
            }
        }
    }

    async fn write_back(&self, read: &Entity, value: &T) -> Result<T> {
        let version = read.version()?;
        let entity = T::SCHEMA.updated(read, value.to_entity()?)?;
        let written = self
            .write(Operation::Replace(entity.clone(), version))
            .await?;
        let stored = T::from_entity(entity.with_system(written.etag, None));
        stored.map_err(|error| error.with_outcome(Outcome::Applied))
    }
}

/// Moves.
impl<T: TableEntity> PlainTable<T> {
    /// Moves an entity to a key of this or another table, with the properties that `T` does not know. An entity at the
    /// target is replaced.
    ///
    /// The move writes the target and then deletes the source in the version that it copied. If another writer changes
    /// the source in between, the move starts again. If the process ends in between, both entities exist: run the
    /// move again.
    ///
    /// 3 requests; 4 for a type with a `type` or a `version`, because the target may be stored in a later schema
    /// version. Each conflict costs the same number again.
    ///
    /// # Errors
    /// Fails if the entity does not exist, if source and target are the same, if the entity at the target is stored in a
    /// later schema version, or if the last attempt conflicts with another writer. Returns the errors of the stores.
    ///
    /// A move that fails after it has written the target removes its copy, in the version that it has written: 1 request
    /// more. For example, another writer deletes the source during the move, and the move fails with *entity not found*. The
    /// outcome is *applied* if the copy has replaced an entity, which is gone then, or may have replaced one, or if the copy
    /// cannot be removed.
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
        self.permit_write(&key, "a move").await?;
        target.permit_write(&to, "a move").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
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
        let row = self.store().get(self.name(), key, None).await?;
        let row = row.ok_or_else(|| self.shared().not_found(key))?;
        let version = row.version()?;
        let moved = row.with_system(None, None).with_key(to.clone());
        // The target first: a crash between the two requests leaves two entities. In the other order it would leave none.
        if T::SCHEMA.may_be_newer() {
            let replaced = target.shared().replaceable_version(T::SCHEMA, to).await?;
            let written = match target
                .write(insert_or_replace_at(moved, replaced.clone()))
                .await
            {
                // Not the error of a missing source.
                Err(error) if error.is_conflict() => {
                    return Err(target.shared().precondition_failed(to));
                }
                written => written?,
            };
            *copy = Some(MovedCopy::over(
                replaced.as_ref(),
                written.etag,
                copy.as_ref(),
            ));
        } else {
            let written = target.write(Operation::InsertOrReplace(moved)).await?;
            *copy = Some(MovedCopy::over_anything(written.etag));
        }
        self.write(Operation::Delete(key.clone(), version))
            .await
            .map(drop)
    }

    /// Removes the copy of a move that has failed. Returns the error of the move.
    async fn without_copy(&self, to: &Key, copy: Option<MovedCopy>, error: Error) -> Error {
        let Some(copy) = copy else { return error };
        copy.remove_after(error, |version| {
            self.write(Operation::Delete(to.clone(), version.into()))
        })
        .await
    }
}
