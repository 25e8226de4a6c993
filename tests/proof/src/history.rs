//! The effects of writes on entities, in the order in which they took effect: what a feed must have recorded.

use std::collections::BTreeMap;

use table_core::model::{Entity, Key, MANIFEST_PARTITION, ValueRef};

use crate::patterns::changes::ChangeKind;
use crate::patterns::consistency::entry::row_properties::without_mark;
use crate::patterns::consistency::entry::shared::is_chunk;
use crate::patterns::index::Entry;

/// An effect on an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) key: Key,
    pub(super) kind: ChangeKind,
    /// Whether the feed was readable, and has been readable since then: the feed must have the change.
    pub(super) is_owed: bool,
}

/// The effects on the entities of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    entities: BTreeMap<Key, Entity>,
    effects: Vec<Effect>,
    is_readable: bool,
}

impl History {
    /// Compares the rows of the table, after a write, with those before it.
    pub(super) fn observe(&mut self, rows: &[Entity]) {
        let is_owed = self.is_readable;
        let entities = rows.iter().filter(|row| is_entity(row));
        let entities = entities.map(|row| (row.key().clone(), row.clone()));
        let before = std::mem::replace(&mut self.entities, entities.collect());
        let mut add = |key: &Key, kind| {
            let key = key.clone();
            self.effects.push(Effect { key, kind, is_owed });
        };
        for (key, entity) in &self.entities {
            match before.get(key) {
                None => add(key, ChangeKind::Inserted),
                Some(old) if is_update(old, entity) => add(key, ChangeKind::Updated),
                Some(_) => {}
            }
        }
        for key in before.keys().filter(|key| !self.entities.contains_key(key)) {
            add(key, ChangeKind::Deleted);
        }
        self.is_readable = rows.iter().any(is_readable_feed);
        if !self.is_readable {
            // What a drop ends, and what is written before a build has ended, may be missing.
            self.effects
                .iter_mut()
                .for_each(|effect| effect.is_owed = false);
        }
    }

    /// The effects in a partition.
    pub(super) fn of(&self, partition: &str) -> Vec<Effect> {
        let all = self.effects.iter();
        all.filter(|effect| effect.key.partition() == partition)
            .cloned()
            .collect()
    }
}

/// Whether a write has replaced the entity. One that only sets or removes the mark of a move is no update.
fn is_update(old: &Entity, new: &Entity) -> bool {
    let (unmarked_old, unmarked_new) = (without_mark(old), without_mark(new));
    let is_same_mark = old.properties() == new.properties();
    unmarked_old.properties() != unmarked_new.properties()
        || is_same_mark && old.etag() != new.etag()
}

fn is_entity(row: &Entity) -> bool {
    !row.key().is_system() && Entry::index_of(row).is_none() && !is_chunk(row)
}

/// Whether the row declares a feed, in the manifest, that is readable.
fn is_readable_feed(row: &Entity) -> bool {
    row.key().partition() == MANIFEST_PARTITION
        && row.get("Shape") == Some(ValueRef::String("\"feed\""))
        && row.get("State") == Some(ValueRef::String("readable"))
}
