//! An index entry and its row, the changes of entries by a write, and the trait that derives the entries of an entity.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use table_core::limits;
use table_core::manifest::{IndexState, Text, index_name};
use table_core::model::{Entity, INDEX_NAME, Key, Properties, TableName, ValueRef};
use table_core::store::{Error, LocalPermit, LocalWriters, Result};
use tokio::time::Instant;

use super::Shape;
use super::row_properties::{is_mark_property, is_shared_row, is_unique_row_property};

/// The place of an entry: a table and a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The table.
    pub table: TableName,
    /// The key in the table.
    pub key: Key,
}

impl Location {
    /// Whether a group transaction on `partition` of `table` can write this place.
    pub fn is_within(&self, table: &TableName, partition: &str) -> bool {
        self.table == *table && self.key.partition() == partition
    }
}

/// A row that an index derives from an entity.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The place of the entry.
    pub location: Location,
    /// The key of the entity that the entry was derived from.
    pub owner: Key,
    /// The payload; the owner's key is separate.
    pub properties: Properties,
    /// The [id](crate::index::Index::id) of the entry's index.
    pub index: String,
    /// Whether only one entity may have an entry at this location.
    pub unique: bool,
    /// Whether the entry is a row, or a part of a row that entities share.
    pub shape: Shape,
}

impl Entry {
    /// Whether the entry takes the place of another: its row, or its part of a shared row.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        slot(self) == slot(other)
    }

    /// The property with the index's id; it distinguishes entries from entities.
    pub const INDEX: &'static str = INDEX_NAME;
    /// The property with the owner's PartitionKey.
    pub const OWNER_PARTITION: &'static str = "OwnerPartition";
    /// The property with the owner's RowKey.
    pub const OWNER_ROW: &'static str = "OwnerRow";

    /// The row of the entry.
    pub fn to_entity(&self) -> Entity {
        Entity::from_parts(self.location.key.clone(), self.properties.clone())
            .with(Self::INDEX, self.index.as_str())
            .with(Self::OWNER_PARTITION, self.owner.partition())
            .with(Self::OWNER_ROW, self.owner.row())
    }

    /// The [id](crate::index::Index::id) of the index of an entry row; `None` for any other row. An entity that merely
    /// has a property of that name is not an entry.
    pub fn index_of(row: &Entity) -> Option<&str> {
        let owned = || {
            row.properties()
                .iter()
                .any(|p| p.name() != Self::INDEX && is_entry_property(p.name()))
        };
        match row.get(Self::INDEX) {
            Some(ValueRef::String(name)) if owned() || is_shared_row(row) => Some(name),
            _ => None,
        }
    }

    /// Refuses an entity with a property name that entries or moves use: it could be taken for an entry or for
    /// an entity under a move, and an entry would overwrite the property.
    ///
    /// # Errors
    /// The entity has such a property.
    pub(crate) fn check_owner(entity: &Entity) -> Result<()> {
        let is_reserved = |name: &str| is_entry_property(name) || is_mark_property(name);
        let Some(p) = entity.properties().iter().find(|p| is_reserved(p.name())) else {
            return Ok(());
        };
        let use_of_it = match is_mark_property(p.name()) {
            true => "it marks an entity during a move to another partition",
            false => "it marks index entries",
        };
        let reason = format!(
            "the entity {} has a property of this reserved name ({use_of_it}): rename the property",
            entity.key()
        );
        Err(Error::invalid_name("property name", p.name(), reason))
    }

    /// The properties that every entry has in addition to its payload.
    pub(crate) const OWN: [&'static str; 3] = [Self::INDEX, Self::OWNER_PARTITION, Self::OWNER_ROW];

    /// The key of the entity that an entry row belongs to.
    ///
    /// # Errors
    /// The row is not an index entry.
    pub fn owner_of(row: &Entity) -> Result<Key> {
        let text = |name: &str| match row.get(name) {
            Some(ValueRef::String(text)) => Ok(text),
            other => {
                let found = other.map_or("nothing", |v| v.edm_type().name());
                Err(Error::decode(
                    "index entry",
                    row.key(),
                    name,
                    "Edm.String",
                    found,
                ))
            }
        };
        Key::new(text(Self::OWNER_PARTITION)?, text(Self::OWNER_ROW)?)
    }
}

/// Whether a property belongs to the row of an entry and not to its payload: the index id, the owner's key, or a property of a unique row.
pub(crate) fn is_entry_property(name: &str) -> bool {
    Entry::OWN.contains(&name) || is_unique_row_property(name)
}

/// The right to act on the answers of a [`Maintainer`]. Keep it until the last request that depends on the
/// answers has ended.
#[derive(Debug, Default)]
#[must_use = "the answers of the maintainer are valid only while the permission is kept"]
pub struct Permission {
    /// The end of the time in which requests may be sent that depend on the answers; `None`: the answers never change.
    pub valid_until: Option<Instant>,
    /// In a store that only this process writes: a change of an index's state waits until this permit is dropped.
    pub permit: Option<LocalPermit>,
}

/// What one write has derived so far. A small request must not cost much work: its entries and their bytes are bounded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Derived {
    entries: usize,
    bytes: usize,
}

impl Derived {
    /// Adds the entries of an entity.
    ///
    /// # Errors
    /// The entries are too many, or have too many bytes.
    pub(crate) fn add(&mut self, entries: &[Entry]) -> Result<()> {
        self.entries += entries.len();
        self.bytes += entries
            .iter()
            .map(|entry| entry.properties.as_packed().len())
            .sum::<usize>();
        let (count, bytes) = (limits::DERIVED_ENTRIES, limits::DERIVED_BYTES);
        let Some(last) = entries
            .last()
            .filter(|_| self.entries > count || self.bytes > bytes)
        else {
            return Ok(());
        };
        let (quantity, allowed, actual) = if self.entries > count {
            ("index entries", count, self.entries)
        } else {
            ("bytes of properties in index entries", bytes, self.bytes)
        };
        let quantity = format!(
            "{quantity} of the write of {} up to the index '{}' (write fewer entities at once, or give the indexes smaller payloads)",
            last.owner,
            index_name(&last.index)
        );
        Err(Error::limit(quantity, allowed, actual))
    }
}

/// Derives the index entries of entities.
#[async_trait]
pub trait Maintainer: Debug + Send + Sync + 'static {
    /// The entries that an entity is to have. The same entity always has the same entries.
    ///
    /// # Errors
    /// The entity cannot be decoded, or a key cannot be derived.
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>>;

    /// The entries to remove with the entity: more than [`entries`](Self::entries) while an index is
    /// delete-only.
    ///
    /// # Errors
    /// As for [`entries`](Self::entries).
    fn removable(&self, entity: &Entity) -> Result<Vec<Entry>> {
        self.entries(entity)
    }

    /// The entries that a stored entity may have besides the ones that it [loses](Self::removable): an entity of an earlier
    /// schema version has those of its stored properties, if a program has written it that knows only the definitions of
    /// the indexes.
    ///
    /// # Errors
    /// As for [`entries`](Self::entries).
    fn entries_of_stored_properties(&self, _entity: &Entity) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }

    /// How a feed records the changes of an entity; `None` if no feed of the table does.
    ///
    /// # Errors
    /// The definition of a feed is damaged.
    fn recorded(&self, _entity: &Entity) -> Result<Option<Recorded>> {
        Ok(None)
    }

    /// Refuses to store an entity that contradicts the table's manifest.
    ///
    /// # Errors
    /// The manifest says that a property is stored otherwise, for example encrypted.
    fn check(&self, _entity: &Entity) -> Result<()> {
        Ok(())
    }

    /// The properties that copy indexes write into entities. A writer of an entity preserves them.
    fn copied(&self) -> Arc<[String]> {
        Arc::default()
    }

    /// Whether a definition in force lets the maintainer write a row: the entries of no other table are written, and a shared row
    /// only in the shape that its index declares. `shared` is the index and the shape of a shared row. Recovery asks before it
    /// touches what a stored journal row or a ticket names: these are data, too.
    fn permits(&self, _at: &Location, _shared: Option<(&str, &Shape)>) -> bool {
        true
    }

    /// Whether every entity has its entry of the index: not during a build or a drop. Until then, a local entry
    /// is read before it is changed or removed: 1 request more for each.
    fn is_complete(&self, _index: &str) -> bool {
        true
    }

    /// The entries that an entity would have in unique indexes that are not readable. Not every entity has its
    /// row yet, so no process can decide which entity has the value. A write that gives an entity such a value
    /// is refused.
    ///
    /// # Errors
    /// As for [`entries`](Self::entries).
    fn entries_in_unready_indexes(&self, _entity: &Entity) -> Result<Vec<(Entry, IndexState)>> {
        Ok(Vec::new())
    }

    /// The register of this process's writers, if no other process may have a write under way: only this process writes the store, and no
    /// process is registered that wrote through a server before.
    fn lone_writers(&self) -> Option<Arc<LocalWriters>> {
        None
    }

    /// The longest lease of all known processes that write with this maintainer.
    fn longest_lease(&self) -> Duration {
        Duration::ZERO
    }

    /// Ensures that the answers of the other methods are recent enough to act on, and returns for how long. The
    /// journal calls it before every step that writes entries.
    ///
    /// # Errors
    /// The manifest cannot be read.
    async fn prepare(&self) -> Result<Permission> {
        Ok(Permission::default())
    }
}

/// What a feed says about an entity whose change it records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The name of the entity's type.
    pub entity_type: Text,
    /// Whether the entity is deleted softly.
    pub is_deleted: bool,
}

/// The changes of entries by a write.
#[derive(Debug, Default)]
pub(crate) struct EntryDiff {
    /// New and changed entries, each with the entry that it replaces.
    pub(crate) put: Vec<(Entry, Option<Entry>)>,
    /// Entries to remove.
    pub(crate) removed: Vec<Entry>,
}

impl EntryDiff {
    /// Compares the entries of the old and the new state. Equal entries are not part of the diff.
    pub(crate) fn new(old: Vec<Entry>, new: Vec<Entry>) -> Self {
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

    /// Removes and returns the entries in rows that entities share.
    pub(crate) fn take_shared(&mut self) -> Self {
        let put = self
            .put
            .extract_if(.., |(entry, _)| entry.shape.is_shared())
            .collect();
        let removed = self
            .removed
            .extract_if(.., |entry| entry.shape.is_shared())
            .collect();
        Self { put, removed }
    }

    /// Splits into local entries, which a group transaction on the partition writes, and remote entries.
    pub(crate) fn split(self, table: &TableName, partition: &str) -> (Self, Self) {
        let here = |entry: &Entry| entry.location.is_within(table, partition);
        let (put, remote_put) = self.put.into_iter().partition(|(entry, _)| here(entry));
        let (removed, remote_removed) = self.removed.into_iter().partition(here);
        (
            Self { put, removed },
            Self {
                put: remote_put,
                removed: remote_removed,
            },
        )
    }
}

/// The place that one entry occupies: its row, or its part of a shared row.
type Slot = (Location, Option<(Key, String)>);

fn slot(entry: &Entry) -> Slot {
    // A shared row has a part for each entity and index. Any other row holds one entry, so two entries at its
    // place are an old and a new state.
    let place = entry
        .shape
        .is_shared()
        .then(|| (entry.owner.clone(), entry.index.clone()));
    (entry.location.clone(), place)
}

fn by_slot(entries: Vec<Entry>) -> BTreeMap<Slot, Entry> {
    entries.into_iter().map(|e| (slot(&e), e)).collect()
}
