//! Stores every flight with the patterns that the flagship's questions do not use: spread keys, logs in
//! blobs, compound keys, entities of several types, joins and relations, an archive. The program fails if a
//! result differs from the CSV files.
//!
//! ```sh
//! cargo run --release --example flights_patterns -- --data DIR
//! ```

mod archive;
mod fleet;
mod flight;
mod logs;
mod related;
mod spreading;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use examples::Result;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::store::TableStore;

use flight::Flights;

/// Stores every flight with the patterns that the flagship's questions do not use, in memory.
#[derive(Debug, Parser)]
#[command(name = "flights_patterns")]
struct Args {
    /// The data set: flights, weather, planes and airlines as .csv or .csv.zst. [default: January 2013,
    /// bundled]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flights_patterns: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let flights = Flights::read(args.data.as_deref().unwrap_or(&bundled))?;
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    print_result("spread keys", &meter, &spreading::run(&store, &flights).await?)?;
    print_result("logs in blobs", &meter, &logs::run(&flights).await?)?;
    let fleet = fleet::load(&store, &flights).await?;
    print_result("compound keys", &meter, &fleet.compound(&flights).await?)?;
    print_result("several types", &meter, &fleet.types(&flights).await?)?;
    print_result("joins, relations", &meter, &related::run(&fleet, &flights).await?)?;
    print_result("eventual archive", &meter, &archive::run(&store, &flights).await?)
}

/// Prints the result of a pattern and its cost in requests to tables.
fn print_result(pattern: &str, meter: &RequestMeter, found: &str) -> Result<()> {
    let requests = meter.total();
    meter.reset();
    Ok(writeln!(io::stdout(), "{pattern:<17} {requests:>8} requests: {found}")?)
}

/// Fails if two counts differ.
fn same(what: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found} instead of {expected}").into())
}
