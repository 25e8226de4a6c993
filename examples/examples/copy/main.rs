//! Copies every table and its blobs from one store to another, then compares them and prints the result. It overwrites rows and blobs of
//! the target that have the same keys. For real copies use the command `tables copy`; this program shows `CopyJob`.
//!
//! ```sh
//! cargo run --release --example copy -- embedded:target/flights-january azurite
//! ```

mod blobs;
mod progress;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use examples::store::{OpenStore, StoreSpec};
use examples::{Result, exit_code};
use object_store::ObjectStore;
use table_core::model::TableName;
use table_core::store::{TableStore, TableStoreExt as _};
use table_patterns::bulk::{BulkOptions, Comparison, CopyJob, Difference};

use progress::Progress;

/// A comparison lists at most this many differences (`Comparison::differences`).
const MAX_LISTED_DIFFERENCES: usize = 100;

/// Copies every table of a store to another, with its blobs, and compares them. An interrupted copy of a
/// table continues where it stopped when it is started again; blobs are copied again.
#[derive(Debug, Parser)]
#[command(name = "copy")]
struct Args {
    /// The store to read; not `memory`, which is empty at the start.
    #[arg(value_name = StoreSpec::FORMS)]
    from: StoreSpec,
    /// The store to write. Existing rows and blobs with the same keys are overwritten; others are kept and
    /// counted.
    #[arg(value_name = StoreSpec::FORMS)]
    to: StoreSpec,
    /// Requests in flight.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code("copy", run(&Args::parse())).await
}

async fn run(args: &Args) -> Result<()> {
    if args.from == args.to {
        return Err(format!("{} cannot be copied to itself", args.from).into());
    }
    if args.from == StoreSpec::Memory {
        return Err("the source cannot be `memory`, which is empty at the start".into());
    }
    let from = args.from.open().await?;
    let tables = from.store.all_tables(None).await?;
    if tables.is_empty() {
        return Err(format!("{} has no tables", args.from).into());
    }
    let to = args.to.open().await?;
    let progress = Progress::default();
    // Blobs are copied first, because rows refer to blobs and not the other way round.
    copy_blobs(args, (&from.blobs, &to.blobs), &progress).await?;
    for table in &tables {
        copy(args, (&from, &to.store), table, &progress).await?;
    }
    from.close().await?;
    Ok(to.close().await?)
}

/// Copies and compares the blobs.
async fn copy_blobs(
    args: &Args,
    stores: (&Arc<dyn ObjectStore>, &Arc<dyn ObjectStore>),
    progress: &Progress,
) -> Result<()> {
    let bar = progress.begin("blobs");
    let copied = blobs::copy(stores, args.concurrency, bar.counter()).await?;
    bar.finish();
    let (count, bytes) = (copied.blobs, copied.bytes);
    writeln!(
        io::stdout(),
        "blobs: {count} copied ({bytes} bytes), hashes are equal"
    )?;
    Ok(())
}

/// Copies and compares one table.
async fn copy(
    args: &Args,
    (from, to): (&OpenStore, &Arc<dyn TableStore>),
    table: &TableName,
    progress: &Progress,
) -> Result<()> {
    let bar = progress.begin(table.as_str());
    // The opened stores already retry requests; memory and the embedded store need no retry.
    let options = BulkOptions::default()
        .with_concurrency(args.concurrency)
        .with_retry(None);
    let job = CopyJob::new(
        (Arc::clone(&from.store), table.clone()),
        (Arc::clone(to), table.clone()),
    )
    // The name of the checkpoint: it must identify the source.
    .resumable(from.identity.clone())
    .with_options(options)
    // Blobs, including those of indexes, were already copied and compared.
    .rows_only()
    // Only the programs of this machine write the source.
    .trust_definitions()
    .on_progress(bar.counter());
    let report = job.run().await?;
    bar.start_comparison(report.rows);
    let compared = job.verify().await?;
    bar.finish();
    let (rows, resumed) = (report.rows, report.resumed);
    let found = describe(table, &compared)?;
    writeln!(
        io::stdout(),
        "{table}: rows copied: {rows} (in an earlier run: {resumed}); {found}"
    )?;
    Ok(())
}

/// Describes the result of comparing a copied table; fails if the copy differs.
fn describe(table: &TableName, compared: &Comparison) -> Result<String> {
    let (first, second, some) = (compared.first, compared.second, &compared.differences);
    if compared.equal {
        return Ok("source and target are equal".to_owned());
    }
    let added = some
        .iter()
        .all(|difference| matches!(difference, Difference::OnlyInSecond(_)));
    // With fewer differences the list is complete.
    if added && (1..MAX_LISTED_DIFFERENCES).contains(&some.len()) {
        return Ok(format!(
            "the target has all of them, and rows that the source does not have: {}",
            some.len()
        ));
    }
    Err(format!(
        "table {table} differs after the copy ({first} rows in the source, {second} in the target): a program may write one of \
         the stores, or the target had other rows. First differences: {some:?}"
    )
    .into())
}
