//! The manifest as a process has last read it: the indexes that the process maintains, the indexes that it cannot maintain, and the
//! processes that write the table. A view never changes: a later read replaces it.

use std::sync::Arc;

use table_core::limits;
use table_core::manifest::{
    Discriminator, EntityType, IndexState, StoredIndex, StoredType, index_name,
};
use table_core::model::{Entity, TableName};
use table_core::store::{Error, Result};
use tokio::time::Instant;

use super::manifest::TableRow;
use super::processes::ProcessRow;
use crate::entry::shared::copied_names;
use crate::entry::{Derived, Entry, Index, Location, Recorded, Shape};

/// When a read of the manifest began: the number of state changes that this process made before, and the clock
/// of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadTime {
    pub(super) change: u64,
    pub(crate) at: Instant,
}

/// The manifest, as last read.
#[derive(Clone, Debug, Default)]
pub(super) struct ManifestView {
    /// The number of the program's own indexes.
    pub(super) own: usize,
    /// The program's own indexes first, in their order; last, learned indexes that the manifest does not have.
    pub(super) indexes: Vec<DeclaredIndex>,
    /// Indexes that this program cannot maintain.
    pub(super) unknown: Vec<Unmaintainable>,
    /// The number of definitions in force.
    pub(super) declared: usize,
    /// Definitions to which another table has not consented.
    pub(super) not_in_force: Vec<NotInForce>,
    /// The reason for refusing writes of the program's type: other programs store it in another layout.
    pub(super) type_conflict: Option<Error>,
    /// The types with encrypted properties.
    pub(super) encrypted: Vec<StoredType>,
    /// The types whose entities can be deleted softly.
    pub(super) softly_deleted: Vec<StoredType>,
    /// The properties of entities that copy indexes write.
    pub(super) copied: Arc<[String]>,
    pub(super) table: TableRow,
    /// The processes that may act on the known states.
    pub(super) processes: Vec<ProcessRow>,
    /// Processes that have ended; their rows are still in the manifest.
    pub(super) gone: Vec<ProcessRow>,
    pub(super) loaded: Option<ReadTime>,
}

#[derive(Clone, Debug)]
pub(super) struct DeclaredIndex {
    pub(super) index: Arc<Index>,
    pub(super) state: IndexState,
}

/// A definition whose entries would be in another table, which has not consented to it.
#[derive(Clone, Debug)]
pub(super) struct NotInForce {
    id: String,
    other: String,
}

impl NotInForce {
    pub(super) fn of(stored: &StoredIndex) -> Self {
        let other = stored
            .table
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        Self {
            id: stored.id(),
            other,
        }
    }

    /// The error of a caller that names the index.
    fn refused(&self, table: &TableName) -> Error {
        let Self { id, other } = self;
        Error::index_not_ready(format!(
            "the index '{id}' of the table '{table}' is not in force: its entries would be in the table '{other}', which has no consent to \
             this definition, or does not exist; if the definition is yours, give the consent by `tables index trust` or `trust_index`, or build \
             the index by a program that defines it; otherwise drop it"
        ))
    }
}

/// An index that this program cannot maintain. Writes of its entities are refused.
#[derive(Clone, Debug)]
pub(super) struct Unmaintainable {
    pub(super) id: String,
    pub(super) state: IndexState,
    /// The entities of the index; `None`: unknown, so any entity.
    pub(super) entity: Option<EntityType>,
    /// The end of a sentence about the index, such as "needs …".
    pub(super) reason: String,
    /// Whether the index uses encrypted properties and the store does not decrypt.
    pub(super) exposes_encrypted: bool,
}

impl Unmaintainable {
    pub(super) fn check(&self, table: &TableName, entity: &Entity) -> Result<()> {
        if self.entity.as_ref().is_some_and(|of| !of.admits(entity)) {
            return Ok(());
        }
        let (id, reason, key) = (&self.id, &self.reason, entity.key());
        Err(Error::manifest_mismatch(format!(
            "the table '{table}' has the index '{id}', which {reason}: a write of {key} would leave the index stale; write with a program \
             that can maintain the index, or drop the index by `drop_index(\"{id}\")`"
        )))
    }

    /// Whether this is the index's id or name.
    fn is_named(&self, name: &str) -> bool {
        self.id == name || index_name(&self.id) == name
    }

    /// The error of a caller that names the index.
    pub(super) fn refused(&self, table: &TableName) -> Error {
        let (id, reason) = (&self.id, &self.reason);
        Error::manifest_mismatch(format!("the index '{id}' of the table '{table}' {reason}"))
    }
}

impl ManifestView {
    pub(super) fn of_program(table: &TableName, own: &[Index]) -> Self {
        let indexes = own.iter().map(|index| DeclaredIndex {
            index: Arc::new(index.clone()),
            state: IndexState::Absent,
        });
        Self {
            own: own.len(),
            indexes: indexes.collect(),
            ..Self::default()
        }
        .with_copies(table)
    }

    /// Adds states and indexes that another handle of the table has read later. The result stays valid only as
    /// long as the earlier read was.
    fn add_later(&mut self, later: &Self) {
        for theirs in &later.indexes {
            let id = theirs.index.id();
            match self
                .indexes
                .iter_mut()
                .find(|declared| declared.index.id() == id)
            {
                Some(declared) => declared.state = theirs.state,
                None => {
                    self.unknown.retain(|unknown| unknown.id != id);
                    self.indexes.push(theirs.clone());
                }
            }
        }
        for theirs in &later.unknown {
            let is_known = self.unknown.iter().any(|unknown| unknown.id == theirs.id);
            match self
                .indexes
                .iter_mut()
                .find(|declared| declared.index.id() == theirs.id)
            {
                Some(declared) => {
                    declared.state = theirs.state;
                    // The other handle has no code for the index, and this one has. But a store that does not
                    // decrypt is a reason against both.
                    if theirs.exposes_encrypted && !is_known {
                        self.unknown.push(theirs.clone());
                    }
                }
                None if is_known => {}
                None => self.unknown.push(theirs.clone()),
            }
        }
    }

    /// Leaves the properties that copy indexes write out of full payloads.
    pub(super) fn with_copies(mut self, table: &TableName) -> Self {
        let copied: Arc<[String]> = self
            .indexes
            .iter()
            .flat_map(|declared| copied_by(&declared.index, table))
            .collect();
        // A copy index writes these into the row of the entity alone. A full payload with them would keep
        // their old values.
        if !copied.is_empty() {
            for declared in &mut self.indexes {
                declared.index = Arc::new(
                    declared
                        .index
                        .as_ref()
                        .clone()
                        .with_foreign_properties(copied.clone()),
                );
            }
        }
        Self { copied, ..self }
    }

    /// Adopts indexes with the Rust code of another handle, whose view is `theirs`. The states come from the later of the two views.
    pub(super) fn adopt(&mut self, table: &TableName, new: &[Index], theirs: &Self) {
        if theirs.loaded >= self.loaded {
            self.add_later(theirs);
        }
        for index in new {
            let declared = self
                .indexes
                .iter_mut()
                .find(|declared| declared.index.id() == index.id());
            if let Some(declared) = declared {
                declared.index = Arc::new(index.clone());
                continue;
            }
            // The code does not help: the store does not decrypt.
            if self
                .unknown
                .iter()
                .any(|unknown| unknown.id == index.id() && unknown.exposes_encrypted)
            {
                continue;
            }
            // With its code the index can be maintained. Its state is known from the manifest.
            let unknown = self
                .unknown
                .extract_if(.., |unknown| unknown.id == index.id())
                .next();
            let state = unknown.map_or(IndexState::Absent, |unknown| unknown.state);
            self.indexes.push(DeclaredIndex {
                index: Arc::new(index.clone()),
                state,
            });
        }
        *self = std::mem::take(self).with_copies(table);
    }

    /// The index with this id, or with this name; a name means an index that the program defines, if there is
    /// one.
    pub(super) fn find(&self, table: &TableName, name: &str) -> Result<Arc<Index>> {
        let (own, others) = self.indexes.split_at(self.own);
        if let Some(found) = self
            .indexes
            .iter()
            .find(|declared| declared.index.id() == name)
        {
            return Ok(Arc::clone(&found.index));
        }
        for declared in [own, others] {
            let named: Vec<_> = declared
                .iter()
                .filter(|declared| declared.index.name() == name)
                .collect();
            match named[..] {
                [] => {}
                [found] => return Ok(Arc::clone(&found.index)),
                _ => {
                    let ids: Vec<_> = named.iter().map(|declared| declared.index.id()).collect();
                    return Err(Error::invalid_argument(format!(
                        "the table '{table}' has several indexes with the name '{name}': pass the id of one of them, {}",
                        ids.join(" or ")
                    )));
                }
            }
        }
        if let Some(unknown) = self.unknown.iter().find(|unknown| unknown.is_named(name)) {
            return Err(unknown.refused(table));
        }
        self.check_in_force(table, name)?;
        Err(Error::index_not_ready(format!(
            "the table '{table}' has no index '{name}': `declared` lists its indexes"
        )))
    }

    /// Whether other programs have declared indexes of these entities; their payload may hold any property.
    pub(super) fn has_others_of(&self, entity: &EntityType) -> bool {
        let others = self.indexes.iter().skip(self.own);
        others
            .into_iter()
            .any(|declared| !declared.index.definition().entity.is_disjoint_from(entity))
            || self.unknown.iter().any(|unknown| {
                unknown
                    .entity
                    .as_ref()
                    .is_none_or(|of| !of.is_disjoint_from(entity))
            })
    }

    /// The state of an index that this program can maintain, by its id, or by its name: an index of the program comes first. *Absent* for any
    /// other index.
    pub(super) fn state(&self, name: &str) -> IndexState {
        self.maintained_state(name).unwrap_or(IndexState::Absent)
    }

    fn maintained_state(&self, name: &str) -> Option<IndexState> {
        let by_id = self
            .indexes
            .iter()
            .find(|declared| declared.index.id() == name);
        let found = by_id.or_else(|| {
            self.indexes
                .iter()
                .find(|declared| declared.index.name() == name)
        });
        found.map(|declared| declared.state)
    }

    /// As [`state`](Self::state), also for an index that this program cannot maintain.
    pub(super) fn state_in_manifest(&self, name: &str) -> IndexState {
        let unknown = || {
            self.unknown
                .iter()
                .find(|unknown| unknown.is_named(name))
                .map(|unknown| unknown.state)
        };
        self.maintained_state(name)
            .or_else(unknown)
            .unwrap_or(IndexState::Absent)
    }

    /// Refuses a definition that is not in force, by its id or name.
    pub(super) fn check_in_force(&self, table: &TableName, name: &str) -> Result<()> {
        let is_named = |one: &&NotInForce| one.id == name || index_name(&one.id) == name;
        self.not_in_force
            .iter()
            .find(is_named)
            .map_or(Ok(()), |one| Err(one.refused(table)))
    }

    /// See [`Maintainer::permits`](crate::entry::Maintainer::permits).
    pub(super) fn permits(
        &self,
        table: &TableName,
        at: &Location,
        shared: Option<(&str, &Shape)>,
    ) -> bool {
        let is_own = at.table.as_str().eq_ignore_ascii_case(table.as_str());
        let mut indexes = self
            .indexes
            .iter()
            .filter(|declared| declared.state.removes_entries());
        match shared {
            None => is_own || indexes.any(|declared| declared.index.table(table) == &at.table),
            Some((index, shape)) => indexes.any(|declared| {
                declared.index.table(table) == &at.table
                    && declared.index.shape() == shape
                    && declared.index.entry_id(table) == index
            }),
        }
    }

    /// Refuses an entity of an index that this program cannot maintain.
    pub(super) fn check_maintainable(&self, table: &TableName, entity: &Entity) -> Result<()> {
        self.unknown
            .iter()
            .try_for_each(|unknown| unknown.check(table, entity))
    }

    /// See [`Maintainer::recorded`](crate::entry::Maintainer::recorded). All feeds of a table record into one list of changes, so that an
    /// entity of two feeds has one change.
    pub(super) fn recorded(&self, entity: &Entity) -> Result<Option<Recorded>> {
        let mut types = Vec::new();
        for declared in self.indexes.iter().filter(|one| one.state.writes_entries()) {
            types.extend(declared.index.recorded_type(entity)?.cloned());
        }
        // Of several, every program records the same: first a type that a row shows.
        types.sort_by_key(|of| (of.discriminator == Discriminator::None, of.name.clone()));
        let Some(entity_type) = types.into_iter().next() else {
            return Ok(None);
        };
        let is_deleted = self.softly_deleted.iter().any(|stored| {
            let is_of_type = stored.entity.as_ref().is_some_and(|of| of.admits(entity));
            let expiry = stored.expiry.as_ref().filter(|_| is_of_type);
            expiry.is_some_and(|expiry| expiry.is_deleted(entity))
        });
        Ok(Some(Recorded {
            entity_type: entity_type.name,
            is_deleted,
        }))
    }

    /// The entries of an entity in the wanted indexes.
    pub(super) fn entries(
        &self,
        table: &TableName,
        entity: &Entity,
        wanted: impl Fn(&Index, IndexState) -> bool,
    ) -> Result<Vec<Entry>> {
        if self.declared > limits::INDEX_DEFINITIONS {
            return Err(Error::wrong_state(format!(
                "the table '{table}' has {} indexes, and at most {} are allowed: drop the others before {} is written",
                self.declared,
                limits::INDEX_DEFINITIONS,
                entity.key()
            )));
        }
        let mut entries = Vec::new();
        let mut derived = Derived::default();
        for DeclaredIndex { index, .. } in self.indexes.iter().filter(|d| wanted(&d.index, d.state))
        {
            let of_index = index.entries(table, entity)?;
            // After each index, so that no entity has more than the entries of one index beyond the bound.
            derived.add(&of_index)?;
            entries.extend(of_index);
        }
        Ok(entries)
    }
}

/// The properties that an index writes into entities of the table.
fn copied_by(index: &Index, table: &TableName) -> Vec<String> {
    let is_in_other_table = index.table(table) != table;
    match index.shape() {
        Shape::Copy { prefix, fields } if !is_in_other_table => copied_names(prefix, fields),
        _ => Vec::new(),
    }
}
