//! The handle of a wide type.

use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use table_core::model::{Entity, IfMatch, Properties, TableName};
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};
use table_core::typed::upgrade::{UpgradePage, UpgradeRow, UpgradeRows};
use table_core::typed::{EntityPatch as _, FromEntity, KeyOf, Requirements, TableEntity, Upgrade};

use super::reader::Scanned;
use super::rows::StoredWide;
use super::{Wide, WideEntities, WideQuery};
use crate::rows::{upgrade_one, upgraded};

/// The number of entities that an upgrade rewrites at once.
const CONCURRENCY: usize = 16;

/// Wide entities of a struct type. See the [module](super).
///
/// A struct with more than 252 properties declares `#[entity(wide)]`; [`Table`](crate::Table) refuses such a type. The discriminator and
/// the schema version are ordinary properties of the entity, and the `#[etag]` field holds the version of the head row.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
/// use table_patterns::wide::WideTable;
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// #[entity(wide)]
/// struct Station {
///     #[partition_key]
///     city: String,
///     #[row_key]
///     number: u32,
///     height: i32,
/// }
///
/// let stations = WideTable::<Station>::new(MemoryStore::new(), "Stations")?;
/// stations.create_if_missing().await?;
/// stations.insert(&Station { city: "Bern".into(), number: 1, height: 540 }).await?; // 1 request
/// let read = stations.get_existing(Station::key("Bern", 1u32)?).await?; // 1 request
/// assert_eq!(read.height, 540);
/// # Ok(())
/// # }
/// ```
pub struct WideTable<T> {
    entities: WideEntities,
    /// Whether reads return entities that have expired or are deleted.
    shows_hidden: bool,
    of: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for WideTable<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WideTable")
            .field("entities", &self.entities)
            .finish()
    }
}

impl<T> Clone for WideTable<T> {
    fn clone(&self) -> Self {
        Self {
            entities: self.entities.clone(),
            shows_hidden: self.shows_hidden,
            of: PhantomData,
        }
    }
}

impl<T: FromEntity> WideTable<T> {
    /// Opens the wide entities of a table. No request; the table must exist when it is used.
    ///
    /// # Errors
    /// An invalid table name; `T` has encrypted properties and the store does not encrypt; `T` declares indexes, large fields
    /// or spread keys.
    pub fn new<S, N>(store: S, table: N) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let required = T::requirements();
        check_type(&required)?;
        let table = table.try_into().map_err(Into::into)?;
        store.check_encrypts(&table, &required.encrypted)?;
        store.check_times(&table, &required.times())?;
        store.check_unencrypted(&table, &required.unencrypted)?;
        let schema = match required.schemas[..] {
            // Only a type that is declared as wide is entered into the manifest. Writes of others are checked
            // against it.
            [schema] if schema.wide => Some(schema),
            _ => None,
        };
        let entities = WideEntities {
            schema,
            ..WideEntities::new(store, table)
        };
        Ok(Self {
            entities,
            shows_hidden: false,
            of: PhantomData,
        })
    }

    /// Creates the table if it is missing. Returns whether the table was created. 1 request.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.entities.create_if_missing().await
    }

    /// Sets how often a read or an update is attempted: see [`WideEntities::with_attempts`].
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self {
            entities: self.entities.with_attempts(attempts),
            ..self
        }
    }

    /// Makes all reads return hidden entities too: those that have expired or are deleted and kept. `update` and `merge` then change them.
    #[must_use]
    pub fn with_hidden(self) -> Self {
        Self {
            shows_hidden: true,
            ..self
        }
    }

    /// Whether reads of this handle leave a stored entity out.
    fn hides(&self, entity: &Entity) -> bool {
        !self.shows_hidden
            && T::requirements()
                .expiries()
                .hides(entity, self.entities.now())
    }

    pub(crate) fn store(&self) -> &Arc<dyn TableStore> {
        self.entities.store()
    }

    /// Sets the maximal size of the properties in one row: see [`WideEntities::with_row_bytes`].
    #[must_use]
    pub fn with_row_bytes(self, bytes: usize) -> Self {
        Self {
            entities: self.entities.with_row_bytes(bytes),
            ..self
        }
    }

    /// The same entities without their type.
    pub const fn entities(&self) -> &WideEntities {
        &self.entities
    }

    /// Reads the entity; `None` if it does not exist. 1 request; see [`WideEntities::get`].
    ///
    /// # Errors
    /// As [`WideEntities::get`]; the entity is not a `T`.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<Wide<T>>> {
        let read = self
            .entities
            .get(&key.into_key())
            .await?
            .filter(|read| !self.hides(read));
        read.map(|wide| wide.map(T::from_entity)).transpose()
    }

    /// Reads the entity, which must exist. Requests as for [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get), and entity not found.
    pub async fn get_existing(&self, key: impl KeyOf<T>) -> Result<Wide<T>> {
        let key = key.into_key();
        let read = self.entities.get_existing(&key).await?;
        if self.hides(&read) {
            return Err(self.entities.missing(&key));
        }
        read.map(T::from_entity)
    }

    /// A query of the entities of a partition. No request. See [`WideQuery`].
    pub fn query(&self) -> WideQuery<T> {
        let query = WideQuery::new(self.entities.clone());
        if self.shows_hidden {
            query.with_hidden()
        } else {
            query
        }
    }

    /// Deletes the entity if it exists. Returns whether it existed. 2 requests, and again after a conflict.
    ///
    /// # Errors
    /// As [`WideEntities::delete_if_exists`].
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        self.entities.delete_if_exists(&key.into_key()).await
    }

    /// Deletes the entity if it has this version; [`IfMatch::Any`] accepts any version. 2 requests.
    ///
    /// # Errors
    /// As [`WideEntities::delete`].
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<()> {
        self.entities.delete(&key.into_key(), version).await
    }

    /// Deletes the entity in the version that was read. 1 request.
    ///
    /// # Errors
    /// As [`WideEntities::delete_stored`].
    pub async fn delete_stored(&self, read: &Wide<T>) -> Result<()> {
        self.entities.delete_stored(read).await
    }
}

impl<T: TableEntity> WideTable<T> {
    /// Inserts an entity that must not exist; an entity that is due is replaced in the version that was read. 1 request; 3 over a due
    /// entity.
    ///
    /// # Errors
    /// As [`WideEntities::insert`]; a conflict over a due entity, after the last attempt; a value that cannot be stored.
    pub async fn insert(&self, value: &T) -> Result<Wide<T>> {
        self.entities
            .insert_over_due(T::SCHEMA, &value.to_logical()?)
            .await?
            .map(T::from_entity)
    }

    /// Replaces the entity in the version that was read, which its `#[etag]` field holds. The result has the new version. 2
    /// requests; [`replace_stored`](Self::replace_stored) takes 1.
    ///
    /// # Errors
    /// As [`WideEntities::replace`]; a value that cannot be stored; the stored entity has a later schema version.
    pub async fn replace(&self, value: &T) -> Result<Wide<T>> {
        self.replace_if(value, value.own_version()?).await
    }

    /// Replaces the entity if it has this version; [`IfMatch::Any`] accepts any version. 2 requests.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn replace_if(&self, value: &T, version: impl Into<IfMatch>) -> Result<Wide<T>> {
        let (key, new) = value.to_logical()?.into_parts();
        let replace = |old: &StoredWide| {
            T::SCHEMA
                .check_replaceable(&old.to_entity())
                .map(|()| new.clone())
        };
        self.entities
            .change_if(&key, &version.into(), replace)
            .await?
            .map(T::from_entity)
    }

    /// Merges the fields of a patch into the entity if it has this version; [`IfMatch::Any`] accepts any version. Other
    /// fields stay. 2 requests, which write only the rows that change.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found. An empty patch. The entity has another
    /// schema version.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Wide<T>> {
        let (key, over) = patch.to_entity(key.into_key())?.into_parts();
        let merge = |old: &StoredWide| {
            if self.hides(&old.to_entity()) {
                return Err(self.entities.missing(&old.key));
            }
            merged::<T>(old, &over)
        };
        self.entities
            .change_if(&key, &version.into(), merge)
            .await?
            .map(T::from_entity)
    }

    /// Inserts the entity, or merges its properties into the stored entity. A field that is `None` keeps its stored value, as
    /// do properties that `T` does not know. 2 requests, and again after a conflict.
    ///
    /// # Errors
    /// A key or a value that cannot be stored; precondition failed, after the last attempt. The stored entity has another
    /// type, or another schema version: use [`update`](Self::update).
    pub async fn insert_or_merge(&self, value: &T) -> Result<Wide<T>> {
        let (key, given) = value.to_logical()?.into_parts();
        let merge = |old: Option<&StoredWide>| {
            let Some(old) = old else {
                return Ok(given.clone());
            };
            let base = || {
                T::SCHEMA
                    .merge_base(&old.to_entity(), self.entities.now())
                    .map(|base| base.is_some())
            };
            if self.shows_hidden || base()? {
                merged::<T>(old, &given)
            } else {
                Ok(given.clone())
            }
        };
        self.entities
            .write_over(&key, merge)
            .await?
            .map(T::from_entity)
    }

    /// Replaces the entity in the version that was read. Keeps the properties that `T` does not have, as
    /// [`update`](Self::update) does. 1 request, which writes only the rows that change.
    ///
    /// # Errors
    /// As [`WideEntities::replace_stored`]; a value that cannot be stored.
    pub async fn replace_stored(&self, read: &Wide<T>, value: &T) -> Result<Wide<T>> {
        let new = T::SCHEMA.updated(&read.stored.to_entity(), value.to_logical()?)?;
        self.entities
            .replace_stored(read, &new)
            .await?
            .map(T::from_entity)
    }

    /// Inserts or replaces the entity. 2 requests, and again after a conflict.
    ///
    /// # Errors
    /// As [`WideEntities::upsert`]; a value that cannot be stored.
    pub async fn upsert(&self, value: &T) -> Result<Wide<T>> {
        let (entity, check) = (value.to_logical()?, |old: &StoredWide| {
            T::SCHEMA.check_replaceable(&old.to_entity())
        });
        let put = self.entities.upsert_if(&entity, check);
        put.await?.map(T::from_entity)
    }

    /// Moves an entity to a key of this or another table. See
    /// [`WideEntities::move_to`].
    ///
    /// # Errors
    /// As [`WideEntities::move_to`]; the entity at the target has a later schema version.
    pub async fn move_to(
        &self,
        key: impl KeyOf<T>,
        target: &Self,
        to: impl KeyOf<T>,
    ) -> Result<()> {
        let (key, to) = (key.into_key(), to.into_key());
        let check = |old: &StoredWide| T::SCHEMA.check_replaceable(&old.to_entity());
        self.entities
            .move_if(&key, &target.entities, &to, check)
            .await
    }

    /// Reads the entity, calls `change`, and replaces the entity in the version that was read. Properties that `T` does not
    /// know stay. 2 requests, and again after a conflict.
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
            if self.hides(&old) {
                return Err(self.entities.missing(&key));
            }
            let mut value = T::from_entity(old.clone())?;
            change(&mut value)?;
            *properties = T::SCHEMA.updated(&old, value.to_logical()?)?.into_parts().1;
            Ok(())
        };
        self.entities
            .update(&key, change)
            .await?
            .map(T::from_entity)
    }
}

impl<T: TableEntity> WideTable<T> {
    /// Rewrites every entity of an older schema version in the current one. Returns the number of entities rewritten.
    /// Unknown properties stay. Otherwise as [`Table::upgrade_all`](crate::Table::upgrade_all).
    ///
    /// 1 request per page of the table's wide rows and 1 per older entity, 16 at once; 2 more per entity that another writer
    /// changes during the upgrade. A store that does not sort is refused.
    ///
    /// # Errors
    /// Errors of the store; a conversion that fails or changes a key.
    pub async fn upgrade_all(&self) -> Result<u64> {
        self.upgrade().run().await?.into_result()
    }

    /// Creates the same upgrade to be planned, watched or resumed: see [`Upgrade`]. Sends no request.
    pub fn upgrade(&self) -> Upgrade<T> {
        Upgrade::new(self.clone(), CONCURRENCY)
    }
}

/// The most entities of a page of an upgrade. An entity has up to 4 MiB.
const UPGRADE_PAGE: usize = 256;
/// A page of an upgrade ends with the entity that reaches this number of bytes.
const UPGRADE_BYTES: usize = 16 * 1024 * 1024;
/// Separates the partition from the rows in a cursor; no key contains it.
const SEPARATOR: char = '\u{1}';

#[async_trait]
impl<T: TableEntity> UpgradeRows<T> for WideTable<T> {
    async fn page(&self, from: Option<&str>) -> Result<UpgradePage> {
        let after = match from.map(|from| from.split_once(SEPARATOR)) {
            None => None,
            Some(Some(after)) => Some(after),
            Some(None) => {
                return Err(Error::invalid_continuation(
                    "the cursor is not of an upgrade of wide entities",
                ));
            }
        };
        let (mut page, mut bytes, mut read) = (UpgradePage::default(), 0, 0);
        let mut found = pin!(self.entities.scan_all(after)?);
        while let Some(Scanned {
            partition,
            prefix,
            read: scanned,
        }) = found.try_next().await?
        {
            read += 1;
            match scanned {
                Ok(stored) => {
                    let entity = stored.to_entity();
                    bytes += entity.properties().as_packed().len();
                    if T::type_filter().is_none_or(|filter| filter.matches(&entity)) {
                        page.rows.push(UpgradeRow {
                            entity,
                            state: Some(Arc::new(stored)),
                        });
                    }
                }
                Err(unreadable) => page.unreadable.push(unreadable),
            }
            // Entities of other types count too: a page has to end also where the type is rare.
            let place = format!("{partition}{SEPARATOR}{prefix}");
            if read == UPGRADE_PAGE || bytes >= UPGRADE_BYTES {
                page.next = Some(place);
                break;
            }
        }
        Ok(page)
    }

    async fn convert(&self, row: UpgradeRow) -> Result<bool> {
        let UpgradeRow { entity: old, state } = row;
        let stored = state.and_then(|state| state.downcast::<StoredWide>().ok());
        let (key, new) = upgraded(&old, &T::from_entity(old.clone())?)?.into_parts();
        let first = async {
            match &stored {
                Some(stored) => self.entities.write(Some(stored), &key, &new).await,
                None => Err(Error::precondition_failed(self.entities.table_name(), &key)),
            }
        };
        let all = self.clone().with_hidden();
        upgrade_one(first, all.update(&key, |_| Ok(()))).await
    }
}

/// The properties of the stored entity with others merged into them, if type and schema version are the same.
fn merged<T: TableEntity>(old: &StoredWide, over: &Properties) -> Result<Properties> {
    let old = old.to_entity();
    let over = Entity::from_parts(old.key().clone(), over.clone());
    Ok(T::SCHEMA.merged(&old, &over)?.into_parts().1)
}

/// Refuses a type with indexes, large properties or spread keys.
fn check_type(required: &Requirements) -> Result<()> {
    let what = match (
        required.indexes.first(),
        required.large.first(),
        required.spread,
    ) {
        (Some(index), ..) => format!("the index '{}'", index.name),
        (_, Some(property), _) => format!("the large property '{property}'"),
        (.., Some(_)) => "spread keys".to_owned(),
        _ => return Ok(()),
    };
    let text = format!(
        "a table of wide entities does not support {what}: remove the declaration from the type"
    );
    Err(Error::invalid_declaration(text))
}
