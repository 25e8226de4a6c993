//! Reads and streams of large values.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{EdmValue, Entity, IfMatch, Key, ValueRef};
use table_core::query::{Filter, Select};
use table_core::store::{Error, Result, Written};
use table_core::typed::{FromEntity, KeyOf, LargeField, PropertySchema, Requirements, TableEntity};

use super::LargeTable;
use crate::blobs::{ByteStream, Reference};
use crate::large_values::NewBlobs;

/// A stored row of a [`LargeTable`](super::LargeTable), whose large values may be in blobs.
/// [`LargeTable::load`](super::LargeTable::load) reads them.
#[derive(Debug)]
pub struct LargeRow<T> {
    pub(super) entity: Entity,
    of: PhantomData<fn() -> T>,
}

impl<T> LargeRow<T> {
    /// The stored properties.
    pub const fn entity(&self) -> &Entity {
        &self.entity
    }
}

impl<T: TableEntity> FromEntity for LargeRow<T> {
    fn select() -> Option<Select> {
        T::select()
    }

    fn type_filter() -> Option<Filter> {
        T::type_filter()
    }

    fn requirements() -> Requirements {
        Requirements {
            large: Vec::new(),
            ..T::requirements()
        }
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        Ok(Self {
            entity,
            of: PhantomData,
        })
    }
}

impl<T: TableEntity> LargeTable<T> {
    /// Reads the entity; `None` if it does not exist. 1 request, and 1 per large value; again if another writer replaces the
    /// entity during the read.
    ///
    /// # Errors
    /// Errors of the stores; the row is not a `T`; a missing or damaged blob.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<T>> {
        let key = key.into_key();
        loop {
            let Some(row) = self.visible_row(&key).await? else {
                return Ok(None);
            };
            if let Some(value) = self
                .load_together_if_unchanged(row, self.options().concurrency)
                .await?
            {
                return Ok(Some(value));
            }
        }
    }

    /// Reads the entity, which must exist. Requests as for [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get), and entity not found.
    pub async fn get_existing(&self, key: impl KeyOf<T>) -> Result<T> {
        let key = key.into_key();
        self.get(&key)
            .await?
            .ok_or_else(|| Error::entity_not_found(self.name(), &key))
    }

    /// Reads the large values of rows, several rows at once, in the order of the rows.
    ///
    /// A row is read again if one of its blobs is missing: a deleted row is then omitted, and a replaced row comes in its new state. Other rows
    /// come as they were read. 1 request per large value; for a row that is read again, the requests of [`get`](Self::get) too.
    pub fn load<S>(&self, rows: S) -> impl Stream<Item = Result<T>> + Send + use<T, S>
    where
        S: Stream<Item = Result<LargeRow<T>>> + Send,
    {
        let (table, concurrency) = (self.clone(), self.concurrency(None));
        let loads = rows.map(move |row| {
            let table = table.clone();
            async move { table.load_one(row?.entity).await }
        });
        loads
            .buffered(concurrency)
            .try_filter_map(|found| std::future::ready(Ok(found)))
    }

    async fn load_one(&self, row: Entity) -> Result<Option<T>> {
        let key = row.key().clone();
        match self.load_if_unchanged(row).await? {
            Some(value) => Ok(Some(value)),
            None => self.get(key).await,
        }
    }

    /// Reads the stored row without the mark of a move. The row's version includes the mark.
    pub(super) async fn row(&self, key: &Key) -> Result<Option<Entity>> {
        self.values().row(key).await
    }

    /// Reads the stored row, unless the entity is hidden from this handle.
    pub(super) async fn visible_row(&self, key: &Key) -> Result<Option<Entity>> {
        Ok(self.row(key).await?.filter(|row| !self.table.hides(row)))
    }

    /// Reads the stored row, which must exist and not be hidden.
    pub(super) async fn existing_visible_row(&self, key: &Key) -> Result<Entity> {
        self.visible_row(key)
            .await?
            .ok_or_else(|| Error::entity_not_found(self.name(), key))
    }

    /// The value of a row with its large values; `None` if a blob is missing because the row has changed, so the caller must
    /// read the row again.
    pub(super) async fn load_if_unchanged(&self, row: Entity) -> Result<Option<T>> {
        // One value after another: the rows of a query are read at the same time.
        self.load_together_if_unchanged(row, 1).await
    }

    /// As [`load_if_unchanged`](Self::load_if_unchanged), with this many values at the same time.
    pub(super) async fn load_together_if_unchanged(
        &self,
        row: Entity,
        concurrency: usize,
    ) -> Result<Option<T>> {
        let properties: Vec<_> = large::<T>().collect();
        let whole = self.values().load(&row, &properties, concurrency).await?;
        whole.map(T::from_entity).transpose()
    }

    /// The content of a value; `None` if the blob is missing because the row has changed.
    pub(super) async fn content(
        &self,
        row: &Entity,
        property: &str,
        reference: &Reference,
    ) -> Result<Option<ByteStream>> {
        self.values().content(row, property, reference).await
    }
}

/// A large value as a stream.
pub struct LargeContent {
    /// The size of the value, in bytes.
    pub size: u64,
    /// The SHA-256 hash of the stored content; `None` for a value in the row.
    pub sha256: Option<[u8; 32]>,
    /// The content. **It is complete and correct only if the stream ends without an error.**
    pub content: ByteStream,
}

impl<T: TableEntity> LargeTable<T> {
    /// Replaces one large value of an entity by a stream, if the entity has this version; other values stay. 2 requests and
    /// the requests of the blobs.
    ///
    /// The content goes to a blob, whatever its size, and is never in memory as a whole. Text must be UTF-8; this is checked
    /// only when the value is read.
    ///
    /// # Errors
    /// An error of the content, which leaves the entity unchanged. Precondition failed: another writer has changed the
    /// entity. Entity not found. The entity has another type, or another schema version: use [`update`](Self::update).
    pub async fn put_stream(
        &self,
        key: impl KeyOf<T>,
        field: LargeField<T>,
        content: impl Stream<Item = Result<Bytes>> + Send + 'static,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (property, version) = (large_property::<T>(field)?, version.into());
        let old = self.existing_visible_row(&key.into_key()).await?;
        self.check_version(&old, &version)?;
        T::SCHEMA.check_patchable(&old)?;
        self.values().check_codec(old.key(), [property])?;
        // Before the blob is stored: a refused write stores nothing.
        let _permitted = self.writer().permit(old.key()).await?;
        let (mut new, context) = (
            NewBlobs::none(),
            self.values().context(old.key(), property.name),
        );
        let reference = self.values().put(&context, content.boxed()).await?;
        new.push(context);
        let mut entity = Entity::from(old.key().clone());
        entity.properties_mut().put(
            property.name,
            reference.to_value(property.edm_type).as_ref(),
            property.encrypted,
        );
        self.writer().merge(&new, &old, entity).await
    }

    /// Reads one large value of an entity as a stream; `None` if the entity or the value does not exist. 1 request, and 1 for
    /// the blob.
    ///
    /// # Errors
    /// Errors of the stores; a missing blob.
    pub async fn read_stream(
        &self,
        key: impl KeyOf<T>,
        field: LargeField<T>,
    ) -> Result<Option<LargeContent>> {
        let (property, key) = (large_property::<T>(field)?, key.into_key());
        loop {
            let Some(row) = self.visible_row(&key).await? else {
                return Ok(None);
            };
            let Some(value) = row.get(property.name) else {
                return Ok(None);
            };
            let Some(reference) = Reference::read(&key, property, value)? else {
                return Ok(Some(inline(value)));
            };
            if let Some(content) = self.content(&row, property.name, &reference).await? {
                let sha256 = Some(reference.stored.hash);
                return Ok(Some(LargeContent {
                    size: reference.size,
                    sha256,
                    content,
                }));
            }
        }
    }
}

fn large_property<T: TableEntity>(field: LargeField<T>) -> Result<&'static PropertySchema> {
    let found = large::<T>().find(|property| property.name == field.name());
    found.ok_or_else(|| {
        Error::invalid_argument(format!(
            "'{}' is not a large property of the type",
            field.name()
        ))
    })
}

fn inline(value: ValueRef<'_>) -> LargeContent {
    let bytes = match value.to_owned() {
        EdmValue::String(text) => text.into_bytes(),
        EdmValue::Binary(bytes) => bytes,
        _ => Vec::new(),
    };
    let size = bytes.len() as u64;
    LargeContent {
        size,
        sha256: None,
        content: stream::iter([Ok(Bytes::from(bytes))]).boxed(),
    }
}

impl fmt::Debug for LargeContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeContent")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// The large properties of a type in its current schema version.
pub(super) fn large<T: TableEntity>() -> impl Iterator<Item = &'static PropertySchema> {
    T::SCHEMA
        .properties
        .iter()
        .filter(|property| property.large.is_some())
}

/// The names of the large properties of a type in all schema versions.
pub(super) fn large_names<T: TableEntity>() -> impl Iterator<Item = &'static str> {
    let versions = std::iter::successors(Some(T::SCHEMA), |version| version.previous);
    let properties = versions.flat_map(|version| version.properties.iter());
    properties
        .filter(|property| property.large.is_some())
        .map(|property| property.name)
}

/// The declared large values of a row that are in blobs.
pub(super) fn declared_references<T: TableEntity>(
    entity: &Entity,
) -> Result<Vec<(&'static PropertySchema, Reference)>> {
    let mut found = Vec::new();
    for property in large::<T>() {
        if let Some(value) = entity.get(property.name)
            && let Some(reference) = Reference::read(entity.key(), property, value)?
        {
            found.push((property, reference));
        }
    }
    Ok(found)
}
