//! Loads a data set into a store, once.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use table_core::model::TableName;
use table_core::store::{Operation, TableStore, TableStoreExt};
use table_core::typed::Table;
use table_patterns::bulk::{BulkOptions, BulkWriter};

use crate::Result;
use crate::args::Args;
use crate::data::DataSet;
use crate::day_csv::DayFiles;
use crate::feed::{feed, hand_over};
use crate::model::{
    DEPARTURES, FLIGHTS, FLIGHTS_BY_DELAY, FLIGHTS_BY_TAIL, Flight, IMPORTS, Import, MONTHS, Plane, WEATHER,
    YEARS, flights_of_carrier,
};
use crate::progress::Progress;
use crate::{import, indexes, months};

/// Requests in flight.
const IN_FLIGHT: usize = 32;
/// The row that describes the import into these tables. Earlier versions of the import have other names.
const NAME: &str = "nycflights13_files";

/// Ensures that the store holds the complete data set, and loads it if not.
///
/// Without `--data`, any complete data set in the store is accepted.
pub(crate) async fn ensure(store: &Arc<dyn TableStore>, files: &DayFiles, args: &Args) -> Result<()> {
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
        Some(_) => eprintln!("The store holds other data or an incomplete import: loading again."),
        None => {}
    }
    let import = Import { name: NAME.to_owned(), fingerprint, complete: false, entities: 0 };
    imports.upsert(&import).await?;
    recreate_tables(store).await?;
    files.recreate().await?;
    files.load(&data.flights).await?;
    let entities = load(store, data).await?;
    imports.upsert(&Import { complete: true, entities, ..import }).await?;
    Ok(())
}

/// Drops the tables of an earlier import.
async fn recreate_tables(store: &Arc<dyn TableStore>) -> Result<()> {
    months::drop_all(store).await?;
    for table in [WEATHER, FLIGHTS, FLIGHTS_BY_TAIL, FLIGHTS_BY_DELAY, DEPARTURES, YEARS] {
        let table = TableName::new(table)?;
        store.delete_table_if_exists(&table).await?;
        store.create_table(&table).await?;
    }
    Ok(())
}

/// Writes every entity with its index entries while the files are read. Returns the number of entities.
async fn load(store: &Arc<dyn TableStore>, data: DataSet) -> Result<u64> {
    let progress = Progress::new([
        (WEATHER, data.weather.row_count() / 24),
        (FLIGHTS, data.flights.row_count() + data.airlines.row_count() + data.planes.row_count()),
        (DEPARTURES, data.flights.row_count()),
        (MONTHS, data.flights.row_count()),
    ]);
    // Two types in one table. The indexes of each are readable from the start, because the table has no
    // entity of the type yet.
    let flights = indexes::open::<Flight>(store, FLIGHTS, vec![flights_of_carrier()?]).await?;
    let planes = indexes::open::<Plane>(store, FLIGHTS, Vec::new()).await?;
    let data = Arc::new(data);
    tokio::try_join!(
        indexes::insert(&planes, &data, import::reference, &progress),
        indexes::insert(&flights, &data, import::flights, &progress),
        insert_plain(store, &data, &progress),
    )?;
    Ok(progress.finish())
}

/// Writes the entities without indexes, with many concurrent group transactions.
async fn insert_plain(store: &Arc<dyn TableStore>, data: &Arc<DataSet>, progress: &Progress) -> Result<()> {
    months::prepare(store, &import::overview(data)?).await?;
    let months = months::months(Arc::clone(store))?;
    let (entities, reader) = feed(data, move |data, sender| hand_over(sender, import::plain(data, &months)?));
    let inserts = entities.map(|(table, entity)| Ok((table, Operation::Insert(entity))));
    // The store retries itself.
    let options = BulkOptions::default().with_concurrency(IN_FLIGHT).with_retry(None);
    let writer = BulkWriter::with_options(Arc::clone(store), options);
    let mut outcomes = Box::pin(writer.outcomes(inserts));
    while let Some(outcome) = outcomes.try_next().await? {
        outcome.result?;
        let table = outcome.table.as_str();
        progress.advance(if table.starts_with(MONTHS) { MONTHS } else { table }, 1);
    }
    reader.await?
}
