//! Copies every table of one store to another, and the blobs beside them; compares them, and says so.
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

/// Copies every table of a store to another, with the blobs beside them, and compares them. A copy of a table
/// that was interrupted goes on where it was when it is started again; blobs are copied again.
#[derive(Debug, Parser)]
#[command(name = "copy")]
struct Args {
    /// The store to read.
    #[arg(value_name = StoreSpec::FORMS)]
    from: StoreSpec,
    /// The store to write. Rows and blobs that it has already are overwritten; others stay, and are counted.
    #[arg(value_name = StoreSpec::FORMS)]
    to: StoreSpec,
    /// Requests in flight.
    #[arg(long, default_value_t = 32)]
    parallelism: usize,
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
    let (from, to) = (args.from.open().await?, args.to.open().await?);
    let tables = from.store.all_tables(None).await?;
    if tables.is_empty() {
        return Err(format!("{} has no tables", args.from).into());
    }
    let progress = Progress::default();
    // Rows refer to blobs, never the other way round: these go first.
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
    let copied = blobs::copy(stores, args.parallelism, bar.counter()).await?;
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
    // The stores try again by themselves.
    let options = BulkOptions::default().with_parallelism(args.parallelism).with_retry(None);
    let job = CopyJob::new((Arc::clone(&from.store), table.clone()), (Arc::clone(to), table.clone()))
        .resumable(from.identity.clone())
        .with_options(options)
        // The blobs are copied and compared already, those of indexes too.
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

/// What the comparison of a copied table shows, unless it shows that the copy is another.
fn describe(table: &TableName, compared: &Comparison) -> Result<String> {
    let (first, second, some) = (compared.first, compared.second, &compared.differences);
    if compared.equal {
        return Ok("both are equal".to_owned());
    }
    let added = some.iter().all(|difference| matches!(difference, Difference::OnlyInSecond(_)));
    // Fewer than may be named: all.
    if added && (1..100).contains(&some.len()) {
        return Ok(format!("all are in both, and {} in the target alone", some.len()));
    }
    Err(format!(
        "{table} differs after the copy, {first} rows and {second}: is one of the stores in use, or has the \
         target rows of its own? {some:?}"
    )
    .into())
}
