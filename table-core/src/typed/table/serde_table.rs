use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::{KeyOf, PlainTable, TableQuery};
use crate::manifest::WriteTarget;
use crate::model::{Entity, IfMatch, Key, TableName};
use crate::store::{
    Conflicts, Error, MovedCopy, Operation, Outcome, PlainWrite, Result, TableStore,
    TableStoreExt as _, Written, own_key_error,
};
use crate::typed::Serde;
use crate::typed::serde_form::{Encoded, decode, encode};

/// Computes the key of a value.
type Keys<T> = Arc<dyn Fn(&T) -> Result<Key> + Send + Sync>;

/// A table with entities of a type that has serde's `Serialize` and `Deserialize`, without the derive macro of this library.
///
/// The members `PartitionKey` and `RowKey` of the type are its key, or a closure computes the key ([`with_keys`](Self::with_keys)). An
/// optional member `odata.etag` holds the version that was read, and `Timestamp` the time of the last write. Every other member is a property:
///
/// | serde | stored as |
/// |---|---|
/// | `bool`, `i8` to `i32`, `u8`, `u16`, `i64`, `u32`, `u64`, `f32`, `f64`, text | as a field of the derive macro: Boolean, Int32, Int64, Double, String |
/// | bytes (`serde_bytes`) | Binary |
/// | [`Ticks`](crate::model::Ticks), [`EdmValue`](crate::model::EdmValue) | DateTime, the type of the value |
/// | a variant without fields | String |
/// | lists, maps, structs, variants with fields | JSON text |
/// | `None`, `()` | an absent property |
///
/// # Limits
/// A serde type has no typed filters (use [`TableQuery::raw_filter`] with stored names), key templates, discriminator, schema versions, patches,
/// encryption marks, indexes or other layouts. The table must hold no other type. Types such as `Uuid` and `DateTime` are stored as the text that serde
/// gives. Values in a `#[serde(flatten)]` struct must not have parts. A write refuses a value that would be read back as another one, such as
/// a list in a `serde_json::Value` or in an `#[serde(untagged)]` enum. A map
/// or a `#[serde(flatten)]` map also gets the system members `PartitionKey`, `RowKey`, `odata.etag` and `Timestamp` as text. A derived type has none of these limits.
///
/// ```
/// use table_core::prelude::*;
/// use table_core::typed::SerdeTable;
///
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Employee {
///     department: String,
///     id: u32,
///     name: String,
///     skills: Vec<String>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let keys = |e: &Employee| Key::new(&e.department, format!("{:06}", e.id));
/// let employees = SerdeTable::with_keys(MemoryStore::new(), "Employees", keys)?;
/// employees.create_if_missing().await?;
/// let ken = Employee { department: "Sales".into(), id: 7, name: "Ken".into(), skills: vec!["Go".into()] };
/// employees.insert(&ken).await?;
///
/// let sales = employees.query().partition(PartitionKey::new("Sales")?);
/// let named_ken = sales.raw_filter(Filter::eq("name", "Ken")).all().await?;
/// assert_eq!(named_ken[0].0, ken);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
/// As [`PlainTable`] for a type without `type` and `version`: each method documents its requests, and writing costs 1 more request per 30 seconds
/// for the table's manifest.
pub struct SerdeTable<T> {
    table: PlainTable<Serde<T>>,
    keys: Option<Keys<T>>,
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> SerdeTable<T> {
    /// Creates a handle for a table whose keys are the members `PartitionKey` and `RowKey` of `T`, both text. Sends no request.
    ///
    /// # Errors
    /// Fails if the name breaks the rules of [`TableName`].
    pub fn new<S, N>(store: S, name: N) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        Ok(Self {
            table: PlainTable::new(store, name)?,
            keys: None,
        })
    }

    /// Creates a handle for a table whose keys a closure computes. The members from which the key is computed are stored as properties too.
    /// Sends no request.
    ///
    /// # Errors
    /// Fails if the name breaks the rules of [`TableName`].
    pub fn with_keys<S, N>(
        store: S,
        name: N,
        keys: impl Fn(&T) -> Result<Key> + Send + Sync + 'static,
    ) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        Ok(Self {
            table: PlainTable::new(store, name)?,
            keys: Some(Arc::new(keys)),
        })
    }

    /// Returns a query of all entities. Its results are [`Serde<T>`].
    pub fn query(&self) -> TableQuery<Serde<T>> {
        self.table.query()
    }

    /// Returns the table as a [`PlainTable`] for reading: `get_many`, `view`, and all options of reads.
    pub const fn as_table(&self) -> &PlainTable<Serde<T>> {
        &self.table
    }

    /// Returns the key of a value.
    ///
    /// # Errors
    /// Fails if the value has no key, or if the key is too long or has a forbidden character.
    pub fn key_of(&self, value: &T) -> Result<Key> {
        self.key_of_encoded(value, &encode(value)?)
    }

    fn key_of_encoded(&self, value: &T, encoded: &Encoded) -> Result<Key> {
        if let Some(keys) = &self.keys {
            return keys(value);
        }
        let (Some(partition), Some(row)) = (&encoded.partition, &encoded.row) else {
            let name = std::any::type_name::<T>();
            return Err(Error::invalid_declaration(format!(
                "a {name} has no key: rename two of its members to `PartitionKey` and `RowKey`, or compute the keys by \
                 `SerdeTable::with_keys`"
            )));
        };
        Key::new(partition, row)
    }

    /// Converts to an entity, with the version of the value as its ETag. Checks that the entity can be read back: serde writes NaN in a list as
    /// `null`, for example.
    fn to_entity(&self, value: &T) -> Result<Entity> {
        let encoded = encode(value)?;
        let key = self.key_of_encoded(value, &encoded)?;
        let entity = Entity::from_parts(key, encoded.properties).with_system(encoded.etag, None);
        // A type may serialize to a form that it cannot deserialize. After the write, the program no longer has the value.
        let name = std::any::type_name::<T>();
        let read = decode::<T>(&entity).map_err(|error| {
            Error::invalid_declaration(format!(
                "the {name} cannot be stored, because it could not be read back: {error}"
            ))
        })?;
        match changed_member(value, &read, &entity) {
            None => Ok(entity),
            Some(member) => Err(Error::invalid_declaration(format!(
                "the {name} cannot be stored, because the property '{member}' would be read back as another value: a list, a map or a variant \
                 with fields is stored as JSON text, which `serde_json::Value`, `#[serde(untagged)]` and `#[serde(flatten)]` read as text; give the \
                 member a type that says what it is"
            ))),
        }
    }
}

/// Returns the name of a property whose value differs in the value that was read back. Compares the JSON, because the types need no `PartialEq`.
fn changed_member<T: Serialize>(value: &T, read: &T, entity: &Entity) -> Option<String> {
    // A value that this JSON cannot hold, such as a large `u128` in a list, is not compared.
    let (Ok(before), Ok(after)) = (serde_json::to_value(value), serde_json::to_value(read)) else {
        return None;
    };
    let names = entity
        .properties()
        .iter()
        .map(|property| property.name().to_owned());
    names
        .into_iter()
        .find(|name| !is_same(before.get(name), after.get(name)))
}

/// Whether two values are equal. The order of a list does not count: sets have none, and the stored text keeps that of a list.
fn is_same(a: Option<&Json>, b: Option<&Json>) -> bool {
    match (a, b) {
        (Some(Json::Array(a)), Some(Json::Array(b))) if a != b => {
            let sorted = |list: &[Json]| {
                let mut texts: Vec<_> = list.iter().map(Json::to_string).collect();
                texts.sort_unstable();
                texts
            };
            sorted(a) == sorted(b)
        }
        (Some(Json::Object(a)), Some(Json::Object(b))) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, value)| is_same(Some(value), b.get(name)))
        }
        _ => a == b,
    }
}

/// Reads.
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> SerdeTable<T> {
    /// Returns the entity with this key; `None` if there is none. 1 request.
    ///
    /// # Errors
    /// Fails if the row does not fit `T`. Returns the errors of the store, for example for a missing table.
    pub async fn get(&self, key: impl KeyOf<Serde<T>>) -> Result<Option<T>> {
        Ok(self.table.get(key).await?.map(Serde::into_inner))
    }

    /// Returns the entity with this key. 1 request.
    ///
    /// # Errors
    /// Fails if there is no entity; also returns the errors of [`get`](Self::get).
    pub async fn get_existing(&self, key: impl KeyOf<Serde<T>>) -> Result<T> {
        self.table.get_existing(key).await.map(Serde::into_inner)
    }
}

/// Writes. They refuse entities that have an index, or that other programs store in another layout.
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> SerdeTable<T> {
    /// Inserts an entity that must not exist. 1 request.
    ///
    /// # Errors
    /// Fails if the entity exists already or if a key or value cannot be stored.
    pub async fn insert(&self, value: &T) -> Result<Written> {
        let entity = self.to_entity(value)?;
        self.write(Operation::Insert(entity)).await
    }

    /// Inserts the entity or replaces the existing entity: the last writer wins. 1 request.
    ///
    /// # Errors
    /// Fails if a key or value cannot be stored.
    pub async fn upsert(&self, value: &T) -> Result<Written> {
        let entity = self.to_entity(value)?;
        self.write(Operation::InsertOrReplace(entity)).await
    }

    /// Inserts the entity, or merges its properties into the existing entity: a `None` keeps the stored value. 1 request.
    ///
    /// # Errors
    /// Fails if a key or value cannot be stored.
    pub async fn insert_or_merge(&self, value: &T) -> Result<Written> {
        let entity = self.to_entity(value)?;
        self.write(Operation::InsertOrMerge(entity)).await
    }

    /// Replaces the entity if it has not changed since it was read: the value's member `odata.etag` is the version. 1 request.
    ///
    /// # Errors
    /// Fails if the value has no version, if another writer changed the entity, or if it does not exist.
    pub async fn replace(&self, value: &T) -> Result<Written> {
        let entity = self.to_entity(value)?;
        let version = own_version(&entity)?;
        self.write(Operation::Replace(entity, version)).await
    }

    /// Replaces the entity if it is in the given version ([`IfMatch::Any`]: in any version). 1 request.
    ///
    /// # Errors
    /// Fails if another writer changed the entity or if it does not exist.
    pub async fn replace_if(&self, value: &T, version: impl Into<IfMatch>) -> Result<Written> {
        let (entity, version) = (self.to_entity(value)?, version.into());
        self.write(Operation::Replace(entity, version)).await
    }

    /// Overwrites the properties that the patch has, if the entity is in the given version ([`IfMatch::Any`]: in any version). A patch is any
    /// value that serializes as a struct or a map, for example `serde_json::json!({"age": 42})`. 1 request.
    ///
    /// # Errors
    /// Fails if the patch has no property or has a key, if another writer changed the entity, or if it does not exist.
    pub async fn merge<P: Serialize + Sync>(
        &self,
        key: impl KeyOf<Serde<T>>,
        patch: &P,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (key, version, encoded) = (key.into_key(), version.into(), encode(patch)?);
        if encoded.partition.is_some() || encoded.row.is_some() {
            return Err(Error::misuse(format!(
                "the patch of {key} has a key: a merge does not change keys"
            )));
        }
        if encoded.properties.is_empty() {
            return Err(Error::misuse(format!(
                "the patch of {key} sets no property"
            )));
        }
        self.write(Operation::Merge(
            Entity::from_parts(key, encoded.properties),
            version,
        ))
        .await
    }

    /// Reads the entity, calls `change`, and replaces the entity if it has not changed since. After a conflict with another writer it starts
    /// again. Returns the stored value. Properties that `T` does not have are kept. 2 requests, and 2 more per conflict, at most
    /// [`with_attempts`](Self::with_attempts) attempts.
    ///
    /// # Errors
    /// Fails if the entity does not exist, if `change` changes the key, or if the last attempt conflicts with another writer.
    pub async fn update(
        &self,
        key: impl KeyOf<Serde<T>>,
        mut change: impl FnMut(&mut T) -> Result<()> + Send,
    ) -> Result<T> {
        let key = key.into_key();
        let mut conflicts = Conflicts::new(self.table.shared().attempts);
        loop {
            let read = self.store().get(self.name(), &key, None).await?;
            let read = read.ok_or_else(|| self.table.shared().not_found(&key))?;
            let entity = self.changed(&read, &mut change)?;
            match self
                .write(Operation::Replace(entity.clone(), read.version()?))
                .await
            {
                Err(error) => conflicts.wait(error).await?,
                Ok(written) => {
                    let stored = decode(&entity.with_system(written.etag, None));
                    return stored.map_err(|error: Error| error.with_outcome(Outcome::Applied));
                }
            }
        }
    }

    /// Returns the entity to store after a change of the value, with the properties that the value does not have.
    fn changed(
        &self,
        read: &Entity,
        change: &mut (impl FnMut(&mut T) -> Result<()> + Send),
    ) -> Result<Entity> {
        let mut value: T = decode(read)?;
        let known = encode(&value)?.properties;
        change(&mut value)?;
        let mut entity = self.to_entity(&value)?.with_system(None, None);
        if entity.key() != read.key() {
            return Err(Error::misuse(format!(
                "the update of {} changes its key to {}: insert the entity under the new key and delete the old one",
                read.key(),
                entity.key()
            )));
        }
        for property in read.properties() {
            let name = property.name();
            if known.get(name).is_none() && entity.get(name).is_none() {
                entity
                    .properties_mut()
                    .push(name, property.value(), property.is_encrypted());
            }
        }
        Ok(entity)
    }

    /// Deletes the entity if it is in the given version ([`IfMatch::Any`]: in any version). 1 request.
    ///
    /// # Errors
    /// Fails if another writer changed the entity or if it does not exist.
    pub async fn delete(
        &self,
        key: impl KeyOf<Serde<T>>,
        version: impl Into<IfMatch>,
    ) -> Result<()> {
        let operation = Operation::Delete(key.into_key(), version.into());
        self.write(operation).await.map(drop)
    }

    /// Deletes the entity in any version, if it exists. Returns whether it existed. 1 request.
    ///
    /// # Errors
    /// Returns the errors of the store, for example for a missing table.
    pub async fn delete_if_exists(&self, key: impl KeyOf<Serde<T>>) -> Result<bool> {
        match self.delete(key, IfMatch::Any).await {
            Err(error) if error.is_entity_not_found() => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Moves an entity to a key of this or another table, with the properties that `T` does not have. An entity at the target is replaced.
    /// For conflicts, crashes and a move that fails in between see [`PlainTable::move_to`]. 3 requests, and 3 more per conflict.
    ///
    /// # Errors
    /// The errors of [`PlainTable::move_to`]; the target computes another key from the value ([`with_keys`](Self::with_keys)).
    pub async fn move_to(
        &self,
        key: impl KeyOf<Serde<T>>,
        target: &Self,
        to: impl KeyOf<Serde<T>>,
    ) -> Result<()> {
        let (key, to) = (key.into_key(), to.into_key());
        let is_same = (self.store()).is_same_table(self.name(), &**target.store(), target.name());
        if is_same && key == to {
            return Err(own_key_error(&key));
        }
        self.permit(WriteTarget::Key(&key), "a move").await?;
        let mut conflicts = Conflicts::new(self.table.shared().attempts);
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
        let row = row.ok_or_else(|| Error::entity_not_found(self.name(), key))?;
        let version = row.version()?;
        let moved = row.with_system(None, None).with_key(to.clone());
        let computed = target.key_of(&decode(&moved)?)?;
        if computed != *to {
            return Err(Error::misuse(format!(
                "the key of the value that is moved to {to} is {computed}: change the value, insert it, and delete {key}"
            )));
        }
        let written = target.write(Operation::InsertOrReplace(moved)).await?;
        *copy = Some(MovedCopy::over_anything(written.etag));
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

    async fn write(&self, operation: Operation) -> Result<Written> {
        let _permit = self
            .permit(WriteTarget::of(&operation), operation.kind().name())
            .await?;
        self.store().write(self.name(), operation).await
    }

    /// Returns the permit for a write, and refuses the write if the entity may have an index or another layout.
    async fn permit(&self, target: WriteTarget<'_>, operation: &str) -> Result<Option<PlainWrite>> {
        let shared = self.table.shared();
        let plain = shared.plain_write().await?;
        if let Some(plain) = &plain {
            shared.check_plain(plain, target, operation)?;
        }
        Ok(plain)
    }
}

fn own_version(entity: &Entity) -> Result<IfMatch> {
    entity.etag().map(IfMatch::from).ok_or_else(|| {
        Error::misuse(format!(
            "the value {} has no ETag: read it into a type with a member `odata.etag`, or give a version to `replace_if`",
            entity.key()
        ))
    })
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> SerdeTable<T> {
    /// Creates the table unless it exists: see [`PlainTable::create_if_missing`]. 1 request.
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.table.create_if_missing().await
    }

    /// Sets the maximum number of attempts of an [`update`](Self::update) or [`move_to`](Self::move_to). Default: 10. Minimum: 1.
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self {
            table: self.table.with_attempts(attempts),
            ..self
        }
    }

    /// Makes writes ignore the table's manifest: see `ignoring_indexes` of `table_patterns::Table`.
    #[must_use]
    pub fn ignoring_indexes(self) -> Self {
        Self {
            table: self.table.ignoring_indexes(),
            ..self
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        self.table.store()
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &TableName {
        self.table.name()
    }
}

impl<T> Clone for SerdeTable<T> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            keys: self.keys.clone(),
        }
    }
}

impl<T> fmt::Debug for SerdeTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SerdeTable")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}
