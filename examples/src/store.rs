//! The store of a command, as the user names it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use azurite::Azurite;
use azurite::blobs::azure_container;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use table_azure::AzureTableStore;
use table_core::Error;
use table_core::adapter::{RetryPolicy, StoreBuilder};
use table_core::memory::MemoryStore;
use table_core::store::TableStore;
use table_embedded::EmbeddedStore;

/// The connection string of a running Azurite. Without it, an emulator is started.
pub const AZURITE_CONNECTION_STRING: &str = "AZURITE_CONNECTION_STRING";
/// The connection string of an account of Azure Storage or Cosmos DB.
pub const AZURE_CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";

/// The container of an account for the blobs.
pub const CONTAINER: &str = "table-examples";

/// A store by name: `memory`, `embedded:DIR`, `azurite` or `azure`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreSpec {
    /// In memory, empty at the start.
    Memory,
    /// The embedded store in a directory.
    Embedded(PathBuf),
    /// The emulator: at the connection string in [`AZURITE_CONNECTION_STRING`], or a new one, which is empty
    /// at the start and stopped at the end. The first use installs it, which needs Node.js with npm.
    Azurite,
    /// Azure, at the connection string in [`AZURE_CONNECTION_STRING`].
    Azure,
}

/// A store that a [`StoreSpec`] opened.
#[derive(Debug)]
pub struct OpenStore {
    /// The store.
    pub store: Arc<dyn TableStore>,
    /// The blobs: in memory, in the directory `blobs` of an embedded store, or in a container of the account.
    pub blobs: Arc<dyn ObjectStore>,
    /// Identifies the store: the account or the directory. Contains no secret.
    pub identity: String,
    embedded: Option<EmbeddedStore>,
    emulator: Option<Azurite>,
}

impl StoreSpec {
    /// The forms of the names, for help texts.
    pub const FORMS: &'static str = "memory | embedded:DIR | azurite | azure";

    /// Opens the store. Sends no request, except for an account: 1 request, which creates the container of
    /// the blobs.
    ///
    /// # Errors
    /// Fails if the directory is in use or damaged, if the connection string is missing or malformed, or if
    /// the emulator cannot be started.
    pub async fn open(&self) -> table_core::Result<OpenStore> {
        match self {
            Self::Memory => {
                let (store, blobs) = (Arc::new(MemoryStore::new()), Arc::new(InMemory::new()));
                Ok(OpenStore::of(store, blobs, format!("memory of process {}", std::process::id())))
            }
            Self::Embedded(directory) => embedded(directory).await,
            Self::Azurite => match std::env::var(AZURITE_CONNECTION_STRING) {
                Ok(text) => azure(&text).await,
                Err(_) => emulated().await,
            },
            Self::Azure => {
                let missing =
                    |_| Error::invalid_request(format!("set {AZURE_CONNECTION_STRING} to use `azure`"));
                azure(&std::env::var(AZURE_CONNECTION_STRING).map_err(missing)?).await
            }
        }
    }
}

/// Opens a store on a new emulator, which stops with the store.
async fn emulated() -> table_core::Result<OpenStore> {
    let started = tokio::task::spawn_blocking(Azurite::start).await;
    let started = started.unwrap_or_else(|e| Err(e.to_string()));
    let emulator = started.map_err(Error::invalid_request)?;
    let opened = azure(&emulator.connection_string()).await?;
    Ok(OpenStore { emulator: Some(emulator), ..opened })
}

/// Opens an account's tables and blobs.
async fn azure(connection_string: &str) -> table_core::Result<OpenStore> {
    let store = AzureTableStore::from_connection_string(connection_string, None)?;
    let blobs = azure_container(connection_string, CONTAINER).await.map_err(Error::invalid_request)?;
    let store = StoreBuilder::new(store).retry(retry_policy()).build();
    Ok(OpenStore::of(store, blobs, account(connection_string)))
}

/// Identifies the account of a connection string, without its keys.
fn account(connection_string: &str) -> String {
    let tells = ["AccountName=", "TableEndpoint=", "EndpointSuffix=", "UseDevelopmentStorage="];
    let parts = connection_string.split(';').map(str::trim);
    parts.filter(|part| tells.iter().any(|name| part.starts_with(name))).collect::<Vec<_>>().join(";")
}

/// Retries with write ids for up to three minutes. The service may reserve the name of a deleted table for at
/// least 40 seconds (<https://learn.microsoft.com/rest/api/storageservices/delete-table>).
fn retry_policy() -> RetryPolicy {
    RetryPolicy::default()
        .with_write_ids()
        .with_max_attempts(40)
        .with_deadline(Some(Duration::from_secs(180)))
}

/// Opens a store on disk, with its blobs in files.
async fn embedded(directory: &Path) -> table_core::Result<OpenStore> {
    let store = EmbeddedStore::open(directory).await?;
    let blobs = directory.join("blobs");
    let failed = |e: String| Error::invalid_request(format!("the directory {}: {e}", blobs.display()));
    std::fs::create_dir_all(&blobs).map_err(|e| failed(e.to_string()))?;
    let files = LocalFileSystem::new_with_prefix(&blobs).map_err(|e| failed(e.to_string()))?;
    // A blob must be on disk before the row that refers to it.
    let files = files.with_fsync(true);
    let identity = std::fs::canonicalize(directory).map_err(|e| failed(e.to_string()))?;
    let opened = OpenStore::of(Arc::new(store.clone()), Arc::new(files), identity.display().to_string());
    Ok(OpenStore { embedded: Some(store), ..opened })
}

impl OpenStore {
    const fn of(store: Arc<dyn TableStore>, blobs: Arc<dyn ObjectStore>, identity: String) -> Self {
        Self { store, blobs, identity, embedded: None, emulator: None }
    }

    /// Closes the store.
    ///
    /// # Errors
    /// Fails if the last writes could not be stored.
    pub async fn close(self) -> table_core::Result<()> {
        drop((self.store, self.blobs, self.emulator));
        match self.embedded {
            Some(store) => store.close().await,
            None => Ok(()),
        }
    }
}

impl FromStr for StoreSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            None if text == "azurite" => Ok(Self::Azurite),
            None if text == "azure" => Ok(Self::Azure),
            Some(("embedded", dir)) if !dir.is_empty() => Ok(Self::Embedded(dir.into())),
            _ => Err(format!("use one of {}", Self::FORMS)),
        }
    }
}

impl fmt::Display for StoreSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Embedded(directory) => write!(f, "embedded:{}", directory.display()),
            Self::Azurite => f.write_str("azurite"),
            Self::Azure => f.write_str("azure"),
        }
    }
}

#[cfg(test)]
mod tests {
    use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
    use table_core::model::TableName;
    use table_core::store::{ErrorKind, OperationKind};
    use tokio::time::Instant;

    use super::*;

    fn busy(times: u64) -> Arc<dyn TableStore> {
        let faults = FaultInjector::new(1);
        faults.add(FaultRule::new(Fault::TableBeingDeleted).on(OperationKind::CreateTable).times(times));
        StoreBuilder::new(Faulty::new(MemoryStore::new(), faults)).retry(retry_policy()).build()
    }

    #[test]
    fn an_account_is_identified_without_its_key() {
        let text = "DefaultEndpointsProtocol=https;AccountName=flights;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net";
        assert_eq!(account(text), "AccountName=flights;EndpointSuffix=core.windows.net");
        let text =
            "TableEndpoint=https://flights.table.core.windows.net/;SharedAccessSignature=sv=1&sig=secret";
        assert_eq!(account(text), "TableEndpoint=https://flights.table.core.windows.net/");
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_is_created_when_its_name_is_free_again() {
        let (store, table) = (busy(12), TableName::new("Flights").unwrap());
        let started = Instant::now();
        store.create_table(&table).await.unwrap();
        assert!(started.elapsed() > Duration::from_secs(30), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn creating_a_table_fails_after_minutes_if_the_name_is_never_free() {
        let (store, table) = (busy(u64::MAX), TableName::new("Flights").unwrap());
        let started = Instant::now();
        let error = store.create_table(&table).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TableBeingDeleted { .. }), "{error}");
        let waited = started.elapsed().as_secs();
        assert!((120..=180).contains(&waited), "{waited} s");
    }
}
