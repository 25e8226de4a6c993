//! Values out of a row, into blobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use table_core::engine::entity_size;
use table_core::model::{EdmValue, Entity, Key, ValueRef};
use table_core::store::{Error, Result};
use table_core::typed::{PropertySchema, TableEntity};
use tokio::time::Instant;
use uuid::Uuid;

use super::reference::Reference;
use super::row::large;
use super::{BlobContext, LargeTable};
use crate::blob::{self, ByteStream};

/// The service was measured to refuse entities somewhat below its limit; see `entity_size`.
const ROOM: usize = 1024;

/// A row whose large values are in blobs that nothing refers to yet.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) entity: Entity,
    pub(super) blobs: Vec<BlobContext>,
    pub(super) started: Started,
}

/// When a write began, by two clocks: `tokio`'s stands still while a machine sleeps, the system's can be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    instant: Instant,
    pub(super) time: SystemTime,
}

impl Started {
    pub(super) fn now() -> Self {
        Self { instant: Instant::now(), time: SystemTime::now() }
    }

    /// The longer of what the two say.
    pub(super) fn elapsed(&self) -> Duration {
        self.instant.elapsed().max(self.time.elapsed().unwrap_or_default())
    }
}

impl<T: TableEntity> LargeTable<T> {
    /// Puts the large values into blobs. If one fails, those before are removed.
    pub(super) async fn prepare(&self, mut entity: Entity) -> Result<Prepared> {
        let stored = large::<T>().filter(|property| entity.get(property.name).is_some());
        self.check_codec(entity.key(), stored)?;
        let (started, mut blobs) = (Started::now(), Vec::new());
        while let Some((property, content)) = self.next_out(&entity) {
            let context = self.context(&entity, property);
            match self.put(&context, stream::iter([Ok(content)]).boxed()).await {
                Ok(reference) => {
                    let marked = entity.properties().find(property.name).is_some_and(|p| p.is_encrypted());
                    let value = reference.to_value(property.edm_type);
                    entity.properties_mut().put(property.name, value.as_ref(), marked);
                    blobs.push(context);
                }
                Err(error) => {
                    self.remove(&blobs).await;
                    return Err(error);
                }
            }
        }
        Ok(Prepared { entity, blobs, started })
    }

    /// Refuses large values that the store encrypts by a rule, or has met encrypted, where the codec does not: the row would
    /// hide what the blob shows.
    pub(super) fn check_codec<'a>(
        &self,
        key: &Key,
        properties: impl IntoIterator<Item = &'a PropertySchema>,
    ) -> Result<()> {
        if self.options().codec.encrypts() {
            return Ok(());
        }
        let names = self.store().encrypted_names(self.name());
        let mut encrypted = properties.into_iter().filter(|property| names.contains_at(key, property.name));
        encrypted.next().map_or(Ok(()), |property| Err(not_encrypted(property.name)))
    }

    /// A large property that must leave the row: one over its bound, or the largest of a row that is too large.
    fn next_out(&self, entity: &Entity) -> Option<(&'static PropertySchema, Bytes)> {
        let inline = |p: &'static PropertySchema| Some((p, inline(p, entity.get(p.name)?)?));
        let is_over = |(p, value): &(&PropertySchema, &[u8])| value.len() > p.large.unwrap_or(usize::MAX);
        let over = large::<T>().filter_map(inline).find(is_over);
        let full = self.store().profile().entity_bytes.saturating_sub(ROOM);
        let largest = || {
            let is_full = entity_size(entity.key(), entity.properties()) > full;
            large::<T>().filter(|_| is_full).filter_map(inline).max_by_key(|(_, value)| value.len())
        };
        over.or_else(largest).map(|(property, value)| (property, Bytes::copy_from_slice(value)))
    }

    pub(super) fn context(&self, entity: &Entity, property: &PropertySchema) -> BlobContext {
        BlobContext::new(self.name(), entity.key(), property.name, Uuid::new_v4())
    }

    /// Stores one value, and says what the row must say of it.
    pub(super) async fn put(&self, context: &BlobContext, content: ByteStream) -> Result<Reference> {
        let path = context.path(&self.options().root)?;
        let size = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&size);
        let content = content.inspect(move |piece| {
            let bytes = piece.as_ref().map_or(0, Bytes::len);
            counted.fetch_add(bytes as u64, Ordering::Relaxed);
        });
        let codec = &self.options().codec;
        let stored = blob::put(&**self.blobs(), &path, codec.encode(context, content.boxed())).await?;
        let (id, codec) = (context.id, codec.name().to_owned());
        Ok(Reference { id, size: size.load(Ordering::Relaxed), stored, codec })
    }

    /// Removes blobs that no row refers to; what fails is left to a collection.
    pub(super) async fn remove(&self, blobs: &[BlobContext]) {
        for context in blobs {
            let removed = match context.path(&self.options().root) {
                Ok(path) => blob::delete(&**self.blobs(), &path).await,
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                tracing::debug!("a blob of {} is left to the next collection: {error}", context.key);
            }
        }
    }
}

/// The error of a value that is encrypted in its row, and would not be in its blob.
pub(super) fn not_encrypted(property: &str) -> Error {
    let what = format!("the encrypted large property '{property}': give it a codec that encrypts");
    Error::unsupported("the blob codec", what)
}

/// The bytes of a value that is in the row.
fn inline<'a>(property: &PropertySchema, value: ValueRef<'a>) -> Option<&'a [u8]> {
    match value {
        ValueRef::String(text) if property.edm_type == value.edm_type() => Some(text.as_bytes()),
        ValueRef::Binary(bytes) if property.edm_type == value.edm_type() => Some(bytes),
        _ => None,
    }
}

/// A value from its bytes.
pub(super) fn value(entity: &Entity, property: &PropertySchema, bytes: Vec<u8>) -> Result<EdmValue> {
    if property.edm_type != table_core::model::EdmType::String {
        return Ok(EdmValue::Binary(bytes));
    }
    String::from_utf8(bytes).map(EdmValue::String).map_err(|_| {
        Error::decode("large value", entity.key(), property.name, "text", "a blob that is not UTF-8")
    })
}
