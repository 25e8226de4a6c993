//! Builds an index over a table in use. Tasks change, delete and add flights during the build, a bar shows its progress, and the scrub
//! that follows finds no difference.
//!
//! Cost: 1 request per page of the table, 1 per group of entries, and the requests of the state changes; the program prints the number of its
//! requests.
//!
//! ```sh
//! cargo run --release --example online_index_build -- --data DIR
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::NaiveDate;
use clap::Parser;
use examples::Result;
use examples::data::{DATA_HELP, DataSet, directory};
use examples::progress;
use examples::row::Row;
use futures_util::stream;
use table_core::adapter::{Metered, RequestMeter};
use table_embedded::{Durability, EmbeddedStore};
use table_patterns::bulk::{BulkOptions, BulkWriter};
use table_patterns::index::{BuildProgress, IndexOptions, ScrubMode};
use table_patterns::prelude::*;

const FLIGHTS: &str = "Flights";

/// Number of tasks that write during the build, each through a handle of its own.
const WRITERS: usize = 4;

/// Number of flights in a debug build of this program.
const DEBUG_FLIGHTS: usize = 3_000;

/// How long a sweep keeps abort rows: longer than any writer can be paused.
const KEEP_ABORT_ROWS: Duration = Duration::from_secs(24 * 3600);

/// Builds an index over the flights while other tasks write them.
#[derive(Debug, Parser)]
struct Args {
    #[arg(long, value_name = "DIR", help = DATA_HELP)]
    data: Option<PathBuf>,
    /// Use only this many flights. [default: all, and 3,000 in a debug build]
    #[arg(long, value_name = "FLIGHTS")]
    first: Option<usize>,
    /// Keep the tables on disk, in a temporary directory, instead of in memory.
    #[arg(long)]
    disk: bool,
}

/// A flight, in its carrier's partition. The index `airport` has the flights of an airport, ordered by day. The flights' own keys start
/// with the carrier, so without the index this question would read the whole table.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Flight",
    rename_all = "PascalCase",
    row_key = "{date}_{number:04}_{origin}"
)]
#[index(
    airport,
    table = "FlightsByAirport",
    partition_key = "{origin}",
    row_key = "{date}_{carrier}_{number:04}",
    payload = fields(arr_delay)
)]
struct Flight {
    #[partition_key]
    carrier: String,
    date: NaiveDate,
    number: u32,
    origin: String,
    dest: String,
    /// Minutes; absent if the flight was cancelled or diverted.
    arr_delay: Option<i32>,
}

/// The delay of a flight, which its entry contains.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Flight, rename_all = "PascalCase")]
struct Delay {
    arr_delay: Option<i32>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    if !args.disk {
        return build_and_compare(&args, Arc::new(MemoryStore::new())).await;
    }
    let directory = tempfile::tempdir()?;
    let builder = EmbeddedStore::builder(directory.path().join("flights"));
    // Faster loading: a crash may lose the last writes. Keep the default for data that matters.
    let store = builder.durability(Durability::Relaxed).open().await?;
    build_and_compare(&args, Arc::new(store.clone())).await?;
    Ok(store.close().await?)
}

async fn build_and_compare(args: &Args, store: Arc<dyn TableStore>) -> Result<()> {
    let keys = Arc::new(load(&store, args).await?);
    let meter = RequestMeter::new();
    let flights = open(Arc::new(Metered::new(store.clone(), meter.clone())))?;
    flights.declare().await?;

    let (stop, written) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let flights = open(store.clone())?;
        flights.declare().await?;
        writers.spawn(change_flights(
            flights,
            keys.clone(),
            writer,
            stop.clone(),
            written.clone(),
        ));
    }
    let built = build(&flights, keys.len()).await;
    let requests = meter.total();
    stop.store(true, Ordering::Relaxed);
    while let Some(writer) = writers.join_next().await {
        writer??;
    }
    let (built, written) = (built?, written.load(Ordering::Relaxed));
    eprintln!(
        "{} flights read, {} entries in {} groups: {requests} requests; {written} writes during the build",
        built.entities, built.entries, built.groups
    );
    assert!(written > 0);
    // The writers delete one flight of ten that they touch.
    assert!(built.entities >= keys.len() * 9 / 10);
    compare_index_with_flights(&flights).await?;
    count_late_flights(&flights, &meter).await
}

/// Writes the flights of a data set, before the table has an index. Returns their keys.
async fn load(store: &Arc<dyn TableStore>, args: &Args) -> Result<Vec<EntityKey<Flight>>> {
    let first = args.first.unwrap_or(if cfg!(debug_assertions) {
        DEBUG_FLIGHTS
    } else {
        usize::MAX
    });
    let data = DataSet::read(&directory(args.data.as_deref()))?;
    let table = TableName::new(FLIGHTS)?;
    store.create_table(&table).await?;
    let (mut keys, mut inserts) = (Vec::new(), Vec::new());
    for row in data.flights.rows()?.take(first) {
        let flight = flight(&row?)?;
        keys.push(flight.entity_key()?);
        inserts.push(Ok((table.clone(), Operation::Insert(flight.to_entity()?))));
    }
    let writer =
        BulkWriter::with_options(store.clone(), BulkOptions::default().with_concurrency(16));
    writer.write(stream::iter(inserts)).await?.into_result()?;
    Ok(keys)
}

fn flight(row: &Row) -> Result<Flight> {
    Ok(Flight {
        carrier: row.required("carrier")?,
        date: row.date()?,
        number: row.required("flight")?,
        origin: row.required("origin")?,
        dest: row.required("dest")?,
        arr_delay: row.optional("arr_delay")?,
    })
}

fn open(store: Arc<dyn TableStore>) -> table_core::Result<Table<Flight>> {
    // Short leases, for a store in this process. On a service use IndexOptions::default().
    Database::with_options(store, IndexOptions::local()).table(FLIGHTS)
}

async fn build(flights: &Table<Flight>, expected: usize) -> Result<BuildProgress> {
    let bar = progress::bar("by airport", expected);
    let entities = flights.entities().await?;
    let build = entities.build("airport")?.on_progress(|progress| {
        bar.set_message(progress.state.to_string());
        bar.set_position(progress.entities as u64);
    });
    let built = build.run().await?;
    bar.abandon();
    Ok(built)
}

/// Changes, deletes and adds flights until it is stopped.
async fn change_flights(
    flights: Table<Flight>,
    keys: Arc<Vec<EntityKey<Flight>>>,
    writer: usize,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
) -> table_core::Result<()> {
    for n in 0_usize.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // Two primes spread the writes over the flights.
        let key = &keys[(writer * 104_729 + n * 7_919) % keys.len()];
        // 1 of 10 writes deletes a flight, 1 adds a flight of the invented carrier ZZ, 8 add a minute to a delay.
        match n % 10 {
            3 => {
                flights.delete_if_exists(key).await?;
            }
            7 => {
                flights.upsert(&added_flight(writer, n)).await?;
            }
            _ => add_a_minute(&flights, key).await?,
        }
        written.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    flights.flush().await;
    Ok(())
}

fn added_flight(writer: usize, n: usize) -> Flight {
    Flight {
        carrier: "ZZ".to_owned(),
        date: january(10 + writer as u32),
        number: (n % 10_000) as u32,
        origin: "LGA".to_owned(),
        dest: "IAH".to_owned(),
        arr_delay: Some(130),
    }
}

async fn add_a_minute(flights: &Table<Flight>, key: &EntityKey<Flight>) -> table_core::Result<()> {
    let later = |flight: &mut Flight| {
        flight.arr_delay = Some(flight.arr_delay.unwrap_or_default() + 1);
        Ok(())
    };
    match flights.update(key, later).await {
        // Another writer has deleted the flight.
        Err(error) if error.is_not_found() => Ok(()),
        updated => updated.map(drop),
    }
}

/// Finishes writes that were interrupted, then compares index and flights: every entry has its flight, and every flight its entry.
async fn compare_index_with_flights(flights: &Table<Flight>) -> Result<()> {
    // &[]: this table has no unique index in another partition or table.
    let entities = flights.entities().await?;
    entities.journal().sweep(&[], KEEP_ABORT_ROWS).await?;
    let began = Instant::now();
    let scrubbed = entities.scrub("airport", ScrubMode::Report).await?;
    eprintln!(
        "{} entries and {} flights compared in {:.1?}: {} dangling, {} missing",
        scrubbed.entries,
        scrubbed.entities,
        began.elapsed(),
        scrubbed.dangling,
        scrubbed.missing
    );
    assert_eq!(scrubbed.dangling, 0);
    assert_eq!(scrubbed.missing, 0);
    assert_eq!(
        scrubbed.taken_keys, 0,
        "no two flights have the same entry key"
    );
    assert_eq!(scrubbed.entries, scrubbed.entities);
    Ok(())
}

/// Counts January's flights from LaGuardia that were more than two hours late, with and without the index.
async fn count_late_flights(flights: &Table<Flight>, meter: &RequestMeter) -> Result<()> {
    let days = january(1)..=january(31);
    // The projection reads the entries only: 1 request per 1,000.
    let by_airport = flights
        .by(Flight::by_airport("LGA").date_in(days.clone()))
        .project::<Delay>();
    let (found, with_index) = meter.measure(by_airport.all()).await;
    let (all, without_index) = meter.measure(flights.query().all()).await;
    let found = found?
        .iter()
        .filter(|flight| flight.arr_delay > Some(120))
        .count();
    let is_january_at_lga =
        |flight: &&Flight| flight.origin == "LGA" && days.contains(&flight.date);
    let all = all?;
    let scanned = all
        .iter()
        .filter(is_january_at_lga)
        .filter(|flight| flight.arr_delay > Some(120))
        .count();
    let (with_index, without_index) = (with_index.total(), without_index.total());
    eprintln!(
        "{found} late flights: {with_index} requests with the index, {without_index} without"
    );
    assert_eq!(found, scanned);
    assert!(with_index <= without_index);
    Ok(())
}

fn january(day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2013, 1, day).expect("a day of January")
}
