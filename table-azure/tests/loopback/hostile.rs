//! Damaged, hostile and wrong servers: wrong rows, endless answers, huge numbers of names, cyclic
//! continuations, and the login page of a network.

use azure_core::http::Transport;
use futures_util::TryStreamExt as _;
use table_azure::{AzureTableStore, AzureTableStoreOptions};
use table_core::Result;
use table_core::model::Key;
use table_core::query::{Filter, Query};
use table_core::store::{ErrorKind, OperationKind, Outcome, TableStore, TableStoreExt as _};

use super::server::{Answer, Asked, Server, answer, endless};
use super::{OPERATIONS, key, run, store, store_with, table};

/// The same server, accessed with an account key and with a SAS.
fn clients(server: &Server) -> [AzureTableStore; 2] {
    let sas = format!("{}?sv=1&sig=x", server.address);
    [
        store(server),
        AzureTableStore::with_sas(&sas, None).unwrap(),
    ]
}

fn row(partition: &str, row: &str) -> String {
    format!(
        r#"{{"odata.etag":"W/\"v\"","PartitionKey":"{partition}","RowKey":"{row}","Name":"Bob"}}"#
    )
}

fn page(rows: &[(&str, &str)]) -> Answer {
    let rows: Vec<String> = rows
        .iter()
        .map(|(partition, key)| row(partition, key))
        .collect();
    answer(
        "200 OK",
        &[],
        &format!(r#"{{"value":[{}]}}"#, rows.join(",")),
    )
}

#[tokio::test]
async fn a_row_other_than_the_requested_one_is_an_error() {
    let alice = Key::new("Users", "alice").unwrap();
    for (partition, found) in [
        ("Users", "bob"),
        ("users", "alice"),
        ("Users", "Alice"),
        ("Users", "alice "),
    ] {
        let server = Server::start([answer("200 OK", &[], &row(partition, found))]).await;
        for store in clients(&server) {
            let error = store.get(&table(), &alice, None).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Service(_)), "{error}");
            assert!(error.to_string().contains("another entity"), "{error}");
        }
    }
}

#[tokio::test]
async fn rows_outside_the_query_are_an_error() {
    let sales = Query::new().with_filter(Filter::eq("PartitionKey", "Sales"));
    let rows = Filter::starts_with("RowKey", "emp_").and(Filter::eq("PartitionKey", "Sales"));
    let rows = Query::new().with_filter(rows);
    for (query, found, is_good) in [
        (&sales, vec![("Sales", "1"), ("Sales", "2")], true),
        (&sales, vec![("Sales", "1"), ("Tax", "2")], false),
        (&rows, vec![("Sales", "emp_1")], true),
        (&rows, vec![("Sales", "dep_1")], false),
        (
            &sales.clone().with_top(1),
            vec![("Sales", "1"), ("Sales", "2")],
            false,
        ),
    ] {
        let server = Server::start([page(&found)]).await;
        for store in clients(&server) {
            let read = store.query(&table(), query, None).await;
            assert_eq!(read.is_ok(), is_good, "{found:?}: {read:?}");
            let read = store.query_all(&table(), query).await;
            assert_eq!(read.is_ok(), is_good, "{found:?}: {read:?}");
        }
    }
}

/// The transport of a store without a proxy, and with a proxy.
fn transports() -> [Option<Transport>; 2] {
    [None, Some(Transport::default())]
}

fn store_over(server: &Server, transport: Option<Transport>) -> AzureTableStore {
    let mut options = AzureTableStoreOptions::default();
    options.client_options.transport = transport;
    store_with(server, options)
}

/// Maximum bytes read of an answer, plus what socket buffers hold.
const TAKEN: usize = (64 << 20) + (32 << 20);

#[tokio::test]
async fn an_endless_answer_is_aborted_on_every_transport() {
    use OperationKind::{Insert, Query, Transact};
    for (kind, status) in [
        (Query, "200 OK"),
        (Insert, "201 Created"),
        (Transact, "202 Accepted"),
        (Query, "400 Bad Request"),
    ] {
        for transport in transports() {
            let server =
                Server::start([endless(status, &[("ETag", "W/\"v\"")], "{\"value\":[")]).await;
            let error = run(&store_over(&server, transport), kind)
                .await
                .unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Service(_)) && !error.is_transient(),
                "{kind}: {error}"
            );
            assert!(
                error.to_string().contains("67108864 bytes"),
                "{kind}: {error}"
            );
            assert_eq!(error.is_ambiguous(), !kind.is_read(), "{kind}: {error}");
            assert!(server.sent() < TAKEN, "{kind}: {}", server.sent());
            server.only();
        }
    }
}

#[tokio::test]
async fn an_answer_with_a_too_large_content_length_is_not_read() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n{\"value\":[";
    for transport in transports() {
        let server = Server::start([Answer::Endless(head.as_bytes().to_vec())]).await;
        let error = run(&store_over(&server, transport), OperationKind::Query)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("67108864 bytes"), "{error}");
        assert!(server.sent() < TAKEN, "{}", server.sent());
    }
}

#[tokio::test]
async fn an_error_message_of_a_megabyte_is_truncated() {
    let long = "x".repeat(1 << 20);
    let body = format!(r#"{{"odata.error":{{"code":"{long}","message":{{"value":"{long}"}}}}}}"#);
    let server = Server::start([answer("400 Bad Request", &[], &body)]).await;
    let error = run(&store(&server), OperationKind::Insert)
        .await
        .unwrap_err();
    assert!(error.to_string().len() < 2000 && format!("{error:?}").len() < 5000);
}

/// Returns an entity with `members` annotations, values or nulls.
fn flood(members: usize, member: impl Fn(usize) -> String) -> Answer {
    let mut body = r#"{"PartitionKey":"o'x","RowKey":"a b""#.to_owned();
    (0..members).for_each(|n| body.push_str(&member(n)));
    body.push('}');
    answer("200 OK", &[], &body)
}

#[tokio::test]
async fn too_many_properties_are_refused_while_they_are_read() {
    let annotations: fn(usize) -> String = |n| format!(r#","P{n}@odata.type":"Edm.Int64""#);
    let values: fn(usize) -> String = |n| format!(r#","P{n}":{n}"#);
    let both: fn(usize) -> String = |n| format!(r#","P{n}@odata.type":"Edm.Int64","P{n}":"{n}""#);
    for (members, member) in [
        (80_000, annotations),
        (80_000, values),
        (80_000, both),
        (253, values),
    ] {
        let server = Server::start([flood(members, member)]).await;
        let error = run(&store(&server), OperationKind::Get).await.unwrap_err();
        assert!(
            error.to_string().contains("more than 252"),
            "{members}: {error}"
        );
    }
    let server = Server::start([flood(252, both)]).await;
    let found = store(&server)
        .get(&table(), &key(), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.properties().len(), 252);
}

/// Nulls stand for absent properties. Any number of them is accepted, each name once.
#[tokio::test]
async fn any_number_of_nulls_is_read() {
    let null: fn(usize) -> String = |n| format!(r#","P{n}@odata.type":"Edm.Int64","P{n}":null"#);
    let server = Server::start([flood(80_000, null)]).await;
    let found = store(&server)
        .get(&table(), &key(), None)
        .await
        .unwrap()
        .unwrap();
    assert!(found.properties().is_empty());
}

#[tokio::test]
async fn a_property_that_occurs_twice_is_an_error() {
    let row = |members: &str| format!(r#"{{"PartitionKey":"o'x","RowKey":"a b",{members}}}"#);
    for members in [
        r#""A":1,"B":2,"A":3"#,
        r#""A":null,"A":3"#,
        r#""A":1,"A@odata.type":"Edm.Int64","A":"2""#,
    ] {
        let server = Server::start([answer("200 OK", &[], &row(members))]).await;
        let error = run(&store(&server), OperationKind::Get).await.unwrap_err();
        assert!(
            error.to_string().contains("property 'A'"),
            "{members}: {error}"
        );
        // In a row that begins like the row before it.
        let rows = format!(
            r#"{{"value":[{},{}]}}"#,
            row(r#""A":1,"B":2"#),
            row(r#""A":1,"B":2,"A":3"#)
        );
        let server = Server::start([answer("200 OK", &[], &rows)]).await;
        assert!(
            store(&server)
                .query(&table(), &Query::new(), None)
                .await
                .is_err()
        );
    }
}

/// Also with the same value: two readers could take another one of them for the key.
#[tokio::test]
async fn a_key_or_system_property_that_occurs_twice_is_an_error() {
    let row = |members: &str| format!(r#"{{"PartitionKey":"o'x","RowKey":"a b","A":1{members}}}"#);
    for (name, members) in [
        ("PartitionKey", r#","PartitionKey":"o'x""#),
        ("RowKey", r#","RowKey":"other""#),
        ("RowKey", r#","Row\u004bey":"other""#),
        (
            "Timestamp",
            r#","Timestamp":null,"Timestamp":"2013-01-01T00:00:00Z""#,
        ),
        (
            "B",
            r#","B@odata.type":"Edm.Int64","B@odata.type":"Edm.String","B":"5""#,
        ),
    ] {
        let server = Server::start([answer("200 OK", &[], &row(members))]).await;
        let error = run(&store(&server), OperationKind::Get).await.unwrap_err();
        assert!(
            error.to_string().contains(&format!("property '{name}'")),
            "{members}: {error}"
        );
        // In a row that begins like the row before it.
        let rows = format!(r#"{{"value":[{},{}]}}"#, row(""), row(members));
        let server = Server::start([answer("200 OK", &[], &rows)]).await;
        let error = store(&server)
            .query(&table(), &Query::new(), None)
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains(&format!("property '{name}'")),
            "{members}: {error}"
        );
    }
}

const NEXT: &str = "x-ms-continuation-NextPartitionKey";
const NEXT_TABLE: &str = "x-ms-continuation-NextTableName";
/// One row, or one table.
const ONE: &str = r#"{"value":[{"PartitionKey":"p","RowKey":"1","TableName":"Tab"}]}"#;

fn circle(asked: &[Asked], length: usize) -> Answer {
    let place = (asked.len() % length).to_string();
    answer("200 OK", &[(NEXT, &place), (NEXT_TABLE, &place)], ONE)
}

#[tokio::test]
async fn cyclic_continuations_end_in_an_error() {
    type Pages = fn(&[Asked]) -> Answer;
    let circles: [(Pages, usize); 3] = [
        (|asked| circle(asked, 1), 2),
        (|asked| circle(asked, 2), 6),
        (|asked| circle(asked, 7), 24),
    ];
    for (pages, most) in circles {
        let server = Server::start([Answer::By(pages)]).await;
        let error = store(&server)
            .query_all(&table(), &Query::new())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("never end"), "{error}");
        assert!(
            server.asked().len() <= most,
            "{} requests",
            server.asked().len()
        );

        let server = Server::start([Answer::By(pages)]).await;
        let pages = store(&server);
        let error = pages
            .query_pages(table(), Query::new())
            .try_collect::<Vec<_>>()
            .await
            .unwrap_err();
        assert!(error.to_string().contains("never end"), "{error}");
        let error = pages.all_tables(None).await.unwrap_err();
        assert!(error.to_string().contains("never end"), "{error}");
    }
}

/// The service may need several requests to find the next row.
#[tokio::test]
async fn a_few_empty_pages_with_one_continuation_are_read() {
    fn pages(asked: &[Asked]) -> Answer {
        match asked.len() {
            ..4 => answer(
                "200 OK",
                &[(NEXT, "1"), (NEXT_TABLE, "1")],
                r#"{"value":[]}"#,
            ),
            _ => answer("200 OK", &[], ONE),
        }
    }
    let server = Server::start([Answer::By(pages)]).await;
    assert_eq!(
        store(&server)
            .query_all(&table(), &Query::new())
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(server.asked().len(), 4);
    let server = Server::start([Answer::By(pages)]).await;
    assert_eq!(store(&server).all_tables(None).await.unwrap().len(), 1);
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn empty_pages_with_one_continuation_end_in_an_error() {
    let empty = answer(
        "200 OK",
        &[(NEXT, "1"), (NEXT_TABLE, "1")],
        r#"{"value":[]}"#,
    );
    let server = Server::start([empty]).await;
    let error = store(&server)
        .query_all(&table(), &Query::new())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("never end"), "{error}");
    let queries = server.asked().len();
    let error = store(&server).all_tables(None).await.unwrap_err();
    assert!(error.to_string().contains("never end"), "{error}");
    assert_eq!((queries, server.asked().len()), (18, 36));
}

const PORTAL: &str =
    "<!DOCTYPE html><html><body>Welcome to the hotel. Please log in.</body></html>";
const HTML: (&str, &str) = ("content-type", "text/html; charset=utf-8");

fn check(kind: &str, is_read: bool, status: &str, done: Result<()>) {
    let error = done.expect_err(kind);
    assert!(
        matches!(error.kind(), ErrorKind::Service(_)),
        "{kind} {status}: {error}"
    );
    let is_success = status.starts_with('2');
    let expected = if is_success && !is_read {
        Outcome::Ambiguous
    } else {
        Outcome::NotApplied
    };
    assert_eq!(error.outcome(), expected, "{kind} {status}: {error}");
    let number = &status[..3];
    assert!(
        error
            .to_string()
            .contains(&format!("status {number}, text/html")),
        "{kind} {status}: {error}"
    );
    assert!(!error.to_string().contains("hotel"), "{error}");
}

#[tokio::test]
async fn a_login_page_is_not_an_answer_of_the_service() {
    for status in [
        "200 OK",
        "203 Non-Authoritative Information",
        "206 Partial Content",
        "302 Found",
        "404 Not Found",
    ] {
        for kind in OPERATIONS {
            let server =
                Server::start([answer(status, &[HTML, ("ETag", "W/\"v\"")], PORTAL)]).await;
            check(
                kind.name(),
                kind.is_read(),
                status,
                run(&store(&server), kind).await,
            );
            server.only();
        }
    }
}

#[tokio::test]
async fn a_login_page_is_not_an_answer_about_the_account() {
    let server = Server::start([answer("200 OK", &[HTML], PORTAL)]).await;
    let store = store(&server);
    check(
        "policies",
        true,
        "200",
        store.stored_policies(&table()).await.map(drop),
    );
    check(
        "set policies",
        false,
        "200",
        store.set_stored_policies(&table(), &[]).await,
    );
    check(
        "properties",
        true,
        "200",
        store.service_properties().await.map(drop),
    );
    check(
        "set properties",
        false,
        "200",
        store.set_service_properties(&Default::default()).await,
    );
    check(
        "statistics",
        true,
        "200",
        store.geo_replication().await.map(drop),
    );
}

#[cfg(feature = "queue")]
mod queues {
    use table_azure::SharedKey;
    use table_azure::queue::AzureWorkQueue;

    use super::super::KEY;
    use super::super::queue::{CALLS, Call};
    use super::*;

    fn queue(server: &Server) -> AzureWorkQueue {
        let key = SharedKey::new("acc", KEY).unwrap();
        AzureWorkQueue::with_shared_key(&format!("{}/jobs", server.address), key, None).unwrap()
    }

    fn done(call: Call) -> &'static str {
        match call {
            Call::Send => "201 Created",
            Call::Receive | Call::Peek => "200 OK",
            Call::Renew | Call::Delete => "204 No Content",
        }
    }

    #[tokio::test]
    async fn an_endless_answer_is_aborted() {
        for call in [Call::Send, Call::Receive, Call::Peek] {
            for status in [done(call), "500 Internal Server Error"] {
                let server = Server::start([endless(status, &[], "<QueueMessagesList>")]).await;
                let error = call.run_on(&queue(&server)).await.unwrap_err();
                assert!(
                    error.to_string().contains("67108864 bytes"),
                    "{call:?}: {error}"
                );
                assert_eq!(
                    error.is_ambiguous(),
                    call != Call::Peek,
                    "{call:?}: {error}"
                );
                assert!(server.sent() < TAKEN, "{call:?}: {}", server.sent());
            }
        }
    }

    #[tokio::test]
    async fn a_login_page_is_not_an_answer_of_the_service() {
        for call in CALLS {
            for status in ["200 OK", "201 Created", "302 Found"] {
                let server = Server::start([answer(status, &[HTML], PORTAL)]).await;
                let result = call.run_on(&queue(&server)).await;
                check(&format!("{call:?}"), call == Call::Peek, status, result);
                server.only();
            }
        }
    }

    #[tokio::test]
    async fn more_messages_than_requested_are_an_error() {
        let one = "<QueueMessage><MessageId>1</MessageId><PopReceipt>r</PopReceipt><DequeueCount>1</DequeueCount>\
            <InsertionTime>Fri, 09 Oct 2026 21:04:30 GMT</InsertionTime><MessageText>b25l</MessageText></QueueMessage>";
        for (messages, is_good) in [(1, true), (2, false)] {
            let body = format!(
                "<QueueMessagesList>{}</QueueMessagesList>",
                one.repeat(messages)
            );
            for call in [Call::Receive, Call::Peek] {
                let server = Server::start([answer(
                    "200 OK",
                    &[("content-type", "application/xml")],
                    &body,
                )])
                .await;
                let result = call.run_on(&queue(&server)).await;
                assert_eq!(result.is_ok(), is_good, "{call:?}: {result:?}");
            }
        }
    }
}
