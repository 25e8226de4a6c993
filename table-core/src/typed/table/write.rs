use super::handle::Shared;
use super::{KeyOf, PlainTable};
use crate::model::{ETag, Entity, IfMatch, Key, ValueRef};
use crate::query::Select;
use crate::store::{Conflicts, Error, Operation, Result, Written};
use crate::typed::{EntityPatch as _, Schema, TableEntity};

/// Writes. They refuse entities that have an index: see [`PlainTable::ignoring_indexes`].
impl<T: TableEntity> PlainTable<T> {
    /// Inserts an entity that must not exist. 1 request. 3 if the stored entity is due: it is replaced in the version that was read.
    ///
    /// # Errors
    /// Fails if the entity exists already or if a key or value cannot be stored.
    pub async fn insert(&self, entity: &T) -> Result<Written> {
        self.insert_over_due(entity.to_entity()?).await
    }

    /// Inserts the entity or replaces the existing entity: the last writer wins.
    ///
    /// 1 request for a type with neither `type` nor `version`; its table must not contain other types. 2 requests for
    /// other types: the first reads the schema version of the stored entity, because an entity of a later version must
    /// not be replaced. The second writes on the condition that the entity has not changed. 2 more requests per
    /// conflict, at most [`with_attempts`](Self::with_attempts) attempts.
    ///
    /// # Errors
    /// Fails if a key or value cannot be stored, or if the existing entity is stored in a later schema version.
    pub async fn upsert(&self, entity: &T) -> Result<Written> {
        let entity = entity.to_entity()?;
        if !T::SCHEMA.may_be_newer() {
            return self.write(Operation::InsertOrReplace(entity)).await;
        }
        // Only to refuse before the read; `write` takes its own permit.
        self.permit_overwrite(entity.key(), "an upsert").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            // The condition is the ETag of this read, or that there is no entity. A write without a condition could
            // replace an entity that a later program has written in a later schema version since.
            let stored = self
                .shared()
                .replaceable_version(T::SCHEMA, entity.key())
                .await?;
            match self
                .write(insert_or_replace_at(entity.clone(), stored))
                .await
            {
                Err(error) => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Inserts the entity or merges its properties into the existing entity: the last writer of each property wins.
    ///
    /// A field with the value `None` does not change the stored property, and properties that `T` does not know do not
    /// change either.
    ///
    /// 1 request for a type with neither `type`, `version`, `#[expires]` nor `#[deleted_at]`. 2 requests for other types: the
    /// first checks that the stored entity has the type and the schema version of `T`. The second writes on the condition that
    /// the entity has not changed. 2 more requests per conflict, at most [`with_attempts`](Self::with_attempts) attempts.
    ///
    /// 2 requests for a type with a split field: only a replacement removes the parts of a longer value, so the stored entity
    /// is read.
    ///
    /// # Errors
    /// Fails if a key or value cannot be stored, or if the existing entity is stored as another type or in another
    /// schema version; use [`update`](Self::update) for another schema version.
    pub async fn insert_or_merge(&self, entity: &T) -> Result<Written> {
        let entity = entity.to_entity()?;
        if T::SCHEMA.has_split() {
            return self.insert_or_merge_split(entity).await;
        }
        if !T::SCHEMA.may_be_newer() && T::SCHEMA.expiry.is_none() {
            return self.write(Operation::InsertOrMerge(entity)).await;
        }
        // Only to refuse before the read; `write` takes its own permit.
        self.permit_write(entity.key(), "an upsert").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            let stored = self
                .shared()
                .patchable_version(T::SCHEMA, entity.key())
                .await?;
            let written = match stored {
                None => self.insert_over_due(entity.clone()).await,
                stored => self.write(insert_or_merge_at(entity.clone(), stored)).await,
            };
            match written {
                Err(error) => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Inserts an entity of a type with split values, or replaces the stored entity by the result of the merge.
    async fn insert_or_merge_split(&self, entity: Entity) -> Result<Written> {
        // Only to refuse before the read; `write` takes its own permit.
        self.permit_write(entity.key(), "an upsert").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            let stored = self.store().get(self.name(), entity.key(), None).await?;
            let base = match &stored {
                Some(stored) if !self.shows_hidden() => {
                    T::SCHEMA.merge_base(stored, self.store().context().now())?
                }
                stored => stored.as_ref(),
            };
            let written = match base {
                Some(base) => {
                    self.write(replace_by_merged(T::SCHEMA, base, &entity)?)
                        .await
                }
                None => self.insert_over_due(entity.clone()).await,
            };
            match written {
                Err(error) => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Replaces the entity if it has not changed since it was read: its ETag must be the value of the `#[etag]` field.
    /// 1 request.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (employees, ken) = (employees().await?, ken());
    /// # employees.insert(&ken).await?;
    /// let ken = employees.get_existing(Employee::key("Sales", 223)?).await?;
    /// employees.replace(&Employee { age: Some(41), ..ken }).await?;
    ///
    /// let stale = employees.get_existing(Employee::key("Sales", 223)?).await?;
    /// employees.update(Employee::key("Sales", 223)?, |ken| { ken.age = Some(42); Ok(()) }).await?;
    /// assert!(employees.replace(&stale).await.unwrap_err().is_precondition_failed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if
    ///
    /// - another writer changed the entity ([`is_precondition_failed`](Error::is_precondition_failed)),
    /// - the entity does not exist, or
    /// - the value has no ETag; give the version to [`replace_if`](Self::replace_if).
    pub async fn replace(&self, entity: &T) -> Result<Written> {
        self.write(replace(entity, entity.own_version()?.into())?)
            .await
    }

    /// Replaces the entity if it is in the given version ([`IfMatch::Any`]: in any version).
    ///
    /// 1 request; with [`IfMatch::Any`] as many as [`upsert`](Self::upsert).
    ///
    /// # Errors
    /// Fails if another writer changed the entity, if it does not exist, or, with [`IfMatch::Any`], if it is stored in
    /// a later schema version.
    pub async fn replace_if(&self, entity: &T, version: impl Into<IfMatch>) -> Result<Written> {
        let version = version.into();
        if version != IfMatch::Any || !T::SCHEMA.may_be_newer() {
            return self.write(replace(entity, version)?).await;
        }
        let (entity, mut conflicts) = (entity.to_entity()?, Conflicts::new(self.shared().attempts));
        // Only to refuse before the read; `write` takes its own permit.
        self.permit_overwrite(entity.key(), "a replace").await?;
        loop {
            // As in `upsert`: the read shows the schema version, and the write depends on the ETag that was read.
            let stored = self
                .shared()
                .replaceable_version(T::SCHEMA, entity.key())
                .await?;
            let stored = stored.ok_or_else(|| self.shared().not_found(entity.key()))?;
            match self
                .write(Operation::Replace(entity.clone(), stored.into()))
                .await
            {
                Err(error) => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Deletes the entity if it is in the given version ([`IfMatch::Any`]: in any version). 1 request.
    ///
    /// # Errors
    /// Fails if another writer changed the entity or if it does not exist.
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<()> {
        self.write(Operation::Delete(key.into_key(), version.into()))
            .await
            .map(drop)
    }

    /// Deletes the entity if it has not changed since it was read: its ETag must be the value of the `#[etag]` field.
    /// 1 request.
    ///
    /// # Errors
    /// Returns the errors of [`replace`](Self::replace).
    pub async fn delete_entity(&self, entity: &T) -> Result<()> {
        self.write(delete(entity)?).await.map(drop)
    }

    /// Deletes the entity in any version, if it exists. Returns whether it existed. 1 request.
    ///
    /// # Errors
    /// Returns the errors of the store, for example for a missing table.
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        match self.delete(key, IfMatch::Any).await {
            Err(error) if error.is_entity_not_found() => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Writes one row, unless the manifest has an index of it.
    ///
    /// # Errors
    /// Returns the errors of the store, and a refusal by the manifest.
    #[doc(hidden)]
    pub async fn write(&self, operation: Operation) -> Result<Written> {
        let (key, name) = (operation.key(), operation.kind().name());
        let _plain = if matches!(operation, Operation::Delete(_, IfMatch::Any)) {
            self.permit_overwrite(key, name).await?
        } else {
            self.permit_write(key, name).await?
        };
        self.store().write(self.name(), operation).await
    }
}

/// Returns the write that replaces the entity in the stored version, or inserts it if none is stored.
pub(super) fn insert_or_replace_at(entity: Entity, stored: Option<ETag>) -> Operation {
    match stored {
        Some(etag) => Operation::Replace(entity, etag.into()),
        None => Operation::Insert(entity),
    }
}

/// Returns the write that merges into the entity in the stored version, or inserts it if none is stored. A merge does not
/// change the schema version of the stored entity.
pub(super) fn insert_or_merge_at(entity: Entity, stored: Option<ETag>) -> Operation {
    match stored {
        Some(etag) => Operation::Merge(Schema::without_version(entity), etag.into()),
        None => Operation::Insert(entity),
    }
}

/// Returns the write that replaces a stored entity by the entity after a merge of `over`.
pub(super) fn replace_by_merged(
    schema: &Schema,
    stored: &Entity,
    over: &Entity,
) -> Result<Operation> {
    let merged = schema.merged(stored, over)?.with_system(None, None);
    Ok(Operation::Replace(merged, stored.version()?))
}

pub(super) fn replace<E: TableEntity>(entity: &E, version: IfMatch) -> Result<Operation> {
    Ok(Operation::Replace(entity.to_entity()?, version))
}

pub(super) fn delete<E: TableEntity>(entity: &E) -> Result<Operation> {
    Ok(Operation::Delete(
        entity.entity_key()?.into_key(),
        entity.own_version()?.into(),
    ))
}

/// Partial updates.
impl<T: TableEntity> PlainTable<T> {
    /// Overwrites the fields that the patch sets, if the entity is in the given version ([`IfMatch::Any`]: in any version).
    /// Other properties do not change.
    ///
    /// A merge cannot remove a property: use [`update`](Self::update) to make a field `None`.
    ///
    /// 1 request for a type with neither `type`, `version`, `#[expires]` nor `#[deleted_at]`, and for a type in schema version 1
    /// with an ETag.
    /// Otherwise 2 requests: the first reads type and schema version of the stored entity, because a merge must not
    /// change an entity of another type or schema version. The second merges into the version that was read. With
    /// [`IfMatch::Any`], 2 more requests per conflict, at most [`with_attempts`](Self::with_attempts) attempts.
    ///
    /// For a type with neither `type` nor `version`, the table must not contain other types: under [`IfMatch::Any`]
    /// the merge does not check the stored entity.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (employees, ken) = (employees().await?, ken());
    /// # employees.insert(&ken).await?;
    /// use table_core::model::IfMatch;
    /// let patch = EmployeePatch { age: Some(41), ..EmployeePatch::default() };
    /// employees.merge(Employee::key("Sales", 223)?, &patch, IfMatch::Any).await?;
    /// let ken = employees.get_existing(Employee::key("Sales", 223)?).await?;
    /// assert_eq!((ken.name.as_str(), ken.age), ("Ken", Some(41)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if
    ///
    /// - another writer changed the entity ([`is_precondition_failed`](Error::is_precondition_failed)),
    /// - the entity does not exist,
    /// - the patch sets no field, or
    /// - the entity is stored as another type or in another schema version.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (entity, version) = (patch.to_entity(key.into_key())?, version.into());
        // Only to refuse before the read; `write` takes its own permit.
        self.permit_write(entity.key(), "a merge").await?;
        if !must_read_first(T::SCHEMA, &version) {
            return self.write(Operation::Merge(entity, version)).await;
        }
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            match (self.merge_versioned(&entity, &version).await, &version) {
                (Err(error), IfMatch::Any) => {
                    conflicts
                        .wait_if(
                            error.is_precondition_failed() && !error.is_ambiguous(),
                            error,
                        )
                        .await?;
                }
                (done, _) => return done,
            }
        }
    }

    async fn merge_versioned(&self, entity: &Entity, version: &IfMatch) -> Result<Written> {
        let read = self
            .shared()
            .check_schema(T::SCHEMA, entity.key(), version)
            .await?;
        self.write(Operation::Merge(entity.clone(), IfMatch::Exactly(read)))
            .await
    }
}

/// Whether a merge must first read the stored entity, to check its type and schema version. An ETag that a type in version 1
/// has read belongs to an entity that the type can read, so no check is necessary.
pub(super) const fn must_read_first(schema: &Schema, version: &IfMatch) -> bool {
    let may_have_changed = schema.may_be_newer() || schema.expiry.is_some();
    schema.version > 1 || (may_have_changed && matches!(version, IfMatch::Any))
}

impl Shared {
    /// Returns the ETag of the stored entity, if it exists, and checks that a patch of this schema may change it.
    /// 1 request.
    pub(super) async fn patchable_version(
        &self,
        schema: &'static Schema,
        key: &Key,
    ) -> Result<Option<ETag>> {
        let Some(entity) = self
            .store
            .get(&self.name, key, Some(&discriminating(schema)))
            .await?
        else {
            return Ok(None);
        };
        if !self.extra_rows.hidden
            && schema
                .merge_base(&entity, self.store.context().now())?
                .is_none()
        {
            return Ok(None);
        }
        schema.check_patchable(&entity)?;
        stored_etag(&entity).map(Some)
    }

    /// Returns the ETag of the stored entity, if it exists, and checks that a program with this schema may replace it.
    /// 1 request.
    pub(super) async fn replaceable_version(
        &self,
        schema: &'static Schema,
        key: &Key,
    ) -> Result<Option<ETag>> {
        let Some(entity) = self
            .store
            .get(&self.name, key, Some(&discriminating(schema)))
            .await?
        else {
            return Ok(None);
        };
        schema.check_replaceable(&entity)?;
        stored_etag(&entity).map(Some)
    }

    /// Returns the ETag of the stored entity, which must exist in the given version, and checks that a patch of this schema
    /// may change it. 1 request.
    pub(super) async fn check_schema(
        &self,
        schema: &'static Schema,
        key: &Key,
        version: &IfMatch,
    ) -> Result<ETag> {
        version.check_form(key)?;
        let entity = self
            .store
            .get(&self.name, key, Some(&discriminating(schema)))
            .await?;
        let entity = entity.filter(|row| !self.hides_row_of(schema, row));
        let entity = entity.ok_or_else(|| self.not_found(key))?;
        let etag = stored_etag(&entity)?;
        match version {
            IfMatch::Exactly(wanted) if *wanted != etag => Err(self.precondition_failed(key)),
            _ => schema.check_patchable(&entity).map(|()| etag),
        }
    }
}

/// Returns the ETag of an entity that was read.
///
/// # Errors
/// Fails if the store returned none.
pub(super) fn stored_etag(entity: &Entity) -> Result<ETag> {
    entity
        .etag()
        .cloned()
        .ok_or_else(|| Error::missing_etag(entity.key()))
}

/// Returns the properties that say which type and schema version a stored entity has, and whether it is hidden.
pub(super) fn discriminating(schema: &Schema) -> Select {
    let versions = [Schema::VERSION_PROPERTY, Schema::READER_PROPERTY];
    let times = schema
        .expiry
        .iter()
        .flat_map(|expiry| expiry.names())
        .map(|name| &**name);
    Select::new(
        schema
            .discriminator
            .property()
            .into_iter()
            .chain(versions)
            .chain(times),
    )
}

impl Schema {
    /// Checks that a patch of the type may change a stored entity: the entity has this type and schema version, or a later
    /// version whose [`min_reader`](Self::min_reader) admits this version.
    ///
    /// # Errors
    /// Fails if the entity has another type or schema version.
    pub fn check_patchable(&self, entity: &Entity) -> Result<()> {
        check_type(self, entity)?;
        let stored = self.stored_version(entity)?;
        if stored == i64::from(self.version) || self.is_later_but_readable(entity)? {
            return Ok(());
        }
        let Self {
            rust_name, version, ..
        } = self;
        Err(Error::wrong_state(format!(
            "{} is stored in version {stored} of the schema of {rust_name}, and the merge is of version {version}: \
             use `update`, which converts an entity of an older version",
            entity.key()
        )))
    }

    /// Returns a stored entity after a merge of `over`. The entity stays in its schema version. A value in several properties
    /// (`#[entity(split)]`) is replaced as a whole.
    ///
    /// # Errors
    /// Returns the errors of [`check_patchable`](Self::check_patchable).
    pub fn merged(&self, stored: &Entity, over: &Entity) -> Result<Entity> {
        self.check_patchable(stored)?;
        let mut merged = stored.clone();
        self.remove_split_values(over, &mut merged);
        merged
            .properties_mut()
            .merge(Self::without_version(over.clone()).properties());
        Ok(merged)
    }
}

fn check_type(schema: &Schema, entity: &Entity) -> Result<()> {
    let Some(name) = schema.discriminator.property() else {
        return Ok(());
    };
    match entity.get(name) {
        Some(ValueRef::String(text)) if text == schema.type_name => Ok(()),
        found => {
            let found = found.map_or_else(
                || "no such property".to_owned(),
                |found| format!("{found:?}"),
            );
            Err(Error::decode(
                schema.rust_name,
                entity.key(),
                name,
                format!("{:?}", schema.type_name),
                found,
            ))
        }
    }
}

impl Written {
    /// Sets the new version in the `#[etag]` field of the entity that was written, so that the program can change and replace it again without
    /// reading it. Every write of every handle returns a version.
    ///
    /// ```
    /// # use table_core::prelude::*;
    /// # use table_core::typed::PlainTable;
    /// # #[derive(Debug, TableEntity)]
    /// # struct Employee { #[partition_key] department: String, #[row_key] id: u32, age: i32, #[etag] etag: Option<ETag> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = PlainTable::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// let mut ken = Employee { department: "Sales".into(), id: 223, age: 41, etag: None };
    /// employees.insert(&ken).await?.renew(&mut ken);
    /// ken.age = 42;
    /// employees.replace(&ken).await?.renew(&mut ken);
    /// ken.age = 43;
    /// employees.replace(&ken).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Does nothing if the type has no `#[etag]` field, and after a write without a version.
    pub fn renew<T: TableEntity>(self, entity: &mut T) {
        if let Some(etag) = self.etag {
            entity.set_etag(etag);
        }
    }
}
