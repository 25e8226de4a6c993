use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{ETag, Entity, Key};
use table_core::store::Result;

use super::Journal;
use crate::entry::shared::Merge;
use crate::entry::{Entry, Location, Shape};

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

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// Reads one entity.
    pub(super) async fn read_again(&mut self, journal: &Journal, key: &Key) -> Result<()> {
        let entity = journal.store().get(journal.table(), key, None).await?;
        self.0.insert(key.clone(), entity);
        Ok(())
    }

    /// Reads all entities, concurrently.
    pub(super) async fn read_all_again(&mut self, journal: &Journal) -> Result<()> {
        let keys: Vec<_> = self.0.keys().cloned().collect();
        let reads: Vec<_> = keys.iter().map(|key| journal.store().get(journal.table(), key, None)).collect();
        let read: Vec<_> = stream::iter(reads).buffered(journal.at_once()).try_collect().await?;
        self.0 = keys.into_iter().zip(read).collect();
        Ok(())
    }

    /// All entries of the entities.
    pub(super) fn entries(&self, journal: &Journal) -> Result<Wanted> {
        let mut wanted = Wanted::default();
        for entity in self.0.values().flatten() {
            for entry in journal.entries(entity)? {
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
        let there = wanted.shared.iter().filter(|e| e.location == merge.at && e.index == index);
        merge.put = there.cloned().collect();
        let holds = |owner: &Key| merge.put.iter().any(|entry| entry.owner == *owner);
        merge.gone = self.0.keys().filter(|owner| !holds(owner)).cloned().collect();
        merge
    }

    /// The entry of one entity at a location.
    pub(super) fn entry_at(&self, journal: &Journal, key: &Key, at: &Location) -> Result<Option<Entry>> {
        let Some(Some(entity)) = self.0.get(key) else { return Ok(None) };
        Ok(journal.entries(entity)?.into_iter().find(|e| e.location == *at))
    }

    /// The entry of any of the entities at a location, as far as they are known.
    pub(super) fn held_at(&self, journal: &Journal, at: &Location) -> Result<Option<Entry>> {
        for key in self.0.keys() {
            if let Some(entry) = self.entry_at(journal, key, at)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Whether the versions of all existing entities are known. After a lost answer they are not, and other writers
    /// may have changed the entities.
    pub(super) fn are_known(&self) -> bool {
        self.0.values().flatten().all(|entity| entity.etag().is_some())
    }

    /// The versions of the entities, if they are [known](Self::are_known). Equal versions are equal entities.
    pub(super) fn versions(&self) -> Vec<Option<ETag>> {
        self.0.values().map(|e| e.as_ref().and_then(|e| e.etag().cloned())).collect()
    }
}
