//! Stores every flight with further patterns than `flights`: spread keys, logs in blobs, compound keys, entities of several types, joins
//! and relations, an archive. The program fails if a result differs from the CSV files. Each line has the number of requests to tables;
//! logs in blobs have none, and requests to the archive store are in the text.
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
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use examples::data::{DATA_HELP, directory};
use examples::{Result, exit_code};
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::store::TableStore;

use flight::Flights;

/// Stores every flight with further patterns than the program `flights`, in memory.
#[derive(Debug, Parser)]
#[command(name = "flights_patterns")]
struct Args {
    #[arg(long, value_name = "DIR", help = DATA_HELP)]
    data: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code("flights_patterns", run(&Args::parse())).await
}

async fn run(args: &Args) -> Result<()> {
    let flights = Flights::read(&directory(args.data.as_deref()))?;
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    print_result(
        "spread keys",
        &meter,
        &spreading::run(&store, &flights).await?,
    )?;
    print_result("logs in blobs", &meter, &logs::run(&flights).await?)?;
    let fleet = fleet::load(&store, &flights).await?;
    print_result(
        "load of the fleet",
        &meter,
        "planes and flights in full groups",
    )?;
    print_result(
        "compound keys",
        &meter,
        &fleet.check_each_plane(&flights).await?,
    )?;
    print_result("several types", &meter, &fleet.count_types(&flights).await?)?;
    print_result(
        "partial changes",
        &meter,
        &fleet.add_flight_counts(&flights).await?,
    )?;
    print_result(
        "joins, relations",
        &meter,
        &related::run(&fleet, &flights).await?,
    )?;
    print_result(
        "eventual archive",
        &meter,
        &archive::run(&store, &flights).await?,
    )
}

/// Prints the result of a pattern and its requests to tables since the last line.
fn print_result(pattern: &str, meter: &RequestMeter, found: &str) -> Result<()> {
    let requests = meter.total();
    meter.reset();
    Ok(writeln!(
        io::stdout(),
        "{pattern:<17} {requests:>8} table requests: {found}"
    )?)
}

/// Fails if two counts differ.
fn expect_count(name: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{name}: {found} instead of {expected}").into())
}
