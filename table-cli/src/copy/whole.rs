//! Copies whole tables.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use table_core::store::Error;
use table_patterns::bulk::{
    BulkOptions, CopiedTable, Difference, StoreCopy, StoreDifference, copy_store,
};

use super::{Copied, CopyArgs, Stores, TablePair};
use crate::blobs::root;
use crate::failure::{Failure, Result};
use crate::output::remark;
use crate::progress::{Progress, SharedProgress};

impl CopyArgs {
    /// Copies whole tables, as they are stored.
    pub(super) async fn copy_tables(&self, stores: &Stores<'_>, pairs: &[TablePair]) -> Result<()> {
        let names: Vec<_> = pairs.iter().map(|pair| pair.from.clone()).collect();
        let progress = SharedProgress::new(
            stores
                .from
                .progress_of(Some(&names), "copied", self.long.quiet)
                .await,
        );
        let compared = SharedProgress::new(Progress::new(
            "compared",
            stores.from.meter.clone(),
            self.long.quiet,
        ));
        let copy = self.store_copy(stores, pairs, progress.clone(), compared.clone())?;
        // Every table is looked at before one is written.
        let prepared = copy.prepare().await.map_err(refused)?;
        let report = prepared.run().await?;
        progress.end();
        let mut differences = Vec::new();
        if !self.no_verify {
            if !self.long.quiet {
                remark(&format!("{} rows copied; comparing", report.rows));
            }
            let rows = report
                .tables
                .iter()
                .filter(|of| !of.was_equal)
                .map(|of| of.rows)
                .sum();
            compared.restart(rows);
            differences = prepared.verify().await?;
            compared.end();
        }
        let mut damage = None;
        for of in &report.tables {
            let found = differences.iter().find(|found| found.table == of.table);
            let is_verified =
                of.was_equal || !self.no_verify && found.is_none_or(|found| self.accepts(found));
            if let Some(found) =
                found.filter(|found| !self.accepts(found) && !self.is_unknown(found))
            {
                damage.get_or_insert_with(|| differs(found));
            } else {
                let CopiedTable {
                    rows,
                    resumed,
                    was_equal: was_there,
                    ..
                } = *of;
                let copied = Copied {
                    rows,
                    resumed,
                    skipped: 0,
                    is_verified,
                    was_there,
                };
                self.print_report(&of.table, &of.to, &copied, stores)?;
            }
        }
        damage.map_or(Ok(()), |damage| Err(Failure::Damaged(damage)))
    }

    fn store_copy(
        &self,
        stores: &Stores<'_>,
        pairs: &[TablePair],
        progress: SharedProgress,
        compared: SharedProgress,
    ) -> Result<StoreCopy> {
        let concurrency = self.in_flight.concurrency;
        let rows = Mutex::new(BTreeMap::new());
        let mut copy = copy_store(Arc::clone(&stores.source), Arc::clone(&stores.target))
            .tables(pairs.iter().map(|pair| pair.from.clone()))
            // The name has the source: a continuation token of another store would mean nothing here.
            .resumable(format!("tables copy {}", self.from))
            .with_options(
                BulkOptions::default()
                    .with_concurrency(concurrency)
                    .with_retry(None),
            )
            // `--concurrency` is the number of requests of the command, and each table has as many.
            .with_tables_at_once(1)
            .on_progress(move |table, copied| {
                let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
                // The first report of a table is the number of rows of earlier runs.
                match rows.insert(table.clone(), copied) {
                    None => progress.resume(copied),
                    Some(_) => progress.set(rows.values().sum()),
                }
            })
            .on_compared(move |rows| compared.add_with_read(rows, rows));
        for pair in pairs.iter().filter(|pair| pair.from != pair.to) {
            copy = copy.renamed(pair.from.clone(), pair.to.clone());
        }
        if let (Some(blobs), Some(to_blobs)) = (&self.blobs.blobs, &self.to_blobs) {
            copy = copy.with_blobs(blobs.open(false)?, to_blobs.open(true)?, root());
        }
        if self.blobs.rows_only {
            copy = copy.rows_only().without_index_blobs();
        }
        if self.trust_definitions {
            copy = copy.trust_definitions();
        }
        Ok(if self.force {
            copy.into_existing()
        } else {
            copy
        })
    }

    /// Whether a difference is one that `--force` allows: rows that only the target has.
    fn accepts(&self, found: &StoreDifference) -> bool {
        self.force
            && found
                .comparison
                .as_ref()
                .is_some_and(|compared| compared.missing == Some(0))
    }

    /// Whether the difference may be one that `--force` allows: the comparison cannot tell if a store does not sort.
    fn is_unknown(&self, found: &StoreDifference) -> bool {
        self.force
            && found
                .comparison
                .as_ref()
                .is_some_and(|compared| compared.missing.is_none())
    }
}

/// The failure of a copy that wrote nothing.
fn refused(error: Error) -> Failure {
    match Failure::refused(error) {
        Failure::Misuse(text) => Failure::Misuse(format!("nothing was copied: {text}")),
        failure => failure,
    }
}

/// The error of a copy that differs from its source, with the first difference.
fn differs(found: &StoreDifference) -> String {
    let first = match &found.comparison {
        None => "the target has no such table".to_owned(),
        Some(compared) => match compared.differences.first() {
            None => format!(
                "{} rows in the source, {} in the target",
                compared.first, compared.second
            ),
            Some(Difference::OnlyInFirst(key)) => format!("{key} is only in the source"),
            Some(Difference::OnlyInSecond(key)) => format!("{key} is only in the target"),
            Some(Difference::Properties(key)) => format!("{key} has other properties"),
            Some(Difference::Blob(key)) => format!("a blob of {key} is missing"),
        },
    };
    format!(
        "the copy of '{}' differs from its source: {first}: if programs write the source, stop them and copy again with --force",
        found.table
    )
}
