//! Where requests go, and how their addresses are written.

mod address;

use std::fmt;
use std::net::IpAddr;

pub(crate) use address::{Address, entity_path};
use azure_core::http::Url;
use table_core::{Error, Result};

use crate::Service;

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
    /// Whether requests are signed by a key, or carry a signature, that is a secret.
    secret: bool,
}

impl Endpoint {
    pub(crate) fn new(primary: &str, sas: Option<String>) -> Result<Self> {
        let url = parse(primary)?;
        if url.query().is_some() {
            return Err(invalid(primary, "it has a query; pass the URL of a SAS to `with_sas`"));
        }
        let host = url.host_str().unwrap_or_default();
        let cosmos = [".table.cosmos.", ".table.cosmosdb."].iter().any(|part| host.contains(part))
            || (is_loopback(&url) && url.port() == Some(COSMOS_EMULATOR_PORT));
        let secure = url.scheme() == "https";
        let (primary, secret) = (base(url), sas.is_some());
        Ok(Self { reads: primary.clone(), primary, secondary: None, sas, cosmos, secure, secret })
    }

    /// From the URL of an account or a table, with its SAS.
    pub(crate) fn from_sas_url(url: &str) -> Result<Self> {
        let (address, sas) = url.split_once('?').ok_or_else(|| invalid(url, "it has no SAS after a '?'"))?;
        let mut address = parse_part(address, url)?;
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

    /// Refuses to send a secret in the clear: over plain http anybody on the way reads the requests, and can use a
    /// signature for as long as it is good. Loopback leaves no machine; other hosts can be named.
    ///
    /// # Errors
    /// The scheme is `http`, and the host neither loopback nor named.
    pub(crate) fn check_plain_http(&self, allowed: &[String]) -> Result<()> {
        let addresses = [Some(&self.primary), Some(&self.reads), self.secondary.as_ref()];
        if !self.secret {
            return Ok(());
        }
        addresses.into_iter().flatten().try_for_each(|url| check_plain_http(url, allowed))
    }

    /// Says whether the key that signs requests is a secret.
    pub(crate) const fn set_secret(&mut self, secret: bool) {
        self.secret = secret;
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

/// The port of Table requests to the emulator of Azure Cosmos DB
/// (<https://learn.microsoft.com/azure/cosmos-db/emulator#api-support>).
const COSMOS_EMULATOR_PORT: u16 = 8902;

/// Whether a URL leads to this machine itself, by its text alone: a name can be resolved to anything.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

/// See [`Endpoint::check_plain_http`].
pub(crate) fn check_plain_http(url: &Url, allowed: &[String]) -> Result<()> {
    let host = url.host_str().unwrap_or_default();
    let is_allowed = || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(host));
    if url.scheme() == "https" || is_loopback(url) || is_allowed() {
        return Ok(());
    }
    Err(Error::invalid_request(format!(
        "an account key's or a shared access signature would go to '{host}' over plain http, where others can read and use it: \
         use https, or name the host in `plain_http_hosts`"
    )))
}

/// Whether a URL has a user's name or a password.
pub(crate) fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Reads an address of a service.
///
/// # Errors
/// It is not one of HTTP, or has a user's name or password.
pub(crate) fn parse(text: &str) -> Result<Url> {
    parse_part(text, text)
}

/// Reads an address that is a part of what was given.
fn parse_part(text: &str, given: &str) -> Result<Url> {
    let url = Url::parse(text).map_err(|_| invalid(given, "it is not a URL"))?;
    if has_userinfo(&url) {
        return Err(invalid(given, "a user's name or password in it is not used, and would be seen in logs"));
    }
    let known = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    if known {
        Ok(url)
    } else {
        Err(invalid(given, "it must start with https:// (or http:// for the emulator)"))
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

/// Without the query, which may hold a SAS, and not at all where it may hold a password.
fn invalid(endpoint: &str, reason: &str) -> Error {
    let shown = endpoint.split(['?', '#']).next().filter(|_| !endpoint.contains('@'));
    let shown = shown.map(|shown| format!(" {shown:?}")).unwrap_or_default();
    Error::invalid_request(format!("the endpoint{shown} cannot be used: {reason}"))
}

#[cfg(test)]
mod tests;
