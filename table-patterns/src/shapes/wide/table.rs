use std::marker::PhantomData;

use table_core::model::{Entity, IfMatch, Properties, TableName};
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};
use table_core::typed::{EntityPatch as _, FromEntity, KeyOf, TableEntity};

use super::rows::Stored;
use super::{Wide, WideEntities, WideQuery};
use crate::rows::upgrade::{is_older, upgrade_each, upgrade_one, upgraded};

/// Entities that are upgraded at once.
const CONCURRENCY: usize = 16;

/// Structs of any number of properties. See the [module](super).
///
/// A struct with more than 252 properties says so: `#[entity(wide)]`. It is stored as wide entities only, where no
/// `Table<T>` sees it; its discriminator and version are properties like others, and its `#[etag]` is the
/// head's.
pub struct WideTable<T> {
    entities: WideEntities,
    of: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for WideTable<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WideTable").field("entities", &self.entities).finish()
    }
}

impl<T> Clone for WideTable<T> {
    fn clone(&self) -> Self {
        Self { entities: self.entities.clone(), of: PhantomData }
    }
}

impl<T: FromEntity> WideTable<T> {
    /// Opens the wide entities of a table. No request: the table must exist when it is used.
    ///
    /// # Errors
    /// The name is not legal; `T` has encrypted properties and the store does not encrypt; it declares indexes, large fields
    /// or spread keys, which wide entities do not keep.
    pub fn new<S, N>(store: S, table: N) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        refuse::<T>()?;
        let table = table.try_into().map_err(Into::into)?;
        store.check_encrypts(&table, &T::encrypted())?;
        store.check_unencrypted(&table, &T::unencrypted())?;
        Ok(Self { entities: WideEntities::new(store, table), of: PhantomData })
    }

    /// Creates the table unless it is there; whether it was created. One request.
    ///
    /// # Errors
    /// The store's.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.entities.create_if_missing().await
    }

    /// See [`WideEntities::with_attempts`].
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self { entities: self.entities.with_attempts(attempts), of: PhantomData }
    }

    /// The same entities as bags of properties.
    pub const fn entities(&self) -> &WideEntities {
        &self.entities
    }

    /// The entity. One request; see [`WideEntities::get`].
    ///
    /// # Errors
    /// As there; it is not a `T`.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<Wide<T>>> {
        let read = self.entities.get(&key.into_key()).await?;
        read.map(|wide| wide.map(T::from_entity)).transpose()
    }

    /// The entity, or an error if there is none. As [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get), and entity not found.
    pub async fn get_existing(&self, key: impl KeyOf<T>) -> Result<Wide<T>> {
        self.entities.get_existing(&key.into_key()).await?.map(T::from_entity)
    }

    /// Everything of a partition. See [`WideQuery`].
    pub fn query(&self) -> WideQuery<T> {
        WideQuery::new(self.entities.reader.clone())
    }

    /// Deletes the entity if it is there; whether it was. Two requests, again on conflict.
    ///
    /// # Errors
    /// As [`WideEntities::delete_if_exists`].
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        self.entities.delete_if_exists(&key.into_key()).await
    }

    /// Deletes the entity if it is in this version; [`IfMatch::Any`] asks for any. Two requests.
    ///
    /// # Errors
    /// As [`WideEntities::delete`].
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<()> {
        self.entities.delete(&key.into_key(), version).await
    }

    /// Deletes what was read, in the version that was read. One request.
    ///
    /// # Errors
    /// As [`WideEntities::delete_stored`].
    pub async fn delete_stored(&self, read: &Wide<T>) -> Result<()> {
        self.entities.delete_stored(read).await
    }
}

impl<T: TableEntity> WideTable<T> {
    /// Adds an entity that must not exist. One request.
    ///
    /// # Errors
    /// As [`WideEntities::insert`]; a value cannot be stored.
    pub async fn insert(&self, value: &T) -> Result<Wide<T>> {
        self.entities.insert(&value.to_logical()?).await?.map(T::from_entity)
    }

    /// Replaces the entity in the version it was read in: that of its `#[etag]` field. The answer has the new version. Two
    /// requests; [`replace_stored`](Self::replace_stored) costs one.
    ///
    /// # Errors
    /// As [`WideEntities::replace`]; a value cannot be stored; the entity is stored in a later version of the schema.
    pub async fn replace(&self, value: &T) -> Result<Wide<T>> {
        self.replace_if(value, value.own_version()?).await
    }

    /// Replaces the entity if it is in this version; [`IfMatch::Any`] asks for any. Two requests.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn replace_if(&self, value: &T, version: impl Into<IfMatch>) -> Result<Wide<T>> {
        let (key, new) = value.to_logical()?.into_parts();
        let replace = |old: &Stored| T::SCHEMA.check_replaceable(&old.to_entity()).map(|()| new.clone());
        self.entities.change_if(&key, &version.into(), replace).await?.map(T::from_entity)
    }

    /// Writes the fields that the patch sets over those of the entity, if it is in this version; [`IfMatch::Any`] asks for
    /// any. What the patch does not set stays. Two requests, which write the rows that change.
    ///
    /// # Errors
    /// Precondition failed: another writer was quicker. Entity not found. The patch sets nothing. The entity is stored in
    /// another version of the schema.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Wide<T>> {
        let (key, over) = patch.to_entity(key.into_key())?.into_parts();
        let merge = |old: &Stored| merged::<T>(old, &over);
        self.entities.change_if(&key, &version.into(), merge).await?.map(T::from_entity)
    }

    /// Adds the entity, or writes its properties over those of the one that is there. A field that is `None` keeps what is
    /// stored, and so do properties that `T` does not know. Two requests, again where another writer was in between.
    ///
    /// # Errors
    /// A key or a value cannot be stored; precondition failed, after the last attempt. The entity that is there is of another
    /// type, or stored in another version of the schema: [`update`](Self::update) it.
    pub async fn insert_or_merge(&self, value: &T) -> Result<Wide<T>> {
        let (key, over) = value.to_logical()?.into_parts();
        let merge =
            |old: Option<&Stored>| old.map_or_else(|| Ok(over.clone()), |old| merged::<T>(old, &over));
        self.entities.write_over(&key, merge).await?.map(T::from_entity)
    }

    /// Replaces what was read, in the version that was read. One request, which writes the rows that change.
    ///
    /// # Errors
    /// As [`WideEntities::replace_stored`]; a value cannot be stored.
    pub async fn replace_stored(&self, read: &Wide<T>, value: &T) -> Result<Wide<T>> {
        self.entities.replace_stored(read, &value.to_logical()?).await?.map(T::from_entity)
    }

    /// Writes the entity, whatever was there. Two requests, again where another writer was in between.
    ///
    /// # Errors
    /// As [`WideEntities::upsert`]; a value cannot be stored.
    pub async fn upsert(&self, value: &T) -> Result<Wide<T>> {
        let (entity, check) =
            (value.to_logical()?, |old: &Stored| T::SCHEMA.check_replaceable(&old.to_entity()));
        let put = self.entities.upsert_if(&entity, check);
        put.await?.map(T::from_entity)
    }

    /// Moves an entity to a key of this or another table, whatever is there; whether there was one. See
    /// [`WideEntities::move_to`].
    ///
    /// # Errors
    /// As there; what is at the target is stored in a later version of the schema.
    pub async fn move_to(&self, key: impl KeyOf<T>, target: &Self, to: impl KeyOf<T>) -> Result<bool> {
        let (key, to) = (key.into_key(), to.into_key());
        let check = |old: &Stored| T::SCHEMA.check_replaceable(&old.to_entity());
        self.entities.move_if(&key, &target.entities, &to, check).await
    }

    /// Reads the entity, lets `change` change it, and replaces it in the version that was read. Properties that `T` does not
    /// know stay. Two requests, again on conflict.
    ///
    /// # Errors
    /// As [`WideEntities::update`]; `change` changed the key.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<Wide<T>> {
        let key = key.into_key();
        let change = |properties: &mut Properties| {
            let old = Entity::from_parts(key.clone(), properties.clone());
            let mut value = T::from_entity(old.clone())?;
            change(&mut value)?;
            let mut new = value.to_logical()?;
            T::SCHEMA.keep_unknown(&old, &mut new)?;
            let (changed, new) = new.into_parts();
            if changed != key {
                return Err(Error::invalid_request(format!(
                    "an update of {key} would make it {changed}: insert the new one and delete the old"
                )));
            }
            *properties = new;
            Ok(())
        };
        self.entities.update(&key, change).await?.map(T::from_entity)
    }
}

impl<T: TableEntity> WideTable<T> {
    /// Rewrites every entity of the type that is stored in an older version of its schema; how many there were. Properties that no
    /// version knows stay. Otherwise as [`Table::upgrade_all`](table_core::typed::Table::upgrade_all).
    ///
    /// One request for each page of the table's wide rows, and one for each older entity, 16 at once; two more for each that another
    /// writes meanwhile. A store without order is refused.
    ///
    /// # Errors
    /// The store's; a conversion fails or changes a key.
    pub async fn upgrade_all(&self) -> Result<u64> {
        let found = self.entities.scan_all()?;
        upgrade_each(found, CONCURRENCY, |stored| self.upgrade(stored)).await
    }

    /// Whether the entity was rewritten.
    async fn upgrade(&self, stored: Stored) -> Result<bool> {
        let old = stored.to_entity();
        let of_type = T::type_filter().is_none_or(|filter| filter.matches(&old));
        if !of_type || !is_older::<T>(&old)? {
            return Ok(false);
        }
        let (key, new) = upgraded(&old, &T::from_entity(old.clone())?)?.into_parts();
        upgrade_one(self.entities.write(Some(&stored), &key, &new), self.update(&key, |_| Ok(()))).await
    }
}

/// The properties of an entity with others over them, if they are of one schema.
fn merged<T: TableEntity>(old: &Stored, over: &Properties) -> Result<Properties> {
    let old = old.to_entity();
    let over = Entity::from_parts(old.key().clone(), over.clone());
    Ok(T::SCHEMA.merged(&old, &over)?.into_parts().1)
}

/// What a type may not declare.
fn refuse<T: FromEntity>() -> Result<()> {
    let what = match (T::indexes().first(), T::large().first(), T::spread()) {
        (Some(index), ..) => format!("the index '{}'", index.name),
        (_, Some(property), _) => format!("the large property '{property}'"),
        (.., Some(_)) => "spread keys".to_owned(),
        _ => return Ok(()),
    };
    let text = format!("a table of wide entities does not keep {what}: leave that out of the type");
    Err(Error::invalid_request(text))
}
