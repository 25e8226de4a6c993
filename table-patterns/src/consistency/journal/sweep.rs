//! Finding what crashes left without a queue: a scan.

use std::collections::BTreeSet;
use std::time::Duration;

use table_core::model::{Entity, Key, SYSTEM_PREFIX, TableName, Ticks};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, Result, TableStoreExt as _};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::Journal;
use super::mark::Mark;
use super::recover::Progress;
use super::row::{Evidence, JournalRow, WriteId, read};
use super::rules::Rule;
use super::state::States;
use super::unique::{By, UniqueRow};
use crate::clock::after;
use crate::index::{Entry, Location};
use crate::rows::took_effect::took_effect;

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Writes whose entries it applied.
    pub applied: usize,
    /// Writes that another applier is busy with; and writes, reservations and abort rows that it could not
    /// handle.
    pub left: usize,
    /// Old abort rows that it removed.
    pub aborts_removed: usize,
    /// Reservations of writes that never committed, which it released.
    pub released: usize,
    /// Entities that were marked by moves that never committed, and are not any more.
    pub moves_given_up: usize,
}

impl SweepReport {
    /// What came of one row; an error is traced and counted.
    fn unless_failed<T>(&mut self, key: &Key, result: Result<T>) -> Option<T> {
        result
            .inspect_err(|error| {
                tracing::warn!(%error, row = %key, "a row was not swept");
                self.left += 1;
            })
            .ok()
    }
}

impl Journal {
    /// Finishes every write that a crash left, gives up the moves that never committed, releases reservations of given-up writes
    /// in the tables of unique entries named here, and removes abort rows older than `keep_aborts`, by the clocks of the
    /// store and of this machine. Whatever these say, an abort row stays until this process has watched it
    /// for the longest lease of any process: it must outlive the writer that it stopped.
    ///
    /// A move that goes on while it is swept may be given up, and starts over.
    ///
    /// Cost: a scan of the journal's table and of each unique table (requests per 1,000 entities), a wait of
    /// the longest lease found, another where there are abort rows to remove, and 4 + remote partitions
    /// requests per write found.
    ///
    /// # Errors
    /// The storage's, of the scans. Errors of single writes, reservations and abort rows are traced and
    /// counted as left: the others go on.
    pub async fn sweep(&self, unique_tables: &[TableName], keep_aborts: Duration) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        let (journal, mut aborts, marked) = self.journal_rows(&mut report).await?;
        aborts
            .retain(|row| row.timestamp().is_some_and(|written| after(written, keep_aborts) <= Ticks::now()));
        let watched_since = Instant::now();
        self.sweep_journal(journal, &mut report).await?;
        for entity in marked {
            let unmarked = self.sweep_mark(&entity).await;
            let unmarked = report.unless_failed(entity.key(), unmarked).unwrap_or(false);
            report.moves_given_up += usize::from(unmarked);
        }
        let permission = self.maintainer.prepare(self.store()).await?;
        for table in unique_tables.iter().collect::<BTreeSet<_>>() {
            for row in self.pending_rows(table).await? {
                let released = self.sweep_reservation(table, &row).await;
                report.released += usize::from(report.unless_failed(row.key(), released).unwrap_or(false));
            }
        }
        drop(permission);
        if !aborts.is_empty() && self.keeps(Rule::AbortRowsStay) {
            sleep_until(watched_since + self.timing.lease().max(self.maintainer.longest_lease())).await;
        }
        for abort in aborts {
            let removed = self.sweep_abort(&abort).await;
            report.aborts_removed += usize::from(report.unless_failed(abort.key(), removed).unwrap_or(false));
        }
        Ok(report)
    }

    /// The journal rows, the abort rows, and the entities that are being moved.
    async fn journal_rows(
        &self,
        report: &mut SweepReport,
    ) -> Result<(Vec<JournalRow>, Vec<Entity>, Vec<Entity>)> {
        let filter = Filter::starts_with(Filter::ROW_KEY, &format!("{SYSTEM_PREFIX}j_")).or(Mark::filter());
        let rows = self.store.query_all(&self.table, &Query::new().with_filter(filter)).await?;
        let (mut journal, mut aborts, mut marked) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let Some(id) = id_of(&row) else {
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
        let filter = Filter::eq(super::unique::PENDING, true);
        let rows = self.store.query_all(table, &Query::new().with_filter(filter)).await?;
        Ok(rows.into_iter().filter(|row| Entry::index_of(row).is_some()).collect())
    }

    /// Watches all rows together for the longest of their leases, then finishes each.
    async fn sweep_journal(&self, rows: Vec<JournalRow>, report: &mut SweepReport) -> Result<()> {
        let Some(longest) = rows.iter().map(|row| row.lease).max() else { return Ok(()) };
        self.watch(longest).await;
        for row in rows {
            let key = row.key.clone();
            match report.unless_failed(&key, self.finish(row).await) {
                Some(Progress::Done) => report.applied += 1,
                Some(Progress::Later(_)) => report.left += 1,
                None => {}
            }
        }
        Ok(())
    }

    /// Whether an abort row was removed.
    async fn sweep_abort(&self, row: &Entity) -> Result<bool> {
        let Some(etag) = row.etag() else { return Ok(false) };
        let delete = Operation::Delete(row.key().clone(), etag.into());
        match took_effect(self.store.write(&self.table, delete).await) {
            Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Whether the mark of an entity was removed: its move has not committed and now never will.
    async fn sweep_mark(&self, entity: &Entity) -> Result<bool> {
        let Some(mark) = Mark::of(entity) else { return Ok(false) };
        match self.abort(mark.write, &mark.partition).await? {
            Some(Evidence::Abort) => self.unmark(entity.key(), mark.write).await,
            _ => Ok(false),
        }
    }

    /// Whether a pending row was released: its write has not committed and now never will.
    async fn sweep_reservation(&self, table: &TableName, entity: &Entity) -> Result<bool> {
        let row = UniqueRow::read(entity)?;
        let Some(Evidence::Abort) = self.abort(row.ticket, row.partition()).await? else {
            return Ok(false);
        };
        let at = Location { table: table.clone(), key: entity.key().clone() };
        self.settle(&at, By::Release(row.ticket), &mut States::new(vec![row.owner])).await?;
        Ok(true)
    }
}

fn id_of(entity: &Entity) -> Option<WriteId> {
    let text = entity.key().row().strip_prefix(SYSTEM_PREFIX)?.strip_prefix("j_")?;
    Uuid::try_parse(text).ok().map(WriteId::from_uuid)
}
