//! Stored access policies, properties and statistics of the Table service, and the tenant of an account.

mod tenant;

use azure_core::http::Method;
use chrono::{DateTime, NaiveDate, NaiveTime, SecondsFormat, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use table_core::model::TableName;
use table_core::store::ErrorKind;
use table_core::{Error, Result};

use crate::AzureTableStore;
use crate::rest::{Answer, Call, Client, Subject, outermost};
use crate::sas::TablePermissions;

pub use tenant::{Tenant, discover_tenant};

const XML: &str = "application/xml";

impl Client {
    /// Fails on Cosmos DB, which has none of these calls.
    fn require_table_storage(&self, feature: &str) -> Result<()> {
        if !self.endpoint.cosmos {
            return Ok(());
        }
        Err(Error::unsupported(self.profile.name, feature))
    }
}

/// Creates a call that reads an XML document.
fn get_xml<'a>(name: &'static str, subject: Subject<'a>, url: azure_core::http::Url) -> Call<'a> {
    Call::named(name, subject, Method::Get, url, &[200]).header("accept", XML)
}

/// Creates a call that stores an XML document. `expected` is the status of success, which differs between the documents.
fn put_xml<'a>(
    name: &'static str,
    subject: Subject<'a>,
    url: azure_core::http::Url,
    expected: &'static [u16],
    body: Vec<u8>,
) -> Call<'a> {
    Call::named(name, subject, Method::Put, url, expected).header("accept", XML).body(XML, body)
}

/// Parses an answer. Its root element must have the expected name: every field is optional, so any other XML,
/// such as a page of a proxy, would parse as "nothing is set".
fn from_xml<T: DeserializeOwned>(answer: &Answer, root: &str) -> Result<T> {
    let unreadable = || answer.explain(ErrorKind::Service("the answer is not valid XML".to_owned()).into());
    if outermost(&answer.body) != Some(root.as_bytes()) {
        return Err(unreadable().with_source(format!("the root element is not {root}")));
    }
    azure_core::xml::from_xml(&answer.body).map_err(|e| unreadable().with_source(e))
}

fn to_xml<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let xml = azure_core::xml::to_xml(value);
    xml.map(Into::into)
        .map_err(|e| Error::invalid_request("the value cannot be written as XML").with_source(e))
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
        Rules { rules: rules.iter().flatten().collect() }.serialize(serializer)
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
        let url =
            client.endpoint.write_to("").with("restype", "service").with("comp", "properties").into_url();
        let answer = client.send(get_xml("service_properties", Subject::Service, url)).await?;
        from_xml(&answer, "StorageServiceProperties")
    }

    /// Sets the service's properties. 1 request. Azure Table Storage only.
    ///
    /// # Errors
    /// Fails with the service's errors.
    pub async fn set_service_properties(&self, properties: &ServiceProperties) -> Result<()> {
        let client = self.client();
        client.require_table_storage(PROPERTIES)?;
        let url =
            client.endpoint.write_to("").with("restype", "service").with("comp", "properties").into_url();
        let call = put_xml("set_service_properties", Subject::Service, url, &[202], to_xml(properties)?);
        client.send(call).await.map(drop)
    }
}

const PROPERTIES: &str = "service properties";

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
    #[serde(rename = "IncludeAPIs", skip_serializing_if = "Option::is_none", default)]
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
        let url = address.with("restype", "service").with("comp", "stats").into_url();
        let answer = client.send(get_xml("geo_replication", Subject::Service, url)).await?;
        let Geo { status, last_sync_time } =
            from_xml::<Statistics>(&answer, "StorageServiceStats")?.geo_replication;
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
    parsed
        .map_err(|_| ErrorKind::Service(format!("the time of the last sync cannot be read: {time:?}")).into())
}

/// A named set of permissions that is stored with a table. Signatures refer to it by name: changing or
/// removing the policy changes or revokes all of them.
///
/// A signature sets the values that the policy omits. The service refuses a signature that sets a value which
/// the policy has too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPolicy {
    /// The name, at most 64 characters.
    pub id: String,
    /// Start of validity; `None` leaves it to the signature.
    pub start: Option<DateTime<Utc>>,
    /// End of validity; `None` leaves it to the signature.
    pub expiry: Option<DateTime<Utc>>,
    /// The permissions; [`TablePermissions::NONE`] leaves them to the signature.
    pub permissions: TablePermissions,
}

impl AzureTableStore {
    /// Returns the access policies stored with a table. 1 request. Azure Table Storage only.
    ///
    /// # Errors
    /// Fails with the service's errors.
    pub async fn stored_policies(&self, table: &TableName) -> Result<Vec<StoredPolicy>> {
        let client = self.client();
        client.require_table_storage(STORED_POLICIES)?;
        let url = client.endpoint.write_to(table.as_str()).with("comp", "acl").into_url();
        let answer = client.send(get_xml("stored_policies", Subject::Table(table), url)).await?;
        from_xml::<Identifiers>(&answer, "SignedIdentifiers")?
            .policies
            .into_iter()
            .map(Identifier::into_policy)
            .collect()
    }

    /// Replaces the access policies stored with a table, at most five. They take effect within 30 seconds. 1
    /// request. Azure Table Storage only.
    ///
    /// # Errors
    /// Fails if there are more than five policies or if a name is too long, and with the service's errors.
    pub async fn set_stored_policies(&self, table: &TableName, policies: &[StoredPolicy]) -> Result<()> {
        let client = self.client();
        client.require_table_storage(STORED_POLICIES)?;
        check_policies(policies)?;
        let url = client.endpoint.write_to(table.as_str()).with("comp", "acl").into_url();
        let body = to_xml(&Identifiers { policies: policies.iter().map(Identifier::from_policy).collect() })?;
        client.send(put_xml("set_stored_policies", Subject::Table(table), url, &[204], body)).await.map(drop)
    }
}

const STORED_POLICIES: &str = "stored access policies";

/// The limits of <https://learn.microsoft.com/rest/api/storageservices/define-stored-access-policy>.
const MAX_POLICIES: usize = 5;
const MAX_ID_CHARS: usize = 64;

fn check_policies(policies: &[StoredPolicy]) -> Result<()> {
    if policies.len() > MAX_POLICIES {
        return Err(Error::limit("stored access policies of a table", MAX_POLICIES, policies.len()));
    }
    let longest = policies.iter().map(|policy| policy.id.chars().count()).max().unwrap_or_default();
    if longest > MAX_ID_CHARS {
        return Err(Error::limit("characters of a stored access policy's name", MAX_ID_CHARS, longest));
    }
    Ok(())
}

/// The policies of a table in XML: <https://learn.microsoft.com/rest/api/storageservices/set-table-acl#request-body>.
#[derive(Serialize, Deserialize)]
#[serde(rename = "SignedIdentifiers")]
struct Identifiers {
    #[serde(rename = "SignedIdentifier", default)]
    policies: Vec<Identifier>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Identifier {
    id: String,
    #[serde(default)]
    access_policy: AccessPolicy,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct AccessPolicy {
    #[serde(skip_serializing_if = "String::is_empty")]
    start: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    expiry: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    permission: String,
}

impl Identifier {
    fn from_policy(policy: &StoredPolicy) -> Self {
        // The service documents up to seven decimals; `chrono` writes three, six or nine.
        let time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Micros, true);
        let access_policy = AccessPolicy {
            start: policy.start.map(time).unwrap_or_default(),
            expiry: policy.expiry.map(time).unwrap_or_default(),
            permission: policy.permissions.to_string(),
        };
        Self { id: policy.id.clone(), access_policy }
    }

    fn into_policy(self) -> Result<StoredPolicy> {
        let AccessPolicy { start, expiry, permission } = self.access_policy;
        let unreadable = |field: &str, text: &str| {
            ErrorKind::Service(format!("the {field} of policy {:?} cannot be read: {text:?}", self.id))
        };
        Ok(StoredPolicy {
            start: parse_time(&start).map_err(|()| unreadable("Start", &start))?,
            expiry: parse_time(&expiry).map_err(|()| unreadable("Expiry", &expiry))?,
            permissions: permission.parse().map_err(|_| unreadable("Permission", &permission))?,
            id: self.id,
        })
    }
}

/// Parses the documented forms of a time: a date, optionally with the time to the minute, second or fraction.
///
/// <https://learn.microsoft.com/rest/api/storageservices/formatting-datetime-values>
fn parse_time(text: &str) -> Result<Option<DateTime<Utc>>, ()> {
    if text.is_empty() {
        return Ok(None);
    }
    let to_the_second = || DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc());
    let to_the_minute = || DateTime::parse_from_str(text, "%Y-%m-%dT%H:%M%#z").ok().map(|time| time.to_utc());
    let to_the_day = || text.parse::<NaiveDate>().ok().map(|day| day.and_time(NaiveTime::MIN).and_utc());
    to_the_second().or_else(to_the_minute).or_else(to_the_day).map(Some).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(policy: &StoredPolicy) -> String {
        let xml = to_xml(&Identifiers { policies: vec![Identifier::from_policy(policy)] }).unwrap();
        String::from_utf8(xml).unwrap()
    }

    fn read(xml: &str) -> Result<StoredPolicy> {
        let read: Identifiers = azure_core::xml::from_xml(xml.as_bytes()).unwrap();
        read.policies.into_iter().next().unwrap().into_policy()
    }

    #[test]
    fn policies_are_written_as_documented_and_read_back() {
        let policy = StoredPolicy {
            id: "readers & writers".to_owned(),
            start: Some("2013-08-16T00:00:00Z".parse().unwrap()),
            expiry: None,
            permissions: TablePermissions::READ | TablePermissions::ADD,
        };
        let xml = written(&policy);
        assert_eq!(
            xml,
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers><SignedIdentifier>\
            <Id>readers &amp; writers</Id><AccessPolicy><Start>2013-08-16T00:00:00.000000Z</Start>\
            <Permission>ra</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        );
        assert_eq!(read(&xml).unwrap(), policy);
    }

    #[test]
    fn omitted_values_of_a_policy_stay_omitted() {
        let policy = StoredPolicy {
            id: "x".to_owned(),
            start: None,
            expiry: None,
            permissions: TablePermissions::NONE,
        };
        let xml = written(&policy);
        assert!(!["Start", "Expiry", "Permission"].iter().any(|field| xml.contains(field)), "{xml}");
        assert_eq!(read(&xml).unwrap(), policy);
        let bare = "<SignedIdentifiers><SignedIdentifier><Id>x</Id></SignedIdentifier></SignedIdentifiers>";
        assert_eq!(read(bare).unwrap(), policy);
    }

    #[test]
    fn only_the_documented_forms_of_a_time_are_read() {
        let with = |expiry: &str| {
            read(&format!(
                "<SignedIdentifiers><SignedIdentifier><Id>x</Id><AccessPolicy><Expiry>{expiry}</Expiry>\
                </AccessPolicy></SignedIdentifier></SignedIdentifiers>"
            ))
        };
        for (text, expected) in [
            ("2025-01-02", "2025-01-02T00:00:00Z"),
            ("2025-01-02T10:30Z", "2025-01-02T10:30:00Z"),
            ("2025-01-02T10:30+02:00", "2025-01-02T08:30:00Z"),
            ("2025-01-02T10:30:05Z", "2025-01-02T10:30:05Z"),
            ("2025-01-02T10:30:05.1234567Z", "2025-01-02T10:30:05.1234567Z"),
            ("2025-01-02T10:30:05-01:00", "2025-01-02T11:30:05Z"),
        ] {
            assert_eq!(with(text).unwrap().expiry, Some(expected.parse().unwrap()), "{text}");
        }
        for text in ["soon", "2025-13-01", "2025-01-02T10:30", "2025-01-02T25:00Z"] {
            let error = with(text).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Service(_)), "{text}: {error}");
            assert!(error.to_string().contains("Expiry"), "{error}");
        }
    }

    #[test]
    fn too_many_policies_and_too_long_names_are_refused() {
        let policy = |id: &str| StoredPolicy {
            id: id.to_owned(),
            start: None,
            expiry: None,
            permissions: TablePermissions::READ,
        };
        assert!(check_policies(&[policy(&"x".repeat(64))]).is_ok());
        assert!(check_policies(&[policy(&"x".repeat(65))]).unwrap_err().is_limit_exceeded());
        assert!(check_policies(&vec![policy("x"); 6]).unwrap_err().is_limit_exceeded());
    }
}
