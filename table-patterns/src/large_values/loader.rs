//! Reads of large values.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use object_store::ObjectStore;
use object_store::path::Path;
use table_core::manifest::{Discriminator, EntityType};
use table_core::model::{EdmValue, Entity, Key, TableName};
use table_core::store::{Error, Result, TableStore};
use table_core::typed::load::{LoadedRow, RowLoader};
use table_core::typed::{PropertySchema, Schema};

use super::{
    BlobCodec as _, EntityWriter, LargeOptions, LargeValues, PlainBlobs, not_encrypted, value,
};
use crate::blobs::{self, BlobContext, ByteStream, Reference, with_placeholders};
use crate::entity_rows::EntityRows;

/// A writer of the entities of a type in a table, whose large values are in these blobs.
///
/// # Errors
/// The schema has an encrypted large property, and the codec does not encrypt.
pub(crate) fn open_writer(
    store: &Arc<dyn TableStore>,
    table: &TableName,
    schema: &'static Schema,
    blobs: Arc<dyn ObjectStore>,
    options: LargeOptions,
) -> Result<EntityWriter> {
    let values = LargeValues {
        store: Arc::clone(store),
        table: table.clone(),
        schema,
        blobs,
        options,
        attempts: 1,
        concurrency: 1,
    };
    if let Some(open) = values
        .large()
        .find(|p| p.encrypted && !values.options.codec.encrypts())
    {
        return Err(not_encrypted(open.name));
    }
    Ok(EntityWriter::new(Arc::clone(store), table.clone(), values))
}

/// Reads the large values of the types that a handle reads.
#[derive(Debug)]
pub(crate) struct LargeLoader {
    values: LargeValues,
    /// The types, in their current schema versions.
    types: Vec<(EntityType, &'static Schema)>,
}

impl LargeLoader {
    pub(crate) fn new(values: LargeValues, schemas: &[&'static Schema]) -> Self {
        let of_type = |schema: &&'static Schema| (schema.entity_type(), *schema);
        let types = schemas.iter().map(of_type).collect();
        Self { values, types }
    }

    /// The large properties of the types that a row can have. Where several types can be meant, and rows do not show which, a value that is no
    /// reference may be one of another type.
    fn properties(&self, row: &Entity) -> Vec<&'static PropertySchema> {
        let mut found: Vec<&'static PropertySchema> = Vec::new();
        for (_, schema) in self.types.iter().filter(|(of, _)| of.admits(row)) {
            let is_sure = self.types.len() == 1 || schema.discriminator != Discriminator::None;
            let is_value_of_type = |property: &PropertySchema| {
                let stored = row.get(property.name);
                is_sure || stored.is_none_or(|v| Reference::read(row.key(), property, v).is_ok())
            };
            for property in schema.properties {
                let is_known = found.iter().any(|known| known.name == property.name);
                if property.large.is_some() && !is_known && is_value_of_type(property) {
                    found.push(property);
                }
            }
        }
        found
    }
}

impl RowLoader for LargeLoader {
    fn load<'a>(
        &'a self,
        mut row: Entity,
        concurrency: usize,
        is_found: &'a (dyn Fn(&Entity) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<Option<LoadedRow>>> {
        async move {
            loop {
                let properties = self.properties(&row);
                if let Some(whole) = self.values.load(&row, &properties, concurrency).await? {
                    return Ok(Some(LoadedRow { stored: row, whole }));
                }
                // Another writer has changed the row.
                match self.values.row(row.key()).await? {
                    Some(changed) if is_found(&changed) => row = changed,
                    _ => return Ok(None),
                }
            }
        }
        .boxed()
    }

    fn with_placeholders(&self, mut row: Entity) -> Entity {
        for (_, schema) in &self.types {
            if let Some(with) = with_placeholders(schema, &row, "") {
                row = with;
            }
        }
        row
    }
}

impl LargeValues {
    /// Reads the stored row without the mark of a move. The row's version includes the mark.
    pub(crate) async fn row(&self, key: &Key) -> Result<Option<Entity>> {
        EntityRows::new(&*self.store, &self.table).get(key).await
    }

    /// The row with the values of these properties, several at once; `None` if a blob is missing because the row has changed.
    pub(crate) async fn load(
        &self,
        row: &Entity,
        properties: &[&'static PropertySchema],
        concurrency: usize,
    ) -> Result<Option<Entity>> {
        let mut references = Vec::new();
        for property in properties {
            if let Some(stored) = row.get(property.name)
                && let Some(reference) = Reference::read(row.key(), property, stored)?
            {
                references.push((*property, reference));
            }
        }
        let reads: Vec<_> = references
            .iter()
            .map(|(property, reference)| self.large_value(row, property, reference).boxed())
            .collect();
        let values: Vec<Option<EdmValue>> = stream::iter(reads)
            .buffered(concurrency.max(1))
            .try_collect()
            .await?;
        let mut whole = row.clone();
        for ((property, _), value) in references.iter().zip(values) {
            let Some(value) = value else { return Ok(None) };
            let stored = row.properties().find(property.name);
            let marked = stored.is_some_and(|p| p.is_encrypted());
            whole
                .properties_mut()
                .put(property.name, value.as_ref(), marked);
        }
        Ok(Some(whole))
    }

    /// A large value; `None` if the blob is missing because the row has changed.
    async fn large_value(
        &self,
        row: &Entity,
        property: &'static PropertySchema,
        reference: &Reference,
    ) -> Result<Option<EdmValue>> {
        let Some(content) = self.content(row, property.name, reference).await? else {
            return Ok(None);
        };
        value(row, property, blobs::collected(content).await?).map(Some)
    }

    /// The content of a value; `None` if the blob is missing because the row has changed.
    pub(crate) async fn content(
        &self,
        row: &Entity,
        property: &str,
        reference: &Reference,
    ) -> Result<Option<ByteStream>> {
        let codec = &self.options.codec;
        let plain = self.is_accepted_plaintext(reference);
        if reference.codec != codec.name() && !plain {
            let expected = format!(
                "a blob of the codec '{}', which this table has",
                codec.name()
            );
            let found = format!(
                "a blob of the codec '{}': open the table with that codec",
                reference.codec
            );
            return Err(Error::decode(
                "large value",
                row.key(),
                property,
                expected,
                found,
            ));
        }
        let context = BlobContext::new(&self.table, row.key(), property, reference.id);
        let path = context.path(&self.options.root)?;
        match blobs::open(&*self.blobs, &path).await? {
            Some(stored) => {
                let stored = blobs::verified(stored, reference.stored, path.to_string());
                Ok(Some(if plain {
                    stored.boxed()
                } else {
                    codec.decode(&context, stored)
                }))
            }
            // A writer removes the old blob after it has replaced the row. So a missing blob is damage only
            // if the row is as it was.
            None => self
                .check_row_changed(row, property, &path)
                .await
                .map(|()| None),
        }
    }

    /// Whether a blob is in plaintext and the options accept plaintext during a migration.
    pub(crate) fn is_accepted_plaintext(&self, reference: &Reference) -> bool {
        let options = &self.options;
        options.accepts_plaintext
            && options.codec.encrypts()
            && reference.codec == PlainBlobs.name()
    }

    /// Succeeds if the row has changed, which explains its missing blob. Otherwise the blob is lost: an error.
    pub(crate) async fn check_row_changed(
        &self,
        row: &Entity,
        property: &str,
        path: &Path,
    ) -> Result<()> {
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
