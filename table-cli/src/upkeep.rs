//! `tables upkeep`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use table_core::adapter::RequestMeter;
use table_core::model::TableName;
use table_patterns::large::LargeOptions;
use table_patterns::upkeep::{TableUpkeep, Upkeep, UpkeepReport};

use crate::blobs::{BlobPlace, root};
use crate::failure::{Failure, Result};
use crate::keys::KeyArgs;
use crate::output::{print, print_json, remark};
use crate::pace::stopped;
use crate::pace::{Pace, at_least_one};
use crate::progress::LINE_INTERVAL;
use crate::store::{Access, OpenStore, StoreName};

/// The arguments of `tables upkeep`.
#[derive(Debug, Args)]
pub(crate) struct UpkeepArgs {
    /// The store
    store: StoreName,
    /// The tables; every table of the store at the start if none is given
    tables: Vec<TableName>,
    /// One round of each table, and the end
    #[arg(long)]
    once: bool,
    /// The pause between two rounds of a table
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// The place of the blobs of large entities, to remove blobs that no row needs: a directory or a container, as for a backup.
    /// No other store may keep blobs of tables of these names there
    #[arg(long, value_name = "PLACE")]
    blobs: Option<BlobPlace>,
    /// Remove the entities of a type that have expired by this property, as the table's manifest says. Needed for every store but a
    /// directory on this machine: a client that may add rows to a table can add an expiry to its manifest. May be repeated
    #[arg(long, value_name = "TYPE=PROPERTY", value_parser = expiry)]
    trust_expiry: Vec<(String, String)>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    pace: Pace,
    /// Tables in work at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one())]
    concurrency: usize,
    /// Print a line of JSON for each round of a table
    #[arg(long)]
    json: bool,
    /// Print no line for a round; warnings and errors stay
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
}

/// An expiry: a type and the property with the time.
fn expiry(text: &str) -> Result<(String, String), String> {
    let (of, property) = text
        .split_once('=')
        .ok_or("give a type and a property, such as Session=Expires")?;
    Ok((of.to_owned(), property.to_owned()))
}

impl UpkeepArgs {
    /// Runs rounds of upkeep, and prints a line for each round of a table. 1 request for each 1,000 tables of the store if none is given, and
    /// the requests of [`Upkeep`].
    pub(crate) async fn run(&self) -> Result<()> {
        let work = async |open: &mut OpenStore| self.keep(open).await;
        self.store
            .with_open(Access::WriteExisting, self.pace, work)
            .await
    }

    async fn keep(&self, open: &mut OpenStore) -> Result<()> {
        let tables = open.tables(&self.tables).await?;
        if tables.is_empty() {
            remark("the store has no table");
            return Ok(());
        }
        self.keys.apply(open, &tables).await?;
        let rounds = Arc::new(Mutex::new(Rounds {
            is_json: self.json,
            is_quiet: self.quiet,
            printed: BTreeMap::new(),
            end: Ok(()),
        }));
        let listener = Arc::clone(&rounds);
        let upkeep = Upkeep::new(Arc::clone(&open.store))
            .tables(tables.iter().map(TableName::as_str))
            .with_concurrency(self.concurrency)
            .every(Duration::from_secs(self.every))
            .on_round(move |report| locked(&listener, |rounds| rounds.print(report)));
        let trusted = self.trust_expiry.iter();
        let upkeep = trusted.fold(upkeep, |upkeep, (of, property)| {
            upkeep.trust_expiry(of, property)
        });
        let upkeep = match &self.blobs {
            Some(blobs) => upkeep.blobs(
                blobs.open(false)?,
                LargeOptions::default().with_root(root()),
            ),
            None => upkeep,
        };
        let waits = async {
            if !self.quiet {
                tell_of_waits(&tables, &rounds, &open.meter).await;
            }
            std::future::pending::<Infallible>().await
        };
        let report = if self.once {
            tokio::select! {
                // Dropped at a signal, wherever it is. The work is written for crashes, so the next upkeep
                // finishes it in the same way.
                report = upkeep.run_once() => report?,
                never = waits => match never {},
                () = stopped() => return Err(Failure::failed("interrupted: the next upkeep continues the work")),
            }
        } else {
            tokio::select! {
                report = upkeep.run(stopped()) => report?,
                never = waits => match never {},
            }
        };
        locked(&rounds, |rounds| std::mem::replace(&mut rounds.end, Ok(())))?;
        health(&report)
    }
}

/// Names the tables whose first round goes on, from time to time. A round may wait for minutes: for the end of leases, or until every program
/// knows the state of an index.
async fn tell_of_waits(tables: &[TableName], rounds: &Mutex<Rounds>, meter: &RequestMeter) {
    let started = Instant::now();
    loop {
        tokio::time::sleep(LINE_INTERVAL).await;
        let is_done =
            |table: &&TableName| locked(rounds, |rounds| rounds.printed.contains_key(*table));
        let left: Vec<_> = tables
            .iter()
            .filter(|table| !is_done(table))
            .map(TableName::as_str)
            .collect();
        if left.is_empty() {
            return;
        }
        remark(&format!(
            "in work for {} s, {} requests: {}; work of other programs is continued when their leases have ended",
            started.elapsed().as_secs(),
            meter.total(),
            left.join(", ")
        ));
    }
}

fn locked<T>(rounds: &Mutex<Rounds>, work: impl FnOnce(&mut Rounds) -> T) -> T {
    work(&mut rounds.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The rounds that were printed.
struct Rounds {
    is_json: bool,
    is_quiet: bool,
    printed: BTreeMap<TableName, u64>,
    /// The first failure of standard output.
    end: Result<()>,
}

impl Rounds {
    /// Prints a line for each table that has ended a round since the last call, unless `--quiet` is given.
    fn print(&mut self, report: &UpkeepReport) {
        for (table, kept) in &report.tables {
            let printed = self.printed.entry(table.clone()).or_default();
            // A report has all tables, and the call is for one of them: the number of its rounds has grown.
            if kept.rounds > *printed {
                *printed = kept.rounds;
                let due = report.due().filter(|(of, ..)| *of == table).count();
                // The upkeep goes on if standard output is closed: its work does not depend on a reader.
                if self.end.is_ok() && !self.is_quiet {
                    self.end = match self.is_json {
                        true => print_json(&json_report(table, kept, due)),
                        false => print(&line(table, kept, due)),
                    };
                }
            }
        }
    }
}

/// The sums over the indexes of a table: builds, removals, compared entries, dangling entries, missing entries.
fn sums(kept: &TableUpkeep) -> [usize; 5] {
    kept.indexes.values().fold(
        [0; 5],
        |[built, dropped, entries, dangling, missing], index| {
            let scrubbed = &index.scrubbed;
            [
                built + index.built,
                dropped + index.dropped,
                entries + scrubbed.entries,
                dangling + scrubbed.dangling,
                missing + scrubbed.missing,
            ]
        },
    )
}

/// Blobs of large values that were removed.
fn blobs(kept: &TableUpkeep) -> usize {
    let removed = kept
        .large
        .as_ref()
        .map_or(0, |large| large.collected.orphans);
    usize::try_from(removed).unwrap_or(usize::MAX)
}

/// The removal of expired entities: finished sweeps, removed entities, entities that could not be removed.
fn expired(kept: &TableUpkeep) -> [usize; 3] {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    kept.expiry.as_ref().map_or([0; 3], |expiry| {
        [expiry.sweeps, number(expiry.removed), number(expiry.failed)]
    })
}

fn line(table: &TableName, kept: &TableUpkeep, due: usize) -> String {
    let health = match (&kept.error, due) {
        (Some(_), _) => "failed",
        (None, 0) if !kept.has_manifest && kept.expiry.is_none() && kept.large.is_none() => {
            "needs no upkeep"
        }
        (None, 0) => "healthy",
        (None, _) => "needs an operator",
    };
    let swept = &kept.swept;
    let [built, dropped, entries, dangling, missing] = sums(kept);
    let [expiry_sweeps, expired, not_removed] = expired(kept);
    let counts = [
        (swept.applied, "writes finished"),
        (swept.left, "writes left to a later round"),
        (swept.failed, "writes that cannot be finished"),
        (
            swept.collisions,
            "index entries left out, because rows of others have their keys",
        ),
        (swept.released, "reservations released"),
        (swept.moves_given_up, "moves given up"),
        (built, "builds ended"),
        (dropped, "removals of indexes ended"),
        (entries, "entries compared"),
        (dangling, "dangling entries removed"),
        (missing, "missing entries added"),
        (blobs(kept), "unused blobs removed"),
        (expiry_sweeps, "sweeps of expired entities"),
        (expired, "expired entities removed"),
        (not_removed, "expired entities not removed"),
    ];
    let counts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let end = if counts.is_empty() {
        String::new()
    } else {
        format!("; since the start: {}", counts.join(", "))
    };
    format!("{table}: round {}: {health}{end}\n", kept.rounds)
}

fn json_report(table: &TableName, kept: &TableUpkeep, due: usize) -> serde_json::Value {
    let swept = &kept.swept;
    let [built, dropped, entries, dangling, missing] = sums(kept);
    let [expiry_sweeps, expired, not_removed] = expired(kept);
    json!({
        "table": table.as_str(), "round": kept.rounds, "has_manifest": kept.has_manifest, "failed": kept.error.is_some(), "due": due,
        "finished": swept.applied, "left": swept.left, "unfinished": swept.failed, "entries_left_out": swept.collisions, "released": swept.released, "moves_given_up": swept.moves_given_up,
        "built": built, "dropped": dropped, "compared": entries, "dangling": dangling, "missing": missing, "blobs": blobs(kept),
        "expiry_sweeps": expiry_sweeps, "expired": expired, "not_removed": not_removed,
    })
}

/// Names what needs an operator after the last round, on standard error. The failure has the exit code.
fn health(report: &UpkeepReport) -> Result<()> {
    let mut due = 0_u64;
    for (table, part, reason) in report.due() {
        let reason = reason.map_or_else(|| "it is not readable".to_owned(), ToString::to_string);
        remark(&format!("{table}: {part}: {reason}"));
        due += 1;
    }
    for (table, kept) in &report.tables {
        if let Some(error) = &kept.error {
            remark(&format!("{table}: {}", Failure::from(error.clone())));
        }
    }
    match (report.errors().count(), due) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::Damaged(format!(
            "{due} parts of tables need an operator"
        ))),
        (failed, _) => Err(Failure::failed(format!(
            "the last round failed for {failed} tables: run upkeep again"
        ))),
    }
}
