//! The rows of a store after a schedule, and the checks of these rows.

use std::collections::{BTreeMap, BTreeSet};

use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, SYSTEM_PREFIX, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{Result, TableStoreExt};

use super::scheduled_queue::Messages;
use crate::patterns::consistency::entity_rows::Mark;
use crate::patterns::consistency::entry::row_properties::is_unique_row;
use crate::patterns::consistency::entry::shared::feed::Counters;
use crate::patterns::consistency::entry::shared::{SharedRows, is_chunk};
use crate::patterns::index::{Entry, Location};
use crate::patterns::journal::is_pending;

/// The violation, if there is one.
pub(super) type Verdict = Result<(), String>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Workers have processed all tickets.
    Worked,
    /// Two sweeps have run after the workers.
    Swept,
}

/// The rows of a store after a schedule.
pub(super) struct FinalState {
    phase: Phase,
    tickets: usize,
    /// Journal rows and abort rows.
    journal: Vec<Entity>,
    pub(super) entities: Vec<Entity>,
    entries: Vec<(Location, Entity)>,
}

impl FinalState {
    /// Reads the table of the entities and the tables of the entries.
    pub(super) async fn read(
        store: &MemoryStore,
        people: &TableName,
        tables: &[&str],
        messages: &Messages,
        phase: Phase,
    ) -> Result<Self> {
        let mut this = Self {
            phase,
            tickets: messages.len(),
            journal: Vec::new(),
            entities: Vec::new(),
            entries: Vec::new(),
        };
        let elsewhere = tables
            .iter()
            .copied()
            .map(TableName::new)
            .collect::<Result<Vec<_>, _>>()?;
        for table in std::iter::once(people.clone()).chain(elsewhere) {
            for row in store.query_all(&table, &Query::new()).await? {
                this.add(&table, people, row);
            }
        }
        Ok(this)
    }

    fn add(&mut self, table: &TableName, people: &TableName, row: Entity) {
        let is_entry = Entry::index_of(&row).is_some() || is_chunk(&row);
        if table == people && row.key().row().starts_with(&format!("{SYSTEM_PREFIX}j_")) {
            self.journal.push(row);
        } else if row.key().is_system() && !is_entry {
            // The manifest, or the row that says to which table a table of entries belongs.
        } else if is_entry || table != people {
            self.entries.push((
                Location {
                    table: table.clone(),
                    key: row.key().clone(),
                },
                row,
            ));
        } else {
            self.entities.push(row);
        }
    }

    /// The rows of entries, lists, chunks and summaries.
    pub(super) fn rows(&self) -> &[(Location, Entity)] {
        &self.entries
    }

    /// The same state with the entries of some indexes only.
    pub(super) fn of_indexes(mut self, ids: &[&str]) -> Self {
        self.entries
            .retain(|(_, row)| Entry::index_of(row).is_some_and(|id| ids.contains(&id)));
        self
    }

    /// Checks that there is no ticket, no journal row, no mark of a move and no reservation. After the sweep there
    /// must be no abort row either.
    pub(super) fn check_evidence(&self) -> Verdict {
        if self.tickets > 0 {
            return Err(format!("{} tickets are left", self.tickets));
        }
        let is_abort = |row: &Entity| row.get("JournalKind") == Some(ValueRef::String("abort"));
        if let Some(row) = self
            .journal
            .iter()
            .find(|row| !is_abort(row) || self.phase == Phase::Swept)
        {
            return Err(format!("the journal row {} is left", row.key()));
        }
        if let Some(entity) = self
            .entities
            .iter()
            .find(|entity| journal_key(entity).is_some())
        {
            return Err(format!("the mark of {} is left", entity.key()));
        }
        let left = self.entries.iter().find(|(_, row)| is_pending(row));
        left.map_or(Ok(()), |(_, row)| {
            Err(format!("the reservation {} is left", row.key()))
        })
    }

    /// Checks that the entities have exactly these entries.
    pub(super) async fn check_entries(
        &self,
        store: &MemoryStore,
        people: &TableName,
        derive: impl Fn(&Entity) -> Result<Vec<Entry>>,
    ) -> Result<Verdict> {
        let (mut rows, mut lists) = (BTreeMap::new(), BTreeMap::new());
        for entity in &self.entities {
            for entry in derive(entity)? {
                let wanted = (entry.to_entity(), entry.unique);
                let (at, owner) = (entry.location, entry.owner);
                if entry.shape.is_shared() {
                    lists.entry(at).or_insert_with(BTreeSet::new).insert(owner);
                } else if let Some((other, _)) = rows.insert(at, (owner, wanted)) {
                    return Ok(Err(format!(
                        "{other} and {} have the same entry key",
                        entity.key()
                    )));
                }
            }
        }
        for (at, row) in self.entries.iter().filter(|(_, row)| !is_chunk(row)) {
            let held = match lists.remove(at) {
                Some(members) => members == members_of(store, at, row).await?,
                None => rows.remove(at).is_some_and(|(owner, (wanted, unique))| {
                    // Only remote entries have reservations (rule U of the protocol).
                    let here = at.table == *people && at.key.partition() == owner.partition();
                    let ruled = unique && !here;
                    holds(row, &wanted) && is_unique_row(row) == ruled
                }),
            };
            if !held {
                return Ok(Err(format!(
                    "the entry {} belongs to no entity: {row:?}",
                    at.key
                )));
            }
        }
        let lost = rows
            .pop_first()
            .map(|(at, (owner, _))| format!("{owner} has no entry {}", at.key));
        let lost = lost.or_else(|| {
            lists
                .pop_first()
                .map(|(at, o)| format!("there is no list {} of {o:?}", at.key))
        });
        Ok(lost.map_or(Ok(()), Err))
    }
}

async fn members_of(
    store: &MemoryStore,
    at: &Location,
    row: &Entity,
) -> Result<BTreeSet<table_core::model::Key>> {
    let rows = SharedRows {
        store,
        blobs: None,
        counters: &Counters::default(),
    };
    let members = rows.members_of(at, row).await?;
    Ok(members
        .and_then(|m| m.keys())
        .unwrap_or_default()
        .into_iter()
        .collect())
}

/// The key of the journal row of the move that has marked an entity.
pub(super) fn journal_key(entity: &Entity) -> Option<Key> {
    Mark::of(entity).map(|mark| mark.write.key(&mark.partition).unwrap())
}

/// Whether an entry's row has all wanted properties.
fn holds(row: &Entity, wanted: &Entity) -> bool {
    wanted
        .properties()
        .iter()
        .all(|p| row.get(p.name()) == Some(p.value()))
}
