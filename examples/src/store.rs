//! Parses and opens the store that a program gets on its command line.

#[cfg(feature = "azure")]
mod azure;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use table_core::Error;
use table_core::memory::MemoryStore;
use table_core::store::TableStore;
use table_embedded::EmbeddedStore;
use table_patterns::index::IndexOptions;
use table_patterns::journal::Timing;

/// The connection string of a running Azurite. Without it, an emulator is started.
pub const AZURITE_CONNECTION_STRING: &str = "AZURITE_CONNECTION_STRING";
/// The connection string of an Azure Storage account, for tables and blobs.
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
    /// The emulator Azurite. With the variable [`AZURITE_CONNECTION_STRING`], a running emulator; without it, a new one that is empty at
    /// the start and is stopped at the end. Its first use installs it (Node.js with npm, and the network).
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
    place: Place,
    embedded: Option<EmbeddedStore>,
    #[cfg(feature = "azure")]
    emulator: Option<azurite::Azurite>,
}

/// Where the requests of a store are executed.
#[derive(Clone, Copy, Debug)]
enum Place {
    ThisProcess,
    #[cfg(feature = "azure")]
    Emulator,
    #[cfg(feature = "azure")]
    Service,
}

impl StoreSpec {
    /// The forms of the names, for help texts.
    pub const FORMS: &'static str = "memory | embedded:DIR | azurite | azure";

    /// Opens the store, and starts the emulator if it is needed. Cost: no request; for `azurite` and `azure` 1, which creates the blob
    /// container.
    ///
    /// # Errors
    /// Fails if the directory is in use or damaged, if the connection string is missing or malformed, if the
    /// emulator cannot be started, or if the program was built without the feature `azure` and needs it.
    pub async fn open(&self) -> table_core::Result<OpenStore> {
        match self {
            Self::Memory => {
                let (store, blobs) = (Arc::new(MemoryStore::new()), Arc::new(InMemory::new()));
                Ok(OpenStore::of(
                    store,
                    blobs,
                    format!("memory of process {}", std::process::id()),
                ))
            }
            Self::Embedded(directory) => embedded(directory).await,
            #[cfg(feature = "azure")]
            Self::Azurite => match std::env::var(AZURITE_CONNECTION_STRING) {
                Ok(text) => azure::open_account(&text).await,
                Err(_) => azure::open_emulator().await,
            },
            #[cfg(feature = "azure")]
            Self::Azure => {
                let missing = |_| {
                    Error::invalid_argument(format!("set {AZURE_CONNECTION_STRING} to use `azure`"))
                };
                azure::open_account(&std::env::var(AZURE_CONNECTION_STRING).map_err(missing)?).await
            }
            #[cfg(not(feature = "azure"))]
            Self::Azurite | Self::Azure => Err(Error::misuse(format!(
                "this program was built without the feature `azure`, which the store `{self}` needs: run it again \
                 with `cargo run --features azure`"
            ))),
        }
    }
}

/// Opens a store on disk, with its blobs in files.
async fn embedded(directory: &Path) -> table_core::Result<OpenStore> {
    let store = EmbeddedStore::open(directory).await?;
    let blobs = directory.join("blobs");
    let failed = |e: String| Error::application(format!("the directory {}: {e}", blobs.display()));
    std::fs::create_dir_all(&blobs).map_err(|e| failed(e.to_string()))?;
    let files = LocalFileSystem::new_with_prefix(&blobs).map_err(|e| failed(e.to_string()))?;
    // A blob must be on disk before the row that refers to it.
    let files = files.with_fsync(true);
    let identity = std::fs::canonicalize(directory).map_err(|e| failed(e.to_string()))?;
    let opened = OpenStore::of(
        Arc::new(store.clone()),
        Arc::new(files),
        identity.display().to_string(),
    );
    Ok(OpenStore {
        embedded: Some(store),
        ..opened
    })
}

impl OpenStore {
    const fn of(store: Arc<dyn TableStore>, blobs: Arc<dyn ObjectStore>, identity: String) -> Self {
        Self {
            store,
            blobs,
            identity,
            place: Place::ThisProcess,
            embedded: None,
            #[cfg(feature = "azure")]
            emulator: None,
        }
    }

    /// Returns the durations for tables with indexes: short where a dropped request ends at once, and the default on a service.
    ///
    /// # Errors
    /// Never: the durations are consistent.
    pub fn index_options(&self) -> table_core::Result<IndexOptions> {
        // The longest time for which a dropped request can still take effect.
        let server = match self.place {
            Place::ThisProcess => Duration::ZERO,
            #[cfg(feature = "azure")]
            Place::Emulator => Duration::from_millis(500),
            #[cfg(feature = "azure")]
            Place::Service => return Ok(IndexOptions::default()),
        };
        let mut options = IndexOptions::local();
        // Lease 30 s: longer than a group and its entries take on a slow disk. Client 5 s: a request that takes longer is dropped.
        options.timing = Timing::new(Duration::from_secs(30), Duration::from_secs(5), server)?;
        // How long the process uses the manifest that it has read: at least a quarter of the client's time.
        options.cache = Duration::from_secs(2);
        // The emulator answers one request at a time. On a busy machine, a request that waits behind many others takes longer than the
        // client's 5 s.
        #[cfg(feature = "azure")]
        if matches!(self.place, Place::Emulator) {
            options.concurrency = 4;
        }
        Ok(options)
    }

    /// Closes the store.
    ///
    /// # Errors
    /// Fails if the last writes could not be stored.
    pub async fn close(self) -> table_core::Result<()> {
        drop((self.store, self.blobs));
        #[cfg(feature = "azure")]
        drop(self.emulator);
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
