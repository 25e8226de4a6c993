use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use table_core::manifest::{IndexState, index_name};
use table_core::model::{Entity, INDEX_NAME, Key, Properties, TableName, ValueRef};
use table_core::store::{Error, LocalPermit, Result, TableStore};
use tokio::time::Instant;

use super::shape::Shape;
use super::shared::is_shared_row;
use crate::journal::{is_mark_property, is_unique_row_property};

/// Where an entry is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The table.
    pub table: TableName,
    /// The key within it.
    pub key: Key,
}

impl Location {
    /// Whether a group transaction on `partition` of `table` can write it.
    pub fn is_within(&self, table: &TableName, partition: &str) -> bool {
        self.table == *table && self.key.partition() == partition
    }
}

/// A row that an index derives from an entity.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where it is.
    pub location: Location,
    /// The entity it was derived from.
    pub owner: Key,
    /// What it holds, beside its owner's key.
    pub properties: Properties,
    /// The [id](super::Index::id) of the index it belongs to.
    pub index: String,
    /// Whether no other entity may have an entry at this location.
    pub unique: bool,
    /// Whether it is a row of its own, or a part of one with others.
    pub shape: Shape,
}

impl Entry {
    /// The property with the index's id, by which entries are told from entities.
    pub const INDEX: &'static str = INDEX_NAME;
    /// The property with the owner's PartitionKey.
    pub const OWNER_PARTITION: &'static str = "OwnerPartition";
    /// The property with the owner's RowKey.
    pub const OWNER_ROW: &'static str = "OwnerRow";

    /// The row.
    pub fn to_entity(&self) -> Entity {
        Entity::from_parts(self.location.key.clone(), self.properties.clone())
            .with(Self::INDEX, self.index.as_str())
            .with(Self::OWNER_PARTITION, self.owner.partition())
            .with(Self::OWNER_ROW, self.owner.row())
    }

    /// The name of the index whose entry a row is, if it is one.
    pub fn index_name_of(row: &Entity) -> Option<&str> {
        Self::index_of(row).map(index_name)
    }

    /// The [id](super::Index::id) of the index whose entry a row is, if it is one: an entity that has nothing but a property of
    /// that name is none.
    pub fn index_of(row: &Entity) -> Option<&str> {
        let owned = || row.properties().iter().any(|p| p.name() != Self::INDEX && is_entrys(p.name()));
        match row.get(Self::INDEX) {
            Some(ValueRef::String(name)) if owned() || is_shared_row(row) => Some(name),
            _ => None,
        }
    }

    /// Refuses an entity that could be taken for an entry or for one that is being moved, or whose properties an entry would
    /// replace.
    ///
    /// # Errors
    /// A property of it has a name that entries or moves use.
    pub(crate) fn check_owner(entity: &Entity) -> Result<()> {
        let is_reserved = |name: &str| is_entrys(name) || is_mark_property(name);
        let Some(p) = entity.properties().iter().find(|p| is_reserved(p.name())) else { return Ok(()) };
        let use_of_it = match is_mark_property(p.name()) {
            true => "an entity that is being moved is marked by it",
            false => "the entries of indexes are told from entities by it",
        };
        let reason = format!("the entity {} has it, and {use_of_it}: rename the property", entity.key());
        Err(Error::invalid_name("property name", p.name(), reason))
    }

    /// The properties that every entry has beside its payload.
    pub(crate) const OWN: [&'static str; 3] = [Self::INDEX, Self::OWNER_PARTITION, Self::OWNER_ROW];

    /// The owner that a row names.
    ///
    /// # Errors
    /// The row is no index entry.
    pub fn owner_of(row: &Entity) -> Result<Key> {
        let text = |name: &str| match row.get(name) {
            Some(ValueRef::String(text)) => Ok(text),
            other => {
                let found = other.map_or("nothing", |v| v.edm_type().name());
                Err(Error::decode("index entry", row.key(), name, "Edm.String", found))
            }
        };
        Key::new(text(Self::OWNER_PARTITION)?, text(Self::OWNER_ROW)?)
    }
}

/// Whether a property is one that entries have beside their payload.
pub(super) fn is_entrys(name: &str) -> bool {
    Entry::OWN.contains(&name) || is_unique_row_property(name)
}

/// The right to act upon what a [`Maintainer`] says: keep it until the last request is done that rests on it.
#[derive(Debug, Default)]
#[must_use = "what it allows may be done only while it is kept"]
pub struct Permission {
    /// Until when requests may be sent that rest on it; `None` where the answers never change.
    pub valid_until: Option<Instant>,
    /// What a change of the answers waits for, in a store that only this process writes.
    pub permit: Option<LocalPermit>,
}

/// Derives index entries from entities.
#[async_trait]
pub trait Maintainer: Debug + Send + Sync + 'static {
    /// The entries of an entity: the same for the same entity, always.
    ///
    /// # Errors
    /// The entity cannot be read, or a key cannot be made.
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>>;

    /// The entries that go when the entity does: more than [`entries`](Self::entries) while an index
    /// is in its delete-only state.
    ///
    /// # Errors
    /// As for [`entries`](Self::entries).
    fn removable(&self, entity: &Entity) -> Result<Vec<Entry>> {
        self.entries(entity)
    }

    /// Refuses to store an entity as it is, whatever its entries are.
    ///
    /// # Errors
    /// It would be stored otherwise than the table says.
    fn check(&self, _entity: &Entity) -> Result<()> {
        Ok(())
    }

    /// The properties of entities that copy indexes write: whoever writes such an entity leaves them alone.
    fn copied(&self) -> Arc<[String]> {
        Arc::default()
    }

    /// Whether two entities may have the same entry in rows that are not unique: then rows are looked at before
    /// they are changed or removed. One request for each removed, and two for each changed. Unless the
    /// maintainer knows better, they may.
    fn may_collide(&self) -> bool {
        true
    }

    /// Whether every entity has its entry of the index: not while it is built or removed. Until then an entry in the
    /// entity's own partition is looked at before it is changed or removed. One request for each.
    fn is_complete(&self, _index: &str) -> bool {
        true
    }

    /// The entries that an entity would have of unique indexes that are not readable: not every entity has its row yet, so
    /// nobody can tell whether another one has the value. A write that gives an entity such a value is refused.
    ///
    /// # Errors
    /// As for [`entries`](Self::entries).
    fn unready(&self, _entity: &Entity) -> Result<Vec<(Entry, IndexState)>> {
        Ok(Vec::new())
    }

    /// Takes note that two entities have the same entry: from now on they may.
    ///
    /// # Errors
    /// It could not be written down.
    async fn collided(&self, _store: &dyn TableStore) -> Result<()> {
        Ok(())
    }

    /// The longest lease of any process that writes by this maintainer, as far as it knows.
    fn longest_lease(&self) -> Duration {
        Duration::ZERO
    }

    /// Makes sure that the answers of the other methods may be acted upon, and says for how long. Asked before every step
    /// that writes entries.
    ///
    /// # Errors
    /// What they depend on cannot be read.
    async fn prepare(&self, _store: &dyn TableStore) -> Result<Permission> {
        Ok(Permission::default())
    }
}

/// What an update changes among the entries of an entity.
#[derive(Clone, Debug, Default)]
pub struct EntryDiff {
    /// Entries that are new or hold something else, with what was there before.
    pub put: Vec<(Entry, Option<Entry>)>,
    /// Entries that go.
    pub removed: Vec<Entry>,
}

impl EntryDiff {
    /// Compares the entries of the old and the new state: what is the same is left alone.
    pub fn new(old: Vec<Entry>, new: Vec<Entry>) -> Self {
        let mut before = by_slot(old);
        let mut diff = Self::default();
        for entry in new {
            match before.remove(&slot(&entry)) {
                Some(old) if old == entry => {}
                old => diff.put.push((entry, old)),
            }
        }
        diff.removed = before.into_values().collect();
        diff
    }

    /// Takes out the entries that share a row with others.
    pub(crate) fn take_shared(&mut self) -> Self {
        let put = self.put.extract_if(.., |(entry, _)| entry.shape.is_shared()).collect();
        let removed = self.removed.extract_if(.., |entry| entry.shape.is_shared()).collect();
        Self { put, removed }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.removed.is_empty()
    }

    /// Splits into what a group transaction on the partition writes and the rest.
    pub fn split(self, table: &TableName, partition: &str) -> (Self, Self) {
        let here = |entry: &Entry| entry.location.is_within(table, partition);
        let (put, remote_put) = self.put.into_iter().partition(|(entry, _)| here(entry));
        let (removed, remote_removed) = self.removed.into_iter().partition(here);
        (Self { put, removed }, Self { put: remote_put, removed: remote_removed })
    }
}

/// What an entry has for itself: its row, or its place in a row with others.
type Slot = (Location, Option<(Key, String)>);

fn slot(entry: &Entry) -> Slot {
    let place = entry.shape.is_shared().then(|| (entry.owner.clone(), entry.index.clone()));
    (entry.location.clone(), place)
}

fn by_slot(entries: Vec<Entry>) -> BTreeMap<Slot, Entry> {
    entries.into_iter().map(|e| (slot(&e), e)).collect()
}
