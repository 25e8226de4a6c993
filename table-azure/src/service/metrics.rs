use serde::{Deserialize, Serialize};

/// How long logs and metrics are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Retention {
    /// Whether they are deleted after some days.
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
