//! The backends of several suites.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use conformance::azurite::Azurite;
use conformance::azurite::blobs::azure_container;
use conformance::{Backend, Deviation, Scale, async_trait};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use table_azure::AzureTableStore;
use table_core::memory::MemoryStore;
use table_core::store::TableStore;
use table_embedded::EmbeddedStore;
use table_encryption::{AesKeyWrap, EncryptedStore, Keys};
use table_server::TestServer;
use tempfile::TempDir;

/// Returns the connection string of the emulator; starts the emulator if necessary.
pub(crate) async fn connection_string() -> String {
    let emulator = tokio::task::spawn_blocking(Azurite::shared)
        .await
        .expect("the emulator runs");
    emulator.connection_string()
}

/// Returns a new store for each test, because connections belong to the runtime of a test.
pub(crate) async fn emulated() -> AzureTableStore {
    let store = AzureTableStore::from_connection_string(&connection_string().await, None);
    store.expect("the emulator's connection string")
}

pub(crate) async fn emulated_blobs() -> Arc<dyn ObjectStore> {
    azure_container(&connection_string().await, "suites")
        .await
        .expect("the emulator's container")
}

/// Stores in a temporary directory, which is removed when this value is dropped.
pub(crate) struct Disk(TempDir);

impl Disk {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn blobs(&self) -> Arc<dyn ObjectStore> {
        let blobs = LocalFileSystem::new_with_prefix(self.0.path()).expect("a blob store");
        Arc::new(blobs)
    }

    pub(crate) async fn store(&self, name: &str) -> Arc<dyn TableStore> {
        let store = EmbeddedStore::builder(self.0.path().join(name))
            .open()
            .await;
        Arc::new(store.expect("a new store"))
    }
}

/// Tables and blobs in memory.
pub(crate) struct Memory;

#[async_trait]
impl Backend for Memory {
    async fn store(&self) -> Arc<dyn TableStore> {
        Arc::new(MemoryStore::new())
    }
}

/// The memory store behind encryption.
pub(crate) struct Encrypted;

#[async_trait]
impl Backend for Encrypted {
    async fn store(&self) -> Arc<dyn TableStore> {
        let kek = AesKeyWrap::new("kek", &vec![1; 32].into()).expect("32 bytes");
        Arc::new(
            EncryptedStore::new(MemoryStore::new(), Keys::new(Arc::new(kek))).expect("sound keys"),
        )
    }

    fn scale(&self) -> Scale {
        Scale {
            steps: 1000,
            faults: Some(1),
            ..Scale::FULL
        }
    }
}

/// The embedded store, with blobs in files.
pub(crate) struct Embedded(Disk);

impl Embedded {
    pub(crate) fn new() -> Self {
        Self(Disk::new())
    }
}

#[async_trait]
impl Backend for Embedded {
    async fn store(&self) -> Arc<dyn TableStore> {
        self.0.store("store").await
    }

    fn blobs(&self) -> BoxFuture<'static, Arc<dyn ObjectStore>> {
        let blobs = self.0.blobs();
        async { blobs }.boxed()
    }

    fn scale(&self) -> Scale {
        Scale::MODERATE
    }
}

/// Azurite with its blobs and its known deviations.
pub(crate) struct Emulated {
    deviations: &'static [Deviation],
    /// Which of the two emulators.
    second: bool,
}

/// The number of tests that use each emulator.
static USERS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

impl Emulated {
    /// Chooses the emulator that fewer tests use: an emulator uses one core, so there are two.
    pub(crate) fn new(deviations: &'static [Deviation]) -> Self {
        let [first, second] = USERS.each_ref().map(|users| users.load(Ordering::Relaxed));
        let second = second < first;
        USERS[usize::from(second)].fetch_add(1, Ordering::Relaxed);
        Self { deviations, second }
    }

    async fn connection_string(&self) -> String {
        static SECOND: OnceLock<Azurite> = OnceLock::new();
        if !self.second {
            return connection_string().await;
        }
        let start = || SECOND.get_or_init(|| Azurite::start().expect("a second emulator"));
        tokio::task::spawn_blocking(start)
            .await
            .expect("the emulator runs")
            .connection_string()
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        USERS[usize::from(self.second)].fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Backend for Emulated {
    async fn store(&self) -> Arc<dyn TableStore> {
        let store = AzureTableStore::from_connection_string(&self.connection_string().await, None);
        Arc::new(store.expect("the emulator's connection string"))
    }

    fn blobs(&self) -> BoxFuture<'static, Arc<dyn ObjectStore>> {
        emulated_blobs().boxed()
    }

    fn deviations(&self) -> &[Deviation] {
        if Azurite::is_replaced() {
            &[]
        } else {
            self.deviations
        }
    }

    fn scale(&self) -> Scale {
        Scale::MODERATE
    }
}

/// This library's server in memory, on a separate thread that ends with the process.
pub(crate) fn server() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(TestServer::start_on_thread)
}

/// This library's server through the Azure store, without deviations.
pub(crate) struct Served;

#[async_trait]
impl Backend for Served {
    async fn store(&self) -> Arc<dyn TableStore> {
        let store = AzureTableStore::from_connection_string(&server().connection_string(), None);
        Arc::new(store.expect("the server's connection string"))
    }

    fn scale(&self) -> Scale {
        Scale::MODERATE
    }
}
