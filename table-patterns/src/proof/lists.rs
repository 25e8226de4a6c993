//! What lists must hold in the end.

use std::collections::{BTreeMap, BTreeSet};

use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::query::Query;
use table_core::store::{Result, TableStoreExt};

use super::world::People;
use crate::index::shared::SharedRows;
use crate::index::{Location, Maintainer};

/// The table of lists.
pub(super) const LISTS: &str = "Lists";

/// Compares every list with the entities that are to be in it.
pub(super) async fn check_lists(
    store: &MemoryStore,
    people: People,
    entities: &[Entity],
) -> Result<Result<(), String>> {
    let mut wanted: BTreeMap<Location, BTreeSet<_>> = BTreeMap::new();
    for entity in entities {
        for entry in people.entries(entity)?.into_iter().filter(|e| e.shape.is_shared()) {
            wanted.entry(entry.location).or_default().insert(entry.owner);
        }
    }
    let table = TableName::new(LISTS)?;
    for row in store.query_all(&table, &Query::new()).await? {
        let at = Location { table: table.clone(), key: row.key().clone() };
        let members = SharedRows { store, blobs: None }.members_of(&at, &row).await?;
        let found: BTreeSet<_> = members.and_then(|m| m.keys()).unwrap_or_default().into_iter().collect();
        let right = wanted.remove(&at).unwrap_or_default();
        if found != right || found.is_empty() {
            return Ok(Err(format!("the list {} has {found:?} instead of {right:?}", at.key)));
        }
    }
    Ok(wanted
        .pop_first()
        .map_or(Ok(()), |(at, owners)| Err(format!("there is no list {} of {owners:?}", at.key))))
}
