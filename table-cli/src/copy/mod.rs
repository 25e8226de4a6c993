//! `tables copy`.

mod filtered;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use table_core::manifest::Manifest;
use table_core::model::TableName;
use table_core::query::Filter;
use table_core::store::TableStore;

use crate::blobs::{BlobArgs, BlobPlace};
use crate::failure::{Failure, Result};
use crate::keys::{KeyArgs, KeyRing, Unmigrated};
use crate::output::{print_json, remark};
use crate::pace::{InFlight, LongArgs, until_stopped};
use crate::store::{Access, OpenStore, StoreName, manifest};

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
    /// Also copy index definitions that write into other tables, and types whose entities expire. Without the option a store with such
    /// definitions is refused, with their names: a client that could write into its tables can have added them
    #[arg(long, conflicts_with = "filter")]
    trust_definitions: bool,
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
    let (from, to) = text
        .split_once('=')
        .ok_or("use A=B, the name in the source and the name in the target")?;
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
    /// Copies tables. For each table the requests of [`StoreCopy`](table_patterns::bulk::StoreCopy), 1 for its manifest, and 1 per page of each table for the comparison. With
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
        let access = if is_same_store {
            Access::WriteExisting
        } else {
            Access::Read
        };
        let copy = async |from: &OpenStore, to: &OpenStore| {
            let work = self.copy(from, to, &renames, ring.as_ref());
            until_stopped(work, "run the same command again, which continues the copy").await
        };
        let with_source = async |from: &mut OpenStore| {
            if is_same_store {
                return copy(from, from).await;
            }
            let with_target = async |to: &mut OpenStore| copy(from, to).await;
            self.to
                .with_open(Access::WriteOrCreate, pace, with_target)
                .await
        };
        self.from.with_open(access, pace, with_source).await
    }

    async fn copy(
        &self,
        from: &OpenStore,
        to: &OpenStore,
        renames: &BTreeMap<TableName, TableName>,
        ring: Option<&KeyRing>,
    ) -> Result<()> {
        let pairs = self.pairs(from, renames).await?;
        let stores = stores_with_keys(ring, &pairs, from, to).await?;
        match &self.filter {
            Some(filter) => self.copy_entities(&stores, &pairs, filter).await,
            None => self.copy_tables(&stores, &pairs).await,
        }
    }

    /// The tables with their manifests, after the checks of their names.
    async fn pairs(
        &self,
        from: &OpenStore,
        renames: &BTreeMap<TableName, TableName>,
    ) -> Result<Vec<TablePair>> {
        let names: BTreeSet<_> = from.tables(&self.tables).await?.into_iter().collect();
        if let Some(other) = renames.keys().find(|name| !names.contains(name)) {
            return Err(Failure::misuse(format!(
                "--rename: the table '{other}' is not copied"
            )));
        }
        let mut pairs = Vec::new();
        for name in &names {
            let manifest = match manifest(&*from.store, name).await {
                Err(error) if error.is_table_not_found() => {
                    return Err(Failure::failed(format!(
                        "{} has no table '{name}'",
                        self.from
                    )));
                }
                read => read?,
            };
            let to = renames.get(name).unwrap_or(name);
            if self.from == self.to && (to == name || names.contains(to)) {
                return Err(Failure::misuse(format!(
                    "the table '{to}' would be copied to a table that is read: give --rename {name}=NAME"
                )));
            }
            pairs.push(TablePair {
                from: name.clone(),
                to: to.clone(),
                manifest,
            });
        }
        let mut targets = BTreeSet::new();
        // Most services ignore the case of table names, so two names that differ in it are one table.
        match pairs
            .iter()
            .find(|pair| !targets.insert(pair.to.to_lowercase()))
        {
            Some(pair) => Err(Failure::misuse(format!(
                "two tables would be copied to '{}'",
                pair.to
            ))),
            None => Ok(pairs),
        }
    }

    fn print_report(
        &self,
        from: &TableName,
        to: &TableName,
        copied: &Copied,
        stores: &Stores<'_>,
    ) -> Result<()> {
        let Copied {
            rows,
            resumed,
            skipped,
            is_verified,
            was_there,
        } = copied;
        if self.long.json {
            let requests = [stores.from, stores.to].map(|open| open.meter.total());
            let report = json!({
                "table": from.as_str(), "to": to.as_str(), "rows": rows, "resumed": resumed, "skipped": skipped, "verified": is_verified,
                "was_there": was_there, "requests_so_far": requests,
            });
            return print_json(&report);
        }
        if self.long.quiet {
            return Ok(());
        }
        let name = if from == to {
            from.to_string()
        } else {
            format!("{from} to {to}")
        };
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
                    of.extend(
                        manifest?
                            .types
                            .iter()
                            .flat_map(|stored| stored.encrypted.iter().cloned()),
                    );
                }
            }
            names.push((pair.to.clone(), of));
        }
        source = Arc::new(
            ring.wrap(&source, &tables, Unmigrated::Refused, &[])
                .await?,
        );
        target = ring.wrap_new(&target, names)?;
    }
    Ok(Stores {
        source,
        target,
        from,
        to,
    })
}
