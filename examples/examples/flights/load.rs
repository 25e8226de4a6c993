//! Loads a data set into a store, once.

use std::sync::Arc;

use examples::Result;
use examples::data::DataSet;
use futures_util::{StreamExt, TryStreamExt};
use table_patterns::bulk::{BulkOptions, BulkWriter};
use table_patterns::index::IndexOptions;
use table_patterns::prelude::*;

use crate::args::Args;
use crate::day_csv::{DayFiles, FILES};
use crate::feed::{read_in_background, send_chunks};
use crate::model::{
    DEPARTURES, FLIGHTS, FLIGHTS_BY_DELAY, FLIGHTS_BY_TAIL, Flight, IMPORTS, Import, MONTHS, Plane,
    WEATHER, YEARS,
};
use crate::progress::Progress;
use crate::{import, indexes, months};

/// The RowKey of the [`Import`]. Change it when the tables change, so that a store of an earlier version is loaded again.
const NAME: &str = "nycflights13_v2";
/// The tables that a load drops and creates, in addition to the tables of the months and the files.
const TABLES: [&str; 6] = [
    WEATHER,
    FLIGHTS,
    FLIGHTS_BY_TAIL,
    FLIGHTS_BY_DELAY,
    DEPARTURES,
    YEARS,
];

/// Ensures that the store holds the complete data set, and loads it if not.
///
/// Without `--data`, any complete data set in the store is accepted. A store with tables of the same names that this program has not
/// created is refused.
pub(crate) async fn ensure(
    store: &Arc<dyn TableStore>,
    files: &DayFiles,
    options: &IndexOptions,
    args: &Args,
) -> Result<()> {
    let imports = Database::new(Arc::clone(store)).table::<Import>(IMPORTS)?;
    let earlier = earlier_imports(store, &imports).await?;
    let found = earlier.iter().find(|import| import.name == NAME);
    if args.data.is_none() && found.is_some_and(|import| import.complete) {
        return Ok(());
    }
    let data = DataSet::read(&args.data())?;
    let fingerprint = data.fingerprint();
    if found.is_some_and(|import| import.complete && import.fingerprint == fingerprint) {
        return Ok(());
    }
    if !earlier.is_empty() {
        eprintln!(
            "The store holds other data or an incomplete import: dropping the tables of this program and loading again."
        );
    }
    imports.declare().await?;
    let import = Import {
        name: NAME.to_owned(),
        fingerprint,
        complete: false,
        entities: 0,
    };
    imports.upsert(&import).await?;
    recreate_tables(store).await?;
    files.clear().await?;
    files.load(&data.flights).await?;
    let entities = load(store, options, data).await?;
    imports
        .upsert(&Import {
            complete: true,
            entities,
            ..import
        })
        .await?;
    Ok(())
}

/// Returns the imports of this program. Without any, the tables of a load must not exist, because the load would drop the tables of
/// another program.
async fn earlier_imports(
    store: &Arc<dyn TableStore>,
    imports: &Table<Import>,
) -> Result<Vec<Import>> {
    let tables = store.all_tables(None).await?;
    let is = |table: &TableName, name: &str| table.as_str().eq_ignore_ascii_case(name);
    if tables.iter().any(|table| is(table, IMPORTS)) {
        let earlier = imports
            .query()
            .partition(Import::partition()?)
            .all()
            .await?;
        if !earlier.is_empty() {
            return Ok(earlier);
        }
    }
    let of_month = |table: &TableName| {
        let name = table.as_str().to_ascii_lowercase();
        let month = name.strip_prefix(&MONTHS.to_ascii_lowercase());
        month.is_some_and(|month| month.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let of_load = |table: &&TableName| {
        TABLES.iter().any(|name| is(table, name)) || is(table, FILES) || of_month(table)
    };
    match tables.iter().find(of_load) {
        Some(table) => Err(format!(
            "the store has a table {table} that this program has not created, and loading would drop it: use another store"
        )
        .into()),
        None => Ok(Vec::new()),
    }
}

/// Drops the tables of an earlier import and creates them again.
async fn recreate_tables(store: &Arc<dyn TableStore>) -> Result<()> {
    months::drop_all(store).await?;
    for table in TABLES {
        let table = TableName::new(table)?;
        store.delete_table_if_exists(&table).await?;
        store.create_table(&table).await?;
    }
    Ok(())
}

/// Writes every entity with its index entries while the files are read. Returns the number of entities.
async fn load(store: &Arc<dyn TableStore>, options: &IndexOptions, data: DataSet) -> Result<u64> {
    let progress = Progress::new([
        (WEATHER, data.weather.row_count() / 24),
        (
            FLIGHTS,
            data.flights.row_count() + data.airlines.row_count() + data.planes.row_count(),
        ),
        (DEPARTURES, data.flights.row_count()),
        (MONTHS, data.flights.row_count()),
    ]);
    // Two types in one table. The indexes of each are readable from the start, because the table has no
    // entity of the type yet.
    let db = indexes::database(store, options);
    let (flights, planes) = (db.table::<Flight>(FLIGHTS)?, db.table::<Plane>(FLIGHTS)?);
    let data = Arc::new(data);
    tokio::try_join!(
        indexes::insert(
            (&planes, options.concurrency),
            &data,
            import::airlines_and_planes,
            &progress
        ),
        indexes::insert(
            (&flights, options.concurrency),
            &data,
            import::flights,
            &progress
        ),
        insert_entities_without_indexes((store, 2 * options.concurrency), &data, &progress),
    )?;
    Ok(progress.finish())
}

/// Writes the entities without indexes, in group transactions: at most `concurrency` at once.
async fn insert_entities_without_indexes(
    (store, concurrency): (&Arc<dyn TableStore>, usize),
    data: &Arc<DataSet>,
    progress: &Progress,
) -> Result<()> {
    months::prepare(store, &import::overview(data)?).await?;
    let months = months::months(Arc::clone(store))?;
    let (entities, reader) = read_in_background(data, move |data, sender| {
        send_chunks(sender, import::entities_without_indexes(data, &months)?)
    });
    let inserts = entities.map(|(table, entity)| Ok((table, Operation::Insert(entity))));
    // The opened store already retries requests where that is necessary, so the bulk writer need not.
    let options = BulkOptions::default()
        .with_concurrency(concurrency)
        .with_retry(None);
    let writer = BulkWriter::with_options(Arc::clone(store), options);
    let mut outcomes = Box::pin(writer.outcomes(inserts));
    while let Some(outcome) = outcomes.try_next().await? {
        outcome.result?;
        let table = outcome.table.as_str();
        // All month tables share a bar.
        progress.advance(
            if table.starts_with(MONTHS) {
                MONTHS
            } else {
                table
            },
            1,
        );
    }
    reader.await?
}
