//! Broken, late, redirected and missing answers: the error of each operation, without a second attempt.

use std::time::Duration;

use table_azure::{AzureTableStore, AzureTableStoreOptions};
use table_core::store::{ErrorKind, OperationKind, Outcome, Result};
use tokio::task::JoinHandle;

use super::retry::good_as;
use super::server::{Answer, Server, answer, cut_off};
use super::{OPERATIONS, impatient, run, store, store_with};

/// The outcome of a write after a failed exchange.
fn expected(kind: OperationKind) -> Outcome {
    if kind.is_read() {
        Outcome::NotApplied
    } else {
        Outcome::Ambiguous
    }
}

#[tokio::test]
async fn an_answer_lost_after_the_effect_is_ambiguous() {
    for kind in OPERATIONS {
        let server = Server::start([Answer::Lost]).await;
        let error = run(&store(&server), kind).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Transport(_)) && error.is_transient(),
            "{kind}: {error}"
        );
        assert_eq!(error.outcome(), expected(kind), "{kind}");
        server.only();
    }
}

#[tokio::test]
async fn a_truncated_answer_is_ambiguous() {
    for kind in OPERATIONS {
        let server =
            Server::start([cut_off("200 OK", &[("ETag", "W/\"new\"")], "{\"value\":[")]).await;
        let error = run(&store(&server), kind).await.unwrap_err();
        assert_eq!(error.outcome(), expected(kind), "{kind}: {error}");
        server.only();
    }
}

#[tokio::test]
async fn no_answer_in_time_is_ambiguous() {
    for kind in OPERATIONS {
        let server = Server::start([Answer::Silence]).await;
        let error = run(&store_with(&server, impatient()), kind)
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Timeout { .. }),
            "{kind}: {error}"
        );
        assert_eq!(error.outcome(), expected(kind), "{kind}");
    }
}

#[tokio::test]
async fn without_a_connection_nothing_was_sent() {
    let address = {
        let server = Server::start([Answer::Lost]).await;
        server.address.replace("127.0.0.1", "127.0.0.2")
    };
    let store = AzureTableStore::with_sas(&format!("{address}?sig=se7en"), None).unwrap();
    for kind in OPERATIONS {
        let error = run(&store, kind).await.unwrap_err();
        assert!(error.is_transient(), "{kind}: {error}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{kind}");
        assert!(!format!("{error} {error:?}").contains("se7en"), "{error:?}");
        assert!(
            error.to_string().contains("cannot connect to 127.0.0.2:"),
            "{error}"
        );
    }
}

/// The server accepts the connection and never answers the TLS handshake.
#[tokio::test]
async fn without_an_answer_to_the_tls_handshake_nothing_was_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}/acc?sig=se7en", listener.local_addr().unwrap());
    let store = AzureTableStore::with_sas(&address, Some(impatient())).unwrap();
    for kind in OPERATIONS {
        let error = run(&store, kind).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Transport(_)) && error.is_transient(),
            "{kind}: {error}"
        );
        assert_eq!(error.outcome(), Outcome::NotApplied, "{kind}");
        assert!(
            error.to_string().contains("cannot connect to 127.0.0.1:"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for kind in OPERATIONS {
        let other_server = Server::start([answer("200 OK", &[], "{\"value\":[]}")]).await;
        let location = ("location", other_server.address.as_str());
        let server = Server::start([answer("307 Temporary Redirect", &[location], "")]).await;
        let error = run(&store(&server), kind).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Service(_)),
            "{kind}: {error}"
        );
        assert_eq!(error.outcome(), Outcome::NotApplied, "{kind}");
        assert!(other_server.asked().is_empty());
    }
}

/// Reads need a valid body; writes need only their ETag, which is in a header.
#[tokio::test]
async fn an_invalid_body_is_an_error_if_the_operation_needs_it() {
    let by_body = [
        OperationKind::ListTables,
        OperationKind::Get,
        OperationKind::Query,
        OperationKind::Transact,
    ];
    for rubbish in ["", "{", "<html>", "{\"value\":5}", "\u{0}", "[]"] {
        for kind in by_body {
            let server =
                Server::start([answer("200 OK", &[("content-type", "text/html")], rubbish)]).await;
            let error = run(&store(&server), kind).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Service(_)),
                "{kind} {rubbish}: {error}"
            );
            assert_eq!(error.outcome(), expected(kind), "{kind} {rubbish}");
        }
    }
}

/// The content type does not matter if the bytes identify themselves. The boundary of a group's answer is in
/// its content type.
#[tokio::test]
async fn a_valid_answer_with_a_wrong_content_type_is_read() {
    for content_type in [
        "text/html",
        "application/xml",
        "multipart/mixed",
        "",
        "\u{e9}",
    ] {
        for kind in OPERATIONS {
            let server = Server::start([good_as(kind, content_type)]).await;
            let done = run(&store(&server), kind).await;
            match kind {
                OperationKind::Transact => {
                    assert!(done.unwrap_err().is_ambiguous(), "{content_type}");
                }
                _ => done.unwrap_or_else(|e| panic!("{kind} {content_type:?}: {e}")),
            }
            server.only();
        }
    }
}

#[tokio::test]
async fn a_write_without_an_etag_in_the_answer_is_ambiguous() {
    use OperationKind::{Insert, InsertOrMerge, InsertOrReplace, Merge, Replace};
    for kind in [Insert, InsertOrMerge, InsertOrReplace, Merge, Replace] {
        let server = Server::start([answer("204 No Content", &[], "")]).await;
        let error = run(&store(&server), kind).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Ambiguous, "{kind}: {error}");
        assert!(error.to_string().contains("status 204"), "{kind}: {error}");
    }
}

/// Starts a request and waits until the server received it.
async fn start_request(store: &AzureTableStore, server: &Server) -> JoinHandle<Result<()>> {
    let store = store.clone();
    let request = tokio::spawn(async move { run(&store, OperationKind::Get).await });
    while server.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    request
}

#[tokio::test]
async fn requests_in_flight_are_bounded_and_a_dropped_request_frees_its_permit() {
    let server = Server::start([Answer::Silence]).await;
    let mut options = impatient();
    options.max_in_flight = 1;
    let store = store_with(&server, options);
    let first = start_request(&store, &server).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let error = run(&store, OperationKind::Get).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout { .. }), "{error}");
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_request_without_a_permit_was_not_sent() {
    for kind in OPERATIONS {
        let server = Server::start([Answer::Silence]).await;
        let mut options = AzureTableStoreOptions::default();
        (options.max_in_flight, options.permit_timeout) = (1, Duration::from_millis(20));
        let store = store_with(&server, options);
        let first = start_request(&store, &server).await;
        let error = run(&store, kind).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Timeout { .. }) && error.is_transient(),
            "{kind}: {error}"
        );
        assert_eq!(error.outcome(), Outcome::NotApplied, "{kind}");
        assert_eq!(server.asked().len(), 1, "{kind}");
        first.abort();
    }
}

/// One task makes more requests than its cooperative budget allows without yielding.
#[tokio::test]
async fn many_requests_of_one_task_yield_to_each_other() {
    let server = Server::start([answer("204 No Content", &[("ETag", "W/\"new\"")], "")]).await;
    let store = store(&server);
    let requests = (0..500).map(|_| run(&store, OperationKind::Replace));
    let done = futures_util::future::join_all(requests).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(server.asked().len(), 500);
}
