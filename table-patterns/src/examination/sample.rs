//! A random sample of index entries and entities, in bounded memory.

use std::collections::BTreeMap;

use table_core::model::{Entity, Key};

use crate::index::Entry;

/// Keys that were chosen at random, each row with the same probability.
#[derive(Debug)]
pub(super) struct Sample {
    size: usize,
    entities: Reservoir,
    /// By the id of the index.
    entries: BTreeMap<String, Reservoir>,
}

#[derive(Debug, Default)]
struct Reservoir {
    seen: u64,
    keys: Vec<Key>,
}

impl Sample {
    pub(super) fn new(size: usize) -> Self {
        Self { size, entities: Reservoir::default(), entries: BTreeMap::new() }
    }

    pub(super) fn add_entity(&mut self, row: &Entity) {
        self.entities.add(row, self.size);
    }

    pub(super) fn add_entry(&mut self, row: &Entity) {
        if let Some(id) = Entry::index_of(row).filter(|_| self.size > 0) {
            self.entries.entry(id.to_owned()).or_default().add(row, self.size);
        }
    }

    pub(super) fn entities(&self) -> &[Key] {
        &self.entities.keys
    }

    pub(super) fn entries(&self, id: &str) -> &[Key] {
        self.entries.get(id).map_or(&[], |reservoir| &reservoir.keys)
    }
}

impl Reservoir {
    /// Algorithm R: <https://doi.org/10.1145/3147.3165>.
    fn add(&mut self, row: &Entity, size: usize) {
        self.seen += 1;
        if self.keys.len() < size {
            self.keys.push(row.key().clone());
        } else if let Some(slot) =
            usize::try_from(fastrand::u64(..self.seen)).ok().and_then(|at| self.keys.get_mut(at))
        {
            *slot = row.key().clone();
        }
    }
}
