//! Parses a request's URL: account, resource and parameters.

use std::net::Ipv4Addr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use table_core::model::{Key, TableName};

use crate::errors::{Failure, Result};

/// All characters except RFC 3986's unreserved ones.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const SECONDARY: &str = "-secondary";

/// The parsed URL of a request.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) account: String,
    /// Whether the request goes to the read-only secondary endpoint.
    pub(crate) is_secondary: bool,
    /// The path as sent, which is part of the string to sign.
    pub(crate) raw_path: String,
    /// The account's URL as the client wrote it, with a slash at the end.
    pub(crate) root: String,
    /// The path below the account, as sent.
    pub(crate) path: String,
    pub(crate) parameters: Parameters,
}

impl Address {
    /// Parses a URL. The account is the first label of the host name if an account with that name is served;
    /// otherwise it is the first segment of the path.
    pub(crate) fn parse(
        scheme: &str,
        host: &str,
        path: &str,
        query: Option<&str>,
        is_account: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        // The host becomes a part of the URLs in responses, so it must not have a character that ends a host.
        if host.is_empty() || !host.bytes().all(|b| b.is_ascii_graphic() && b != b'/') {
            return Err(Failure::new(
                http::StatusCode::BAD_REQUEST,
                "HostInformationNotPresent",
                "The required host information is not present in the request.",
            ));
        }
        let parameters = Parameters::parse(query.unwrap_or_default())?;
        let raw_path = path.to_owned();
        let path = path.strip_prefix('/').ok_or_else(Failure::invalid_uri)?;
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        // The first number of an IP address is no label: an account can have the name `127`.
        let label = host
            .split_once('.')
            .filter(|_| name.parse::<Ipv4Addr>().is_err());
        let label = label.map(|(label, _)| label.to_ascii_lowercase());
        if let Some((account, is_secondary)) = label
            .as_deref()
            .map(without_secondary)
            .filter(|(name, _)| is_account(name))
        {
            let root = format!("{scheme}://{host}/");
            let account = account.to_owned();
            return Ok(Self {
                account,
                is_secondary,
                raw_path,
                root,
                path: path.to_owned(),
                parameters,
            });
        }
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let (account, is_secondary) = without_secondary(first);
        let (account, root) = (account.to_owned(), format!("{scheme}://{host}/{first}/"));
        Ok(Self {
            account,
            is_secondary,
            raw_path,
            root,
            path: rest.to_owned(),
            parameters,
        })
    }

    /// Returns the path below the account, and the parameters, of a URL inside a group. The URL is absolute, or relative to the server's
    /// root or to the account.
    pub(crate) fn inner_path<'a>(&self, address: &'a str) -> Result<(&'a str, Parameters)> {
        let (address, query) = address.split_once('?').unwrap_or((address, ""));
        let path = match address.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            None => address.strip_prefix('/').unwrap_or(address),
        };
        // Clients write the account into these addresses or leave it out, so it is removed only where it is the whole first part.
        let account = &self.raw_path[..self.raw_path.len() - self.path.len()];
        let account = account.trim_matches('/');
        let inner = match path
            .strip_prefix(account)
            .and_then(|rest| rest.strip_prefix('/'))
        {
            Some(inner) if !account.is_empty() => inner,
            _ => path,
        };
        Ok((inner, Parameters::parse(query)?))
    }

    pub(crate) fn resource(&self) -> Result<Resource> {
        Resource::parse(&self.path)
    }
}

/// Returns the account, and whether the name was that of the secondary endpoint.
fn without_secondary(name: &str) -> (&str, bool) {
    name.strip_suffix(SECONDARY)
        .map_or((name, false), |account| (account, true))
}

/// The decoded parameters of a URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

/// Maximum number of parameters; no valid request has that many.
const MAX_PARAMETERS: usize = 64;

impl Parameters {
    pub(crate) fn parse(query: &str) -> Result<Self> {
        let mut all = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if all.len() == MAX_PARAMETERS {
                return Err(Failure::invalid_parameter("", "too many parameters"));
            }
            all.push((decoded(name)?, decoded(value)?));
        }
        Ok(Self(all))
    }

    /// Returns the value of a parameter; `None` if it is missing or empty.
    ///
    /// # Errors
    /// Fails if the parameter occurs twice, because readers could disagree about which one counts.
    pub(crate) fn get(&self, name: &str) -> Result<Option<&str>> {
        let mut found = self
            .0
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, value)| value.as_str());
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Failure::invalid_parameter(
                name,
                "the parameter occurs twice",
            )),
            (first, None) => Ok(first.filter(|value| !value.is_empty())),
        }
    }

    /// Whether a parameter exists, empty or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| n == name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

fn decoded(text: &str) -> Result<String> {
    // In a query `+` stands for a space; in a path it stands for itself.
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced)
        .decode_utf8()
        .map(Into::into)
        .map_err(|_| Failure::invalid_uri())
}

/// The resource of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Service,
    Tables,
    Table(String),
    Entities(String),
    Entity(String, String, String),
    Batch,
    /// A path with a table before a resource. Clients ask for it whose endpoint has the name of a table in its path.
    BelowTable {
        table: String,
        below: Below,
    },
}

/// The kind of a resource below a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    Batch,
    Set,
    /// An element of a set, with its keys.
    Element,
}

impl Resource {
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let path = path.strip_suffix('/').unwrap_or(path);
        // Before the decoding: a key in an address of an entity may have an encoded slash.
        if let Some((table, rest)) = path
            .split_once('/')
            .filter(|(table, _)| !table.contains('('))
        {
            let below = match rest {
                "$batch" => Below::Batch,
                rest if rest.ends_with(')') && !rest.ends_with("()") => Below::Element,
                _ => Below::Set,
            };
            return Ok(Self::BelowTable {
                table: table.to_owned(),
                below,
            });
        }
        let path = percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| Failure::invalid_uri())?;
        // The first parenthesis ends the name: table names have none, and keys in quotes may have any
        // character.
        let Some((name, keys)) = path.split_once('(') else {
            return Ok(match &*path {
                "" => Self::Service,
                "$batch" => Self::Batch,
                "Tables" => Self::Tables,
                name => Self::Entities(name.to_owned()),
            });
        };
        let keys = keys
            .strip_suffix(')')
            .ok_or_else(Failure::invalid_uri)?
            .trim();
        match (name, keys) {
            ("Tables", "") => Ok(Self::Tables),
            ("Tables", keys) => {
                let (table, rest) = literal(keys).ok_or_else(Failure::invalid_uri)?;
                if rest.is_empty() {
                    Ok(Self::Table(table))
                } else {
                    Err(Failure::invalid_uri())
                }
            }
            (name, "") => Ok(Self::Entities(name.to_owned())),
            (name, keys) => {
                let (partition, row) = entity_keys(keys).ok_or_else(Failure::invalid_uri)?;
                Ok(Self::Entity(name.to_owned(), partition, row))
            }
        }
    }
}

/// Parses `PartitionKey='…',RowKey='…'`, in either order.
fn entity_keys(mut text: &str) -> Option<(String, String)> {
    let (mut partition, mut row) = (None, None);
    loop {
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = literal(rest.trim_start())?;
        let slot = match name.trim() {
            "PartitionKey" => &mut partition,
            "RowKey" => &mut row,
            _ => return None,
        };
        // A key that occurs twice: readers could disagree about which value counts.
        if slot.replace(value).is_some() {
            return None;
        }
        match rest.trim_start().strip_prefix(',') {
            Some(more) => text = more,
            None if rest.trim().is_empty() => return Some((partition?, row?)),
            None => return None,
        }
    }
}

/// Parses a text in quotes, with inner quotes doubled. Returns the text and the rest.
fn literal(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut value = String::new();
    loop {
        let (part, after) = rest.split_once('\'')?;
        value.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                value.push('\'');
                rest = more;
            }
            None => return Some((value, after)),
        }
    }
}

/// Returns `Table(PartitionKey='…',RowKey='…')`, encoded.
pub(crate) fn entity_path(table: &TableName, key: &Key) -> String {
    let encoded = |text: &str| utf8_percent_encode(&text.replace('\'', "''"), ENCODED).to_string();
    format!(
        "{table}(PartitionKey='{}',RowKey='{}')",
        encoded(key.partition()),
        encoded(key.row())
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(host: &str, path: &str) -> Address {
        Address::parse("http", host, path, Some("a=1+2%2B&b"), |name| {
            name == "orders"
        })
        .unwrap()
    }

    #[test]
    fn the_account_is_in_the_path_or_in_the_host() {
        let in_path = parse("127.0.0.1:10002", "/orders/Tables('x')");
        assert_eq!(&*in_path.account, "orders");
        assert!(!in_path.is_secondary);
        assert_eq!(&*in_path.path, "Tables('x')");
        assert_eq!(in_path.root, "http://127.0.0.1:10002/orders/");
        assert_eq!(in_path.parameters.get("a").unwrap(), Some("1 2+"));
        assert!(in_path.parameters.has("b") && in_path.parameters.get("b").unwrap().is_none());
        let in_host = parse("orders-secondary.table.local:1", "/orders");
        assert_eq!(&*in_host.account, "orders");
        assert!(in_host.is_secondary);
        assert_eq!(&*in_host.path, "orders");
        let secondary = parse("localhost", "/orders-secondary/");
        assert_eq!(&*secondary.account, "orders");
        assert!(secondary.is_secondary);
        assert_eq!(&*secondary.path, "");
        let other = parse("example.org", "/orders/T");
        assert_eq!(&*other.account, "orders");
        assert_eq!(&*other.path, "T");
        for host in ["127.0.0.1", "127.0.0.1:10002"] {
            let number =
                Address::parse("http", host, "/127/T", None, |name| name == "127").unwrap();
            assert_eq!((&*number.account, &*number.path), ("127", "T"), "{host}");
        }
        assert!(Address::parse("http", "", "/", None, |_| true).is_err());
        assert!(Address::parse("http", "h", "*", None, |_| true).is_err());
        assert!(Address::parse("http", "h", "/", Some("a=%FF"), |_| true).is_err());
    }

    #[test]
    fn a_parameter_that_occurs_twice_is_refused() {
        let parameters = Parameters::parse("sig=a&sig=b").unwrap();
        assert!(parameters.get("sig").is_err());
    }

    #[test]
    fn urls_inside_a_group_are_absolute_or_relative_to_the_root() {
        let in_path = parse("h:1", "/orders/$batch");
        for inner in [
            "http://h:1/orders/T",
            "https://elsewhere/orders/T",
            "/orders/T",
            "T",
            "/T",
        ] {
            assert_eq!(in_path.inner_path(inner).unwrap().0, "T", "{inner}");
        }
        let in_host = parse("orders.table.local", "/$batch");
        for inner in ["http://orders.table.local/T", "/T", "T"] {
            assert_eq!(in_host.inner_path(inner).unwrap().0, "T", "{inner}");
        }
    }

    #[test]
    fn paths_are_parsed_to_resources() {
        let entity =
            |t: &str, p: &str, r: &str| Resource::Entity(t.to_owned(), p.to_owned(), r.to_owned());
        for (path, expected) in [
            ("", Resource::Service),
            ("Tables", Resource::Tables),
            ("Tables()", Resource::Tables),
            ("Tables('abc')", Resource::Table("abc".to_owned())),
            ("abc", Resource::Entities("abc".to_owned())),
            ("abc()", Resource::Entities("abc".to_owned())),
            ("$batch", Resource::Batch),
            ("t(PartitionKey='a',RowKey='b')", entity("t", "a", "b")),
            ("t(RowKey='b', PartitionKey='a')", entity("t", "a", "b")),
            (
                "t(PartitionKey='',RowKey='it%27%27s')",
                entity("t", "", "it's"),
            ),
            (
                "t(PartitionKey='%252F',RowKey='a(b)')",
                entity("t", "%2F", "a(b)"),
            ),
            (
                "t(PartitionKey=''',RowKey=''',RowKey='x')",
                entity("t", "',RowKey='", "x"),
            ),
            ("t(PartitionKey='a/b',RowKey='c')", entity("t", "a/b", "c")),
            (
                "t/$batch",
                Resource::BelowTable {
                    table: "t".to_owned(),
                    below: Below::Batch,
                },
            ),
            (
                "t/Tables",
                Resource::BelowTable {
                    table: "t".to_owned(),
                    below: Below::Set,
                },
            ),
            (
                "t/Tables('t')",
                Resource::BelowTable {
                    table: "t".to_owned(),
                    below: Below::Element,
                },
            ),
            ("t/", Resource::Entities("t".to_owned())),
        ] {
            assert_eq!(Resource::parse(path).unwrap(), expected, "{path}");
        }
        for path in [
            "Tables('a",
            "t(",
            "t('a')",
            "t(PartitionKey='a')",
            "t(PartitionKey='a',PartitionKey='b')",
            "t(PartitionKey='a',RowKey='b')x",
            "t(PartitionKey='a',RowKey='b'x)",
            "%FF",
            "Tables('a'b)",
        ] {
            assert!(Resource::parse(path).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_or_refused(path in "\\PC{0,60}", query in "\\PC{0,60}") {
            let _ = Resource::parse(&path);
            let _ = Address::parse("http", "h", &path, Some(&query), |_| false);
        }

        #[test]
        fn entity_paths_survive_a_round_trip(partition in "[^/\\\\#?\\p{Cc}]{0,9}", row in "[^/\\\\#?\\p{Cc}]{0,9}") {
            let path = entity_path(&TableName::new("abc").unwrap(), &Key::new(&partition, &row).unwrap());
            prop_assert_eq!(Resource::parse(&path).unwrap(), Resource::Entity("abc".to_owned(), partition, row));
        }
    }
}
