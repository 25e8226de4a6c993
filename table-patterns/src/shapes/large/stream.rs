use std::fmt;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use table_core::model::{EdmValue, Entity, IfMatch, ValueRef};
use table_core::store::{Error, Result, Written};
use table_core::typed::{KeyOf, LargeField, PropertySchema, TableEntity};

use super::LargeTable;
use super::reference::Reference;
use super::row::large;
use super::values::NewBlobs;
use crate::blobs::ByteStream;

/// One large value, to be read piece by piece.
pub struct LargeContent {
    /// Its bytes.
    pub size: u64,
    /// SHA-256 of what is stored for it; `None` for a value that is in the row.
    pub sha256: Option<[u8; 32]>,
    /// The content. **Only its end without an error says that it was whole and right.**
    pub content: ByteStream,
}

impl<T: TableEntity> LargeTable<T> {
    /// Replaces one large value of an entity by a stream, if the entity is in this version; the others
    /// stay. Two requests and the blobs.
    ///
    /// The content goes to a blob whatever its size, and is never in memory as a whole. Text must be UTF-8: it
    /// is checked when it is read.
    ///
    /// # Errors
    /// Of the content, which leaves the entity as it was. Precondition failed: another writer was faster.
    /// Entity not found; one of another type, or stored in another version of the schema, which [`update`](Self::update)
    /// converts.
    pub async fn put_stream(
        &self,
        key: impl KeyOf<T>,
        field: LargeField<T>,
        content: impl Stream<Item = Result<Bytes>> + Send + 'static,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (property, version) = (schema::<T>(field)?, version.into());
        let old = self.existing(&key.into_key()).await?;
        self.check_version(&old, &version)?;
        T::SCHEMA.check_patchable(&old)?;
        self.values().check_codec(old.key(), [property])?;
        let (mut new, context) = (NewBlobs::none(), self.values().context(old.key(), property.name));
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

    /// One large value of an entity as a stream; `None` if there is no such entity or value. One request, and
    /// one for the blob.
    ///
    /// # Errors
    /// The stores'; the blob is missing.
    pub async fn read_stream(
        &self,
        key: impl KeyOf<T>,
        field: LargeField<T>,
    ) -> Result<Option<LargeContent>> {
        let (property, key) = (schema::<T>(field)?, key.into_key());
        loop {
            let Some(row) = self.row(&key).await? else { return Ok(None) };
            let Some(value) = row.get(property.name) else { return Ok(None) };
            let Some(reference) = Reference::read(&key, property, value)? else {
                return Ok(Some(inline(value)));
            };
            if let Some(content) = self.content(&row, property.name, &reference).await? {
                let sha256 = Some(reference.stored.hash);
                return Ok(Some(LargeContent { size: reference.size, sha256, content }));
            }
        }
    }
}

fn schema<T: TableEntity>(field: LargeField<T>) -> Result<&'static PropertySchema> {
    let found = large::<T>().find(|property| property.name == field.name());
    found.ok_or_else(|| Error::invalid_request(format!("'{}' is no large property", field.name())))
}

fn inline(value: ValueRef<'_>) -> LargeContent {
    let bytes = match value.to_owned() {
        EdmValue::String(text) => text.into_bytes(),
        EdmValue::Binary(bytes) => bytes,
        _ => Vec::new(),
    };
    let size = bytes.len() as u64;
    LargeContent { size, sha256: None, content: stream::iter([Ok(Bytes::from(bytes))]).boxed() }
}

impl fmt::Debug for LargeContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeContent").field("size", &self.size).finish_non_exhaustive()
    }
}
