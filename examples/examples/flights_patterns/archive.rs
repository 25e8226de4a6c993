//! Moves every flight to an archive in another store, 100 moves per eventual transaction. Cost: 5 requests per move (1 of them a check
//! before the commit), and the commit, the claim and the queue message per transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::adapter::{Metered, RequestMeter};
use table_patterns::bulk::BulkWriter;
use table_patterns::eventual::{
    Coordinator, EventualTransaction, Place, Resources, TransactionProgress,
};
use table_patterns::journal::Acknowledge;
use table_patterns::prelude::*;
use table_patterns::queue::TableQueue;

use crate::flight::Flights;
use crate::{Result, expect_count};

const TABLE: &str = "Flown";
const MOVES_PER_TRANSACTION: usize = 100;
const CONCURRENCY: usize = 8;

/// Loads the flights, moves them all, and counts both sides.
pub(crate) async fn run(store: &Arc<dyn TableStore>, flights: &Flights) -> Result<String> {
    let meter = RequestMeter::new();
    let archive: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let table = TableName::new(TABLE)?;
    store.create_table(&table).await?;
    archive.create_table(&table).await?;
    let entities = flights.all.iter().map(|flight| {
        let row = format!("{}_{:04}_{}", flight.date, flight.number, flight.origin);
        Ok(Entity::new(flight.carrier.as_str(), row)?.with("Distance", flight.distance))
    });
    let entities: Vec<Entity> = entities.collect::<Result<_>>()?;
    let keys: Vec<Key> = entities.iter().map(|entity| entity.key().clone()).collect();
    let name = table.clone();
    let inserts = entities
        .into_iter()
        .map(move |entity| Ok((name.clone(), Operation::Insert(entity))));
    BulkWriter::new(Arc::clone(store))
        .write(stream::iter(inserts))
        .await?
        .into_result()?;

    let queue = Arc::new(TableQueue::open(Arc::clone(store), "Work", "archive").await?);
    let resources = Resources::new()
        .with_store("current", Arc::clone(store))
        .with_store("archive", Arc::clone(&archive));
    let coordinator =
        Coordinator::open(Arc::clone(store), "Transactions", queue, resources).await?;
    let moves = stream::iter(keys.chunks(MOVES_PER_TRANSACTION)).map(Ok);
    moves
        .try_for_each_concurrent(CONCURRENCY, |keys| move_flights(&coordinator, &table, keys))
        .await?;

    expect_count(
        "flights left behind",
        Database::new(Arc::clone(store))
            .view::<Entity>(TABLE)?
            .query()
            .count()
            .await?,
        0,
    )?;
    let archived = Database::new(archive)
        .view::<Entity>(TABLE)?
        .query()
        .all()
        .await?;
    let mut carriers = BTreeMap::<_, usize>::new();
    archived.iter().for_each(|flight| {
        *carriers
            .entry(flight.key().partition().to_owned())
            .or_default() += 1;
    });
    if carriers != flights.count_by(|flight| Some(flight.carrier.clone())) {
        return Err("the archived flights by carrier differ from the file".into());
    }
    let transactions = keys.len().div_ceil(MOVES_PER_TRANSACTION);
    Ok(format!(
        "{} flights moved by {transactions} transactions, {} requests to the archive",
        keys.len(),
        meter.total()
    ))
}

/// Executes one transaction.
async fn move_flights(coordinator: &Coordinator, table: &TableName, keys: &[Key]) -> Result<()> {
    let place = |store: &str, key: &Key| Place::new(store, table.clone(), key.clone());
    let transaction = keys
        .iter()
        .fold(EventualTransaction::new(), |transaction, key| {
            transaction.move_entity(place("current", key), place("archive", key))
        });
    let submitted = coordinator
        .submit(&transaction, Acknowledge::Applied)
        .await?;
    match submitted.progress {
        TransactionProgress::Applied => Ok(()),
        other => Err(format!("a transaction is {other:?}").into()),
    }
}
