//! Decides what a lookup reads: entries alone, or the entities that they refer to.

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
    /// Only entries.
    EntryOnly,
    /// Entries, and the entities of references.
    Entry,
    /// Every entity.
    Entity,
}

/// What to read for a count: rows alone if each entity has a row, otherwise lists and their entities.
pub(super) fn counting<T: IndexedEntity>(index: &str, trust: Trust) -> Reading {
    let schema = T::SCHEMA.indexes.iter().find(|i| i.name == index);
    let rows = schema.is_some_and(|s| s.shape == Shape::Row);
    if rows && trust == Trust::Entry { Reading::EntryOnly } else { Reading::Entity }
}

/// What to read for a result of type `R`.
pub(super) fn reading<T: IndexedEntity, R: Found>(index: &str, trust: Trust) -> Reading {
    let schema = T::SCHEMA.indexes.iter().find(|i| i.name == index);
    let Some(schema) = schema.filter(|_| trust == Trust::Entry) else { return Reading::Entity };
    match &schema.payload {
        Payload::Full => Reading::Entry,
        Payload::Fields(names) if holds::<T, R>(names) => Reading::Entry,
        Payload::Fields(_) => Reading::Entity,
        Payload::Reference if is_of_key::<T, R>() && schema.shape == Shape::Row => Reading::EntryOnly,
        Payload::Reference => Reading::Entry,
    }
}

/// Whether a projection needs only these properties.
fn holds<T: IndexedEntity, R: Found>(names: &[Text]) -> bool {
    let told = |name: &str| T::SCHEMA.discriminator.property() == Some(name);
    let versions = [Schema::VERSION_PROPERTY, Schema::READER_PROPERTY];
    let known = |name: &str| names.iter().any(|held| held == name) || told(name) || versions.contains(&name);
    R::needs().is_some_and(|select| select.names().all(known))
}

/// Whether a projection needs only the key. A property holds a later schema version.
fn is_of_key<T: IndexedEntity, R: Found>() -> bool {
    T::SCHEMA.version == 1 && holds::<T, R>(&[])
}

/// The key of a list, if the entries are one list.
pub(super) fn list_of<T: IndexedEntity>(entries: &IndexEntries<T>) -> Result<Option<Key>> {
    let schema = T::SCHEMA.indexes.iter().find(|i| i.name == entries.index());
    let row = entries.rows().as_single().filter(|_| schema.is_some_and(|s| s.shape != Shape::Row));
    row.map(|row| Key::new(entries.partition().as_str(), row)).transpose()
}

/// The query for the entries.
pub(super) fn query<T>(entries: &IndexEntries<T>) -> IndexQuery {
    IndexQuery::partition(entries.partition().as_str()).rows(entries.rows())
}

/// A page; references of lists are followed until there are `limit` entities.
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
        Reading::EntryOnly => entities.page_of_payloads(index, query, from).await,
        Reading::Entry => entities.page_within(index, query, from, Trust::Entry, limit).await,
        Reading::Entity => entities.page_within(index, query, from, Trust::Entity, limit).await,
    }
}
