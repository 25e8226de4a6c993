use std::marker::PhantomData;
use std::sync::Arc;

use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page};
use table_core::store::{Error, ErrorKind, Result, TableStore};
use table_core::typed::{
    Discriminator, FromEntity, IndexPayload, IndexPlacement, IndexSchema, IndexShape, IndexUniqueness,
    IndexedEntity, KeyOf, Table,
};

use super::definition::{Index, Payload, Placement};
use super::indexed::{IndexOptions, IndexedEntities};
use super::lookup::{IndexQuery, Trust};
use super::shape::Shape;
use crate::journal::{Change, Committed};

/// A [`Table`] whose writes keep the declared indexes of `T` in step.
///
/// There is no way to write that leaves an entry stale: every write knows the old value, because
/// the caller has it or because it is read first.
#[derive(Clone, Debug)]
pub struct IndexedTable<T> {
    table: Table<T>,
    entities: IndexedEntities,
    of: PhantomData<fn() -> T>,
}

impl<T: IndexedEntity> IndexedTable<T> {
    /// Opens a table with the indexes of `T`, and makes the tables that are missing. Requests: one per
    /// table, and those of [`IndexedEntities::open`].
    ///
    /// # Errors
    /// An index in the same table, and nothing that tells its entries from entities; an index of the
    /// table that `T` does not declare, or declares otherwise.
    pub async fn open<S>(store: S, name: &str, options: IndexOptions) -> Result<Self>
    where
        S: TableStore,
    {
        let store: Arc<dyn TableStore> = Arc::new(store);
        let table = Table::<T>::new(store.clone(), name)?;
        table.create_if_missing().await?;
        let indexes = T::SCHEMA.indexes.iter().enumerate().map(|(n, schema)| declared::<T>(n, schema));
        let indexes = indexes.collect::<Result<Vec<_>>>()?;
        for index in &indexes {
            if let Placement::OtherTable(other) = index.placement() {
                table_core::store::TableStoreExt::create_table_if_missing(&*store, other).await?;
            }
        }
        let entities = IndexedEntities::open(store, table.name().clone(), indexes, options).await?;
        Ok(Self { table, entities, of: PhantomData })
    }

    /// The table, to read by key and to query.
    pub const fn table(&self) -> &Table<T> {
        &self.table
    }

    /// The entities with their indexes, to build, scrub and recover.
    pub const fn entities(&self) -> &IndexedEntities {
        &self.entities
    }

    /// Adds an entity.
    ///
    /// # Errors
    /// It exists already; a unique value is taken.
    pub async fn insert(&self, entity: &T) -> Result<Committed> {
        self.entities.insert(entity.to_entity()?).await
    }

    /// Adds entities of one partition, in one group transaction with their entries there.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert), for any of them; the group is over a limit. Nothing is written.
    pub async fn insert_group(&self, entities: &[T]) -> Result<Committed> {
        let changes = entities.iter().map(|e| e.to_entity().map(Change::insert));
        self.entities.write(&changes.collect::<Result<Vec<_>>>()?).await
    }

    /// Writes the entity whatever was there: the old value is read first. One request more.
    ///
    /// # Errors
    /// A unique value is taken; still in conflict after all attempts.
    pub async fn upsert(&self, entity: &T) -> Result<Committed> {
        self.entities.upsert(entity.to_entity()?).await
    }

    /// Replaces an entity that was read with its ETag. No request more than the write's.
    ///
    /// # Errors
    /// It has no ETag; it was changed meanwhile; a unique value is taken.
    pub async fn replace(&self, old: &T, new: &T) -> Result<Committed> {
        self.entities.replace(versioned(old)?, new.to_entity()?).await
    }

    /// Reads, changes and writes an entity, again when others interfere. One request more.
    ///
    /// # Errors
    /// It does not exist; what `change` returns; a unique value is taken; still in conflict after all
    /// attempts.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()> + Send,
    ) -> Result<Committed> {
        let key = key.into_key();
        let missing = |key: &Key| ErrorKind::EntityNotFound {
            table: self.table.name().to_string(),
            key: key.to_string(),
        };
        self.entities
            .modify(&key, |old| {
                let old = old.ok_or_else(|| Error::new(missing(&key)))?;
                let mut value = T::from_entity(old.clone())?;
                change(&mut value)?;
                value.to_entity().map(Some)
            })
            .await
    }

    /// Removes an entity, reading it first. One request more; whether it was there.
    ///
    /// # Errors
    /// Still in conflict after all attempts.
    pub async fn delete(&self, key: impl KeyOf<T>) -> Result<bool> {
        let key = key.into_key();
        let done = self.entities.modify(&key, |_| Ok(None)).await?;
        Ok(!done.written.is_empty())
    }

    /// The entity whose entry has this key. See [`IndexedEntities::find`].
    ///
    /// # Errors
    /// The index is unknown or not readable.
    pub async fn find(&self, index: &str, key: &Key, trust: Trust) -> Result<Option<T>> {
        let trust = self.complete(index, trust);
        self.entities.find(index, key, trust).await?.map(T::from_entity).transpose()
    }

    /// A projection of the entity whose entry has this key, from what the entry holds: one request where
    /// the entry holds every property of `P`.
    ///
    /// # Errors
    /// As for [`find`](Self::find); the entry lacks a property of `P`.
    pub async fn find_as<P: FromEntity>(&self, index: &str, key: &Key) -> Result<Option<P>> {
        self.entities.find(index, key, Trust::Entry).await?.map(P::from_entity).transpose()
    }

    /// A page of entities by an index. See [`IndexedEntities::page`].
    ///
    /// # Errors
    /// The index is unknown or not readable; the storage's.
    pub async fn page(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
    ) -> Result<Page<T>> {
        let trust = self.complete(index, trust);
        self.entities.page(index, query, from, trust).await?.try_map(T::from_entity)
    }

    /// All entities by an index, collected.
    ///
    /// # Errors
    /// As for [`page`](Self::page).
    pub async fn all(&self, index: &str, query: &IndexQuery, trust: Trust) -> Result<Vec<T>> {
        let trust = self.complete(index, trust);
        self.entities.all(index, query, trust).await?.into_iter().map(T::from_entity).collect()
    }

    /// An entry with some properties does not make a whole `T`: its entity is read.
    fn complete(&self, index: &str, trust: Trust) -> Trust {
        let schema = T::SCHEMA.indexes.iter().find(|i| i.name == index);
        match schema.map(|s| s.payload) {
            Some(IndexPayload::Fields(_)) => Trust::Entity,
            _ => trust,
        }
    }
}

fn versioned<T: IndexedEntity>(entity: &T) -> Result<Entity> {
    let etag = entity.etag().cloned();
    Ok(entity.to_entity()?.with_system(etag, None))
}

/// The index that a type declares.
fn declared<T: IndexedEntity>(n: usize, schema: &'static IndexSchema) -> Result<Index> {
    let placement = match schema.placement {
        IndexPlacement::SamePartition => Placement::SamePartition,
        IndexPlacement::OtherPartition => Placement::OtherPartition,
        IndexPlacement::OtherTable(name) => Placement::OtherTable(TableName::new(name)?),
    };
    let index = Index::new(schema.name, placement, move |e| key_of::<T>(n, e))
        .with_payload(payload(schema.payload))
        .with_shape(shape(schema.shape))
        .with_key_text(format!("{}|{}", schema.partition_key, schema.row_key));
    let index = match T::SCHEMA.discriminator {
        Discriminator::Property(name) => index.with_discriminator(name, T::SCHEMA.type_name),
        _ => index,
    };
    Ok(match schema.uniqueness {
        IndexUniqueness::No => index,
        IndexUniqueness::Partition => index.unique_within_partition(),
        IndexUniqueness::Table => index.unique_within_table(),
    })
}

/// The key of an entity's entry; rows of other types have none.
fn key_of<T: IndexedEntity>(n: usize, entity: &Entity) -> Result<Option<Key>> {
    if T::type_filter().is_some_and(|filter| !filter.matches(entity)) {
        return Ok(None);
    }
    T::from_entity(entity.clone())?.index_key(n)
}

fn shape(shape: IndexShape) -> Shape {
    match shape {
        IndexShape::Row => Shape::Row,
        IndexShape::List => Shape::LIST,
        IndexShape::Blob => Shape::Blob,
    }
}

fn payload(payload: IndexPayload) -> Payload {
    match payload {
        IndexPayload::Full => Payload::Full,
        IndexPayload::Fields(names) => Payload::Fields(names.iter().map(|n| (*n).to_owned()).collect()),
        IndexPayload::Reference => Payload::Reference,
    }
}
