//! The flights that left New York City's airports in 2013, loaded once into a durable store and queried
//! through derived types. Each answer shows its access path and its number of storage requests.
//!
//! ```sh
//! cargo run --release --example flights
//! ```

mod answer;
mod args;
mod day_csv;
mod feed;
mod import;
mod indexes;
mod load;
mod model;
mod months;
mod plots;
mod progress;
mod questions;
mod report;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use examples::{data, row};
use object_store::ObjectStore;
use table_core::store::TableStore;

use answer::{Answer, Answered};
use args::Args;
use day_csv::DayFiles;
use questions::Questions;

/// The result type of this program. Errors are printed for the user.
type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flights: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let opened = args.store().open().await?;
    answer(args, Arc::clone(&opened.store), Arc::clone(&opened.blobs)).await?;
    Ok(opened.close().await?)
}

async fn answer(args: &Args, store: Arc<dyn TableStore>, blobs: Arc<dyn ObjectStore>) -> Result<()> {
    let files = DayFiles::open(Arc::clone(&store), Arc::clone(&blobs))?;
    load::ensure(&store, &files, args).await?;
    indexes::build_delays(&store).await?;
    let questions = Questions::new(store, blobs).await?;
    let answers = questions.ask_all().await?;
    report::print(&answers, args.json)?;
    match &args.plots {
        Some(dir) => plot(dir, &answers, &questions).await,
        None => Ok(()),
    }
}

async fn plot(dir: &Path, answers: &[Answered], questions: &Questions) -> Result<()> {
    let weather = answers.iter().find_map(|answered| match &answered.answer {
        Answer::Weather { hours } => Some(hours),
        _ => None,
    });
    if let Some(hours) = weather {
        plots::temperatures(dir, "Temperature at Newark (EWR) on 1 January 2013", hours)?;
    }
    let days = questions.flights_per_day().await?;
    plots::flights_per_day(dir, "flights-per-day.svg", "Flights from New York City's airports, 2013", &days)?;
    let jfk = questions.jfk_departures().await?;
    plots::flights_per_day(dir, "jfk-per-day.svg", "Departures from JFK, 2013", &jfk)?;
    eprintln!("The plots are in {}.", dir.display());
    Ok(())
}
