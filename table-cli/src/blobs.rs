//! Blobs of large entities, in directories of this machine and in containers; backups in directories.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path as FilePath, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use clap::Args;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore};

use crate::failure::{Failure, Result};
use crate::store::{StoreName, has_secret};

/// The blobs of large entities.
#[derive(Debug, Args)]
pub(crate) struct BlobArgs {
    /// The place of the blobs of large entities: the root in `LargeOptions`, with a directory for each table. A directory, or a
    /// container: azure:CONTAINER/ROOT, azurite:…, env:NAME:…, or https://ACCOUNT.blob.core.windows.net/CONTAINER/ROOT
    #[arg(long, value_name = "PLACE")]
    pub(crate) blobs: Option<BlobPlace>,
    /// Rows alone, without the blobs of large entities: take the blobs by another tool, such as AzCopy
    #[arg(long, conflicts_with = "blobs")]
    pub(crate) rows_only: bool,
}

/// A place of blobs as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlobPlace {
    Directory(PathBuf),
    /// A container in an account with a connection string, and the root of the blobs in it.
    Container {
        account: StoreName,
        container: String,
        root: String,
    },
    /// The URL of a container, and the root of the blobs in it, with the sign-in of the environment.
    Url {
        container: String,
        root: String,
    },
}

impl FromStr for BlobPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if has_secret(text) {
            return Err("a signature belongs in the environment or a file".to_owned());
        }
        let within = |place: &str| {
            let (container, root) = place.split_once('/').unwrap_or((place, ""));
            // Blob names have no empty parts here, so a slash at the end means nothing.
            (container.to_owned(), root.trim_matches('/').to_owned())
        };
        if let Some(rest) = text.strip_prefix("https://") {
            let (host, place) = rest.split_once('/').unwrap_or((rest, ""));
            let (container, root) = within(place);
            return match container.is_empty() {
                true => Err("the URL names no container".to_owned()),
                false => Ok(Self::Url {
                    container: format!("https://{host}/{container}"),
                    root,
                }),
            };
        }
        let account = match text.split_once(':') {
            Some((name @ ("azure" | "azurite"), place)) => Some((name.to_owned(), place)),
            Some(("env", rest)) => rest
                .split_once(':')
                .map(|(name, place)| (format!("env:{name}"), place)),
            _ => None,
        };
        let Some((account, place)) = account else {
            return Ok(Self::Directory(text.into()));
        };
        let (container, root) = within(place);
        match container.is_empty() {
            true => Err(format!("name the container: {account}:CONTAINER/ROOT")),
            false => Ok(Self::Container {
                account: account.parse()?,
                container,
                root,
            }),
        }
    }
}

/// A [`BlobPlace`] has no secret.
impl fmt::Display for BlobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => write!(f, "{}", directory.display()),
            Self::Container {
                account,
                container,
                root,
            } => write!(f, "{account}:{container}/{root}"),
            Self::Url { container, root } => write!(f, "{container}/{root}"),
        }
    }
}

impl BlobPlace {
    /// Refuses a directory of a backup that has something else than files and directories: to open a pipe would wait for its writer. No
    /// request.
    pub(crate) fn check_files(&self) -> Result<()> {
        let Self::Directory(directory) = self else {
            return Ok(());
        };
        let mut left = vec![directory.clone()];
        while let Some(directory) = left.pop() {
            let failed = |error: std::io::Error| {
                Failure::failed(format!(
                    "the directory {} cannot be read: {error}",
                    directory.display()
                ))
            };
            let entries = match std::fs::read_dir(&directory) {
                // A backup creates it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                entries => entries.map_err(failed)?,
            };
            for entry in entries {
                let entry = entry.map_err(failed)?;
                let path = entry.path();
                // Links are not followed into directories, so that a loop of them ends.
                if entry.file_type().map_err(failed)?.is_dir() {
                    left.push(path);
                } else if std::fs::metadata(&path)
                    .is_ok_and(|there| !there.is_file() && !there.is_dir())
                {
                    return Err(Failure::Damaged(format!(
                        "{} is no file, and a backup has only files: nothing was read",
                        path.display()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Opens the place. Sends no request. `creates` creates a directory if it is missing; a container must exist.
    pub(crate) fn open(&self, creates: bool) -> Result<Arc<dyn ObjectStore>> {
        let failed =
            |error: &dyn fmt::Display| Failure::misuse(format!("the blobs {self}: {error}"));
        let (builder, root) = match self {
            Self::Directory(directory) => return open_directory(directory, creates),
            Self::Container {
                account,
                container,
                root,
            } => {
                let text = account.connection_string()?;
                (
                    builder_of_account(&text)
                        .map_err(|reason| failed(&reason))?
                        .with_container_name(container),
                    root,
                )
            }
            Self::Url { container, root } => (
                // `from_env` reads the settings `AZURE_…` of the library of the blobs: a key, an application,
                // or the token file of a workload identity.
                MicrosoftAzureBuilder::from_env()
                    .with_url(container)
                    .with_use_azure_cli(uses_azure_cli()),
                root,
            ),
        };
        // The errors of the builder name settings, and no values.
        let store = builder
            .with_http_connector(WithoutLocalProxy)
            .build()
            .map_err(|error| failed(&error))?;
        Ok(Arc::new(PrefixStore::new(store, root.as_str())))
    }
}

/// Connects requests to this machine directly: a proxy that the environment names would receive their signature over plain http.
#[derive(Debug)]
struct WithoutLocalProxy;

/// The hosts of this machine in the form of `NO_PROXY`.
const THIS_MACHINE: &str = "localhost,127.0.0.0/8,::1";

impl HttpConnector for WithoutLocalProxy {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let connector = ReqwestConnector::default();
        // The library of the blobs cannot ignore the proxies of the environment. A proxy of its own takes their place, and the list of
        // exceptions has every host that `direct` is used for.
        let without = options
            .clone()
            .with_proxy_url("http://localhost:9")
            .with_proxy_excludes(THIS_MACHINE);
        let (direct, other) = (connector.connect(&without)?, connector.connect(options)?);
        Ok(HttpClient::new(ByHost { direct, other }))
    }
}

#[derive(Debug)]
struct ByHost {
    /// For requests to this machine.
    direct: HttpClient,
    other: HttpClient,
}

#[async_trait]
impl HttpService for ByHost {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_local = request.uri().host().is_some_and(is_this_machine);
        if is_local {
            self.direct.execute(request).await
        } else {
            self.other.execute(request).await
        }
    }
}

/// Whether a host of a URL is this machine.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

/// A managed identity signs in if `AZURE_TOKEN_CREDENTIALS` says so, as for the endpoint of a table.
fn uses_azure_cli() -> bool {
    std::env::var("AZURE_TOKEN_CREDENTIALS").map_or(true, |kind| {
        ["", "dev", "AzureCliCredential"].contains(&&*kind)
    })
}

/// The blobs of the account of a connection string. No error repeats a part of it.
/// <https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string>
fn builder_of_account(text: &str) -> Result<MicrosoftAzureBuilder, &'static str> {
    // As the library of the tables: blanks, and quotes of shells and settings files around the whole text, are not a part of it.
    let text = text.trim();
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let text = unquoted.unwrap_or(text);
    let settings: Vec<_> = text
        .split(';')
        .filter_map(|setting| setting.split_once('='))
        .collect();
    let get = |name: &str| {
        let found = settings
            .iter()
            .find(|(known, _)| known.trim().eq_ignore_ascii_case(name));
        found
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    };
    let builder = MicrosoftAzureBuilder::new();
    if get("UseDevelopmentStorage").is_some() {
        // The address is 127.0.0.1:10000, or the one in AZURITE_BLOB_STORAGE_URL: the library of the blobs
        // reads it.
        return Ok(builder.with_use_emulator(true));
    }
    let name = get("AccountName").ok_or("the connection string has no AccountName")?;
    let protocol = get("DefaultEndpointsProtocol").unwrap_or("https");
    let suffix = get("EndpointSuffix")
        .unwrap_or("core.windows.net")
        .trim_start_matches('.');
    // A named endpoint goes before one that is composed of the account: an emulator and a custom domain have
    // only the former.
    let endpoint = get("BlobEndpoint").map(|endpoint| endpoint.trim_end_matches('/').to_owned());
    let endpoint = endpoint.unwrap_or_else(|| format!("{protocol}://{name}.blob.{suffix}"));
    let builder = builder
        .with_account(name)
        .with_allow_http(endpoint.starts_with("http://"))
        .with_endpoint(endpoint);
    match (get("AccountKey"), get("SharedAccessSignature")) {
        (Some(key), _) => Ok(builder.with_access_key(key)),
        // The portal shows a signature with the question mark of the URL.
        (None, Some(sas)) => {
            Ok(builder.with_config(AzureConfigKey::SasKey, sas.trim_start_matches('?')))
        }
        (None, None) => Err("the connection string has no AccountKey or SharedAccessSignature"),
    }
}

/// Opens a directory. `creates` creates it if it is missing.
pub(crate) fn open_directory(directory: &FilePath, creates: bool) -> Result<Arc<dyn ObjectStore>> {
    let failed = |error: &dyn fmt::Display| {
        Failure::misuse(format!(
            "the directory {} cannot be opened: {error}",
            directory.display()
        ))
    };
    if creates {
        std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
    }
    if !directory.exists() {
        return Err(failed(&"it does not exist"));
    }
    let files = LocalFileSystem::new_with_prefix(directory).map_err(|error| failed(&error))?;
    // A backup that was reported as complete must survive a power failure.
    Ok(Arc::new(files.with_fsync(true)))
}

/// The root of blobs: a place of [`BlobArgs`] is the root itself.
pub(crate) fn root() -> Path {
    Path::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_directory_or_a_container() {
        let container = |account: &str, container: &str, root: &str| BlobPlace::Container {
            account: account.parse().unwrap(),
            container: container.to_owned(),
            root: root.to_owned(),
        };
        for (text, place) in [
            ("large", BlobPlace::Directory("large".into())),
            ("azure:blobs/large", container("azure", "blobs", "large")),
            ("azurite:blobs", container("azurite", "blobs", "")),
            ("env:OLD:blobs/a/b/", container("env:OLD", "blobs", "a/b")),
            (
                "https://acc.blob.core.windows.net/blobs/large",
                BlobPlace::Url {
                    container: "https://acc.blob.core.windows.net/blobs".into(),
                    root: "large".into(),
                },
            ),
        ] {
            assert_eq!(text.parse::<BlobPlace>().unwrap(), place, "{text}");
        }
        for wrong in [
            "azure:",
            "env:OLD:",
            "https://acc.blob.core.windows.net",
            "https://a/c?sv=1&sig=x",
        ] {
            assert!(wrong.parse::<BlobPlace>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_account_is_read_and_no_error_shows_it() {
        for text in [
            "UseDevelopmentStorage=true",
            "AccountName=a;AccountKey=c2U3ZW4=",
            "\"AccountName=a;AccountKey=c2U3ZW4=;EndpointSuffix=.core.windows.net\"",
            "AccountName=a;SharedAccessSignature=?sv=1&sig=se7en;BlobEndpoint=http://127.0.0.1:10000/a/",
        ] {
            let built = builder_of_account(text)
                .unwrap()
                .with_container_name("blobs")
                .build();
            assert!(built.is_ok(), "{text}: {built:?}");
        }
        for text in [
            "AccountKey=se7en",
            "AccountName=a",
            "AccountName=se7en;AccountKey=;",
            "se7en",
        ] {
            assert!(
                !builder_of_account(text).unwrap_err().contains("se7en"),
                "{text}"
            );
        }
        let malformed = builder_of_account("AccountName=a;AccountKey=se7en!")
            .unwrap()
            .with_container_name("blobs")
            .build();
        assert!(!malformed.unwrap_err().to_string().contains("se7en"));
    }
}
