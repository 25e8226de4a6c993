//! Copies every table and its blobs from one store to another, then compares them and prints the result.
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
use examples::Result;
use examples::store::{OpenStore, StoreSpec};
use object_store::ObjectStore;
use table_core::model::TableName;
use table_core::store::{TableStore, TableStoreExt as _};
use table_patterns::bulk::{BulkOptions, Comparison, CopyJob, Difference};

use progress::Progress;

/// Copies every table of a store to another, with its blobs, and compares them. An interrupted copy of a
/// table continues where it stopped when it is started again; blobs are copied again.
#[derive(Debug, Parser)]
#[command(name = "copy")]
struct Args {
    /// The store to read.
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
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("copy: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    if args.from == args.to {
        return Err(format!("{} cannot be copied to itself", args.from).into());
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
    writeln!(io::stdout(), "blobs: {count} copied, {bytes} bytes; all are equal")?;
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
    // The stores retry themselves.
    let options = BulkOptions::default().with_concurrency(args.concurrency).with_retry(None);
    let job = CopyJob::new((Arc::clone(&from.store), table.clone()), (Arc::clone(to), table.clone()))
        .resumable(from.identity.clone())
        .with_options(options)
        // Blobs, including those of indexes, were already copied and compared.
        .rows_only()
        .on_progress(bar.counter());
    let report = job.run().await?;
    bar.compares(report.rows);
    let compared = job.verify().await?;
    bar.finish();
    let (rows, resumed) = (report.rows, report.resumed);
    let found = describe(table, &compared)?;
    writeln!(io::stdout(), "{table}: {rows} rows copied, {resumed} of them earlier; {found}")?;
    Ok(())
}

/// Describes the result of comparing a copied table; fails if the copy differs.
fn describe(table: &TableName, compared: &Comparison) -> Result<String> {
    let (first, second, some) = (compared.first, compared.second, &compared.differences);
    if compared.equal {
        return Ok("both are equal".to_owned());
    }
    let added = some.iter().all(|difference| matches!(difference, Difference::OnlyInSecond(_)));
    // Below the maximum number of listed keys, so the list is complete.
    if added && (1..100).contains(&some.len()) {
        return Ok(format!("all are in both, and {} in the target alone", some.len()));
    }
    Err(format!(
        "{table} differs after the copy, {first} rows and {second}: check whether one of the stores is in use or the \
         target has other rows: {some:?}"
    )
    .into())
}
