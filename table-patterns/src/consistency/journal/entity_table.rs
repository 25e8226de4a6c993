//! The table of the entities, and the states of a write's entities.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::Text;
use table_core::model::{ETag, Entity, Key, TableName, split_entry_id};
use table_core::store::{Result, TableStore};

use super::change::Change;
use crate::entity_rows::EntityRows;
use crate::entry::row_properties::without_mark;
use crate::entry::shared::Merge;
use crate::entry::shared::feed::ChangeKind;
use crate::entry::{Entry, Location, Maintainer, Permission, Shape};
use crate::rows::before_write;
use crate::rows::encrypted::marked;

/// The table of the entities, with the indexes of the entities.
#[derive(Clone, Debug)]
pub(super) struct EntityTable {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) name: TableName,
    pub(super) maintainer: Arc<dyn Maintainer>,
    /// The greatest number of requests of one write that are under way at the same time.
    pub(super) concurrency: usize,
}

impl EntityTable {
    /// The rows of the entities.
    pub(super) fn rows(&self) -> EntityRows<'_> {
        EntityRows::new(&*self.store, &self.name)
    }

    /// The permission to act on the maintainer's index states, with its end.
    pub(super) async fn prepare(&self) -> Result<Permission> {
        self.store.profile().check_reads("a journal")?;
        // `FreshStates`: by older states the write could miss an index that was declared since.
        let prepared = self.maintainer.prepare().await;
        // The maintainer may have written the registration of this process.
        before_write(prepared)
    }

    /// Whether an index of this table has written a row, and not one of another table.
    pub(super) fn is_of_own_index(&self, table: &TableName, row: &Entity) -> bool {
        let Some(index) = Entry::index_of(row) else {
            return false;
        };
        let is_in_own_table = table.as_str().eq_ignore_ascii_case(self.name.as_str());
        match split_entry_id(index).1 {
            None => is_in_own_table,
            Some(source) => !is_in_own_table && self.name.as_str().eq_ignore_ascii_case(source),
        }
    }

    /// The owner of a row that an index of this table has written; `None` for any other row: an entity, or an entry of an index of
    /// another table. Only the former may be changed or deleted.
    pub(super) fn owner_of_entry(&self, table: &TableName, row: &Entity) -> Option<Key> {
        if self.is_of_own_index(table, row) {
            Entry::owner_of(row).ok()
        } else {
            None
        }
    }

    /// The entries that an entity has.
    pub(super) fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        self.maintainer
            .entries(&marked(&*self.store, &self.name, &without_mark(entity)))
    }

    /// The entries to remove with a state of an entity: also those of indexes that get no new entries.
    pub(super) fn removable(&self, entity: &Entity) -> Result<Vec<Entry>> {
        self.maintainer
            .removable(&marked(&*self.store, &self.name, &without_mark(entity)))
    }

    /// See [`Maintainer::entries_of_stored_properties`].
    pub(super) fn entries_of_stored_properties(&self, entity: &Entity) -> Result<Vec<Entry>> {
        self.maintainer.entries_of_stored_properties(&marked(
            &*self.store,
            &self.name,
            &without_mark(entity),
        ))
    }

    /// What the feeds of the table record of a change.
    pub(super) fn records(&self, change: &Change) -> Result<Vec<(ChangeKind, Text)>> {
        change.records_by(&*self.maintainer)
    }

    /// Runs work concurrently, all of it to its end, also if a part of it fails: a request that was dropped could take effect later.
    /// The results are in the order of the work.
    pub(super) async fn all_of<T>(&self, work: Vec<BoxFuture<'_, T>>) -> Vec<T> {
        stream::iter(work)
            .buffered(self.parallel_requests())
            .collect()
            .await
    }

    /// The greatest number of parallel requests; a function, so that the interleaving suite can replace it.
    pub(super) const fn parallel_requests(&self) -> usize {
        self.concurrency
    }
}

/// The entries that entities have now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    pub(super) rows: BTreeMap<Location, Entry>,
    pub(super) shared: Vec<Entry>,
}

/// The entities of a write as they were last read.
#[derive(Clone, Debug, Default)]
pub(super) struct States(BTreeMap<Key, Option<Entity>>);

impl States {
    /// Entities that are not read yet: as if they did not exist.
    pub(super) fn new(keys: Vec<Key>) -> Self {
        Self(keys.into_iter().map(|key| (key, None)).collect())
    }

    /// Sets an entity to the state that a write has just produced.
    pub(super) fn set(&mut self, key: Key, entity: Option<Entity>) {
        self.0.insert(key, entity);
    }

    /// The last known state of an entity.
    pub(super) fn get(&self, key: &Key) -> Option<&Entity> {
        self.0.get(key)?.as_ref()
    }

    /// Whether the write has no entities, as a drop of an index.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// Reads one entity.
    pub(super) async fn read_again(&mut self, entities: &EntityTable, key: &Key) -> Result<()> {
        let entity = entities.rows().stored(key).await?;
        self.0.insert(key.clone(), entity);
        Ok(())
    }

    /// Reads all entities, concurrently.
    pub(super) async fn read_all_again(&mut self, entities: &EntityTable) -> Result<()> {
        let keys: Vec<_> = self.0.keys().cloned().collect();
        let reads: Vec<_> = keys.iter().map(|key| entities.rows().stored(key)).collect();
        // Unlike `all_of`, this drops the other reads after an error: a dropped read changes nothing.
        let read: Vec<_> = stream::iter(reads)
            .buffered(entities.parallel_requests())
            .try_collect()
            .await?;
        self.0 = keys.into_iter().zip(read).collect();
        Ok(())
    }

    /// All entries of the entities.
    pub(super) fn entries(&self, entities: &EntityTable) -> Result<Wanted> {
        let mut wanted = Wanted::default();
        for entity in self.0.values().flatten() {
            for entry in entities.entries(entity)? {
                if entry.shape.is_shared() {
                    wanted.shared.push(entry);
                } else {
                    wanted.rows.insert(entry.location.clone(), entry);
                }
            }
        }
        Ok(wanted)
    }

    /// The change that makes a shared row agree with the entities.
    pub(super) fn merge(&self, at: Location, index: &str, shape: &Shape, wanted: &Wanted) -> Merge {
        let mut merge = Merge::new(at, index.to_owned(), shape.clone());
        let there = wanted
            .shared
            .iter()
            .filter(|e| e.location == merge.at && e.index == index);
        merge.put = there.cloned().collect();
        // An entity without an entry in the row leaves it, whether it was there or not: no process knows which of
        // its states the row has seen.
        let holds = |owner: &Key| merge.put.iter().any(|entry| entry.owner == *owner);
        merge.gone = self
            .0
            .keys()
            .filter(|owner| !holds(owner))
            .cloned()
            .collect();
        merge
    }

    /// The entry of one entity at a location.
    pub(super) fn entry_at(
        &self,
        entities: &EntityTable,
        key: &Key,
        at: &Location,
    ) -> Result<Option<Entry>> {
        let Some(Some(entity)) = self.0.get(key) else {
            return Ok(None);
        };
        Ok(entities
            .entries(entity)?
            .into_iter()
            .find(|e| e.location == *at))
    }

    /// Whether one entity has an entry at a location. Also if its entries cannot be derived, for example because it is of a later schema
    /// version: then another program may know that it has the entry.
    pub(super) fn may_have(&self, entities: &EntityTable, key: &Key, at: &Location) -> bool {
        !matches!(self.entry_at(entities, key, at), Ok(None))
    }

    /// The entry of any of the entities at a location, as far as they are known.
    pub(super) fn held_at(&self, entities: &EntityTable, at: &Location) -> Result<Option<Entry>> {
        for key in self.0.keys() {
            if let Some(entry) = self.entry_at(entities, key, at)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Whether the versions of all existing entities are known. After a lost answer they are not, and other writers
    /// may have changed the entities.
    pub(super) fn are_known(&self) -> bool {
        self.0
            .values()
            .flatten()
            .all(|entity| entity.etag().is_some())
    }

    /// The versions of the entities, if they are [known](Self::are_known). Equal versions are equal entities.
    pub(super) fn versions(&self) -> Vec<Option<ETag>> {
        self.0
            .values()
            .map(|e| e.as_ref().and_then(|e| e.etag().cloned()))
            .collect()
    }
}
