//! Encrypted properties: their own suite in memory, in the embedded store, and on Azurite; and the suites of stores and of
//! patterns, which must not notice that there is encryption.

use std::sync::Arc;

use conformance::{Backend, Scale, async_trait, conformance_tests, encryption_tests, pattern_tests};
use table_core::memory::MemoryStore;
use table_core::store::TableStore;
use table_encryption::{AesKeyWrap, EncryptedStore, Keys};

mod memory {
    use super::*;

    struct Memory;

    #[async_trait]
    impl Backend for Memory {
        async fn store(&self) -> Arc<dyn TableStore> {
            Arc::new(MemoryStore::new())
        }
    }

    encryption_tests!(Memory);
}

/// The memory store behind encryption.
struct Encrypted;

#[async_trait]
impl Backend for Encrypted {
    async fn store(&self) -> Arc<dyn TableStore> {
        let kek = AesKeyWrap::new("kek", &vec![1; 32].into()).expect("32 bytes");
        Arc::new(EncryptedStore::new(MemoryStore::new(), Keys::new(Arc::new(kek))).expect("sound keys"))
    }

    fn scale(&self) -> Scale {
        Scale { steps: 1000, ..Scale::FULL }
    }
}

mod stores {
    use super::*;

    conformance_tests!(Encrypted);
}

mod patterns {
    use super::*;

    pattern_tests!(Encrypted);
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

    encryption_tests!(Embedded::new());
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

    encryption_tests!(Emulated);
}
