//! The store under the retrying adapter: which requests are repeated, what proves a write, and that the meter
//! counts every attempt.

use std::sync::Arc;
use std::time::Duration;

use table_azure::AzureTableStore;
use table_core::Result;
use table_core::adapter::{RequestMeter, RetryPolicy, StoreBuilder};
use table_core::model::ETag;
use table_core::store::{
    ErrorKind, GroupTransaction, Operation, OperationKind, TableStore, Written,
};

use super::server::{Answer, Asked, Server, answer};
use super::{OPERATIONS, entity, group, key, run, store, table, version};

const ENTITY: &str = r#"{"odata.etag":"W/\"new\"","PartitionKey":"o'x","RowKey":"a b","N":1}"#;
const GROUP: &str = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n\
    --c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/\"new\"\r\n\r\n\r\n\
    --c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\r\n--c--\r\n--b--\r\n";

/// A retrying, metered store on a server with scripted answers.
struct Rig {
    server: Server,
    store: Arc<dyn TableStore>,
    meter: RequestMeter,
}

impl Rig {
    async fn new(answers: impl Into<Vec<Answer>>) -> Self {
        let policy =
            RetryPolicy::default().with_delays(Duration::from_millis(1), Duration::from_millis(1));
        Self::with(policy.with_write_ids(), answers).await
    }

    async fn with(policy: RetryPolicy, answers: impl Into<Vec<Answer>>) -> Self {
        let server = Server::start(answers).await;
        let meter = RequestMeter::new();
        let store: AzureTableStore = store(&server);
        let store = StoreBuilder::new(store)
            .retry(policy)
            .meter(meter.clone())
            .build();
        Self {
            server,
            store,
            meter,
        }
    }

    async fn run(&self, kind: OperationKind) -> Result<()> {
        run(&*self.store, kind).await
    }

    /// Returns the verbs of the requests, after checking that the meter counted each of them.
    fn verbs(&self) -> Vec<String> {
        let asked = self.server.asked();
        assert_eq!(self.meter.total(), asked.len() as u64);
        asked
            .iter()
            .map(|asked| asked.line.split(' ').next().unwrap().to_owned())
            .collect()
    }
}

/// Returns the answer of a successful operation.
pub(super) fn good(kind: OperationKind) -> Answer {
    good_as(kind, "multipart/mixed; boundary=b")
}

/// Like [`good`], with this content type.
pub(super) fn good_as(kind: OperationKind, content_type: &str) -> Answer {
    let content_type = ("content-type", content_type);
    match kind {
        OperationKind::Get => answer("200 OK", &[content_type], ENTITY),
        OperationKind::Query | OperationKind::ListTables => {
            answer("200 OK", &[content_type], r#"{"value":[]}"#)
        }
        OperationKind::Transact => answer("202 Accepted", &[content_type], GROUP),
        _ => answer("204 No Content", &[content_type, ("ETag", "W/\"new\"")], ""),
    }
}

fn refusal(status: &str, code: &str) -> Answer {
    answer(status, &[("x-ms-error-code", code)], "")
}

/// Returns the write id in a request's body.
fn write_id(asked: &Asked) -> &str {
    let (_, rest) = asked
        .body
        .split_once(r#""_WriteId":""#)
        .expect("a write id");
    rest.split('"').next().unwrap()
}

/// Returns the entity of the first request as stored by the service.
fn stored(asked: &[Asked]) -> Answer {
    carrying(write_id(&asked[0]))
}

/// Returns the entity as another writer would have written it.
fn other_writers(_: &[Asked]) -> Answer {
    carrying("00000000-0000-0000-0000-000000000007")
}

fn carrying(id: &str) -> Answer {
    let id = format!(r#","_WriteId@odata.type":"Edm.Guid","_WriteId":"{id}"}}"#);
    answer("200 OK", &[], &ENTITY.replace('}', &id))
}

const WRITES_AN_ENTITY: [OperationKind; 6] = [
    OperationKind::Insert,
    OperationKind::Replace,
    OperationKind::Merge,
    OperationKind::InsertOrReplace,
    OperationKind::InsertOrMerge,
    OperationKind::Transact,
];

#[tokio::test]
async fn a_busy_service_is_retried_and_each_attempt_is_counted() {
    for kind in OPERATIONS {
        let busy = answer(
            "503 Server Busy",
            &[
                ("x-ms-error-code", "ServerBusy"),
                ("x-ms-retry-after-ms", "2"),
            ],
            "",
        );
        let rig = Rig::new([busy.clone(), busy, good(kind)]).await;
        rig.run(kind)
            .await
            .unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert_eq!(rig.verbs().len(), 3, "{kind}");
    }
}

#[tokio::test]
async fn a_retry_after_beyond_the_deadline_ends_the_retries() {
    let busy = answer(
        "503 Server Busy",
        &[("x-ms-error-code", "ServerBusy"), ("Retry-After", "600")],
        "",
    );
    let rig = Rig::with(RetryPolicy::default(), [busy]).await;
    let error = rig.run(OperationKind::Insert).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Throttled { .. }),
        "{error}"
    );
    assert_eq!(rig.verbs(), ["POST"]);
}

#[tokio::test]
async fn a_lost_read_is_repeated() {
    for kind in OPERATIONS.into_iter().filter(|kind| kind.is_read()) {
        let rig = Rig::new([Answer::Lost, good(kind)]).await;
        rig.run(kind).await.unwrap();
        assert_eq!(rig.verbs(), ["GET", "GET"], "{kind}");
    }
}

#[tokio::test]
async fn a_lost_write_is_recognized_by_its_id() {
    for kind in WRITES_AN_ENTITY {
        let rig = Rig::new([Answer::Lost, Answer::By(stored)]).await;
        rig.run(kind)
            .await
            .unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert_eq!(rig.verbs()[1..], ["GET"], "{kind}");
        let read = &rig.server.asked()[1].line;
        assert!(
            read.contains("Orders(PartitionKey='o%27%27x',RowKey='a%20b')"),
            "{kind}: {read}"
        );
        assert!(read.contains("_WriteId"), "{kind}: {read}");
    }
}

#[tokio::test]
async fn a_recognized_write_has_the_etag_that_was_read() {
    let rig = Rig::new([Answer::Lost, Answer::By(stored)]).await;
    let written = rig
        .store
        .write(&table(), Operation::Insert(entity()))
        .await
        .unwrap();
    assert_eq!(written, Written::version(ETag::from("W/\"new\"")));
    let rig = Rig::new([Answer::Lost, Answer::By(stored)]).await;
    let group: GroupTransaction = group();
    let written = rig.store.transact(&table(), group).await.unwrap();
    assert_eq!(
        written,
        [
            Written::version(ETag::from("W/\"new\"")),
            Written::deleted()
        ]
    );
}

#[tokio::test]
async fn equal_content_of_another_writer_leaves_an_insert_ambiguous() {
    for kind in [
        OperationKind::Insert,
        OperationKind::Replace,
        OperationKind::Transact,
    ] {
        let rig = Rig::new([Answer::Lost, Answer::By(other_writers)]).await;
        let error = rig.run(kind).await.unwrap_err();
        assert!(error.is_ambiguous(), "{kind}: {error}");
        assert_eq!(rig.verbs().len(), 2, "{kind}");
    }
}

#[tokio::test]
async fn a_write_that_was_not_applied_is_sent_again_with_the_same_id() {
    let missing = refusal("404 Not Found", "ResourceNotFound");
    let rig = Rig::new([Answer::Lost, missing, good(OperationKind::Insert)]).await;
    rig.run(OperationKind::Insert).await.unwrap();
    assert_eq!(rig.verbs(), ["POST", "GET", "POST"]);
    let asked = rig.server.asked();
    assert_eq!(write_id(&asked[0]), write_id(&asked[2]));
}

/// A conflict may be the effect of the write itself, so it is not reported as a plain conflict.
#[tokio::test]
async fn a_conflict_after_a_lost_answer_is_ambiguous() {
    for (kind, conflict) in [
        (
            OperationKind::Delete,
            refusal("404 Not Found", "ResourceNotFound"),
        ),
        (
            OperationKind::CreateTable,
            refusal("409 Conflict", "TableAlreadyExists"),
        ),
        (
            OperationKind::DeleteTable,
            refusal("404 Not Found", "ResourceNotFound"),
        ),
    ] {
        let rig = Rig::new([Answer::Lost, conflict]).await;
        let error = rig.run(kind).await.unwrap_err();
        assert!(error.is_ambiguous(), "{kind}: {error}");
        assert_eq!(rig.verbs().len(), 2, "{kind}");
    }
}

#[tokio::test]
async fn without_write_ids_a_lost_insert_is_not_repeated() {
    let policy =
        RetryPolicy::default().with_delays(Duration::from_millis(1), Duration::from_millis(1));
    let rig = Rig::with(policy, [Answer::Lost, good(OperationKind::Insert)]).await;
    assert!(
        rig.run(OperationKind::Insert)
            .await
            .unwrap_err()
            .is_ambiguous()
    );
    assert_eq!(rig.verbs(), ["POST"]);
    let delete = Operation::Delete(key(), version());
    assert!(rig.store.write(&table(), delete).await.is_ok());
}
