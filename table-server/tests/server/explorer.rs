//! The page that shows tables.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::model::Entity;
use table_core::store::{Operation, TableStore};
use table_server::{Account, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Reply, encoded, read};

const MARKUP: &str = "</script><img src=x onerror=alert(1)>\"'&";

async fn server() -> Server {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let table = "Staff".parse().unwrap();
    store.create_table(&table).await.unwrap();
    for row in 0..150 {
        let entity = Entity::new("<b>Sales", format!("<i>{row:03}")).unwrap();
        let entity = entity
            .with("Age", row)
            .with("Text", MARKUP)
            .with("Bytes", vec![1_u8, 255]);
        store
            .write(&table, Operation::Insert(entity))
            .await
            .unwrap();
    }
    let builder = Server::builder()
        .account(Account::emulator(), store)
        .explorer();
    builder
        .listen("127.0.0.1:0".parse().unwrap())
        .start()
        .await
        .unwrap()
}

async fn ask(server: &Server, method: &str, path: &str, headers: &str) -> Reply {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let request =
        format!("{method} /_explorer{path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    read(&answer).unwrap()
}

async fn get(server: &Server, path: &str) -> Reply {
    let reply = ask(
        server,
        "GET",
        path,
        "Host: localhost:1\r\nSec-Fetch-Site: same-origin\r\n",
    )
    .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

#[tokio::test]
async fn every_answer_forbids_other_scripts() {
    let server = server().await;
    for path in [
        "/",
        "/page.css",
        "/page.js",
        "/accounts",
        "/tables?account=devstoreaccount1",
    ] {
        let reply = get(&server, path).await;
        let policy = reply.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';")
                && !policy.contains("unsafe"),
            "{reply:?}"
        );
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("x-frame-options"), "DENY");
    }
    let page = get(&server, "/").await.body;
    assert!(
        !page.contains("style=") && !page.contains("onclick") && !page.contains("<script>"),
        "{page}"
    );
    let script = get(&server, "/page.js").await.body;
    for way in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
    ] {
        assert!(!script.contains(way), "{way}");
    }
}

#[tokio::test]
async fn markup_in_values_and_keys_is_data() {
    let server = server().await;
    let reply = get(&server, "/entities?account=devstoreaccount1&table=Staff").await;
    assert_eq!(
        reply.header("content-type"),
        "application/json;charset=utf-8"
    );
    let answer = reply.json();
    let entities = answer["entities"].as_array().unwrap();
    assert_eq!(entities.len(), 100);
    assert_eq!(&answer["path"], &serde_json::json!("table scan"));
    assert_eq!(entities[7]["partition"], "<b>Sales");
    assert_eq!(entities[7]["kind"], "without type");
    let text = entities[7]["properties"]
        .as_array()
        .unwrap()
        .iter()
        .find(|property| property["name"] == "Text");
    assert_eq!(text.unwrap()["text"], MARKUP);
    let (first, second) = (
        answer["next"]["first"].as_str().unwrap(),
        answer["next"]["second"].as_str().unwrap(),
    );
    let next = format!(
        "/entities?account=devstoreaccount1&table=Staff&first={}&second={}",
        encoded(first),
        encoded(second)
    );
    assert_eq!(
        get(&server, &next).await.json()["entities"]
            .as_array()
            .unwrap()
            .len(),
        50
    );
    let filter = encoded("PartitionKey eq '<b>Sales' and RowKey eq '<i>003'");
    let point = get(
        &server,
        &format!("/entities?account=devstoreaccount1&table=Staff&filter={filter}"),
    )
    .await
    .json();
    assert_eq!(
        (&point["path"], point["entities"].as_array().unwrap().len()),
        (&serde_json::json!("point query"), 1)
    );
    let counted = get(&server, "/partitions?account=devstoreaccount1&table=Staff")
        .await
        .json();
    let expected = serde_json::json!({
        "rows": 150, "partitions": 1, "complete": true, "largest": [{ "partition": "<b>Sales", "rows": 150 }],
    });
    assert_eq!(counted, expected);
    let wrong = "/entities?account=devstoreaccount1&table=Staff&filter=%3Cb%3E";
    let refused = ask(&server, "GET", wrong, "Host: localhost\r\n").await;
    assert_eq!(refused.status, 400);
    assert_eq!(
        refused.header("content-type"),
        "application/json;charset=utf-8"
    );
    assert!(refused.json()["error"].is_string());
}

#[tokio::test]
async fn pages_of_other_sites_are_refused() {
    let server = server().await;
    for (method, headers, status) in [
        ("GET", "Host: evil.example\r\n", 403),
        ("GET", "Host: evil.example:10002\r\n", 403),
        (
            "GET",
            "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
            403,
        ),
        ("POST", "Host: localhost\r\nContent-Length: 0\r\n", 405),
        ("GET", "Host: 127.0.0.1:80\r\n", 200),
        (
            "GET",
            "Host: [::1]:80\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
            200,
        ),
    ] {
        assert_eq!(
            ask(&server, method, "/accounts", headers).await.status,
            status,
            "{headers}"
        );
    }
    let settings = ask(
        &server,
        "GET",
        "/entities?account=devstoreaccount1&table=TableServerSettings",
        "Host: localhost\r\n",
    );
    assert_eq!(settings.await.status, 404);
    let builder = Server::builder().account(Account::emulator(), MemoryStore::new());
    let without = builder
        .listen("127.0.0.1:0".parse().unwrap())
        .start()
        .await
        .unwrap();
    assert_ne!(
        ask(&without, "GET", "/", "Host: localhost\r\n")
            .await
            .status,
        200
    );
}

#[cfg(feature = "indexes")]
#[tokio::test]
async fn the_drift_of_an_index_is_counted() {
    use table_core::model::{IfMatch, Key};
    use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};

    let store = Arc::new(MemoryStore::new());
    let table: table_core::model::TableName = "Staff".parse().unwrap();
    store.create_table(&table).await.unwrap();
    let age = Index::keyed("age", Placement::SamePartition, "", "age_{Age:03}_{RowKey}").unwrap();
    let handle = IndexedEntities::open(
        store.clone(),
        table.clone(),
        vec![age],
        IndexOptions::local(),
    )
    .await
    .unwrap();
    let row = |row: &str| Entity::new("p", row).unwrap().with("Age", 7);
    for name in ["1", "2", "3"] {
        handle.insert(row(name)).await.unwrap();
    }
    // A client that does not maintain the index: an entry without its entity, and an entity without its entry.
    store
        .write(
            &table,
            Operation::Delete(Key::new("p", "1").unwrap(), IfMatch::Any),
        )
        .await
        .unwrap();
    store
        .write(&table, Operation::Insert(row("4")))
        .await
        .unwrap();
    let builder =
        Server::builder().account(Account::emulator(), store.clone() as Arc<dyn TableStore>);
    let server = builder
        .explorer()
        .listen("127.0.0.1:0".parse().unwrap())
        .start()
        .await
        .unwrap();
    let of_table = "account=devstoreaccount1&table=Staff";
    let manifest = get(&server, &format!("/manifest?{of_table}")).await.json();
    let id = encoded(manifest["indexes"][0]["id"].as_str().unwrap());
    let drift = get(&server, &format!("/drift?{of_table}&index={id}"))
        .await
        .json();
    let expected = serde_json::json!({
        "entries": 3, "dangling": 1, "entities": 3, "missing": 1, "taken_keys": 0, "complete": true,
    });
    assert_eq!(drift, expected);
    let again = get(&server, &format!("/drift?{of_table}&index={id}"))
        .await
        .json();
    assert_eq!(again, expected, "a comparison repairs nothing");
    let unknown = ask(
        &server,
        "GET",
        &format!("/drift?{of_table}&index=no"),
        "Host: localhost\r\n",
    )
    .await;
    assert_eq!(unknown.status, 404);
}
