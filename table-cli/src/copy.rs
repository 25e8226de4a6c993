//! `tables copy`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, future};
use serde_json::json;
use table_core::manifest::{Manifest, Shape};
use table_core::model::{Entity, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{Error, ManifestCache, TableStore, TableStoreExt as _};
use table_patterns::bulk::{
    BulkOptions, Comparison, CopyJob, Difference, compare_tables, scan_partitions, split_partitions,
};

use crate::blobs::{BlobArgs, BlobPlace, root};
use crate::failure::{Failure, Result};
use crate::layouts::{check_layouts, is_large};
use crate::output::{print, remark};
use crate::pace::{Pace, until_stopped};
use crate::progress::Progress;
use crate::query::{is_own, table};
use crate::store::{Access, OpenStore, StoreName};
use crate::write_rows::{Mode, RowWriter, Shared, locked};

/// The arguments of `tables copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// The store to read
    from: StoreName,
    /// The store to write
    to: StoreName,
    /// A table, several times for several tables; every table if none is given
    #[arg(long = "table", value_name = "T")]
    tables: Vec<String>,
    /// Copy only the entities that match a filter in the service's language, without the manifest; the indexes of the target are kept
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["blobs", "rows_only"])]
    filter: Option<String>,
    /// Copy a table to another name
    #[arg(long = "rename", value_name = "A=B", value_parser = renamed)]
    renames: Vec<(String, String)>,
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
    /// Requests in flight
    #[arg(long, value_name = "N", default_value_t = 16)]
    concurrency: usize,
    #[command(flatten)]
    pace: Pace,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

fn renamed(text: &str) -> Result<(String, String), String> {
    let (from, to) =
        text.split_once('=').ok_or("use A=B, the name in the source and the name in the target")?;
    Ok((from.to_owned(), to.to_owned()))
}

/// A table to copy, and its name in the target.
struct Pair {
    from: TableName,
    to: TableName,
    manifest: Arc<Manifest>,
}

/// The result of one table.
#[derive(Default)]
struct Copied {
    rows: u64,
    resumed: u64,
    skipped: u64,
    is_verified: bool,
    /// Whether an earlier run had copied the table.
    was_there: bool,
}

impl CopyArgs {
    /// Copies tables. For each table the requests of [`CopyJob`], 1 for its manifest, 3 at most for the rows of the target, and 1 per page
    /// of each table for the comparison.
    pub(crate) async fn run(&self) -> Result<()> {
        let names = self.tables.iter().map(|name| table(name)).collect::<Result<BTreeSet<_>>>()?;
        let renames = self.renames()?;
        let filter = self.filter.as_deref().map(str::parse::<Filter>).transpose().map_err(Failure::misuse)?;
        if self.blobs.blobs.is_some() != self.to_blobs.is_some() {
            return Err(Failure::misuse(
                "give --blobs and --to-blobs, the directories of the blobs in the source and in the target",
            ));
        }
        // A store that is copied to itself, under other names, is open once.
        let is_one = self.from == self.to;
        let from = self.from.open(if is_one { Access::Change } else { Access::Read }, self.pace).await?;
        let to = match is_one {
            true => None,
            false => Some(self.to.open(Access::Write, self.pace).await?),
        };
        let target = to.as_ref().unwrap_or(&from);
        let work = self.copy(&from, target, names, &renames, filter.as_ref());
        let done = until_stopped(work, "run the same command again, which continues the copy").await;
        from.close().await?;
        if let Some(to) = to {
            to.close().await?;
        }
        done
    }

    fn renames(&self) -> Result<BTreeMap<TableName, TableName>> {
        let names = self.renames.iter().map(|(from, to)| Ok((table(from)?, table(to)?)));
        let renames = names.collect::<Result<BTreeMap<_, _>>>()?;
        // A map keeps one of two entries for a table, so the number shows the second.
        match renames.len() == self.renames.len() {
            true => Ok(renames),
            false => Err(Failure::misuse("a table has two --rename")),
        }
    }

    async fn copy(
        &self,
        from: &OpenStore,
        to: &OpenStore,
        names: BTreeSet<TableName>,
        renames: &BTreeMap<TableName, TableName>,
        filter: Option<&Filter>,
    ) -> Result<()> {
        let pairs = self.pairs(from, names, renames).await?;
        let (mut skipped, mut copies) = (0, Vec::new());
        if let Some(filter) = filter {
            for pair in &pairs {
                // Without a check of the rows in the target: like an import, a filtered copy goes into tables
                // that are in use.
                let copied = self.copy_filtered(from, to, pair, filter).await?;
                skipped += copied.skipped;
                copies.push((pair, copied));
            }
        } else {
            // Every table is checked before one is written.
            let mut jobs = Vec::new();
            for pair in &pairs {
                let job = self.job(from, to, pair)?;
                let was_there = self.is_there(from, to, pair, &job).await?;
                jobs.push((pair, job, was_there));
            }
            for (pair, job, was_there) in jobs {
                copies.push((pair, self.copy_table(from, pair, job, was_there).await?));
            }
        }
        for (pair, copied) in &copies {
            self.print_report(pair, copied, [from, to])?;
        }
        match skipped {
            0 => Ok(()),
            _ => Err(Failure::Skipped(format!("{skipped} rows were skipped"))),
        }
    }

    /// The tables with their manifests, after the checks of their names.
    async fn pairs(
        &self,
        from: &OpenStore,
        names: BTreeSet<TableName>,
        renames: &BTreeMap<TableName, TableName>,
    ) -> Result<Vec<Pair>> {
        let all: BTreeSet<_> = from.store.all_tables(None).await?.into_iter().collect();
        let names = if names.is_empty() { all.clone() } else { names };
        if let Some(absent) = names.iter().find(|name| !all.contains(name)) {
            return Err(Failure::failed(format!("{} has no table '{absent}'", self.from)));
        }
        if let Some(other) = renames.keys().find(|name| !names.contains(name)) {
            return Err(Failure::misuse(format!("--rename: the table '{other}' is not copied")));
        }
        let mut pairs = Vec::new();
        for name in &names {
            let manifest = ManifestCache::for_store(&*from.store).get(&*from.store, name).await?;
            let to = renames.get(name).unwrap_or(name);
            if self.from == self.to && (to == name || names.contains(to)) {
                return Err(Failure::misuse(format!(
                    "the table '{to}' would be copied to a table that is read: give --rename {name}=NAME"
                )));
            }
            if self.filter.is_none() {
                self.check_manifest(name, to, &names, &manifest)?;
            }
            pairs.push(Pair { from: name.clone(), to: to.clone(), manifest });
        }
        let mut targets = BTreeSet::new();
        // Most services ignore the case of table names, so two names that differ in it are one table.
        match pairs.iter().find(|pair| !targets.insert(pair.to.to_lowercase())) {
            Some(pair) => Err(Failure::misuse(format!("two tables would be copied to '{}'", pair.to))),
            None => Ok(pairs),
        }
    }

    /// Refuses a table whose copy would be useless: its rows depend on its name, or on other tables.
    fn check_manifest(
        &self,
        name: &TableName,
        to: &TableName,
        names: &BTreeSet<TableName>,
        manifest: &Manifest,
    ) -> Result<()> {
        if let Some(other) = manifest
            .indexes
            .iter()
            .filter_map(|index| index.table.as_ref())
            .find(|other| !names.contains(other))
        {
            return Err(Failure::failed(format!(
                "the table '{other}' has the index entries of '{name}': add --table {other}, or copy the entities alone by --filter"
            )));
        }
        // The blobs of an index are not rows, and `--blobs` names the blobs of large entities.
        let in_blobs = |shape: Option<&Shape>| shape.is_none_or(Shape::needs_blobs);
        let in_blobs = manifest.indexes.iter().find(|index| in_blobs(index.shape.as_ref()));
        if let Some(index) = in_blobs.filter(|_| !self.blobs.rows_only) {
            return Err(Failure::failed(format!(
                "the index '{}' of the table '{name}' has, or may have, lists in blobs, which are not copied: give --rows-only, then remove and build the index in the target",
                index.name
            )));
        }
        if name == to {
            return Ok(());
        }
        // A new name would break what the rows say about the old one: entries and the row of their owner, the
        // keys of encrypted properties, which are derived from the name, and the paths of blobs.
        let depends = if manifest.indexes.iter().any(|index| index.table.is_some())
            || manifest.other("owner").is_some()
        {
            "index entries in another table refer to the name"
        } else if manifest.types.iter().any(|of| !of.encrypted.is_empty()) {
            "its encrypted properties are bound to the name"
        } else if manifest.types.iter().any(|of| is_large(&of.layout)) {
            "the names of its blobs contain the name"
        } else {
            return Ok(());
        };
        Err(Failure::failed(format!("the table '{name}' cannot be copied to another name: {depends}")))
    }

    fn job(&self, from: &OpenStore, to: &OpenStore, pair: &Pair) -> Result<CopyJob> {
        let options = BulkOptions::default().with_concurrency(self.concurrency).with_retry(None);
        let (source, target) = (Arc::clone(&from.store), Arc::clone(&to.store));
        let job = CopyJob::new((source, pair.from.clone()), (target, pair.to.clone()));
        // The name of the position has the source: a continuation token of another store would mean nothing
        // here.
        let job = job.with_options(options).resumable(format!("tables copy {}", self.from));
        let has_large = pair.manifest.types.iter().any(|of| is_large(&of.layout));
        Ok(match (&self.blobs.blobs, &self.to_blobs) {
            (Some(blobs), Some(to_blobs)) if has_large => {
                job.with_blobs(blobs.open(false)?, to_blobs.open(true)?, root())
            }
            // Ciphertext of a table without large properties refers to no blob.
            _ if self.blobs.rows_only || !has_large => job.rows_only(),
            _ => job,
        })
    }

    /// Whether an earlier run has copied the table. Refuses a target with other rows.
    async fn is_there(&self, from: &OpenStore, to: &OpenStore, pair: &Pair, job: &CopyJob) -> Result<bool> {
        let first = |store: &Arc<dyn TableStore>, table: &TableName| {
            let (store, table) = (Arc::clone(store), table.clone());
            async move { store.query(&table, &Query::new().with_top(1), None).await }
        };
        let there = match first(&to.store, &pair.to).await {
            Err(error) if error.is_table_not_found() => return Ok(false),
            page => page?.items,
        };
        // An interrupted copy has saved its position in the target and continues there. Without a position, the rows of the target are of
        // another program, or of a copy that has ended: then the tables are equal.
        if there.is_empty() || job.is_begun().await? {
            return Ok(false);
        }
        let here = first(&from.store, &pair.from).await?.items;
        let (here, there) = (here.first().map(Entity::key), there.first().map(Entity::key));
        let side = |open: &OpenStore, table: &TableName| (Arc::clone(&open.store), table.clone());
        // The first rows differ in most tables that are no copy: 2 requests decide, before both tables are
        // read whole.
        if here == there && compare_tables(side(from, &pair.from), side(to, &pair.to)).await?.equal {
            return Ok(true);
        }
        match self.force {
            true => Ok(false),
            false => Err(Failure::misuse(format!(
                "the table '{}' of {} exists and has other rows, and nothing was copied: delete the table, give --rename, or give --force",
                pair.to, self.to
            ))),
        }
    }

    async fn copy_table(
        &self,
        from: &OpenStore,
        pair: &Pair,
        job: CopyJob,
        was_there: bool,
    ) -> Result<Copied> {
        if was_there {
            return Ok(Copied { is_verified: true, was_there, ..Copied::default() });
        }
        let progress = Arc::new(Mutex::new(Progress::new("copied", from.meter.clone(), self.quiet)));
        let shown = Arc::clone(&progress);
        let job = job.on_progress(move |rows| shown.lock().unwrap_or_else(PoisonError::into_inner).set(rows));
        let report = job.run().await?;
        progress.lock().unwrap_or_else(PoisonError::into_inner).end();
        let mut is_verified = false;
        if !self.no_verify {
            if !self.quiet {
                remark(&format!("{}: {} rows copied; comparing", pair.from, report.rows));
            }
            let compared = job.verify().await?;
            // With --force the target may have rows of its own. Where a store does not sort, nobody knows whether they are the difference.
            is_verified = compared.equal || self.force && compared.missing == Some(0);
            let is_unknown = self.force && compared.missing.is_none();
            if !is_verified && !is_unknown {
                return Err(Failure::Damaged(differs(pair, &compared)));
            }
        }
        Ok(Copied { rows: report.rows, resumed: report.resumed, is_verified, ..Copied::default() })
    }

    /// Writes the entities of a filter, as `tables import --mode upsert` does.
    async fn copy_filtered(
        &self,
        from: &OpenStore,
        to: &OpenStore,
        pair: &Pair,
        filter: &Filter,
    ) -> Result<Copied> {
        check_layouts(&pair.manifest, &pair.from)?;
        to.store.create_table_if_missing(&pair.to).await?;
        let query = Query::new().with_filter(filter.clone());
        let everywhere = split_partitions::<String>([]);
        let rows = scan_partitions(Arc::clone(&from.store), &pair.from, &query, everywhere, 1);
        let rows = rows.try_filter(|row| future::ready(is_own(row))).map(|row| readable(row?)).boxed();
        let report = Shared::default();
        let mut progress = Progress::new("copied", from.meter.clone(), self.quiet);
        let writer =
            RowWriter { open: to, table: &pair.to, mode: Mode::Upsert, concurrency: self.concurrency };
        writer.write(rows, &report, &mut progress).await?;
        progress.end();
        locked(&report, |report| {
            report.named.iter().for_each(|row| remark(&format!("skipped: {row}")));
            match report.ambiguous {
                0 => Ok(Copied { rows: report.done, skipped: report.skipped, ..Copied::default() }),
                count => Err(Failure::failed(format!(
                    "{count} rows were perhaps written: run the same command again"
                ))),
            }
        })
    }

    fn print_report(&self, pair: &Pair, copied: &Copied, stores: [&OpenStore; 2]) -> Result<()> {
        let Pair { from, to, .. } = pair;
        let Copied { rows, resumed, skipped, is_verified, was_there } = copied;
        if self.json {
            let requests = stores.map(|open| open.meter.total());
            let report = json!({
                "table": from.as_str(), "to": to.as_str(), "rows": rows, "resumed": resumed, "skipped": skipped, "verified": is_verified,
                "was_there": was_there, "requests": requests,
            });
            return print(&format!("{report}\n"));
        }
        if self.quiet {
            return Ok(());
        }
        let name = if from == to { from.to_string() } else { format!("{from} to {to}") };
        remark(&match (was_there, is_verified) {
            (true, _) => format!("{name}: copied already, and equal"),
            (false, true) => format!("{name}: {rows} rows copied, and equal"),
            (false, false) => format!("{name}: {rows} rows copied, {skipped} skipped"),
        });
        Ok(())
    }
}

/// The error of a copy that differs from its source, with the first difference.
fn differs(pair: &Pair, compared: &Comparison) -> String {
    let first = match compared.differences.first() {
        None => format!("{} rows in the source, {} in the target", compared.first, compared.second),
        Some(Difference::OnlyInFirst(key)) => format!("{key} is only in the source"),
        Some(Difference::OnlyInSecond(key)) => format!("{key} is only in the target"),
        Some(Difference::Properties(key)) => format!("{key} has other properties"),
        Some(Difference::Blob(key)) => format!("a blob of {key} is missing"),
    };
    format!(
        "the copy of '{}' differs from its source: {first}: if programs write the source, stop them and copy again with --force",
        pair.from
    )
}

/// Refuses an entity with ciphertext, which is bound to its table and could not be decrypted in another.
fn readable(row: Entity) -> Result<Entity, Error> {
    match row.is_ciphertext() {
        false => Ok(row),
        true => Err(Error::invalid_request(format!(
            "the entity {} has encrypted properties: copy the whole table, without --filter",
            row.key()
        ))),
    }
}
