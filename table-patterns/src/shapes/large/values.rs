//! Values out of a row, into blobs, and what rows say of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::ObjectStore;
use table_core::engine::entity_size;
use table_core::model::{EdmValue, Entity, Key, PropertyRef, TableName, ValueRef};
use table_core::store::{Error, ErrorKind, Result, TableStore};
use table_core::typed::{PropertySchema, Schema};
use tokio::time::Instant;
use uuid::Uuid;

use super::reference::{Reference, Told, told};
use super::{BlobContext, LargeOptions};
use crate::blobs::{self, ByteStream};

/// The service was measured to refuse entities somewhat below its limit; see `entity_size`.
const ROOM: usize = 1024;

/// The large values of a type in a table: where they are, and what makes them.
#[derive(Clone, Debug)]
pub(crate) struct LargeValues {
    /// The store of the rows.
    pub(super) store: Arc<dyn TableStore>,
    pub(super) table: TableName,
    pub(super) schema: &'static Schema,
    pub(super) blobs: Arc<dyn ObjectStore>,
    pub(super) options: LargeOptions,
}

/// Blobs that nothing refers to yet.
#[derive(Debug)]
pub(crate) struct NewBlobs {
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
    fn now() -> Self {
        Self { instant: Instant::now(), time: SystemTime::now() }
    }

    /// The longer of what the two say.
    fn elapsed(&self) -> Duration {
        self.instant.elapsed().max(self.time.elapsed().unwrap_or_default())
    }
}

impl NewBlobs {
    /// None yet, of a write that begins.
    pub(crate) fn none() -> Self {
        Self { blobs: Vec::new(), started: Started::now() }
    }

    pub(super) fn push(&mut self, blob: BlobContext) {
        self.blobs.push(blob);
    }

    /// Until when their row must be written; `None` for a write without blobs.
    ///
    /// # Errors
    /// They have waited so long that a collection could take them.
    pub(crate) fn until(&self, deadline: Duration) -> Result<Option<Instant>> {
        if self.blobs.is_empty() {
            return Ok(None);
        }
        if self.started.elapsed() > deadline {
            return Err(Error::new(ErrorKind::Timeout { after: deadline }));
        }
        Ok(self.started.instant.checked_add(deadline))
    }
}

impl LargeValues {
    /// The longest time between the first blob of a write and its row.
    pub(crate) const fn deadline(&self) -> Duration {
        self.options.write_deadline
    }

    pub(crate) const fn options_mut(&mut self) -> &mut LargeOptions {
        &mut self.options
    }

    /// The large properties.
    pub(super) fn large(&self) -> impl Iterator<Item = &'static PropertySchema> + use<> {
        self.schema.properties.iter().filter(|property| property.large.is_some())
    }

    /// Puts the large values of an entity into blobs: it becomes a row. What was put before an error is in `new`, for the
    /// caller to remove.
    pub(crate) async fn move_out(&self, entity: &mut Entity, new: &mut NewBlobs) -> Result<()> {
        let stored = self.large().filter(|property| entity.get(property.name).is_some());
        self.check_codec(entity.key(), stored)?;
        while let Some((property, content)) = self.next_out(entity) {
            let context = self.context(entity.key(), property.name);
            let reference = self.put(&context, stream::iter([Ok(content)]).boxed()).await?;
            let marked = entity.properties().find(property.name).is_some_and(|p| p.is_encrypted());
            let value = reference.to_value(property.edm_type);
            entity.properties_mut().put(property.name, value.as_ref(), marked);
            new.push(context);
        }
        Ok(())
    }

    /// Refuses large values that the store encrypts by a rule, or has met encrypted, where the codec does not: the row would
    /// hide what the blob shows.
    pub(super) fn check_codec<'a>(
        &self,
        key: &Key,
        properties: impl IntoIterator<Item = &'a PropertySchema>,
    ) -> Result<()> {
        if self.options.codec.encrypts() {
            return Ok(());
        }
        let names = self.store.encrypted_names(&self.table);
        let mut encrypted = properties.into_iter().filter(|property| names.contains_at(key, property.name));
        encrypted.next().map_or(Ok(()), |property| Err(not_encrypted(property.name)))
    }

    /// A large property that must leave the row: one over its bound, or the largest of a row that is too large.
    fn next_out(&self, entity: &Entity) -> Option<(&'static PropertySchema, Bytes)> {
        let inline = |p: &'static PropertySchema| Some((p, inline(p, entity.get(p.name)?)?));
        let is_over = |(p, value): &(&PropertySchema, &[u8])| value.len() > p.large.unwrap_or(usize::MAX);
        let over = self.large().filter_map(inline).find(is_over);
        let full = self.store.profile().entity_bytes.saturating_sub(ROOM);
        let largest = || {
            let is_full = entity_size(entity.key(), entity.properties()) > full;
            self.large().filter(|_| is_full).filter_map(inline).max_by_key(|(_, value)| value.len())
        };
        over.or_else(largest).map(|(property, value)| (property, Bytes::copy_from_slice(value)))
    }

    /// A blob to be written.
    pub(super) fn context(&self, key: &Key, property: &str) -> BlobContext {
        BlobContext::new(&self.table, key, property, Uuid::new_v4())
    }

    /// Stores one value, and says what the row must say of it.
    pub(super) async fn put(&self, context: &BlobContext, content: ByteStream) -> Result<Reference> {
        let path = context.path(&self.options.root)?;
        let size = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&size);
        let content = content.inspect(move |piece| {
            let bytes = piece.as_ref().map_or(0, Bytes::len);
            counted.fetch_add(bytes as u64, Ordering::Relaxed);
        });
        let codec = &self.options.codec;
        let stored = blobs::put(&*self.blobs, &path, codec.encode(context, content.boxed())).await?;
        let (id, codec) = (context.id, codec.name().to_owned());
        Ok(Reference { id, size: size.load(Ordering::Relaxed), stored, codec })
    }

    /// The blobs that a row refers to, of whatever type or schema version it is.
    fn blobs_of(&self, row: &Entity) -> Vec<BlobContext> {
        let blob = |property: PropertyRef<'_>| match told(property.value())? {
            Told::Blob(reference) => {
                Some(BlobContext::new(&self.table, row.key(), property.name(), reference.id))
            }
            Told::Unreadable => None,
        };
        row.properties().iter().filter_map(blob).collect()
    }

    /// Removes the blobs of old rows that no new one refers to.
    pub(crate) async fn remove_replaced(&self, old: &[&Entity], new: &[&Entity]) {
        let blobs = |rows: &[&Entity]| rows.iter().flat_map(|row| self.blobs_of(row)).collect::<Vec<_>>();
        let (mut gone, kept) = (blobs(old), blobs(new));
        gone.retain(|blob| kept.iter().all(|kept| kept.id != blob.id));
        self.remove(&gone).await;
    }

    /// Removes blobs of a write that is certainly not there.
    pub(crate) async fn withdraw(&self, new: &NewBlobs) {
        self.remove(&new.blobs).await;
    }

    /// Removes blobs that no row refers to; what fails is left to a collection.
    async fn remove(&self, blobs: &[BlobContext]) {
        for context in blobs {
            let removed = match context.path(&self.options.root) {
                Ok(path) => blobs::delete(&*self.blobs, &path).await,
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
