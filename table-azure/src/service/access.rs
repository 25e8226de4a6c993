use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use table_core::Result;
use table_core::model::TableName;

use super::{from_xml, get, put, to_xml};
use crate::AzureTableStore;
use crate::rest::Subject;
use crate::sas::TablePermissions;

/// Rights that are stored with a table under a name, for signatures to refer to. Changing or removing
/// the policy changes or revokes every signature that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPolicy {
    /// The name, up to 64 characters.
    pub id: String,
    /// When it begins.
    pub start: DateTime<Utc>,
    /// When it ends; `None` leaves that to the signature.
    pub expiry: Option<DateTime<Utc>>,
    /// What it allows.
    pub permissions: TablePermissions,
}

impl AzureTableStore {
    /// The policies stored with a table. One request. Azure Table Storage alone.
    ///
    /// # Errors
    /// The service's.
    pub async fn stored_policies(&self, table: &TableName) -> Result<Vec<StoredPolicy>> {
        let client = self.client();
        client.only_storage(NAME)?;
        let url = client.endpoint.write_to(table.as_str()).with("comp", "acl").into_url();
        let answer = client.send(get("stored_policies", Subject::Table(table), url)).await?;
        from_xml::<Identifiers>(&answer)?.policies.into_iter().map(Identifier::into_policy).collect()
    }

    /// Replaces the policies stored with a table, five at most. They count within 30 seconds. One request. Azure
    /// Table Storage alone.
    ///
    /// # Errors
    /// The service's.
    pub async fn set_stored_policies(&self, table: &TableName, policies: &[StoredPolicy]) -> Result<()> {
        let client = self.client();
        client.only_storage(NAME)?;
        let url = client.endpoint.write_to(table.as_str()).with("comp", "acl").into_url();
        let body = to_xml(&Identifiers { policies: policies.iter().map(Identifier::of).collect() })?;
        client.send(put("set_stored_policies", Subject::Table(table), url, body)).await.map(drop)
    }
}

const NAME: &str = "stored access policies";

/// <https://learn.microsoft.com/rest/api/storageservices/set-table-acl#request-body>
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
    start: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    expiry: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    permission: String,
}

impl Identifier {
    /// The start is always said: the emulator fails without it.
    fn of(policy: &StoredPolicy) -> Self {
        let time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Micros, true);
        let access_policy = AccessPolicy {
            start: time(policy.start),
            expiry: policy.expiry.map(time).unwrap_or_default(),
            permission: policy.permissions.to_string(),
        };
        Self { id: policy.id.clone(), access_policy }
    }

    fn into_policy(self) -> Result<StoredPolicy> {
        let AccessPolicy { start, expiry, permission } = self.access_policy;
        let time = |text: &str| text.parse::<DateTime<Utc>>().ok();
        let start = time(&start).unwrap_or(DateTime::UNIX_EPOCH);
        Ok(StoredPolicy { id: self.id, start, expiry: time(&expiry), permissions: permission.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_documented_and_read_back() {
        let policy = StoredPolicy {
            id: "readers & writers".to_owned(),
            start: "2013-08-16T00:00:00Z".parse().unwrap(),
            expiry: None,
            permissions: TablePermissions::READ | TablePermissions::ADD,
        };
        let xml = to_xml(&Identifiers { policies: vec![Identifier::of(&policy)] }).unwrap();
        assert_eq!(
            String::from_utf8(xml.clone()).unwrap(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers><SignedIdentifier>\
            <Id>readers &amp; writers</Id><AccessPolicy><Start>2013-08-16T00:00:00.000000Z</Start>\
            <Permission>ra</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        );
        let read: Identifiers = azure_core::xml::from_xml(&xml).unwrap();
        let read: Vec<_> = read.policies.into_iter().map(|p| p.into_policy().unwrap()).collect();
        assert_eq!(read, [policy]);
    }
}
