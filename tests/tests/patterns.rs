//! The suite of the patterns: in memory, in the embedded store, and on Azurite.

use std::sync::Arc;

use conformance::{Backend, Scale, async_trait, pattern_tests};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use object_store::ObjectStore;
use table_core::store::TableStore;

mod memory {
    use table_core::memory::MemoryStore;

    use super::*;

    struct Memory;

    #[async_trait]
    impl Backend for Memory {
        async fn store(&self) -> Arc<dyn TableStore> {
            Arc::new(MemoryStore::new())
        }
    }

    pattern_tests!(Memory);
}

mod embedded {
    use object_store::local::LocalFileSystem;
    use table_embedded::EmbeddedStore;
    use tempfile::TempDir;

    use super::*;

    /// A store in a directory of its own, which goes with it.
    struct Embedded(TempDir);

    impl Embedded {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }
    }

    #[async_trait]
    impl Backend for Embedded {
        async fn store(&self) -> Arc<dyn TableStore> {
            let store = EmbeddedStore::builder(self.0.path().join("store")).open().await;
            Arc::new(store.expect("a new store"))
        }

        fn blobs(&self) -> BoxFuture<'static, Arc<dyn ObjectStore>> {
            let blobs = LocalFileSystem::new_with_prefix(self.0.path()).expect("a blob store");
            async { Arc::new(blobs) as Arc<dyn ObjectStore> }.boxed()
        }

        fn scale(&self) -> Scale {
            Scale::MODERATE
        }
    }

    pattern_tests!(Embedded::new());
}

mod azurite {
    use conformance::azurite::Azurite;
    use conformance::blobs::azure_container;
    use table_azure::AzureTableStore;

    use super::*;

    struct Emulated;

    #[async_trait]
    impl Backend for Emulated {
        async fn store(&self) -> Arc<dyn TableStore> {
            let emulator = tokio::task::spawn_blocking(Azurite::shared).await.expect("the emulator runs");
            let store = AzureTableStore::from_connection_string(&emulator.connection_string(), None);
            Arc::new(store.expect("the emulator's connection string"))
        }

        fn blobs(&self) -> BoxFuture<'static, Arc<dyn ObjectStore>> {
            let opened = async {
                let emulator = tokio::task::spawn_blocking(Azurite::shared).await.expect("the emulator runs");
                azure_container(&emulator.connection_string(), "patterns").await
            };
            opened.map(|blobs| blobs.expect("the emulator's container")).boxed()
        }

        fn scale(&self) -> Scale {
            Scale::MODERATE
        }
    }

    pattern_tests!(Emulated);
}
