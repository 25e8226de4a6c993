//! Differences of Azure Cosmos DB for Table from Table Storage: the store refuses or changes such requests
//! before it sends them.

use std::sync::Arc;
use table_patterns::Database;

use futures_util::TryStreamExt as _;
use table_azure::{AzureTableStore, AzureTableStoreOptions, Service};
use table_core::Error;
use table_core::model::{Entity, IfMatch, Key, PartitionKey};
use table_core::store::{
    ErrorKind, GroupTransaction, Operation, OperationKind, ServiceProfile, TableStore, limits,
};
use table_core::typed::TableEntity;

use super::server::{Server, answer};
use super::{run, store_with, table};

const WRITTEN: &[(&str, &str)] = &[("ETag", "W/\"new\"")];

fn cosmos(server: &Server) -> AzureTableStore {
    let mut options = AzureTableStoreOptions::default();
    options.service = Service::CosmosDb;
    store_with(server, options)
}

/// Every write that carries an entity.
fn writes(entity: &Entity) -> [Operation; 5] {
    let entity = || entity.clone();
    [
        Operation::Insert(entity()),
        Operation::Replace(entity(), IfMatch::Any),
        Operation::Merge(entity(), IfMatch::Any),
        Operation::InsertOrReplace(entity()),
        Operation::InsertOrMerge(entity()),
    ]
}

fn group_of(
    operations: impl IntoIterator<Item = Operation>,
    profile: &ServiceProfile,
) -> GroupTransaction {
    let mut group = GroupTransaction::new(PartitionKey::new("p").unwrap(), profile);
    operations
        .into_iter()
        .for_each(|operation| group.push(operation).unwrap());
    group
}

/// Asserts that each write of the entity, alone and in a group, is refused without a request.
async fn assert_refused(entity: &Entity, expected: impl Fn(&Error) -> bool) {
    let server = Server::start([answer("204 No Content", WRITTEN, "")]).await;
    let store = cosmos(&server);
    for operation in writes(entity) {
        let kind = operation.kind();
        let error = store.write(&table(), operation.clone()).await.unwrap_err();
        assert!(expected(&error), "{kind}: {error}");
        // Built with the limits of Table Storage, which accept it.
        let group = group_of([operation], &ServiceProfile::AZURE_TABLES);
        let error = store.transact(&table(), group).await.unwrap_err();
        assert_eq!(error.failed_index(), Some(0), "{kind}: {error}");
        assert!(expected(error.root()), "{kind}: {error}");
    }
    assert!(server.asked().is_empty());
}

/// <https://learn.microsoft.com/azure/cosmos-db/table/faq>
#[tokio::test]
async fn reserved_names_are_refused() {
    for name in ["id", "rid", "etag", "ResourceId"] {
        let entity = Entity::new("p", "r").unwrap().with(name, 1);
        let names_it = |e: &Error| {
            matches!(e.kind(), ErrorKind::InvalidName { .. }) && e.to_string().contains(name)
        };
        assert_refused(&entity, names_it).await;
    }
}

#[tokio::test]
async fn row_keys_have_255_bytes_of_utf_8() {
    for row in ["x".repeat(256), "\u{e9}".repeat(128)] {
        assert_refused(
            &Entity::new("p", row.as_str()).unwrap(),
            Error::is_limit_exceeded,
        )
        .await;
        let server = Server::start([answer("204 No Content", &[], "")]).await;
        let delete = Operation::Delete(Key::new("p", row.as_str()).unwrap(), IfMatch::Any);
        assert!(
            cosmos(&server)
                .write(&table(), delete)
                .await
                .unwrap_err()
                .is_limit_exceeded()
        );
        assert!(server.asked().is_empty());
    }
    let server = Server::start([answer("204 No Content", WRITTEN, "")]).await;
    let longest = Entity::new("p", "x".repeat(255)).unwrap();
    cosmos(&server)
        .write(&table(), Operation::Insert(longest))
        .await
        .unwrap();
}

/// Returns an entity with a string of `bytes` bytes.
fn entity_of(row: &str, bytes: usize) -> Entity {
    let pieces = bytes.div_ceil(32_000);
    let pieces = (0..pieces).map(|n| (n, 32_000.min(bytes - n * 32_000)));
    pieces.fold(Entity::new("p", row).unwrap(), |entity, (n, length)| {
        entity.with(&format!("P{n}"), "x".repeat(length))
    })
}

/// Entities may be larger than in Table Storage; groups are smaller.
#[tokio::test]
async fn entities_and_groups_have_two_mebibytes() {
    let half = limits::COSMOS_ENTITY_BYTES / 4;
    let server = Server::start([answer("204 No Content", WRITTEN, "")]).await;
    let store = cosmos(&server);
    store
        .write(
            &table(),
            Operation::Insert(entity_of("r", 2 * half - 20_000)),
        )
        .await
        .unwrap();
    let error = store
        .write(&table(), Operation::Insert(entity_of("r", 2 * half)))
        .await
        .unwrap_err();
    assert!(error.is_limit_exceeded(), "{error}");
    let inserts = ["1", "2", "3"]
        .map(|row| Operation::Insert(entity_of(row, limits::COSMOS_GROUP_BYTES / 3)));
    let error = store
        .transact(&table(), group_of(inserts, &ServiceProfile::AZURE_TABLES))
        .await
        .unwrap_err();
    assert!(error.is_limit_exceeded(), "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn table_names_keep_their_case_in_requests() {
    let page = r#"{"value":[{"TableName":"ordA"},{"TableName":"OrdB"}]}"#;
    let server = Server::start([answer("200 OK", &[], page)]).await;
    let listed = cosmos(&server)
        .list_tables(Some("Ord"), None)
        .await
        .unwrap();
    assert_eq!(
        listed
            .items
            .iter()
            .map(|table| table.as_str())
            .collect::<Vec<_>>(),
        ["OrdB"]
    );
    let line = server.only().line;
    assert!(
        line.contains("$filter=TableName%20ge%20%27Ord%27%20and%20TableName%20lt%20%27Ore%27"),
        "{line}"
    );
}

#[derive(Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Order {
    #[partition_key]
    tenant: String,
    #[row_key]
    number: String,
}

#[tokio::test]
async fn queries_that_need_order_are_refused_or_sorted_by_the_client() {
    let page = r#"{"value":[{"PartitionKey":"p","RowKey":"2"},{"PartitionKey":"p","RowKey":"3"},
        {"PartitionKey":"p","RowKey":"1"}]}"#;
    let server = Server::start([answer("200 OK", &[], page)]).await;
    let orders = Database::new(Arc::new(cosmos(&server)))
        .table::<Order>("Orders")
        .unwrap();
    let query = orders.query().partition(Order::partition("p").unwrap());
    let required = query.clone().require_order();
    let error = required.all().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unsupported { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("sorted_on_client"), "{error}");
    assert!(required.first().await.is_err() && required.page(None).await.is_err());
    // A query without an explicit order and with a limit returns the first entities by key.
    let error = query.clone().limit(1).all().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unsupported { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("in_any_order"), "{error}");
    assert!(query.first().await.is_err() && query.clone().limit(1).page(None).await.is_err());
    assert!(
        query
            .clone()
            .limit(2)
            .pages()
            .try_collect::<Vec<_>>()
            .await
            .is_err()
    );
    assert!(server.asked().is_empty());
    assert!(query.clone().limit(0).all().await.unwrap().is_empty());
    assert_eq!(query.clone().limit(3).count().await.unwrap(), 3);
    assert_eq!(
        query
            .clone()
            .limit(3)
            .in_any_order()
            .all()
            .await
            .unwrap()
            .len(),
        3
    );
    assert!(
        server
            .asked()
            .iter()
            .all(|asked| asked.line.contains("$top=3"))
    );
    let numbers = |orders: Vec<Order>| {
        orders
            .into_iter()
            .map(|order| order.number)
            .collect::<Vec<_>>()
    };
    let sorted = query.clone().sorted_on_client();
    assert_eq!(numbers(sorted.all().await.unwrap()), ["1", "2", "3"]);
    assert_eq!(numbers(sorted.limit(2).all().await.unwrap()), ["1", "2"]);
    // The service's first entities are arbitrary ones, so `$top` must not be sent.
    assert!(
        server.asked()[2..]
            .iter()
            .all(|asked| !asked.line.contains("$top"))
    );
    assert_eq!(numbers(query.all().await.unwrap()), ["2", "3", "1"]);
}

#[tokio::test]
async fn insert_or_merge_is_tunnelled_too() {
    let server = Server::start([answer("204 No Content", WRITTEN, "")]).await;
    run(&cosmos(&server), OperationKind::InsertOrMerge)
        .await
        .unwrap();
    let asked = server.only();
    assert!(
        asked.line.starts_with("POST /acc/Orders(PartitionKey="),
        "{}",
        asked.line
    );
    assert_eq!(asked.header("x-http-method"), Some("MERGE"));
    assert_eq!(asked.header("if-match"), None);
}
