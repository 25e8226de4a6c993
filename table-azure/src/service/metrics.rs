use serde::{Deserialize, Serialize};

/// How long logs and metrics are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Retention {
    /// Whether they are deleted after a time at all.
    pub enabled: bool,
    /// After how many days, 1 to 365.
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
    /// Whether any are.
    pub enabled: bool,
    /// Whether each operation is counted by itself; only where they are enabled.
    #[serde(rename = "IncludeAPIs", skip_serializing_if = "Option::is_none", default)]
    pub include_apis: Option<bool>,
    /// How long they are kept.
    #[serde(rename = "RetentionPolicy")]
    pub retention: Retention,
}
