//! `tables copy`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, future};
use serde_json::json;
use table_core::manifest::Manifest;
use table_core::model::{Entity, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{Error, TableStore, TableStoreExt as _};
use table_patterns::bulk::{
    BulkOptions, CopiedTable, Difference, StoreCopy, StoreDifference, copy_store, scan_partitions,
    split_partitions,
};

use crate::blobs::{BlobArgs, BlobPlace, root};
use crate::failure::{Failure, Result};
use crate::keys::{KeyArgs, KeyRing, Unmigrated, check_keys};
use crate::output::{print_json, remark};
use crate::pace::{InFlight, LongArgs, until_stopped};
use crate::progress::{Progress, SharedProgress};
use crate::selection::{check_layouts, is_own};
use crate::store::{Access, OpenStore, StoreName, manifest};
use crate::write_rows::{Mode, RowWriter, SharedOutcomes, locked};

/// The arguments of `tables copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// The store to read
    from: StoreName,
    /// The store to write
    to: StoreName,
    /// A table, several times for several tables; every table if none is given
    #[arg(long = "table", value_name = "T")]
    tables: Vec<TableName>,
    /// Copy only the entities that match a filter in the service's language, without the manifest; the indexes of the target are kept
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["blobs", "rows_only"])]
    filter: Option<Filter>,
    /// Copy a table to another name
    #[arg(long = "rename", value_name = "A=B", value_parser = renamed)]
    renames: Vec<(TableName, TableName)>,
    /// Also copy into tables that have other rows: copied rows replace rows of the same key, and other rows stay
    #[arg(long)]
    force: bool,
    /// Do not compare the tables after the copy
    #[arg(long)]
    no_verify: bool,
    #[command(flatten)]
    blobs: BlobArgs,
    /// The place of the blobs in the target
    #[arg(long, value_name = "PLACE", requires = "blobs")]
    to_blobs: Option<BlobPlace>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    in_flight: InFlight,
    #[command(flatten)]
    long: LongArgs,
}

fn renamed(text: &str) -> Result<(TableName, TableName), String> {
    let (from, to) =
        text.split_once('=').ok_or("use A=B, the name in the source and the name in the target")?;
    let name = |text| TableName::new(text).map_err(|error| error.to_string());
    Ok((name(from)?, name(to)?))
}

/// A table to copy, and its name in the target.
struct TablePair {
    from: TableName,
    to: TableName,
    manifest: Arc<Manifest>,
}

/// The two stores of a copy. With keys, the source decrypts and the target encrypts again.
struct Stores<'a> {
    source: Arc<dyn TableStore>,
    target: Arc<dyn TableStore>,
    from: &'a OpenStore,
    to: &'a OpenStore,
}

/// The result of one table.
struct Copied {
    rows: u64,
    resumed: u64,
    skipped: u64,
    is_verified: bool,
    /// Whether an earlier run had copied the table.
    was_there: bool,
}

impl CopyArgs {
    /// Copies tables. For each table the requests of [`StoreCopy`], 1 for its manifest, and 1 per page of each table for the comparison. With
    /// keys 1 more for the manifest of the target.
    pub(crate) async fn run(&self) -> Result<()> {
        let renames: BTreeMap<_, _> = self.renames.iter().cloned().collect();
        // A map keeps one of two entries for a table, so the number shows the second.
        if renames.len() != self.renames.len() {
            return Err(Failure::misuse("a table has two --rename"));
        }
        if self.blobs.blobs.is_some() != self.to_blobs.is_some() {
            return Err(Failure::misuse(
                "give --blobs and --to-blobs, the directories of the blobs in the source and in the target",
            ));
        }
        let ring = self.keys.read()?;
        // A store that is copied to itself, under other names, is open once.
        let is_same_store = self.from == self.to;
        let pace = self.long.pace;
        let from = self.from.open(if is_same_store { Access::Change } else { Access::Read }, pace).await?;
        let to = match is_same_store {
            true => None,
            false => Some(self.to.open(Access::Write, pace).await?),
        };
        let work = async {
            let pairs = self.pairs(&from, &renames).await?;
            let stores = stores_with_keys(ring.as_ref(), &pairs, &from, to.as_ref().unwrap_or(&from)).await?;
            match &self.filter {
                Some(filter) => self.copy_entities(&stores, &pairs, filter).await,
                None => self.copy_tables(&stores, &pairs).await,
            }
        };
        let done = until_stopped(work, "run the same command again, which continues the copy").await;
        from.close().await?;
        if let Some(to) = to {
            to.close().await?;
        }
        done
    }

    /// The tables with their manifests, after the checks of their names.
    async fn pairs(
        &self,
        from: &OpenStore,
        renames: &BTreeMap<TableName, TableName>,
    ) -> Result<Vec<TablePair>> {
        let all: BTreeSet<_> = from.store.all_tables(None).await?.into_iter().collect();
        let names: BTreeSet<_> =
            if self.tables.is_empty() { all.clone() } else { self.tables.iter().cloned().collect() };
        if let Some(absent) = names.iter().find(|name| !all.contains(name)) {
            return Err(Failure::failed(format!("{} has no table '{absent}'", self.from)));
        }
        if let Some(other) = renames.keys().find(|name| !names.contains(name)) {
            return Err(Failure::misuse(format!("--rename: the table '{other}' is not copied")));
        }
        let mut pairs = Vec::new();
        for name in &names {
            let manifest = manifest(&*from.store, name).await?;
            let to = renames.get(name).unwrap_or(name);
            if self.from == self.to && (to == name || names.contains(to)) {
                return Err(Failure::misuse(format!(
                    "the table '{to}' would be copied to a table that is read: give --rename {name}=NAME"
                )));
            }
            pairs.push(TablePair { from: name.clone(), to: to.clone(), manifest });
        }
        let mut targets = BTreeSet::new();
        // Most services ignore the case of table names, so two names that differ in it are one table.
        match pairs.iter().find(|pair| !targets.insert(pair.to.to_lowercase())) {
            Some(pair) => Err(Failure::misuse(format!("two tables would be copied to '{}'", pair.to))),
            None => Ok(pairs),
        }
    }

    /// Copies whole tables, as they are stored.
    async fn copy_tables(&self, stores: &Stores<'_>, pairs: &[TablePair]) -> Result<()> {
        let names: Vec<_> = pairs.iter().map(|pair| pair.from.clone()).collect();
        let progress =
            SharedProgress::new(stores.from.progress_of(Some(&names), "copied", self.long.quiet).await);
        let compared =
            SharedProgress::new(Progress::new("compared", stores.from.meter.clone(), self.long.quiet));
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
            let rows = report.tables.iter().filter(|of| !of.was_equal).map(|of| of.rows).sum();
            compared.restart(rows);
            differences = prepared.verify().await?;
            compared.end();
        }
        let mut damage = None;
        for of in &report.tables {
            let found = differences.iter().find(|found| found.table == of.table);
            let is_verified =
                of.was_equal || !self.no_verify && found.is_none_or(|found| self.accepts(found));
            if let Some(found) = found.filter(|found| !self.accepts(found) && !self.is_unknown(found)) {
                damage.get_or_insert_with(|| differs(found));
            } else {
                let CopiedTable { rows, resumed, was_equal: was_there, .. } = *of;
                let copied = Copied { rows, resumed, skipped: 0, is_verified, was_there };
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
            .with_options(BulkOptions::default().with_concurrency(concurrency).with_retry(None))
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
        Ok(if self.force { copy.into_existing() } else { copy })
    }

    /// Whether a difference is one that `--force` allows: rows that only the target has.
    fn accepts(&self, found: &StoreDifference) -> bool {
        self.force && found.comparison.as_ref().is_some_and(|compared| compared.missing == Some(0))
    }

    /// Whether the difference may be one that `--force` allows: the comparison cannot tell if a store does not sort.
    fn is_unknown(&self, found: &StoreDifference) -> bool {
        self.force && found.comparison.as_ref().is_some_and(|compared| compared.missing.is_none())
    }

    /// Copies the entities of a filter, one table after another.
    async fn copy_entities(&self, stores: &Stores<'_>, pairs: &[TablePair], filter: &Filter) -> Result<()> {
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
    async fn copy_filtered(&self, stores: &Stores<'_>, pair: &TablePair, filter: &Filter) -> Result<Copied> {
        stores.target.create_table_if_missing(&pair.to).await?;
        let query = Query::new().with_filter(filter.clone());
        let everywhere = split_partitions::<String>([]);
        let rows = scan_partitions(Arc::clone(&stores.source), &pair.from, &query, everywhere, 1);
        let rows =
            rows.try_filter(|row| future::ready(is_own(row))).map(|row| without_ciphertext(row?)).boxed();
        let report = SharedOutcomes::default();
        let mut progress = Progress::new("copied", stores.from.meter.clone(), self.long.quiet);
        let concurrency = self.in_flight.concurrency;
        let writer = RowWriter { store: &stores.target, table: &pair.to, mode: Mode::Upsert, concurrency };
        writer.write(rows, &report, &mut progress).await?;
        progress.end();
        locked(&report, |report| {
            report.named.iter().for_each(|row| remark(&format!("skipped: {row}")));
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

    fn print_report(
        &self,
        from: &TableName,
        to: &TableName,
        copied: &Copied,
        stores: &Stores<'_>,
    ) -> Result<()> {
        let Copied { rows, resumed, skipped, is_verified, was_there } = copied;
        if self.long.json {
            let requests = [stores.from, stores.to].map(|open| open.meter.total());
            let report = json!({
                "table": from.as_str(), "to": to.as_str(), "rows": rows, "resumed": resumed, "skipped": skipped, "verified": is_verified,
                "was_there": was_there, "requests": requests,
            });
            return print_json(&report);
        }
        if self.long.quiet {
            return Ok(());
        }
        let name = if from == to { from.to_string() } else { format!("{from} to {to}") };
        remark(&match (was_there, is_verified) {
            (true, _) => format!("{name}: {rows} rows, copied already, and equal"),
            (false, true) => format!("{name}: {rows} rows copied, and equal"),
            (false, false) => format!("{name}: {rows} rows copied, {skipped} skipped"),
        });
        Ok(())
    }
}

/// Opens both stores with the keys, if there are any. 1 request for each manifest then.
async fn stores_with_keys<'a>(
    ring: Option<&KeyRing>,
    pairs: &[TablePair],
    from: &'a OpenStore,
    to: &'a OpenStore,
) -> Result<Stores<'a>> {
    let (mut source, mut target) = (Arc::clone(&from.store), Arc::clone(&to.store));
    if let Some(ring) = ring {
        let tables: Vec<_> = pairs.iter().map(|pair| pair.from.clone()).collect();
        let mut names = Vec::new();
        for pair in pairs {
            // The target gets the manifest of the source, or has one already.
            let mut of = ring.names(&source, &pair.from).await?;
            match manifest(&*target, &pair.to).await {
                Err(error) if error.is_table_not_found() => {}
                manifest => {
                    of.extend(manifest?.types.iter().flat_map(|stored| stored.encrypted.iter().cloned()));
                }
            }
            names.push((pair.to.clone(), of));
        }
        source = Arc::new(ring.wrap(&source, &tables, Unmigrated::Refused, &[]).await?);
        target = ring.wrap_new(&target, names)?;
    }
    Ok(Stores { source, target, from, to })
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
            None => format!("{} rows in the source, {} in the target", compared.first, compared.second),
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

/// Refuses an entity with ciphertext, which is bound to its table and could not be decrypted in another.
fn without_ciphertext(row: Entity) -> Result<Entity, Error> {
    match row.is_ciphertext() {
        false => Ok(row),
        true => Err(Error::invalid_request(format!(
            "the entity {} has encrypted properties: give --keys FILE, or copy the whole table, without --filter",
            row.key()
        ))),
    }
}
