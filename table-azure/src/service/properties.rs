use serde::{Deserialize, Serialize};
use table_core::Result;

use super::{Logging, Metrics, from_xml, get, put, to_xml};
use crate::AzureTableStore;
use crate::rest::Subject;

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

/// `<Cors><CorsRule>…</CorsRule>…</Cors>`.
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
        client.only_storage(NAME)?;
        let url =
            client.endpoint.write_to("").with("restype", "service").with("comp", "properties").into_url();
        let answer = client.send(get("service_properties", Subject::Service, url)).await?;
        from_xml(&answer, "StorageServiceProperties")
    }

    /// Sets the service's properties. 1 request. Azure Table Storage only.
    ///
    /// # Errors
    /// Fails with the service's errors.
    pub async fn set_service_properties(&self, properties: &ServiceProperties) -> Result<()> {
        let client = self.client();
        client.only_storage(NAME)?;
        let url =
            client.endpoint.write_to("").with("restype", "service").with("comp", "properties").into_url();
        let call = put("set_service_properties", Subject::Service, url, &[202], to_xml(properties)?);
        client.send(call).await.map(drop)
    }
}

const NAME: &str = "service properties";
