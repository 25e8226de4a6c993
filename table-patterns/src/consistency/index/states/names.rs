//! Names of indexes: two indexes of one name must not meet.

use table_core::limits;
use table_core::manifest::{IndexDefinition, StoredIndex, can_collide};
use table_core::model::TableName;
use table_core::store::{Error, Result};

use super::manifest::Loaded;
use crate::entry::shared::copied_names;
use crate::entry::{Index, Shape};

/// Refuses two indexes of the same entities with one name, among the indexes of a program: lookups name an index by its name.
pub(crate) fn check_names(indexes: &[Index]) -> Result<()> {
    for (n, index) in indexes.iter().enumerate() {
        let (name, entity) = (index.name(), &index.definition().entity);
        let is_feed = index.definition().is_feed();
        let same = |other: &&Index| {
            let both_feeds = is_feed && other.definition().is_feed();
            other.name() == name
                && !both_feeds
                && !other.definition().entity.is_disjoint_from(entity)
        };
        if indexes[..n].iter().any(|other| same(&other)) {
            return Err(Error::invalid_declaration(format!(
                "two indexes of the same entities have the name '{name}': rename one of them"
            )));
        }
    }
    Ok(())
}

/// Refuses an index if the manifest has another index of its name whose entries could have the same rows.
///
/// Two indexes of a manifest may have one name: two generations of one index, or indexes of two types. Both are maintained until one is
/// dropped, and an entry of one must never replace an entry of the other. Indexes of different names are not compared: if their entries
/// meet, the write of the second entry fails as a key collision.
pub(crate) fn check_generations(
    definition: &IndexDefinition,
    known: &Loaded,
    table: &TableName,
) -> Result<()> {
    // An index in an unknown format could have any row.
    let can_share = |other: Option<&IndexDefinition>| {
        other.is_none_or(|other| can_share_rows(other, definition))
    };
    if known.manifest.indexes.len() >= limits::INDEX_DEFINITIONS {
        return Err(Error::limit(
            format!(
                "indexes of the table '{table}' with '{}' (drop one before '{}' is added)",
                definition.name, definition.name
            ),
            limits::INDEX_DEFINITIONS,
            known.manifest.indexes.len() + 1,
        ));
    }
    let dropped = known
        .manifest
        .indexes
        .iter()
        .find(|stored| stored.shape == Some(Shape::Feed) && stored.is_dropping());
    if let Some(dropped) = dropped.filter(|_| definition.is_feed()) {
        return Err(feed_being_dropped(dropped, table));
    }
    let named = known
        .manifest
        .indexes
        .iter()
        .filter(|stored| stored.name == *definition.name);
    let Some(stored) = { named }.find(|stored| can_share(stored.definition.as_ref())) else {
        return Ok(());
    };
    let (id, name) = (stored.id(), &definition.name);
    let part = if matches!(definition.shape, Shape::Copy { .. }) {
        "prefix"
    } else {
        "text that its keys start with"
    };
    Err(Error::invalid_declaration(format!(
        "the table '{table}' has another index '{name}', '{id}', of an earlier program or another type: its entries could have the same rows \
         as the entries of this index; give this index another {part}, or first drop the other index by `drop_index(\"{id}\")`"
    )))
}

/// The error of a feed that is declared or built while a feed of the table is dropped.
pub(crate) fn feed_being_dropped(dropped: &StoredIndex, table: &TableName) -> Error {
    Error::wrong_state(format!(
        "the feed '{}' of the table '{table}' is being dropped, with the changes of the table: end its drop by `drop_index`, then build the feed",
        dropped.id()
    ))
}

/// Whether entries of two indexes could have the same row; for copies, the same property of an entity. The feeds of a table share their rows.
fn can_share_rows(one: &IndexDefinition, other: &IndexDefinition) -> bool {
    match (&one.shape, &other.shape) {
        (Shape::Feed, Shape::Feed) => false,
        (
            Shape::Copy {
                prefix: a,
                fields: f,
            },
            Shape::Copy {
                prefix: b,
                fields: g,
            },
        ) => {
            let names = copied_names(a, f);
            copied_names(b, g).iter().any(|name| names.contains(name))
        }
        _ => can_collide(one, other),
    }
}
