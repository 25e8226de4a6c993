//! Calls about the account: the form of each request and the result of its answers.

use std::time::Duration;

use table_azure::sas::TablePermissions;
use table_azure::service::{ServiceProperties, StoredPolicy};
use table_azure::{AzureTableStore, AzureTableStoreOptions, Service};
use table_core::Result;
use table_core::store::{ErrorKind, Outcome};

use super::server::{Answer, Server, answer, cut_off};
use super::{requests, store, store_with, table};

/// The calls that are not part of `TableStore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Policies,
    SetPolicies,
    Properties,
    SetProperties,
    Statistics,
}

use Call::{Policies, Properties, SetPolicies, SetProperties, Statistics};

const CALLS: [Call; 5] = [Policies, SetPolicies, Properties, SetProperties, Statistics];

impl Call {
    async fn run(self, store: &AzureTableStore) -> Result<()> {
        let policy = StoredPolicy {
            id: "readers".to_owned(),
            start: None,
            expiry: Some("2113-01-01T00:00:00Z".parse().unwrap()),
            permissions: TablePermissions::READ,
        };
        let properties = ServiceProperties {
            cors: Some(Vec::new()),
            ..ServiceProperties::default()
        };
        match self {
            Self::Policies => store.stored_policies(&table()).await.map(drop),
            Self::SetPolicies => store.set_stored_policies(&table(), &[policy]).await,
            Self::Properties => store.service_properties().await.map(drop),
            Self::SetProperties => store.set_service_properties(&properties).await,
            Self::Statistics => store.geo_replication().await.map(drop),
        }
    }

    fn writes(self) -> bool {
        matches!(self, SetPolicies | SetProperties)
    }

    /// The outcome after a failed exchange.
    fn unknown(self) -> Outcome {
        if self.writes() {
            Outcome::Ambiguous
        } else {
            Outcome::NotApplied
        }
    }
}

const POLICIES: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers><SignedIdentifier>\
    <Id>readers</Id><AccessPolicy><Expiry>2113-01-01T00:00:00.000000Z</Expiry><Permission>r</Permission>\
    </AccessPolicy></SignedIdentifier></SignedIdentifiers>";
const PROPERTIES: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Cors/>\
    </StorageServiceProperties>";

/// <https://learn.microsoft.com/rest/api/storageservices/operations-on-the-account--table-service->,
/// <https://learn.microsoft.com/rest/api/storageservices/set-table-acl>
#[tokio::test]
async fn each_call_is_one_signed_request_of_its_documented_form() {
    let account = "?restype=service&comp=properties HTTP/1.1";
    for (call, line, comp, body) in [
        (
            Policies,
            "GET /acc/Orders?comp=acl HTTP/1.1".to_owned(),
            "acl",
            "",
        ),
        (
            SetPolicies,
            "PUT /acc/Orders?comp=acl HTTP/1.1".to_owned(),
            "acl",
            POLICIES,
        ),
        (Properties, format!("GET /acc/{account}"), "properties", ""),
        (
            SetProperties,
            format!("PUT /acc/{account}"),
            "properties",
            PROPERTIES,
        ),
        (
            Statistics,
            "GET /acc-secondary/?restype=service&comp=stats HTTP/1.1".to_owned(),
            "stats",
            "",
        ),
    ] {
        let server = Server::start([answer("418 I'm a teapot", &[], "")]).await;
        call.run(&store(&server)).await.unwrap_err();
        let asked = server.only();
        assert_eq!(asked.line, line, "{call:?}");
        assert_eq!(asked.body, body, "{call:?}");
        assert_eq!(asked.header("accept"), Some("application/xml"), "{call:?}");
        assert_eq!(
            asked.header("content-type"),
            call.writes().then_some("application/xml"),
            "{call:?}"
        );
        let expected = requests::authorization(&asked, Some(comp));
        assert_eq!(
            asked.header("authorization"),
            Some(expected.as_str()),
            "{call:?}"
        );
    }
}

#[tokio::test]
async fn a_failed_exchange_makes_a_set_call_ambiguous() {
    for call in CALLS {
        for wrong in [
            Answer::Lost,
            cut_off("200 OK", &[], "<?xml"),
            answer("500 Oops", &[], "<html>"),
        ] {
            let server = Server::start([wrong]).await;
            let error = call.run(&store(&server)).await.unwrap_err();
            assert!(error.is_transient(), "{call:?}: {error}");
            assert_eq!(error.outcome(), call.unknown(), "{call:?}: {error}");
            server.only();
        }
    }
}

#[tokio::test]
async fn retry_after_of_a_busy_service_is_reported() {
    let body =
        "<?xml version=\"1.0\"?><Error><Code>ServerBusy</Code><Message>Busy.</Message></Error>";
    for call in CALLS {
        let server =
            Server::start([answer("503 Server Busy", &[("Retry-After", "7")], body)]).await;
        let error = call.run(&store(&server)).await.unwrap_err();
        let after = Some(Duration::from_secs(7));
        let throttled =
            matches!(error.kind(), ErrorKind::Throttled { retry_after } if *retry_after == after);
        assert!(throttled, "{call:?}: {error}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{call:?}");
        server.only();
    }
}

/// A page of another server must not be read as "nothing is set", because callers write back what they read.
#[tokio::test]
async fn an_answer_that_is_not_the_services_xml_is_refused() {
    let rubbish = [
        "",
        "<",
        "{}",
        "<html></html>",
        "<Error><Code>x</Code></Error>",
        "\u{0}",
        "<?xml?>",
    ];
    for call in CALLS.into_iter().filter(|call| !call.writes()) {
        for body in rubbish {
            let server =
                Server::start([answer("200 OK", &[("content-type", "text/html")], body)]).await;
            let error = call.run(&store(&server)).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Service(_)),
                "{call:?} {body:?}: {error}"
            );
            assert_eq!(error.outcome(), Outcome::NotApplied, "{call:?} {body:?}");
        }
    }
}

#[tokio::test]
async fn calls_that_cosmos_does_not_have_are_not_sent() {
    let server = Server::start([answer("200 OK", &[], "")]).await;
    let mut options = AzureTableStoreOptions::default();
    options.service = Service::CosmosDb;
    let store = store_with(&server, options);
    for call in CALLS {
        let error = call.run(&store).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported { .. }),
            "{call:?}: {error}"
        );
    }
    assert!(server.asked().is_empty());
}
