//! Reading successful answers: pages, continuation tokens, ETags.

use table_core::model::{ETag, ValueRef};
use table_core::query::{Continuation, Query};
use table_core::store::{Operation, OperationKind, TableStore, TableStoreExt};

use super::server::{Answer, Server, answer};
use super::{entity, group, key, query, run, store, table};

const EMPTY: &str = r#"{"odata.metadata":"m","value":[]}"#;
const TWO: &str =
    r#"{"value":[{"PartitionKey":"p","RowKey":"1"},{"PartitionKey":"p","RowKey":"2"}]}"#;
const NEXT: (&str, &str) = ("x-ms-continuation-NextPartitionKey", "1!8!b/+x=");
const NEXT_ROW: (&str, &str) = ("x-ms-continuation-NextRowKey", "1!4!MQ--");

#[tokio::test]
async fn empty_and_short_pages_are_not_the_end() {
    let server = Server::start([
        answer("200 OK", &[NEXT, NEXT_ROW], EMPTY),
        answer("200 OK", &[NEXT], TWO),
        answer("200 OK", &[], EMPTY),
    ])
    .await;
    let found = store(&server)
        .query_all(&table(), &Query::new())
        .await
        .unwrap();
    assert_eq!(found.len(), 2);
    let lines: Vec<_> = server.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(
        lines,
        [
            "GET /acc/Orders() HTTP/1.1",
            "GET /acc/Orders()?NextPartitionKey=1%218%21b%2F%2Bx%3D&NextRowKey=1%214%21MQ-- HTTP/1.1",
            // Without a NextRowKey in the answer the request must not have one: the service refuses an empty
            // one.
            "GET /acc/Orders()?NextPartitionKey=1%218%21b%2F%2Bx%3D HTTP/1.1",
        ]
    );
}

#[tokio::test]
async fn a_continuation_survives_a_url_and_belongs_to_its_query() {
    let one = r#"{"value":[{"PartitionKey":"o'x","RowKey":"1"}]}"#;
    let server = Server::start([
        answer("200 OK", &[NEXT, NEXT_ROW], one),
        answer("200 OK", &[], one),
    ])
    .await;
    let store = store(&server);
    let page = store
        .query(&table(), &query(), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    let text = page.continuation.unwrap().to_string();
    let back: Continuation = text.parse().unwrap();
    store
        .query(&table(), &query(), Some(&back))
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert!(
        server.asked()[1]
            .line
            .contains("&NextPartitionKey=1%218%21b%2F%2Bx%3D&NextRowKey=1%214%21MQ--")
    );
    assert!(
        store
            .query(&table(), &Query::new(), Some(&back))
            .await
            .is_err()
    );
    assert_eq!(server.asked().len(), 2);
}

/// The service encodes continuation headers; some other servers send the key unencoded.
#[tokio::test]
async fn a_continuation_that_is_not_utf_8_is_an_error_and_never_the_end() {
    let letters = ("x-ms-continuation-NextPartitionKey", "\u{E9}");
    let server = Server::start([
        answer("200 OK", &[letters], TWO),
        answer("200 OK", &[], EMPTY),
    ])
    .await;
    assert_eq!(
        store(&server)
            .query_all(&table(), &Query::new())
            .await
            .unwrap()
            .len(),
        2
    );
    assert!(server.asked()[1].line.contains("NextPartitionKey=%C3%A9 "));

    for name in ["NextPartitionKey", "NextRowKey", "NextTableName"] {
        let head = format!(
            "HTTP/1.1 200 OK\r\nx-ms-continuation-NextPartitionKey: 1\r\nx-ms-continuation-{name}: "
        );
        let rest = format!("\r\ncontent-length: {}\r\n\r\n{EMPTY}", EMPTY.len());
        let bytes = [head.as_bytes(), b"\xE9", rest.as_bytes()].concat();
        let server = Server::start([Answer::Bytes(bytes)]).await;
        let kind = if name == "NextTableName" {
            OperationKind::ListTables
        } else {
            OperationKind::Query
        };
        let error = run(&store(&server), kind).await.unwrap_err().to_string();
        assert!(error.contains("the continuation header"), "{name}: {error}");
    }
}

#[tokio::test]
async fn tables_are_listed_page_by_page_and_by_prefix_without_case() {
    let page = r#"{"value":[{"TableName":"oRdA"},{"TableName":"Orx"},{"TableName":"ordB"}]}"#;
    let server = Server::start([
        answer(
            "200 OK",
            &[("x-ms-continuation-NextTableName", "1!4!x")],
            page,
        ),
        answer("200 OK", &[], r#"{"value":[]}"#),
    ])
    .await;
    let tables = store(&server).all_tables(Some("Ord")).await.unwrap();
    assert_eq!(
        tables.iter().map(|t| t.as_str()).collect::<Vec<_>>(),
        ["oRdA", "ordB"]
    );
    assert!(server.asked()[1].line.contains("&NextTableName=1%214%21x "));
}

#[tokio::test]
async fn an_entity_has_its_types_and_its_etag() {
    let body = r#"{"odata.metadata":"m","odata.etag":"W/\"v\"","PartitionKey":"o'x","RowKey":"a b",
        "Timestamp":"2013-01-01T00:00:00Z","N@odata.type":"Edm.Int64","N":"5","Gone":null}"#;
    let server = Server::start([answer("200 OK", &[], body)]).await;
    let read = store(&server)
        .get(&table(), &key(), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.get("N"), Some(ValueRef::Int64(5)));
    assert_eq!(read.etag(), Some(&ETag::from("W/\"v\"")));
    assert_eq!(read.properties().len(), 1);
}

#[tokio::test]
async fn a_write_returns_the_new_etag() {
    let server = Server::start([answer("204 No Content", &[("ETag", "W/\"new\"")], "")]).await;
    let written = store(&server)
        .write(&table(), Operation::Insert(entity()))
        .await
        .unwrap();
    assert_eq!(written.etag, Some(ETag::from("W/\"new\"")));
}

#[tokio::test]
async fn a_group_returns_the_new_etags_in_order() {
    let body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n\
        --c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/\"new\"\r\n\r\n\r\n\
        --c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\r\n--c--\r\n--b--\r\n";
    let server = Server::start([answer(
        "202 Accepted",
        &[("content-type", "multipart/mixed; boundary=b")],
        body,
    )])
    .await;
    let written = store(&server).transact(&table(), group()).await.unwrap();
    assert_eq!(
        written.iter().map(|w| w.etag.is_some()).collect::<Vec<_>>(),
        [true, false]
    );
}

#[tokio::test]
async fn connections_are_reused() {
    let server = Server::start([answer("204 No Content", &[("ETag", "W/\"new\"")], "")]).await;
    let store = store(&server);
    for _ in 0..3 {
        run(&store, OperationKind::Replace).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}
