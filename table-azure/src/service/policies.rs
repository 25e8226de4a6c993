//! Stored access policies of a table.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/define-stored-access-policy>

use chrono::{DateTime, NaiveDate, NaiveTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use table_core::model::TableName;
use table_core::store::ErrorKind;
use table_core::{Error, Result};

use super::{from_xml, get_xml, put_xml, to_xml};
use crate::AzureTableStore;
use crate::rest::Subject;
use crate::sas::TablePermissions;

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
        let url = client
            .endpoint
            .write_to(table.as_str())
            .with("comp", "acl")
            .into_url();
        let answer = client
            .send(get_xml("stored_policies", Subject::Table(table), url))
            .await?;
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
    pub async fn set_stored_policies(
        &self,
        table: &TableName,
        policies: &[StoredPolicy],
    ) -> Result<()> {
        let client = self.client();
        client.require_table_storage(STORED_POLICIES)?;
        check_policies(policies)?;
        let url = client
            .endpoint
            .write_to(table.as_str())
            .with("comp", "acl")
            .into_url();
        let body = to_xml(&Identifiers {
            policies: policies.iter().map(Identifier::from_policy).collect(),
        })?;
        client
            .send(put_xml(
                "set_stored_policies",
                Subject::Table(table),
                url,
                &[204],
                body,
            ))
            .await
            .map(drop)
    }
}

const STORED_POLICIES: &str = "stored access policies";

/// The limits of <https://learn.microsoft.com/rest/api/storageservices/define-stored-access-policy>.
const MAX_POLICIES: usize = 5;
const MAX_ID_CHARS: usize = 64;

fn check_policies(policies: &[StoredPolicy]) -> Result<()> {
    if policies.len() > MAX_POLICIES {
        return Err(Error::limit(
            "stored access policies of a table",
            MAX_POLICIES,
            policies.len(),
        ));
    }
    let longest = policies
        .iter()
        .map(|policy| policy.id.chars().count())
        .max()
        .unwrap_or_default();
    if longest > MAX_ID_CHARS {
        return Err(Error::limit(
            "characters of a stored access policy's name",
            MAX_ID_CHARS,
            longest,
        ));
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
        Self {
            id: policy.id.clone(),
            access_policy,
        }
    }

    fn into_policy(self) -> Result<StoredPolicy> {
        let AccessPolicy {
            start,
            expiry,
            permission,
        } = self.access_policy;
        let unreadable = |field: &str, text: &str| {
            ErrorKind::Service(format!(
                "the {field} of policy {:?} cannot be read: {text:?}",
                self.id
            ))
        };
        Ok(StoredPolicy {
            start: parse_time(&start).map_err(|()| unreadable("Start", &start))?,
            expiry: parse_time(&expiry).map_err(|()| unreadable("Expiry", &expiry))?,
            permissions: permission
                .parse()
                .map_err(|_| unreadable("Permission", &permission))?,
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
    let to_the_second = || {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|time| time.to_utc())
    };
    let to_the_minute = || {
        DateTime::parse_from_str(text, "%Y-%m-%dT%H:%M%#z")
            .ok()
            .map(|time| time.to_utc())
    };
    let to_the_day = || {
        text.parse::<NaiveDate>()
            .ok()
            .map(|day| day.and_time(NaiveTime::MIN).and_utc())
    };
    to_the_second()
        .or_else(to_the_minute)
        .or_else(to_the_day)
        .map(Some)
        .ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(policy: &StoredPolicy) -> String {
        let xml = to_xml(&Identifiers {
            policies: vec![Identifier::from_policy(policy)],
        })
        .unwrap();
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
        assert!(
            !["Start", "Expiry", "Permission"]
                .iter()
                .any(|field| xml.contains(field)),
            "{xml}"
        );
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
            (
                "2025-01-02T10:30:05.1234567Z",
                "2025-01-02T10:30:05.1234567Z",
            ),
            ("2025-01-02T10:30:05-01:00", "2025-01-02T11:30:05Z"),
        ] {
            assert_eq!(
                with(text).unwrap().expiry,
                Some(expected.parse().unwrap()),
                "{text}"
            );
        }
        for text in [
            "soon",
            "2025-13-01",
            "2025-01-02T10:30",
            "2025-01-02T25:00Z",
        ] {
            let error = with(text).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Service(_)),
                "{text}: {error}"
            );
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
        assert!(
            check_policies(&[policy(&"x".repeat(65))])
                .unwrap_err()
                .is_limit_exceeded()
        );
        assert!(
            check_policies(&vec![policy("x"); 6])
                .unwrap_err()
                .is_limit_exceeded()
        );
    }
}
