//! Endpoints of an account, and request URLs.

mod address;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;

pub(crate) use address::{Address, entity_path};
use azure_core::http::Url;
use table_core::model::{MANIFEST_PARTITION, key_order};
use table_core::{Error, Result};

/// The two services that speak the Table protocol. They differ in limits, order and the HTTP verb of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Azure Cosmos DB if the host name is one of its names, if the account key is its emulator's, or if the
    /// address is its emulator's on this machine (port 8902). Azure Table Storage otherwise.
    #[default]
    ByEndpoint,
    /// Azure Table Storage, for example behind a custom domain.
    TableStorage,
    /// Azure Cosmos DB for Table, for example its emulator.
    CosmosDb,
}

/// The endpoint that reads go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The primary endpoint, which also takes the writes.
    #[default]
    Primary,
    /// The read-only copy of a geo-redundant account. It may lag minutes behind, so a read may not see an
    /// earlier write. Retries with write ids, journals, indexes, table queues and eventual transactions need
    /// to read their own writes: they refuse such a store. Open a second store for reports.
    Secondary,
}

/// The endpoints of an account, and its SAS if there is one. `Debug` does not print the SAS.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// The account's URL, with a slash at its end.
    primary: Url,
    /// The URL of reads: the primary or the secondary endpoint.
    reads: Url,
    /// The secondary endpoint that the caller gave; otherwise it is derived from `primary`.
    secondary: Option<Url>,
    sas: Option<String>,
    /// Whether the SAS is limited to a range of keys that does not contain the whole partition of the manifest.
    hides_manifest: bool,
    /// Whether the service is Azure Cosmos DB.
    pub(crate) is_cosmos: bool,
    /// Whether requests may be sent over https only, also to this machine: tokens.
    pub(crate) requires_https: bool,
    /// Whether requests carry a secret: a signature by a secret account key, or a SAS. The keys of the emulators are published.
    pub(crate) carries_secret: bool,
}

impl Endpoint {
    /// Creates an endpoint from the URL of an account. The host name decides whether the service is Azure Cosmos DB.
    pub(crate) fn new(primary: &str, sas: Option<String>) -> Result<Self> {
        let url = parse_url(primary)?;
        if url.query().is_some() {
            return Err(invalid(
                primary,
                "the URL has a query; pass a URL with a SAS to `with_sas`",
            ));
        }
        if is_service_domain(&url) && url.path() != "/" {
            return Err(invalid(
                primary,
                "the URL of an account at this host has no path; leave out the table, which each request names",
            ));
        }
        let sas = sas.map(|sas| checked_sas(&sas, primary)).transpose()?;
        let host = url.host_str().unwrap_or_default();
        let is_cosmos = [".table.cosmos.", ".table.cosmosdb."]
            .iter()
            .any(|part| host.contains(part))
            || (is_loopback(&url) && url.port() == Some(COSMOS_EMULATOR_PORT));
        let (primary, carries_secret) = (with_trailing_slash(url), sas.is_some());
        let hides_manifest = sas.as_deref().is_some_and(hides_manifest);
        let reads = primary.clone();
        Ok(Self {
            reads,
            primary,
            secondary: None,
            sas,
            hides_manifest,
            is_cosmos,
            requires_https: false,
            carries_secret,
        })
    }

    /// Creates an endpoint from the URL of an account or a table, with a SAS.
    pub(crate) fn from_sas_url(url: &str) -> Result<Self> {
        let (address, sas) = url
            .split_once('?')
            .ok_or_else(|| invalid(url, "the URL has no SAS after a '?'"))?;
        let address = account_url(parse_address(address, url)?, &checked_sas(sas, url)?, url)?;
        Self::new(address.as_str(), Some(sas.to_owned()))
    }

    /// Sets the service explicitly, where the host name does not identify it.
    pub(crate) const fn with_service(mut self, service: Service) -> Self {
        match service {
            Service::ByEndpoint => {}
            Service::TableStorage => self.is_cosmos = false,
            Service::CosmosDb => self.is_cosmos = true,
        }
        self
    }

    /// Refuses to send a secret over plain http to another machine: anyone on the network can read the
    /// requests and reuse the signature until it expires. Loopback is allowed, and the caller can allow other
    /// hosts.
    ///
    /// # Errors
    /// Fails if the scheme is `http` and the host is neither loopback nor in `allowed`, or if https is required.
    pub(crate) fn check_http(&self, allowed: &[String]) -> Result<()> {
        let addresses = [
            Some(&self.primary),
            Some(&self.reads),
            self.secondary.as_ref(),
        ];
        if let Some(url) = addresses
            .iter()
            .flatten()
            .find(|url| self.requires_https && url.scheme() != "https")
        {
            let host = url.host_str().unwrap_or_default();
            return Err(Error::invalid_argument(format!(
                "tokens are sent and requested over https only; use an https:// endpoint for '{host}'"
            )));
        }
        if !self.carries_secret {
            return Ok(());
        }
        addresses
            .into_iter()
            .flatten()
            .try_for_each(|url| check_plain_http(url, allowed))
    }

    /// Sets the endpoint that reads go to, and the secondary endpoint if it does not have the default name.
    pub(crate) fn with_reads_from(
        mut self,
        from: ReadFrom,
        secondary: Option<&str>,
    ) -> Result<Self> {
        self.secondary = secondary
            .map(|given| parse_url(given).map(with_trailing_slash))
            .transpose()?;
        self.reads = match from {
            ReadFrom::Primary => self.primary.clone(),
            ReadFrom::Secondary => self.secondary_url()?,
        };
        Ok(self)
    }

    fn secondary_url(&self) -> Result<Url> {
        self.secondary
            .clone()
            .map_or_else(|| secondary_of(&self.primary), Ok)
    }

    /// Whether the SAS covers only a part of a table's manifest. A query of the manifest would then miss rows without an error.
    pub(crate) const fn hides_manifest(&self) -> bool {
        self.hides_manifest
    }

    /// Returns the URLs that requests may go to. The secondary endpoint is missing if none can be derived.
    #[cfg(feature = "reqwest_rustls")]
    pub(crate) fn all_urls(&self) -> Vec<Url> {
        let mut urls = vec![self.primary.clone(), self.reads.clone()];
        urls.extend(self.secondary_url());
        urls
    }

    /// Returns the root of the secondary endpoint, independent of where reads go.
    pub(crate) fn secondary(&self) -> Result<Address<'_>> {
        self.secondary_url()
            .map(|base| Address::new(&base, "", self.sas.as_deref()))
    }

    /// Returns the account's URL. The URLs of entities in a group transaction start with it.
    pub(crate) const fn root(&self) -> &Url {
        &self.primary
    }

    /// Returns a URL to write to. `path` is appended to the account's URL and must be encoded.
    pub(crate) fn write_to(&self, path: &str) -> Address<'_> {
        Address::new(&self.primary, path, self.sas.as_deref())
    }

    /// Whether a request goes to the secondary endpoint.
    pub(crate) fn is_secondary(&self, url: &Url) -> bool {
        !url.as_str().starts_with(self.primary.as_str())
    }

    /// Returns a URL to read rows of this partition from. Writers rely on the manifest, and a copy may be behind: the manifest is
    /// read from the primary endpoint only.
    pub(crate) fn read_partition(&self, path: &str, partition: Option<&str>) -> Address<'_> {
        if partition == Some(MANIFEST_PARTITION) {
            self.write_to(path)
        } else {
            self.read_from(path)
        }
    }

    /// Returns a URL to read from.
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

/// Whether the host is an account in a domain of the services, such as `acc.table.core.windows.net`: then the path names no account.
fn is_service_domain(url: &Url) -> bool {
    url.domain()
        .is_some_and(|domain| domain.contains(".table."))
}

/// Returns the SAS without the `?` with which the portal shows it. Errors show `url`, without its query.
///
/// # Errors
/// Fails if the text has no signature.
pub(crate) fn checked_sas(sas: &str, url: &str) -> Result<String> {
    let sas = sas.trim().trim_start_matches('?');
    if query_pairs(sas).any(|(name, value)| name == "sig" && !value.is_empty()) {
        return Ok(sas.to_owned());
    }
    Err(invalid(
        url,
        "the shared access signature has no `sig`; copy the whole text, as the portal shows it",
    ))
}

/// Returns the URL of the account for a URL of the account or of a table. The portal and other tools give the URL of the table; requests
/// append the table to the URL of the account. Errors show `shown`.
///
/// A service's own domain has the account in the host name. At an address such as 127.0.0.1, the account is the first part of the path.
/// Elsewhere only a SAS for a table says what the last part of the path is.
fn account_url(mut url: Url, sas: &str, shown: &str) -> Result<Url> {
    let parts: Vec<_> = url
        .path()
        .split('/')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    let table = query_pairs(sas)
        .find(|(name, _)| name == "tn")
        .map(|(_, value)| value);
    let is_address = url
        .domain()
        .is_none_or(|domain| domain.eq_ignore_ascii_case("localhost"));
    let account_parts = if is_service_domain(&url) {
        0
    } else if is_address {
        parts.len().min(1)
    } else {
        let last = parts.last().map(|last| last.trim_end_matches("()"));
        let names_table = last
            .zip(table.as_deref())
            .is_some_and(|(last, table)| last.eq_ignore_ascii_case(table));
        parts.len() - usize::from(names_table)
    };
    if parts.len() > account_parts + 1 {
        return Err(invalid(
            shown,
            "its path has more than a table; pass the URL of the account or of a table",
        ));
    }
    url.set_path(&parts[..account_parts].join("/"));
    Ok(url)
}

/// The port of Table requests to the emulator of Azure Cosmos DB
/// (<https://learn.microsoft.com/azure/cosmos-db/emulator#api-support>).
const COSMOS_EMULATOR_PORT: u16 = 8902;

/// Whether a URL addresses this machine. Checks only the text and resolves no name: a name could resolve to any machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse()
            .is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

/// See [`Endpoint::check_http`].
pub(crate) fn check_plain_http(url: &Url, allowed: &[String]) -> Result<()> {
    let host = url.host_str().unwrap_or_default();
    let is_allowed = || {
        allowed
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(host))
    };
    if url.scheme() == "https" || is_loopback(url) || is_allowed() {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "a request with a signature (account key or SAS) would go to '{host}' over plain http, where others can read and reuse it; \
         use https, or name the host in `plain_http_hosts`"
    )))
}

/// Whether a URL contains a user name or a password.
pub(crate) fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Parses the URL of a service.
///
/// # Errors
/// Fails if the scheme is not http or https, or if the URL contains a user name or password.
pub(crate) fn parse_url(text: &str) -> Result<Url> {
    parse_address(text, text)
}

/// Parses `address`. Errors show `shown`, the URL as the caller gave it.
fn parse_address(address: &str, shown: &str) -> Result<Url> {
    let url = Url::parse(address).map_err(|_| invalid(shown, "it is not a URL"))?;
    if has_userinfo(&url) {
        return Err(invalid(
            shown,
            "it contains a user name or password, which is not used and would appear in logs",
        ));
    }
    let known = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    if known {
        Ok(url)
    } else {
        Err(invalid(
            shown,
            "it must start with https:// (or http:// for the emulator)",
        ))
    }
}

/// Appends a slash, so that request paths can be appended.
fn with_trailing_slash(mut url: Url) -> Url {
    let path = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

/// Returns the secondary endpoint: `account-secondary` in the path if the account is in the path (the
/// emulator), otherwise in the host name.
fn secondary_of(primary: &Url) -> Result<Url> {
    let mut url = primary.clone();
    // `domain` is `None` for an address such as 127.0.0.1: the emulator has the account in the path.
    let host = primary.domain().filter(|_| primary.path() == "/");
    match host.and_then(|host| host.split_once('.')) {
        Some((account, domain)) => {
            let host = format!("{account}-secondary.{domain}");
            url.set_host(Some(&host)).map_err(|_| {
                invalid(
                    primary.as_str(),
                    "no secondary endpoint can be derived from it",
                )
            })?;
        }
        None => url.set_path(&format!(
            "{}-secondary/",
            primary.path().trim_end_matches('/')
        )),
    }
    Ok(url)
}

/// Whether a SAS is limited to a range of keys (`spk`, `srk`, `epk`, `erk`) without the whole partition of manifests: queries find what is in
/// the range alone (<https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-table-access-ranges>).
fn hides_manifest(sas: &str) -> bool {
    let pairs: Vec<_> = query_pairs(sas).collect();
    let field = |wanted: &str| {
        pairs
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
    };
    let order = |key: &str| key_order::compare(key, MANIFEST_PARTITION);
    let starts_late = field("spk").is_some_and(|spk| match order(spk) {
        Ordering::Less => false,
        Ordering::Equal => field("srk").is_some(),
        Ordering::Greater => true,
    });
    let ends_early = field("epk").is_some_and(|epk| match order(epk) {
        Ordering::Less => true,
        Ordering::Equal => field("erk").is_some(),
        Ordering::Greater => false,
    });
    starts_late || ends_early
}

/// Iterates over the pairs of a query string.
fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    // `Url` decodes queries of whole URLs only. The host is a placeholder.
    let url = Url::parse("http://localhost").map(|mut url| {
        url.set_query(Some(query));
        url
    });
    let pairs = url.map(|url| url.query_pairs().into_owned().collect::<Vec<_>>());
    pairs.unwrap_or_default().into_iter()
}

/// Returns the error of an endpoint that cannot be used. The message omits the query, which may be a SAS, and omits a URL that may
/// contain a password.
fn invalid(endpoint: &str, reason: &str) -> Error {
    // A user name or password is before an `@`; a text that cannot be parsed may have it anywhere.
    let shown = endpoint
        .split(['?', '#'])
        .next()
        .filter(|_| !endpoint.contains('@'));
    let shown = shown.map(|shown| format!(" {shown:?}")).unwrap_or_default();
    Error::invalid_argument(format!("the endpoint{shown} cannot be used: {reason}"))
}
