//! The Table service of an account: its properties and statistics, the stored access policies of its tables, and its tenant.

mod policies;
mod tenant;

use azure_core::http::{Method, Url};
use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use table_core::store::ErrorKind;
use table_core::{Error, Result};

use crate::AzureTableStore;
use crate::rest::{Answer, Call, Client, Subject, outermost};

pub use policies::StoredPolicy;
pub use tenant::{Tenant, discover_tenant};

const XML: &str = "application/xml";

impl Client {
    /// Fails on Cosmos DB, which has none of these calls.
    fn require_table_storage(&self, feature: &str) -> Result<()> {
        if !self.endpoint.is_cosmos {
            return Ok(());
        }
        Err(Error::unsupported(self.profile.name, feature))
    }
}

/// Creates a call that reads an XML document.
fn get_xml<'a>(name: &'static str, subject: Subject<'a>, url: Url) -> Call<'a> {
    Call::named(name, subject, Method::Get, url, &[200]).header("accept", XML)
}

/// Creates a call that stores an XML document. `expected` is the status of success, which differs between the documents.
fn put_xml<'a>(
    name: &'static str,
    subject: Subject<'a>,
    url: Url,
    expected: &'static [u16],
    body: Vec<u8>,
) -> Call<'a> {
    Call::named(name, subject, Method::Put, url, expected)
        .header("accept", XML)
        .body(XML, body)
}

/// Parses an answer. Its root element must have the expected name: every field is optional, so any other XML,
/// such as a page of a proxy, would parse as "nothing is set".
fn from_xml<T: DeserializeOwned>(answer: &Answer, root: &str) -> Result<T> {
    let unreadable =
        || answer.explain(ErrorKind::Service("the answer is not valid XML".to_owned()).into());
    if outermost(&answer.body) != Some(root.as_bytes()) {
        return Err(unreadable().with_source(format!("the root element is not {root}")));
    }
    azure_core::xml::from_xml(&answer.body).map_err(|e| unreadable().with_source(e))
}

fn to_xml<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let xml = azure_core::xml::to_xml(value);
    xml.map(Into::into)
        .map_err(|e| Error::invalid_argument("the value cannot be written as XML").with_source(e))
}

/// Logging, metrics and cross-origin rules of an account's Table service.
///
/// Setting a field to `None` leaves the stored value unchanged.
///
/// <https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties>
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "StorageServiceProperties", rename_all = "PascalCase")]
pub struct ServiceProperties {
    /// Which requests are logged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub logging: Option<Logging>,
    /// Metrics by the hour.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hour_metrics: Option<Metrics>,
    /// Metrics by the minute.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub minute_metrics: Option<Metrics>,
    /// Rules for web pages of other origins. An empty list removes all rules.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "rules")]
    pub cors: Option<Vec<CorsRule>>,
}

/// A rule for web pages of other origins. Each list is separated by commas, or is `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CorsRule {
    /// Origins.
    pub allowed_origins: String,
    /// Methods.
    pub allowed_methods: String,
    /// Seconds that a browser may cache the answer to a preflight request.
    pub max_age_in_seconds: u32,
    /// Response headers that web pages may read.
    pub exposed_headers: String,
    /// Request headers that web pages may set.
    pub allowed_headers: String,
}

/// The XML form `<Cors><CorsRule>…</CorsRule>…</Cors>`. serde alone would write the list as repeated
/// elements without the element `Cors` around them.
mod rules {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::CorsRule;

    #[derive(Serialize, Deserialize)]
    struct Rules<T> {
        #[serde(rename = "CorsRule", default = "Vec::new")]
        rules: Vec<T>,
    }

    pub(super) fn serialize<S: Serializer>(
        rules: &Option<Vec<CorsRule>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Rules {
            rules: rules.iter().flatten().collect(),
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<CorsRule>>, D::Error> {
        Rules::deserialize(deserializer).map(|r| Some(r.rules))
    }
}

impl AzureTableStore {
    /// Returns the service's properties. 1 request. Azure Table Storage only.
    ///
    /// # Errors
    /// Fails with the service's errors.
    pub async fn service_properties(&self) -> Result<ServiceProperties> {
        let client = self.client();
        client.require_table_storage(PROPERTIES)?;
        let url = properties_url(client);
        let answer = client
            .send(get_xml("service_properties", Subject::Service, url))
            .await?;
        from_xml(&answer, "StorageServiceProperties")
    }

    /// Sets the service's properties. 1 request. Azure Table Storage only.
    ///
    /// # Errors
    /// Fails with the service's errors.
    pub async fn set_service_properties(&self, properties: &ServiceProperties) -> Result<()> {
        let client = self.client();
        client.require_table_storage(PROPERTIES)?;
        let url = properties_url(client);
        let call = put_xml(
            "set_service_properties",
            Subject::Service,
            url,
            &[202],
            to_xml(properties)?,
        );
        client.send(call).await.map(drop)
    }
}

const PROPERTIES: &str = "service properties";

fn properties_url(client: &Client) -> Url {
    let address = client.endpoint.write_to("").with("restype", "service");
    address.with("comp", "properties").into_url()
}

/// How long logs and metrics are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Retention {
    /// Whether logs and metrics are deleted after [`days`](Self::days). Otherwise the service keeps them.
    pub enabled: bool,
    /// The number of days, 1 to 365.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub days: Option<u16>,
}

/// Which requests are logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Logging {
    /// The version of the analytics, `1.0`.
    pub version: String,
    /// Deletions.
    pub delete: bool,
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// How long logs are kept.
    #[serde(rename = "RetentionPolicy")]
    pub retention: Retention,
}

/// Which metrics are recorded, by the hour or the minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Metrics {
    /// The version of the analytics, `1.0`.
    pub version: String,
    /// Whether metrics are recorded.
    pub enabled: bool,
    /// Whether each operation has its own metrics; only if metrics are enabled.
    #[serde(
        rename = "IncludeAPIs",
        skip_serializing_if = "Option::is_none",
        default
    )]
    pub include_apis: Option<bool>,
    /// How long the metrics are kept.
    #[serde(rename = "RetentionPolicy")]
    pub retention: Retention,
}

/// The replication state of the read-only copy of a geo-redundant account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeoReplication {
    /// Whether the copy is available and up to date.
    pub status: ReplicationStatus,
    /// All writes before this time can be read from the copy; `None` if the service does not know.
    pub last_sync: Option<DateTime<Utc>>,
}

/// The state of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicationStatus {
    /// The copy follows the primary.
    Live,
    /// The copy is being created.
    Bootstrap,
    /// The copy cannot be reached.
    Unavailable,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statistics {
    geo_replication: Geo,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Geo {
    status: ReplicationStatus,
    #[serde(default)]
    last_sync_time: String,
}

impl AzureTableStore {
    /// Returns the replication state of the account's copy. 1 request, to the secondary endpoint. Only for
    /// Azure Table Storage accounts with a readable copy.
    ///
    /// # Errors
    /// Fails with the service's errors.
    pub async fn geo_replication(&self) -> Result<GeoReplication> {
        let client = self.client();
        client.require_table_storage("service statistics")?;
        let address = client.endpoint.secondary()?;
        let url = address
            .with("restype", "service")
            .with("comp", "stats")
            .into_url();
        let answer = client
            .send(get_xml("geo_replication", Subject::Service, url))
            .await?;
        let Geo {
            status,
            last_sync_time,
        } = from_xml::<Statistics>(&answer, "StorageServiceStats")?.geo_replication;
        let last_sync = parse_last_sync(&last_sync_time)?;
        Ok(GeoReplication { status, last_sync })
    }
}

/// Parses the time of the last sync, which is an HTTP date. The element is empty while the service does not know the time
/// (<https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats#response-body>).
fn parse_last_sync(time: &str) -> Result<Option<DateTime<Utc>>> {
    if time.is_empty() {
        return Ok(None);
    }
    let parsed = DateTime::parse_from_rfc2822(time).map(|time| Some(time.to_utc()));
    parsed.map_err(|_| {
        ErrorKind::Service(format!(
            "the time of the last sync cannot be read: {time:?}"
        ))
        .into()
    })
}
