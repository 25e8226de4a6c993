//! Streams of large values.

use std::fmt;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use table_core::model::{EdmValue, Entity, IfMatch, ValueRef};
use table_core::store::{Error, Result, Written};
use table_core::typed::{KeyOf, LargeField, PropertySchema, TableEntity};

use super::{values_of, writer_of};
use crate::Table;
use crate::blobs::{ByteStream, Reference};
use crate::large_values::NewBlobs;

/// A large value as a stream.
pub struct LargeContent {
    /// The size of the value, in bytes.
    pub size: u64,
    /// The SHA-256 hash of the stored content; `None` for a value in the row.
    pub sha256: Option<[u8; 32]>,
    /// The content. **It is complete and correct only if the stream ends without an error.**
    pub content: ByteStream,
}

impl<T: TableEntity> Table<T> {
    /// Replaces one large value of an entity by a stream, if the entity has this version; other values stay. 2 requests and
    /// the requests of the blobs.
    ///
    /// The content goes to a blob, whatever its size, and is never in memory as a whole. Text must be UTF-8; this is checked
    /// only when the value is read.
    ///
    /// # Errors
    /// An error of the content, which leaves the entity unchanged. Another program has built an index while the content was stored: repeat
    /// the call with the content. Precondition failed: another writer has changed the entity. Entity not found. The entity has another type, or another schema version: use [`update`](Self::update).
    pub async fn put_stream(
        &self,
        key: impl KeyOf<T>,
        field: LargeField<T>,
        content: impl Stream<Item = Result<Bytes>> + Send + 'static,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (property, version) = (large_property::<T>(field)?, version.into());
        let writer = self.large_writer(writer_of(self)?).await?;
        let (values, key) = (writer.values(), key.into_key());
        let old = self.row(&key).await?;
        self.check_version(&key, old.as_ref(), &version)?;
        let old = old.ok_or_else(|| self.missing(&key))?;
        T::SCHEMA.check_patchable(&old)?;
        values.check_codec(old.key(), [property])?;
        // Before the blob is stored: a refused write stores nothing.
        let _permitted = writer.permit(old.key()).await?;
        let (mut new, context) = (NewBlobs::none(), values.context(old.key(), property.name));
        let reference = values.put(&context, content.boxed()).await?;
        new.push(context);
        let mut entity = Entity::from(old.key().clone());
        entity.properties_mut().put(
            property.name,
            reference.to_value(property.edm_type).as_ref(),
            property.encrypted,
        );
        writer.merge(&new, &old, entity).await
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
        let values = values_of(self)?;
        loop {
            let Some(row) = self.row(&key).await? else {
                return Ok(None);
            };
            let Some(value) = row.get(property.name) else {
                return Ok(None);
            };
            let Some(reference) = Reference::read(&key, property, value)? else {
                return Ok(Some(inline(value)));
            };
            if let Some(content) = values.content(&row, property.name, &reference).await? {
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
    let properties = T::SCHEMA.properties.iter();
    let mut large = properties.filter(|property| property.large.is_some());
    let found = large.find(|property| property.name == field.name());
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
