//! The suite on the embedded store: acknowledged writes on disk, and every other mode it has.

use std::sync::Arc;

use conformance::{Backend, Scale, async_trait, conformance_tests};
use table_core::store::TableStore;
use table_embedded::{Durability, EmbeddedStore, Reads};
use tempfile::TempDir;

/// A store in a directory of its own, which goes with it.
struct Embedded {
    directory: TempDir,
    durability: Durability,
    reads: Reads,
    scale: Scale,
}

impl Embedded {
    fn durable() -> Self {
        Self::new(Durability::Immediate, Reads::Inline, Scale { tables: 20, ..Scale::FULL })
    }

    fn relaxed() -> Self {
        Self::new(Durability::Relaxed, Reads::Blocking, Scale::MODERATE)
    }

    fn new(durability: Durability, reads: Reads, scale: Scale) -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), durability, reads, scale }
    }
}

#[async_trait]
impl Backend for Embedded {
    async fn store(&self) -> Arc<dyn TableStore> {
        let builder = EmbeddedStore::builder(self.directory.path().join("store"));
        let store = builder.durability(self.durability).reads(self.reads).open().await;
        Arc::new(store.expect("a new store"))
    }

    fn scale(&self) -> Scale {
        self.scale
    }
}

mod durable {
    use super::*;

    conformance_tests!(Embedded::durable());
}

mod relaxed {
    use super::*;

    conformance_tests!(Embedded::relaxed());
}
