//! Scrubs rows that hold the entries of several entities.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, Key};
use table_core::store::{Error, ErrorKind, Result};
use tokio::time::sleep;

use super::report::{ScrubMode, ScrubReport};
use crate::entry::shared::{
    ListRow, Members, Merge, contended, copies_agree, copy_owner, is_chunk, list_of,
};
use crate::entry::{Index, Location, Shape};
use crate::index::rows::IndexedRows;
use crate::journal::{Lease, Timing};
use crate::rows::random_pause;

/// Attempts to read or write a row that writers change.
const ROUNDS: u32 = 30;

/// Compares lists, and entities with copies, with the entities whose entries they hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedScrub<'a> {
    pub(super) rows: IndexedRows<'a>,
    pub(super) timing: Timing,
    pub(super) index: &'a Index,
    pub(super) mode: ScrubMode,
}

/// The entities that a row of lists, or an entity with copies, refers to.
enum Owners {
    Of(Vec<Key>),
    /// The row has been deleted.
    NoRow,
    /// The row cannot be read.
    Damaged(Entity),
}

impl SharedScrub<'_> {
    /// Checks a row of lists, or an entity with copies, for dangling entries.
    pub(super) async fn check_row(&self, row: Entity, report: &mut ScrubReport) -> Result<()> {
        if is_chunk(&row) {
            report.dangling += usize::from(self.remove_chunk_if_dangling(&row).await?);
            return Ok(());
        }
        let at = self.rows.location(self.index, row.key());
        let members = match self.current_owners(&at, row).await? {
            Owners::Of(members) => members,
            Owners::NoRow => return Ok(()),
            Owners::Damaged(row) => {
                report.dangling += usize::from(self.remove_damaged(&at, &row).await?);
                return Ok(());
            }
        };
        report.entries += members.len();
        let dangling = self.owners_without_entry(&at, members).await?;
        if dangling.is_empty() {
            return Ok(());
        }
        report.dangling += match self.mode {
            ScrubMode::Report => dangling.len(),
            ScrubMode::Repair => {
                // Within a lease: a blob that is named after the lease may have been collected before.
                let lease = Lease::start(self.timing);
                self.timing
                    .until(lease.cut_off(), self.remove_entries(&at, dangling))
                    .await?
            }
        };
        Ok(())
    }

    /// The entities that a row refers to. A writer replaces the row of a list, then deletes the blob or the chunks
    /// that it replaced. So a list that cannot be read may have changed since its row was read, and is read again:
    /// the writer changed its own references only. A row that still has the same ETag is damaged.
    async fn current_owners(&self, at: &Location, mut row: Entity) -> Result<Owners> {
        for _ in 0..ROUNDS {
            if let Some(owners) = self.owners_in(at, &row).await? {
                return Ok(Owners::Of(owners));
            }
            let Some(now) = self.rows.store.get(&at.table, &at.key, None).await? else {
                return Ok(Owners::NoRow);
            };
            if now.etag() == row.etag() {
                return Ok(Owners::Damaged(row));
            }
            row = now;
        }
        Err(contended(at))
    }

    /// The entities that a row refers to; `None` if the row cannot be read.
    async fn owners_in(&self, at: &Location, row: &Entity) -> Result<Option<Vec<Key>>> {
        if let Shape::Copy { prefix, .. } = self.index.shape() {
            let owner = copy_owner(row, prefix, &self.rows.entry_id(self.index));
            return Ok(Some(owner.own().into_iter().collect()));
        }
        match self.rows.shared.members_of(at, row).await {
            Ok(members) => Ok(members.as_ref().and_then(Members::keys)),
            // A list in a newer format is not damaged: the program that wrote it can read it.
            Err(error)
                if error.is_transient() || error.is_ambiguous() || is_unsupported(&error) =>
            {
                Err(error)
            }
            Err(_) => Ok(None),
        }
    }

    /// The owners without an entry at a location.
    async fn owners_without_entry(&self, at: &Location, owners: Vec<Key>) -> Result<Vec<Key>> {
        let checks = stream::iter(owners).map(|owner| async move {
            let entity = self.rows.entities().get(&owner).await?;
            let has_entry = |entity| self.index.has_entry_at(self.rows.table, &entity, at);
            let there = entity.map_or(Ok(false), has_entry)?;
            Ok((!there).then_some(owner))
        });
        let found = checks
            .buffered(self.rows.concurrency)
            .try_filter_map(|found| async move { Ok(found) });
        found.try_collect().await
    }

    /// Removes entries from a row. The order is essential: the row is read, **then** the entities, then the row
    /// is written under its ETag. The loop repeats after a conflict, because other writers of the row do not
    /// remove dangling entries. Returns the number removed.
    async fn remove_entries(&self, at: &Location, mut owners: Vec<Key>) -> Result<usize> {
        let (index, shared) = (self.index, self.rows.shared);
        for round in 0..ROUNDS {
            let mut merge =
                Merge::new(at.clone(), self.rows.entry_id(index), index.shape().clone());
            merge.gone = owners;
            let prepared = shared.prepare(&merge).await?;
            owners = self.owners_without_entry(at, merge.gone.clone()).await?;
            if owners.len() < merge.gone.len() || prepared.operations.is_empty() {
                // After the row was read, an entity was added again or an entry was removed.
                let is_gone = prepared.operations.is_empty();
                shared.discard_new_blobs([prepared]).await;
                if is_gone || owners.is_empty() {
                    return Ok(0);
                }
            } else if shared.send(at, prepared).await? {
                return Ok(owners.len());
            }
            sleep(random_pause(round, 4)).await;
        }
        // Not 0: a build would take the list for one without dangling references.
        Err(contended(at))
    }

    /// Removes a list that cannot be read, unless it changes. Its references are missing afterwards.
    async fn remove_damaged(&self, at: &Location, row: &Entity) -> Result<bool> {
        match self.mode {
            ScrubMode::Report => Ok(true),
            ScrubMode::Repair => self.rows.delete_unchanged(at, row).await,
        }
    }

    /// Deletes a chunk that no list names, if the scrub repairs. Returns whether no list names the chunk.
    async fn remove_chunk_if_dangling(&self, row: &Entity) -> Result<bool> {
        let at = self.rows.location(self.index, row.key());
        let key = Key::new(row.key().partition(), list_of(row).unwrap_or_default())?;
        let list = self.rows.store.get(&at.table, &key, None).await?;
        let named = match list.as_ref().map(ListRow::read) {
            Some(Ok(ListRow::Chunks(directory))) => directory.names(row.key()),
            Some(Err(error)) if is_unsupported(&error) => return Err(error),
            _ => false,
        };
        if named || self.mode == ScrubMode::Report {
            return Ok(!named);
        }
        self.rows.delete_unchanged(&at, row).await
    }

    /// The entities of a page that are missing in their lists.
    pub(super) async fn not_listed(&self, entities: Vec<Entity>) -> Result<Vec<Entity>> {
        let (index, rows) = (self.index, self.rows);
        let mut by_list: BTreeMap<Location, Vec<Entity>> = BTreeMap::new();
        for entity in entities {
            for entry in index.entries(rows.table, &entity)? {
                by_list
                    .entry(entry.location)
                    .or_default()
                    .push(entity.clone());
            }
        }
        let reads = stream::iter(by_list).map(|(at, entities)| async move {
            let members = match rows.shared.members(&at, &rows.entry_id(index)).await {
                // A row of another index, or an entity, is in the place of the list.
                Err(error) if is_damage(&error) || error.is_key_collision() => Members::default(),
                members => members?,
            };
            let missing = entities.into_iter().filter(|e| !members.contains(e.key()));
            Ok::<_, Error>(missing.collect::<Vec<_>>())
        });
        let missing: Vec<_> = reads.buffered(rows.concurrency).try_collect().await?;
        // An entity in several lists is checked once.
        let mut missing = missing.concat();
        missing.sort_by(|a, b| a.key().cmp(b.key()));
        missing.dedup_by(|a, b| a.key() == b.key());
        Ok(missing)
    }

    /// Whether rows that are no lists of the index are in the places of an entity's lists. 1 request for each list.
    pub(super) async fn has_taken_lists(&self, entity: &Entity) -> Result<bool> {
        for entry in self.index.entries(self.rows.table, entity)? {
            let (at, index) = (&entry.location, self.rows.entry_id(self.index));
            match self.rows.shared.members(at, &index).await {
                Err(error) if error.is_key_collision() => return Ok(true),
                Err(error) if !is_damage(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Whether the targets of an entity's copies have the copied properties; `None` if no target exists.
    pub(super) async fn copies_agree(&self, entity: &Entity) -> Result<Option<bool>> {
        let Shape::Copy { prefix, fields } = self.index.shape() else {
            return Ok(None);
        };
        let mut agree = None;
        for entry in self.index.entries(self.rows.table, entity)? {
            let target = self
                .rows
                .store
                .get(&entry.location.table, &entry.location.key, None)
                .await?;
            if let Some(target) = target {
                let same = copies_agree(&target, &entry, prefix, fields);
                agree = Some(same && agree != Some(false));
            }
        }
        Ok(agree)
    }
}

/// Whether a list can never be read.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Storage(_) | ErrorKind::Decode(_))
}

fn is_unsupported(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported { .. })
}
