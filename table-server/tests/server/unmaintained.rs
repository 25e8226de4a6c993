//! A server without the feature `indexes`, and tables with indexes and layouts.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::model::Entity;
use table_core::prelude::TableEntity;
use table_core::query::Query;
use table_core::store::{ServiceProfile, TableStore as _, TableStoreExt as _};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
use table_patterns::wide::WideTable;
use table_server::TestServer;

use crate::client::{Ask, Client};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Report", wide)]
struct Report {
    #[partition_key]
    unit: String,
    #[row_key]
    name: String,
    text: String,
}

/// Every kind of write of another client is refused and changes nothing; reads are answered.
async fn refuses_every_write(store: MemoryStore) {
    let table = "abc".parse().unwrap();
    let before = store.query_all(&table, &Query::new()).await.unwrap();
    let server = TestServer::serve(store.clone()).await;
    let address = server.endpoint().split('/').nth(2).unwrap().to_owned();
    let client = Client { server, address };
    let path = "abc(PartitionKey='p',RowKey='1')";
    let new = "{\"PartitionKey\":\"p\",\"RowKey\":\"2\"}";
    assert_eq!(client.owner(Ask::new("GET", "abc()")).await.status, 200);
    for ask in [
        Ask::new("POST", "abc").json(new),
        Ask::new("PUT", path).json("{}"),
        Ask::new("PUT", path).json("{}").with("If-Match", "*"),
        Ask::new("MERGE", path).json("{}"),
        Ask::new("MERGE", path).json("{}").with("If-Match", "*"),
        Ask::new("DELETE", path).with("If-Match", "*"),
    ] {
        let reply = client.owner(ask).await;
        assert_eq!(reply.refusal(), (400, "InvalidInput"), "{reply:?}");
        assert!(
            reply
                .body
                .contains("the table 'abc' has indexes or layouts"),
            "{reply:?}"
        );
        assert!(
            reply.body.contains("a server that maintains indexes"),
            "{reply:?}"
        );
    }
    let body = format!(
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\
         Content-Transfer-Encoding: binary\r\n\r\nPOST http://h/devstoreaccount1/abc HTTP/1.1\r\nContent-Type: \
         application/json\r\nAccept: application/json\r\nContent-Length: {}\r\n\r\n{new}\r\n--c--\r\n--b--\r\n",
        new.len()
    );
    let group = Ask::new("POST", "$batch").with("Content-Type", "multipart/mixed; boundary=b");
    let reply = client.owner(Ask { body, ..group }).await;
    assert!(
        reply.body.contains("HTTP/1.1 400") && reply.body.contains("has indexes or layouts"),
        "{reply:?}"
    );
    assert_eq!(
        store.query_all(&table, &Query::new()).await.unwrap(),
        before
    );
    // Tables without a manifest are written.
    store.create_table(&"plain".parse().unwrap()).await.unwrap();
    assert_eq!(
        client
            .owner(Ask::new("POST", "plain").json(new))
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn writes_to_a_table_with_indexes_are_refused() {
    let store = MemoryStore::with_profile(ServiceProfile::SERVED);
    let table = "abc".parse().unwrap();
    store.create_table(&table).await.unwrap();
    let age = Index::keyed("age", Placement::SamePartition, "", "age_{Age:03}_{RowKey}").unwrap();
    let options = IndexOptions::local();
    let handle = IndexedEntities::open(Arc::new(store.clone()), table, vec![age], options)
        .await
        .unwrap();
    handle
        .insert(Entity::new("p", "1").unwrap().with("Age", 41))
        .await
        .unwrap();
    refuses_every_write(store).await;
}

#[tokio::test]
async fn writes_to_a_table_with_other_layouts_are_refused() {
    let store = MemoryStore::with_profile(ServiceProfile::SERVED);
    let reports = WideTable::<Report>::new(store.clone(), "abc").unwrap();
    reports.create_if_missing().await.unwrap();
    let report = Report {
        unit: "p".to_owned(),
        name: "1".to_owned(),
        text: "long".to_owned(),
    };
    reports.insert(&report).await.unwrap();
    refuses_every_write(store).await;
}
