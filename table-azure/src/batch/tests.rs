use azure_core::http::headers::Headers;
use azure_core::http::{RawResponse, StatusCode};
use proptest::prelude::*;
use table_core::Error;
use table_core::model::{Entity, IfMatch, PartitionKey, TableName};
use table_core::store::{ErrorKind, GroupTransaction, Operation, Outcome, ServiceProfile, Written};

use super::*;
use crate::endpoint::Endpoint;
use crate::rest::Answer;

fn table() -> TableName {
    TableName::new("Orders").unwrap()
}

fn group() -> GroupTransaction {
    let mut group = GroupTransaction::new(
        PartitionKey::new("p'").unwrap(),
        &ServiceProfile::AZURE_TABLES,
    );
    let entity = |row: &str| Entity::new("p'", row).unwrap().with("N", 5_i64);
    group.push(Operation::Insert(entity("1"))).unwrap();
    group
        .push(Operation::Merge(entity("2"), IfMatch::Any))
        .unwrap();
    group
        .push(Operation::Delete(
            entity("3").key().clone(),
            IfMatch::Exactly("W/\"x\"".into()),
        ))
        .unwrap();
    group
}

fn endpoint() -> Endpoint {
    Endpoint::new("https://acc.table.core.windows.net", None).unwrap()
}

/// Boundaries are random; this replaces them by fixed names.
fn body(endpoint: &Endpoint) -> String {
    let body = GroupBody::new(endpoint, &table(), &group()).unwrap();
    let text = String::from_utf8(body.bytes).unwrap();
    let batch = body
        .content_type
        .strip_prefix("multipart/mixed; boundary=")
        .unwrap();
    let at = text.find("boundary=").unwrap() + "boundary=".len();
    let changeset = text[at..].split("\r\n").next().unwrap().to_owned();
    text.replace(batch, "BATCH")
        .replace(&changeset, "CHANGESET")
}

#[test]
fn a_group_is_written_with_crlf_and_absolute_addresses() {
    let expected = r#"--BATCH
Content-Type: multipart/mixed; boundary=CHANGESET

--CHANGESET
Content-Type: application/http
Content-Transfer-Encoding: binary

POST https://acc.table.core.windows.net/Orders HTTP/1.1
Accept: application/json;odata=minimalmetadata
DataServiceVersion: 3.0
Prefer: return-no-content
Content-Type: application/json

{"PartitionKey":"p'","RowKey":"1","N@odata.type":"Edm.Int64","N":"5"}
--CHANGESET
Content-Type: application/http
Content-Transfer-Encoding: binary

PATCH https://acc.table.core.windows.net/Orders(PartitionKey='p%27%27',RowKey='2') HTTP/1.1
Accept: application/json;odata=minimalmetadata
DataServiceVersion: 3.0
If-Match: *
Content-Type: application/json

{"PartitionKey":"p'","RowKey":"2","N@odata.type":"Edm.Int64","N":"5"}
--CHANGESET
Content-Type: application/http
Content-Transfer-Encoding: binary

DELETE https://acc.table.core.windows.net/Orders(PartitionKey='p%27%27',RowKey='3') HTTP/1.1
Accept: application/json;odata=minimalmetadata
DataServiceVersion: 3.0
If-Match: W/"x"


--CHANGESET--
--BATCH--
"#;
    assert_eq!(body(&endpoint()), expected.replace('\n', "\r\n"));
}

#[test]
fn a_merge_for_cosmos_is_a_tunnelled_post() {
    let text = body(&Endpoint::new("https://a.table.cosmos.azure.com", None).unwrap());
    assert!(!text.contains("PATCH"));
    assert!(text.contains("RowKey='2') HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\nX-HTTP-Method: MERGE\r\n"));
}

fn answer(body: &str) -> Answer {
    let mut headers = Headers::new();
    headers.insert("content-type", "multipart/mixed; boundary=batchresponse_1");
    headers.insert("x-ms-request-id", "req");
    Answer::from(RawResponse::from_bytes(
        StatusCode::Accepted,
        headers,
        body.as_bytes().to_vec(),
    ))
}

fn outcome(parts: &[&str]) -> table_core::Result<Vec<Written>> {
    let mut body =
        "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_2\r\n\r\n"
            .to_owned();
    for part in parts {
        body.push_str("--changesetresponse_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n");
        body.push_str(part);
        body.push_str("\r\n");
    }
    body.push_str("--changesetresponse_2--\r\n--batchresponse_1--\r\n");
    read_answer(&answer(&body), &table(), &group())
}

fn refused(code: &str, status: &str, message: &str) -> Error {
    let body = format!(
        r#"{{"odata.error":{{"code":"{code}","message":{{"lang":"en-US","value":"{message}"}}}}}}"#
    );
    outcome(&[&format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n{body}\r\n"
    )])
    .unwrap_err()
}

const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\nETag: W/\"new\"\r\n\r\n";

#[test]
fn every_part_is_read() {
    let written = outcome(&[NO_CONTENT, NO_CONTENT, "HTTP/1.1 204 No Content\r\n\r\n"]).unwrap();
    assert_eq!(
        written,
        [
            Written::version("W/\"new\"".into()),
            Written::version("W/\"new\"".into()),
            Written::deleted()
        ]
    );
}

#[test]
fn a_failed_part_fails_the_group_despite_the_outer_status() {
    let error = refused(
        "UpdateConditionNotSatisfied",
        "412 Precondition Failed",
        "1:The update condition failed.\\nRequestId:x",
    );
    assert_eq!(error.failed_index(), Some(1));
    assert!(error.is_precondition_failed());
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!(
        error.root().answer().unwrap().request_id.as_deref(),
        Some("req")
    );
}

#[test]
fn a_message_without_an_index_names_no_operation() {
    for message in ["The specified entity already exists.", "Time: now"] {
        let error = refused("EntityAlreadyExists", "409 Conflict", message);
        assert_eq!(error.failed_index(), None);
        assert!(
            error.to_string().contains(message) && !error.is_transient(),
            "{error}"
        );
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
}

#[test]
fn a_refusal_without_a_message_names_no_operation() {
    let error = outcome(&["HTTP/1.1 409 Conflict\r\n\r\n"]).unwrap_err();
    assert_eq!(error.failed_index(), None);
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[test]
fn retry_after_is_read_from_the_head_of_a_part() {
    for wait in ["Retry-After: 7", "x-ms-retry-after-ms: 7000"] {
        let part = format!(
            "HTTP/1.1 429 Too Many Requests\r\n{wait}\r\nx-ms-error-code: TooManyRequests\r\n\r\n"
        );
        let error = outcome(&[&part]).unwrap_err();
        let after = Some(std::time::Duration::from_secs(7));
        assert!(
            matches!(error.kind(), ErrorKind::Throttled { retry_after } if *retry_after == after),
            "{error}"
        );
        assert_eq!(
            error.answer().unwrap().code.as_deref(),
            Some("TooManyRequests")
        );
    }
}

#[test]
fn a_missing_table_is_an_error_of_the_group() {
    let error = refused(
        "TableNotFound",
        "404 Not Found",
        "0:The table specified does not exist.",
    );
    assert!(matches!(error.kind(), ErrorKind::TableNotFound { table } if table == "Orders"));
}

#[test]
fn an_index_beyond_the_group_is_ignored() {
    let error = refused("InvalidInput", "400 Bad Request", "99:Bad.");
    assert_eq!(error.failed_index(), None);
    assert!(error.to_string().contains("Bad."));
}

#[test]
fn a_truncated_answer_is_ambiguous() {
    for body in [
        "",
        "--batchresponse_1\r\n",
        "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nHTTP/1.1 204\r\n",
        "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nrubbish\r\n--c--\r\n--batchresponse_1--",
    ] {
        let error = read_answer(&answer(body), &table(), &group()).unwrap_err();
        assert_eq!(error.outcome(), Outcome::Ambiguous, "{body:?}: {error}");
    }
    assert_eq!(
        outcome(&[NO_CONTENT]).unwrap_err().outcome(),
        Outcome::Ambiguous
    );
}

#[test]
fn lf_is_read_like_crlf() {
    let body = "--batchresponse_1\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\nHTTP/1.1 409 Conflict\nContent-Type: application/json\n\n{\"odata.error\":{\"code\":\"EntityAlreadyExists\",\"message\":{\"lang\":\"\",\"value\":\"0:x\"}}}\n--c--\n--batchresponse_1--\n";
    assert!(
        read_answer(&answer(body), &table(), &group())
            .unwrap_err()
            .is_already_exists()
    );
}

/// Returns the boundary of this depth.
fn name(depth: usize) -> String {
    depth
        .checked_sub(1)
        .map_or_else(|| "batchresponse_1".to_owned(), |outer| format!("b{outer}"))
}

#[test]
fn nesting_of_parts_is_bounded() {
    let opens = |n| {
        format!(
            "--{}\nContent-Type: multipart/mixed; boundary=b{n}\n\n",
            name(n)
        )
    };
    let closes = |n| format!("\n--{}--\n", name(n));
    let deep: String = (0..10_000)
        .map(opens)
        .chain((0..10_000).rev().map(closes))
        .collect();
    let error = read_answer(&answer(&deep), &table(), &group()).unwrap_err();
    assert_eq!(error.outcome(), Outcome::Ambiguous);
}

/// Pieces of answers in any order, mixed with arbitrary text.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("--batchresponse_1\r\n".to_owned()),
        Just("--batchresponse_1--\r\n".to_owned()),
        Just("Content-Type: multipart/mixed; boundary=c\r\n\r\n".to_owned()),
        Just("--c\r\n".to_owned()),
        Just("--c--\r\n".to_owned()),
        Just(format!(
            "Content-Type: application/http\r\n\r\n{NO_CONTENT}"
        )),
        Just(
            "HTTP/1.1 409 Conflict\r\n\r\n{\"odata.error\":{\"code\":\"x\",\"message\":\"2:\"}}"
                .to_owned()
        ),
        Just("HTTP/1.1 ".to_owned()),
        Just("\r\n".to_owned()),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_answer_is_read_completely_or_refused(body in pieces()) {
        match read_answer(&answer(&body), &table(), &group()) {
            Ok(written) => prop_assert_eq!(written.len(), 3),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
