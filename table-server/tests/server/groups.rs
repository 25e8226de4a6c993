//! Entity group transactions.

use serde_json::json;

use crate::client::{Ask, Client, Reply};

fn group(parts: &[String]) -> Ask {
    let mut body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n".to_owned();
    for part in parts {
        body.push_str(
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
        );
        body.push_str(part);
        body.push_str("\r\n");
    }
    body.push_str("--c--\r\n--b--\r\n");
    batch(body)
}

fn batch(body: String) -> Ask {
    Ask {
        body,
        ..Ask::new("POST", "$batch").with("Content-Type", "multipart/mixed; boundary=b")
    }
}

fn part(method: &str, path: &str, headers: &str, body: &str) -> String {
    let json = "Accept: application/json;odata=nometadata\r\nContent-Type: application/json";
    format!("{method} http://h/devstoreaccount1/{path} HTTP/1.1\r\n{json}\r\n{headers}\r\n{body}")
}

fn insert(row: &str) -> String {
    let body = json!({ "PartitionKey": "p", "RowKey": row, "A": 1 }).to_string();
    part("POST", "abc", "Prefer: return-no-content\r\n", &body)
}

/// Returns the inner responses: status and the text after the status line.
fn inner(reply: &Reply) -> Vec<(u16, String)> {
    assert_eq!(reply.status, 202, "{reply:?}");
    let parts = reply.body.split("HTTP/1.1 ").skip(1);
    parts
        .map(|part| (part[..3].parse().unwrap(), part[3..].to_owned()))
        .collect()
}

async fn rows(client: &Client) -> usize {
    let store = client.server.store();
    let page = store
        .query(
            &"abc".parse().unwrap(),
            &table_core::query::Query::new(),
            None,
        )
        .await;
    page.unwrap().page.items.len()
}

/// Asserts that one inner response refuses with this status, code and index, and that nothing was written. The message of a group with a
/// single operation has no index.
async fn refuses(
    client: &Client,
    ask: Ask,
    status: u16,
    code: &str,
    index: impl Into<Option<usize>>,
) {
    let before = rows(client).await;
    let reply = client.owner(ask).await;
    let answers = inner(&reply);
    assert_eq!(answers.len(), 1, "{reply:?}");
    let (found, text) = &answers[0];
    assert!(
        *found == status && text.contains(&format!("\"code\":\"{code}\"")),
        "{code}: {found} {text}"
    );
    let (_, message) = text.split_once("\"value\":\"").unwrap();
    let found = message
        .split_once(':')
        .and_then(|(found, _)| found.parse().ok());
    assert_eq!(found, index.into(), "{text}");
    assert_eq!(rows(client).await, before);
}

#[tokio::test]
async fn a_group_has_a_response_per_operation() {
    let client = Client::with_table().await;
    client
        .insert(r#"{"PartitionKey":"p","RowKey":"old","A":1}"#)
        .await;
    let path = |row: &str| format!("abc(PartitionKey='p',RowKey='{row}')");
    let echo = json!({ "PartitionKey": "p", "RowKey": "echo", "A": "--c" }).to_string();
    let reply = client
        .owner(group(&[
            insert("new"),
            part("POST", "abc", "Content-ID: 5\r\n", &echo),
            part("MERGE", &path("old"), "If-Match: *\r\n", r#"{"B":2}"#),
            part("PUT", &path("upserted"), "", r#"{"B":2}"#),
        ]))
        .await;
    let answers = inner(&reply);
    assert_eq!(
        answers
            .iter()
            .map(|(status, _)| *status)
            .collect::<Vec<_>>(),
        [204, 201, 204, 204]
    );
    assert!(
        answers.iter().all(|(_, text)| text.contains("ETag: W/\"")),
        "{reply:?}"
    );
    assert!(
        answers[1].1.contains("Content-ID: 5") && answers[1].1.contains("\"A\":\"--c\""),
        "{}",
        answers[1].1
    );
    let reply = client
        .owner(group(&[part(
            "DELETE",
            &path("old"),
            "If-Match: *\r\n",
            "",
        )]))
        .await;
    assert_eq!(inner(&reply)[0].0, 204);
    assert_eq!(rows(&client).await, 3);
}

#[tokio::test]
async fn a_failed_group_changes_nothing_and_names_the_operation() {
    let client = Client::with_table().await;
    client.insert(r#"{"PartitionKey":"p","RowKey":"r"}"#).await;
    let other = part("POST", "abc", "", r#"{"PartitionKey":"q","RowKey":"x"}"#);
    let other_table = part("POST", "abd", "", r#"{"PartitionKey":"p","RowKey":"x"}"#);
    let missing = part(
        "PUT",
        "abc(PartitionKey='p',RowKey='no')",
        "If-Match: *\r\n",
        "{}",
    );
    let stale = part(
        "PUT",
        "abc(PartitionKey='p',RowKey='r')",
        "If-Match: W/\"no\"\r\n",
        "{}",
    );
    refuses(
        &client,
        group(&[insert("1"), insert("r")]),
        409,
        "EntityAlreadyExists",
        1,
    )
    .await;
    refuses(
        &client,
        group(&[insert("1"), insert("1")]),
        400,
        "InvalidDuplicateRow",
        1,
    )
    .await;
    refuses(
        &client,
        group(&[insert("1"), other]),
        400,
        "CommandsInBatchActOnDifferentPartitions",
        1,
    )
    .await;
    refuses(
        &client,
        group(&[insert("1"), other_table]),
        400,
        "InvalidInput",
        1,
    )
    .await;
    refuses(
        &client,
        group(&[insert("1"), missing]),
        404,
        "ResourceNotFound",
        1,
    )
    .await;
    refuses(
        &client,
        group(&[stale]),
        412,
        "UpdateConditionNotSatisfied",
        None,
    )
    .await;
    refuses(
        &client,
        group(&[insert("1"), part("POST", "abc", "", "{")]),
        400,
        "InvalidInput",
        1,
    )
    .await;
    refuses(
        &client,
        group(&[insert("1"), part("GET", "abc()", "", "")]),
        405,
        "MethodNotAllowed",
        1,
    )
    .await;
    let many: Vec<_> = (0..101).map(|n| insert(&n.to_string())).collect();
    refuses(&client, group(&many), 400, "InvalidInput", 99).await;
    let reply = client.owner(group(&many[..100])).await;
    assert_eq!(inner(&reply).len(), 100);
}

#[tokio::test]
async fn one_query_may_be_a_batch() {
    let client = Client::with_table().await;
    client
        .insert(r#"{"PartitionKey":"p","RowKey":"r","A":7}"#)
        .await;
    let query = "GET /devstoreaccount1/abc()?$filter=A%20eq%207 HTTP/1.1\r\nAccept: application/json;odata=nometadata\r\n\r\n";
    let body = format!("--b\r\nContent-Type: application/http\r\n\r\n{query}\r\n--b--\r\n");
    let reply = client.owner(batch(body)).await;
    let answers = inner(&reply);
    assert_eq!(answers[0].0, 200);
    assert!(answers[0].1.contains("\"A\":7"), "{reply:?}");
}

/// The bytes of a transaction of the crate `azure_data_tables` 0.21: its last delimiter lacks the two hyphens.
#[tokio::test]
async fn a_transaction_of_azure_data_tables_is_executed() {
    let client = Client::with_table().await;
    let text = |end: &str| {
        TRANSACTION
            .replace("HOST", &client.address)
            .replace("END", end)
    };
    let send = |body: String| Ask {
        body,
        ..Ask::new("POST", "$batch").with("Content-Type", OF_TRANSACTION)
    };
    let whole = text("--");
    // A change set that was cut is refused as a whole, wherever it was cut.
    let lines: Vec<_> = whole.split_inclusive('\n').collect();
    let set = lines
        .iter()
        .position(|line| line.starts_with("--changeset") && line.ends_with("--\n"))
        .unwrap();
    for count in 1..set {
        let cut: String = lines[..count].concat() + lines[set + 1].trim_end_matches("--\n");
        assert_eq!(
            client.owner(send(cut.clone())).await.refusal(),
            (400, "InvalidInput"),
            "{cut}"
        );
        assert_eq!(rows(&client).await, 0);
    }
    let answers = inner(&client.owner(send(text(""))).await);
    assert_eq!(
        answers
            .iter()
            .map(|(status, _)| *status)
            .collect::<Vec<_>>(),
        [201, 204]
    );
    assert_eq!(rows(&client).await, 2);
}

const OF_TRANSACTION: &str = "multipart/mixed; boundary=batch_12d49cca-3c3e-4830-a456-b4bea4cd5bd8";
const TRANSACTION: &str = include_str!("azure_data_tables.txt");

#[tokio::test]
async fn invalid_groups_are_refused() {
    let client = Client::with_table().await;
    for body in ["", "--b--", "--b\r\n\r\n--b--", "nonsense"] {
        assert_eq!(
            client.owner(batch(body.to_owned())).await.refusal(),
            (400, "InvalidInput"),
            "{body}"
        );
    }
    let two = group(&[insert("1")]).body.replace("--b--\r\n", "") + &group(&[insert("2")]).body;
    assert_eq!(
        client.owner(batch(two)).await.refusal(),
        (400, "InvalidInput")
    );
    assert_eq!(
        client.owner(Ask::new("GET", "$batch")).await.refusal(),
        (405, "MethodNotAllowed")
    );
    let empty = client.owner(group(&[])).await;
    assert_eq!(inner(&empty)[0].0, 400);
    assert_eq!(rows(&client).await, 0);
}
