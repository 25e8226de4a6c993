//! The form of each request.
//!
//! The forms are those of <https://learn.microsoft.com/rest/api/storageservices/table-service-rest-api>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use table_azure::{AzureTableStore, AzureTableStoreOptions, ReadFrom, Service};
use table_core::adapter::{RequestMeter, RetryPolicy, Retrying, StoreBuilder};
use table_core::model::{Entity, PartitionKey};
use table_core::query::{Filter, Query};
use table_core::store::{
    ErrorKind, GroupTransaction, Operation, OperationKind, ServiceProfile, TableStore,
};
use table_patterns::Database;

use super::server::{Asked, Server, answer};
use super::{KEY, OPERATIONS, run, store, store_with, table};

const ENTITY: &str = "/acc/Orders(PartitionKey='o%27%27x',RowKey='a%20b')";
const JSON: &str = r#"{"PartitionKey":"o'x","RowKey":"a b","N@odata.type":"Edm.Int64","N":"5"}"#;

async fn asked(kind: OperationKind) -> Asked {
    let server = Server::start([answer("418 I'm a teapot", &[], "")]).await;
    let _ = run(&store(&server), kind).await;
    server.only()
}

/// The request line, the condition header and the body of each operation.
#[tokio::test]
async fn each_operation_is_one_request_of_its_documented_form() {
    use OperationKind::*;
    let no_echo = Some("return-no-content");
    let version = Some("W/\"v\"");
    let list = "GET /acc/Tables?$filter=TableName%20ge%20%27ORD%27%20and%20TableName%20lt%20%27ore%27 HTTP/1.1";
    let query = "GET /acc/Orders()?$filter=PartitionKey%20eq%20%27o%27%27x%27%20and%20N%20gt%205L\
        &$select=PartitionKey%2CRowKey%2CTimestamp%2CN&$top=5 HTTP/1.1";
    let on_entity = |verb: &str| format!("{verb} {ENTITY} HTTP/1.1");
    for (kind, line, prefer, if_match, body) in [
        (
            CreateTable,
            "POST /acc/Tables HTTP/1.1".to_owned(),
            no_echo,
            None,
            r#"{"TableName":"Orders"}"#,
        ),
        (
            DeleteTable,
            "DELETE /acc/Tables('Orders') HTTP/1.1".to_owned(),
            None,
            None,
            "",
        ),
        (ListTables, list.to_owned(), None, None, ""),
        (Get, on_entity("GET"), None, None, ""),
        (Query, query.to_owned(), None, None, ""),
        (
            Insert,
            "POST /acc/Orders HTTP/1.1".to_owned(),
            no_echo,
            None,
            JSON,
        ),
        (Replace, on_entity("PUT"), None, version, JSON),
        (Merge, on_entity("PATCH"), None, version, JSON),
        (InsertOrReplace, on_entity("PUT"), None, None, JSON),
        (InsertOrMerge, on_entity("PATCH"), None, None, JSON),
        (Delete, on_entity("DELETE"), None, version, ""),
    ] {
        let asked = asked(kind).await;
        assert_eq!(asked.line, line, "{kind}");
        assert_eq!(asked.header("prefer"), prefer, "{kind}");
        assert_eq!(asked.header("if-match"), if_match, "{kind}");
        assert_eq!(asked.body, body, "{kind}");
        assert_eq!(
            asked.header("content-type"),
            (!body.is_empty()).then_some("application/json"),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_group_is_one_request_to_batch() {
    let asked = asked(OperationKind::Transact).await;
    assert_eq!(asked.line, "POST /acc/$batch HTTP/1.1");
    assert!(
        asked
            .header("content-type")
            .unwrap()
            .starts_with("multipart/mixed; boundary=batch_")
    );
    assert_eq!(asked.body.matches("HTTP/1.1").count(), 2);
    assert_eq!(
        asked.body.matches('\n').count(),
        asked.body.matches("\r\n").count()
    );
}

/// Returns the expected `Authorization` header of a request.
///
/// <https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key#table-service-shared-key-authorization>
pub(super) fn authorization(asked: &Asked, comp: Option<&str>) -> String {
    let mut words = asked.line.split(' ');
    let (verb, target) = (words.next().unwrap(), words.next().unwrap());
    let path = target.split('?').next().unwrap();
    let comp = comp.map(|comp| format!("?comp={comp}")).unwrap_or_default();
    let content_type = asked.header("content-type").unwrap_or_default();
    let date = asked.header("x-ms-date").unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(KEY).unwrap()).unwrap();
    mac.update(format!("{verb}\n\n{content_type}\n{date}\n/acc{path}{comp}").as_bytes());
    format!(
        "SharedKey acc:{}",
        STANDARD.encode(mac.finalize().into_bytes())
    )
}

#[tokio::test]
async fn every_request_is_signed_over_verb_type_date_and_encoded_path() {
    for kind in OPERATIONS {
        let asked = asked(kind).await;
        let expected = authorization(&asked, None);
        assert_eq!(
            asked.header("authorization"),
            Some(expected.as_str()),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn every_request_has_the_version_and_metadata_headers() {
    for kind in OPERATIONS {
        let asked = asked(kind).await;
        assert_eq!(asked.header("x-ms-version"), Some("2020-12-06"), "{kind}");
        assert_eq!(asked.header("dataserviceversion"), Some("3.0"), "{kind}");
        assert_eq!(
            asked.header("accept"),
            Some("application/json;odata=minimalmetadata"),
            "{kind}"
        );
        assert!(asked.header("x-ms-client-request-id").is_some(), "{kind}");
    }
}

#[tokio::test]
async fn a_sas_is_part_of_the_url_and_the_request_is_not_signed() {
    let server = Server::start([answer("418 I'm a teapot", &[], "")]).await;
    let url = format!("{}?sv=2020-12-06&sig=a%2Bb", server.address);
    let _ = run(
        &AzureTableStore::with_sas(&url, None).unwrap(),
        OperationKind::Get,
    )
    .await;
    let asked = server.only();
    assert_eq!(
        asked.line,
        format!("GET {ENTITY}?sv=2020-12-06&sig=a%2Bb HTTP/1.1")
    );
    assert_eq!(asked.header("authorization"), None);
}

/// A credential that may not read manifests writes through a store that reads none.
#[tokio::test]
async fn an_unmanaged_store_writes_without_reading_the_manifest() {
    for (unmanaged, asked) in [(false, "GET"), (true, "POST")] {
        let server = Server::start([answer("418 I'm a teapot", &[], "")]).await;
        let store =
            AzureTableStore::with_sas(&format!("{}?sv=1&sig=x", server.address), None).unwrap();
        let store = if unmanaged { store.unmanaged() } else { store };
        let table = Database::new(store).view::<Entity>("People").unwrap();
        let mut group = table.group(PartitionKey::new("a").unwrap());
        group
            .push(Operation::Insert(Entity::new("a", "b").unwrap()))
            .unwrap();
        group.commit().await.unwrap_err();
        assert!(
            server.only().line.starts_with(asked),
            "unmanaged: {unmanaged}"
        );
    }
}

#[tokio::test]
async fn only_reads_go_to_the_secondary() {
    let (primary, secondary) = (
        Server::start([answer("500", &[], "")]).await,
        Server::start([answer("500", &[], "")]).await,
    );
    let mut options = AzureTableStoreOptions::default();
    options.read_from = ReadFrom::Secondary;
    options.secondary_endpoint = Some(secondary.address.clone());
    let store = store_with(&primary, options);
    for kind in OPERATIONS {
        let _ = run(&store, kind).await;
    }
    assert_eq!(
        secondary.asked().len(),
        OPERATIONS.iter().filter(|kind| kind.is_read()).count()
    );
    assert_eq!(
        primary.asked().len() + secondary.asked().len(),
        OPERATIONS.len()
    );
    assert!(store.profile().has_stale_reads);
}

/// A stale read proves nothing about a write.
#[tokio::test]
async fn write_ids_are_refused_if_reads_may_be_stale() {
    let server = Server::start([answer("204 No Content", &[("ETag", "W/\"new\"")], "")]).await;
    for read_from in [ReadFrom::Secondary, ReadFrom::Primary] {
        let mut options = AzureTableStoreOptions::default();
        options.read_from = read_from;
        let store = Retrying::new(
            store_with(&server, options),
            RetryPolicy::default().with_write_ids(),
        );
        for kind in [
            OperationKind::Insert,
            OperationKind::Merge,
            OperationKind::Delete,
        ] {
            let done = run(&store, kind).await;
            match read_from {
                ReadFrom::Primary => done.unwrap(),
                ReadFrom::Secondary => {
                    let error = done.unwrap_err();
                    assert!(
                        matches!(error.kind(), ErrorKind::Unsupported { .. }),
                        "{kind}: {error}"
                    );
                    assert!(error.to_string().contains("primary"), "{kind}: {error}");
                    assert!(server.asked().is_empty());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_merge_to_cosmos_is_a_tunnelled_post() {
    let server = Server::start([answer("418 I'm a teapot", &[], "")]).await;
    let mut options = AzureTableStoreOptions::default();
    options.service = Service::CosmosDb;
    let store = store_with(&server, options);
    assert_eq!(store.profile(), &ServiceProfile::COSMOS_TABLE);
    let _ = run(&store, OperationKind::Merge).await;
    let asked = server.only();
    assert_eq!(asked.line, format!("POST {ENTITY} HTTP/1.1"));
    assert_eq!(asked.header("x-http-method"), Some("MERGE"));
    assert_eq!(asked.header("if-match"), Some("W/\"v\""));
}

/// Returns a group whose request is `extra` bytes longer than the smallest group of this shape.
fn group_of(extra: usize) -> GroupTransaction {
    let mut group = GroupTransaction::new(
        PartitionKey::new("p").unwrap(),
        &ServiceProfile::AZURE_TABLES,
    );
    for n in 0..100 {
        let mut entity = Entity::new("p", format!("{n:02}")).unwrap();
        let mine = extra / 100 + usize::from(n < extra % 100);
        for (name, part) in ["A", "B"].into_iter().zip([mine / 2, mine - mine / 2]) {
            entity = entity.with(name, "x".repeat(part));
        }
        group.push(Operation::Insert(entity)).unwrap();
    }
    group
}

#[tokio::test]
async fn a_group_may_have_exactly_four_mebibytes() {
    let server = Server::start([answer("418 I'm a teapot", &[], "")]).await;
    let store = store(&server);
    let _ = store.transact(&table(), group_of(0)).await;
    let room = 4 * 1024 * 1024 - server.only().body.len();
    let error = store
        .transact(&table(), group_of(room + 1))
        .await
        .unwrap_err();
    assert!(error.is_limit_exceeded(), "{error}");
    let _ = store.transact(&table(), group_of(room)).await;
    let sizes: Vec<_> = server
        .asked()
        .iter()
        .map(|asked| asked.body.len())
        .collect();
    assert_eq!(sizes[1..], [4 * 1024 * 1024]);
}

/// The longest URL that HTTP libraries of this program can send has 65,534 bytes.
#[tokio::test]
async fn a_url_that_is_too_long_is_an_error_of_the_caller_and_is_not_sent() {
    let server = Server::start([answer("200 OK", &[], r#"{"value":[]}"#)]).await;
    let meter = RequestMeter::new();
    let store = StoreBuilder::new(store(&server))
        .retry(RetryPolicy::default())
        .meter(meter.clone())
        .build();
    let without = format!("{}/Orders()?$filter=N%20eq%20%27%27", server.address).len();
    let query =
        |bytes: usize| Query::new().with_filter(Filter::eq("N", "x".repeat(bytes - without)));
    store
        .query(&table(), &query(65_534), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(server.asked().len(), 1);
    let error = store
        .query(&table(), &query(65_535), None)
        .await
        .unwrap_err();
    let ErrorKind::LimitExceeded {
        allowed, actual, ..
    } = error.kind()
    else {
        panic!("{error}")
    };
    assert_eq!((*allowed, *actual), (65_534, 65_535));
    assert_eq!((server.asked().len(), meter.total()), (1, 2));
}
