use std::fmt;

use azure_core::http::Url;
use table_core::{Error, Result};

use crate::endpoint::has_userinfo;

use super::SharedKey;
use super::shared_key::STORAGE_EMULATOR_KEY;

/// A parsed connection string.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) endpoint: String,
    /// The secondary endpoint of the Table service; `None` for another service, or if the string does not determine it.
    pub(crate) secondary: Option<String>,
    pub(crate) secret: Secret,
}

/// The credential of a connection string.
#[derive(Debug)]
pub(crate) enum Secret {
    Key(SharedKey),
    Sas(Sas),
}

/// The query string of a shared access signature. `Debug` does not print it.
#[derive(Clone)]
pub(crate) struct Sas(pub(crate) String);

impl fmt::Debug for Sas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sas")
    }
}

/// The emulator's well-known account.
/// <https://learn.microsoft.com/azure/storage/common/storage-use-azurite#well-known-storage-account-and-key>
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";

impl Connection {
    /// Parses every documented form for one service (`Table` or `Queue`): an account key or a SAS, with an
    /// account name or with explicit endpoints, and the emulator.
    ///
    /// <https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string>
    pub(crate) fn parse(text: &str, service: &'static str) -> Result<Self> {
        if ["http://", "https://"]
            .iter()
            .any(|scheme| unquoted(text).starts_with(scheme))
        {
            return Err(Error::invalid_argument(
                "this is a URL, not a connection string; use `with_sas`, `with_shared_key` or `new` with it",
            ));
        }
        let settings = Settings::parse(unquoted(text), service)?;
        if settings
            .get("UseDevelopmentStorage")
            .is_some_and(|v| v.eq_ignore_ascii_case("true"))
        {
            return emulator(
                settings
                    .get("DevelopmentStorageProxyUri")
                    .unwrap_or("http://127.0.0.1"),
                service,
            );
        }
        Ok(Self {
            endpoint: settings.endpoint()?,
            secondary: settings.secondary_endpoint()?,
            secret: settings.secret()?,
        })
    }
}

/// Returns the connection to the storage emulator behind `proxy`, at the service's default port
/// (<https://learn.microsoft.com/azure/storage/common/storage-use-azurite>).
fn emulator(proxy: &str, service: &str) -> Result<Connection> {
    let port = if service == "Queue" { 10001 } else { 10002 };
    let base = format!("{}:{port}/{EMULATOR_ACCOUNT}", without_port(proxy)?);
    let secret = Secret::Key(SharedKey::new(EMULATOR_ACCOUNT, STORAGE_EMULATOR_KEY)?);
    let secondary = (service == "Table").then(|| format!("{base}-secondary"));
    Ok(Connection {
        endpoint: base,
        secondary,
        secret,
    })
}

/// Returns scheme and host of the emulator's proxy without its port: each service of the emulator has its own.
fn without_port(proxy: &str) -> Result<String> {
    let url = Url::parse(proxy)
        .ok()
        .filter(|url| url.has_host() && !has_userinfo(url));
    let url = url.ok_or_else(|| {
        Error::invalid_argument(
            "DevelopmentStorageProxyUri is not a usable URL; use the form http://127.0.0.1, without port and user name",
        )
    })?;
    Ok(format!(
        "{}://{}",
        url.scheme(),
        url.host_str().unwrap_or_default()
    ))
}

/// Quotation marks that shells and settings files write around a value.
const QUOTES: [char; 2] = ['"', '\''];

/// Returns the text without the blanks and the pair of quotes around it.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    QUOTES.into_iter().find_map(within).map_or(text, str::trim)
}

/// Settings in the form `Name=value;…`. Names are compared without case.
struct Settings<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    service: &'static str,
}

impl<'a> Settings<'a> {
    fn parse(text: &'a str, service: &'static str) -> Result<Self> {
        let parts = text
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        // Split at the first `=`: base64 keys and signatures contain further `=`.
        let pairs = parts.map(|part| part.split_once('=').ok_or_else(malformed));
        let pairs: Vec<(&str, &str)> = pairs.collect::<Result<_>>()?;
        // A setting behind a quote would be ignored, and its default would take its place.
        if pairs.iter().any(|(name, _)| name.contains(QUOTES)) {
            return Err(malformed());
        }
        Ok(Self { pairs, service })
    }

    /// Returns the value of a setting; `None` if it is missing or empty.
    fn get(&self, name: &str) -> Option<&'a str> {
        let found = self
            .pairs
            .iter()
            .find(|(n, _)| n.trim().eq_ignore_ascii_case(name));
        found
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    }

    fn endpoint(&self) -> Result<String> {
        let name = format!("{}Endpoint", self.service);
        let given = self.get(&name).map(str::to_owned);
        let given = given.map_or_else(|| self.account_host(""), |given| Ok(Some(given)))?;
        given.ok_or_else(|| missing(&format!("{name} or AccountName")))
    }

    fn secondary_endpoint(&self) -> Result<Option<String>> {
        if self.service != "Table" {
            return Ok(None);
        }
        if let Some(given) = self.get("TableSecondaryEndpoint") {
            return Ok(Some(given.to_owned()));
        }
        // The name of the secondary endpoint follows from the account's name only for the standard domains.
        if self.get("TableEndpoint").is_some() {
            Ok(None)
        } else {
            self.account_host("-secondary")
        }
    }

    /// Returns the URL of the account in the standard domains. `suffix` follows the account name.
    ///
    /// # Errors
    /// Fails if a setting cannot be a part of this URL, which would then lead to another host.
    fn account_host(&self, suffix: &str) -> Result<Option<String>> {
        let Some(account) = self.get("AccountName") else {
            return Ok(None);
        };
        let protocol = self.get("DefaultEndpointsProtocol").unwrap_or("https");
        let domain = self
            .get("EndpointSuffix")
            .unwrap_or("core.windows.net")
            .trim_start_matches('.');
        let is_label = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        for (name, is_usable) in [
            ("AccountName", is_label(account)),
            ("EndpointSuffix", domain.split('.').all(is_label)),
            (
                "DefaultEndpointsProtocol",
                ["http", "https"]
                    .iter()
                    .any(|p| protocol.eq_ignore_ascii_case(p)),
            ),
        ] {
            if !is_usable {
                return Err(Error::invalid_argument(format!(
                    "the {name} of the connection string cannot be a part of the account's URL; copy the whole string, as the portal shows it"
                )));
            }
        }
        let service = self.service.to_lowercase();
        Ok(Some(format!(
            "{protocol}://{account}{suffix}.{service}.{domain}"
        )))
    }

    fn secret(&self) -> Result<Secret> {
        // A string with both a SAS and a key uses the SAS, which has fewer permissions.
        if let Some(sas) = self.get("SharedAccessSignature") {
            return Ok(Secret::Sas(Sas(sas.trim_start_matches('?').to_owned())));
        }
        let account = self
            .get("AccountName")
            .ok_or_else(|| missing("AccountName"))?;
        let key = self
            .get("AccountKey")
            .ok_or_else(|| missing("AccountKey or SharedAccessSignature"))?;
        SharedKey::new(account, key).map(Secret::Key)
    }
}

fn malformed() -> Error {
    Error::invalid_argument(
        "a part of the connection string is not Name=value (parts are separated by ';'); copy the whole string, as the \
         portal shows it",
    )
}

fn missing(setting: &str) -> Error {
    Error::invalid_argument(format!(
        "the connection string has no {setting}; copy the whole string, as the portal shows it"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Connection {
        Connection::parse(text, "Table").unwrap()
    }

    #[test]
    fn account_key_and_suffix() {
        let c = parse("DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5==;EndpointSuffix=core.chinacloudapi.cn".replace("==;", ";").as_str());
        assert_eq!(c.endpoint, "https://acc.table.core.chinacloudapi.cn");
        assert_eq!(
            c.secondary.as_deref(),
            Some("https://acc-secondary.table.core.chinacloudapi.cn")
        );
        assert!(matches!(c.secret, Secret::Key(key) if key.account() == "acc"));
        assert_eq!(
            parse("accountname=acc;accountkey=a2V5").endpoint,
            "https://acc.table.core.windows.net"
        );
    }

    #[test]
    fn quotes_and_dots_lead_to_the_same_account() {
        let text = "AccountName=acc;AccountKey=a2V5;EndpointSuffix=.core.windows.net";
        for text in [
            text.to_owned(),
            format!("\"{text}\""),
            format!(" '{text};' \n"),
        ] {
            let c = parse(&text);
            assert_eq!(c.endpoint, "https://acc.table.core.windows.net", "{text}");
            assert_eq!(
                c.secondary.as_deref(),
                Some("https://acc-secondary.table.core.windows.net")
            );
        }
        for (text, name) in [
            ("\"AccountName=acc;AccountKey=a2V5", "Name=value"),
            (
                "'DefaultEndpointsProtocol=http;AccountName=acc;AccountKey=a2V5",
                "Name=value",
            ),
            ("AccountName=\"acc\";AccountKey=a2V5", "AccountName"),
            (
                "AccountName=acc.evil.example/;AccountKey=a2V5",
                "AccountName",
            ),
            (
                "AccountName=acc;AccountKey=a2V5;EndpointSuffix=core..net",
                "EndpointSuffix",
            ),
            (
                "AccountName=acc;AccountKey=a2V5;EndpointSuffix=core.windows.net/x",
                "EndpointSuffix",
            ),
            (
                "DefaultEndpointsProtocol=ftp;AccountName=acc;AccountKey=a2V5",
                "DefaultEndpointsProtocol",
            ),
        ] {
            let error = Connection::parse(text, "Table").unwrap_err().to_string();
            assert!(error.contains(name), "{text}: {error}");
        }
    }

    #[test]
    fn sas_and_endpoints() {
        let c = parse(
            "TableEndpoint=https://acc.table.core.windows.net/;SharedAccessSignature=?sv=1&sig=a%3D;",
        );
        assert_eq!(c.endpoint.as_str(), "https://acc.table.core.windows.net/");
        assert_eq!(c.secondary, None);
        assert!(matches!(c.secret, Secret::Sas(Sas(sas)) if sas == "sv=1&sig=a%3D"));
    }

    /// <https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string#create-a-connection-string-for-an-explicit-storage-endpoint>
    #[test]
    fn explicit_endpoints_of_every_service_and_a_secondary() {
        let c = parse(
            "DefaultEndpointsProtocol=https;BlobEndpoint=http://b;FileEndpoint=http://f;QueueEndpoint=http://q;\
            TableEndpoint=https://orders.example;TableSecondaryEndpoint=https://orders-2.example;AccountName=acc;AccountKey=a2V5",
        );
        assert_eq!(c.endpoint, "https://orders.example");
        assert_eq!(c.secondary.as_deref(), Some("https://orders-2.example"));
        let c = parse(
            "AccountName=acc;SharedAccessSignature=sv=1&sig=x;EndpointSuffix=core.usgovcloudapi.net",
        );
        assert_eq!(c.endpoint, "https://acc.table.core.usgovcloudapi.net");
        assert_eq!(
            parse("DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5").endpoint,
            "http://a.table.core.windows.net"
        );
    }

    #[test]
    fn cosmos() {
        let c = parse(
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=a2V5;TableEndpoint=https://a.table.cosmos.azure.com:443/;",
        );
        assert_eq!(c.endpoint, "https://a.table.cosmos.azure.com:443/");
    }

    #[test]
    fn queue_endpoints_differ_from_table_endpoints() {
        let parse = |text| Connection::parse(text, "Queue").unwrap().endpoint;
        assert_eq!(
            parse("AccountName=a;AccountKey=a2V5"),
            "https://a.queue.core.windows.net"
        );
        assert_eq!(
            parse("AccountName=a;AccountKey=a2V5;QueueEndpoint=http://q/a"),
            "http://q/a"
        );
        assert_eq!(
            parse("UseDevelopmentStorage=true"),
            "http://127.0.0.1:10001/devstoreaccount1"
        );
        for text in [
            "AccountName=a;AccountKey=a2V5",
            "UseDevelopmentStorage=true",
        ] {
            assert_eq!(
                Connection::parse(text, "Queue").unwrap().secondary,
                None,
                "{text}"
            );
        }
    }

    #[test]
    fn emulator_and_its_proxy() {
        assert_eq!(
            parse("UseDevelopmentStorage=true").endpoint,
            "http://127.0.0.1:10002/devstoreaccount1"
        );
        let proxied = parse("UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://box");
        assert_eq!(
            proxied.secondary.as_deref(),
            Some("http://box:10002/devstoreaccount1-secondary")
        );
        for proxy in ["http://box/", "http://box:8888", "http://box:8888/path"] {
            let text = format!("UseDevelopmentStorage=true;DevelopmentStorageProxyUri={proxy}");
            assert_eq!(
                parse(&text).endpoint,
                "http://box:10002/devstoreaccount1",
                "{proxy}"
            );
        }
        let v6 = parse("UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://[::1]:8888");
        assert_eq!(v6.endpoint, "http://[::1]:10002/devstoreaccount1");
        let text = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=box";
        let error = Connection::parse(text, "Table").unwrap_err().to_string();
        assert!(error.contains("DevelopmentStorageProxyUri"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_without_showing_secrets(text in setting_pieces()) {
            for text in [format!("{text};AccountKey=se7en"), format!("SharedAccessSignature=se7en;{text}")] {
                for service in ["Table", "Queue"] {
                    let shown = match Connection::parse(&text, service) {
                        Ok(connection) => format!("{:?}", connection.secret),
                        Err(error) => error.to_string(),
                    };
                    prop_assert!(!shown.contains("se7en"), "{}: {}", text, shown);
                }
            }
        }
    }

    /// Settings with arbitrary values, mixed with arbitrary text.
    fn setting_pieces() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec![
            "AccountName",
            "DefaultEndpointsProtocol",
            "EndpointSuffix",
            "TableEndpoint",
            "QueueEndpoint",
            "TableSecondaryEndpoint",
            "UseDevelopmentStorage",
            "DevelopmentStorageProxyUri",
        ]);
        let setting = (name, any::<String>()).prop_map(|(name, value)| format!("{name}={value}"));
        let piece = prop_oneof![4 => setting, 1 => any::<String>()];
        prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.join(";"))
    }

    #[test]
    fn errors_name_the_missing_setting_and_show_no_values() {
        for (text, expected) in [
            ("AccountKey=se7en", "AccountName"),
            ("AccountName=a", "AccountKey"),
            ("AccountName=a;AccountKey=se7en!", "base64"),
            ("AccountName=a;se7en", "Name=value"),
            ("", "TableEndpoint"),
            ("https://acc.table.core.windows.net/?sig=se7en", "with_sas"),
        ] {
            let message = Connection::parse(text, "Table").unwrap_err().to_string();
            assert!(
                message.contains(expected) && !message.contains("se7en"),
                "{text}: {message}"
            );
        }
        assert!(
            !format!(
                "{:?}",
                parse("AccountName=a;SharedAccessSignature=sig=se7en")
            )
            .contains("se7en")
        );
    }
}
