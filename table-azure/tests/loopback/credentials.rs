//! Tokens: their scope and how they are sent. The tests use a transport of their own, because tokens are sent
//! over https only.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
use azure_core::http::headers::{AUTHORIZATION, Headers};
use azure_core::http::{AsyncRawResponse, Body, HttpClient, Request, StatusCode, Transport};
use azure_core::time::OffsetDateTime;
use azure_identity::{ClientSecretCredential, ClientSecretCredentialOptions};
use table_azure::{AzureTableStore, AzureTableStoreOptions, ReadFrom, Service, SharedKey};
use table_core::adapter::{RetryPolicy, StoreBuilder};
use table_core::store::{ErrorKind, OperationKind, Outcome, ServiceProfile, TableStore as _};

use super::run;

/// A credential that returns a token or an error, and keeps the requested scopes.
#[derive(Debug, Default)]
struct Credential {
    refuses: bool,
    scopes: Mutex<Vec<String>>,
}

#[async_trait]
impl TokenCredential for Credential {
    async fn get_token(
        &self,
        scopes: &[&str],
        _: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        if self.refuses {
            let kind = azure_core::error::ErrorKind::Credential;
            return Err(azure_core::Error::with_message(
                kind,
                "no user is logged in",
            ));
        }
        self.scopes
            .lock()
            .unwrap()
            .extend(scopes.iter().map(|scope| (*scope).to_owned()));
        let expires = OffsetDateTime::now_utc() + std::time::Duration::from_secs(3600);
        Ok(AccessToken::new("se7en".to_owned(), expires))
    }
}

/// A credential that takes its turn through these failures, and then returns a token. `None` never answers.
#[derive(Debug)]
struct Failing(Mutex<Vec<Option<azure_core::Error>>>);

#[async_trait]
impl TokenCredential for Failing {
    async fn get_token(
        &self,
        _: &[&str],
        _: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        let next = self.0.lock().unwrap().pop();
        match next {
            Some(Some(error)) => Err(error),
            Some(None) => std::future::pending().await,
            None => {
                let expires = OffsetDateTime::now_utc() + std::time::Duration::from_secs(3600);
                Ok(AccessToken::new("se7en".to_owned(), expires))
            }
        }
    }
}

/// A transport that gives every request the same answer and keeps the requests.
#[derive(Debug)]
struct Scripted {
    status: StatusCode,
    body: &'static str,
    sent: Mutex<Vec<(String, Option<String>)>>,
}

impl Scripted {
    fn new(status: StatusCode, body: &'static str) -> Arc<Self> {
        Arc::new(Self {
            status,
            body,
            sent: Mutex::default(),
        })
    }
}

#[async_trait]
impl HttpClient for Scripted {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let authorization = request.headers().get_optional_string(&AUTHORIZATION);
        self.sent
            .lock()
            .unwrap()
            .push((request.url().to_string(), authorization));
        let mut headers = Headers::new();
        headers.insert("etag", "W/\"new\"");
        Ok(AsyncRawResponse::from_bytes(
            self.status,
            headers,
            self.body,
        ))
    }
}

fn store(endpoint: &str, credential: &Arc<Credential>, server: &Arc<Scripted>) -> AzureTableStore {
    let credential = Arc::clone(credential) as Arc<dyn TokenCredential>;
    AzureTableStore::new(endpoint, credential, Some(sent_to(server))).unwrap()
}

fn sent_to(server: &Arc<Scripted>) -> AzureTableStoreOptions {
    let mut options = AzureTableStoreOptions::default();
    options.client_options.transport =
        Some(Transport::new(Arc::clone(server) as Arc<dyn HttpClient>));
    options
}

const ACCOUNT: &str = "https://acc.table.core.windows.net";

#[tokio::test]
async fn every_request_carries_a_token_for_the_service() {
    for (endpoint, scope) in [
        (
            "https://acc.table.core.windows.net",
            "https://storage.azure.com/.default",
        ),
        (
            "https://acc.table.cosmos.azure.com",
            "https://cosmos.azure.com/.default",
        ),
    ] {
        let (credential, server) = (
            Arc::new(Credential::default()),
            Scripted::new(StatusCode::NoContent, ""),
        );
        let store = store(endpoint, &credential, &server);
        for kind in [OperationKind::Insert, OperationKind::Delete] {
            run(&store, kind).await.unwrap();
        }
        assert_eq!(*credential.scopes.lock().unwrap(), [scope]);
        let sent = server.sent.lock().unwrap();
        assert_eq!(sent.len(), 2);
        for (url, authorization) in &*sent {
            assert!(url.starts_with(endpoint));
            assert_eq!(authorization.as_deref(), Some("Bearer se7en"));
        }
    }
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let credential = Arc::new(Credential {
        refuses: true,
        ..Credential::default()
    });
    let server = Scripted::new(StatusCode::NoContent, "");
    let store = store("https://acc.table.core.windows.net", &credential, &server);
    let error = run(&store, OperationKind::Insert).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unauthorized(_)),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!(server.sent.lock().unwrap().len(), 0);
}

/// The errors of a credential whose service of tokens is not reached or is busy, as `azure_identity` wraps them, and plain.
fn outages() -> Vec<azure_core::Error> {
    use azure_core::error::ErrorKind::{Connection, Credential, HttpResponse, Io};
    let busy = || HttpResponse {
        status: StatusCode::ServiceUnavailable,
        error_code: None,
        raw_response: None,
    };
    let plain =
        || [Connection, Io, busy()].map(|kind| azure_core::Error::with_message(kind, "an outage"));
    let wrapped = plain().map(|error| azure_core::Error::with_error(Credential, error, "no token"));
    plain().into_iter().chain(wrapped).collect()
}

#[tokio::test]
async fn an_outage_of_the_token_service_is_told_before_the_request_and_retried() {
    let cases = outages().into_iter().zip(outages());
    for (first, second) in cases {
        let server = Scripted::new(StatusCode::NoContent, "");
        let credential = Arc::new(Failing(Mutex::new(vec![Some(first), Some(second)])));
        let store = AzureTableStore::new(ACCOUNT, credential, Some(sent_to(&server))).unwrap();
        let error = run(&store, OperationKind::Insert).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Transport(_)) && error.is_transient(),
            "{error}"
        );
        assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
        assert_eq!(server.sent.lock().unwrap().len(), 0);
        let delay = std::time::Duration::from_millis(1);
        let policy = RetryPolicy::default().with_delays(delay, delay);
        let store = StoreBuilder::new(store).retry(policy).build();
        run(&*store, OperationKind::Insert).await.unwrap();
        assert_eq!(server.sent.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_credential_without_an_answer_leaves_a_write_unsent() {
    let server = Scripted::new(StatusCode::NoContent, "");
    let mut options = sent_to(&server);
    options.permit_timeout = std::time::Duration::from_millis(20);
    let store = AzureTableStore::new(
        ACCOUNT,
        Arc::new(Failing(Mutex::new(vec![None]))),
        Some(options),
    );
    let store = store.unwrap();
    let error = run(&store, OperationKind::Insert).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    run(&store, OperationKind::Insert).await.unwrap();
    assert_eq!(server.sent.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_refused_token_is_replaced() {
    let credential = Arc::new(Credential::default());
    let server = Scripted::new(StatusCode::Unauthorized, "");
    let store = store(ACCOUNT, &credential, &server);
    for tokens in 1..3 {
        let error = run(&store, OperationKind::Insert).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unauthorized(_)),
            "{error}"
        );
        assert_eq!(credential.scopes.lock().unwrap().len(), tokens);
    }
}

/// Simulates Microsoft Entra ID and the Table service; keeps URL, authorization and body of requests.
#[derive(Debug)]
struct Azure {
    token: (StatusCode, &'static str),
    sent: Mutex<Vec<(String, Option<String>, String)>>,
}

#[async_trait]
impl HttpClient for Azure {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let url = request.url().to_string();
        let Body::Bytes(body) = request.body() else {
            panic!("{url}: a stream")
        };
        let body = String::from_utf8(body.to_vec()).unwrap();
        let authorization = request.headers().get_optional_string(&AUTHORIZATION);
        self.sent
            .lock()
            .unwrap()
            .push((url.clone(), authorization, body));
        let mut headers = Headers::new();
        headers.insert("etag", "W/\"new\"");
        if url.starts_with("https://login.microsoftonline.com/") {
            return Ok(AsyncRawResponse::from_bytes(
                self.token.0,
                headers,
                self.token.1,
            ));
        }
        Ok(AsyncRawResponse::from_bytes(
            StatusCode::NoContent,
            headers,
            "",
        ))
    }
}

/// Returns a store with a credential of `azure_identity`, and the transport that answers both.
fn with_identity(status: StatusCode, token: &'static str) -> (AzureTableStore, Arc<Azure>) {
    let azure = Arc::new(Azure {
        token: (status, token),
        sent: Mutex::default(),
    });
    let transport = || Some(Transport::new(Arc::clone(&azure) as Arc<dyn HttpClient>));
    let mut of_identity = ClientSecretCredentialOptions::default();
    of_identity.client_options.transport = transport();
    let tenant = "00000000-0000-0000-0000-000000000007";
    let credential = ClientSecretCredential::new(
        tenant,
        "client".to_owned(),
        "pa55".into(),
        Some(of_identity),
    )
    .unwrap();
    let mut options = AzureTableStoreOptions::default();
    options.client_options.transport = transport();
    let store = AzureTableStore::new(
        "https://acc.table.core.windows.net",
        credential,
        Some(options),
    );
    (store.unwrap(), azure)
}

#[tokio::test]
async fn an_azure_identity_credential_requests_one_token_for_many_requests() {
    let token =
        r#"{"token_type":"Bearer","expires_in":3600,"ext_expires_in":3600,"access_token":"se7en"}"#;
    let (store, azure) = with_identity(StatusCode::Ok, token);
    for kind in [OperationKind::Insert, OperationKind::Delete] {
        run(&store, kind).await.unwrap();
    }
    let sent = azure.sent.lock().unwrap();
    assert!(sent[0].0.ends_with("/oauth2/v2.0/token"), "{sent:?}");
    assert!(
        sent[0]
            .2
            .contains("scope=https%3A%2F%2Fstorage.azure.com%2F.default"),
        "{sent:?}"
    );
    assert_eq!(sent.len(), 3);
    for (url, authorization, _) in &sent[1..] {
        assert!(
            url.starts_with("https://acc.table.core.windows.net/Orders"),
            "{url}"
        );
        assert_eq!(authorization.as_deref(), Some("Bearer se7en"));
    }
}

#[tokio::test]
async fn a_refused_azure_identity_credential_is_reported() {
    let refusal = r#"{"error":"invalid_client","error_description":"Invalid client secret.","error_codes":[7]}"#;
    let (store, azure) = with_identity(StatusCode::Unauthorized, refusal);
    let error = run(&store, OperationKind::Insert).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unauthorized(_)),
        "{error}"
    );
    assert!(
        error.to_string().contains("Invalid client secret"),
        "{error}"
    );
    assert!(!format!("{error} {error:?}").contains("pa55"), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let sent = azure.sent.lock().unwrap();
    assert!(
        sent.iter()
            .all(|(url, ..)| url.starts_with("https://login.")),
        "{sent:?}"
    );
}

#[test]
fn tokens_are_not_sent_over_http() {
    let credential: Arc<dyn TokenCredential> = Arc::new(Credential::default());
    assert!(AzureTableStore::new("http://127.0.0.1:1/acc", Arc::clone(&credential), None).is_err());
    for read_from in [ReadFrom::Primary, ReadFrom::Secondary] {
        let mut options = AzureTableStoreOptions::default();
        options.read_from = read_from;
        options.secondary_endpoint = Some("http://127.0.0.1:1/acc-secondary".to_owned());
        let error =
            AzureTableStore::new(ACCOUNT, Arc::clone(&credential), Some(options)).unwrap_err();
        assert!(error.to_string().contains("over https only"), "{error}");
    }
}

/// Over plain http to another machine. Requests signed by an account key and SAS are sent only if the host is
/// allowed or the key is an emulator's public key.
#[test]
fn secrets_are_not_sent_over_http() {
    let key = |key| SharedKey::new("acc", key).unwrap();
    let with = |hosts: &[&str]| {
        let mut options = AzureTableStoreOptions::default();
        options.plain_http_hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Some(options)
    };
    let url = "http://tables.example:10002/acc";
    let error = AzureTableStore::with_shared_key(url, key("a2V5"), None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("plain_http_hosts") && error.contains("tables.example"),
        "{error}"
    );
    assert!(AzureTableStore::with_shared_key(url, key("a2V5"), with(&["other"])).is_err());
    AzureTableStore::with_shared_key(url, key("a2V5"), with(&["tables.example"])).unwrap();
    let signed = format!("{url}?sv=1&sig=se7en");
    let error = AzureTableStore::with_sas(&signed, None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("plain_http_hosts") && !error.contains("se7en"),
        "{error}"
    );
    AzureTableStore::with_sas(&signed, with(&["tables.example"])).unwrap();
    for text in [
        "DefaultEndpointsProtocol=http;AccountName=acc;AccountKey=a2V5",
        "TableEndpoint=http://tables.example/acc;SharedAccessSignature=sig=se7en",
        "AccountName=acc;AccountKey=a2V5;TableEndpoint=https://acc;TableSecondaryEndpoint=http://acc-2",
    ] {
        let error = AzureTableStore::from_connection_string(text, None)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("plain_http_hosts") && !error.contains("se7en"),
            "{text}: {error}"
        );
    }
    let emulator = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite";
    AzureTableStore::from_connection_string(emulator, None).unwrap();
    let proxy = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://me:se7en@azurite";
    let error = AzureTableStore::from_connection_string(proxy, None)
        .unwrap_err()
        .to_string();
    assert!(!error.contains("se7en"), "{error}");
}

/// <https://learn.microsoft.com/azure/cosmos-db/emulator#authentication>
const COSMOS_EMULATOR: &str = "AccountName=localhost;AccountKey=\
    C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==;TableEndpoint=";

#[test]
fn the_cosmos_emulator_has_the_limits_of_cosmos() {
    for endpoint in [
        "http://localhost:8902/;",
        "https://localhost:8902/;",
        "http://cosmos:9000",
    ] {
        let text = format!("DefaultEndpointsProtocol=http;{COSMOS_EMULATOR}{endpoint}");
        let store = AzureTableStore::from_connection_string(&text, None).unwrap();
        assert_eq!(*store.profile(), ServiceProfile::COSMOS_TABLE, "{endpoint}");
        let mut options = AzureTableStoreOptions::default();
        options.service = Service::TableStorage;
        let default = AzureTableStore::from_connection_string(&text, Some(options)).unwrap();
        assert_eq!(
            *default.profile(),
            ServiceProfile::AZURE_TABLES,
            "{endpoint}"
        );
    }
    let store =
        AzureTableStore::from_connection_string("UseDevelopmentStorage=true", None).unwrap();
    assert_eq!(*store.profile(), ServiceProfile::AZURE_TABLES);
}

#[cfg(feature = "queue")]
mod queue {
    use std::time::Duration;

    use table_azure::queue::{AzureWorkQueue, AzureWorkQueueOptions};
    use table_core::queue::WorkQueue;

    use super::*;

    const PEEKED: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage>\
        <MessageId>7</MessageId><InsertionTime>Fri, 09 Oct 2009 21:04:30 GMT</InsertionTime>\
        <ExpirationTime>Fri, 16 Oct 2009 21:04:30 GMT</ExpirationTime><DequeueCount>0</DequeueCount>\
        <MessageText>b25l</MessageText></QueueMessage></QueueMessagesList>";

    fn queue(credential: &Arc<Credential>, server: &Arc<Scripted>) -> AzureWorkQueue {
        let transport = Some(Transport::new(Arc::clone(server) as Arc<dyn HttpClient>));
        let credential = Arc::clone(credential) as Arc<dyn TokenCredential>;
        let mut options = AzureWorkQueueOptions::default();
        options.client_options.transport = transport;
        AzureWorkQueue::new(
            "https://acc.queue.core.windows.net/jobs",
            credential,
            Some(options),
        )
        .unwrap()
    }

    #[tokio::test]
    async fn every_queue_request_carries_a_token() {
        let (credential, server) = (
            Arc::new(Credential::default()),
            Scripted::new(StatusCode::Ok, PEEKED),
        );
        let seen = queue(&credential, &server).peek(1).await.unwrap();
        assert_eq!(seen[0].id.as_str(), "7");
        assert_eq!(seen[0].body.as_str(), "one");
        assert_eq!(
            *credential.scopes.lock().unwrap(),
            ["https://storage.azure.com/.default"]
        );
        let sent = server.sent.lock().unwrap();
        assert!(
            sent[0]
                .0
                .starts_with("https://acc.queue.core.windows.net/jobs/messages?"),
            "{sent:?}"
        );
        assert_eq!(sent[0].1.as_deref(), Some("Bearer se7en"));
    }

    #[tokio::test]
    async fn creating_an_existing_queue_succeeds() {
        let body =
            "<Error><Code>QueueAlreadyExists</Code><Message>with other metadata</Message></Error>";
        let (credential, server) = (
            Arc::new(Credential::default()),
            Scripted::new(StatusCode::Conflict, body),
        );
        queue(&credential, &server)
            .create_if_missing()
            .await
            .unwrap();
        let body = "<Error><Code>QueueBeingDeleted</Code><Message>wait</Message></Error>";
        let server = Scripted::new(StatusCode::Conflict, body);
        assert!(
            queue(&credential, &server)
                .create_if_missing()
                .await
                .is_err()
        );
    }

    /// A transport that never answers.
    #[derive(Debug)]
    struct Silence;

    #[async_trait]
    impl HttpClient for Silence {
        async fn execute_request(&self, _: &Request) -> azure_core::Result<AsyncRawResponse> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn a_send_without_an_answer_in_time_is_ambiguous() {
        let transport = Some(Transport::new(Arc::new(Silence)));
        let mut options = AzureWorkQueueOptions::default();
        options.client_options.transport = transport;
        let url = "https://acc.queue.core.windows.net/jobs?sig=x";
        let queue = AzureWorkQueue::with_sas(url, Some(options)).unwrap();
        let queue = queue.with_request_timeout(Duration::from_millis(20));
        let error = queue.send("one", Duration::ZERO).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Timeout { .. }), "{error}");
        assert_eq!(error.outcome(), Outcome::Ambiguous);
        assert_eq!(
            queue.peek(1).await.unwrap_err().outcome(),
            Outcome::NotApplied
        );
    }

    #[test]
    fn secrets_are_not_sent_over_http() {
        let key = || SharedKey::new("acc", "a2V5").unwrap();
        let url = "http://queues.example/acc/jobs";
        let signed = format!("{url}?sig=se7en");
        for refused in [
            AzureWorkQueue::with_shared_key(url, key(), None),
            AzureWorkQueue::with_sas(&signed, None),
            AzureWorkQueue::with_sas("https://me:se7en@queues.example/acc/jobs?sig=x", None),
            AzureWorkQueue::with_sas("https://me:se7en@/jobs?sig=se7en", None),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(!error.contains("se7en"), "{error}");
        }
        let mut options = AzureWorkQueueOptions::default();
        options.plain_http_hosts.push("queues.example".to_owned());
        AzureWorkQueue::with_shared_key(url, key(), Some(options.clone())).unwrap();
        AzureWorkQueue::with_sas(&signed, Some(options)).unwrap();
        AzureWorkQueue::from_connection_string("UseDevelopmentStorage=true", "jobs", None).unwrap();
    }
}
