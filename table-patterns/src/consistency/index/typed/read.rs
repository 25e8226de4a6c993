//! How a lookup reads: what entries hold, or the entities they name.

use table_core::manifest::{Payload, Shape, Text};
use table_core::model::{Entity, Key};
use table_core::query::{Continuation, Page};
use table_core::store::Result;
use table_core::typed::{IndexEntries, IndexedEntity, Schema};

use super::found::Found;
use crate::index::indexed::IndexedEntities;
use crate::index::lookup::Trust;
use crate::index::query::IndexQuery;

/// What a lookup reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing but entries.
    Held,
    /// Entries, and the entities of references.
    Entry,
    /// Every entity.
    Entity,
}

/// What to read to count: a row for each entity, or lists of them.
pub(super) fn counting<T: IndexedEntity>(index: &str, trust: Trust) -> Reading {
    let schema = T::SCHEMA.indexes.iter().find(|i| i.name == index);
    let rows = schema.is_some_and(|s| s.shape == Shape::Row);
    if rows && trust == Trust::Entry { Reading::Held } else { Reading::Entity }
}

/// What to read for an `R`.
pub(super) fn reading<T: IndexedEntity, R: Found>(index: &str, trust: Trust) -> Reading {
    let schema = T::SCHEMA.indexes.iter().find(|i| i.name == index);
    let Some(schema) = schema.filter(|_| trust == Trust::Entry) else { return Reading::Entity };
    match &schema.payload {
        Payload::Full => Reading::Entry,
        Payload::Fields(names) if holds::<T, R>(names) => Reading::Entry,
        Payload::Fields(_) => Reading::Entity,
        Payload::Reference if is_of_key::<T, R>() && schema.shape == Shape::Row => Reading::Held,
        Payload::Reference => Reading::Entry,
    }
}

/// Whether a projection needs nothing beside these properties.
fn holds<T: IndexedEntity, R: Found>(names: &[Text]) -> bool {
    let told = |name: &str| T::SCHEMA.discriminator.property() == Some(name);
    let versions = [Schema::VERSION_PROPERTY, Schema::READER_PROPERTY];
    let known = |name: &str| names.iter().any(|held| held == name) || told(name) || versions.contains(&name);
    R::needs().is_some_and(|select| select.names().all(known))
}

/// Whether a projection needs nothing beside the key. A later schema version is told by a property.
fn is_of_key<T: IndexedEntity, R: Found>() -> bool {
    T::SCHEMA.version == 1 && holds::<T, R>(&[])
}

/// The key of a list, if the entries are one.
pub(super) fn list_of<T: IndexedEntity>(entries: &IndexEntries<T>) -> Result<Option<Key>> {
    let schema = T::SCHEMA.indexes.iter().find(|i| i.name == entries.index());
    let row = entries.rows().as_single().filter(|_| schema.is_some_and(|s| s.shape != Shape::Row));
    row.map(|row| Key::new(entries.partition().as_str(), row)).transpose()
}

/// The query for the entries.
pub(super) fn query<T>(entries: &IndexEntries<T>) -> IndexQuery {
    IndexQuery::partition(entries.partition().as_str()).rows(entries.rows())
}

/// A page; of lists, references are followed until there are `limit` entities.
pub(super) async fn read<T: IndexedEntity>(
    entities: &IndexedEntities,
    entries: &IndexEntries<T>,
    reading: Reading,
    query: &IndexQuery,
    from: Option<&Continuation>,
    limit: usize,
) -> Result<Page<Entity>> {
    if entries.rows().is_empty() {
        return Ok(Page { items: Vec::new(), continuation: None });
    }
    let index = entries.index();
    if let Some(list) = list_of(entries)? {
        return entities.page_of_list(index, &list, query, from, limit).await;
    }
    match reading {
        Reading::Held => entities.page_held(index, query, from).await,
        Reading::Entry => entities.page_within(index, query, from, Trust::Entry, limit).await,
        Reading::Entity => entities.page_within(index, query, from, Trust::Entity, limit).await,
    }
}
