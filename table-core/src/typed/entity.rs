use std::fmt;
use std::marker::PhantomData;

use super::table::LoadedRow;
use super::{Requirements, Schema};
use crate::model::{ETag, Entity, Key, PartitionKey, Properties, Ticks};
use crate::query::{Filter, Select};
use crate::store::{Error, Result};

/// A type that can be read from an entity: an entity type, a projection, a resolver, or [`Entity`] itself.
///
/// Derive it with `TableEntity` or `EntityResolver`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a table",
    note = "derive `TableEntity` (a struct) or `EntityResolver` (an enum of several types) for it"
)]
pub trait FromEntity: Sized + Send + 'static {
    /// Returns the properties that decoding needs; `None` for all.
    fn select() -> Option<Select>;

    /// Returns the filter that selects the rows of this type; `None` if the type can be read from every row.
    fn type_filter() -> Option<Filter>;

    /// Returns what the type requires of its table. Default: nothing.
    fn requirements() -> Requirements {
        Requirements::default()
    }

    /// Converts an entity to this type.
    ///
    /// # Errors
    /// Fails if a property is missing or has another type, or if the entity is stored in a later schema version than
    /// the type can read.
    fn from_entity(entity: Entity) -> Result<Self>;

    /// Converts an entity with values outside of its row.
    #[doc(hidden)]
    fn from_loaded(row: LoadedRow) -> Result<Self> {
        Self::from_entity(row.whole)
    }
}

impl FromEntity for Entity {
    fn select() -> Option<Select> {
        None
    }

    fn type_filter() -> Option<Filter> {
        None
    }

    /// Copies the properties out of the page, so that a kept entity does not keep the memory of other entities.
    fn from_entity(entity: Entity) -> Result<Self> {
        Ok(entity.detached())
    }
}

/// A struct that is stored as an entity. Derive it; the derive macro of this name documents all attributes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table entity",
    note = "derive it: `#[derive(TableEntity)]`, with `#[partition_key]` and `#[row_key]` fields"
)]
pub trait TableEntity: FromEntity + Sync {
    /// The partial update of this type: its fields without keys, each optional.
    type Patch: EntityPatch<Entity = Self>;

    /// The schema of the type, from the derive macro.
    const SCHEMA: &'static Schema;

    /// Returns the key of the entity, from the key fields.
    ///
    /// # Errors
    /// Fails if a key part does not fit its width or if the key is too long.
    fn entity_key(&self) -> Result<EntityKey<Self>>;

    /// Converts to an entity that is stored as one row under its key.
    ///
    /// # Errors
    /// Fails if a key or value cannot be stored, or if the type is spread or wide.
    fn to_entity(&self) -> Result<Entity> {
        Self::SCHEMA.check_one_row()?;
        self.to_logical()
    }

    /// Converts to the logical entity: with the key without a bucket, and with all properties. The handles of spread and
    /// wide types convert it to rows.
    ///
    /// # Errors
    /// Fails if a key or value cannot be stored.
    fn to_logical(&self) -> Result<Entity>;

    /// Returns the ETag of the `#[etag]` field, if the type has one and the value was read.
    fn etag(&self) -> Option<&ETag>;

    /// Sets the `#[etag]` field. Returns whether the type has one.
    fn set_etag(&mut self, _etag: ETag) -> bool {
        false
    }

    /// Returns the keys of the entity's entries in an index, which is given by its position in
    /// [`Schema::indexes`](super::Schema): none if a part of the key is absent, one per element for a list. Ignores
    /// the `where` filter, which compares stored properties.
    ///
    /// # Errors
    /// Fails if a key part cannot be encoded, if the key is too long, or if an entity could have the key.
    fn index_keys(&self, _index: usize) -> Result<Vec<Key>> {
        Ok(Vec::new())
    }

    /// Returns the ETag of the `#[etag]` field, for conditional writes.
    ///
    /// # Errors
    /// Fails if there is none.
    fn own_version(&self) -> Result<ETag> {
        if let Some(etag) = self.etag() {
            return Ok(etag.clone());
        }
        let (name, key) = (Self::SCHEMA.rust_name, self.entity_key()?);
        Err(Error::misuse(format!(
            "the {name} {key} has no ETag: read it into a type with an `#[etag]` field, or give a version to \
             `replace_if` or `delete` (`IfMatch::Any` for any version)"
        )))
    }
}

/// An entity type whose entities expire: it has a field `#[expires]`. The derive macro implements the trait.
#[diagnostic::on_unimplemented(
    message = "the entities of `{Self}` do not expire",
    note = "add a field with `#[expires]` to it: a `DateTime<Utc>`, a `Ticks`, or an `Option` of one"
)]
pub trait Expires: TableEntity {
    /// Returns the time at which the entity expires; `None` for never.
    fn expires_at(&self) -> Option<Ticks>;
}

/// An entity type that can be deleted softly: it has a field `#[deleted_at]`. The derive macro implements the trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be deleted softly",
    note = "add a field with `#[deleted_at]` to it: an `Option<DateTime<Utc>>` or an `Option<Ticks>`"
)]
pub trait SoftDelete: TableEntity {
    /// Sets the field: a time for a deleted entity, `None` for any other.
    fn set_deleted_at(&mut self, at: Option<Ticks>);
}

/// A partial update for a merge. The derive macro generates one for each entity type.
pub trait EntityPatch: Send + Sync + 'static {
    /// The entity type.
    type Entity: TableEntity<Patch = Self>;

    /// Returns the properties that the patch sets.
    ///
    /// # Errors
    /// Fails if a value cannot be stored.
    fn to_properties(&self) -> Result<Properties>;

    /// Returns the entity that a merge sends for this key.
    ///
    /// # Errors
    /// Fails if the patch sets no field; also returns the errors of [`to_properties`](Self::to_properties).
    fn to_entity(&self, key: Key) -> Result<Entity> {
        let properties = self.to_properties()?;
        if properties.is_empty() {
            let name = Self::Entity::SCHEMA.rust_name;
            return Err(Error::misuse(format!(
                "the patch of the {name} {key} sets no field"
            )));
        }
        Ok(Entity::from_parts(key, properties))
    }
}

/// The key of an entity of type `T`. `T::key(…)` creates it.
pub struct EntityKey<T> {
    key: Key,
    of: PhantomData<fn() -> T>,
}

impl<T> EntityKey<T> {
    /// Creates the key of an entity of `T` from a key, without a check.
    pub const fn new(key: Key) -> Self {
        Self {
            key,
            of: PhantomData,
        }
    }

    /// Returns the key.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Converts to the key of another type without a check, for example of a projection or a resolver.
    #[must_use]
    pub fn cast<U>(self) -> EntityKey<U> {
        EntityKey::new(self.key)
    }

    /// Converts to the untyped key.
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

/// A partition with entities of type `T`. `T::partition(…)` creates it.
pub struct PartitionOf<T> {
    partition: PartitionKey,
    of: PhantomData<fn() -> T>,
}

impl<T> PartitionOf<T> {
    /// Creates the partition from a PartitionKey, without a check.
    pub const fn new(partition: PartitionKey) -> Self {
        Self {
            partition,
            of: PhantomData,
        }
    }

    /// Converts to a partition of another type without a check.
    #[must_use]
    pub fn cast<U>(self) -> PartitionOf<U> {
        PartitionOf::new(self.partition)
    }

    /// Returns the PartitionKey.
    pub const fn partition_key(&self) -> &PartitionKey {
        &self.partition
    }
}

macro_rules! wrapper {
    ($name:ident, $field:ident) => {
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self {
                    $field: self.$field.clone(),
                    of: PhantomData,
                }
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

macro_rules! serialized {
    ($(#[$doc:meta] $name:ident, $field:ident;)*) => {$(
        #[$doc]
        impl<T> serde::Serialize for $name<T> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.$field.serialize(serializer)
            }
        }

        impl<'de, T> serde::Deserialize<'de> for $name<T> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer).map(Self::new)
            }
        }
    )*};
}

serialized! {
    /// As a [`Key`]. Deserializing does not check that the key fits the templates of `T`; a read does.
    EntityKey, key;
    /// As a [`PartitionKey`].
    PartitionOf, partition;
}
