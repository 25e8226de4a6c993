//! `tables doctor`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use table_core::model::TableName;
use table_patterns::examination::{
    CompareEntries, Examination, Finding, PartitionSize, Severity, TableExamination,
};
use table_patterns::index::IndexOptions;

use crate::blobs::{BlobPlace, root};
use crate::failure::{Failure, Result};
use crate::keys::KeyArgs;
use crate::output::{one_line, print, print_json, remark};
use crate::pace::{InFlight, LongArgs, until_stopped};
use crate::progress::SharedProgress;
use crate::store::{Access, OpenStore, StoreName};

/// The partitions in a list for people.
const MAX_LISTED: usize = 5;

/// The arguments of `tables doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The store
    store: StoreName,
    /// The table; every table of the store if none is given
    table: Option<TableName>,
    /// How many entries and entities of each index are compared; 0 for none
    #[arg(long, value_name = "N", default_value_t = 100)]
    sample: usize,
    /// Compare every entry and every entity of each index, 1 request each
    #[arg(long, conflicts_with = "sample")]
    all_entries: bool,
    /// The age in minutes from which on an unfinished write is damage: a younger one may be in progress
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    unfinished_after: u64,
    /// The place of the blobs of large entities, to find missing blobs: a directory or a container, as for a backup
    #[arg(long, value_name = "PLACE")]
    blobs: Option<BlobPlace>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    in_flight: InFlight,
    #[command(flatten)]
    long: LongArgs,
}

impl DoctorArgs {
    /// Examines tables, one after another. 1 request for each 1,000 tables of the store if none is given, and the requests of
    /// [`Examination`] for each.
    pub(crate) async fn run(&self) -> Result<()> {
        let work = async |open: &mut OpenStore| {
            let tables = open.tables(self.table.as_slice()).await?;
            if tables.is_empty() {
                remark("the store has no table");
            }
            self.keys.apply(open, &tables).await?;
            let work = self.examine(open, &tables);
            until_stopped(work, "nothing was changed: run the same command again").await
        };
        self.store
            .with_open(Access::Read, self.long.pace, work)
            .await
    }

    async fn examine(&self, open: &OpenStore, tables: &[TableName]) -> Result<()> {
        let mut damaged = Vec::new();
        for table in tables {
            let before = open.meter.total();
            let found = self.examined(open, table).await?;
            let requests = open.meter.total() - before;
            match self.long.json {
                true => print_json(&json_report(table, &found, requests))?,
                false => print(&report(table, &found))?,
            }
            // The other tables are examined too: the report must not end at the first damage.
            if found.is_damaged() {
                damaged.push(table.as_str());
            }
        }
        match damaged.len() {
            0 => Ok(()),
            _ => Err(Failure::Damaged(format!(
                "these tables have damage: {}",
                damaged.join(", ")
            ))),
        }
    }

    async fn examined(
        &self,
        open: &OpenStore,
        table: &TableName,
    ) -> Result<TableExamination, Failure> {
        let entries = match (self.all_entries, self.sample) {
            (true, _) => CompareEntries::All,
            (false, 0) => CompareEntries::None,
            (false, size) => CompareEntries::Sampled(size),
        };
        let mut options = IndexOptions::default();
        options.concurrency = self.in_flight.concurrency;
        let progress = open
            .progress_of(
                Some(std::slice::from_ref(table)),
                "examined",
                self.long.quiet,
            )
            .await;
        let progress = SharedProgress::new(progress);
        let shown = progress.clone();
        let mut examination = Examination::new(Arc::clone(&open.store), table.clone())
            .with_entries(entries)
            .with_options(options)
            .with_encrypted_names(table_encryption::encrypted_names)
            .unfinished_after(Duration::from_secs(
                self.unfinished_after.saturating_mul(60),
            ))
            .on_progress(move |rows| shown.set(rows));
        if let Some(blobs) = &self.blobs {
            // A directory that is missing is a mistake in the argument: an empty one would make every blob
            // look lost.
            examination = examination.blobs(blobs.open(false)?, root());
        }
        let found = examination.run().await?;
        progress.end();
        Ok(found)
    }
}

fn json_report(table: &TableName, found: &TableExamination, requests: u64) -> serde_json::Value {
    let findings: Vec<_> = found.findings.iter().map(json_finding).collect();
    json!({
        "table": table.as_str(), "is_complete": found.is_complete, "is_damaged": found.is_damaged(), "rows": found.rows,
        "entities": found.entities, "index_entries": found.index_entries, "system_rows": found.system_rows,
        "unfinished": found.unfinished, "bytes": found.bytes, "findings": findings, "partitions": found.partitions,
        "sizes": found.sizes, "types": found.types, "writes": found.writes, "compared": found.compared, "leaving": found.leaving, "requests": requests,
    })
}

fn json_finding(found: &Finding) -> serde_json::Value {
    json!({
        "problem": found.problem, "severity": found.problem.severity(), "subject": found.subject, "count": found.count,
        "examples": found.examples, "advice": found.problem.advice(),
    })
}

/// The report for people: the counts, the largest and the busiest partitions, and the findings.
fn report(table: &TableName, found: &TableExamination) -> String {
    let mut out = format!(
        "{table}: {} rows ({} entities, {} index entries, {} system rows), {} KiB, {} partitions\n",
        found.rows,
        found.entities,
        found.index_entries,
        found.system_rows,
        found.bytes.div_ceil(1024),
        found.partitions.count
    );
    let partitions = &found.partitions;
    if partitions.count > 1 {
        list(
            &mut out,
            "largest partitions",
            &partitions.largest,
            |size| format!("{} rows, {} KiB", size.rows, size.bytes.div_ceil(1024)),
        );
        list(
            &mut out,
            "partitions with the most writes of the last day",
            &partitions.busiest,
            |size| {
                format!(
                    "{} rows, {} in the busiest second",
                    size.written_last_day, size.busiest_second
                )
            },
        );
    }
    if !partitions.is_complete {
        out.push_str("  not every partition was counted: the service mixes partitions\n");
    }
    if !found.is_complete {
        out.push_str("  the table could not be read to its end\n");
    }
    for (id, other) in &found.leaving {
        let _ = match other {
            Some(other) => writeln!(out, "  the index {id} has its entries in the table {other}"),
            None => writeln!(out, "  the index {id} has its entries in other partitions"),
        };
    }
    for finding in &found.findings {
        let kind = if finding.problem.severity() == Severity::Damage {
            "damage"
        } else {
            "advice"
        };
        let Finding {
            problem,
            subject,
            count,
            examples,
            ..
        } = finding;
        let _ = writeln!(out, "  {kind}: {problem}: {} ({count})", one_line(subject));
        let examples: Vec<_> = examples
            .iter()
            .take(3)
            .map(|key| one_line(&key.to_string()).into_owned())
            .collect();
        if !examples.is_empty() {
            let _ = writeln!(out, "    such as {}", examples.join(", "));
        }
        let _ = writeln!(out, "    {}", problem.advice());
    }
    if found.findings.is_empty() {
        out.push_str("  nothing is wrong\n");
    }
    out
}

fn list(
    out: &mut String,
    title: &str,
    sizes: &[PartitionSize],
    line: impl Fn(&PartitionSize) -> String,
) {
    if sizes.is_empty() {
        return;
    }
    let _ = writeln!(out, "  {title}:");
    for size in sizes.iter().take(MAX_LISTED) {
        // Escaped: a key may have control characters, which would reach the terminal.
        let _ = writeln!(out, "    {:?}: {}", size.partition, line(size));
    }
}
