//! Finding what crashes left without a queue: a scan.

use std::collections::BTreeSet;
use std::time::Duration;

use table_core::model::{Entity, IfMatch, SYSTEM_PREFIX, TableName, Ticks};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, Result, TableStoreExt as _};
use uuid::Uuid;

use super::Journal;
use super::recover::Progress;
use super::row::{Evidence, WriteId, read};
use super::state::States;
use super::unique::UniqueRow;
use crate::clock::after;
use crate::index::Location;

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
    /// minutes: an abort row must outlive every request of the writer it stopped).
    ///
    /// Cost: a scan of the journal's table and of each unique table (requests per 1,000 entities), one
    /// lease of waiting and 4 + remote partitions requests per write found.
    ///
    /// # Errors
    /// The storage's.
    pub async fn sweep(&self, unique_tables: &[TableName], keep_aborts: Duration) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        for entity in self.journal_rows().await? {
            self.sweep_row(&entity, keep_aborts, &mut report).await?;
        }
        for table in unique_tables.iter().collect::<BTreeSet<_>>() {
            for row in self.pending_rows(table).await? {
                report.released += usize::from(self.sweep_reservation(table, &row).await?);
            }
        }
        Ok(report)
    }

    async fn journal_rows(&self) -> Result<Vec<Entity>> {
        let filter = Filter::starts_with(Filter::ROW_KEY, &format!("{SYSTEM_PREFIX}j_"));
        self.store.query_all(&self.table, &Query::new().with_filter(filter)).await
    }

    async fn pending_rows(&self, table: &TableName) -> Result<Vec<Entity>> {
        let filter = Filter::eq(super::unique::PENDING, true);
        self.store.query_all(table, &Query::new().with_filter(filter)).await
    }

    async fn sweep_row(
        &self,
        entity: &Entity,
        keep_aborts: Duration,
        report: &mut SweepReport,
    ) -> Result<()> {
        let Some(id) = id_of(entity) else { return Ok(()) };
        match read(id, entity)? {
            Evidence::Journal(row) => match self.take_over_row(row).await? {
                Progress::Done => report.applied += 1,
                Progress::Later(_) => report.left += 1,
            },
            Evidence::Abort { etag: Some(etag), written: Some(written) } => {
                if after(written, keep_aborts) <= Ticks::now() {
                    let delete = Operation::Delete(entity.key().clone(), IfMatch::Exactly(etag));
                    self.store.write(&self.table, delete).await?;
                    report.aborts_removed += 1;
                }
            }
            Evidence::Abort { .. } => {}
        }
        Ok(())
    }

    /// Whether a pending row was released: its write has not committed and now never will.
    async fn sweep_reservation(&self, table: &TableName, entity: &Entity) -> Result<bool> {
        let row = UniqueRow::read(entity)?;
        if self.abort(row.ticket, row.owner.partition()).await?.is_journal() {
            return Ok(false);
        }
        let at = Location { table: table.clone(), key: entity.key().clone() };
        self.settle(&at, row.ticket, &mut States::new(vec![row.owner])).await?;
        Ok(true)
    }
}

fn id_of(entity: &Entity) -> Option<WriteId> {
    let text = entity.key().row().strip_prefix(SYSTEM_PREFIX)?.strip_prefix("j_")?;
    Uuid::try_parse(text).ok().map(WriteId::from_uuid)
}
