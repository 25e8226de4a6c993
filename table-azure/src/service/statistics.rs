use chrono::{DateTime, Utc};
use serde::Deserialize;
use table_core::Result;
use table_core::store::ErrorKind;

use super::{from_xml, get};
use crate::AzureTableStore;
use crate::rest::Subject;

/// How far the read-only copy of a geo-redundant account is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeoReplication {
    /// Whether it follows.
    pub status: ReplicationStatus,
    /// Every write before this time can be read there; `None` where that is not known.
    pub last_sync: Option<DateTime<Utc>>,
}

/// Whether a copy follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicationStatus {
    /// It does.
    Live,
    /// It is being made.
    Bootstrap,
    /// It cannot be reached.
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
    /// How far the account's copy is. One request, to the secondary endpoint. Azure Table Storage with a
    /// readable copy alone.
    ///
    /// # Errors
    /// The service's.
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
    parsed.map_err(|_| ErrorKind::Service(format!("a time that cannot be read: {time:?}")).into())
}
