//! Shared access signatures.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/create-account-sas>,
//! <https://learn.microsoft.com/rest/api/storageservices/create-service-sas>

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};
use table_core::model::TableName;

use super::range::Bound;
use super::{Credentials, KeyRange, Permit};
use crate::acl::{self, StoredPolicy, parse_time};
use crate::address::Parameters;
use crate::errors::{Failure, Result};
use crate::request::table;
use crate::tenant::Tenant;

/// Returns what the SAS in a request's URL allows now.
pub(super) async fn check(credentials: &Credentials<'_>, tenant: &Tenant) -> Result<Permit> {
    // The signature first: until it is verified, the fields are text of an unknown sender. Then the stored policy is read, so only a
    // holder of a valid signature causes a request to the store and learns from the later refusals.
    let token = Token::read(&credentials.address.parameters)?;
    let text = token.string_to_sign(tenant.account.name())?;
    if !tenant.account.has_signed(&text, token.signature) {
        return Err(Failure::unauthenticated(
            "the signature does not match its fields with any key of the account",
        ));
    }
    let policy = match token.policy {
        "" => StoredPolicy::default(),
        id => stored_policy(&token, id, tenant).await?,
    };
    let permissions = set_once(token.permissions, &policy.permissions, "sp")?;
    token.check_time(credentials, &policy)?;
    token.check_connection(credentials)?;
    if permissions.is_empty() {
        return Err(Failure::unauthenticated(
            "neither the signature nor its policy has permissions",
        ));
    }
    match token.table {
        Some(signed) => Ok(Permit::Table {
            table: signed.to_lowercase(),
            permissions: permissions.to_owned(),
            range: token.range()?,
            // The signature says which fields were signed. Its hash does not say the signature.
            identity: Sha256::digest(token.signature).into(),
        }),
        None if !token.services.contains('t') => Err(Failure::unauthorized(
            "AuthorizationServiceMismatch",
            "the signature's services lack 't'",
        )),
        None => Ok(Permit::Account {
            permissions: permissions.to_owned(),
            resources: token.resources.to_owned(),
        }),
    }
}

/// Returns the string to sign of the signature in a URL; `None` if the signature is refused.
#[cfg(fuzzing)]
pub(crate) fn string_to_sign(parameters: &Parameters, account: &str) -> Option<String> {
    let token = Token::read(parameters).ok()?;
    token.range().ok()?;
    token.string_to_sign(account).ok()
}

/// Returns the stored access policy that a signature refers to.
async fn stored_policy(token: &Token<'_>, id: &str, tenant: &Tenant) -> Result<StoredPolicy> {
    let unknown = || {
        Failure::unauthenticated(
            "the table has no stored policy with the signature's identifier (si)",
        )
    };
    let name: TableName = table(token.table.ok_or_else(unknown)?).map_err(|_| unknown())?;
    let policies = acl::stored_policies(tenant, &name).await?;
    policies
        .into_iter()
        .find(|policy| policy.id == id)
        .ok_or_else(unknown)
}

/// Returns a field that either the signature or its policy must set, but not both.
fn set_once<'a>(signed: &'a str, stored: &'a str, field: &str) -> Result<&'a str> {
    // A field in both is refused, as in the service: a signature cannot widen its policy, and no reader has to know which one counts.
    match (signed, stored) {
        ("", stored) => Ok(stored),
        (signed, "") => Ok(signed),
        _ => Err(Failure::unauthenticated(&format!(
            "the signature and its policy both set {field}"
        ))),
    }
}

/// The decoded fields of a signature; empty if missing.
struct Token<'a> {
    version: &'a str,
    /// The table name of a table SAS.
    table: Option<&'a str>,
    services: &'a str,
    resources: &'a str,
    permissions: &'a str,
    start: &'a str,
    expiry: &'a str,
    policy: &'a str,
    ip: &'a str,
    protocol: &'a str,
    /// `spk`, `srk`, `epk`, `erk`.
    keys: [&'a str; 4],
    scope: &'a str,
    signature: &'a str,
}

impl<'a> Token<'a> {
    fn read(parameters: &'a Parameters) -> Result<Self> {
        let get = |name| {
            let twice = |_| {
                Failure::unauthenticated(&format!("the signature has the parameter {name} twice"))
            };
            parameters.get(name).map_err(twice)
        };
        let field = |name| get(name).map(Option::unwrap_or_default);
        let token = Self {
            version: field("sv")?,
            table: get("tn")?,
            services: field("ss")?,
            resources: field("srt")?,
            permissions: field("sp")?,
            start: field("st")?,
            expiry: field("se")?,
            policy: field("si")?,
            ip: field("sip")?,
            protocol: field("spr")?,
            keys: [field("spk")?, field("srk")?, field("epk")?, field("erk")?],
            scope: field("ses")?,
            signature: field("sig")?,
        };
        // Versions are compared as text below, so their format is checked.
        // The version is part of the signed text, so a sender cannot choose an older format for an existing signature.
        let version = token.version.as_bytes();
        let dated = version.len() == 10 && version.iter().all(|b| b.is_ascii_digit() || *b == b'-');
        if !dated || token.version < "2012-02-12" {
            return Err(Failure::unauthenticated(
                "the signature's version (sv) is missing or not known",
            ));
        }
        Ok(token)
    }

    /// Returns the string to sign, in the format of the signature's version.
    ///
    /// # Errors
    /// Fails if a field has a line end, because the string could then be split into fields in several ways.
    fn string_to_sign(&self, account: &str) -> Result<String> {
        let Self {
            version,
            services,
            resources,
            permissions,
            start,
            expiry,
            policy,
            ip,
            protocol,
            ..
        } = *self;
        // The lines and their order by version:
        // <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-the-signature> and
        // <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#construct-the-signature-string>.
        // The fields are signed as they are after URL decoding.
        let newer = version >= "2015-04-05";
        let lines = match self.table {
            Some(table) => {
                let service = if version >= "2015-02-21" {
                    "/table"
                } else {
                    ""
                };
                let resource = format!("{service}/{account}/{}", table.to_lowercase());
                let mut lines: Vec<String> = [permissions, start, expiry].map(str::to_owned).into();
                lines.push(resource);
                lines.push(policy.to_owned());
                if newer {
                    lines.extend([ip.to_owned(), protocol.to_owned()]);
                }
                lines.push(version.to_owned());
                lines.extend(self.keys.map(str::to_owned));
                lines
            }
            None if newer => {
                let fields = [
                    account,
                    permissions,
                    services,
                    resources,
                    start,
                    expiry,
                    ip,
                    protocol,
                    version,
                ];
                let mut lines: Vec<String> = fields.map(str::to_owned).into();
                if version >= "2020-12-06" {
                    lines.push(self.scope.to_owned());
                }
                // The text of an account SAS ends with a line end.
                lines.push(String::new());
                lines
            }
            None => {
                return Err(Failure::unauthenticated(
                    "the signature has no table name (tn)",
                ));
            }
        };
        if lines.iter().any(|line| line.contains('\n')) {
            return Err(Failure::unauthenticated(
                "a field of the signature contains a line end",
            ));
        }
        Ok(lines.join("\n"))
    }

    fn check_time(&self, credentials: &Credentials<'_>, policy: &StoredPolicy) -> Result<()> {
        let unreadable = || {
            Failure::unauthenticated("a time of the signature does not have a documented format")
        };
        let start = set_once(self.start, &policy.start, "st")?;
        let expiry = set_once(self.expiry, &policy.expiry, "se")?;
        if expiry.is_empty() {
            return Err(Failure::unauthenticated(
                "neither the signature nor its policy has an expiry time",
            ));
        }
        if credentials.now >= parse_time(expiry).ok_or_else(unreadable)? {
            return Err(Failure::unauthenticated("the signature has expired"));
        }
        if !start.is_empty() && credentials.now < parse_time(start).ok_or_else(unreadable)? {
            return Err(Failure::unauthenticated("the signature is not yet valid"));
        }
        Ok(())
    }

    /// Checks the protocol and the IP address.
    fn check_connection(&self, credentials: &Credentials<'_>) -> Result<()> {
        match self.protocol {
            "" | "https,http" | "http,https" => {}
            "https" if credentials.secure => {}
            _ => {
                let reason = "the signature is valid over https only";
                return Err(Failure::unauthorized(
                    "AuthorizationProtocolMismatch",
                    reason,
                ));
            }
        }
        if self.ip.is_empty() || is_in_ip_range(self.ip, credentials.peer) {
            return Ok(());
        }
        Err(Failure::unauthorized(
            "AuthorizationSourceIPMismatch",
            "the signature is not valid for this IP address",
        ))
    }

    /// Returns the range of keys.
    ///
    /// Each end has no field, a PartitionKey, or a PartitionKey and a RowKey: "`startPk` must accompany `startRk`"
    /// (<https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-table-access-ranges>).
    fn range(&self) -> Result<KeyRange> {
        let [start_partition, start_row, end_partition, end_row] = self.keys;
        let lone = |row, partition| {
            let reason = format!(
                "the signature has a RowKey ({row}) and no PartitionKey ({partition}) for the same end: sign both"
            );
            move |()| Failure::unauthenticated(&reason)
        };
        let start = Bound::of(start_partition, start_row).map_err(lone("srk", "spk"))?;
        let end = Bound::of(end_partition, end_row).map_err(lone("erk", "epk"))?;
        Ok(KeyRange { start, end })
    }
}

/// Whether an IP address is in a range such as `168.1.5.60-168.1.5.70`, or is the only one.
fn is_in_ip_range(range: &str, peer: IpAddr) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (Ok(first), Ok(last)) = (
        first.trim().parse::<IpAddr>(),
        last.trim().parse::<IpAddr>(),
    ) else {
        return false;
    };
    // A server that listens on IPv6 sees IPv4 clients as `::ffff:168.1.5.60`, which would be in no range.
    let peer = peer.to_canonical();
    first.is_ipv4() == peer.is_ipv4()
        && last.is_ipv4() == peer.is_ipv4()
        && (first..=last).contains(&peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(query: &str) -> String {
        let parameters = Parameters::parse(query).unwrap();
        Token::read(&parameters)
            .unwrap()
            .string_to_sign("acc")
            .unwrap()
    }

    #[test]
    fn each_version_has_its_string_to_sign() {
        let table = |version| {
            text(&format!(
                "sv={version}&tn=Orders&sp=r&st=S&se=E&si=P&sip=I&spr=https&spk=a&srk=1&epk=b&erk=2&sig=x"
            ))
        };
        assert_eq!(
            table("2019-02-02"),
            "r\nS\nE\n/table/acc/orders\nP\nI\nhttps\n2019-02-02\na\n1\nb\n2"
        );
        assert_eq!(
            table("2015-02-21"),
            "r\nS\nE\n/table/acc/orders\nP\n2015-02-21\na\n1\nb\n2"
        );
        assert_eq!(
            table("2013-08-15"),
            "r\nS\nE\n/acc/orders\nP\n2013-08-15\na\n1\nb\n2"
        );
        let account = |version| {
            text(&format!(
                "sv={version}&ss=bt&srt=sco&sp=rl&se=E&spr=https&ses=&sig=x"
            ))
        };
        assert_eq!(
            account("2019-02-02"),
            "acc\nrl\nbt\nsco\n\nE\n\nhttps\n2019-02-02\n"
        );
        assert_eq!(
            account("2020-12-06"),
            "acc\nrl\nbt\nsco\n\nE\n\nhttps\n2020-12-06\n\n"
        );
    }

    #[test]
    fn ambiguous_fields_are_refused() {
        for query in [
            "sv=&sig=x",
            "sv=2011-08-18&sig=x",
            "sv=tomorrow..&sig=x",
            "sv=2019-02-02&sp=r&sp=w&sig=x",
        ] {
            let parameters = Parameters::parse(query).unwrap();
            assert!(Token::read(&parameters).is_err(), "{query}");
        }
        let parameters = Parameters::parse("sv=2019-02-02&tn=t&spk=a%0Ab&sig=x").unwrap();
        assert!(
            Token::read(&parameters)
                .unwrap()
                .string_to_sign("acc")
                .is_err()
        );
        let parameters = Parameters::parse("sv=2019-02-02&tn=t&srk=a&sig=x").unwrap();
        assert!(Token::read(&parameters).unwrap().range().is_err());
    }

    #[test]
    fn ip_addresses_are_compared_within_their_family() {
        for (range, peer, expected) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("10.0.0.1-10.0.0.9", "10.0.0.5", true),
            ("10.0.0.1-10.0.0.9", "10.0.0.10", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("127.0.0.1", "::1", false),
            ("::1", "::1", true),
            ("nowhere", "127.0.0.1", false),
            ("10.0.0.9-10.0.0.1", "10.0.0.5", false),
        ] {
            assert_eq!(
                is_in_ip_range(range, peer.parse().unwrap()),
                expected,
                "{range} {peer}"
            );
        }
    }
}
