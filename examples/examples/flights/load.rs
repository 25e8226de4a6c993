//! Loads a data set into a store, once.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, TableStore, TableStoreExt};
use table_core::typed::Table;
use table_patterns::bulk::{BulkOptions, BulkWriter};
use tokio::sync::mpsc;

use crate::Result;
use crate::args::Args;
use crate::data::DataSet;
use crate::indexes;
use crate::model::{
    DEPARTURES, FLIGHTS, FLIGHTS_BY_DELAY, FLIGHTS_BY_TAIL, Flight, IMPORTS, Import, MONTHS, Plane,
    REFERENCE, WEATHER, YEARS,
};
use crate::months::Months;
use crate::progress::Progress;
use crate::{import, months};

/// Requests in flight.
const IN_FLIGHT: usize = 64;
/// Entities that the reader hands over at once.
const CHUNK: usize = 256;
/// Such chunks that wait for the writer.
const CHUNKS: usize = 16;
/// The row of the import.
const NAME: &str = "nycflights13";

/// Makes sure that the store holds the data set: loads it unless it is there, whole.
///
/// Without `--data`, whatever the store holds will do.
pub(crate) async fn ensure(store: &Arc<dyn TableStore>, args: &Args) -> Result<()> {
    let imports = Table::<Import>::new(Arc::clone(store), IMPORTS)?;
    imports.create_if_missing().await?;
    let found = imports.get(Import::key(NAME)?).await?;
    if args.data.is_none() && found.as_ref().is_some_and(|import| import.complete) {
        return Ok(());
    }
    let data = DataSet::read(&args.data())?;
    let fingerprint = data.fingerprint();
    match found {
        Some(import) if import.complete && import.fingerprint == fingerprint => return Ok(()),
        Some(_) => eprintln!("The store holds other data, or was left half loaded: loading again."),
        None => {}
    }
    let import = Import { name: NAME.to_owned(), fingerprint, complete: false, entities: 0 };
    imports.insert_or_replace(&import).await?;
    recreate_tables(store).await?;
    let entities = load(store, data).await?;
    imports.insert_or_replace(&Import { complete: true, entities, ..import }).await?;
    Ok(())
}

/// Drops what an earlier import left.
async fn recreate_tables(store: &Arc<dyn TableStore>) -> Result<()> {
    months::drop_all(store).await?;
    for table in [REFERENCE, WEATHER, FLIGHTS, FLIGHTS_BY_TAIL, FLIGHTS_BY_DELAY, DEPARTURES, YEARS] {
        let table = TableName::new(table)?;
        store.delete_table_if_exists(&table).await?;
        store.create_table(&table).await?;
    }
    Ok(())
}

/// Entities on their way to the writer.
type Chunk = Vec<(TableName, Operation)>;

/// Writes every entity, with its index entries; how many entities.
async fn load(store: &Arc<dyn TableStore>, data: DataSet) -> Result<u64> {
    let progress = Progress::new([
        (REFERENCE, data.airlines.row_count() + data.planes.row_count()),
        (WEATHER, data.weather.row_count() / 24),
        (FLIGHTS, data.flights.row_count()),
        (DEPARTURES, data.flights.row_count()),
        (MONTHS, data.flights.row_count()),
    ]);
    // Indexes are readable from the start in tables that are empty.
    let planes = indexes::open::<Plane>(store, REFERENCE).await?;
    let flights = indexes::open::<Flight>(store, FLIGHTS).await?;
    let data = Arc::new(data);
    indexes::insert(&planes, parse(&data, import::reference).await?, &progress).await?;
    indexes::insert(&flights, parse(&data, import::flights).await?, &progress).await?;
    load_plain(store, data, &progress).await?;
    Ok(progress.finish())
}

async fn parse(data: &Arc<DataSet>, entities: fn(&DataSet) -> Result<Vec<Entity>>) -> Result<Vec<Entity>> {
    let data = Arc::clone(data);
    tokio::task::spawn_blocking(move || entities(&data)).await?
}

/// Writes the entities without indexes, many group transactions at once while the files are read.
async fn load_plain(store: &Arc<dyn TableStore>, data: Arc<DataSet>, progress: &Progress) -> Result<()> {
    let (sender, mut receiver) = mpsc::channel(CHUNKS);
    let overview = import::overview(&data)?;
    months::prepare(store, &overview).await?;
    let tables = months::months(Arc::clone(store))?;
    let reader = tokio::task::spawn_blocking(move || read(&data, &tables, &sender));
    let chunks = stream::poll_fn(move |context| receiver.poll_recv(context));
    let inserts = chunks.flat_map(stream::iter).map(Ok);
    let options = BulkOptions::default().with_parallelism(IN_FLIGHT);
    let writer = BulkWriter::with_options(Arc::clone(store), options);
    let mut outcomes = Box::pin(writer.outcomes(inserts));
    while let Some(outcome) = outcomes.try_next().await? {
        outcome.result?;
        let table = outcome.table.as_str();
        progress.advance(if table.starts_with(MONTHS) { MONTHS } else { table }, 1);
    }
    reader.await?
}

fn read(data: &DataSet, months: &Months, sender: &mpsc::Sender<Chunk>) -> Result<()> {
    let mut chunk = Chunk::with_capacity(CHUNK);
    for stored in import::plain(data, months)? {
        let (table, entity) = stored?;
        chunk.push((table, Operation::Insert(entity)));
        if chunk.len() == CHUNK && sender.blocking_send(std::mem::take(&mut chunk)).is_err() {
            // The writer failed, and says why.
            return Ok(());
        }
    }
    // As above.
    let _ = sender.blocking_send(chunk);
    Ok(())
}
