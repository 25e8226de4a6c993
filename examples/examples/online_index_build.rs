//! Builds an index over a table in use. Writers change, delete and add flights during the build, a bar shows
//! its progress, and the scrub that follows finds no difference.
//!
//! ```sh
//! cargo run --release --example online_index_build -- --data DIR
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use examples::Result;
use examples::data::DataSet;
use examples::row::Row;
use futures_util::{TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{Operation, TableStore, TableStoreExt};
use table_embedded::{Durability, EmbeddedStore};
use table_patterns::bulk::{BulkOptions, BulkWriter};
use table_patterns::index::{
    BuildProgress, Index, IndexOptions, IndexQuery, IndexedEntities, Payload, Placement, ScrubMode, Trust,
};

const FLIGHTS: &str = "Flights";
const BY_AIRPORT: &str = "FlightsByAirport";

/// Number of processes that write during the build.
const WRITERS: usize = 4;

/// Number of flights in a debug build of this program.
const FEW: usize = 3_000;

/// Builds an index over the flights while other processes write them.
#[derive(Debug, Parser)]
struct Args {
    /// The data set, as for the flagship. [default: January 2013, bundled]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Use only this many flights. [default: all, and 3,000 in a debug build]
    #[arg(long, value_name = "FLIGHTS")]
    first: Option<usize>,
    /// Keep the tables on disk, in a temporary directory, instead of in memory.
    #[arg(long)]
    disk: bool,
}

/// Flights by airport and month, ordered by day. Their own keys do not start with these.
fn by_airport() -> table_core::store::Result<Index> {
    let table = TableName::new(BY_AIRPORT)?;
    let index = Index::new("airport", Placement::OtherTable(table), "1", |flight| {
        let mut parts = flight.key().row().splitn(3, '_');
        let (Some(date), Some(number), Some(origin)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok(None);
        };
        let month = date.get(..7).unwrap_or(date);
        let row = format!("{date}_{}_{number}", flight.key().partition());
        Key::new(format!("{origin}_{month}"), row).map(Some)
    });
    Ok(index.with_payload(Payload::fields(["ArrDelay"])))
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    if !args.disk {
        return show(&args, Arc::new(MemoryStore::new())).await;
    }
    let directory = tempfile::tempdir()?;
    let builder = EmbeddedStore::builder(directory.path().join("flights"));
    let store = builder.durability(Durability::Relaxed).open().await?;
    show(&args, Arc::new(store.clone())).await?;
    Ok(store.close().await?)
}

async fn show(args: &Args, store: Arc<dyn TableStore>) -> Result<()> {
    for table in [FLIGHTS, BY_AIRPORT] {
        store.create_table(&TableName::new(table)?).await?;
    }
    let keys = Arc::new(load(&store, args).await?);
    let meter = RequestMeter::new();
    let flights = open(Arc::new(Metered::new(store.clone(), meter.clone()))).await?;

    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let flights = open(store.clone()).await?;
        writers.spawn(write(flights, keys.clone(), writer, stop.clone(), written.clone()));
    }
    let built = build(&flights, keys.len()).await;
    let requests = meter.total();
    stop.store(true, Ordering::Relaxed);
    while let Some(writer) = writers.join_next().await {
        writer??;
    }
    let (built, written) = (built?, written.load(Ordering::Relaxed));
    eprintln!(
        "{} flights read, {} entries in {} groups: {requests} requests; {written} writes meanwhile",
        built.entities, built.entries, built.groups
    );
    assert!(built.entities >= keys.len() * 9 / 10 && written > 0);
    scrub(&flights).await?;
    compare(&flights, &meter).await
}

/// Writes the flights of a data set. Returns their keys.
async fn load(store: &Arc<dyn TableStore>, args: &Args) -> Result<Vec<Key>> {
    let directory = args.data.clone().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("data"));
    let first = args.first.unwrap_or(if cfg!(debug_assertions) { FEW } else { usize::MAX });
    let data = DataSet::read(&directory)?;
    let (mut keys, mut inserts) = (Vec::new(), Vec::new());
    for row in data.flights.rows()?.take(first) {
        let flight = flight(&row?)?;
        keys.push(flight.key().clone());
        inserts.push(Ok((TableName::new(FLIGHTS)?, Operation::Insert(flight))));
    }
    let writer = BulkWriter::with_options(store.clone(), BulkOptions::default().with_concurrency(16));
    let mut outcomes = Box::pin(writer.outcomes(stream::iter(inserts)));
    while let Some(outcome) = outcomes.try_next().await? {
        outcome.result?;
    }
    Ok(keys)
}

/// Converts a flight, with its carrier as PartitionKey, ordered by day as in the flagship.
fn flight(row: &Row) -> Result<Entity> {
    let (carrier, origin): (String, String) = (row.required("carrier")?, row.required("origin")?);
    let (date, number): (_, u32) = (row.date()?, row.required("flight")?);
    let mut flight = Entity::new(carrier, format!("{date}_{number:04}_{origin}"))?;
    flight.properties_mut().set("Dest", row.required::<String>("dest")?);
    if let Some(minutes) = row.optional::<i32>("arr_delay")? {
        flight.properties_mut().set("ArrDelay", minutes);
    }
    Ok(flight)
}

async fn open(store: Arc<dyn TableStore>) -> table_core::store::Result<IndexedEntities> {
    let table = TableName::new(FLIGHTS)?;
    IndexedEntities::open(store, table, vec![by_airport()?], IndexOptions::local()).await
}

async fn build(flights: &IndexedEntities, expected: usize) -> Result<BuildProgress> {
    let style = ProgressStyle::with_template("{msg:>12} {bar:40} {human_pos:>7}/{human_len} {elapsed:>4}")?;
    let bar = ProgressBar::new(expected as u64).with_style(style);
    let build = flights.build("airport")?.on_progress(|progress| {
        bar.set_message(progress.state.to_string());
        bar.set_position(progress.entities as u64);
    });
    let built = build.run().await?;
    bar.abandon();
    Ok(built)
}

/// A process that delays, removes and adds flights until it is stopped.
async fn write(
    flights: IndexedEntities,
    keys: Arc<Vec<Key>>,
    writer: usize,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
) -> table_core::store::Result<()> {
    for n in 0_usize.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = &keys[(writer * 104_729 + n * 7_919) % keys.len()];
        match n % 10 {
            3 => flights.modify(key, |_| Ok(None)).await?,
            7 => {
                let row = format!("2013-01-{:02}_{n:04}_LGA", 10 + writer);
                flights.upsert(Entity::new("ZZ", row)?.with("ArrDelay", 130)).await?
            }
            _ => flights.modify(key, |flight| Ok(flight.map(delayed))).await?,
        };
        written.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

fn delayed(flight: &Entity) -> Entity {
    flight.clone().with("ArrDelay", delay(flight).unwrap_or_default() + 1)
}

fn delay(flight: &Entity) -> Option<i32> {
    match flight.get("ArrDelay") {
        Some(ValueRef::Int32(minutes)) => Some(minutes),
        _ => None,
    }
}

/// Compares the index with the flights in both directions.
async fn scrub(flights: &IndexedEntities) -> Result<()> {
    // The sweep applies entries of writes that were delayed longer than their lease.
    flights.journal().sweep(&[], Duration::ZERO).await?;
    let began = Instant::now();
    let scrubbed = flights.scrub("airport", ScrubMode::Report).await?;
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
    assert_eq!(scrubbed.taken_keys, 0);
    assert_eq!(scrubbed.entries, scrubbed.entities);
    Ok(())
}

/// Finds January's flights from LaGuardia that were more than two hours late, with and without the index.
async fn compare(flights: &IndexedEntities, meter: &RequestMeter) -> Result<()> {
    let late = |all: Vec<Entity>| all.iter().filter(|flight| delay(flight) > Some(120)).count();
    let january = IndexQuery::partition("LGA_2013-01");
    let (found, by_index) = meter.measure(flights.all("airport", &january, Trust::Entry)).await;
    let (all, by_scan) = meter.measure(flights.store().query_all(flights.table(), &Query::new())).await;
    let lga = |flight: &Entity| {
        let row = flight.key().row();
        row.starts_with("2013-01") && row.ends_with("_LGA")
    };
    let (found, scanned) = (late(found?), late(all?.into_iter().filter(lga).collect()));
    let (with, without) = (by_index.total(), by_scan.total());
    eprintln!("{found} late flights: {with} requests with the index, {without} without");
    assert_eq!(found, scanned);
    assert!(with <= without);
    Ok(())
}
