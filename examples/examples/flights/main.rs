//! Loads the flights that left New York City's airports (the bundled data: January 2013) into a table store, once, and answers twelve
//! questions through derived types. Each answer shows the pattern, the access path and the number of requests to tables (requests to the
//! blob store are not counted).
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
use examples::store::OpenStore;
use examples::{Result, exit_code};

use answer::{Answer, QuestionResult};
use args::Args;
use day_csv::DayFiles;
use questions::Questions;

#[tokio::main]
async fn main() -> ExitCode {
    exit_code("flights", run(&Args::parse())).await
}

async fn run(args: &Args) -> Result<()> {
    let opened = args.store().open().await?;
    answer(args, &opened).await?;
    Ok(opened.close().await?)
}

async fn answer(args: &Args, opened: &OpenStore) -> Result<()> {
    let (store, options) = (&opened.store, opened.index_options()?);
    let files = DayFiles::open(Arc::clone(store), Arc::clone(&opened.blobs))?;
    load::ensure(store, &files, &options, args).await?;
    indexes::build_delays(store, &options).await?;
    let questions = Questions::new(Arc::clone(store), Arc::clone(&opened.blobs)).await?;
    let results = questions.ask_all().await?;
    report::print(&results, args.json)?;
    match &args.plots {
        Some(dir) => plot(dir, &results, &questions).await,
        None => Ok(()),
    }
}

async fn plot(dir: &Path, results: &[QuestionResult], questions: &Questions) -> Result<()> {
    let weather = results.iter().find_map(|result| match &result.answer {
        Answer::Weather { hours } => Some(hours),
        _ => None,
    });
    if let Some(hours) = weather {
        plots::temperatures(dir, "Temperature at Newark (EWR) on 1 January 2013", hours)?;
    }
    let days = questions.flights_per_day().await?;
    plots::flights_per_day(
        dir,
        "flights-per-day.svg",
        "Flights per day, New York City",
        &days,
    )?;
    let jfk = questions.jfk_departures().await?;
    plots::flights_per_day(dir, "jfk-per-day.svg", "Departures per day, JFK", &jfk)?;
    eprintln!("The plots are in {}.", dir.display());
    Ok(())
}
