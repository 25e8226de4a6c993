//! Moves values from entities into blobs, and removes blobs.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use object_store::ObjectStore;
use object_store::path::Path;
use table_core::engine::entity_size;
use table_core::model::{EdmType, EdmValue, Entity, Key, PropertyRef, TableName, ValueRef};
use table_core::store::{Error, ErrorKind, Result, TableStore};
use table_core::typed::{PropertySchema, Schema};
use tokio::time::Instant;
use uuid::Uuid;

use super::LargeOptions;
use crate::blobs::{self, BlobContext, ByteStream};
use crate::blobs::{Reference, references, references_of};

/// The room that is left in a row, in bytes: measurements show that the service refuses entities slightly below its limit.
/// See `entity_size`.
const ROOM: usize = 1024;

/// Stores the large values of a type in a table.
#[derive(Clone, Debug)]
pub(crate) struct LargeValues {
    /// The store of the rows.
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) table: TableName,
    pub(crate) schema: &'static Schema,
    pub(crate) blobs: Arc<dyn ObjectStore>,
    pub(crate) options: LargeOptions,
    /// How often a write in any version is attempted.
    pub(crate) attempts: u32,
    /// How many blobs one call reads, writes or removes at once; at least 1.
    pub(crate) concurrency: usize,
}

/// Blobs of a write whose row is not written yet.
#[derive(Debug)]
pub(crate) struct NewBlobs {
    pub(crate) blobs: Vec<BlobContext>,
    pub(crate) started: Started,
}

/// The start of a write by two clocks: the monotonic clock may stop while the machine sleeps, the wall clock can be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    instant: Instant,
    pub(crate) time: SystemTime,
}

impl Started {
    fn now() -> Self {
        Self {
            instant: Instant::now(),
            time: SystemTime::now(),
        }
    }

    /// The time since the start, by the later of the two clocks.
    fn elapsed(&self) -> Duration {
        self.instant
            .elapsed()
            .max(self.time.elapsed().unwrap_or_default())
    }
}

impl NewBlobs {
    /// No blobs, for a write that starts now.
    pub(crate) fn none() -> Self {
        Self {
            blobs: Vec::new(),
            started: Started::now(),
        }
    }

    pub(crate) fn push(&mut self, blob: BlobContext) {
        self.blobs.push(blob);
    }

    /// The time until which the row must be written; `None` for a write without blobs.
    ///
    /// # Errors
    /// The deadline has passed: a collection could remove the blobs.
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

    /// The large properties.
    pub(crate) fn large(&self) -> impl Iterator<Item = &'static PropertySchema> + use<> {
        self.schema
            .properties
            .iter()
            .filter(|property| property.large.is_some())
    }

    /// Stores the large values of an entity in blobs, and puts references in their place. `new` gets the blobs; after an
    /// error the caller removes them.
    pub(crate) async fn move_out(&self, entity: &mut Entity, new: &mut NewBlobs) -> Result<()> {
        let stored = self
            .large()
            .filter(|property| entity.get(property.name).is_some());
        self.check_codec(entity.key(), stored)?;
        self.move_out_together(entity, self.over_their_bound(entity), new)
            .await?;
        // A value below its bound stays in the row as long as the row has room. The largest goes first, so
        // that the fewest go.
        while let Some(largest) = self.largest_of_full(entity) {
            self.move_out_together(entity, vec![largest], new).await?;
        }
        Ok(())
    }

    /// Stores values in blobs, several at once.
    async fn move_out_together(
        &self,
        entity: &mut Entity,
        values: Vec<(&'static PropertySchema, Bytes)>,
        new: &mut NewBlobs,
    ) -> Result<()> {
        let contexts: Vec<_> = values
            .iter()
            .map(|(property, _)| self.context(entity.key(), property.name))
            .collect();
        // Noted before the first request, so that the caller removes every blob that may exist after an error.
        contexts
            .iter()
            .for_each(|context| new.push(context.clone()));
        let puts: Vec<_> = contexts
            .iter()
            .zip(&values)
            .map(|(context, (_, content))| {
                self.put(context, stream::iter([Ok(content.clone())]).boxed())
                    .boxed()
            })
            .collect();
        // Every answer is awaited, also after an error: a blob that arrived after its removal would stay.
        let stored: Vec<Result<Reference>> = stream::iter(puts)
            .buffered(self.concurrency)
            .collect()
            .await;
        for ((property, _), reference) in values.iter().zip(stored) {
            let marked = entity
                .properties()
                .find(property.name)
                .is_some_and(|p| p.is_encrypted());
            let value = reference?.to_value(property.edm_type);
            entity
                .properties_mut()
                .put(property.name, value.as_ref(), marked);
        }
        Ok(())
    }

    /// Refuses large values that the store encrypts (by a rule, or because it has read encrypted values) if the codec does not
    /// encrypt: the blob would reveal the value.
    pub(crate) fn check_codec<'a>(
        &self,
        key: &Key,
        properties: impl IntoIterator<Item = &'a PropertySchema>,
    ) -> Result<()> {
        if self.options.codec.encrypts() {
            return Ok(());
        }
        let names = self.store.context().encrypted_names(&self.table);
        let mut encrypted = properties
            .into_iter()
            .filter(|property| names.contains_at(key, property.name));
        encrypted
            .next()
            .map_or(Ok(()), |property| Err(not_encrypted(property.name)))
    }

    /// The large values that are in the row of an entity.
    fn in_the_row<'e>(
        &self,
        entity: &'e Entity,
    ) -> impl Iterator<Item = (&'static PropertySchema, &'e [u8])> {
        self.large()
            .filter_map(|p| Some((p, inline(p, entity.get(p.name)?)?)))
    }

    /// The values over their bound.
    fn over_their_bound(&self, entity: &Entity) -> Vec<(&'static PropertySchema, Bytes)> {
        let over = self
            .in_the_row(entity)
            .filter(|(p, value)| value.len() > p.large.unwrap_or(usize::MAX));
        over.map(|(property, value)| (property, Bytes::copy_from_slice(value)))
            .collect()
    }

    /// The largest value of a row that is too large.
    fn largest_of_full(&self, entity: &Entity) -> Option<(&'static PropertySchema, Bytes)> {
        let full = self.store.profile().entity_bytes.saturating_sub(ROOM);
        if entity_size(entity.key(), entity.properties()) <= full {
            return None;
        }
        let largest = self.in_the_row(entity).max_by_key(|(_, value)| value.len());
        largest.map(|(property, value)| (property, Bytes::copy_from_slice(value)))
    }

    /// The context of a new blob.
    pub(crate) fn context(&self, key: &Key, property: &str) -> BlobContext {
        BlobContext::new(&self.table, key, property, Uuid::new_v4())
    }

    /// Stores one value in a blob. Returns the reference for the row.
    pub(crate) async fn put(
        &self,
        context: &BlobContext,
        content: ByteStream,
    ) -> Result<Reference> {
        let path = context.path(&self.options.root)?;
        let size = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&size);
        let content = content.inspect(move |piece| {
            let bytes = piece.as_ref().map_or(0, Bytes::len);
            counted.fetch_add(bytes as u64, Ordering::Relaxed);
        });
        let codec = &self.options.codec;
        let stored =
            blobs::put(&*self.blobs, &path, codec.encode(context, content.boxed())).await?;
        let (id, codec) = (context.id, codec.name().to_owned());
        Ok(Reference {
            id,
            size: size.load(Ordering::Relaxed),
            stored,
            codec,
        })
    }

    /// Removes the blobs of old rows that no new row refers to.
    pub(crate) async fn remove_replaced(&self, old: &[&Entity], new: &[&Entity]) {
        let context = |row: &Entity, (property, reference): (PropertyRef<'_>, Reference)| {
            BlobContext::new(&self.table, row.key(), property.name(), reference.id)
        };
        let blobs = |rows: &[&Entity]| {
            let of_row = |row: &&Entity| {
                let found = references_of(self.schema, row).into_iter();
                found.map(|found| context(row, found)).collect::<Vec<_>>()
            };
            rows.iter().flat_map(of_row).collect::<Vec<_>>()
        };
        let (mut gone, kept) = (blobs(old), blobs(new));
        gone.retain(|blob| kept.iter().all(|kept| kept.id != blob.id));
        self.remove(&gone).await;
    }

    /// Removes the blobs of a write that was certainly not applied.
    pub(crate) async fn withdraw(&self, new: &NewBlobs) {
        self.remove(&new.blobs).await;
    }

    async fn remove(&self, blobs: &[BlobContext]) {
        remove(&self.blobs, &self.options.root, self.concurrency, blobs).await;
    }
}

/// The blobs that a row may refer to, for any type and schema version.
fn blobs_of(table: &TableName, row: &Entity) -> Vec<BlobContext> {
    let found = references(row).into_iter();
    let context = |(property, reference): (PropertyRef<'_>, Reference)| {
        BlobContext::new(table, row.key(), property.name(), reference.id)
    };
    found.map(context).collect()
}

/// Removes the blobs of rows that were deleted. 1 request per blob.
pub(crate) async fn remove_blobs(
    blobs: &Arc<dyn ObjectStore>,
    root: &Path,
    concurrency: usize,
    table: &TableName,
    rows: &[&Entity],
) {
    let gone: Vec<_> = rows.iter().flat_map(|row| blobs_of(table, row)).collect();
    remove(blobs, root, concurrency, &gone).await;
}

/// Removes all blobs of a table that was deleted. 1 request per page of names and 1 per blob.
pub(crate) async fn remove_all(
    store: &dyn ObjectStore,
    root: &Path,
    table: &TableName,
    concurrency: usize,
) -> Result<()> {
    let directory = blobs::directory(root, table)?;
    let names = store.list(Some(&directory)).map_err(blobs::blob_error);
    let ours = names.try_filter(|blob| {
        let is_clock = blobs::is_clock(&directory, &blob.location);
        ready(is_clock || BlobContext::parse(root, table, &blob.location).is_some())
    });
    let deletes = ours.map_ok(|blob| async move { blobs::delete(store, &blob.location).await });
    deletes
        .try_buffer_unordered(concurrency)
        .try_collect()
        .await
}

/// Removes blobs that no row refers to, several at once. If a removal fails, a later collection removes the blob.
async fn remove(
    store: &Arc<dyn ObjectStore>,
    root: &Path,
    concurrency: usize,
    gone: &[BlobContext],
) {
    let remove = |context: &BlobContext| {
        let path = context.path(root);
        let (blobs, key) = (Arc::clone(store), context.key.clone());
        async move {
            let removed = match path {
                Ok(path) => blobs::delete(&*blobs, &path).await,
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                tracing::debug!(
                    "a blob of {key} could not be removed; the next collection removes it: {error}"
                );
            }
        }
    };
    let removals: Vec<_> = gone.iter().map(remove).collect();
    stream::iter(removals)
        .buffer_unordered(concurrency.max(1))
        .collect::<()>()
        .await;
}

/// The error for a value that must be encrypted, with a codec that does not encrypt.
pub(crate) fn not_encrypted(property: &str) -> Error {
    let what = format!("the encrypted large property '{property}': use a codec that encrypts");
    Error::unsupported("the blob codec", what)
}

/// The bytes of a value in the row; `None` for a reference.
fn inline<'a>(property: &PropertySchema, value: ValueRef<'a>) -> Option<&'a [u8]> {
    match value {
        ValueRef::String(text) if property.edm_type == value.edm_type() => Some(text.as_bytes()),
        ValueRef::Binary(bytes) if property.edm_type == value.edm_type() => Some(bytes),
        _ => None,
    }
}

/// Puts the reference to a copy of a blob in place of the reference that the property had.
pub(crate) fn put_new_reference(
    entity: &mut Entity,
    property: &PropertyRef<'_>,
    reference: &Reference,
) {
    // The reference has the other type than the field, so the field's type follows from the stored reference.
    let is_text = matches!(property.value(), ValueRef::Binary(_));
    let value = reference.to_value(if is_text {
        EdmType::String
    } else {
        EdmType::Binary
    });
    entity
        .properties_mut()
        .put(property.name(), value.as_ref(), property.is_encrypted());
}

/// Converts the content of a blob to a value.
pub(crate) fn value(
    entity: &Entity,
    property: &PropertySchema,
    bytes: Vec<u8>,
) -> Result<EdmValue> {
    if property.edm_type != EdmType::String {
        return Ok(EdmValue::Binary(bytes));
    }
    String::from_utf8(bytes).map(EdmValue::String).map_err(|_| {
        Error::decode(
            "large value",
            entity.key(),
            property.name,
            "text",
            "a blob that is not UTF-8",
        )
    })
}
