//! The suite of the patterns: in memory, in the embedded store, and on Azurite.

use std::sync::Arc;

use conformance::{Backend, Scale, async_trait, pattern_tests};
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

        fn scale(&self) -> Scale {
            Scale::MODERATE
        }
    }

    pattern_tests!(Embedded::new());
}

mod azurite {
    use conformance::azurite::Azurite;
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

        fn scale(&self) -> Scale {
            Scale::MODERATE
        }
    }

    pattern_tests!(Emulated);
}
