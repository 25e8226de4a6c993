use chrono::{DateTime, Utc};
use serde::Deserialize;
use table_core::Result;
use table_core::store::ErrorKind;

use super::{from_xml, get};
use crate::AzureTableStore;
use crate::rest::Subject;

/// The replication state of the read-only copy of a geo-redundant account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeoReplication {
    /// Whether the copy is available and up to date.
    pub status: ReplicationStatus,
    /// All writes before this time can be read from the copy; `None` if the service does not know.
    pub last_sync: Option<DateTime<Utc>>,
}

/// The state of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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
        client.only_storage("service statistics")?;
        let address = client.endpoint.secondary()?;
        let url = address.with("restype", "service").with("comp", "stats").into_url();
        let answer = client.send(get("geo_replication", Subject::Service, url)).await?;
        let Geo { status, last_sync_time } =
            from_xml::<Statistics>(&answer, "StorageServiceStats")?.geo_replication;
        let last_sync = parse(&last_sync_time)?;
        Ok(GeoReplication { status, last_sync })
    }
}

fn parse(time: &str) -> Result<Option<DateTime<Utc>>> {
    if time.is_empty() {
        return Ok(None);
    }
    let parsed = DateTime::parse_from_rfc2822(time).map(|time| Some(time.to_utc()));
    parsed
        .map_err(|_| ErrorKind::Service(format!("the time of the last sync cannot be read: {time:?}")).into())
}
