//! The store against a scripted server: the exact bytes of its requests, and its result for every kind of
//! answer.

mod answers;
mod client_options;
mod cosmos;
mod credentials;
mod hostile;
mod proxy;
#[cfg(feature = "queue")]
mod queue;
mod refusals;
mod requests;
mod responses;
mod retry;
mod server;
mod service;
mod tenant;
mod trouble;

use std::time::Duration;

use table_azure::{AzureTableStore, AzureTableStoreOptions, SharedKey};
use table_core::Result;
use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::query::{Filter, Query, Select};
use table_core::store::{GroupTransaction, Operation, OperationKind, TableStore};

use server::Server;

/// `key` in base64.
const KEY: &str = "a2V5";

fn store(server: &Server) -> AzureTableStore {
    store_with(server, AzureTableStoreOptions::default())
}

fn store_with(server: &Server, options: AzureTableStoreOptions) -> AzureTableStore {
    let key = SharedKey::new("acc", KEY).unwrap();
    AzureTableStore::with_shared_key(&server.address, key, Some(options)).unwrap()
}

fn impatient() -> AzureTableStoreOptions {
    let mut options = AzureTableStoreOptions::default();
    options.request_timeout = Duration::from_millis(200);
    options
}

fn table() -> TableName {
    TableName::new("Orders").unwrap()
}

fn key() -> Key {
    Key::new("o'x", "a b").unwrap()
}

fn entity() -> Entity {
    Entity::from(key()).with("N", 5_i64)
}

fn version() -> IfMatch {
    IfMatch::Exactly("W/\"v\"".into())
}

fn query() -> Query {
    Query::new()
        .with_filter(Filter::eq("PartitionKey", "o'x").and(Filter::gt("N", 5_i64)))
        .with_select(Select::new(["N"]))
        .with_top(5)
}

fn group() -> GroupTransaction {
    let profile = table_core::store::ServiceProfile::AZURE_TABLES;
    let mut group = GroupTransaction::new(PartitionKey::new("o'x").unwrap(), &profile);
    group.push(Operation::Insert(entity())).unwrap();
    group
        .push(Operation::Delete(
            Key::new("o'x", "2").unwrap(),
            IfMatch::Any,
        ))
        .unwrap();
    group
}

/// Every operation of `TableStore`.
const OPERATIONS: [OperationKind; 12] = [
    OperationKind::CreateTable,
    OperationKind::DeleteTable,
    OperationKind::ListTables,
    OperationKind::Get,
    OperationKind::Query,
    OperationKind::Insert,
    OperationKind::Replace,
    OperationKind::Merge,
    OperationKind::InsertOrReplace,
    OperationKind::InsertOrMerge,
    OperationKind::Delete,
    OperationKind::Transact,
];

/// Executes one operation.
async fn run(store: &dyn TableStore, kind: OperationKind) -> Result<()> {
    let operation = match kind {
        OperationKind::CreateTable => return store.create_table(&table()).await,
        OperationKind::DeleteTable => return store.delete_table(&table()).await,
        OperationKind::ListTables => return store.list_tables(Some("Ord"), None).await.map(drop),
        OperationKind::Get => return store.get(&table(), &key(), None).await.map(drop),
        OperationKind::Query => return store.query(&table(), &query(), None).await.map(drop),
        OperationKind::Transact => return store.transact(&table(), group()).await.map(drop),
        OperationKind::Insert => Operation::Insert(entity()),
        OperationKind::Replace => Operation::Replace(entity(), version()),
        OperationKind::Merge => Operation::Merge(entity(), version()),
        OperationKind::InsertOrReplace => Operation::InsertOrReplace(entity()),
        OperationKind::InsertOrMerge => Operation::InsertOrMerge(entity()),
        OperationKind::Delete => Operation::Delete(key(), version()),
        other => panic!("{other} is not in the list"),
    };
    store.write(&table(), operation).await.map(drop)
}
