//! Copies the entities of a filter.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, future};
use table_core::model::Entity;
use table_core::query::{Filter, Query};
use table_core::store::Error;
use table_patterns::bulk::{scan_partitions, split_partitions};

use super::{Copied, CopyArgs, Stores, TablePair};
use crate::failure::{Failure, Result};
use crate::keys::check_keys;
use crate::layouts::check_layouts;
use crate::output::remark;
use crate::progress::Progress;
use crate::selection::is_own;
use crate::store::create_if_missing;
use crate::write_rows::{Mode, RowWriter, SharedOutcomes, locked};

impl CopyArgs {
    /// Copies the entities of a filter, one table after another.
    pub(super) async fn copy_entities(
        &self,
        stores: &Stores<'_>,
        pairs: &[TablePair],
        filter: &Filter,
    ) -> Result<()> {
        for TablePair { from, manifest, .. } in pairs {
            check_layouts(manifest, from)?;
            check_keys(manifest, from, &*stores.source)?;
        }
        let mut skipped = 0;
        for pair in pairs {
            // Without a check of the rows in the target: like an import, a filtered copy goes into tables that are in use.
            let copied = self.copy_filtered(stores, pair, filter).await?;
            skipped += copied.skipped;
            self.print_report(&pair.from, &pair.to, &copied, stores)?;
        }
        match skipped {
            0 => Ok(()),
            _ => Err(Failure::Skipped(format!("{skipped} rows were skipped"))),
        }
    }

    /// Writes the entities of a filter, as `tables import --mode upsert` does.
    async fn copy_filtered(
        &self,
        stores: &Stores<'_>,
        pair: &TablePair,
        filter: &Filter,
    ) -> Result<Copied> {
        create_if_missing(&*stores.target, &pair.to).await?;
        let query = Query::new().with_filter(filter.clone());
        let everywhere = split_partitions::<String>([]);
        let rows = scan_partitions(
            Arc::clone(&stores.source),
            &pair.from,
            &query,
            everywhere,
            1,
        );
        let rows = rows
            .try_filter(|row| future::ready(is_own(row)))
            .map(|row| without_ciphertext(row?))
            .boxed();
        let report = SharedOutcomes::default();
        let mut progress = Progress::new("copied", stores.from.meter.clone(), self.long.quiet);
        let concurrency = self.in_flight.concurrency;
        let writer = RowWriter {
            store: &stores.target,
            table: &pair.to,
            mode: Mode::Upsert,
            concurrency,
        };
        writer.write(rows, &report, &mut progress).await?;
        progress.end();
        locked(&report, |report| {
            report
                .named
                .iter()
                .for_each(|row| remark(&format!("skipped: {row}")));
            match report.ambiguous {
                0 => Ok(Copied {
                    rows: report.done,
                    resumed: 0,
                    skipped: report.skipped,
                    is_verified: false,
                    was_there: false,
                }),
                count => Err(Failure::failed(format!(
                    "{count} rows were perhaps written: run the same command again"
                ))),
            }
        })
    }
}

/// Refuses an entity with ciphertext, which is bound to its table and could not be decrypted in another.
fn without_ciphertext(row: Entity) -> Result<Entity, Error> {
    match row.is_ciphertext() {
        false => Ok(row),
        true => Err(Error::wrong_state(format!(
            "the entity {} has encrypted properties: give --keys FILE, or copy the whole table, without --filter",
            row.key()
        ))),
    }
}
