//! Writes entities into a table, with the entries of its indexes.

use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use table_core::model::{Entity, TableName};
use table_core::store::{Error, Operation, TableStore};
use table_patterns::bulk::{BulkOptions, BulkWriter};
use table_patterns::index::{BulkInsert, IndexOptions, IndexedEntities};

use crate::failure::{Outcomes, Result};
use crate::keys::check_keys;
use crate::layouts::check_layouts;
use crate::progress::Progress;
use crate::store::manifest;

/// What happens to an entity that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The row is skipped
    Insert,
    /// The row replaces the entity
    Upsert,
    /// The row's properties are added to the entity or replace its properties; the other properties stay
    Merge,
}

/// The outcomes of rows that several tasks count.
pub(crate) type SharedOutcomes = Arc<Mutex<Outcomes>>;

pub(crate) fn locked<T>(report: &Mutex<Outcomes>, work: impl FnOnce(&mut Outcomes) -> T) -> T {
    work(&mut report.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A table that rows are written to.
#[derive(Debug)]
pub(crate) struct RowWriter<'a> {
    pub(crate) store: &'a Arc<dyn TableStore>,
    pub(crate) table: &'a TableName,
    pub(crate) mode: Mode,
    /// Requests in flight.
    pub(crate) concurrency: usize,
}

impl RowWriter<'_> {
    /// Writes every row, and counts the outcomes. 1 request for the manifest, and 1 for each group of up to 100 rows of a partition; the
    /// requests of indexes in addition.
    pub(crate) async fn write(
        &self,
        rows: impl Stream<Item = Result<Entity, Error>> + Send + 'static,
        report: &SharedOutcomes,
        progress: &mut Progress,
    ) -> Result<()> {
        let (store, table, mode) = (self.store, self.table, self.mode);
        let manifest = manifest(&**store, table).await?;
        check_layouts(&manifest, table)?;
        check_keys(&manifest, table, &**store)?;
        if !manifest.indexes.is_empty() {
            let (store, options) = (Arc::clone(store), IndexOptions::default());
            let indexed = IndexedEntities::open(store, table.clone(), Vec::new(), options).await?;
            // The last writes leave journal rows that are cleared after their answers. Without the flush, the process could end before that and
            // leave them to a sweep.
            let written = self.write_indexed(&indexed, rows, report, progress).await;
            indexed.flush().await;
            return written;
        }
        let name = table.clone();
        let operations = rows.map_ok(move |entity| (name.clone(), operation(mode, entity)));
        // The open store repeats requests itself.
        let options = BulkOptions::default()
            .with_concurrency(self.concurrency)
            .with_retry(None);
        let writer = BulkWriter::with_options(Arc::clone(store), options);
        let mut outcomes = std::pin::pin!(writer.outcomes(operations));
        while let Some(outcome) = outcomes.try_next().await? {
            locked(report, |report| {
                report.add(&outcome.key.to_string(), outcome.result.as_ref().err())
            })?;
            progress.add(1);
        }
        Ok(())
    }

    /// Writes entities with their index entries.
    async fn write_indexed(
        &self,
        indexed: &IndexedEntities,
        rows: impl Stream<Item = Result<Entity, Error>> + Send + 'static,
        report: &SharedOutcomes,
        progress: &mut Progress,
    ) -> Result<()> {
        let (mode, options) = (
            self.mode,
            BulkInsert::default().with_concurrency(self.concurrency),
        );
        // Inserts need no old entity, so they go in groups. The other modes read it, because its entries are replaced. Both write rows
        // of one key in the order of the input.
        let mut outcomes = match mode {
            Mode::Insert => indexed.insert_all(rows, options).boxed(),
            Mode::Upsert | Mode::Merge => indexed
                .modify_all(rows, options, move |old, row| Ok(combined(mode, old, row)))
                .boxed(),
        };
        while let Some(outcome) = outcomes.try_next().await? {
            locked(report, |report| {
                report.add(&outcome.key.to_string(), outcome.result.as_ref().err())
            })?;
            progress.add(1);
        }
        Ok(())
    }
}

fn operation(mode: Mode, entity: Entity) -> Operation {
    match mode {
        Mode::Insert => Operation::Insert(entity),
        Mode::Upsert => Operation::InsertOrReplace(entity),
        Mode::Merge => Operation::InsertOrMerge(entity),
    }
}

/// The entity after a row was written to it.
fn combined(mode: Mode, old: Option<&Entity>, row: &Entity) -> Entity {
    let mut new = row.clone();
    if let (Mode::Merge, Some(old)) = (mode, old) {
        let mut properties = old.properties().clone();
        properties.merge(row.properties());
        *new.properties_mut() = properties;
    }
    new
}
