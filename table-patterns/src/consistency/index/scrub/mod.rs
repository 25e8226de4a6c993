//! A scrub compares an index with its entities, in both directions, while writers go on: it finds entries without their entities, and
//! entities without their entries.
//!
//! | module | part |
//! |---|---|
//! | `shared` | rows that hold the entries of several entities: lists and copies |
//! | `recount` | summaries, which are counted again |
//! | `report` | the mode, the cursor and the result of a scrub |

mod recount;
mod report;
mod shared;

use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use table_core::model::{Entity, Key, split_entry_id};
use table_core::query::Continuation;
use table_core::store::{Error, Result};

pub(super) use self::recount::{Recount, count};
pub(super) use self::report::check_complete;
pub use self::report::{ScrubCursor, ScrubMode, ScrubReport};
pub(super) use self::shared::SharedScrub;
use super::changes::EntityChanges;
use super::rows::{IndexedRows, written_by};
use crate::entity_rows::{as_read, is_entity};
use crate::entry::row_properties::{holders, is_pending, is_unique_row_property};
use crate::entry::{Entry, Index, Shape};
use crate::journal::Timing;

/// Compares one index with its entities.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scrub<'a> {
    index: &'a Index,
    mode: ScrubMode,
    rows: IndexedRows<'a>,
    changes: EntityChanges<'a>,
    shared: SharedScrub<'a>,
    recount: Recount<'a>,
}

impl<'a> Scrub<'a> {
    pub(super) const fn new(
        changes: EntityChanges<'a>,
        timing: Timing,
        index: &'a Index,
        mode: ScrubMode,
    ) -> Self {
        let EntityChanges { rows, set, .. } = changes;
        let shared = SharedScrub {
            rows,
            timing,
            index,
            mode,
        };
        let recount = Recount {
            rows,
            set,
            timing,
            index,
            mode,
        };
        Self {
            index,
            mode,
            rows,
            changes,
            shared,
            recount,
        }
    }

    /// See [`IndexedEntities::scrub_page`](super::IndexedEntities::scrub_page).
    pub(super) async fn page(
        &self,
        cursor: ScrubCursor,
        report: &mut ScrubReport,
    ) -> Result<Option<ScrubCursor>> {
        if self.index.definition().is_feed() {
            // Nothing says which changes there were. `tables doctor` finds damaged rows.
            return Ok(None);
        }
        if matches!(self.index.shape(), Shape::Summary { .. }) {
            let partition = self
                .recount
                .next(cursor.partition.as_deref(), report)
                .await?;
            return Ok(partition.map(|p| ScrubCursor {
                partition: Some(p),
                ..ScrubCursor::default()
            }));
        }
        if cursor.dangling_done {
            let at = self.missing(cursor.at.as_ref(), report).await?;
            return Ok(at.map(|at| ScrubCursor {
                dangling_done: true,
                at: Some(at),
                partition: None,
            }));
        }
        let at = self.dangling(cursor.at.as_ref(), report).await?;
        Ok(Some(ScrubCursor {
            dangling_done: at.is_none(),
            at,
            partition: None,
        }))
    }

    /// Checks a page of entries. The order is essential: each row is read, **then** its entity, then the row is
    /// deleted under its ETag. An entity that is read after the row and has no entry there has lost it after the
    /// row was written; and if it gets the entry again, the row has another ETag.
    pub(super) async fn dangling(
        &self,
        from: Option<&Continuation>,
        report: &mut ScrubReport,
    ) -> Result<Option<Continuation>> {
        let page = self
            .rows
            .page(self.index, &written_by(self.index, self.rows.table), from)
            .await?;
        if self.index.shape().is_shared() {
            for row in page.items {
                self.shared.check_row(row, report).await?;
            }
            return Ok(page.continuation);
        }
        report.entries += page.items.len();
        let checks = stream::iter(page.items).map(|entry| self.remove_if_dangling(entry));
        let found: Vec<bool> = checks
            .buffer_unordered(self.rows.concurrency)
            .try_collect()
            .await?;
        report.dangling += found.into_iter().filter(|dangling| *dangling).count();
        Ok(page.continuation)
    }

    /// Deletes an entry that has no entity, if the scrub repairs. Returns whether the entry dangles.
    async fn remove_if_dangling(&self, entry: Entity) -> Result<bool> {
        // A reservation belongs to its write, which settles or releases the reservation.
        if is_pending(&entry) {
            return Ok(false);
        }
        let at = self.rows.location(self.index, entry.key());
        let owner = self.rows.entities().get(&Entry::owner_of(&entry)?).await?;
        if owner.map_or(Ok(false), |owner| {
            self.index.has_entry_at(self.rows.table, &owner, &at)
        })? {
            return Ok(false);
        }
        match self.mode {
            ScrubMode::Report => Ok(true),
            // `false`: a writer changed the entry after the read, so the entry is recent.
            ScrubMode::Repair => self.rows.delete_unchanged(&at, &entry).await,
        }
    }

    /// Checks a page of entities for missing entries.
    async fn missing(
        &self,
        from: Option<&Continuation>,
        report: &mut ScrubReport,
    ) -> Result<Option<Continuation>> {
        let page = self.rows.entities().page(from).await?;
        // As readers get them, because their versions are compared with those of later reads.
        let entities = page.entities.into_iter().map(as_read).collect();
        self.entities(entities, report).await?;
        Ok(page.continuation)
    }

    /// Checks entities that were read for missing entries.
    async fn entities(&self, mut entities: Vec<Entity>, report: &mut ScrubReport) -> Result<()> {
        report.entities += entities.len();
        if self.index.shape().is_list() {
            entities = self.shared.not_listed(entities).await?;
        }
        let checks = stream::iter(entities).map(|entity| self.check_entity(entity));
        let found: Vec<EntryCheck> = checks
            .buffer_unordered(self.rows.concurrency)
            .try_collect()
            .await?;
        report.missing += found
            .iter()
            .filter(|found| **found == EntryCheck::Missing)
            .count();
        report.taken_keys += found
            .iter()
            .filter(|found| **found == EntryCheck::Taken)
            .count();
        Ok(())
    }

    /// See [`IndexedEntities::check_sample`](super::IndexedEntities::check_sample).
    pub(super) async fn sample(&self, entries: &[Key], entities: &[Key]) -> Result<ScrubReport> {
        if matches!(self.index.shape(), Shape::Summary { .. }) {
            return Err(Error::misuse("only a whole scrub compares sums and counts"));
        }
        let (rows, mut report) = (self.rows, ScrubReport::default());
        if self.index.definition().is_feed() {
            return Ok(report);
        }
        if rows.table_of(self.index) != rows.table {
            self.dangling(None, &mut report).await?;
        }
        // Each row is read now, and its entity after it: a row of an earlier read may be rightly gone.
        for key in entries {
            let Some(row) = rows.entry(self.index, key).await? else {
                continue;
            };
            if self.index.shape().is_shared() {
                self.shared.check_row(row, &mut report).await?;
            } else {
                report.entries += 1;
                report.dangling += usize::from(self.remove_if_dangling(row).await?);
            }
        }
        // Collected first: a closure over references would make the future of a scrub not `Send`.
        let reads: Vec<_> = entities
            .iter()
            .map(|key| rows.entities().get(key))
            .collect();
        let reads = stream::iter(reads).buffer_unordered(rows.concurrency);
        let found = reads
            .try_filter_map(|entity| future::ready(Ok(entity.filter(is_entity))))
            .try_collect()
            .await?;
        self.entities(found, &mut report).await?;
        Ok(report)
    }

    /// Compares an entity that was read with its entry, then reads the entity again. Only an entity in the same
    /// version misses the entry; the journal adds it.
    async fn check_entity(&self, entity: Entity) -> Result<EntryCheck> {
        let (index, rows) = (self.index, self.rows);
        let wanted = index.entries(rows.table, &entity)?;
        if wanted.is_empty() {
            return Ok(EntryCheck::InStep);
        }
        if index.shape().is_shared() {
            // Of lists, `not_listed` has left only entities that are missing in theirs. A copy without a
            // target has no row that could be repaired.
            if self.shared.copies_agree(&entity).await? != Some(false) && !index.shape().is_list() {
                return Ok(EntryCheck::InStep);
            }
            return self.add_missing(entity).await;
        }
        let (mut is_missing, mut is_taken) = (false, false);
        for wanted in wanted {
            let row = rows
                .store
                .get(&wanted.location.table, &wanted.location.key, None)
                .await?;
            if row.as_ref().is_some_and(|row| agrees(&wanted, row)) {
                continue;
            }
            if row
                .as_ref()
                .is_some_and(|row| !is_of_same_table(&wanted, row))
            {
                // An entity, or an entry of another table's index.
                is_taken = true;
                continue;
            }
            let holders = row.as_ref().map(holders).transpose()?;
            let is_anothers = holders
                .as_ref()
                .is_some_and(|holders| !holders.contains(&wanted.owner));
            if holders.is_some_and(|holders| holders[1..].contains(&wanted.owner)) {
                // A move has brought the entity here, and the move settles the entry.
                continue;
            }
            is_taken |= is_anothers;
            is_missing |= !is_anothers;
        }
        match (is_taken, is_missing) {
            // The journal writes all entries of an entity or reports the collision: the missing ones wait until the taken key is free.
            // But an entity that was changed, moved or deleted since it was read has lost the key rightly.
            (true, _) => {
                let again = rows.entities().get(entity.key()).await?;
                let is_unchanged = again.is_some_and(|again| again.etag() == entity.etag());
                Ok(if is_unchanged {
                    EntryCheck::Taken
                } else {
                    EntryCheck::InStep
                })
            }
            (false, true) => self.add_missing(entity).await,
            (false, false) => Ok(EntryCheck::InStep),
        }
    }

    /// Adds the entry of an entity, unless the entity has changed after the read. Only the journal may add it: a plain write of the
    /// entry could arrive after a later write of the entity has removed the entry.
    async fn add_missing(&self, entity: Entity) -> Result<EntryCheck> {
        let again = self.rows.entities().get(entity.key()).await?;
        let Some(again) = again.filter(|e| e.etag() == entity.etag()) else {
            return Ok(EntryCheck::InStep);
        };
        if self.mode == ScrubMode::Report {
            let is_taken =
                self.index.shape().is_list() && self.shared.has_taken_lists(&again).await?;
            return Ok(if is_taken {
                EntryCheck::Taken
            } else {
                EntryCheck::Missing
            });
        }
        match self.changes.rewrite(again).await {
            Ok(true) => Ok(EntryCheck::Missing),
            // The entity was deleted or moved away.
            Ok(false) => Ok(EntryCheck::InStep),
            Err(e) if e.is_unique_violation() || e.is_key_collision() => Ok(EntryCheck::Taken),
            Err(e) => Err(e),
        }
    }
}

/// The result of checking an entity's entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryCheck {
    /// The entry exists, or the entity has just changed.
    InStep,
    /// The entity had no entry.
    Missing,
    /// The entry's key belongs to another entity.
    Taken,
}

/// Whether a row is an entry of an index of the same table.
fn is_of_same_table(wanted: &Entry, row: &Entity) -> bool {
    Entry::index_of(row)
        .is_some_and(|index| split_entry_id(index).1 == split_entry_id(&wanted.index).1)
}

/// Whether a row is the entry: the same owner and payload, and no property of an older payload.
fn agrees(wanted: &Entry, row: &Entity) -> bool {
    let wanted = wanted.to_entity();
    let payload = row
        .properties()
        .iter()
        .filter(|p| !is_unique_row_property(p.name()));
    // The comparison includes marks: an older entry with a plaintext value of an encrypted property is written again.
    wanted
        .properties()
        .iter()
        .all(|p| row.properties().find(p.name()) == Some(p))
        && payload.count() == wanted.properties().iter().count()
}
