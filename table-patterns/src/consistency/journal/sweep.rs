//! The sweep: finds unfinished writes by a scan, without a queue (`docs/protocol.md`, *Recovery*).

use std::collections::BTreeSet;
use std::time::Duration;

use table_core::model::{Entity, Key, TableName, Ticks};
use table_core::query::{Filter, Query};
use table_core::store::{Error, Operation, Result, TableStoreExt as _};
use tokio::time::{Instant, sleep_until};

use super::entity_table::{EntityTable, States};
use super::lease::Timing;
use super::moving::Moves;
use super::recover::{RecoveryProgress, UnfinishedWrites};
use super::row::{Evidence, JournalRow, JournalRows, damage, read};
use super::unique::{By, UniqueKeys, UniqueRow};
use crate::clock::after;
use crate::entity_rows::{Mark, WriteId};
use crate::entry::row_properties::OWNER_PENDING;
use crate::entry::{Entry, Location};
use crate::rows::accept_applied;

/// The result of a sweep.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct SweepReport {
    /// Writes whose entries the sweep has applied.
    pub applied: usize,
    /// Writes that another applier works on.
    pub left: usize,
    /// Rows of writes, reservations, moves and abort rows whose recovery failed, damaged rows included.
    pub failed: usize,
    /// The first 100 of these rows, with the reasons.
    pub failures: Vec<(Key, Error)>,
    /// Old abort rows that the sweep has removed.
    pub aborts_removed: usize,
    /// Reservations of uncommitted writes that the sweep has released.
    pub released: usize,
    /// Marks of uncommitted moves that the sweep has removed.
    pub moves_given_up: usize,
    /// Entries of applied writes that the sweep has left out, because rows of others have their keys. A scrub reports them as
    /// [taken keys](crate::index::ScrubReport::taken_keys), and adds them when the rows are gone.
    pub collisions: usize,
    /// The first 100 of these entries: the key of the journal row, and the error with the key of the entry.
    pub collided: Vec<(Key, Error)>,
}

impl SweepReport {
    /// The number of rows in a report.
    pub(crate) const LISTED: usize = 100;

    /// The value of a result. An error is traced and counted.
    fn unless_failed<T>(&mut self, key: &Key, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        tracing::warn!(%error, row = %key, "the recovery of a row failed; the next sweep tries again");
        self.failed += 1;
        if self.failures.len() < Self::LISTED {
            self.failures.push((key.clone(), error));
        }
        None
    }

    /// Counts the entries that were left out of a write, by the key of its journal row.
    fn collided(&mut self, key: &Key, collisions: Vec<Error>) {
        self.collisions += collisions.len();
        for error in collisions {
            tracing::warn!(%error, row = %key, "the recovery of a write has left an entry out: a scrub adds the entry when its row is free");
            if self.collided.len() < Self::LISTED {
                self.collided.push((key.clone(), error));
            }
        }
    }
}

/// Finds unfinished writes by scans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep<'a> {
    pub(super) entities: &'a EntityTable,
    pub(super) rows: JournalRows<'a>,
    pub(super) unique: UniqueKeys<'a>,
    pub(super) moves: Moves<'a>,
    pub(super) unfinished: UnfinishedWrites<'a>,
    pub(super) timing: Timing,
}

impl Sweep<'_> {
    /// See [`Journal::sweep`](super::Journal::sweep).
    pub(super) async fn run(
        &self,
        unique_tables: &[TableName],
        keep_aborts: Duration,
    ) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        let (journal, mut aborts, marked) = self.journal_rows(&mut report).await?;
        // Two clocks, so only a rough age. What makes the removal safe is the wait at the end, on this process's clock alone.
        aborts.retain(|row| {
            row.timestamp()
                .is_some_and(|written| after(written, keep_aborts) <= Ticks::now())
        });
        // From now on, because the scan has found every abort row of the list by this moment.
        let watched_since = Instant::now();
        // Committed writes first: finishing them settles their reservations, so the later steps find only those
        // of uncommitted writes.
        self.sweep_journal(journal, &mut report).await?;
        for entity in marked {
            let unmarked = self.sweep_mark(&entity).await;
            let unmarked = report
                .unless_failed(entity.key(), unmarked)
                .unwrap_or(false);
            report.moves_given_up += usize::from(unmarked);
        }
        // A table that was opened to read refuses a sweep, also one that finds no reservation.
        drop(self.entities.maintainer.prepare().await?);
        for table in unique_tables.iter().collect::<BTreeSet<_>>() {
            for row in self.pending_rows(table).await? {
                // Kept until the release has ended: a release derives the entries of the owner. One permission for each row, because the
                // states may expire before the last one. The loop ends before the wait below, for which no change of a state must wait.
                let _permission = self.entities.maintainer.prepare().await?;
                let released = self.sweep_reservation(table, &row).await;
                report.released +=
                    usize::from(report.unless_failed(row.key(), released).unwrap_or(false));
            }
        }
        // A writer that an abort row has stopped may still send its commit within its lease.
        if !aborts.is_empty() {
            let longest = self
                .timing
                .lease()
                .max(self.entities.maintainer.longest_lease());
            if !self.unfinished.until_lone_writers_end(longest).await {
                sleep_until(watched_since + longest).await;
            }
        }
        for abort in aborts {
            let removed = self.sweep_abort(&abort).await;
            report.aborts_removed +=
                usize::from(report.unless_failed(abort.key(), removed).unwrap_or(false));
        }
        Ok(report)
    }

    /// The journal rows, the abort rows, and the marked entities.
    async fn journal_rows(
        &self,
        report: &mut SweepReport,
    ) -> Result<(Vec<JournalRow>, Vec<Entity>, Vec<Entity>)> {
        let filter = WriteId::rows().or(Mark::filter());
        let rows = self
            .entities
            .store
            .query_all(&self.entities.name, &Query::new().with_filter(filter))
            .await?;
        let (mut journal, mut aborts, mut marked) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            if let Some(error) = damage(&row) {
                report.unless_failed::<()>(row.key(), Err(error));
                continue;
            }
            let Some(id) = WriteId::of_key(row.key()) else {
                marked.push(row);
                continue;
            };
            match report.unless_failed(row.key(), read(id, &row)) {
                Some(Evidence::Journal(row)) => journal.push(row),
                Some(Evidence::Abort) => aborts.push(row),
                None => {}
            }
        }
        Ok((journal, aborts, marked))
    }

    async fn pending_rows(&self, table: &TableName) -> Result<Vec<Entity>> {
        let filter = Filter::eq(OWNER_PENDING, true);
        let rows = self
            .entities
            .store
            .query_all(table, &Query::new().with_filter(filter))
            .await?;
        // An entity of the table may have a property of that name, too, and so has a reservation of another table's index.
        // A damaged one is reported, whosever it is.
        let is_damaged = |row: &Entity| Entry::index_of(row).is_some() && damage(row).is_some();
        let is_ours = |row: &Entity| self.entities.is_of_own_index(table, row);
        Ok(rows
            .into_iter()
            .filter(|row| is_ours(row) || is_damaged(row))
            .collect())
    }

    /// Watches all rows together for the longest of their leases, then finishes each.
    async fn sweep_journal(&self, rows: Vec<JournalRow>, report: &mut SweepReport) -> Result<()> {
        let Some(longest) = rows.iter().map(|row| row.lease).max() else {
            return Ok(());
        };
        self.unfinished.watch(longest).await;
        for row in rows {
            let key = row.key.clone();
            let Some(finished) = report.unless_failed(&key, self.unfinished.finish(row).await)
            else {
                continue;
            };
            match finished.progress {
                RecoveryProgress::Done => report.applied += 1,
                RecoveryProgress::Later(_) => report.left += 1,
            }
            report.collided(&key, finished.collisions);
        }
        Ok(())
    }

    /// Removes an abort row. Returns whether it was there.
    async fn sweep_abort(&self, row: &Entity) -> Result<bool> {
        let Some(etag) = row.etag() else {
            return Ok(false);
        };
        let delete = Operation::Delete(row.key().clone(), etag.into());
        match accept_applied(self.entities.store.write(&self.entities.name, delete).await) {
            Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Removes the mark of an entity whose move is not committed; the move can never commit afterwards. Returns
    /// whether the mark was removed.
    async fn sweep_mark(&self, entity: &Entity) -> Result<bool> {
        let Some(mark) = Mark::of(entity) else {
            return Ok(false);
        };
        match self.rows.abort(mark.write, &mark.partition).await? {
            Some(Evidence::Abort) => self.moves.unmark(entity.key(), mark.write).await,
            _ => Ok(false),
        }
    }

    /// Releases a reservation whose write is not committed; the write can never commit afterwards. Returns whether
    /// the reservation was released.
    async fn sweep_reservation(&self, table: &TableName, entity: &Entity) -> Result<bool> {
        let row = UniqueRow::read(entity)?;
        let Some(Evidence::Abort) = self.rows.abort(row.write, row.partition()).await? else {
            return Ok(false);
        };
        let at = Location {
            table: table.clone(),
            key: entity.key().clone(),
        };
        self.unique
            .settle(
                &at,
                By::Release(row.write),
                &mut States::new(vec![row.owner]),
            )
            .await?;
        Ok(true)
    }
}
