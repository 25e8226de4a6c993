//! The suite of encrypted properties in memory, in the embedded store and on Azurite. The suites of stores and
//! of patterns also run behind encryption, and must not notice it.

use std::sync::Arc;

use conformance::{Backend, Scale, async_trait, conformance_tests, encryption_tests, pattern_tests};
use table_core::memory::MemoryStore;
use table_core::store::TableStore;
use table_encryption::{AesKeyWrap, EncryptedStore, Keys};

use crate::backends::{Embedded, Emulated, Memory};

mod memory {
    use super::*;

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
        Scale { steps: 1000, faults: Some(1), ..Scale::FULL }
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
    use super::*;

    encryption_tests!(Embedded::new());
}

mod azurite {
    use super::*;

    encryption_tests!(Emulated(&[]));
}
