//! Where requests go, and how their addresses are written.

use std::fmt;

use azure_core::http::Url;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use table_core::model::{Key, TableName};
use table_core::{Error, Result};

use crate::Service;

/// Everything but RFC 3986's unreserved characters is encoded: nothing on the way can read it in two ways.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Which of an account's two endpoints reads go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The one that writes go to.
    #[default]
    Primary,
    /// The read-only copy of a geo-redundant account. It may lag behind by minutes, so that a write is not seen by the
    /// read after it. What relies on that refuses such a store: retries with write ids, journals, indexes, queues in a
    /// table, eventually consistent transactions. Open a second store for reports.
    Secondary,
}

/// The addresses of an account, and its SAS if it has one. The SAS is never printed.
#[derive(Clone)]
pub(crate) struct Endpoint {
    primary: Url,
    reads: Url,
    secondary: Option<Url>,
    sas: Option<String>,
    pub(crate) cosmos: bool,
    pub(crate) secure: bool,
}

impl Endpoint {
    pub(crate) fn new(primary: &str, sas: Option<String>) -> Result<Self> {
        let url = parse(primary)?;
        if url.query().is_some() {
            return Err(invalid(primary, "it has a query; pass the URL of a SAS to `with_sas`"));
        }
        let host = url.host_str().unwrap_or_default();
        let cosmos = [".table.cosmos.", ".table.cosmosdb."].iter().any(|part| host.contains(part));
        let secure = url.scheme() == "https";
        let primary = base(url);
        Ok(Self { reads: primary.clone(), primary, secondary: None, sas, cosmos, secure })
    }

    /// From the URL of an account or a table, with its SAS.
    pub(crate) fn from_sas_url(url: &str) -> Result<Self> {
        let (address, sas) = url.split_once('?').ok_or_else(|| invalid(url, "it has no SAS after a '?'"))?;
        let mut address = parse(address)?;
        let table = query_pairs(sas).find(|(name, _)| name == "tn").map(|(_, value)| value);
        let last = address.path_segments().and_then(|mut segments| segments.next_back());
        if table.is_some_and(|table| last.is_some_and(|last| last.eq_ignore_ascii_case(&table))) {
            address.path_segments_mut().map_err(|()| invalid(url, "it has no path"))?.pop();
        }
        Self::new(address.as_str(), Some(sas.to_owned()))
    }

    /// The same addresses of a service that the caller knows better.
    pub(crate) const fn of(mut self, service: Service) -> Self {
        match service {
            Service::ByEndpoint => {}
            Service::TableStorage => self.cosmos = false,
            Service::CosmosDb => self.cosmos = true,
        }
        self
    }

    /// The same account with its secondary, where that has not the usual name, and its reads going where
    /// `from` says.
    pub(crate) fn reading(mut self, from: ReadFrom, secondary: Option<&str>) -> Result<Self> {
        self.secondary = secondary.map(|given| parse(given).map(base)).transpose()?;
        self.reads = match from {
            ReadFrom::Primary => self.primary.clone(),
            ReadFrom::Secondary => self.secondary_base()?,
        };
        Ok(self)
    }

    fn secondary_base(&self) -> Result<Url> {
        self.secondary.clone().map_or_else(|| secondary_of(&self.primary), Ok)
    }

    /// The root of the secondary, wherever reads go.
    pub(crate) fn secondary(&self) -> Result<Address<'_>> {
        self.secondary_base().map(|base| Address::new(&base, "", self.sas.as_deref()))
    }

    /// The account's address; those of entities inside a group transaction start with it.
    pub(crate) const fn root(&self) -> &Url {
        &self.primary
    }

    /// An address to write to. `path` comes after the account, encoded.
    pub(crate) fn write_to(&self, path: &str) -> Address<'_> {
        Address::new(&self.primary, path, self.sas.as_deref())
    }

    /// An address to read from.
    pub(crate) fn read_from(&self, path: &str) -> Address<'_> {
        Address::new(&self.reads, path, self.sas.as_deref())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("primary", &self.primary.as_str())
            .field("reads", &self.reads.as_str())
            .finish_non_exhaustive()
    }
}

/// An address that is being written: path, then query. The server in it is parsed once, with the endpoint.
pub(crate) struct Address<'a> {
    url: Url,
    query: String,
    sas: Option<&'a str>,
}

impl<'a> Address<'a> {
    fn new(base: &Url, path: &str, sas: Option<&'a str>) -> Self {
        let mut url = base.clone();
        url.set_path(&[base.path(), path].concat());
        Self { url, query: String::new(), sas }
    }

    /// Adds a query parameter, encoding its value.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.separate();
        self.query.push_str(name);
        self.query.push('=');
        self.query.extend(utf8_percent_encode(value, ENCODED));
        self
    }

    pub(crate) fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn separate(&mut self) {
        if !self.query.is_empty() {
            self.query.push('&');
        }
    }

    pub(crate) fn into_url(mut self) -> Url {
        if let Some(sas) = self.sas {
            self.separate();
            self.query.push_str(sas);
        }
        if !self.query.is_empty() {
            self.url.set_query(Some(&self.query));
        }
        self.url
    }
}

/// `Table(PartitionKey='…',RowKey='…')`, quotes doubled, everything else encoded.
pub(crate) fn entity_path(table: &TableName, key: &Key) -> String {
    let mut path = String::with_capacity(64 + key.partition().len() + key.row().len());
    path.push_str(table.as_str());
    path.push_str("(PartitionKey='");
    push_literal(&mut path, key.partition());
    path.push_str("',RowKey='");
    push_literal(&mut path, key.row());
    path.push_str("')");
    path
}

fn push_literal(path: &mut String, text: &str) {
    for (n, part) in text.split('\'').enumerate() {
        if n > 0 {
            path.push_str("%27%27");
        }
        path.extend(utf8_percent_encode(part, ENCODED));
    }
}

fn parse(text: &str) -> Result<Url> {
    let url = Url::parse(text).map_err(|_| invalid(text, "it is not a URL"))?;
    let known = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    if known {
        Ok(url)
    } else {
        Err(invalid(text, "it must start with https:// (or http:// for the emulator)"))
    }
}

/// With a slash at its end, where the path of a request goes on.
fn base(mut url: Url) -> Url {
    let path = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

/// `account-secondary` in the path, where the account is in it (the emulator), otherwise in the host.
fn secondary_of(primary: &Url) -> Result<Url> {
    let mut url = primary.clone();
    let host = primary.domain().filter(|_| primary.path() == "/");
    match host.and_then(|host| host.split_once('.')) {
        Some((account, domain)) => {
            let host = format!("{account}-secondary.{domain}");
            url.set_host(Some(&host)).map_err(|_| invalid(primary.as_str(), "it has no secondary"))?;
        }
        None => url.set_path(&format!("{}-secondary/", primary.path().trim_end_matches('/'))),
    }
    Ok(url)
}

/// The pairs of a query string.
fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let url = Url::parse("http://localhost").map(|mut url| {
        url.set_query(Some(query));
        url
    });
    let pairs = url.map(|url| url.query_pairs().into_owned().collect::<Vec<_>>());
    pairs.unwrap_or_default().into_iter()
}

/// Without the query: it may hold a SAS.
fn invalid(endpoint: &str, reason: &str) -> Error {
    let shown = endpoint.split('?').next().unwrap_or_default();
    Error::invalid_request(format!("the endpoint {shown:?} cannot be used: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_path(partition: &str, row: &str) -> String {
        entity_path(&TableName::new("T1x").unwrap(), &Key::new(partition, row).unwrap())
    }

    #[test]
    fn every_legal_character_of_a_key_is_encoded() {
        assert_eq!(key_path("", ""), "T1x(PartitionKey='',RowKey='')");
        assert_eq!(key_path("o'x", "a b"), "T1x(PartitionKey='o%27%27x',RowKey='a%20b')");
        assert_eq!(
            key_path("50%", "%2F+&=\"<>"),
            "T1x(PartitionKey='50%25',RowKey='%252F%2B%26%3D%22%3C%3E')"
        );
        assert_eq!(key_path("é", "\u{1F600}"), "T1x(PartitionKey='%C3%A9',RowKey='%F0%9F%98%80')");
        assert_eq!(key_path("..", "."), "T1x(PartitionKey='..',RowKey='.')");
    }

    #[test]
    fn parsing_the_address_changes_nothing() {
        let endpoint = Endpoint::new("http://127.0.0.1:1/acc", None).unwrap();
        let path = key_path("o'x%/".trim_end_matches('/'), "..");
        let url = endpoint.write_to(&path).into_url();
        assert_eq!(url.as_str(), format!("http://127.0.0.1:1/acc/{path}"));
    }

    #[test]
    fn the_sas_ends_every_query() {
        let endpoint = Endpoint::from_sas_url("https://a.table.core.windows.net/?sv=1&sig=x%3D").unwrap();
        let url = endpoint.read_from("T()").with("$top", "5").into_url();
        assert_eq!(url.as_str(), "https://a.table.core.windows.net/T()?$top=5&sv=1&sig=x%3D");
        assert!(!format!("{endpoint:?}").contains("sig"));
    }

    #[test]
    fn a_tables_sas_url_is_the_accounts() {
        let endpoint = Endpoint::from_sas_url("http://127.0.0.1:1/acc/Orders?tn=orders&sig=x").unwrap();
        assert_eq!(endpoint.write_to("T").into_url().as_str(), "http://127.0.0.1:1/acc/T?tn=orders&sig=x");
    }

    #[test]
    fn reads_can_go_to_the_secondary() {
        for (primary, expected) in [
            ("https://acc.table.core.windows.net", "https://acc-secondary.table.core.windows.net/T"),
            ("http://127.0.0.1:10002/acc", "http://127.0.0.1:10002/acc-secondary/T"),
            ("http://localhost:10002/acc/", "http://localhost:10002/acc-secondary/T"),
            ("http://azurite.local:10002/acc", "http://azurite.local:10002/acc-secondary/T"),
        ] {
            let endpoint = Endpoint::new(primary, None).unwrap().reading(ReadFrom::Secondary, None).unwrap();
            assert_eq!(endpoint.read_from("T").into_url().as_str(), expected);
            assert!(!endpoint.write_to("T").into_url().as_str().contains("secondary"));
        }
    }

    #[test]
    fn cosmos_is_known_by_its_host() {
        assert!(Endpoint::new("https://a.table.cosmos.azure.com:443/", None).unwrap().cosmos);
        assert!(!Endpoint::new("https://a.table.core.windows.net", None).unwrap().cosmos);
    }

    #[test]
    fn bad_endpoints_are_refused_without_their_query() {
        for text in ["acc", "ftp://x", "https://x?sig=se7en", ""] {
            assert!(!Endpoint::new(text, None).unwrap_err().to_string().contains("se7en"));
        }
    }
}
