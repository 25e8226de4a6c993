//! The account's properties and replication statistics: `?restype=service`.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties>,
//! <https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats>

use chrono::Utc;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::cors::{self, CorsRule};
use crate::errors::{Failure, Result};
use crate::settings::Setting;
use crate::tenant::Tenant;
use crate::xml;

/// The properties that can be set. Setting a field to `None` leaves the stored value unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename = "StorageServiceProperties",
    rename_all = "PascalCase",
    default
)]
pub(crate) struct Properties {
    #[serde(skip_serializing_if = "Option::is_none")]
    logging: Option<Logging>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hour_metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minute_metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cors: Option<Rules>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Rules {
    #[serde(rename = "CorsRule", default)]
    rules: Vec<CorsRule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Logging {
    version: String,
    delete: bool,
    read: bool,
    write: bool,
    retention_policy: Retention,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Metrics {
    version: String,
    enabled: bool,
    #[serde(
        rename = "IncludeAPIs",
        skip_serializing_if = "Option::is_none",
        default
    )]
    include_apis: Option<bool>,
    retention_policy: Retention,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Retention {
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    days: Option<u16>,
}

impl Properties {
    /// Replaces missing values by the defaults of a new account: everything is off.
    fn with_defaults(self) -> Self {
        let version = || "1.0".to_owned();
        let off = || Metrics {
            version: version(),
            enabled: false,
            include_apis: None,
            retention_policy: Retention::default(),
        };
        let logging = Logging {
            version: version(),
            delete: false,
            read: false,
            write: false,
            retention_policy: Retention::default(),
        };
        Self {
            logging: self.logging.or(Some(logging)),
            hour_metrics: self.hour_metrics.or_else(|| Some(off())),
            minute_metrics: self.minute_metrics.or_else(|| Some(off())),
            cors: self.cors.or_else(|| Some(Rules::default())),
        }
    }

    fn check(&self) -> Result<()> {
        let invalid = |message: &'static str| {
            Err(Failure::new(
                StatusCode::BAD_REQUEST,
                "InvalidXmlNodeValue",
                message,
            ))
        };
        let metrics = || self.hour_metrics.iter().chain(&self.minute_metrics);
        let of_metrics = metrics().map(|metrics| (&metrics.version, &metrics.retention_policy));
        let of_logging = self
            .logging
            .iter()
            .map(|logging| (&logging.version, &logging.retention_policy));
        let parts: Vec<_> = of_metrics.chain(of_logging).collect();
        let days = || parts.iter().filter_map(|(_, retention)| retention.days);
        if days().any(|days| !(1..=365).contains(&days)) {
            return Err(Failure::invalid_xml());
        }
        if parts
            .iter()
            .any(|(_, retention)| retention.enabled != retention.days.is_some())
        {
            return invalid(
                "RetentionPolicy: Days is there if the policy is enabled, and missing otherwise.",
            );
        }
        if metrics().any(|m| m.enabled != m.include_apis.is_some()) {
            return invalid(
                "IncludeAPIs is there if the metrics are enabled, and missing otherwise.",
            );
        }
        if parts.iter().any(|(version, _)| *version != "1.0") {
            return invalid("Version is 1.0.");
        }
        cors::check(self.cors.as_ref().map_or(&[], |cors| &cors.rules))
    }
}

/// Returns the account's cross-origin rules.
pub(crate) async fn cors_rules(tenant: &Tenant) -> Result<Vec<CorsRule>> {
    let properties: Properties = tenant.settings.get(Setting::Properties).await?;
    Ok(properties.cors.unwrap_or_default().rules)
}

/// Get Table Service Properties.
pub(crate) async fn get(tenant: &Tenant) -> Result<Answer> {
    let properties: Properties = tenant.settings.get(Setting::Properties).await?;
    Ok(Answer::xml(
        StatusCode::OK,
        xml::write(&properties.with_defaults())?,
    ))
}

/// Set Table Service Properties.
pub(crate) async fn set(tenant: &Tenant, body: &[u8]) -> Result<Answer> {
    let new: Properties = xml::read(body, "StorageServiceProperties")?;
    new.check()?;
    // The properties that a request leaves out keep their values, so the read and the write belong together. The lock of tables serializes
    // all settings too.
    let _guard = tenant.table_lock.lock().await;
    let old: Properties = tenant.settings.get(Setting::Properties).await?;
    let properties = Properties {
        logging: new.logging.or(old.logging),
        hour_metrics: new.hour_metrics.or(old.hour_metrics),
        minute_metrics: new.minute_metrics.or(old.minute_metrics),
        cors: new.cors.or(old.cors),
    };
    tenant
        .settings
        .set(Setting::Properties, &properties)
        .await?;
    Ok(Answer::new(StatusCode::ACCEPTED))
}

/// Get Table Service Stats. Both endpoints read the same data, so the secondary is never behind.
pub(crate) fn statistics() -> Answer {
    let now = Utc::now().format("%a, %d %b %Y %H:%M:%S GMT");
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats><GeoReplication><Status>live</Status>\
         <LastSyncTime>{now}</LastSyncTime></GeoReplication></StorageServiceStats>"
    );
    Answer::xml(StatusCode::OK, xml)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(inner: &str) -> Result<Properties> {
        let xml = format!("<StorageServiceProperties>{inner}</StorageServiceProperties>");
        let properties: Properties = xml::read(xml.as_bytes(), "StorageServiceProperties")?;
        properties.check().map(|()| properties)
    }

    const METRICS: &str = "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
        <RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics>";

    #[test]
    fn set_properties_are_read_back() {
        let read = read(METRICS).unwrap();
        let xml = xml::write(&read).unwrap();
        assert!(
            xml.ends_with(&format!(
                "<StorageServiceProperties>{METRICS}</StorageServiceProperties>"
            )),
            "{xml}"
        );
        let all = xml::write(&Properties::default().with_defaults()).unwrap();
        for part in [
            "<Logging><Version>1.0</Version><Delete>false</Delete>",
            "<MinuteMetrics>",
            "<Cors",
        ] {
            assert!(all.contains(part), "{all}");
        }
    }

    #[test]
    fn rules_can_be_removed() {
        for empty in ["<Cors/>", "<Cors></Cors>", "<Cors />"] {
            assert_eq!(read(empty).unwrap().cors, Some(Rules::default()), "{empty}");
        }
        assert_eq!(read("").unwrap().cors, None);
    }

    #[test]
    fn properties_that_the_service_refuses_are_refused() {
        for wrong in [
            METRICS.replace("<Days>7</Days>", ""),
            METRICS.replace(">7<", ">366<"),
            METRICS.replace("<IncludeAPIs>true</IncludeAPIs>", ""),
            METRICS.replace("1.0", "2.0"),
            METRICS.replace("<Version>1.0</Version>", ""),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
        for days in ["0", "366", "70000"] {
            let wrong = METRICS.replace(">7<", &format!(">{days}<"));
            assert_eq!(
                read(&wrong).unwrap_err().code,
                "InvalidXmlDocument",
                "{days}"
            );
        }
    }
}
