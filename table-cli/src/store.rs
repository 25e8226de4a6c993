//! The argument STORE, and opening the store that it names.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use azure_core::credentials::TokenCredential;
use azure_identity::{
    DeveloperToolsCredential, ManagedIdentityCredential, ManagedIdentityCredentialOptions,
    WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};
use table_azure::AzureTableStore;
use table_core::adapter::{RequestMeter, RetryPolicy, StoreBuilder};
use table_core::manifest::Manifest;
use table_core::memory::MemoryStore;
use table_core::model::TableName;
use table_core::store::{Error, ErrorKind, ServiceProfile, TableStore, TableStoreExt as _};
use table_embedded::EmbeddedStore;

use crate::emulator::Emulator;
use crate::failure::{Failure, Result};
use crate::pace::Pace;
use crate::progress::Progress;

/// The environment variable with the connection string of an account.
const AZURE_VARIABLE: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// The environment variable with the connection string of an emulator.
const AZURITE_VARIABLE: &str = "AZURITE_CONNECTION_STRING";
/// The connection string of the emulator at its default address.
const DEVELOPMENT: &str = "UseDevelopmentStorage=true";
/// The default address of the emulator's tables.
const DEVELOPMENT_ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 10002);
/// Selects the credential of Microsoft Entra ID, as in the Azure SDKs: `prod` for managed and workload identities.
const CREDENTIALS_VARIABLE: &str = "AZURE_TOKEN_CREDENTIALS";

/// The cache of an embedded store. Commands read and write in the order of keys, and a copy has two stores: a larger cache would only take
/// memory. A server keeps the default.
const CACHE_BYTES: usize = 32 << 20;

/// The file of an embedded store in its directory.
const EMBEDDED_FILE: &str = "tables.redb";

/// The forms of STORE, for the help.
pub(crate) const STORE_FORMS: &str = "\
A STORE is one of:
  embedded:DIR      an embedded store in a directory
  azure             the account in the environment variable AZURE_STORAGE_CONNECTION_STRING
  azurite           the emulator in AZURITE_CONNECTION_STRING or at 127.0.0.1:10002; if none listens there, Azurite is started
  https://…         an endpoint, signed in by `az login` (or by a managed identity: AZURE_TOKEN_CREDENTIALS=prod)
  env:NAME          a connection string, or a URL with a SAS, in an environment variable
  file:PATH         the same, in a file
  memory            an empty store that ends with the command

Keys and signatures belong in the environment or a file: other users of a machine can read command lines.";

/// Whether an argument has the key of an account or a signature. Other users of a machine can read command lines, and the errors of the
/// argument parser repeat arguments, so such arguments are refused before they are parsed.
pub(crate) fn has_secret(argument: &str) -> bool {
    // Names in a connection string may have spaces around them, and any case.
    let text: String = argument
        .chars()
        .filter(|c| !c.is_whitespace())
        .flat_map(char::to_lowercase)
        .collect();
    let is_signed_url = text.starts_with("http") && text.contains("sig=");
    // A signature without its URL, or after a text that is none. A filter has blanks, and may compare a text with `sig=`.
    let has_signature = !argument.contains(char::is_whitespace)
        && (["?sig=", "&sig=", ";sig="]
            .iter()
            .any(|name| text.contains(name))
            || text.starts_with("sig=") && text.contains('&'));
    is_signed_url
        || has_signature
        || ["accountkey=", "sharedaccesssignature="]
            .iter()
            .any(|name| text.contains(name))
}

/// A store as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreName {
    Memory,
    Embedded(PathBuf),
    Azure,
    Azurite,
    /// An endpoint without a secret.
    Endpoint(String),
    Variable(String),
    File(PathBuf),
}

impl FromStr for StoreName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            None if text == "azure" => Ok(Self::Azure),
            None if text == "azurite" || text == DEVELOPMENT => Ok(Self::Azurite),
            Some(("embedded", directory)) if !directory.is_empty() => {
                Ok(Self::Embedded(directory.into()))
            }
            Some(("env", name)) if !name.is_empty() => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            Some(("http" | "https", _)) => Ok(Self::Endpoint(text.to_owned())),
            _ => Err(
                "use embedded:DIR, azure, azurite, an https URL, env:NAME, file:PATH or memory"
                    .to_owned(),
            ),
        }
    }
}

/// A [`StoreName`] has no secret.
impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Embedded(directory) => write!(f, "embedded:{}", directory.display()),
            Self::Azure => f.write_str("azure"),
            Self::Azurite => f.write_str("azurite"),
            Self::Endpoint(url) => f.write_str(url),
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// What a command does with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The store exists already, and is not changed.
    Read,
    /// The store exists already: the directory of an embedded store is not created.
    WriteExisting,
    /// The directory of an embedded store is created if it is missing.
    WriteOrCreate,
}

/// How `tables serve` keeps the file of an embedded store; `None` is the default of the library.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct FileOptions {
    /// Bytes of memory for pages.
    pub(crate) cache: Option<usize>,
    /// The largest file, in bytes, that is read whole after a crash.
    pub(crate) scan_up_to: Option<u64>,
}

/// An open store, and the count of the requests to it.
#[derive(Debug)]
pub(crate) struct OpenStore {
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) meter: RequestMeter,
    embedded: Option<EmbeddedStore>,
    emulator: Option<Emulator>,
}

impl StoreName {
    /// Opens the store, works with it, and closes it, also after a failure. Opening sends no request. `azurite` starts the emulator if none
    /// runs.
    pub(crate) async fn with_open<T>(
        &self,
        access: Access,
        pace: Pace,
        work: impl AsyncFnOnce(&mut OpenStore) -> Result<T>,
    ) -> Result<T> {
        self.open(access, pace).await?.work_and_close(work).await
    }

    /// Returns the store of each account that a server serves: the store itself for one account, and a store for each of several accounts.
    pub(crate) fn of_accounts(&self, accounts: &[&str]) -> Result<Vec<Self>> {
        let is_one = accounts.len() <= 1;
        match self {
            Self::Memory => Ok(vec![Self::Memory; accounts.len()]),
            Self::Embedded(directory) if is_one => match folder_with_store(directory) {
                Some(folder) if !has_store(directory) => Err(Failure::misuse(format!(
                    "{self} has a folder for each of several accounts, such as {}: serve all of them (--account for each), or give \
                     the folder of this account as the store",
                    folder.display()
                ))),
                _ => Ok(vec![self.clone()]),
            },
            Self::Embedded(directory) if has_store(directory) => Err(Failure::misuse(format!(
                "{self} is the store of one account. Several accounts have a store each, in the folder {}: to keep these tables, make \
                 the folder of their account, and move the files of {} into it",
                directory.join("NAME").display(),
                directory.display()
            ))),
            Self::Embedded(directory) => Ok(accounts
                .iter()
                .map(|account| Self::Embedded(directory.join(account)))
                .collect()),
            _ if is_one => Ok(vec![self.clone()]),
            _ => Err(Failure::misuse(format!(
                "{self} has the tables of one account: several accounts would share them. Give one --account, or an embedded store"
            ))),
        }
    }

    /// Like [`with_open`](Self::with_open) for several stores, for `tables serve`: groups of a local store have room for index entries.
    pub(crate) async fn with_all_open_to_serve<T>(
        stores: &[Self],
        access: Access,
        file: FileOptions,
        work: impl AsyncFnOnce(&[OpenStore]) -> Result<T>,
    ) -> Result<T> {
        let mut open = Vec::with_capacity(stores.len());
        let mut opened = Ok(());
        for store in stores {
            match store.open_to_serve(access, file).await {
                Ok(store) => open.push(store),
                Err(failure) => {
                    opened = Err(failure);
                    break;
                }
            }
        }
        let done = match opened {
            Ok(()) => work(&open).await,
            Err(failure) => Err(failure),
        };
        let mut closed = Ok(());
        for store in open {
            closed = closed.and(store.close().await);
        }
        let done = done?;
        closed.map(|()| done)
    }

    async fn open(&self, access: Access, pace: Pace) -> Result<OpenStore> {
        match self {
            Self::Memory => Ok(OpenStore::wrap(MemoryStore::new(), None, pace)),
            Self::Embedded(directory) => {
                let builder = EmbeddedStore::builder(directory).cache_bytes(CACHE_BYTES);
                let store = match access {
                    Access::Read => builder.read_only().open().await,
                    Access::WriteExisting => builder.must_exist().open().await,
                    Access::WriteOrCreate => builder.open().await,
                }?;
                Ok(OpenStore::wrap(store.clone(), Some(store), pace))
            }
            Self::Azure => self.remote(&read_variable(AZURE_VARIABLE)?, pace),
            Self::Azurite => match std::env::var(AZURITE_VARIABLE) {
                Ok(text) => self.remote(&text, pace),
                Err(_) if emulator_listens() => self.remote(DEVELOPMENT, pace),
                Err(_) => {
                    let emulator = tokio::task::spawn_blocking(Emulator::start).await;
                    let emulator = emulator.map_err(Failure::failed)??;
                    let open = self.remote(&emulator.connection_string(), pace)?;
                    Ok(OpenStore {
                        emulator: Some(emulator),
                        ..open
                    })
                }
            },
            Self::Endpoint(url) => {
                let store =
                    AzureTableStore::new(url, credential()?, None).map_err(Failure::misuse)?;
                Ok(OpenStore::wrap(store, None, pace))
            }
            Self::Variable(name) => self.remote(&read_variable(name)?, pace),
            Self::File(path) => self.remote(&self.read_text(path)?, pace),
        }
    }

    /// Opens the account without adapters, to sign with its key.
    pub(crate) fn account(&self) -> Result<AzureTableStore> {
        self.connect(&self.connection_string()?)
    }

    /// The connection string of an account, or a URL with a SAS.
    pub(crate) fn connection_string(&self) -> Result<String> {
        match self {
            Self::Azure => read_variable(AZURE_VARIABLE),
            Self::Azurite => {
                Ok(std::env::var(AZURITE_VARIABLE).unwrap_or_else(|_| DEVELOPMENT.to_owned()))
            }
            Self::Variable(name) => read_variable(name),
            Self::File(path) => self.read_text(path),
            Self::Memory | Self::Embedded(_) | Self::Endpoint(_) => Err(Failure::misuse(format!(
                "{self} has no account key: give azure, azurite, env:NAME or file:PATH with a connection string"
            ))),
        }
    }

    async fn open_to_serve(&self, access: Access, file: FileOptions) -> Result<OpenStore> {
        match (self, access) {
            (Self::Memory, _) => Ok(OpenStore::wrap(
                MemoryStore::with_profile(ServiceProfile::SERVED),
                None,
                Pace::default(),
            )),
            (Self::Embedded(directory), _) => {
                let mut builder = EmbeddedStore::builder(directory).served();
                if let Some(bytes) = file.cache {
                    builder = builder.cache_bytes(bytes);
                }
                if let Some(bytes) = file.scan_up_to {
                    builder = builder.scan_up_to(bytes);
                }
                if access == Access::Read {
                    builder = builder.read_only();
                }
                let store = builder.open().await?;
                Ok(OpenStore::wrap(store.clone(), Some(store), Pace::default()))
            }
            _ => self.open(access, Pace::default()).await,
        }
    }

    /// The text of a file, such as a connection string.
    fn read_text(&self, path: &Path) -> Result<String> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let is_secret = may_be_secret(&path.to_string_lossy());
            let name = if is_secret {
                "the file after file:".to_owned()
            } else {
                self.to_string()
            };
            Failure::misuse(format!("{name} cannot be read: {error}"))
        })?;
        Ok(text.trim().to_owned())
    }

    fn remote(&self, text: &str, pace: Pace) -> Result<OpenStore> {
        Ok(OpenStore::wrap(self.connect(text)?, None, pace))
    }

    /// Opens a connection string or a URL with a SAS. No error repeats the text.
    fn connect(&self, text: &str) -> Result<AzureTableStore> {
        let store = if text.starts_with("https://") || text.starts_with("http://") {
            AzureTableStore::with_sas(text, None)
        } else {
            AzureTableStore::from_connection_string(text, None)
        };
        store.map_err(|error| Failure::misuse(format!("{self}: {error}")))
    }
}

impl OpenStore {
    fn wrap(store: impl TableStore, embedded: Option<EmbeddedStore>, pace: Pace) -> Self {
        let meter = RequestMeter::new();
        let mut store = StoreBuilder::new(store).meter(meter.clone());
        if let Some(limit) = pace.limit() {
            store = store.rate(limit);
        }
        let store = match &embedded {
            // An embedded store reopens its file by itself after a failure; a repeated request would only wait for that.
            Some(_) => store.build(),
            None => store.retry(RetryPolicy::default()).build(),
        };
        Self {
            store,
            meter,
            embedded,
            emulator: None,
        }
    }

    /// The named tables; without names every table of the store, which a credential for one table cannot list. 1 request for each 1,000
    /// tables if none is named.
    pub(crate) async fn tables(&self, named: &[TableName]) -> Result<Vec<TableName>> {
        if !named.is_empty() {
            return Ok(named.to_vec());
        }
        self.store.all_tables(None).await.map_err(|error| {
            let kind = error.root().kind();
            let is_refused = matches!(kind, ErrorKind::Forbidden(_) | ErrorKind::Unauthorized(_));
            match Failure::from(error) {
                Failure::Failed(text) if is_refused => Failure::failed(format!(
                    "{text}: a signature for one table cannot list tables: name the table"
                )),
                failure => failure,
            }
        })
    }

    /// The number of rows of these tables, if the store tells it without reading them: an embedded store that has no other table, because
    /// its file counts the rows of all tables together. A service tells no number. No request.
    async fn rows_of(&self, tables: &[TableName]) -> Option<u64> {
        let store = self.embedded.as_ref()?;
        // An estimate is no reason for a failure: the command meets the same error when it reads.
        let all = store.all_tables(None).await.ok()?;
        if all.iter().all(|table| tables.contains(table)) {
            store.rows().await.ok()
        } else {
            None
        }
    }

    /// Starts the progress of a command. `verb` says what happens to rows, such as `exported`. If the command reads every row of `tables`,
    /// their number gives the estimate; `None` for a command that reads some of the rows.
    pub(crate) async fn progress_of(
        &self,
        tables: Option<&[TableName]>,
        verb: &'static str,
        is_quiet: bool,
    ) -> Progress {
        let stored = match tables {
            Some(tables) => self.rows_of(tables).await,
            None => None,
        };
        Progress::new(verb, self.meter.clone(), is_quiet).with_stored_rows(stored)
    }

    /// Works with the store, and closes it on every path. If both fail, the failure of the work is returned.
    async fn work_and_close<T>(
        mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let done = work(&mut self).await;
        let closed = self.close().await;
        let done = done?;
        closed.map(|()| done)
    }

    /// Closes the store, and stops its emulator. Without this, the drop of an emulator would block a thread of the runtime.
    async fn close(self) -> Result<()> {
        drop(self.store);
        if let Some(emulator) = self.emulator {
            // It waits until Azurite has written its data.
            tokio::task::spawn_blocking(move || drop(emulator))
                .await
                .map_err(Failure::failed)?;
        }
        match self.embedded {
            Some(store) => Ok(store.close().await?),
            None => Ok(()),
        }
    }
}

/// Returns the manifest of a table. 1 request, unless the process has read it in the last 30 seconds.
pub(crate) async fn manifest(
    store: &dyn TableStore,
    table: &TableName,
) -> Result<Arc<Manifest>, Error> {
    let manifest = store.manifest(table).await;
    manifest.map_err(|error| match error.kind() {
        ErrorKind::Forbidden(reason) => Error::from(ErrorKind::Forbidden(format!(
            "{reason}; the command reads the manifest of '{table}' first: give `tables sas` the option --with-manifest"
        ))),
        _ => error,
    })
}

/// Whether a directory has the file of an embedded store.
fn has_store(directory: &Path) -> bool {
    directory.join(EMBEDDED_FILE).exists()
}

/// Returns a folder of a directory that has an embedded store.
fn folder_with_store(directory: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(directory).ok()?;
    folders
        .filter_map(|folder| Some(folder.ok()?.path()))
        .find(|folder| has_store(folder))
}

/// Creates a table that is missing. 1 request if it exists: its manifest, which a command needs in any case. So a credential that may not
/// create tables writes into a table that exists.
pub(crate) async fn create_if_missing(store: &dyn TableStore, table: &TableName) -> Result<()> {
    match manifest(store, table).await {
        Err(error) if error.is_table_not_found() => {
            Ok(store.create_table_if_missing(table).await.map(drop)?)
        }
        read => Ok(read.map(drop)?),
    }
}

fn read_variable(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| {
        // What is no name of a variable may be the secret itself.
        let is_name =
            name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !may_be_secret(name);
        Failure::misuse(match is_name {
            true => format!("set the environment variable {name} to a connection string"),
            false => "env: needs the name of an environment variable that has a connection string"
                .to_owned(),
        })
    })
}

/// Whether a text that should name a place may be a key or a signature, written into the wrong place: a long text of the characters of
/// base64, or one that ends as base64 does, or a part of a signature. Errors do not repeat such a text.
pub(crate) fn may_be_secret(text: &str) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=_-%".contains(c);
    has_secret(text)
        || text.to_lowercase().contains("sig=")
        || text.chars().all(is_base64)
            && (text.ends_with('=') || text.len() >= 40 && !text.contains('/'))
}

/// Whether an emulator listens at its default address.
fn emulator_listens() -> bool {
    let address = SocketAddr::from(DEVELOPMENT_ADDRESS);
    TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_ok()
}

/// Returns the credential for an endpoint without a SAS.
pub(crate) fn credential() -> Result<Arc<dyn TokenCredential>> {
    let kind = std::env::var(CREDENTIALS_VARIABLE).unwrap_or_default();
    // A managed identity has its endpoint on this machine, and a secret for it: no proxy may see either.
    let (mut managed, mut workload) = (
        ManagedIdentityCredentialOptions::default(),
        WorkloadIdentityCredentialOptions::default(),
    );
    managed.client_options.transport = table_azure::transport();
    workload.credential_options.client_options.transport = table_azure::transport();
    let credential: azure_core::Result<Arc<dyn TokenCredential>> = match &*kind {
        // In Kubernetes a pod with a workload identity has this variable.
        "prod" if std::env::var_os("AZURE_FEDERATED_TOKEN_FILE").is_some() => {
            WorkloadIdentityCredential::new(Some(workload)).map(|it| it as _)
        }
        "prod" | "ManagedIdentityCredential" => {
            ManagedIdentityCredential::new(Some(managed)).map(|it| it as _)
        }
        "WorkloadIdentityCredential" => {
            WorkloadIdentityCredential::new(Some(workload)).map(|it| it as _)
        }
        "" | "dev" | "AzureCliCredential" => DeveloperToolsCredential::new(None).map(|it| it as _),
        _ => {
            return Err(Failure::misuse(format!(
                "{CREDENTIALS_VARIABLE} is not dev, prod, AzureCliCredential, ManagedIdentityCredential or WorkloadIdentityCredential"
            )));
        }
    };
    credential
        .map_err(|error| Failure::misuse(format!("no credential of Microsoft Entra ID: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_with_secrets_are_recognized() {
        let secrets = [
            "DefaultEndpointsProtocol=https;AccountName=a;accountKey = c2VjcmV0",
            "TableEndpoint=https://a;SharedAccessSignature=sv=1&sig=c2VjcmV0",
            "https://a.table.core.windows.net?sv=1&sig=c2VjcmV0",
            "?sv=1&sig=c2VjcmV0",
            "sig=c2VjcmV0&sv=1",
            "file:a?sig=c2VjcmV0",
        ];
        assert!(secrets.iter().all(|text| has_secret(text)));
        let others = [
            "azure",
            "https://a.table.core.windows.net",
            "sig eq 'a?sig='",
            "UseDevelopmentStorage=true",
            "sig=String",
        ];
        assert!(!others.iter().any(|text| has_secret(text)));
        // A key of an account has 64 bytes.
        let key = format!("{}==", "c2VjcmV0".repeat(11));
        assert!(
            [&key, "c2VjcmV0a2V5MTI=", key.trim_end_matches('=')]
                .iter()
                .all(|text| may_be_secret(text))
        );
        assert!(
            ![
                "AZURE_STORAGE_CONNECTION_STRING",
                "keys/absent",
                "absent.json",
                "/a/long/path/of/directories/to/a/file/of/a/secret"
            ]
            .iter()
            .any(|text| may_be_secret(text))
        );
    }

    #[tokio::test]
    async fn a_store_is_closed_after_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        let name = StoreName::Embedded(directory.path().to_owned());
        let mut kept = None;
        let work = async |open: &mut OpenStore| {
            kept.clone_from(&open.embedded);
            Err::<(), _>(Failure::failed("the work failed"))
        };
        let failure = name
            .with_open(Access::WriteOrCreate, Pace::default(), work)
            .await
            .unwrap_err();
        assert_eq!(failure.to_string(), "the work failed");
        assert!(
            kept.unwrap().all_tables(None).await.is_err(),
            "the store is open"
        );
    }

    #[tokio::test]
    async fn several_accounts_have_a_store_each() {
        let of = |name: &str, accounts: &[&str]| {
            let stores = name.parse::<StoreName>().unwrap().of_accounts(accounts);
            stores.map(|stores| stores.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(of("memory", &["one", "two"]).unwrap(), ["memory", "memory"]);
        assert_eq!(of("env:A", &["one"]).unwrap(), ["env:A"]);
        for remote in [
            "env:A",
            "file:f",
            "azure",
            "azurite",
            "https://a.table.core.windows.net",
        ] {
            let refused = of(remote, &["one", "two"]).unwrap_err().to_string();
            assert!(refused.contains("would share"), "{refused}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        let name = format!("embedded:{path}");
        let folders = of(&name, &["one", "two"]).unwrap();
        assert_eq!(folders, [format!("{name}/one"), format!("{name}/two")]);
        assert_eq!(of(&name, &["one"]).unwrap(), [&*name]);

        let open = |name: &str| name.parse::<StoreName>().unwrap();
        let work = async |_: &mut OpenStore| Ok(());
        open(&folders[0])
            .with_open(Access::WriteOrCreate, Pace::default(), work)
            .await
            .unwrap();
        let refused = of(&name, &["one"]).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("{path}/one")),
            "an empty store would be made: {refused}"
        );
        assert_eq!(of(&folders[0], &["one"]).unwrap(), folders[..1]);
        let refused = of(&folders[0], &["one", "two"]).unwrap_err().to_string();
        assert!(
            refused.contains("move the files") && refused.contains("/one/NAME"),
            "{refused}"
        );
    }

    #[test]
    fn a_name_prints_as_it_was_given() {
        let names = [
            "memory",
            "embedded:d",
            "azure",
            "azurite",
            "https://a.table.core.windows.net",
            "env:A",
            "file:f",
        ];
        for text in names {
            assert_eq!(text.parse::<StoreName>().unwrap().to_string(), text);
        }
        assert!("embedded:".parse::<StoreName>().is_err());
        assert!("cloud".parse::<StoreName>().is_err());
    }
}
