//! Tables as a program opens them when it starts: declared.

use table_core::model::TableName;
use table_core::store::{Error, Result, TableStore};
use table_core::typed::TableEntity;
use table_patterns::index::{Index, IndexOptions};
use table_patterns::{Database, Table};

/// A table for a type, declared with its indexes.
pub async fn open_table<T: TableEntity>(
    store: impl TableStore,
    name: impl TryInto<TableName, Error: Into<Error>>,
    options: IndexOptions,
) -> Result<Table<T>> {
    open_table_with(store, name, Vec::new(), options).await
}

/// As [`open_table`], with more indexes than the type declares.
pub async fn open_table_with<T: TableEntity>(
    store: impl TableStore,
    name: impl TryInto<TableName, Error: Into<Error>>,
    more: Vec<Index>,
    options: IndexOptions,
) -> Result<Table<T>> {
    let table = Database::with_options(store, options).table_with(name, more)?;
    table.entities().await?;
    Ok(table)
}
