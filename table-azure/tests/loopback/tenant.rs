//! The tenant of an account, from the challenge of the service. The tests use a transport of their own, because the request is sent
//! over https only.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use azure_core::http::headers::{AUTHORIZATION, Headers};
use azure_core::http::{AsyncRawResponse, HttpClient, Request, Transport};
use table_azure::service::{Tenant, discover_tenant};
use table_azure::{AzureTableStoreOptions, ReadFrom};
use table_core::store::{ErrorKind, Outcome, Result};

/// A service that answers with this status and challenge, and keeps the lines of the requests.
#[derive(Debug)]
struct Service {
    status: u16,
    challenge: Option<&'static str>,
    asked: Mutex<Vec<(String, Option<String>)>>,
}

#[async_trait]
impl HttpClient for Service {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let authorization = request.headers().get_optional_string(&AUTHORIZATION);
        self.asked.lock().unwrap().push((
            format!("{} {}", request.method(), request.url()),
            authorization,
        ));
        let mut headers = Headers::new();
        if let Some(challenge) = self.challenge {
            headers.insert("www-authenticate", challenge);
        }
        Ok(AsyncRawResponse::from_bytes(
            self.status.into(),
            headers,
            "",
        ))
    }
}

const ACCOUNT: &str = "https://acc.table.core.windows.net";
const CHALLENGE: &str = "Bearer authorization_uri=https://login.microsoftonline.com/72f988bf/oauth2/authorize \
                         resource_id=https://storage.azure.com";

fn service(status: u16, challenge: Option<&'static str>) -> Arc<Service> {
    Arc::new(Service {
        status,
        challenge,
        asked: Mutex::default(),
    })
}

fn sent_to(service: &Arc<Service>) -> AzureTableStoreOptions {
    let mut options = AzureTableStoreOptions::default();
    options.client_options.transport =
        Some(Transport::new(Arc::clone(service) as Arc<dyn HttpClient>));
    options
}

async fn tenant(service: &Arc<Service>) -> Result<Tenant> {
    discover_tenant(ACCOUNT, Some(sent_to(service))).await
}

#[tokio::test]
async fn the_tenant_is_read_from_the_challenge_to_one_request_without_a_token() {
    let service = service(401, Some(CHALLENGE));
    let tenant = tenant(&service).await.unwrap();
    assert_eq!(tenant.id, "72f988bf");
    assert_eq!(tenant.authority_host, "https://login.microsoftonline.com");
    assert_eq!(
        tenant.resource.as_deref(),
        Some("https://storage.azure.com")
    );
    let line = format!("GET {ACCOUNT}/Tables?$top=1");
    assert_eq!(
        *service.asked.lock().unwrap(),
        [(line.clone(), Some("Bearer".to_owned()))]
    );
}

#[tokio::test]
async fn an_answer_without_a_tenant_is_an_error() {
    // A success and a busy service are not challenges, whatever their headers say.
    for (status, challenge, transient) in [
        (401, None, false),
        (401, Some("Basic realm=\"proxy\""), false),
        (200, Some(CHALLENGE), false),
        (503, Some(CHALLENGE), true),
    ] {
        let service = service(status, challenge);
        let error = tenant(&service).await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{status}: {error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert_eq!(service.asked.lock().unwrap().len(), 1, "{status}");
    }
    let error = tenant(&service(401, None)).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Service(text) if text.contains("names no tenant")),
        "{error}"
    );
}

#[tokio::test]
async fn nothing_is_sent_over_plain_http() {
    let service = service(401, Some(CHALLENGE));
    let error = discover_tenant("http://127.0.0.1:10002/acc", Some(sent_to(&service)))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("over https only"), "{error}");
    let mut options = sent_to(&service);
    options.read_from = ReadFrom::Secondary;
    options.secondary_endpoint = Some("http://acc-secondary.table.core.windows.net".to_owned());
    let error = discover_tenant(ACCOUNT, Some(options)).await.unwrap_err();
    assert!(error.to_string().contains("over https only"), "{error}");
    assert!(service.asked.lock().unwrap().is_empty());
}
