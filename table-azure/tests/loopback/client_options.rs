//! The caller's `ClientOptions` are honoured, except for a second layer of retries. Logs and traces contain
//! no secrets.

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, ExponentialRetryOptions, Request, RetryOptions};
use azure_core::tracing::{
    AsAny, Attribute, AttributeValue, Span, SpanGuard, SpanKind, SpanStatus, Tracer, TracerProvider,
};
use table_azure::{AzureTableStore, AzureTableStoreOptions};
use table_core::adapter::TraceKeys;
use table_core::store::OperationKind;
use tracing_subscriber::fmt::MakeWriter;

use super::server::{Server, answer};
use super::{OPERATIONS, run, store_with};

/// A policy that counts requests and marks them.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

#[expect(
    elided_lifetimes_in_paths,
    reason = "`async_trait` would name a lifetime that the trait does not"
)]
#[async_trait]
impl Policy for Counting {
    async fn send(
        &self,
        ctx: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        self.0.fetch_add(1, Ordering::Relaxed);
        request.insert_header("x-mine", "here");
        next[0].send(ctx, request, &next[1..]).await
    }
}

#[tokio::test]
async fn policies_see_each_request_once_without_retries() {
    for kind in OPERATIONS {
        let server = Server::start([answer("500 Internal Server Error", &[], "")]).await;
        let (per_call, per_try) = (Arc::new(Counting::default()), Arc::new(Counting::default()));
        let mut options = AzureTableStoreOptions::default();
        options
            .client_options
            .per_call_policies
            .push(Arc::clone(&per_call) as Arc<dyn Policy>);
        options
            .client_options
            .per_try_policies
            .push(Arc::clone(&per_try) as Arc<dyn Policy>);
        options.client_options.retry =
            RetryOptions::exponential(ExponentialRetryOptions::default());
        run(&store_with(&server, options), kind).await.unwrap_err();
        assert_eq!(server.only().header("x-mine"), Some("here"), "{kind}");
        let count = |policy: &Counting| policy.0.load(Ordering::Relaxed);
        assert_eq!(count(&per_call), 1, "{kind}");
        assert_eq!(count(&per_try), 1, "{kind}");
    }
}

/// A tracer that keeps the text of every span.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn span(&self, line: String) -> Arc<dyn Span> {
        self.0.lock().unwrap().push(line);
        Arc::new(self.clone())
    }
}

impl TracerProvider for Recorder {
    fn get_tracer(
        &self,
        _: Option<&'static str>,
        name: &'static str,
        _: Option<&'static str>,
    ) -> Arc<dyn Tracer> {
        assert_eq!(name, "table-azure");
        Arc::new(self.clone())
    }
}

impl Tracer for Recorder {
    fn start_span(
        &self,
        name: Cow<'static, str>,
        kind: SpanKind,
        with: Vec<Attribute>,
    ) -> Arc<dyn Span> {
        self.span(format!("{kind:?} {name} {with:?}"))
    }

    fn start_span_with_parent(
        &self,
        name: Cow<'static, str>,
        kind: SpanKind,
        with: Vec<Attribute>,
        _: Arc<dyn Span>,
    ) -> Arc<dyn Span> {
        self.span(format!("{kind:?} in it {name} {with:?}"))
    }

    fn namespace(&self) -> Option<&'static str> {
        None
    }
}

impl AsAny for Recorder {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

struct Guard;

impl SpanGuard for Guard {
    fn end(self) {}
}

impl Span for Recorder {
    fn is_recording(&self) -> bool {
        true
    }

    fn span_id(&self) -> [u8; 8] {
        [7; 8]
    }

    fn end(&self) {}

    fn set_status(&self, status: SpanStatus) {
        self.0.lock().unwrap().push(format!("{status:?}"));
    }

    fn set_attribute(&self, key: &'static str, value: AttributeValue) {
        self.0.lock().unwrap().push(format!("{key} {value:?}"));
    }

    fn record_error(&self, error: &dyn std::error::Error) {
        self.0.lock().unwrap().push(error.to_string());
    }

    fn set_current(&self, _: &Context<'_>) -> Box<dyn SpanGuard> {
        Box::new(Guard)
    }

    fn propagate_headers(&self, request: &mut Request) {
        request.insert_header("traceparent", "mine");
    }
}

#[tokio::test]
async fn a_tracer_sees_the_operation_and_the_request_in_it() {
    let server = Server::start([answer("200 OK", &[], r#"{"value":[]}"#)]).await;
    let recorder = Recorder::default();
    let mut options = AzureTableStoreOptions::default();
    options.client_options.instrumentation.tracer_provider = Some(Arc::new(recorder.clone()));
    let store =
        AzureTableStore::with_sas(&format!("{}?sv=1&sig=se7en", server.address), Some(options))
            .unwrap();
    run(&store, OperationKind::Query).await.unwrap();
    assert_eq!(server.only().header("traceparent"), Some("mine"));
    let lines = recorder.0.lock().unwrap();
    assert!(
        lines[0].starts_with("Internal AzureTableStore.query "),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("Client in it GET "), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("200")), "{lines:?}");
    assert!(!lines.concat().contains("se7en"), "{lines:?}");
}

fn traced(server: &Server, keys: TraceKeys) -> (AzureTableStore, Recorder) {
    let recorder = Recorder::default();
    let mut options = AzureTableStoreOptions::default();
    options.client_options.instrumentation.tracer_provider = Some(Arc::new(recorder.clone()));
    options.trace_keys = keys;
    (store_with(server, options), recorder)
}

/// Not found, conflict and failed condition are expected answers.
#[tokio::test]
async fn expected_answers_are_not_error_spans() {
    for (status, code, is_error) in [
        ("404 Not Found", "ResourceNotFound", false),
        ("409 Conflict", "EntityAlreadyExists", false),
        (
            "412 Precondition Failed",
            "UpdateConditionNotSatisfied",
            false,
        ),
        ("403 Forbidden", "AuthenticationFailed", true),
        ("500 Internal Server Error", "InternalError", true),
    ] {
        for kind in OPERATIONS {
            let server = Server::start([answer(status, &[("x-ms-error-code", code)], "")]).await;
            let (store, recorder) = traced(&server, TraceKeys::Hidden);
            let _ = run(&store, kind).await;
            let lines = recorder.0.lock().unwrap().concat();
            assert!(
                lines.contains(&format!("http.response.status_code I64({})", &status[..3])),
                "{kind}: {lines}"
            );
            let (status_is_error, has_error_type) =
                (lines.contains("Error {"), lines.contains("error.type"));
            assert_eq!(status_is_error, is_error, "{kind} {status}: {lines}");
            assert_eq!(has_error_type, is_error, "{kind} {status}: {lines}");
        }
    }
}

/// Keys of the operations, as URLs contain them.
const KEYS: [&str; 2] = ["o%27%27x", "a%20b"];

#[tokio::test]
async fn spans_show_keys_only_if_allowed() {
    for (keys, shown) in [(TraceKeys::Hidden, false), (TraceKeys::Shown, true)] {
        let server = Server::start([answer("204 No Content", &[("ETag", "W/\"new\"")], "")]).await;
        let (store, recorder) = traced(&server, keys);
        run(&store, OperationKind::Replace).await.unwrap();
        assert!(
            server
                .only()
                .line
                .contains("(PartitionKey='o%27%27x',RowKey='a%20b')"),
            "{:?}",
            server.only()
        );
        let lines = recorder.0.lock().unwrap().concat();
        assert!(lines.contains("/acc/Orders(PartitionKey="), "{lines}");
        assert_eq!(KEYS.map(|key| lines.contains(key)), [shown; 2], "{lines}");
    }
}

#[tokio::test]
async fn logs_show_keys_only_if_allowed() {
    for kind in OPERATIONS {
        let server = Server::start([answer("500 Internal Server Error", &[], "")]).await;
        let log = Log::of(
            kind,
            &store_with(&server, AzureTableStoreOptions::default()),
        )
        .await;
        assert!(log.contains("Request"), "{kind}: {log}");
        assert_eq!(
            KEYS.map(|key| log.contains(key)),
            [false; 2],
            "{kind}: {log}"
        );
        assert!(
            !log.contains("o'x") && !log.contains("o''x"),
            "{kind}: {log}"
        );
        // No server listens on this address.
        let unheard = AzureTableStore::with_sas("http://127.0.0.2:1/acc?sv=1&sig=x", None).unwrap();
        let log = Log::of(kind, &unheard).await;
        assert!(log.contains("Failed response"), "{kind}: {log}");
        assert_eq!(
            KEYS.map(|key| log.contains(key)),
            [false; 2],
            "{kind}: {log}"
        );
    }
    let server = Server::start([answer("500 Internal Server Error", &[], "")]).await;
    let mut options = AzureTableStoreOptions::default();
    options.trace_keys = TraceKeys::Shown;
    let log = Log::of(OperationKind::Get, &store_with(&server, options)).await;
    assert_eq!(KEYS.map(|key| log.contains(key)), [true; 2], "{log}");
}

/// Captures all logs of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    /// Returns the logs of an operation at every level, successful or not.
    async fn of(kind: OperationKind, store: &AzureTableStore) -> String {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(log.clone());
        let guard = tracing::subscriber::set_default(subscriber.finish());
        let _ = run(store, kind).await;
        drop(guard);
        let bytes = log.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }
}

#[tokio::test]
async fn logs_contain_neither_key_nor_signature() {
    for kind in OPERATIONS {
        let server = Server::start([answer("500 Internal Server Error", &[], "")]).await;
        let log = Log::of(
            kind,
            &store_with(&server, AzureTableStoreOptions::default()),
        )
        .await;
        let authorization = server.only().header("authorization").unwrap().to_owned();
        let signature = authorization.rsplit(':').next().unwrap();
        assert!(log.contains("Request"), "{kind}: {log}");
        assert!(
            !log.contains(signature) && !log.contains(super::KEY),
            "{kind}: {log}"
        );
        let url = format!("{}?sv=1&sig=se7en%3D", server.address);
        let log = Log::of(kind, &AzureTableStore::with_sas(&url, None).unwrap()).await;
        assert!(
            log.contains("sig=") && !log.contains("se7en"),
            "{kind}: {log}"
        );
        // No server listens on this address, so the failure is logged with its causes.
        let url = "http://127.0.0.2:1/acc?sv=1&sig=se7en%3D";
        let log = Log::of(kind, &AzureTableStore::with_sas(url, None).unwrap()).await;
        assert!(
            log.contains("Failed response") && !log.contains("se7en"),
            "{kind}: {log}"
        );
    }
}

#[tokio::test]
async fn headers_that_the_caller_allows_are_logged() {
    let server = Server::start([answer("204 No Content", &[("ETag", "W/\"new\"")], "")]).await;
    let log = Log::of(
        OperationKind::Insert,
        &store_with(&server, AzureTableStoreOptions::default()),
    )
    .await;
    assert!(!log.contains("return-no-content"), "{log}");
    let mut options = AzureTableStoreOptions::default();
    options
        .client_options
        .logging
        .additional_allowed_header_names
        .push("prefer".into());
    let log = Log::of(OperationKind::Insert, &store_with(&server, options)).await;
    assert!(log.contains("prefer: return-no-content"), "{log}");
}
