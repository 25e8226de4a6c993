use table_core::model::TableName;
use table_core::store::{Error, Result, TableStore};
use table_core::typed::TableEntity;

use crate::index::IndexOptions;
use crate::{Database, Table};

mod answers;
mod blobs;
mod builders;
mod collisions;
mod consents;
mod copies;
mod declared;
mod entities;
mod groups;
mod hidden;
mod lists;
mod local;
mod moving;
mod others;
mod owners;
mod processes;
mod raised;
mod refused;
mod reserved;
mod round_trips;
mod schedules;
mod slow;
mod states;
mod summaries;
mod transforms;
mod unready;
mod upkeep;
mod world;

/// A table for a type, declared with its indexes.
async fn open_table<T: TableEntity>(
    store: impl TableStore,
    name: impl TryInto<TableName, Error: Into<Error>>,
    options: IndexOptions,
) -> Result<Table<T>> {
    let table = Database::with_options(store, options).table(name)?;
    table.declare().await?;
    Ok(table)
}
