//! Stored access policies: `?comp=acl`.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/set-table-acl>

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use table_core::model::TableName;

use crate::answer::Answer;
use crate::errors::{Failure, Result};
use crate::settings::Setting;
use crate::tenant::Tenant;
use crate::xml;

/// <https://learn.microsoft.com/rest/api/storageservices/define-stored-access-policy>
const MAX_POLICIES: usize = 5;
const MAX_ID_CHARS: usize = 64;

/// A named set of permissions that signatures refer to. A signature sets the values that are empty here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredPolicy {
    pub(crate) id: String,
    pub(crate) start: String,
    pub(crate) expiry: String,
    pub(crate) permissions: String,
}

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
    #[serde(default, skip_serializing_if = "AccessPolicy::is_empty")]
    access_policy: AccessPolicy,
}

#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct AccessPolicy {
    #[serde(skip_serializing_if = "String::is_empty")]
    start: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    expiry: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    permission: String,
}

impl AccessPolicy {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<StoredPolicy> for Identifier {
    fn from(policy: StoredPolicy) -> Self {
        let StoredPolicy {
            id,
            start,
            expiry,
            permissions,
        } = policy;
        let [start, expiry] = [start, expiry].map(|time| shown_time(&time));
        Self {
            id,
            access_policy: AccessPolicy {
                start,
                expiry,
                permission: permissions,
            },
        }
    }
}

/// Returns a time in the form that the service returns.
fn shown_time(text: &str) -> String {
    match parse_time(text) {
        Some(time) => {
            // The service has seven decimals, and `chrono` writes nine.
            let nanoseconds = time.format("%Y-%m-%dT%H:%M:%S%.9f").to_string();
            format!("{}Z", &nanoseconds[..nanoseconds.len() - 2])
        }
        None => text.to_owned(),
    }
}

impl TryFrom<Identifier> for StoredPolicy {
    type Error = Failure;

    fn try_from(identifier: Identifier) -> Result<Self> {
        let Identifier {
            id,
            access_policy:
                AccessPolicy {
                    start,
                    expiry,
                    permission,
                },
        } = identifier;
        if id.is_empty() || id.chars().count() > MAX_ID_CHARS || id.contains(char::is_control) {
            return Err(invalid("Id", &id));
        }
        for (field, time) in [("Start", &start), ("Expiry", &expiry)] {
            if !time.is_empty() && parse_time(time).is_none() {
                return Err(invalid(field, time));
            }
        }
        if !permission.chars().all(|letter| "raud".contains(letter)) {
            return Err(invalid("Permission", &permission));
        }
        Ok(Self {
            id,
            start,
            expiry,
            permissions: permission,
        })
    }
}

fn invalid(node: &str, text: &str) -> Failure {
    let text: String = text.chars().take(100).collect();
    let message = format!(
        "The value for one of the XML nodes is not in the correct format: {node} {text:?}."
    );
    Failure::new(StatusCode::BAD_REQUEST, "InvalidXmlNodeValue", message)
}

/// Returns the policies of a table. Empty if the table does not exist.
pub(crate) async fn stored_policies(
    tenant: &Tenant,
    table: &TableName,
) -> Result<Vec<StoredPolicy>> {
    Ok(tenant.settings.get(Setting::Policies(table)).await?)
}

/// Get Table ACL.
pub(crate) async fn get(tenant: &Tenant, table: &TableName) -> Result<Answer> {
    tenant.require_table(table).await?;
    let policies = stored_policies(tenant, table).await?;
    let policies = policies.into_iter().map(Identifier::from).collect();
    Ok(Answer::xml(
        StatusCode::OK,
        xml::write(&Identifiers { policies })?,
    ))
}

/// Set Table ACL.
pub(crate) async fn set(tenant: &Tenant, table: &TableName, body: &[u8]) -> Result<Answer> {
    let policies = read(body)?;
    // So that no deletion of the table comes between the check and the write: its policies would wait for the next table of the name.
    let _guard = tenant.table_lock.lock().await;
    tenant.require_table(table).await?;
    tenant
        .settings
        .set(Setting::Policies(table), &policies)
        .await?;
    Ok(Answer::no_content())
}

fn read(body: &[u8]) -> Result<Vec<StoredPolicy>> {
    // An empty body stands for an empty list: it removes all policies.
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let Identifiers { policies } = xml::read(body, "SignedIdentifiers")?;
    if policies.len() > MAX_POLICIES {
        return Err(Failure::invalid_xml());
    }
    let policies = policies
        .into_iter()
        .map(StoredPolicy::try_from)
        .collect::<Result<Vec<_>>>()?;
    let mut ids: Vec<_> = policies.iter().map(|policy| &policy.id).collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(invalid("Id", twice[0])),
        None => Ok(policies),
    }
}

/// Parses the documented forms of a time: a date, optionally with the time to the minute, second or fraction.
///
/// <https://learn.microsoft.com/rest/api/storageservices/formatting-datetime-values>
pub(crate) fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    let whole = || {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|time| time.to_utc())
    };
    let minute = || {
        DateTime::parse_from_str(text, "%Y-%m-%dT%H:%M%#z")
            .ok()
            .map(|time| time.to_utc())
    };
    let day = || {
        text.parse::<NaiveDate>()
            .ok()
            .map(|day| day.and_time(NaiveTime::MIN).and_utc())
    };
    whole().or_else(minute).or_else(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(policies: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers>{policies}</SignedIdentifiers>"
        )
    }

    #[test]
    fn policies_are_read_and_written_as_documented() {
        let policy = "<SignedIdentifier><Id>a &amp; b</Id><AccessPolicy><Start>2025-01-02</Start>\
            <Expiry>2026-01-02T10:30:05.1234567Z</Expiry><Permission>raud</Permission></AccessPolicy></SignedIdentifier>";
        let read = read(document(policy).as_bytes()).unwrap();
        assert_eq!(read[0].id, "a & b");
        let policies = read.into_iter().map(Identifier::from).collect();
        let shown = policy.replace("2025-01-02<", "2025-01-02T00:00:00.0000000Z<");
        assert_eq!(
            xml::write(&Identifiers { policies }).unwrap(),
            document(&shown)
        );
    }

    #[test]
    fn an_empty_policy_is_left_out() {
        let empty = "<SignedIdentifier><Id>x</Id><AccessPolicy><Start></Start></AccessPolicy></SignedIdentifier>";
        let policies = read(document(empty).as_bytes()).unwrap();
        let policies = policies.into_iter().map(Identifier::from).collect();
        let shown = document("<SignedIdentifier><Id>x</Id></SignedIdentifier>");
        assert_eq!(xml::write(&Identifiers { policies }).unwrap(), shown);
    }

    #[test]
    fn fields_may_be_missing_and_the_list_empty() {
        let bare = "<SignedIdentifier><Id>x</Id></SignedIdentifier>";
        assert_eq!(read(document(bare).as_bytes()).unwrap()[0].permissions, "");
        assert!(
            read(b"<SignedIdentifiers />").unwrap().is_empty() && read(b"").unwrap().is_empty()
        );
    }

    #[test]
    fn invalid_policies_are_refused() {
        let with = |id: &str, fields: &str| {
            format!(
                "<SignedIdentifier><Id>{id}</Id><AccessPolicy>{fields}</AccessPolicy></SignedIdentifier>"
            )
        };
        for (policies, code) in [
            (with("", ""), "InvalidXmlNodeValue"),
            (with(&"x".repeat(65), ""), "InvalidXmlNodeValue"),
            (with("x", "<Expiry>soon</Expiry>"), "InvalidXmlNodeValue"),
            (
                with("x", "<Permission>rx</Permission>"),
                "InvalidXmlNodeValue",
            ),
            (with("x", "").repeat(2), "InvalidXmlNodeValue"),
            (
                (0..6).map(|n| with(&n.to_string(), "")).collect(),
                "InvalidXmlDocument",
            ),
            ("<SignedIdentifier>".to_owned(), "InvalidXmlDocument"),
        ] {
            assert_eq!(
                read(document(&policies).as_bytes()).unwrap_err().code,
                code,
                "{policies}"
            );
        }
        for body in ["<html/>", "no xml", "{}"] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn only_the_documented_forms_are_read() {
        for (text, expected) in [
            ("2025-01-02", "2025-01-02T00:00:00Z"),
            ("2025-01-02T10:30Z", "2025-01-02T10:30:00Z"),
            ("2025-01-02T10:30:05Z", "2025-01-02T10:30:05Z"),
            (
                "2025-01-02T10:30:05.1234567Z",
                "2025-01-02T10:30:05.1234567Z",
            ),
            ("2025-01-02T10:30:05-01:00", "2025-01-02T11:30:05Z"),
        ] {
            assert_eq!(parse_time(text), expected.parse().ok(), "{text}");
        }
        for text in [
            "",
            "soon",
            "2025-13-01",
            "2025-01-02T10:30",
            "2025-01-02T25:00Z",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
