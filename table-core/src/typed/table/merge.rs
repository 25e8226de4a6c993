use super::handle::Shared;
use super::versioned::without_etag;
use super::{Conflicts, KeyOf, Table};
use crate::model::{ETag, Entity, IfMatch, Key, ValueRef};
use crate::query::Select;
use crate::store::{Error, Operation, Result, Written};
use crate::typed::{EntityPatch as _, Schema, TableEntity};

/// Partial updates.
impl<T: TableEntity> Table<T> {
    /// Writes the fields that the patch sets over those of the entity, if it is in this version;
    /// [`IfMatch::Any`] asks for any. What the patch does not set stays.
    ///
    /// What a newer program has stored in a later version, or another type under the same key, is refused. Only a type that
    /// has neither a `type` nor a `version` does not look under [`IfMatch::Any`]: nothing else is in its table.
    ///
    /// A merge cannot clear a property: [`update`](Self::update) the entity to make a field `None`.
    ///
    /// One request for a type that has neither `type` nor `version`, and of one in version 1 under an ETag. Otherwise two: a
    /// merge must not write into an entity of another type or schema version, so that is read first, and the merge is bound
    /// to what was read. Under [`IfMatch::Any`], two more for each writer that comes in between, within
    /// the bound of [`with_attempts`](Self::with_attempts).
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::ETag;
    /// # use table_core::typed::{Table, TableEntity};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(rename_all = "PascalCase")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     name: String,
    /// #     age: Option<i32>,
    /// #     #[etag] etag: Option<ETag>,
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// # let ken = Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None };
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
    /// Precondition failed: another writer was faster. Entity not found. The patch sets nothing. The
    /// entity is stored in another version of the schema.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (entity, version) = (patch.to_entity(key.into_key())?, version.into());
        self.to_write(entity.key(), "a merge").await?;
        if !looks(T::SCHEMA, &version) {
            return self.write(Operation::Merge(entity, version)).await;
        }
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            match (self.merge_versioned(&entity, &version).await, &version) {
                (Err(error), IfMatch::Any) => conflicts.wait(error).await?,
                (done, _) => return done,
            }
        }
    }

    async fn merge_versioned(&self, entity: &Entity, version: &IfMatch) -> Result<Written> {
        let read = self.shared().check_schema(T::SCHEMA, entity.key(), version).await?;
        self.write(Operation::Merge(entity.clone(), IfMatch::Exactly(read))).await
    }
}

/// Whether a merge must see what it is merged into. A version that was read by a type in version 1 is of it.
pub(super) const fn looks(schema: &Schema, version: &IfMatch) -> bool {
    schema.version > 1 || (schema.may_be_newer() && matches!(version, IfMatch::Any))
}

impl Shared {
    /// The version of the entity, which has this schema, if it is there. One request.
    pub(super) async fn stored_in(&self, schema: &'static Schema, key: &Key) -> Result<Option<ETag>> {
        let Some(entity) = self.store.get(&self.name, key, Some(&discriminating(schema))).await? else {
            return Ok(None);
        };
        schema.check_patchable(&entity)?;
        entity.etag().cloned().map(Some).ok_or_else(|| without_etag(key))
    }

    /// The version of the entity, which may be replaced, if it is there. One request.
    pub(super) async fn replaceable_in(&self, schema: &'static Schema, key: &Key) -> Result<Option<ETag>> {
        let Some(entity) = self.store.get(&self.name, key, Some(&discriminating(schema))).await? else {
            return Ok(None);
        };
        schema.check_replaceable(&entity)?;
        entity.etag().cloned().map(Some).ok_or_else(|| without_etag(key))
    }

    /// Reads in which version the entity is, and checks that it has this schema. One request.
    pub(super) async fn check_schema(
        &self,
        schema: &'static Schema,
        key: &Key,
        version: &IfMatch,
    ) -> Result<ETag> {
        let entity = self.store.get(&self.name, key, Some(&discriminating(schema))).await?;
        let entity = entity.ok_or_else(|| self.not_found(key))?;
        let etag = entity.etag().ok_or_else(|| without_etag(key))?;
        match version {
            IfMatch::Exactly(wanted) if wanted != etag => Err(self.changed(key)),
            _ => schema.check_patchable(&entity).map(|()| etag.clone()),
        }
    }
}

fn discriminating(schema: &Schema) -> Select {
    match schema.discriminator.property() {
        Some(name) => Select::new([name, Schema::VERSION_PROPERTY, Schema::READER_PROPERTY]),
        None => Select::new([Schema::VERSION_PROPERTY, Schema::READER_PROPERTY]),
    }
}

impl Schema {
    /// Refuses an entity that a patch of the type must not be written into: one of another type, or stored in
    /// another version of the schema, unless that is a later one which says that this one reads it.
    ///
    /// # Errors
    /// It is one.
    pub fn check_patchable(&self, entity: &Entity) -> Result<()> {
        check_type(self, entity)?;
        let stored = self.stored_version(entity)?;
        if stored == i64::from(self.version) || self.reads_later(entity)? {
            return Ok(());
        }
        let Self { rust_name, version, .. } = self;
        Err(Error::invalid_request(format!(
            "{} is stored in version {stored} of the schema of {rust_name}, what is merged is of version {version}: \
             read and replace the entity (`update`), which converts an older one",
            entity.key()
        )))
    }

    /// A stored entity with the properties of another, or of a patch, over its own. It stays in the version that it is stored in.
    ///
    /// # Errors
    /// It is of another type, or of a version that must not be written into.
    pub fn merged(&self, stored: &Entity, over: &Entity) -> Result<Entity> {
        self.check_patchable(stored)?;
        let mut merged = stored.clone();
        merged.properties_mut().merge(Self::without_version(over.clone()).properties());
        Ok(merged)
    }
}

fn check_type(schema: &Schema, entity: &Entity) -> Result<()> {
    let Some(name) = schema.discriminator.property() else { return Ok(()) };
    match entity.get(name) {
        Some(ValueRef::String(text)) if text == schema.type_name => Ok(()),
        found => {
            let found = found.map_or_else(|| "nothing".to_owned(), |found| format!("{found:?}"));
            Err(Error::decode(schema.rust_name, entity.key(), name, format!("{:?}", schema.type_name), found))
        }
    }
}
