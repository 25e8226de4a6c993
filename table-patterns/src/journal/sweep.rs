//! Finding what crashes left without a queue: a scan.

use std::collections::BTreeSet;
use std::time::Duration;

use table_core::model::{Entity, SYSTEM_PREFIX, TableName, Ticks};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, Result, TableStoreExt as _};
use uuid::Uuid;

use super::Journal;
use super::recover::Progress;
use super::row::{Evidence, JournalRow, WriteId, read};
use super::state::States;
use super::unique::UniqueRow;
use crate::clock::after;
use crate::index::{Entry, Location};

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Writes whose entries it applied.
    pub applied: usize,
    /// Writes that another applier is busy with, or that it could not finish.
    pub left: usize,
    /// Old abort rows that it removed.
    pub aborts_removed: usize,
    /// Reservations of writes that never committed, which it released.
    pub released: usize,
}

impl Journal {
    /// Finishes every write that a crash left, releases reservations of given-up writes in the tables
    /// of unique entries named here, and removes abort rows older than `keep_aborts` (days, not
    /// minutes: an abort row must outlive the writer that it stopped; their age is the one thing for which
    /// the clocks of the store and of this machine meet).
    ///
    /// Cost: a scan of the journal's table and of each unique table (requests per 1,000 entities), one
    /// lease of waiting, and 4 + remote partitions requests per write found.
    ///
    /// # Errors
    /// The storage's. Errors of single writes are traced: the others go on.
    pub async fn sweep(&self, unique_tables: &[TableName], keep_aborts: Duration) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        let (journal, aborts) = self.journal_rows().await?;
        self.sweep_journal(journal, &mut report).await?;
        self.maintainer.prepare(self.store()).await?;
        for table in unique_tables.iter().collect::<BTreeSet<_>>() {
            for row in self.pending_rows(table).await? {
                report.released += usize::from(self.sweep_reservation(table, &row).await?);
            }
        }
        for abort in aborts {
            report.aborts_removed += usize::from(self.sweep_abort(&abort, keep_aborts).await?);
        }
        Ok(report)
    }

    /// The journal rows, and the abort rows.
    async fn journal_rows(&self) -> Result<(Vec<JournalRow>, Vec<Entity>)> {
        let filter = Filter::starts_with(Filter::ROW_KEY, &format!("{SYSTEM_PREFIX}j_"));
        let rows = self.store.query_all(&self.table, &Query::new().with_filter(filter)).await?;
        let (mut journal, mut aborts) = (Vec::new(), Vec::new());
        for row in rows {
            let Some(id) = id_of(&row) else { continue };
            match read(id, &row)? {
                Evidence::Journal(row) => journal.push(row),
                Evidence::Abort => aborts.push(row),
            }
        }
        Ok((journal, aborts))
    }

    async fn pending_rows(&self, table: &TableName) -> Result<Vec<Entity>> {
        let filter = Filter::eq(super::unique::PENDING, true);
        let rows = self.store.query_all(table, &Query::new().with_filter(filter)).await?;
        Ok(rows.into_iter().filter(|row| Entry::index_of(row).is_some()).collect())
    }

    /// Watches all rows together for one lease, then finishes each.
    async fn sweep_journal(&self, rows: Vec<JournalRow>, report: &mut SweepReport) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.watch().await;
        for row in rows {
            let id = row.id;
            match self.finish(row).await {
                Ok(Progress::Done) => report.applied += 1,
                Ok(Progress::Later(_)) => report.left += 1,
                Err(error) => {
                    tracing::warn!(%error, write = %id, "a write was not finished");
                    report.left += 1;
                }
            }
        }
        Ok(())
    }

    /// Whether an abort row was old enough and was removed.
    async fn sweep_abort(&self, row: &Entity, keep: Duration) -> Result<bool> {
        let (Some(etag), Some(written)) = (row.etag(), row.timestamp()) else { return Ok(false) };
        if after(written, keep) > Ticks::now() {
            return Ok(false);
        }
        match self.store.write(&self.table, Operation::Delete(row.key().clone(), etag.into())).await {
            Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Whether a pending row was released: its write has not committed and now never will.
    async fn sweep_reservation(&self, table: &TableName, entity: &Entity) -> Result<bool> {
        let row = UniqueRow::read(entity)?;
        let Some(Evidence::Abort) = self.abort(row.ticket, row.owner.partition()).await? else {
            return Ok(false);
        };
        let at = Location { table: table.clone(), key: entity.key().clone() };
        self.settle(&at, row.ticket, &mut States::new(vec![row.owner])).await?;
        Ok(true)
    }
}

fn id_of(entity: &Entity) -> Option<WriteId> {
    let text = entity.key().row().strip_prefix(SYSTEM_PREFIX)?.strip_prefix("j_")?;
    Uuid::try_parse(text).ok().map(WriteId::from_uuid)
}
