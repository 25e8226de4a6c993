//! Rows back to values.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use object_store::path::Path;
use table_core::model::{Entity, Key};
use table_core::store::{Error, Result, TableStore as _};
use table_core::typed::{KeyOf, TableEntity};

use super::reference::Reference;
use super::row::references;
use super::values::value;
use super::{BlobCodec as _, BlobContext, LargeRow, LargeTable, PlainBlobs};
use crate::blobs::{self, ByteStream};
use crate::journal::as_read;

impl<T: TableEntity> LargeTable<T> {
    /// The entity, or `None`. One request, and one for each large value; once more for each writer that
    /// replaces it meanwhile.
    ///
    /// # Errors
    /// The stores'; the row is not a `T`; a blob is missing or damaged.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<T>> {
        let key = key.into_key();
        loop {
            let Some(row) = self.row(&key).await? else { return Ok(None) };
            if let Some(value) = self.hydrate_or_again(row).await? {
                return Ok(Some(value));
            }
        }
    }

    /// The entity, or an error if there is none. As [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get), and entity not found.
    pub async fn get_existing(&self, key: impl KeyOf<T>) -> Result<T> {
        let key = key.into_key();
        loop {
            let row = self.existing(&key).await?;
            if let Some(value) = self.hydrate_or_again(row).await? {
                return Ok(value);
            }
        }
    }

    /// Rows of a query with their large values, several at once, in the order of the rows. Rows that
    /// are deleted meanwhile are left out; those replaced meanwhile come in their new state.
    pub fn load<S>(&self, rows: S) -> impl Stream<Item = Result<T>> + Send + use<T, S>
    where
        S: Stream<Item = Result<LargeRow<T>>> + Send,
    {
        let (table, concurrency) = (self.clone(), self.options().concurrency.max(1));
        let loads = rows.map(move |row| {
            let table = table.clone();
            async move { table.load_one(row?.entity).await }
        });
        loads.buffered(concurrency).try_filter_map(|found| std::future::ready(Ok(found)))
    }

    async fn load_one(&self, row: Entity) -> Result<Option<T>> {
        let key = row.key().clone();
        match self.hydrate_or_again(row).await? {
            Some(value) => Ok(Some(value)),
            None => self.get(key).await,
        }
    }

    /// The row as it is stored, without the mark of a move, which is in its version.
    pub(super) async fn row(&self, key: &Key) -> Result<Option<Entity>> {
        Ok(self.store().get(self.name(), key, None).await?.map(as_read))
    }

    /// The value; `None` if a blob is gone because the row has changed.
    pub(super) async fn hydrate_or_again(&self, row: Entity) -> Result<Option<T>> {
        let mut full = row.clone();
        for (property, reference) in references::<T>(&row)? {
            let Some(content) = self.content(&row, property.name, &reference).await? else { return Ok(None) };
            let bytes = content.try_fold(Vec::new(), |mut all, piece: Bytes| async move {
                all.extend_from_slice(&piece);
                Ok(all)
            });
            let value = value(&row, property, bytes.await?)?;
            let marked = row.properties().find(property.name).is_some_and(|p| p.is_encrypted());
            full.properties_mut().put(property.name, value.as_ref(), marked);
        }
        T::from_entity(full).map(Some)
    }

    /// A value's content; `None` if the blob is gone because the row has changed.
    pub(super) async fn content(
        &self,
        row: &Entity,
        property: &str,
        reference: &Reference,
    ) -> Result<Option<ByteStream>> {
        let codec = &self.options().codec;
        let plain = self.is_accepted_plaintext(reference);
        if reference.codec != codec.name() && !plain {
            let (key, by) = (row.key(), format!("a blob of the codec '{}'", codec.name()));
            let found = format!("one of '{}'", reference.codec);
            return Err(Error::decode("large value", key, property, by, found));
        }
        let context = BlobContext::new(self.name(), row.key(), property, reference.id);
        let path = context.path(&self.options().root)?;
        match blobs::open(&**self.blobs(), &path).await? {
            Some(stored) => {
                let stored = blobs::verified(stored, reference.stored, path.to_string());
                Ok(Some(if plain { stored.boxed() } else { codec.decode(&context, stored) }))
            }
            None => self.check_changed(row, property, &path).await.map(|()| None),
        }
    }

    /// Whether a blob is in plaintext, where that is read during a migration to a codec that encrypts.
    pub(super) fn is_accepted_plaintext(&self, reference: &Reference) -> bool {
        let options = self.options();
        options.accepts_plaintext && options.codec.encrypts() && reference.codec == PlainBlobs.name()
    }

    /// Whether the row has changed, which explains that its blob is gone; otherwise that is an error.
    pub(super) async fn check_changed(&self, row: &Entity, property: &str, path: &Path) -> Result<()> {
        if self.has_changed(row).await? {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "the blob {path} of the property '{property}' of {} is missing",
            row.key()
        )))
    }

    async fn has_changed(&self, row: &Entity) -> Result<bool> {
        let now = self.row(row.key()).await?;
        Ok(now.is_none_or(|now| now.etag() != row.etag()))
    }
}
