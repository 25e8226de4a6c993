//! `tables rotate` and `tables migrate`.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::json;
use table_core::manifest::{Manifest, Shape};
use table_core::model::TableName;
use table_encryption::SweepProgress;

use crate::failure::{Failure, MAX_NAMED, Result};
use crate::keys::{KeyArgs, KeyRing, Unmigrated};
use crate::layouts::is_large;
use crate::output::{one_line, print, print_json, remark};
use crate::pace::{InFlight, LongArgs, until_stopped};
use crate::store::{Access, OpenStore, StoreName, manifest};

/// The arguments of `tables rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// The store
    store: StoreName,
    /// The tables; every table of the store if none is given. The tables of their index entries are rotated too
    tables: Vec<TableName>,
    /// Count the rows by key, and change none
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    sweep: SweepArgs,
}

/// The arguments of `tables migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The store
    store: StoreName,
    /// The table
    table: TableName,
    /// The properties to encrypt, separated by commas; those of the file of keys and of the manifest are encrypted too
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    encrypt: Vec<String>,
    /// Also encrypt encrypted rows again, with new data keys: after an old key has leaked
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    sweep: SweepArgs,
}

#[derive(Debug, Args)]
struct SweepArgs {
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    in_flight: InFlight,
    #[command(flatten)]
    long: LongArgs,
}

impl RotateArgs {
    /// Wraps the data keys of tables by the first key. 1 request for the manifest of each table, 1 per page, and 1 per row under another
    /// key; without names 1 for each 1,000 tables.
    pub(crate) async fn run(&self) -> Result<()> {
        let ring = self.sweep.keys.required()?;
        let access = if self.count {
            Access::Read
        } else {
            Access::WriteExisting
        };
        let work = async |open: &mut OpenStore| {
            let work = self.rotate(open, &ring);
            until_stopped(
                work,
                "run the same command again: rows under the first key stay as they are",
            )
            .await
        };
        self.store
            .with_open(access, self.sweep.long.pace, work)
            .await
    }

    async fn rotate(&self, open: &OpenStore, ring: &KeyRing) -> Result<()> {
        let mut left: BTreeSet<_> = open.tables(&self.tables).await?.into_iter().collect();
        let (mut done, mut skipped) = (BTreeSet::new(), 0);
        while let Some(table) = left.pop_first() {
            let before = open.meter.total();
            let tables = std::slice::from_ref(&table);
            // Plaintext is not accepted: to encrypt is the purpose of a migration.
            let store = ring
                .wrap(&open.store, tables, Unmigrated::Refused, &[])
                .await?;
            let mut sweep = store
                .rotation(&table)
                .with_concurrency(self.sweep.in_flight.concurrency);
            if self.count {
                sweep = sweep.counting();
            }
            let mut progress = open
                .progress_of(Some(tables), "read", self.sweep.long.quiet)
                .await;
            while sweep.step().await? {
                progress.set(sweep.progress().read);
            }
            progress.end();
            let found = sweep.progress();
            self.sweep
                .print(&table, found, open.meter.total() - before, "rotated")?;
            remark_unchanged_blobs(open, &table, &self.sweep).await?;
            skipped += found.skipped;
            // Entries in other tables have copies of encrypted properties under the same keys. Reading a
            // table finds them, so the set grows.
            let manifest = manifest(&*open.store, &table).await?;
            let in_force: BTreeSet<_> = manifest
                .indexes
                .iter()
                .filter_map(|index| index.table.clone())
                .collect();
            for other in &found.index_tables {
                if !in_force.contains(other) {
                    remark(&format!(
                        "{table}: its manifest names the table '{other}', which has not consented: rotate it by its name, if need be"
                    ));
                } else if !done.contains(other) {
                    left.insert(other.clone());
                }
            }
            done.insert(table);
        }
        skipped_rows(
            skipped,
            "keep the former key until they are rotated, restored or deleted",
        )
    }
}

impl MigrateArgs {
    /// Encrypts plaintext, and rows of the legacy format, of a table. 2 requests for its manifest, 1 per page, and 1 per changed row.
    pub(crate) async fn run(&self) -> Result<()> {
        let ring = self.sweep.keys.required()?;
        let work = async |open: &mut OpenStore| {
            let work = self.migrate(open, &ring);
            until_stopped(
                work,
                "run the same command again: encrypted rows stay as they are",
            )
            .await
        };
        self.store
            .with_open(Access::WriteExisting, self.sweep.long.pace, work)
            .await
    }

    async fn migrate(&self, open: &OpenStore, ring: &KeyRing) -> Result<()> {
        let table = &self.table;
        let mut names: BTreeSet<_> = ring.names(&open.store, table).await?.into_iter().collect();
        names.extend(self.encrypt.iter().cloned());
        if names.is_empty() && !ring.has_legacy() && !self.again {
            return Err(Failure::misuse(format!(
                "nothing names a property of '{table}' to encrypt: give --encrypt NAME, or `encrypt` in the file of keys"
            )));
        }
        let manifest = manifest(&*open.store, table).await?;
        check_indexes(&manifest, table, &names)?;
        let tables = std::slice::from_ref(table);
        let store = ring
            .wrap(&open.store, tables, Unmigrated::Accepted, &self.encrypt)
            .await?;
        let mut sweep = store
            .migration(table)
            .with_concurrency(self.sweep.in_flight.concurrency);
        if self.again {
            sweep = sweep.with_reencryption();
        }
        let mut progress = open
            .progress_of(Some(tables), "read", self.sweep.long.quiet)
            .await;
        while sweep.step().await? {
            progress.set(sweep.progress().read);
        }
        progress.end();
        let found = sweep.progress();
        self.sweep
            .print(table, found, open.meter.total(), "encrypted")?;
        for other in &found.index_tables {
            remark(&format!(
                "the table '{other}' has index entries of '{table}', which may have copies of the properties: migrate it too"
            ));
        }
        remark_unchanged_blobs(open, table, &self.sweep).await?;
        skipped_rows(
            found.skipped,
            "they are as they were: mend or delete them, and run the same command again",
        )
    }
}

/// Refuses properties that keys, sums or copies under other names show: a migration does not find these.
fn check_indexes(manifest: &Manifest, table: &TableName, names: &BTreeSet<String>) -> Result<()> {
    for index in &manifest.indexes {
        let id = index.id();
        // Without the definition, it is unknown which properties the keys of the entries show.
        let Some(definition) = &index.definition else {
            return Err(Failure::failed(format!(
                "the index {id} of '{table}' has a newer format than this program reads: it may show a property that would be encrypted"
            )));
        };
        let mut shown = definition.properties_read()?;
        match &definition.shape {
            shape @ Shape::Summary { .. } => {
                shown.extend(shape.summarized().map(ToOwned::to_owned));
            }
            Shape::Copy { fields, .. } => shown.extend(fields.iter().map(ToString::to_string)),
            _ => {}
        }
        if let Some(name) = shown.into_iter().find(|name| names.contains(name)) {
            return Err(Failure::failed(format!(
                "the index {id} of '{table}' shows '{name}' in keys, conditions, sums or copies, and nothing was changed: drop the index first"
            )));
        }
        if definition.is_opaque() {
            remark(&format!(
                "Rust code makes the keys of the index {id}: see to it that they show no encrypted property"
            ));
        }
    }
    Ok(())
}

/// Blobs have data keys of their own, which a sweep of rows does not change.
async fn remark_unchanged_blobs(
    open: &OpenStore,
    table: &TableName,
    sweep: &SweepArgs,
) -> Result<()> {
    let manifest = manifest(&*open.store, table).await?;
    if !sweep.long.quiet && manifest.types.iter().any(|stored| is_large(&stored.layout)) {
        remark(&format!(
            "{table}: blobs of large values were not changed: use `Table::rewrite_blobs` in a program with the type"
        ));
    }
    Ok(())
}

fn skipped_rows(skipped: u64, advice: &str) -> Result<()> {
    match skipped {
        0 => Ok(()),
        _ => Err(Failure::Skipped(format!(
            "{skipped} rows were skipped: {advice}"
        ))),
    }
}

impl SweepArgs {
    fn print(
        &self,
        table: &TableName,
        found: &SweepProgress,
        requests: u64,
        verb: &str,
    ) -> Result<()> {
        let named: Vec<_> = found.unreadable.iter().take(MAX_NAMED).collect();
        if self.long.json {
            let reasons: Vec<_> = named
                .iter()
                .map(|row| json!({"key": row.key, "reason": row.error.to_string()}))
                .collect();
            let report = json!({
                "table": table.as_str(), "read": found.read, "changed": found.changed, "skipped": found.skipped, "keys": found.keys,
                "index_tables": found.index_tables, "first_skipped": reasons, "requests": requests,
            });
            return print_json(&report);
        }
        named
            .iter()
            .for_each(|row| remark(&format!("skipped: {}: {}", row.key, row.error)));
        let keys: Vec<_> = found
            .keys
            .iter()
            .map(|(id, rows)| format!("{rows} under {}", one_line(id)))
            .collect();
        let keys = if keys.is_empty() {
            String::new()
        } else {
            format!("; {}", keys.join(", "))
        };
        let SweepProgress {
            read,
            changed,
            skipped,
            ..
        } = found;
        print(&format!(
            "{table}: {read} rows read, {changed} {verb}, {skipped} skipped{keys}\n"
        ))
    }
}
