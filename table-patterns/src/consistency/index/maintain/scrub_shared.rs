//! Scrubs rows that hold the entries of several entities.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, IfMatch, Key};
use table_core::query::{Filter, Query};
use table_core::store::{Error, ErrorKind, Operation, Result};
use tokio::time::{Instant, sleep, sleep_until};

use super::scrub::{ScrubMode, ScrubReport};
use crate::entry::shared::{ListRow, Members, Merge, copies_agree, copy_owner, is_chunk, list_of};
use crate::entry::{Entry, Index, Location, Shape};
use crate::index::handle::IndexedEntities;
use crate::index::states::waiting::{Waiting, WaitingFor};
use crate::journal::Lease;

/// Attempts to write a row that writers change.
const ROUNDS: u32 = 30;

/// Whether a list can never be read.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Storage(_) | ErrorKind::Decode(_))
}

fn is_unsupported(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported { .. })
}

impl IndexedEntities {
    /// A query for the rows that an index has written.
    pub(crate) fn rows_of(index: &Index) -> Query {
        Query::new().with_filter(match index.shape() {
            Shape::Copy { prefix, .. } => Filter::ge(&format!("{prefix}{}", Entry::OWNER_ROW), ""),
            _ => Filter::eq(Entry::INDEX, index.id()),
        })
    }

    /// Checks a row of lists, or an entity with copies, for dangling entries.
    pub(crate) async fn check_shared(
        &self,
        index: &Index,
        row: Entity,
        mode: ScrubMode,
        report: &mut ScrubReport,
    ) -> Result<()> {
        if is_chunk(&row) {
            report.dangling += usize::from(self.check_chunk(index, &row, mode).await?);
            return Ok(());
        }
        let at = self.location(index, row.key());
        let Some(members) = self.owners_in(index, &at, &row).await? else {
            report.dangling += usize::from(self.remove_damaged(&at, &row, mode).await?);
            return Ok(());
        };
        report.entries += members.len();
        let dangling = self.owners_without_entry(index, &at, members).await?;
        if dangling.is_empty() {
            return Ok(());
        }
        report.dangling += match mode {
            ScrubMode::Report => dangling.len(),
            ScrubMode::Repair => self.remove_entries(index, &at, dangling).await?,
        };
        Ok(())
    }

    /// The entities that a row refers to; `None` if the row cannot be read.
    async fn owners_in(&self, index: &Index, at: &Location, row: &Entity) -> Result<Option<Vec<Key>>> {
        if let Shape::Copy { prefix, .. } = index.shape() {
            return Ok(copy_owner(row, prefix).map(|owner| vec![owner]));
        }
        match self.journal.shared().members_of(at, row).await {
            Ok(members) => Ok(members.as_ref().and_then(Members::keys)),
            // A list in a newer format is not damaged: the program that wrote it can read it.
            Err(error) if error.is_transient() || error.is_ambiguous() || is_unsupported(&error) => {
                Err(error)
            }
            Err(_) => Ok(None),
        }
    }

    /// The owners without an entry at a location.
    async fn owners_without_entry(&self, index: &Index, at: &Location, owners: Vec<Key>) -> Result<Vec<Key>> {
        let checks = stream::iter(owners).map(|owner| async move {
            let entity = self.read(&owner).await?;
            let there = entity.map_or(Ok(false), |entity| self.is_at(index, &entity, at))?;
            Ok((!there).then_some(owner))
        });
        checks.buffered(self.at_once()).try_filter_map(|found| async move { Ok(found) }).try_collect().await
    }

    /// Removes entries from a row within a lease: a blob that is named after the lease may have been collected
    /// before.
    async fn remove_entries(&self, index: &Index, at: &Location, owners: Vec<Key>) -> Result<usize> {
        let lease = Lease::start(self.options.timing);
        self.while_leased(lease, self.remove_entries_now(index, at, owners)).await
    }

    /// Removes entries from a row. The order is essential: the row is read, **then** the entities, then the row
    /// is written under its ETag. The loop repeats after a conflict, because other writers of the row do not
    /// remove dangling entries. Returns the number removed.
    async fn remove_entries_now(&self, index: &Index, at: &Location, mut owners: Vec<Key>) -> Result<usize> {
        for round in 0..ROUNDS {
            let mut merge = Merge::new(at.clone(), index.id().to_owned(), index.shape().clone());
            merge.gone = owners;
            let prepared = self.journal.shared().prepare(&merge).await?;
            owners = self.owners_without_entry(index, at, merge.gone.clone()).await?;
            if owners.len() < merge.gone.len() || prepared.operations.is_empty() {
                // After the row was read, an entity was added again or an entry was removed.
                let is_gone = prepared.operations.is_empty();
                self.journal.shared().refused([prepared]).await;
                if is_gone || owners.is_empty() {
                    return Ok(0);
                }
            } else if self.journal.shared().send(at, prepared).await? {
                return Ok(owners.len());
            }
            let most = Duration::from_millis(5 << round.min(4));
            sleep(most.mul_f64(fastrand::f64())).await;
        }
        Ok(0)
    }

    /// Removes a list that cannot be read, unless it has just changed. Its references are missing afterwards.
    async fn remove_damaged(&self, at: &Location, row: &Entity, mode: ScrubMode) -> Result<bool> {
        let now = self.store().get(&at.table, &at.key, None).await?;
        if now.is_none_or(|now| now.etag() != row.etag()) {
            return Ok(false);
        }
        if mode == ScrubMode::Report {
            return Ok(true);
        }
        self.delete_unchanged(at, row).await
    }

    /// Whether no list names a chunk.
    async fn check_chunk(&self, index: &Index, row: &Entity, mode: ScrubMode) -> Result<bool> {
        let key = Key::new(row.key().partition(), list_of(row).unwrap_or_default())?;
        let head = self.store().get(&self.index_table(index), &key, None).await?;
        let named = match head.as_ref().map(ListRow::read) {
            Some(Ok(ListRow::Chunks(directory))) => directory.names(row.key()),
            Some(Err(error)) if is_unsupported(&error) => return Err(error),
            _ => false,
        };
        if named || mode == ScrubMode::Report {
            return Ok(!named);
        }
        self.delete_unchanged(&self.location(index, row.key()), row).await
    }

    pub(crate) async fn delete_unchanged(&self, at: &Location, row: &Entity) -> Result<bool> {
        let condition = row.etag().map_or(IfMatch::Any, IfMatch::from);
        match self.store().write(&at.table, Operation::Delete(at.key.clone(), condition)).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_conflict() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The entities of a page that are missing in their lists.
    pub(crate) async fn not_listed(&self, index: &Index, entities: Vec<Entity>) -> Result<Vec<Entity>> {
        let mut by_list: BTreeMap<Location, Vec<Entity>> = BTreeMap::new();
        for entity in entities {
            for entry in index.entries(self.table(), &entity)? {
                by_list.entry(entry.location).or_default().push(entity.clone());
            }
        }
        let reads = stream::iter(by_list).map(|(at, entities)| async move {
            let members = match self.journal.shared().members(&at, index.id()).await {
                Err(error) if is_damage(&error) => Members::default(),
                members => members?,
            };
            let missing = entities.into_iter().filter(|e| !members.contains(e.key()));
            Ok::<_, Error>(missing.collect::<Vec<_>>())
        });
        let missing: Vec<_> = reads.buffered(self.at_once()).try_collect().await?;
        // An entity in several lists is checked once.
        let mut missing = missing.concat();
        missing.sort_by(|a, b| a.key().cmp(b.key()));
        missing.dedup_by(|a, b| a.key() == b.key());
        Ok(missing)
    }

    /// Whether the targets of an entity's copies have the copied properties; `None` if no target exists.
    pub(crate) async fn copies_agree(&self, index: &Index, entity: &Entity) -> Result<Option<bool>> {
        let Shape::Copy { prefix, fields } = index.shape() else { return Ok(None) };
        let mut agree = None;
        for entry in index.entries(self.table(), entity)? {
            let target = self.store().get(&entry.location.table, &entry.location.key, None).await?;
            if let Some(target) = target {
                let same = copies_agree(&target, &entry, prefix, fields);
                agree = Some(same && agree != Some(false));
            }
        }
        Ok(agree)
    }
}

/// Blobs of lists that crashes left.
impl IndexedEntities {
    /// Deletes blobs that crashes left and that no list names; returns their number. Waits for the longest
    /// lease plus the longest request of the registered processes: after that, every write that was under way
    /// is finished or stopped.
    ///
    /// # Errors
    /// The index is unknown; an error of the store.
    pub async fn collect_blobs(&self, index: &str) -> Result<usize> {
        self.set.check_writes()?;
        let index = self.set.find(index)?;
        self.collect_blobs_of(&index, &mut |_| ()).await
    }

    /// As [`collect_blobs`](Self::collect_blobs); reports the wait.
    pub(crate) async fn collect_blobs_of(
        &self,
        index: &Index,
        tell: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<usize> {
        if !index.shape().needs_blobs() {
            return Ok(0);
        }
        let slowest = self.set.slowest().durations;
        let wait = async {
            let until = Instant::now() + slowest.lease + slowest.request;
            tell(Waiting { for_what: WaitingFor::Blobs, process: None, until });
            sleep_until(until).await;
        };
        self.journal.shared().collect_blobs(index.id(), &self.index_table(index), wait).await
    }
}
