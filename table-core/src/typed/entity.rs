use std::fmt;
use std::marker::PhantomData;

use super::{Schema, Spread};
use crate::manifest::IndexDefinition;
use crate::model::{ETag, Entity, Key, PartitionKey, Properties};
use crate::query::{Filter, Select};
use crate::store::{Error, Result};

/// What can be read from an entity: entities, projections, resolvers, and [`Entity`] itself.
///
/// Derive it with `TableEntity` or `EntityResolver`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a table",
    note = "derive `TableEntity` (a struct) or `EntityResolver` (an enum over several) for it"
)]
pub trait FromEntity: Sized + Send + 'static {
    /// The properties that decoding needs; `None` for all.
    fn select() -> Option<Select>;

    /// The condition that keeps other types' rows out; `None` if every row can be read.
    fn type_filter() -> Option<Filter>;

    /// The properties that are encrypted in the store: a table of this type needs an encrypting one.
    fn encrypted() -> Vec<&'static str>;

    /// The properties that the type has in plaintext: a table whose store encrypts one of them by a rule refuses the type.
    fn unencrypted() -> Vec<&'static str> {
        Vec::new()
    }

    /// The properties whose values may be in blobs: a table that does not know of blobs refuses such a type.
    fn large() -> Vec<&'static str> {
        Vec::new()
    }

    /// The buckets that partitions are spread over: a table that does not know of buckets refuses such a type.
    fn spread() -> Option<Spread> {
        None
    }

    /// Whether an entity may take several rows: a table that does not know of that refuses such a type.
    fn wide() -> bool {
        false
    }

    /// The declared indexes of the entities, which writes must keep in step.
    fn indexes() -> Vec<&'static IndexDefinition> {
        Vec::new()
    }

    /// Reads an entity.
    ///
    /// # Errors
    /// A property is missing, or of another type, or the schema version is newer than this type.
    fn from_entity(entity: Entity) -> Result<Self>;
}

impl FromEntity for Entity {
    fn select() -> Option<Select> {
        None
    }

    fn type_filter() -> Option<Filter> {
        None
    }

    fn encrypted() -> Vec<&'static str> {
        Vec::new()
    }

    /// Detached, so that keeping one entity of a page does not keep others.
    fn from_entity(entity: Entity) -> Result<Self> {
        Ok(entity.detached())
    }
}

/// A struct stored as an entity. Derive it: the derive macro of this name describes every attribute.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table entity",
    note = "derive it: `#[derive(TableEntity)]`, with `#[partition_key]` and `#[row_key]` fields"
)]
pub trait TableEntity: FromEntity + Sync {
    /// The partial update of this type: its fields without keys, each optional.
    type Patch: EntityPatch<Entity = Self>;

    /// What the derive macro knows of the type.
    const SCHEMA: &'static Schema;

    /// The key that the fields give.
    ///
    /// # Errors
    /// A key part does not fit its width, or the key is too long.
    fn entity_key(&self) -> Result<EntityKey<Self>>;

    /// The entity to store as one row under its key, as tables, groups and bulk writers do.
    ///
    /// # Errors
    /// A key or a value cannot be stored. The type is stored in another way, by a table of its own: its keys are spread, or it
    /// may take several rows.
    fn to_entity(&self) -> Result<Entity> {
        Self::SCHEMA.check_one_row()?;
        self.to_logical()
    }

    /// The entity as a program knows it, for the table that stores such types: under the key before it is spread, and whole.
    ///
    /// # Errors
    /// A key or a value cannot be stored.
    fn to_logical(&self) -> Result<Entity>;

    /// The version it was read in, if a field keeps it (`#[etag]`).
    fn etag(&self) -> Option<&ETag>;

    /// The version it was read in, which a `replace` or a removal of it is bound to.
    ///
    /// # Errors
    /// It carries none.
    fn own_version(&self) -> Result<ETag> {
        if let Some(etag) = self.etag() {
            return Ok(etag.clone());
        }
        let (name, key) = (Self::SCHEMA.rust_name, self.entity_key()?);
        Err(Error::invalid_request(format!(
            "the {name} {key} carries no ETag: read it into a type with an #[etag] field, or name the version \
             (`replace_if`, `delete`), `IfMatch::Any` for any"
        )))
    }
}

/// A partial update for a merge. Derived with the entity.
pub trait EntityPatch: Send + Sync + 'static {
    /// The entity it patches.
    type Entity: TableEntity<Patch = Self>;

    /// The properties that are set.
    ///
    /// # Errors
    /// A value cannot be stored.
    fn to_properties(&self) -> Result<Properties>;

    /// What a merge writes into the entity with this key.
    ///
    /// # Errors
    /// As for [`to_properties`](Self::to_properties); it sets nothing.
    fn to_entity(&self, key: Key) -> Result<Entity> {
        let properties = self.to_properties()?;
        if properties.is_empty() {
            let name = Self::Entity::SCHEMA.rust_name;
            return Err(Error::invalid_request(format!("the patch of the {name} {key} sets no field")));
        }
        Ok(Entity::from_parts(key, properties))
    }
}

/// The key of an entity of type `T`: made by `T::key(…)`.
pub struct EntityKey<T> {
    key: Key,
    of: PhantomData<fn() -> T>,
}

impl<T> EntityKey<T> {
    /// Claims that a key belongs to the type: reading will tell.
    pub const fn new(key: Key) -> Self {
        Self { key, of: PhantomData }
    }

    /// The key.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Claims that the key also belongs to another type: a projection, or an enum over several.
    #[must_use]
    pub fn cast<U>(self) -> EntityKey<U> {
        EntityKey::new(self.key)
    }

    /// The key, taken out.
    pub fn into_key(self) -> Key {
        self.key
    }
}

impl<T> From<EntityKey<T>> for Key {
    fn from(key: EntityKey<T>) -> Self {
        key.key
    }
}

impl<T> From<&EntityKey<T>> for Key {
    fn from(key: &EntityKey<T>) -> Self {
        key.key.clone()
    }
}

/// A partition that holds entities of type `T`: made by `T::partition(…)`.
pub struct PartitionOf<T> {
    partition: PartitionKey,
    of: PhantomData<fn() -> T>,
}

impl<T> PartitionOf<T> {
    /// Claims that a partition belongs to the type.
    pub const fn new(partition: PartitionKey) -> Self {
        Self { partition, of: PhantomData }
    }

    /// Claims that the partition also holds entities of another type.
    #[must_use]
    pub fn cast<U>(self) -> PartitionOf<U> {
        PartitionOf::new(self.partition)
    }

    /// The partition key.
    pub const fn partition_key(&self) -> &PartitionKey {
        &self.partition
    }
}

macro_rules! wrapper {
    ($name:ident, $field:ident) => {
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self { $field: self.$field.clone(), of: PhantomData }
            }
        }

        impl<T> PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                self.$field == other.$field
            }
        }

        impl<T> Eq for $name<T> {}

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.$field, f)
            }
        }

        impl<T> fmt::Display for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.$field, f)
            }
        }
    };
}

wrapper!(EntityKey, key);
wrapper!(PartitionOf, partition);
