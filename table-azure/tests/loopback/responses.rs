//! The metadata of answers, and reads of the secondary endpoint.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use table_azure::{
    AzureTableStore, AzureTableStoreOptions, ReadFrom, ResponseHook, SharedKey, collect_responses,
};
use table_core::adapter::{Failover, ReadSources};
use table_core::model::{Key, MANIFEST_PARTITION};
use table_core::query::{Filter, Query};
use table_core::store::{OperationKind, TableStore};

use super::server::{Server, answer};
use super::{KEY, OPERATIONS, key, run, store_with, table};

const HEADERS: [(&str, &str); 4] = [
    ("x-ms-request-id", "5ff4"),
    ("x-ms-request-charge", "2.83"),
    ("date", "Tue, 24 Nov 2026 17:00:00 GMT"),
    ("ETag", "W/\"new\""),
];

#[tokio::test]
async fn every_answer_is_reported_to_the_hook_and_to_the_collector() {
    for kind in OPERATIONS {
        for status in [
            "500 Internal Server Error",
            "404 Not Found",
            "204 No Content",
        ] {
            let server = Server::start([answer(status, &HEADERS, "")]).await;
            let (seen, mut options) = (
                Arc::new(Mutex::new(Vec::new())),
                AzureTableStoreOptions::default(),
            );
            let sink = Arc::clone(&seen);
            options.on_response = Some(ResponseHook::new(move |info| {
                sink.lock().unwrap().push(info.clone());
            }));
            let store = store_with(&server, options);
            let (_, collected) = collect_responses(run(&store, kind)).await;
            assert_eq!(collected, *seen.lock().unwrap(), "{kind}");
            let [info] = &collected[..] else {
                panic!("{kind}: {collected:?}")
            };
            assert_eq!(info.operation, kind.name());
            assert_eq!(info.status.to_string(), status[..3], "{kind}");
            assert_eq!(info.request_id.as_deref(), Some("5ff4"), "{kind}");
            assert_eq!(info.request_charge, Some(2.83), "{kind}");
            assert_eq!(
                info.server_time.unwrap().timestamp(),
                1_795_539_600,
                "{kind}"
            );
            assert_eq!(
                Some(&*info.client_request_id),
                server.only().header("x-ms-client-request-id"),
                "{kind}"
            );
            assert!(info.duration > Duration::ZERO, "{kind}");
            assert!(!info.is_secondary, "{kind}");
        }
    }
}

#[tokio::test]
async fn headers_that_a_service_does_not_send_are_absent() {
    let server = Server::start([answer(
        "404 Not Found",
        &[("x-ms-request-charge", "much")],
        "",
    )])
    .await;
    let store = store_with(&server, AzureTableStoreOptions::default());
    let (_, collected) = collect_responses(run(&store, OperationKind::Get)).await;
    assert_eq!(collected[0].request_id, None);
    assert_eq!(collected[0].request_charge, None);
    assert_eq!(collected[0].server_time, None);
}

#[tokio::test]
async fn the_innermost_collector_collects_and_others_see_nothing() {
    let server = Server::start([answer("204 No Content", &HEADERS, "")]).await;
    let store = store_with(&server, AzureTableStoreOptions::default());
    let ((inner, own), outer) = collect_responses(async {
        let (_, inner) = collect_responses(run(&store, OperationKind::Delete)).await;
        (inner, run(&store, OperationKind::Replace).await)
    })
    .await;
    own.unwrap();
    assert_eq!(
        inner.iter().map(|info| info.operation).collect::<Vec<_>>(),
        ["delete"]
    );
    assert_eq!(
        outer.iter().map(|info| info.operation).collect::<Vec<_>>(),
        ["replace"]
    );
}

fn secondary(primary: &Server, secondary: &Server) -> AzureTableStore {
    let mut options = AzureTableStoreOptions::default();
    options.read_from = ReadFrom::Secondary;
    options.secondary_endpoint = Some(secondary.address.clone());
    let key = SharedKey::new("acc", KEY).unwrap();
    AzureTableStore::with_shared_key(&primary.address, key, Some(options)).unwrap()
}

#[tokio::test]
async fn a_failed_read_goes_to_the_secondary_and_says_so() {
    let broken = Server::start([answer("500 Internal Server Error", &[], "")]).await;
    let copy = Server::start([answer(
        "404 Not Found",
        &[("x-ms-error-code", "ResourceNotFound")],
        "",
    )])
    .await;
    let sources = ReadSources::default();
    let store = Failover::new(
        store_with(&broken, AzureTableStoreOptions::default()),
        secondary(&broken, &copy),
    );
    let store = store.unwrap().count(sources.clone());
    let (found, answers) = collect_responses(store.get(&table(), &key(), None)).await;
    assert_eq!(found.unwrap(), None);
    assert_eq!(
        answers
            .iter()
            .map(|info| (info.status, info.is_secondary))
            .collect::<Vec<_>>(),
        [(500, false), (404, true)]
    );
    assert_eq!(sources.primary(), 0);
    assert_eq!(sources.secondary(), 1);
    run(&store, OperationKind::Insert).await.unwrap_err();
    assert_eq!(broken.asked().len(), 2);
    assert_eq!(copy.asked().len(), 1);
}

/// A copy that is behind could lack an index that another program has declared.
#[tokio::test]
async fn a_store_of_the_secondary_reads_manifests_from_the_primary() {
    let primary = Server::start([answer("200 OK", &[], r#"{"value":[]}"#)]).await;
    let copy = Server::start([answer("200 OK", &[], r#"{"value":[]}"#)]).await;
    let store = secondary(&primary, &copy);
    let manifest = Query::new().with_filter(Filter::eq("PartitionKey", MANIFEST_PARTITION));
    store
        .query(&table(), &manifest, None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(primary.asked().len(), 1);
    assert_eq!(copy.asked().len(), 0);
    store
        .query(&table(), &Query::new(), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(primary.asked().len(), 1);
    assert_eq!(copy.asked().len(), 1);
    let row = Key::new(MANIFEST_PARTITION, "table").unwrap();
    let _ = store.get(&table(), &row, None).await;
    assert_eq!(primary.asked().len(), 2);
    assert_eq!(copy.asked().len(), 1);
}
