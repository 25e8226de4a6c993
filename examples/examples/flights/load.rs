//! Loads a data set into a store, once.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::model::TableName;
use table_core::store::{ServiceProfile, TableStore, TableStoreExt};
use table_core::typed::Table;
use tokio::sync::mpsc;

use crate::Result;
use crate::args::Args;
use crate::data::DataSet;
use crate::groups::{Group, Groups};
use crate::import;
use crate::model::{DEPARTURES, FLIGHTS, IMPORTS, Import, REFERENCE, WEATHER};
use crate::progress::Progress;

/// Group transactions in flight.
const IN_FLIGHT: usize = 64;
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
async fn recreate_tables(store: &dyn TableStore) -> Result<()> {
    for table in [REFERENCE, WEATHER, FLIGHTS, DEPARTURES] {
        let table = TableName::new(table)?;
        store.delete_table_if_exists(&table).await?;
        store.create_table(&table).await?;
    }
    Ok(())
}

/// Writes every entity, many group transactions at once while the files are read; how many.
async fn load(store: &dyn TableStore, data: DataSet) -> Result<u64> {
    let progress = Progress::new([
        (REFERENCE, data.airlines.len() + data.planes.len()),
        (WEATHER, data.weather.len() / 24),
        (FLIGHTS, data.flights.len()),
        (DEPARTURES, data.flights.len()),
    ]);
    let (sender, mut receiver) = mpsc::channel(IN_FLIGHT);
    let profile = store.profile().clone();
    let reader = tokio::task::spawn_blocking(move || read(&data, profile, &sender));
    let groups = stream::poll_fn(|context| receiver.poll_recv(context));
    let write = |group| write(store, group, &progress);
    groups.map(Ok).try_for_each_concurrent(IN_FLIGHT, write).await?;
    reader.await??;
    Ok(progress.finish())
}

fn read(data: &DataSet, profile: ServiceProfile, sender: &mpsc::Sender<Group>) -> Result<()> {
    for group in Groups::new(import::entities(data)?, profile) {
        if sender.blocking_send(group?).is_err() {
            // The writer failed, and says why.
            break;
        }
    }
    Ok(())
}

async fn write(store: &dyn TableStore, (table, group): Group, progress: &Progress) -> Result<()> {
    let entities = group.len();
    store.transact(&table, group).await?;
    progress.advance(table.as_str(), entities);
    Ok(())
}
