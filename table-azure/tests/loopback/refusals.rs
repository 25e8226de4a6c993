//! Errors for requests that the service refuses.

use std::time::Duration;

use table_core::store::{ErrorKind, OperationKind, Outcome, TableStore};
use table_core::{Error, Result};

use super::server::{Answer, Server, answer};
use super::{OPERATIONS, key, run, store, table};

const ID: (&str, &str) = ("x-ms-request-id", "8f1a");

fn json(code: &str, message: &str) -> String {
    format!(
        r#"{{"odata.error":{{"code":"{code}","message":{{"lang":"en-US","value":"{message}\nRequestId:x\nTime:y"}}}}}}"#
    )
}

async fn outcome(kind: OperationKind, answer: Answer) -> Result<()> {
    let server = Server::start([answer]).await;
    let result = run(&store(&server), kind).await;
    server.only();
    result
}

async fn refused(kind: OperationKind, answer: Answer) -> Error {
    outcome(kind, answer).await.unwrap_err()
}

#[tokio::test]
async fn a_missing_entity_is_none_and_a_missing_table_an_error() {
    let missing = json("ResourceNotFound", "The specified resource does not exist.");
    let server = Server::start([
        answer("404 Not Found", &[], &missing),
        answer(
            "404 Not Found",
            &[ID],
            &json("TableNotFound", "The table specified does not exist."),
        ),
    ])
    .await;
    let store = store(&server);
    assert!(store.get(&table(), &key(), None).await.unwrap().is_none());
    let error = store.get(&table(), &key(), None).await.unwrap_err();
    assert!(error.is_table_not_found(), "{error}");
    assert_eq!(error.answer().unwrap().request_id.as_deref(), Some("8f1a"));
}

#[tokio::test]
async fn error_codes_map_to_error_kinds() {
    use OperationKind::*;
    type Check = fn(&Error) -> bool;
    let cases: [(OperationKind, &str, &str, Check); 12] = [
        (
            Delete,
            "404",
            "ResourceNotFound",
            Error::is_entity_not_found,
        ),
        (Replace, "404", "TableNotFound", Error::is_table_not_found),
        (
            DeleteTable,
            "404",
            "ResourceNotFound",
            Error::is_table_not_found,
        ),
        (
            Insert,
            "409",
            "EntityAlreadyExists",
            Error::is_already_exists,
        ),
        (
            CreateTable,
            "409",
            "TableAlreadyExists",
            Error::is_already_exists,
        ),
        (CreateTable, "409", "TableBeingDeleted", |e| {
            matches!(e.kind(), ErrorKind::TableBeingDeleted { .. })
        }),
        (
            Merge,
            "412",
            "UpdateConditionNotSatisfied",
            Error::is_precondition_failed,
        ),
        (Get, "403", "AuthenticationFailed", |e| {
            matches!(e.kind(), ErrorKind::Unauthorized(_))
        }),
        (Get, "403", "AuthorizationPermissionMismatch", |e| {
            matches!(e.kind(), ErrorKind::Forbidden(_))
        }),
        (Query, "400", "InvalidInput", |e| {
            matches!(e.kind(), ErrorKind::Rejected(_))
        }),
        (Query, "501", "NotImplemented", |e| {
            matches!(e.kind(), ErrorKind::Unsupported { .. })
        }),
        (Insert, "500", "OperationTimedOut", |e| {
            matches!(e.kind(), ErrorKind::Timeout { .. })
        }),
    ];
    for (kind, status, code, check) in cases {
        let error = refused(
            kind,
            answer(&format!("{status} x"), &[], &json(code, "Why.")),
        )
        .await;
        assert!(check(&error), "{kind} {code}: {error}");
        assert_eq!(error.answer().unwrap().code.as_deref(), Some(code));
        assert!(!error.to_string().contains("RequestId:"), "{error}");
    }
}

/// An entity's error code for a whole group or for a table does not say that the table is missing.
#[tokio::test]
async fn conflicts_are_not_reported_as_missing_tables() {
    for (status, code) in [
        ("412 x", "UpdateConditionNotSatisfied"),
        ("409 x", "EntityAlreadyExists"),
        ("412 x", "Other"),
    ] {
        for kind in [OperationKind::Transact, OperationKind::CreateTable] {
            let error = refused(kind, answer(status, &[], &json(code, "Why."))).await;
            assert!(
                matches!(error.kind(), ErrorKind::Service(_)),
                "{kind} {code}: {error}"
            );
            assert!(
                error.to_string().contains(code) && !error.is_transient(),
                "{kind}: {error}"
            );
        }
    }
    let missing = answer("404 x", &[], &json("ResourceNotFound", "Why."));
    assert!(
        refused(OperationKind::Transact, missing)
            .await
            .is_table_not_found()
    );
}

/// Refusals that new users meet.
#[tokio::test]
async fn refusals_give_advice() {
    for (kind, status, code, expected) in [
        (
            OperationKind::Get,
            "403 x",
            "AuthenticationFailed",
            "the account key belongs",
        ),
        (
            OperationKind::Get,
            "403 x",
            "AuthorizationFailure",
            "the account key belongs",
        ),
        (
            OperationKind::Insert,
            "403 x",
            "AuthorizationPermissionMismatch",
            "Storage Table Data Contributor",
        ),
        (
            OperationKind::Insert,
            "404 x",
            "TableNotFound",
            "create it first",
        ),
        (
            OperationKind::CreateTable,
            "404 x",
            "ResourceNotFound",
            "check the account",
        ),
    ] {
        let error = refused(kind, answer(status, &[], &json(code, "Why.")))
            .await
            .to_string();
        assert!(
            error.contains(expected) && error.contains(code),
            "{kind} {code}: {error}"
        );
    }
}

#[tokio::test]
async fn the_code_is_found_in_json_in_xml_and_in_the_header() {
    let xml = "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\
        <Code>EntityAlreadyExists</Code><Message xml:lang=\"en-US\">Why.</Message></Error>";
    let plain = "<?xml version=\"1.0\"?><Error><Code>EntityAlreadyExists</Code><Message>Why.</Message></Error>";
    for (headers, body) in [
        (vec![], json("EntityAlreadyExists", "Why.").as_str()),
        (vec![("content-type", "text/html")], xml),
        (vec![], plain),
        (
            vec![],
            "\u{feff}<?xml version=\"1.0\"?><Error><Code>EntityAlreadyExists</Code><Message>Why.</Message></Error>",
        ),
        (vec![("x-ms-error-code", "EntityAlreadyExists")], ""),
        (
            vec![("x-ms-error-code", "EntityAlreadyExists")],
            "<html>not xml",
        ),
    ] {
        let error = refused(
            OperationKind::Insert,
            answer("409 Conflict", &headers, body),
        )
        .await;
        assert!(error.is_already_exists(), "{body}: {error}");
    }
}

#[tokio::test]
async fn without_a_code_the_kind_is_not_guessed() {
    for kind in OPERATIONS {
        let error = refused(kind, answer("404 Not Found", &[], "")).await;
        assert!(
            matches!(error.kind(), ErrorKind::Service(_)),
            "{kind}: {error}"
        );
        assert_eq!(error.answer().unwrap().status, 404);
    }
}

#[tokio::test]
async fn retry_after_of_a_busy_service_is_reported() {
    for (status, header, code) in [
        ("503 Server Busy", ("Retry-After", "7"), "ServerBusy"),
        (
            "429 Too Many Requests",
            ("x-ms-retry-after-ms", "7000"),
            "TooManyRequests",
        ),
    ] {
        for kind in OPERATIONS {
            let error = refused(kind, answer(status, &[header], &json(code, "Busy."))).await;
            let after = Some(Duration::from_secs(7));
            assert!(
                matches!(error.kind(), ErrorKind::Throttled { retry_after } if *retry_after == after),
                "{error}"
            );
            assert_eq!(error.outcome(), Outcome::NotApplied, "{kind}");
            assert!(error.is_transient());
        }
    }
}

#[tokio::test]
async fn retry_after_may_be_a_date() {
    let at = (chrono::Utc::now() + chrono::TimeDelta::hours(2))
        .format("%a, %d %b %Y %H:%M:%S GMT")
        .to_string();
    let past = "Fri, 09 Oct 2015 21:04:30 GMT";
    for (time, hours) in [(at.as_str(), 1..2), (past, 0..1)] {
        let busy = answer(
            "503 Server Busy",
            &[("Retry-After", time)],
            &json("ServerBusy", "Busy."),
        );
        let error = refused(OperationKind::Get, busy).await;
        let ErrorKind::Throttled {
            retry_after: Some(after),
        } = error.kind()
        else {
            panic!("{error}")
        };
        assert!(
            hours.contains(&(after.as_secs() / 3600)),
            "{time}: {after:?}"
        );
    }
}

#[tokio::test]
async fn a_server_error_makes_a_write_ambiguous() {
    for status in [
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Service Unavailable",
        "504 Gateway Timeout",
        "408 Request Timeout",
    ] {
        for kind in OPERATIONS {
            let error = refused(kind, answer(status, &[], "<html>")).await;
            assert!(error.is_transient(), "{kind} {status}: {error}");
            assert_eq!(error.is_ambiguous(), !kind.is_read(), "{kind} {status}");
        }
    }
}

#[tokio::test]
async fn a_wrong_clock_is_reported() {
    let date = ("date", "Thu, 01 Jan 1970 00:00:00 GMT");
    let error = refused(
        OperationKind::Get,
        answer(
            "403 Forbidden",
            &[date],
            &json("AuthenticationFailed", "No."),
        ),
    )
    .await;
    assert!(error.to_string().contains("clock"), "{error}");
    let error = refused(
        OperationKind::Get,
        answer("403 Forbidden", &[], &json("AuthenticationFailed", "No.")),
    )
    .await;
    assert!(!error.to_string().contains("clock"), "{error}");
}
